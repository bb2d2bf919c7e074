#include "orrery/model/vllm/vllm_launches.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "orrery/kernel/operator_kernel.h"
#include "orrery/model/torch/pattern_launches.h"
#include "orrery/model/torch/torch_kernels.h"

namespace orrery {
namespace {

namespace kernels = torch_kernels;
using enum Opcode;

/// Projections whose weights vLLM keeps as one, by the name of the module.
std::string_view stacked_as(std::string_view projection) {
  if (projection == "q_proj" || projection == "k_proj" || projection == "v_proj") return "qkv";
  if (projection == "gate_proj" || projection == "up_proj") return "gate_up";
  if (projection == "q_a_proj" || projection == "kv_a_proj_with_mqa") return "qkv_a";
  return "";
}

/// The name of a type as operators have it.
std::string_view plain_name(ElementType type) {
  switch (type) {
    case ElementType::kF16:
      return "fp16";
    case ElementType::kF32:
      return "fp32";
    case ElementType::kF8E4M3FN:
      return "fp8";
    case ElementType::kS8:
      return "int8";
    default:
      return "bf16";
  }
}

class VllmLaunches final : public PatternLaunches {
 public:
  explicit VllmLaunches(const Workload& w) : PatternLaunches(w), captured_(is_captured(w)) {
    for (uint32_t f = 0; f < w.functions().size(); ++f)
      if (w.functions()[f].body.valid()) function(FunctionId{f});
    sample();
  }

 private:
  /// Operands of a product as vLLM sees them.
  struct Product {
    OpId op;
    ValueId input;  ///< Before it is quantised.
    std::string dtype;
    int64_t m = 0, n = 0, k = 0;
  };

  std::string_view argument_name(ValueId v) const {
    const auto found = names_.find(v.index);
    return found == names_.end() ? std::string_view() : found->second;
  }

  // --- a function -------------------------------------------------------------------

  void function(FunctionId id) {
    const Function& f = w_.function(id);
    const Region& body = w_.region(f.body);
    names_.clear();
    for (uint32_t i = 0; i < body.argument_count && i < f.arguments.size(); ++i)
      names_[body.first_argument + i] = w_.string(f.arguments[i].name);
    const std::vector<OpView> ops = operations(id);
    for (const OpView& op : ops)
      if (op.code() == k_grouped_dot) experts(op, ops);
    rotate(ops);
    std::map<std::string, std::vector<Product>> stacks;
    for (const OpView& op : ops) {
      if (decides(op.id())) continue;
      switch (op.code()) {
        case k_dot_general:
        case k_scaled_dot:
          if (auto product = product_of(op)) stack(*product, stacks);
          break;
        case k_attention:
          attention(op);
          break;
        default:
          break;
      }
    }
    for (const auto& [key, products] : stacks) launch(products);
    join_sums_with_norms(id, ops);
    leave_parts_in_place(ops);
    drop_numbers(ops);
  }

  // --- products ---------------------------------------------------------------------

  /// A product with a weight, its activations traced to where they were not yet quantised.
  std::optional<Product> product_of(const OpView& op) {
    if (!op.integers(Attr::kLhsBatching).empty() || op.operand_count() < 2) return std::nullopt;
    const ValueId weight = origin(op.operand(1));
    if (!is_parameter(weight)) return std::nullopt;
    const auto contracted = op.integers(Attr::kLhsContracting);
    const auto contracted_weight = op.integers(Attr::kRhsContracting);
    if (contracted.size() != 1 || contracted_weight.size() != 1) return std::nullopt;
    Product p;
    p.op = op.id();
    p.k = op.operand_type(0).dims[static_cast<size_t>(contracted[0])];
    if (p.k <= 0 || op.operand_type(0).elements <= 0) return std::nullopt;
    p.m = op.operand_type(0).elements / p.k;
    p.n = op.operand_type(1).elements / p.k;
    p.dtype = dtype_of(op, static_cast<size_t>(contracted_weight[0]));
    p.input = unquantised(op.operand(0));
    return p;
  }

  /// The precision of a product as operators are named after it.
  std::string dtype_of(const OpView& op, size_t in_dimension) const {
    const ElementType weight = op.operand_type(1).element;
    const auto compute = static_cast<ElementType>(
        op.integer(Attr::kComputeType, static_cast<int64_t>(op.operand_type(0).element)));
    const bool scaled = op.operand_count() > 2;
    if (bit_width(weight) == 4) {
      if (!is_float(weight)) return "int4_weight";
      return bit_width(compute) == 4 ? "fp4" : "fp4_weight";
    }
    if (bit_width(weight) == 8 && is_float(weight)) {
      const Type* scale = scaled ? &op.operand_type(2) : nullptr;
      const bool blocks =
          scale != nullptr && in_dimension < scale->dims.size() && scale->dims[in_dimension] > 1;
      // Tables time layers with scales for blocks from the host, 59 us at least, which a graph
      // does not wait for: the kernel alone is as long as that of other eight-bit layers.
      return blocks && !(captured_ && op.code() == k_scaled_dot) ? "fp8_block" : "fp8";
    }
    return std::string(plain_name(weight));
  }

  /// Activations x that became x / scale in a narrow type.
  ValueId unquantised(ValueId narrow) const {
    if (bit_width(w_.type(narrow).element) >= 16) return narrow;
    const auto converted = maker(narrow);
    if (!converted || converted->code() != k_convert) return narrow;
    const ValueId wide = converted->operand(0);
    const auto divided = maker(wide);
    return divided && divided->code() == k_divide ? divided->operand(0) : wide;
  }

  void stack(const Product& p, std::map<std::string, std::vector<Product>>& stacks) {
    const OpView op = w_.view(p.op);
    for (uint32_t i = 0; i < op.operand_count(); ++i)
      if (i != 1) absorb_between({p.input}, op.operand(i));
    std::string_view name = argument_name(origin(op.operand(1)));
    if (name.ends_with(".weight")) name.remove_suffix(std::string_view(".weight").size());
    const size_t dot = name.rfind('.');
    const std::string_view scope = dot == std::string_view::npos ? "" : name.substr(0, dot);
    const std::string_view stacked = stacked_as(name.substr(dot + 1));
    // Those that stand alone keep a key of their own, in the order of the graph.
    const std::string key =
        stacked.empty() ? fmt::format("{:010}", p.op.index)
                        : fmt::format("{}/{}/{}/{}", stacked, scope, p.input.index, p.dtype);
    stacks[key].push_back(p);
    absorb_bias(op);
    absorb(p.op);
  }

  void launch(const std::vector<Product>& products) {
    const Product& first = products.front();
    int64_t n = 0;
    for (const Product& p : products) n += p.n;
    add(first.op, operator_kernel("gemm", first.dtype,
                                  fmt::format(R"({{"m":{},"n":{},"k":{}}})", first.m, n, first.k)));
  }

  // --- attention --------------------------------------------------------------------

  void attention(const OpView& op) {
    const Kernel described = kernel_of(w_, op.id());
    const auto* shape = std::get_if<AttentionShape>(&described.shape);
    if (shape == nullptr) return;
    const ElementType element = op.operand_type(0).element;
    // What is written to the cache: the new tokens' keys and values, once where they are one.
    int64_t written = 0;
    ElementType kept = element;
    for (uint32_t i = 1; i < 3 && i < op.operand_count(); ++i) {
      if (i == 2 && op.operand(2) == op.operand(1)) break;
      const ValueId v = origin(op.operand(i));
      const auto update = maker(v);
      if (update && update->code() == k_dynamic_update_slice) {
        kept = update->operand_type(0).element;
        written += update->operand_type(1).elements;
        if (!decides(update->id())) {
          absorb(update->id());
          if (const auto narrowed = maker(update->operand(1));
              narrowed && narrowed->code() == k_convert)
            absorb(narrowed->id());
        }
      } else {
        written += w_.type(v).elements;
      }
    }
    if (written > 0) {
      const TorchTensor from{element, TensorLayout::contiguous({&written, 1})};
      const TorchTensor to{kept, TensorLayout::contiguous({&written, 1})};
      add(op.id(), kernels::elementwise(k_copy, {&from, 1}, to));
    }
    const std::string kv_dtype =
        kept != element ? fmt::format(R"(,"kv_dtype":"{}")", plain_name(kept)) : "";
    add(op.id(),
        operator_kernel(
            "sdpa", plain_name(element),
            fmt::format(R"({{"b":{},"h":{},"kv":{},"s":{},"t":{},"d":{},"dv":{},)"
                        R"("causal":{},"window":{},"paged":true{}}})",
                        shape->batch, shape->heads, shape->kv_heads, shape->queries, shape->keys,
                        shape->head, shape->value_head, shape->causal, shape->window, kv_dtype)));
  }

  /// Queries and keys are rotated together, what is not rotated of a head left where it is.
  void rotate(const std::vector<OpView>& ops) {
    std::map<std::string_view, std::vector<OpId>> modules;
    for (const OpView& op : ops) {
      const std::string_view module = op.string(Attr::kModule);
      if (module.starts_with("rotary_tables"))
        absorb(op.id());
      else if (module.starts_with("rotary"))
        modules[module].push_back(op.id());
    }
    if (modules.empty()) return;
    int64_t elements = 0;
    OpId first = OpId{static_cast<uint32_t>(w_.ops().size())};
    ElementType element = ElementType::kNone;
    for (const auto& [name, parts] : modules) {
      for (const OpId part : parts) {
        absorb(part);
        first = part.index < first.index ? part : first;
      }
      const OpView last = w_.view(parts.back());
      elements += last.result_type(0).elements;
      element = last.result_type(0).element;
    }
    const TorchTensor rotated{element, TensorLayout::contiguous({&elements, 1})};
    add(first, kernels::elementwise(k_multiply, {&rotated, 1}, rotated));
  }

  // --- experts ----------------------------------------------------------------------

  /// From the router's logits to the weighed sum of what the experts give, found from their first
  /// product. Two products and a gate between them are one block.
  void experts(const OpView& up, const std::vector<OpView>& ops) {
    if (decides(up.id())) return;
    std::optional<OpView> choice, down, sum;
    std::unordered_set<uint32_t> behind;  // values that depend on the first product
    behind.insert(up.result(0).index);
    for (const OpView& op : ops) {
      if (op.code() == k_top_k && op.id().index < up.id().index) choice = op;
      if (op.id().index <= up.id().index) continue;
      const auto operands = w_.operands(op.raw());
      if (std::ranges::none_of(operands, [&](ValueId v) { return behind.contains(v.index); }))
        continue;
      for (uint32_t i = 0; i < op.result_count(); ++i) behind.insert(op.result(i).index);
      if (op.code() == k_grouped_dot && !down) down = op;
      if (op.code() == k_reduce && down && !sum && !is_quantisation(op)) sum = op;
    }
    if (!choice || !down || !sum) return;
    const Type& scores = choice->operand_type(0);
    const int64_t all = scores.dims.back();
    const int64_t tokens = scores.elements / std::max<int64_t>(1, all);
    const int64_t chosen = choice->result_type(0).dims.back();
    const ValueId rows = unquantised(up.operand(0));
    const ValueId logits = router_logits(choice->operand(0));
    // What is gathered for the experts, and everything behind it up to the sum.
    const auto gathered = maker(rows);
    const ValueId hidden_states =
        gathered && gathered->code() == k_gather ? gathered->operand(0) : rows;
    absorb_between({hidden_states, logits}, sum->result(0));
    const TorchTensor routed{scores.element, TensorLayout::contiguous(scores.dims)};
    add(choice->id(), kernels::over_rows(k_softmax, routed.element, tokens, all));
    const int64_t size = up.operand_type(0).dims.back();
    const int64_t width = up.operand_type(1).elements / std::max<int64_t>(1, size * all);
    const int64_t inner = down->operand_type(0).dims.back();
    const std::string dtype = dtype_of(up, 1);
    if (width == 2 * inner) {
      add(down->id(), operator_kernel("moe", dtype,
                                      fmt::format(R"({{"tokens":{},"hidden":{},"inter":{},)"
                                                  R"("topk":{},"experts":{}}})",
                                                  tokens, size, inner, chosen, all)));
      return;
    }
    for (const auto& [n, k] : {std::pair(width, size), std::pair(size, inner)})
      add(down->id(), operator_kernel("grouped_gemm", dtype,
                                      fmt::format(R"({{"experts":{},"tokens":{},"n":{},"k":{}}})",
                                                  all, tokens * chosen, n, k)));
  }

  /// Whether a reduction finds the largest of a row to quantise it by.
  bool is_quantisation(const OpView& reduce) const {
    const auto magnitude = maker(reduce.operand(0));
    return magnitude && magnitude->code() == k_abs;
  }

  /// The product's result that scores were made from.
  ValueId router_logits(ValueId scores) const {
    ValueId v = scores;
    while (const auto op = maker(v)) {
      if (op_class(op->code()) == OpClass::kContraction || op->operand_count() == 0) break;
      v = op->operand(0);
    }
    return v;
  }

  // --- the rest ---------------------------------------------------------------------

  /// Parts of a projection that kernels of the library read are views: they take strides.
  void leave_parts_in_place(const std::vector<OpView>& ops) {
    for (const OpView& op : ops) {
      if (op.code() != k_slice || decides(op.id())) continue;
      std::vector<OpId> readers = users(op.result(0));
      bool in_place = !readers.empty();
      for (size_t i = 0; i < readers.size() && in_place; ++i) {
        const OpView reader = w_.view(readers[i]);
        if (reader.code() == k_reshape || reader.code() == k_bitcast)
          std::ranges::copy(users(reader.result(0)), std::back_inserter(readers));
        else
          in_place = decides(reader.id());
      }
      if (in_place) absorb(op.id());
    }
  }

  void sample() {
    if (!w_.entry().valid()) return;
    const Function& entry = w_.function(w_.entry());
    for (size_t i = 0; i < entry.results.size() && i < entry.result_types.size(); ++i) {
      if (w_.string(entry.results[i].name) != "logits") continue;
      const Type& type = w_.type(entry.result_types[i]);
      if (type.dims.empty() || type.elements <= 0) return;
      const TorchTensor logits{type.element, TensorLayout::contiguous(type.dims)};
      const TorchTensor wide{ElementType::kF32, logits.layout};
      const int64_t columns = type.dims.back();
      for (const Kernel& kernel :
           {kernels::elementwise(k_convert, {&logits, 1}, wide),
            operator_kernel(
                "reduce_max", "fp32",
                fmt::format(R"({{"shape":[{},{}]}})", type.elements / columns, columns))}) {
        add_at_the_end(last_op(), kernel);
      }
      return;
    }
  }
  /// Sampling follows the operation that gives the logits.
  OpId last_op() const {
    OpId last;
    for_each_op(w_, w_.region(w_.function(w_.entry()).body), [&](OpId id) {
      if (op_class(w_.view(id).code()) == OpClass::kContraction) last = id;
    });
    return last;
  }

  bool captured_;
  std::unordered_map<uint32_t, std::string_view> names_;  ///< Of the function's arguments.
};

}  // namespace

std::unique_ptr<LibraryLaunches> vllm_launches(const Workload& workload) {
  return std::make_unique<VllmLaunches>(workload);
}

bool is_captured(const Workload& workload) {
  constexpr int64_t kMostCapturedTokens = 512;
  if (!workload.entry().valid()) return false;
  const Function& entry = workload.function(workload.entry());
  if (!entry.body.valid()) return false;
  const Region& body = workload.region(entry.body);
  for (uint32_t i = 0; i < body.argument_count && i < entry.arguments.size(); ++i)
    if (workload.string(entry.arguments[i].name) == "input_ids")
      return workload.type(ValueId{body.first_argument + i}).elements <= kMostCapturedTokens;
  return false;
}

}  // namespace orrery
