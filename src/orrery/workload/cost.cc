#include "orrery/workload/cost.h"

namespace orrery {
Cost cost(const Workload&, OpId) { return {}; }
TotalCost total_cost(const Workload&, FunctionId) { return {}; }
}  // namespace orrery
