#include "orrery/model/torch/tensor_layout.h"

#include <algorithm>
#include <numeric>

namespace orrery {
namespace {

/// Dimensions of more than one element, the slowest first.
std::vector<size_t> slowest_first(const TensorLayout& layout) {
  std::vector<size_t> order;
  for (size_t d = 0; d < layout.dims.size(); ++d)
    if (layout.dims[d] != 1) order.push_back(d);
  std::ranges::stable_sort(order, std::greater(), [&](size_t d) { return layout.strides[d]; });
  return order;
}

}  // namespace

TensorLayout TensorLayout::contiguous(std::span<const int64_t> dims) {
  TensorLayout layout{{dims.begin(), dims.end()}, std::vector<int64_t>(dims.size())};
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    layout.strides[d] = stride;
    stride *= std::max<int64_t>(1, dims[d]);
  }
  return layout;
}

TensorLayout TensorLayout::of(const Type& type) {
  TensorLayout layout = contiguous(type.dims);
  if (type.minor_to_major.size() != type.dims.size()) return layout;
  int64_t stride = 1;
  for (const int64_t d : type.minor_to_major) {
    if (d < 0 || d >= type.rank()) return contiguous(type.dims);
    layout.strides[static_cast<size_t>(d)] = stride;
    stride *= std::max<int64_t>(1, type.dims[static_cast<size_t>(d)]);
  }
  return layout;
}

TensorLayout TensorLayout::permuted(std::span<const int64_t> order) const {
  TensorLayout layout;
  for (const int64_t d : order) {
    layout.dims.push_back(dims[static_cast<size_t>(d)]);
    layout.strides.push_back(strides[static_cast<size_t>(d)]);
  }
  return layout;
}

std::optional<TensorLayout> TensorLayout::viewed_as(std::span<const int64_t> sizes) const {
  TensorLayout view{{sizes.begin(), sizes.end()}, std::vector<int64_t>(sizes.size(), 1)};
  if (stored() == 0) return contiguous(sizes);
  // Runs of dimensions that follow each other in memory are cut anew, from the fastest.
  auto to = static_cast<int64_t>(sizes.size()) - 1;
  int64_t elements = 1;
  int64_t base = dims.empty() ? 1 : strides.back();
  int64_t taken = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    elements *= dims[d];
    const bool last_of_run = d == 0 || (dims[d - 1] != 1 && strides[d - 1] != elements * base);
    if (!last_of_run) continue;
    while (to >= 0 && (taken < elements || sizes[static_cast<size_t>(to)] == 1)) {
      view.strides[static_cast<size_t>(to)] = taken * base;
      taken *= sizes[static_cast<size_t>(to)];
      --to;
    }
    if (taken != elements) return std::nullopt;
    if (d > 0) {
      base = strides[d - 1];
      elements = taken = 1;
    }
  }
  return to < 0 ? std::optional(std::move(view)) : std::nullopt;
}

bool TensorLayout::is_dense() const {
  int64_t stride = 1;
  const std::vector<size_t> order = slowest_first(*this);
  for (size_t i = order.size(); i-- > 0;) {
    if (strides[order[i]] != stride) return false;
    stride *= dims[order[i]];
  }
  return true;
}

bool TensorLayout::is_contiguous() const { return steps_like(contiguous(dims)); }

TensorLayout TensorLayout::made_dense() const {
  TensorLayout layout = contiguous(dims);
  int64_t stride = 1;
  const std::vector<size_t> order = slowest_first(*this);
  for (size_t i = order.size(); i-- > 0;) {
    layout.strides[order[i]] = stride;
    stride *= dims[order[i]];
  }
  return layout;
}

int64_t TensorLayout::stored() const {
  int64_t n = 1;
  for (size_t d = 0; d < dims.size(); ++d)
    if (strides[d] != 0 || dims[d] == 0) n *= dims[d];
  return n;
}

int64_t TensorLayout::run() const {
  int64_t n = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    if (dims[d] == 1) continue;
    if (strides[d] != n) break;
    n *= dims[d];
  }
  return n;
}

bool TensorLayout::steps_like(const TensorLayout& other) const {
  if (dims.size() != other.dims.size()) return false;
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] != 1 && strides[d] != other.strides[d]) return false;
  return true;
}

}  // namespace orrery
