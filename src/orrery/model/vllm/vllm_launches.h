#pragma once

#include <memory>

#include "orrery/model/library_launches.h"

namespace orrery {

/// The kernels that vLLM launches for a language model, where they are not what its compiler
/// (Inductor, Stack::rules) makes of the operations:
///
///   - projections of one input that vLLM keeps as one weight are one product: queries, keys and
///     values; gate and up; DeepSeek's two down-projections. A bias is added by the product;
///     activations of narrow products are quantised in the product's own time, as the tables that
///     its fits were made from measure it;
///   - a residual is added by the norm that reads the sum, over the border of two layers too;
///   - queries and keys are rotated by one kernel, from tables that are made beforehand;
///   - keys and values are written to the paged cache by one kernel, then read from there by
///     attention;
///   - experts: scores and their choice are one kernel, everything from the rows' order to their
///     weighed sum one block (fused_moe), which the kernel model knows as a whole;
///   - the logits become fp32 and the largest of a row is the next token.
///
/// Sources: vLLM's model_executor/models (packed_modules_mapping), model_executor/layers,
/// v1/attention and v1/sample; times of the same operators in public profiles (docs/validation.md).
std::unique_ptr<LibraryLaunches> vllm_launches(const Workload& workload);

/// Whether a step is replayed as a CUDA graph: one of 512 tokens (the elements of `input_ids`) and
/// fewer, the largest of vLLM's capture sizes by default (vllm/config, cudagraph_capture_sizes).
bool is_captured(const Workload& workload);

}  // namespace orrery
