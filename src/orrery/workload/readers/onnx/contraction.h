#pragma once

#include "orrery/workload/readers/onnx/operator.h"

namespace orrery::onnx {

/// Where a window goes over the spatial dimensions, with `auto_pad` resolved.
struct Window {
  Dims size, strides, dilations, low, high;
  Dims output;  ///< Spatial sizes of the result.
};

/// Reads kernel_shape, strides, dilations, pads, auto_pad and ceil_mode for a
/// window over `spatial`; `size` overrides kernel_shape where not empty.
Window read_window(NodeContext& c, const Dims& spatial, const Dims& size);

/// NumPy's matmul of two tensors as one dot_general. Batch dimensions that only
/// one side has become free ones of that side, so nothing is broadcast; where
/// the natural order of the result differs, its layout says so and a bitcast
/// names the dimensions as asked. `result` is the element type of the product.
ValueId matmul(NodeContext& c, ValueId lhs, ValueId rhs, ElementType result);

/// lhs·rhs with explicit dimension numbers; result [batching…, lhs free…, rhs free…].
struct DotDimensions {
  Dims lhs_batching, rhs_batching, lhs_contracting, rhs_contracting;
};
ValueId dot_general(NodeContext& c, ValueId lhs, ValueId rhs, const DotDimensions& dimensions,
                    ElementType result, const Dims& minor_to_major = {});

/// The same numbers under other dimensions, where the memory order stays: a
/// reshape whose source or result has a layout.
ValueId bitcast(NodeContext& c, ValueId value, const Dims& dims, const Dims& minor_to_major = {});

/// Adds a per-channel vector to dimension 1.
ValueId add_channel_bias(NodeContext& c, ValueId value, ValueId bias);

/// A convolution of [N, C, spatial…] with [M, C/groups, spatial…].
ValueId convolve(NodeContext& c, ValueId input, ValueId kernel, const Window& window,
                 int64_t groups, ElementType result, const Dims& base_dilation = {});

}  // namespace orrery::onnx
