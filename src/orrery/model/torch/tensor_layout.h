#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "orrery/workload/workload.h"

namespace orrery {

/// Where the elements of a PyTorch tensor lie: strides in elements, 0 along dimensions that are
/// repeated without being stored.
struct TensorLayout {
  std::vector<int64_t> dims, strides;

  static TensorLayout contiguous(std::span<const int64_t> dims);
  /// By its minor-to-major order, where the type has one.
  static TensorLayout of(const Type& type);

  TensorLayout permuted(std::span<const int64_t> order) const;
  /// The same elements under other sizes; nothing where they must be moved for it, as
  /// `Tensor.view` would refuse (ATen/TensorUtils.cpp, computeStride).
  std::optional<TensorLayout> viewed_as(std::span<const int64_t> sizes) const;
  /// Every element of it stored side by side, in whatever order of dimensions.
  bool is_dense() const;
  bool is_contiguous() const;
  /// A dense layout of the same sizes that keeps the order in which dimensions lie.
  TensorLayout made_dense() const;
  /// Elements that are stored: without the repeated ones.
  int64_t stored() const;
  /// Elements side by side in memory along the innermost dimensions.
  int64_t run() const;
  /// Whether both walk through memory alike; dimensions of size one count nowhere.
  bool steps_like(const TensorLayout& other) const;
};

}  // namespace orrery
