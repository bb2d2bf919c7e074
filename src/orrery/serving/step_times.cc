#include "orrery/serving/step_times.h"

#include <algorithm>
#include <cmath>

namespace orrery {

int64_t KvRoom::needed(int64_t n) const {
  int64_t sum = (n + tokens - 1) / tokens + fixed;
  if (windowed > 0) {
    const int64_t seen = (std::min(n, window) + tokens - 1) / tokens;
    sum += static_cast<int64_t>(std::ceil(windowed * static_cast<double>(seen)));
  }
  return sum;
}

}  // namespace orrery
