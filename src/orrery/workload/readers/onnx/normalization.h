#pragma once

#include "orrery/workload/readers/onnx/operator.h"

namespace orrery::onnx {

/// layer_norm or rms_norm of `operands` (x, scale, bias) over `axes`; further
/// results are the saved statistics, one number a row.
std::vector<ValueId> normalize(NodeContext& c, Opcode code, std::span<const ValueId> operands,
                               const Dims& axes, double epsilon, size_t results);

}  // namespace orrery::onnx
