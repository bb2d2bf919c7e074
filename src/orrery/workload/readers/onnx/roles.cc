#include "orrery/workload/readers/onnx/roles.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_set>

namespace orrery::onnx {
namespace {

struct WeightPositions {
  std::string_view op_type;
  uint32_t mask;  ///< Bit i: input i holds weights.
};

constexpr uint32_t at(std::initializer_list<int> positions) {
  uint32_t mask = 0;
  for (int p : positions) mask |= 1U << p;
  return mask;
}

constexpr std::array kWeightPositions = {
    WeightPositions{"Conv", at({1, 2})},
    WeightPositions{"ConvTranspose", at({1, 2})},
    WeightPositions{"ConvInteger", at({1, 3})},
    WeightPositions{"QLinearConv", at({3, 4, 5, 8})},
    WeightPositions{"DeformConv", at({1, 3})},
    WeightPositions{"Gemm", at({1, 2})},
    WeightPositions{"MatMul", at({1})},
    WeightPositions{"MatMulInteger", at({1, 3})},
    WeightPositions{"QLinearMatMul", at({3, 4, 5})},
    WeightPositions{"MatMulNBits", at({1, 2, 3, 5})},
    WeightPositions{"BatchNormalization", at({1, 2, 3, 4})},
    WeightPositions{"LayerNormalization", at({1, 2})},
    WeightPositions{"SimplifiedLayerNormalization", at({1})},
    WeightPositions{"SkipLayerNormalization", at({2, 3, 4})},
    WeightPositions{"SkipSimplifiedLayerNormalization", at({2, 3})},
    WeightPositions{"EmbedLayerNormalization", at({2, 3, 4, 5, 6})},
    WeightPositions{"RMSNormalization", at({1})},
    WeightPositions{"GroupNormalization", at({1, 2})},
    WeightPositions{"GroupNorm", at({1, 2})},
    WeightPositions{"InstanceNormalization", at({1, 2})},
    WeightPositions{"Gather", at({0})},
    WeightPositions{"GatherBlockQuantized", at({0, 2, 3})},
    WeightPositions{"PRelu", at({1})},
    WeightPositions{"BiasGelu", at({1})},
    WeightPositions{"FastGelu", at({1})},
    WeightPositions{"LSTM", at({1, 2, 3, 7})},
    WeightPositions{"GRU", at({1, 2, 3})},
    WeightPositions{"RNN", at({1, 2, 3})},
};
// com.microsoft's Attention takes its projections in the node; ai.onnx's does not.
constexpr uint32_t kPackedAttentionWeights = at({1, 2});

/// What is done to a weight on its way to its use, keeping it one.
constexpr std::array<std::string_view, 9> kPassThrough = {
    "Transpose", "Reshape", "Identity",        "Cast", "Squeeze", "Unsqueeze",
    "Expand",    "Flatten", "DequantizeLinear"};
/// Where a parameter may join data from either side.
constexpr std::array<std::string_view, 7> kJoins = {"Add", "Mul",   "Sub",   "Div",
                                                    "Sum", "Where", "Concat"};

uint32_t weight_mask(const Node& node) {
  if (node.op_type == "Attention" && node.domain == "com.microsoft") return kPackedAttentionWeights;
  for (const WeightPositions& row : kWeightPositions)
    if (row.op_type == node.op_type) return row.mask;
  return 0;
}

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool name_has(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

bool may_be_parameter(const ValueInfo& input) {
  if (input.type.kind != TypeInfo::Kind::kTensor) return false;
  const ElementType element = input.type.element;
  if (element == ElementType::kS64 || element == ElementType::kS32 ||
      element == ElementType::kBool || element == ElementType::kString)
    return false;
  for (const Dimension& dim : input.type.dims)
    if (!dim.value) return false;
  return !name_has(input.name, "mask");
}

bool is_cache(std::string_view name) {
  return name_has(name, "past_key") || name_has(name, "past_value") ||
         name_has(name, "past_state") || name_has(name, "cache");
}

using Names = std::unordered_set<std::string_view>;

/// Every name a node reads, its subgraphs' captures with them.
template <class Visitor>
void for_each_capture(const Node& node, const Visitor& visit) {
  for (const NodeAttribute& attribute : node.attributes) {
    if (!attribute.graph) continue;
    for (const Node& inner : attribute.graph->nodes) {
      for (std::string_view name : inner.inputs) visit(name);
      for_each_capture(inner, visit);
    }
    for (const ValueInfo& output : attribute.graph->outputs) visit(output.name);
  }
}

}  // namespace

std::unordered_map<std::string_view, Role> input_roles(const Graph& graph) {
  // Names that hold a candidate's numbers, each with the candidate it came from.
  std::unordered_map<std::string_view, std::string_view> origin;
  Names data;
  std::unordered_map<std::string_view, Role> roles;
  for (const ValueInfo& input : graph.inputs) {
    if (is_cache(input.name)) {
      roles[input.name] = Role::kCache;
    } else if (may_be_parameter(input)) {
      origin[input.name] = input.name;
      continue;
    } else {
      roles[input.name] = Role::kInput;
    }
    data.insert(input.name);
  }
  for (const Node& node : graph.nodes)
    if (contains(kPassThrough, node.op_type) && !node.inputs.empty() && !node.outputs.empty())
      if (const auto found = origin.find(node.inputs[0]); found != origin.end())
        origin[node.outputs[0]] = std::string_view(found->second);

  // Candidates that reach a data position are inputs.
  Names used, inputs;
  for (const Node& node : graph.nodes) {
    const bool passes = contains(kPassThrough, node.op_type);
    const bool joins = contains(kJoins, node.op_type);
    const uint32_t mask = weight_mask(node);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto found = origin.find(node.inputs[i]);
      if (found == origin.end()) continue;
      used.insert(found->second);
      const bool weight = i < 32 && ((mask >> i) & 1) != 0;
      if (!weight && !joins && !(passes && i == 0)) inputs.insert(found->second);
    }
    for_each_capture(node, [&](std::string_view name) {
      if (const auto found = origin.find(name); found != origin.end()) inputs.insert(found->second);
    });
  }
  // What depends on data. A candidate that only joins is a parameter when what
  // it joins is data; two that join each other are both inputs.
  const auto is_data = [&](std::string_view name) {
    if (data.contains(name)) return true;
    const auto found = origin.find(name);
    return found != origin.end() && inputs.contains(found->second);
  };
  for (const Node& node : graph.nodes) {
    bool from_data = std::any_of(node.inputs.begin(), node.inputs.end(), is_data);
    for_each_capture(node, [&](std::string_view name) { from_data = from_data || is_data(name); });
    if (contains(kJoins, node.op_type) && !from_data)
      for (std::string_view name : node.inputs)
        if (const auto found = origin.find(name); found != origin.end()) {
          inputs.insert(found->second);
          from_data = true;
        }
    if (from_data) data.insert(node.outputs.begin(), node.outputs.end());
  }
  for (const ValueInfo& input : graph.inputs) {
    if (roles.contains(input.name)) continue;
    const bool parameter = used.contains(input.name) && !inputs.contains(input.name);
    roles[input.name] = parameter ? Role::kParameter : Role::kInput;
  }
  return roles;
}

}  // namespace orrery::onnx
