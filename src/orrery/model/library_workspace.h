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

/// Matrix products go to cuBLAS, which gets 32 MiB of workspace, or to a generated
/// kernel, which gets none: XLA tries both and takes the faster. The rule here is
/// read off what it chose for 6,300 products of fifty models on an H200: large
/// products with sides that are multiples of 8 go to cuBLAS unless tiles of
/// 128×256 just fill the device once. A grouped product becomes one product whose
/// rows are repeated for every group (RaggedDotRewriter of openxla/xla). Convolutions go to cuDNN;
/// the workspace of its algorithms is not known and counted as none. Off NVIDIA, no workspace.
LibraryCall library_call(const Kernel& kernel, const Device& device);

}  // namespace orrery
