#pragma once

#include <cstdint>

#include "orrery/hardware/device.h"
#include "orrery/kernel/kernel.h"

namespace orrery {

/// How XLA runs a kernel, as far as that decides its memory.
struct LibraryCall {
  bool is_call = false;   ///< Of a library: gives a tuple of its result and its workspace.
  int64_t workspace = 0;  ///< Bytes.
};

/// Whether tiles of 128×256 of a product fill the device just once: a generated kernel is then as
/// fast as the library's.
bool fills_device_once(const ProductShape& product, const Device& device);

/// Matrix products go to cuBLAS, which gets 32 MiB of workspace, or to a generated
/// kernel, which gets none: XLA tries both and takes the faster. The rule here is
/// read off what it chose on an H200 for half of the products of a hundred programs; of
/// the other half it tells nine in ten right. cuBLAS gets large products whose rows in memory
/// are `aligned`, multiples of 8 elements long, unless tiles of 128×256 just fill the
/// device once. A product that is split along its sum counts as a whole. A grouped product
/// becomes one product whose rows are repeated for every group (RaggedDotRewriter of
/// openxla/xla).
///
/// Convolutions go to cuDNN. In 16 bits it copies an input or output whose channels are no
/// multiple of 8, and the filter, with channels added (of a forward convolution only with 64
/// outputs and more: below that it does without matrix units); the gradient of a depthwise
/// filter is summed in 8 parts an image, in 32 bits. Both are exact for the convolutions seen.
/// What other algorithms need, some MB at most there, is counted as none. Off NVIDIA, no
/// workspace.
LibraryCall library_call(const Kernel& kernel, const Device& device, bool aligned);

}  // namespace orrery
