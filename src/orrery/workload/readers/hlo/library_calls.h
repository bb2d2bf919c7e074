#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "orrery/workload/workload_builder.h"

namespace orrery::hlo {

/// Gives the open custom call to a GPU library the attributes that the plain
/// operation would have, from XLA's backend configuration (backend_configs.proto):
///   `__cublas$…`, `__triton_gemm`  dimension numbers and precision of the dot
///   `__cudnn$fmha…`                scores, heads, causal mask, window; the width of a head is
///                                  the operand's elements over batch · heads · queries
///   `TopK`, `__gpu$TopK`           k and its dimension
/// A configuration that is missing or not as expected gives a note.
void describe_library_call(WorkloadBuilder& builder, std::span<const ValueId> operands,
                           TypeId result, std::string_view target, std::string_view config);

/// Which product of a convolution a call to cuDNN computes. Its window and
/// dim_labels are always those of the forward convolution; for a gradient they are
/// turned so that operands 0 and 1 are input and kernel, as in any convolution.
enum class ConvolutionCall : uint8_t { kForward, kInputGradient, kKernelGradient };
ConvolutionCall convolution_call(std::string_view target);

/// The iterations of a `while`, from `{"known_trip_count":{"n":"32"}}`.
std::optional<int64_t> known_trip_count(std::string_view config);

/// The element type a dot `algorithm` multiplies in: `dot_tf32_tf32_f32` or
/// `ALG_DOT_TF32_TF32_F32`; nothing where the operands' own types say it.
std::optional<ElementType> algorithm_compute_type(std::string_view algorithm);
/// How many products it takes for one: 3 for `dot_bf16_bf16_f32_x3`.
int algorithm_passes(std::string_view algorithm);

}  // namespace orrery::hlo
