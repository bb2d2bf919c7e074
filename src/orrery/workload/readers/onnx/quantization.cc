// Numbers stored in few bits and their scales.
#include <numeric>

#include "orrery/workload/readers/onnx/operator.h"

namespace orrery::onnx {
namespace {

std::vector<ValueId> all_operands(NodeContext& c) {
  std::vector<ValueId> operands;
  for (size_t i = 0; i < c.input_count(); ++i)
    if (c.has_input(i)) operands.push_back(c.operand(i));
  return operands;
}

void quantize_linear(NodeContext& c) {
  c.expect_inputs(2);
  ElementType element = ElementType::kU8;
  if (c.has_input(2))
    element = c.element(2);
  else if (const int64_t given = c.integer("output_dtype", 0); given != 0)
    element = c.data_type(given);
  const auto operands = all_operands(c);
  c.set(0, c.emit(Opcode::k_uniform_quantize, operands, c.type(element, c.dims(0))));
}

void dequantize_linear(NodeContext& c) {
  c.expect_inputs(2);
  ElementType element = c.element(1);
  if (const int64_t given = c.integer("output_dtype", 0); given != 0) element = c.data_type(given);
  const auto operands = all_operands(c);
  c.set(0, c.emit(Opcode::k_uniform_dequantize, operands, c.type(element, c.dims(0))));
}

/// Range of the input, then a scale and zero point from it, then the rounding.
void dynamic_quantize_linear(NodeContext& c) {
  const ElementType element = c.element(0);
  const ValueId x = c.operand(0);
  Dims axes(c.rank(0));
  std::iota(axes.begin(), axes.end(), 0);
  const ValueId high = c.reduce(Opcode::k_maximum, x, axes, false);
  const ValueId low = c.reduce(Opcode::k_minimum, x, axes, false);
  const ValueId range = c.elementwise(Opcode::k_subtract, {high, low});
  const ValueId scale = c.elementwise(Opcode::k_multiply, {range, c.number(element, 1.0 / 255)});
  const ValueId offset = c.elementwise(Opcode::k_divide, {low, scale});
  const ValueId zero = c.convert(offset, ElementType::kU8);
  c.set(0, c.emit(Opcode::k_uniform_quantize, {x, scale, zero}, ElementType::kU8, c.dims(0)));
  c.set(1, scale);
  c.set(2, zero);
}

constexpr OperatorRule kRules[] = {
    {"DequantizeLinear", dequantize_linear},
    {"DynamicQuantizeLinear", dynamic_quantize_linear},
    {"QuantizeLinear", quantize_linear},
};

}  // namespace

std::span<const OperatorRule> quantization_rules() { return kRules; }

}  // namespace orrery::onnx
