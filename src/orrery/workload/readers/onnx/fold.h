#pragma once

#include <optional>

#include "orrery/workload/readers/onnx/operator.h"

namespace orrery::onnx {

/// The number of elements, when few enough for a Constant.
inline std::optional<size_t> foldable_elements(const Dims& dims) {
  int64_t count = 1;
  for (int64_t d : dims) {
    if (d < 0 || d > kMaxConstantElements) return std::nullopt;
    count *= d;
    if (count > kMaxConstantElements) return std::nullopt;
  }
  return static_cast<size_t>(count);
}

/// Position in a row-major tensor of shape `from`, broadcast to `to`, of the
/// element at position `flat` of `to`.
inline size_t broadcast_position(const Dims& to, const Dims& from, size_t flat) {
  size_t position = 0;
  size_t stride = 1;
  for (size_t i = 0; i < from.size(); ++i) {
    const auto size = static_cast<size_t>(to[to.size() - 1 - i]);
    const auto own = static_cast<size_t>(from[from.size() - 1 - i]);
    const size_t index = flat % size;
    flat /= size;
    if (own != 1) position += index * stride;
    stride *= own;
  }
  return position;
}

/// The element's index along each dimension.
inline Dims unravel(const Dims& dims, size_t flat) {
  Dims index(dims.size());
  for (size_t i = dims.size(); i-- > 0;) {
    const auto size = static_cast<size_t>(dims[i]);
    index[i] = static_cast<int64_t>(flat % size);
    flat /= size;
  }
  return index;
}

inline size_t ravel(const Dims& dims, const Dims& index) {
  size_t flat = 0;
  for (size_t i = 0; i < dims.size(); ++i)
    flat = flat * static_cast<size_t>(dims[i]) + static_cast<size_t>(index[i]);
  return flat;
}

}  // namespace orrery::onnx
