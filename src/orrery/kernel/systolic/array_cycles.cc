#include "orrery/kernel/systolic/array_cycles.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "orrery/kernel/describe.h"

namespace orrery {
namespace {

int64_t up(int64_t n, int64_t d) { return n / d + (n % d > 0 ? 1 : 0); }

/// The least time over how many pieces streams are cut into: whole pieces an array, each
/// `of_stream(steps)` cycles.
template <class OfStream>
double soonest(const Folding& folding, int64_t arrays, double products, const OfStream& of_stream) {
  double least = std::numeric_limits<double>::infinity();
  for (int64_t pieces = 1; pieces <= arrays; ++pieces) {
    const double all = products * static_cast<double>(folding.folds) * static_cast<double>(pieces);
    const double rounds = std::ceil(all / static_cast<double>(arrays));
    least = std::min(least, of_stream(rounds, static_cast<double>(up(folding.stream, pieces))));
  }
  return least;
}

}  // namespace

Folding fold(Dataflow dataflow, const SystolicArray& array, const ProductSize& p) {
  const bool output = dataflow == Dataflow::kOutput;
  const int64_t down = output ? p.m : p.k;
  const int64_t across = dataflow == Dataflow::kInput ? p.m : p.n;
  Folding f;
  f.stream = output ? p.k : dataflow == Dataflow::kInput ? p.n : p.m;
  const int64_t by_rows = up(down, array.rows), by_columns = up(across, array.columns);
  f.folds = joined(by_rows, by_columns);
  f.fill_and_drain = (output ? 1 : 2) * array.rows + array.columns - 2;
  if (f.folds > 0)
    f.mapped = static_cast<double>(down) / static_cast<double>(by_rows * array.rows) *
               (static_cast<double>(across) / static_cast<double>(by_columns * array.columns));
  return f;
}

int64_t isolated_cycles(const Folding& f) {
  return f.folds == 0 ? 0 : joined(f.folds, f.stream + f.fill_and_drain) - 1;
}

double overlapped_cycles(const Folding& f, const SystolicArray& array, int64_t arrays,
                         double products) {
  if (f.folds == 0 || products <= 0) return 0;
  return soonest(f, arrays, products, [&](double rounds, double steps) {
    return rounds * std::max(steps, static_cast<double>(array.rows)) +
           static_cast<double>(f.fill_and_drain);
  });
}

double separate_cycles(const Folding& f, int64_t arrays, double products) {
  if (f.folds == 0 || products <= 0) return 0;
  return soonest(f, arrays, products, [&](double rounds, double steps) {
    return rounds * (steps + static_cast<double>(f.fill_and_drain));
  });
}

}  // namespace orrery
