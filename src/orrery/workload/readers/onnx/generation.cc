// Random numbers.
#include "orrery/workload/readers/onnx/operator.h"

namespace orrery::onnx {
namespace {

ValueId random(NodeContext& c, ElementType element, const Dims& dims) {
  const ValueId low = c.number(element, 0), high = c.number(element, 1);
  return c.emit(Opcode::k_rng, {low, high}, element, dims);
}

void random_tensor(NodeContext& c) {
  const auto shape = c.integer_list("shape");
  if (!shape) c.fail("attribute 'shape' is missing");
  c.set(0, random(c, c.data_type(c.integer("dtype", 1)), *shape));
}

ElementType like_type(NodeContext& c) {
  return c.has_attribute("dtype") ? c.data_type(c.integer("dtype", 1)) : c.element(0);
}

void random_like(NodeContext& c) { c.set(0, random(c, like_type(c), c.dims(0))); }

void bernoulli(NodeContext& c) {
  const ValueId draw = random(c, c.element(0), c.dims(0));
  const ValueId hit = c.compare("LT", draw, c.operand(0));
  c.set(0, c.convert(hit, like_type(c)));
}

/// Cumulative probabilities, searched for each draw.
void multinomial(NodeContext& c) {
  if (c.rank(0) != 2) c.fail("[batch, classes] is expected");
  const int64_t samples = c.integer("sample_size", 1);
  const ElementType element = c.element(0);
  const ValueId weights = c.elementwise(Opcode::k_exponential, {c.operand(0)});
  const ValueId sums = c.emit(Opcode::k_cumsum, {weights}, element, c.dims(0),
                              [](WorkloadBuilder& b) { b.set_ints(Attr::kDimensions, {1}); });
  const ValueId draws = random(c, element, {c.dims(0)[0], samples, 1});
  const ValueId below = c.compare("LT", c.reshape(sums, {c.dims(0)[0], 1, c.dims(0)[1]}), draws);
  const ElementType result = c.data_type(c.integer("dtype", 6));
  c.set(0, c.reduce(Opcode::k_add, c.convert(below, result), {2}, false));
}

constexpr OperatorRule kRules[] = {
    {"Bernoulli", bernoulli},         {"Multinomial", multinomial},
    {"RandomNormal", random_tensor},  {"RandomNormalLike", random_like},
    {"RandomUniform", random_tensor}, {"RandomUniformLike", random_like},
};

}  // namespace

std::span<const OperatorRule> generation_rules() { return kRules; }

}  // namespace orrery::onnx
