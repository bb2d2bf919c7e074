#include "orrery/workload/cost_formula.h"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

// Counted from the definitions.
constexpr PerElement kSoftmax{4, 1};             // maximum, subtract, exponential, add, divide
constexpr PerElement kLayerNorm{8, 0};           // mean 1; variance 3; normalise 2; scale, shift
constexpr PerElement kRmsNorm{4, 0};             // square, add, normalise, scale
constexpr PerElement kBatchNormInference{4, 0};  // subtract, multiply, scale, shift
constexpr PerElement kNormBackward{14, 0};  // two reductions of two products, dx from four terms
constexpr PerElement kGelu{4, 1};           // x·(1 + erf(x/√2))/2
constexpr PerElement kSilu{1, 1};           // x·logistic(x)

/// Multiplications and additions a complex number takes for each real one.
double complex_factor(ElementType type, bool product) {
  return is_complex(type) ? (product ? 4 : 2) : 1;
}

}  // namespace

PerElement elementwise_work(Opcode code, ElementType element) {
  switch (code) {
    case Opcode::k_gelu:
      return kGelu;
    case Opcode::k_silu:
      return kSilu;
    default:
      if (op_class(code) == OpClass::kVector)
        return {complex_factor(element, code == Opcode::k_multiply), 0};
      return {0, complex_factor(element, false)};
  }
}

PerElement row_work(Opcode code, double length) {
  switch (code) {
    case Opcode::k_sort:
      return {std::log2(std::max(2.0, length)), 0};
    case Opcode::k_top_k:
      return {1 + std::log2(std::max(1.0, length)), 0};
    case Opcode::k_softmax:
      return kSoftmax;
    case Opcode::k_layer_norm:
    case Opcode::k_group_norm:
    case Opcode::k_batch_norm_training:
      return kLayerNorm;
    case Opcode::k_rms_norm:
      return kRmsNorm;
    case Opcode::k_batch_norm_inference:
      return kBatchNormInference;
    case Opcode::k_batch_norm_grad:
    case Opcode::k_normalization_backward:
      return kNormBackward;
    default:
      return {1, 0};  // arg_max, cumsum, unary_einsum: one an input element
  }
}

void add_work(Cost& cost, double count, PerElement work) {
  cost.vector_flops += count * work.vector;
  cost.transcendental_flops += count * work.transcendental;
}

void add_products(Cost& cost, double products, ElementType type) {
  cost.matrix_type = type;
  cost.matrix_flops += 2 * products * complex_factor(type, true);
}

ElementType wider_type(ElementType lhs, ElementType rhs) {
  return bit_width(lhs) >= bit_width(rhs) ? lhs : rhs;
}

AttentionMask attention_mask(double queries, double keys, bool causal, double window) {
  const double s = queries, t = keys;
  AttentionMask mask;
  mask.pairs = causal ? s * (t - s) + s * (s + 1) / 2 : s * t;
  if (window > 0 && window < t) {
    // Queries late enough see a full window; the first ones (causal, near the
    // start of the context) see fewer keys.
    const double first_sees = t - s + 1;
    const double ramp = causal ? std::clamp(window - first_sees, 0.0, s) : 0;
    mask.pairs = std::min(mask.pairs, (s - ramp) * window + ramp * (first_sees + window - 1) / 2);
    mask.unseen = std::max(0.0, 1 - (s + window - 1) / t);
  }
  mask.pairs = std::max(mask.pairs, 0.0);
  return mask;
}

void add_attention(Cost& cost, double heads, double pairs, double depths, ElementType type,
                   double factor) {
  add_products(cost, factor * heads * pairs * depths, type);
  cost.vector_type = ElementType::kF32;
  add_work(cost, factor * heads * pairs, kSoftmax);
}

double active_share(double groups, double rows, double active) {
  if (active < 0) active = std::floor(std::min(groups, rows));
  return std::clamp(active / groups, 0.0, 1.0);
}

bool moves_unit_dimensions_only(std::span<const int64_t> dims, std::span<const int64_t> order) {
  int64_t last = -1;
  for (int64_t d : order) {
    if (d < 0 || d >= static_cast<int64_t>(dims.size()) || dims[static_cast<size_t>(d)] == 1)
      continue;
    if (d < last) return false;
    last = d;
  }
  return true;
}

void drop_unused_types(Cost& cost) {
  if (cost.matrix_flops == 0) cost.matrix_type = ElementType::kNone;
  if (cost.vector_flops == 0 && cost.transcendental_flops == 0)
    cost.vector_type = ElementType::kNone;
}

}  // namespace orrery
