#include "orrery/api/placement.h"

#include <algorithm>

namespace orrery {

double place_step(std::span<const QueuedWork> work, double step_s, std::span<PlacedWork> placed) {
  double host = 0;
  for (size_t i = 0; i < work.size(); ++i) {
    placed[i].host_start_s = host;
    host += work[i].count * work[i].dispatch_s;
    placed[i].host_end_s = host;
  }
  // The latest end of the stream that any dispatch forces, were the stream otherwise free.
  double latest = 0;
  double behind = 0;
  for (size_t i = work.size(); i-- > 0;) {
    const double one = work[i].kernel_s + work[i].gap_s;
    latest = std::max(latest, placed[i].host_end_s + one + behind);
    behind += work[i].count * one;
    latest = std::max(latest, placed[i].host_start_s + work[i].dispatch_s + behind);
  }
  const double lead = std::max(0.0, latest - step_s);
  double free = lead;
  for (size_t i = 0; i < work.size(); ++i) {
    const QueuedWork& w = work[i];
    const double one = w.kernel_s + w.gap_s;
    placed[i].start_s = std::max(free, placed[i].host_start_s + w.dispatch_s);
    free = std::max(placed[i].start_s + w.count * one, placed[i].host_end_s + one);
    placed[i].end_s = free - w.gap_s;
  }
  return lead;
}

}  // namespace orrery
