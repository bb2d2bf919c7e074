#pragma once

#include "orrery/cluster/nccl/nccl_library.h"

namespace orrery {

/// Which of vLLM's own kernels takes a call: "one-shot", "two-shot", or "" for NCCL. They take
/// all-reduces inside a node of 2, 4, 6 or 8 GPUs that all reach each other, of whole 16 bytes,
/// up to a size that vLLM states by compute capability; one-shot is for two ranks, up to 512 KiB
/// for four and 256 KiB for more.
std::string_view vllm_custom_kernel(const Cluster& cluster, const CollectiveCall& call,
                                    const GroupPlace& place);

}  // namespace orrery
