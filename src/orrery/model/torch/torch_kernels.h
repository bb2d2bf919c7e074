#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "orrery/kernel/kernel.h"
#include "orrery/model/torch/tensor_layout.h"

namespace orrery {

/// A tensor that a kernel reads or writes.
struct TorchTensor {
  ElementType element = ElementType::kNone;
  TensorLayout layout;

  int64_t elements() const;
  /// Of the elements that are stored.
  double bytes() const;
};

/// The kernels that PyTorch's own sources are made of, from sizes alone.
namespace torch_kernels {

/// One thread walks through several elements that lie alike in all tensors (a vectorised loop),
/// or works out each one's address by dividing its number by the sizes (an indexed loop), which
/// bounds it by instructions (ATen/native/cuda/CUDALoops.cuh, Loops.cuh). Widening copies are of
/// the second kind. Scalars are left out of `inputs`.
Kernel elementwise(Opcode code, std::span<const TorchTensor> inputs, const TorchTensor& output);
bool is_vectorized(std::span<const TorchTensor> inputs, const TorchTensor& output);

/// A loop over `elements` that no measured operator is like: bytes, and clocks that an SM takes
/// for one element.
Kernel loop(Opcode code, KernelFamily family, ElementType element, int64_t elements, double read,
            double written, double clocks);

/// Zeros, or another number, in `elements`.
Kernel fill(ElementType element, int64_t elements);

/// A sum along rows of `columns` whose neighbours lie `inner` apart.
Kernel reduction(ElementType element, int64_t rows, int64_t columns, int64_t inner);
/// An operation over rows that keeps their sizes: softmax and norms.
Kernel over_rows(Opcode code, ElementType element, int64_t rows, int64_t columns,
                 int64_t tensors_read = 1);
/// `batch` × [m,k]·[k,n].
Kernel product(ElementType element, int64_t batch, int64_t m, int64_t n, int64_t k);
/// `count` rows of `width` from (or, accumulating, into) a table.
Kernel lookup(ElementType element, int64_t count, int64_t width, int64_t table_rows,
              bool accumulate);

}  // namespace torch_kernels
}  // namespace orrery
