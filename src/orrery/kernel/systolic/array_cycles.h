#pragma once

#include <cstdint>

namespace orrery {

/// Which operand of [m,k]·[k,n] stays in the cells of a systolic array while the others
/// stream through it.
enum class Dataflow : uint8_t { kWeight, kOutput, kInput };

struct SystolicArray {
  int64_t rows = 1, columns = 1;
};

struct ProductSize {
  int64_t m = 1, n = 1, k = 1;
};

/// A product cut into what an array of R × C cells holds at once:
///   weight: ⌈k/R⌉ ⌈n/C⌉ folds that m rows stream through,
///   output: ⌈m/R⌉ ⌈n/C⌉ folds, k steps each,
///   input:  ⌈k/R⌉ ⌈m/C⌉ folds that n columns stream through.
struct Folding {
  int64_t folds = 0;
  int64_t stream = 0;          ///< Steps of one fold.
  int64_t fill_and_drain = 0;  ///< 2R + C − 2 to load the held operand and pass through; of
                               ///< outputs R + C − 2.
  double mapped = 1;           ///< Share of the cells that edge folds leave in use.
};
Folding fold(Dataflow dataflow, const SystolicArray& array, const ProductSize& product);

/// Cycles of one array that loads, runs and drains each fold before the next:
/// folds · (stream + fill and drain) − 1. Samajdar et al., SCALE-Sim (ISPASS 2020), whose
/// version 3 gives just this.
int64_t isolated_cycles(const Folding& folding);

/// Cycles of `arrays` arrays whose cells take the operand of the next fold while the present
/// one streams (Jouppi et al., In-Datacenter Performance Analysis of a Tensor Processing Unit,
/// ISCA 2017, section 2): a fold takes max(stream, rows), fill and drain happen once. There
/// are `products` products of one folding; streams are cut where that ends sooner, for arrays
/// that had no fold of their own.
double overlapped_cycles(const Folding& folding, const SystolicArray& array, int64_t arrays,
                         double products);

/// The same for arrays that do not overlap.
double separate_cycles(const Folding& folding, int64_t arrays, double products);

}  // namespace orrery
