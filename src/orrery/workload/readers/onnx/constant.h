#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "orrery/base/element_type.h"
#include "orrery/base/source.h"
#include "orrery/workload/readers/onnx/model.h"

namespace orrery::onnx {

using Dims = std::vector<int64_t>;

/// Shapes are computed from small tensors; larger ones are never unpacked.
inline constexpr int64_t kMaxConstantElements = 4096;

/// A small tensor whose numbers are known while reading: what shapes, axes,
/// paddings and repeats are computed from.
struct Constant {
  ElementType element = ElementType::kNone;
  Dims dims;
  std::vector<int64_t> integers;  ///< Of integer and bool tensors.
  std::vector<double> reals;      ///< Of floating-point ones.

  bool is_real() const { return is_float(element); }
  size_t size() const { return is_real() ? reals.size() : integers.size(); }
  double real(size_t i) const { return is_real() ? reals[i] : static_cast<double>(integers[i]); }
  /// Rounds towards zero and saturates.
  int64_t integer(size_t i) const;

  /// Room for `dims`' elements, all zero.
  static Constant zeros(ElementType element, Dims dims);
  static Constant scalar(ElementType element, int64_t value);
  static Constant vector(std::vector<int64_t> values);  ///< int64, one dimension.
  /// Sets element `i`, converting to the element type.
  void set(size_t i, double value);
  void set(size_t i, int64_t value);
  /// Copies element `from` of `source`, of the same element type.
  void copy(size_t i, const Constant& source, size_t from);
};

/// Whether a Constant can hold this element type.
bool is_foldable(ElementType element);

/// The numbers of `tensor`, when it has at most `kMaxConstantElements` of a
/// foldable type. External data is read from the file beside the model, unless
/// its name leads out of that folder. Throws when contents and shape disagree.
std::optional<Constant> decode(const Source& source, const Tensor& tensor);

}  // namespace orrery::onnx
