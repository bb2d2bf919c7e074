#include "orrery/cluster/network/flow_system.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "orrery/base/error.h"

namespace orrery::fabric {
namespace {

/// Half an hour at tens of nanoseconds a turn.
constexpr double kMostTurns = 4e10;

/// Rounding of a sum of rates that together fill a link.
constexpr double kFull = 1 + 1e-9;

}  // namespace

double FlowSystem::rate_alone(int flow) const {
  double rate = std::numeric_limits<double>::infinity();
  for (const int l : links_of(flow)) rate = std::min(rate, capacity[static_cast<size_t>(l)]);
  return rate;
}

bool FlowSystem::uncontended() const {
  std::vector<double> asked(capacity.size(), 0);
  for (int i = 0; i < size(); ++i) {
    if (bytes[static_cast<size_t>(i)] == 0) continue;
    const double rate = rate_alone(i);
    for (int e = first_link[static_cast<size_t>(i)]; e < first_link[static_cast<size_t>(i) + 1];
         ++e)
      asked[static_cast<size_t>(link[static_cast<size_t>(e)])] +=
          rate * crossing[static_cast<size_t>(e)];
  }
  for (size_t l = 0; l < asked.size(); ++l)
    if (asked[l] > capacity[l] * kFull) return false;
  return true;
}

void check_work(double turns, double cost) {
  if (turns * cost > kMostTurns)
    throw_infeasible(
        fmt::format("{:.1f} billion transfers that are not alike would have to be simulated one by "
                    "one; use the analytic network or fewer ranks",
                    turns / 1e9));
}

}  // namespace orrery::fabric
