#include "orrery/workload/trip_count.h"

namespace orrery {

void infer_trip_counts(WorkloadBuilder&) {}

}  // namespace orrery
