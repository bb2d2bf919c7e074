#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "orrery/kernel/kernel.h"

namespace orrery {

/// What `kernel_of` and `operator_kernel` share: loops, tensors and shapes of a
/// kernel from sizes alone.

/// A dense tensor's sizes.
struct TensorSize {
  ElementType element = ElementType::kNone;
  int64_t elements = 0;
  int64_t bytes = 0;
};

/// a·b, at most 2^62: an empty tensor may name any sizes beside its 0.
inline int64_t joined(int64_t a, int64_t b) {
  int64_t product = 0;
  constexpr int64_t kMost = int64_t{1} << 62;
  return __builtin_mul_overflow(a, b, &product) ? kMost : std::min(product, kMost);
}

/// Loops batch, m, n, k and their bits in a tensor's projection.
inline constexpr unsigned kBatchLoop = 1, kRowLoop = 2, kColumnLoop = 4, kDepthLoop = 8;

void add_loops(Kernel& kernel, std::initializer_list<LoopDimension> loops);
/// Left out once a kernel holds as many as it can.
void add_tensor(Kernel& kernel, const TensorSize& tensor, unsigned loops, bool written,
                double density = 1);
/// One loop a dimension, leading ones joined when there are more than a kernel holds.
void add_dimension_loops(Kernel& kernel, std::span<const int64_t> dims);
/// Marks the loops of `add_dimension_loops` that stand for these dimensions.
void mark_reduced(Kernel& kernel, size_t rank, std::span<const int64_t> reduced);

/// Loops and operands of batch × [m,k]·[k,n]; the result is added by the caller.
void describe_product(Kernel& kernel, int64_t batch, int64_t m, int64_t n, int64_t k,
                      const TensorSize& lhs, const TensorSize& rhs);
/// As a product, and its shape; of several groups the loop `batch` counts them and
/// m is their mean number of rows.
void describe_product(Kernel& kernel, const ProductShape& shape, const TensorSize& lhs,
                      const TensorSize& rhs);
/// Loops and shape of attention; tensors are added by the caller.
void describe_attention(Kernel& kernel, const AttentionShape& shape);

/// Rows over which an operation along `reduced` runs: columns is the product of the
/// reduced sizes, inner that of the sizes behind the last reduced one. An empty
/// `reduced` leaves every element a row of its own.
RowShape row_shape(std::span<const int64_t> dims, std::span<const int64_t> reduced);

/// A move of a tensor whose dimensions lie in memory, slowest first, in the order
/// `from` and are written in the order `to`; sizes by dimension. Dimensions of size
/// one count nowhere. Both runs are the product of the innermost sizes that keep
/// their place, so that as many elements are read and written side by side; 1 when
/// none keeps it (a transposition proper); all elements when nothing moves.
MoveShape move_shape(std::span<const int64_t> dims, std::span<const int64_t> from,
                     std::span<const int64_t> to);

}  // namespace orrery
