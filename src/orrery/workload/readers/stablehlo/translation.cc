#include "orrery/workload/readers/stablehlo/translation.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "orrery/workload/readers/hlo/library_calls.h"

namespace orrery::stablehlo {
namespace {

struct Synonym {
  std::string_view written;
  Opcode code;
};

/// Operations of other dialects, and old names, that mean one of ours.
constexpr Synonym kSynonyms[] = {
    {"arith.addf", Opcode::k_add},
    {"arith.addi", Opcode::k_add},
    {"arith.divf", Opcode::k_divide},
    {"arith.mulf", Opcode::k_multiply},
    {"arith.muli", Opcode::k_multiply},
    {"arith.subf", Opcode::k_subtract},
    {"arith.subi", Opcode::k_subtract},
    {"chlo.broadcast_zeta", Opcode::k_zeta},
    {"chlo.conj", Opcode::k_negate},
    {"chlo.constant_like", Opcode::k_constant},
    {"chlo.is_inf", Opcode::k_is_finite},
    {"chlo.is_neg_inf", Opcode::k_is_finite},
    {"chlo.is_pos_inf", Opcode::k_is_finite},
    {"chlo.ragged_dot", Opcode::k_grouped_dot},
    {"sdy.all_slice", Opcode::k_sharding_constraint},
    {"sdy.data_flow_edge", Opcode::k_identity},
    {"sdy.func_data_flow_edge", Opcode::k_identity},
    {"sdy.named_computation", Opcode::k_manual_computation},
    {"sdy.propagation_barrier", Opcode::k_identity},
    {"sdy.replicated_to_unreduced", Opcode::k_sharding_constraint},
    {"sdy.reshard", Opcode::k_sharding_constraint},
    {"sdy.sharded_to_unreduced", Opcode::k_sharding_constraint},
    {"sdy.sharding_group", Opcode::k_sharding_constraint},
    {"stablehlo.cross-replica-sum", Opcode::k_cross_replica_sum},
    {"tensor.cast", Opcode::k_identity},
    {"tensor.dim", Opcode::k_get_dimension_size},
    {"tensor.empty", Opcode::k_constant},
    {"tensor.from_elements", Opcode::k_reshape},
};

constexpr std::string_view kDialects[] = {"stablehlo", "chlo",  "mhlo", "sdy",
                                          "func",      "arith", "vhlo"};

/// How a written attribute becomes ours.
enum class Form {
  kInteger,    ///< One integer or boolean.
  kIntegers,   ///< A list.
  kOneAsList,  ///< One integer, stored as a list of one.
  kString,
  kFunction,
  kPadding,  ///< [[low, high], …]
  kPairs,    ///< A list of pairs, flat.
  kReplicaGroups,
  kChannel,
  kPrecision,
  kComputeType,
  kGspmdSharding,
  kDirection,  ///< Of a comparison.
};

}  // namespace

struct AttributeRule {
  std::string_view written;
  Attr key;
  Form form;
};

namespace {

/// Attributes of StableHLO and its neighbours that a cost, a simulation or a
/// report needs. What is not here (frontend attributes, layouts, accuracies) is
/// read past.
constexpr AttributeRule kRules[] = {
    {"lhs_batching_dimensions", Attr::kLhsBatching, Form::kIntegers},
    {"rhs_batching_dimensions", Attr::kRhsBatching, Form::kIntegers},
    {"lhs_contracting_dimensions", Attr::kLhsContracting, Form::kIntegers},
    {"rhs_contracting_dimensions", Attr::kRhsContracting, Form::kIntegers},
    {"lhs_precision_type", Attr::kComputeType, Form::kComputeType},
    {"precision_config", Attr::kPrecision, Form::kPrecision},
    {"precision", Attr::kPrecision, Form::kPrecision},
    {"input_batch_dimension", Attr::kInputBatch, Form::kInteger},
    {"input_feature_dimension", Attr::kInputFeature, Form::kInteger},
    {"input_spatial_dimensions", Attr::kInputSpatial, Form::kIntegers},
    {"kernel_input_feature_dimension", Attr::kKernelInput, Form::kInteger},
    {"kernel_output_feature_dimension", Attr::kKernelOutput, Form::kInteger},
    {"kernel_spatial_dimensions", Attr::kKernelSpatial, Form::kIntegers},
    {"output_batch_dimension", Attr::kOutputBatch, Form::kInteger},
    {"output_feature_dimension", Attr::kOutputFeature, Form::kInteger},
    {"output_spatial_dimensions", Attr::kOutputSpatial, Form::kIntegers},
    {"feature_group_count", Attr::kFeatureGroups, Form::kInteger},
    {"batch_group_count", Attr::kBatchGroups, Form::kInteger},
    {"window_dimensions", Attr::kWindowSize, Form::kIntegers},
    {"window_strides", Attr::kWindowStrides, Form::kIntegers},
    {"stride", Attr::kWindowStrides, Form::kIntegers},
    {"lhs_dilation", Attr::kBaseDilation, Form::kIntegers},
    {"lhs_dilate", Attr::kBaseDilation, Form::kIntegers},
    {"base_dilations", Attr::kBaseDilation, Form::kIntegers},
    {"rhs_dilation", Attr::kWindowDilation, Form::kIntegers},
    {"rhs_dilate", Attr::kWindowDilation, Form::kIntegers},
    {"window_dilations", Attr::kWindowDilation, Form::kIntegers},
    {"padding", Attr::kPaddingLow, Form::kPadding},
    {"pad", Attr::kPaddingLow, Form::kPadding},
    {"low", Attr::kPaddingLow, Form::kIntegers},
    {"high", Attr::kPaddingHigh, Form::kIntegers},
    {"interior", Attr::kPaddingInterior, Form::kIntegers},
    {"edge_padding_low", Attr::kPaddingLow, Form::kIntegers},
    {"edge_padding_high", Attr::kPaddingHigh, Form::kIntegers},
    {"interior_padding", Attr::kPaddingInterior, Form::kIntegers},
    {"dims", Attr::kDimensions, Form::kIntegers},
    {"dim", Attr::kDimensions, Form::kOneAsList},
    {"dimensions", Attr::kDimensions, Form::kIntegers},
    {"dimension", Attr::kDimensions, Form::kOneAsList},
    {"permutation", Attr::kDimensions, Form::kIntegers},
    {"broadcast_dimensions", Attr::kDimensions, Form::kIntegers},
    {"iota_dimension", Attr::kDimensions, Form::kOneAsList},
    {"all_gather_dim", Attr::kDimensions, Form::kOneAsList},
    {"scatter_dimension", Attr::kDimensions, Form::kOneAsList},
    {"feature_index", Attr::kDimensions, Form::kOneAsList},
    {"start_indices", Attr::kStart, Form::kIntegers},
    {"limit_indices", Attr::kLimit, Form::kIntegers},
    {"strides", Attr::kStride, Form::kIntegers},
    {"slice_sizes", Attr::kSliceSizes, Form::kIntegers},
    {"sizes", Attr::kSliceSizes, Form::kIntegers},
    {"offset_dims", Attr::kOffsetDims, Form::kIntegers},
    {"collapsed_slice_dims", Attr::kCollapsedSliceDims, Form::kIntegers},
    {"operand_batching_dims", Attr::kOperandBatchingDims, Form::kIntegers},
    {"input_batching_dims", Attr::kOperandBatchingDims, Form::kIntegers},
    {"start_indices_batching_dims", Attr::kStartIndicesBatchingDims, Form::kIntegers},
    {"scatter_indices_batching_dims", Attr::kStartIndicesBatchingDims, Form::kIntegers},
    {"start_index_map", Attr::kStartIndexMap, Form::kIntegers},
    {"scatter_dims_to_operand_dims", Attr::kStartIndexMap, Form::kIntegers},
    {"index_vector_dim", Attr::kIndexVectorDim, Form::kInteger},
    {"update_window_dims", Attr::kUpdateWindowDims, Form::kIntegers},
    {"inserted_window_dims", Attr::kInsertedWindowDims, Form::kIntegers},
    {"replica_groups", Attr::kReplicaGroups, Form::kReplicaGroups},
    {"source_target_pairs", Attr::kSourceTargetPairs, Form::kPairs},
    {"handle", Attr::kChannel, Form::kChannel},
    {"channel_id", Attr::kChannel, Form::kInteger},
    {"use_global_device_ids", Attr::kUseGlobalIds, Form::kInteger},
    {"split_dimension", Attr::kSplitDimension, Form::kInteger},
    {"concat_dimension", Attr::kConcatDimension, Form::kInteger},
    {"split_count", Attr::kSplitCount, Form::kInteger},
    {"call_target_name", Attr::kTarget, Form::kString},
    {"backend_config", Attr::kConfig, Form::kString},
    {"callee", Attr::kCallee, Form::kFunction},
    {"decomposition", Attr::kCallee, Form::kFunction},
    {"name", Attr::kTarget, Form::kString},
    {"config", Attr::kConfig, Form::kString},
    {"einsum_config", Attr::kConfig, Form::kString},
    {"index", Attr::kIndex, Form::kInteger},
    {"k", Attr::kK, Form::kInteger},
    {"length", Attr::kLength, Form::kIntegers},
    {"fft_length", Attr::kLength, Form::kIntegers},
    {"lower", Attr::kLower, Form::kInteger},
    {"left_side", Attr::kLeftSide, Form::kInteger},
    {"epsilon", Attr::kEpsilon, Form::kString},
    {"mhlo.sharding", Attr::kSharding, Form::kGspmdSharding},
    {"comparison_direction", Attr::kCompare, Form::kDirection},
};

}  // namespace

/// The number whose IEEE 754 bits these are; nothing for types narrower than half.
std::optional<double> real_from_bits(uint64_t bits, ElementType type) {
  switch (type) {
    case ElementType::kF64:
      return std::bit_cast<double>(bits);
    case ElementType::kF32:
      return std::bit_cast<float>(static_cast<uint32_t>(bits));
    case ElementType::kBF16:
      return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
    case ElementType::kF16: {
      const auto exponent = static_cast<int>(bits >> 10 & 0x1F);
      const auto fraction = static_cast<double>(bits & 0x3FF);
      const double sign = (bits & 0x8000) != 0 ? -1 : 1;
      if (exponent == 0x1F) return fraction == 0 ? sign * INFINITY : NAN;
      if (exponent == 0) return sign * std::ldexp(fraction, -24);
      return sign * std::ldexp(1024 + fraction, exponent - 25);
    }
    default:
      return std::nullopt;
  }
}

std::optional<Translation::OpName> Translation::look_up(std::string_view written) {
  OpName result;
  const size_t dot = written.find('.');
  const std::string_view dialect = dot == std::string_view::npos ? "func" : written.substr(0, dot);
  std::string_view local = dot == std::string_view::npos ? written : written.substr(dot + 1);
  const bool ours =
      std::find(std::begin(kDialects), std::end(kDialects), dialect) != std::end(kDialects);
  const auto synonym = std::find_if(std::begin(kSynonyms), std::end(kSynonyms),
                                    [&](const Synonym& s) { return s.written == written; });
  if (dialect == "chlo" && local.starts_with("broadcast_")) local.remove_prefix(10);
  if (synonym != std::end(kSynonyms)) {
    result.code = synonym->code;
  } else if (const auto code = opcode_from_name(local); ours && code) {
    result.code = *code;
  } else if (dot == std::string_view::npos) {
    return std::nullopt;
  } else {
    builder_.add_note(
        fmt::format("operation '{}' is not known: it is left out of time and memory", written));
  }
  result.is_return = result.code == Opcode::k_return;
  operations_[written] = static_cast<uint32_t>(operation_names_.size());
  operation_names_.push_back(result);
  return result;
}

FunctionId Translation::declare_function(std::string_view symbol) {
  if (module_ == 0) return builder_.declare_function(symbol);
  builder_.add_note("the file holds several modules; the first is the one that is run");
  return builder_.declare_function(fmt::format("{}#{}", symbol, module_ + 1));
}

const AttributeRule* Translation::find_rule(std::string_view name) {
  static const TextMap* const kByName = [] {
    auto* map = new TextMap;
    for (uint32_t i = 0; i < std::size(kRules); ++i) (*map)[kRules[i].written] = i;
    return map;
  }();
  const uint32_t index = kByName->find(name);
  return index == TextMap::kMissing ? nullptr : &kRules[index];
}

bool Translation::keeps(std::string_view name) {
  static constexpr std::string_view kOthers[] = {
      "jax.buffer_donor",  "jax.result_info",    "mhlo.num_partitions",
      "mhlo.num_replicas", "tf.aliasing_output", "ttcore.argument_type",
  };
  return find_rule(name) != nullptr ||
         std::find(std::begin(kOthers), std::end(kOthers), name) != std::end(kOthers);
}

bool Translation::names_function(std::string_view name) {
  const AttributeRule* rule = find_rule(name);
  return rule != nullptr && rule->form == Form::kFunction;
}

void Translation::apply(std::string_view name, const AttributeValue& value) {
  using Kind = AttributeValue::Kind;
  if (argument != nullptr || result != nullptr) {
    if (name == "mhlo.sharding" && value.kind == Kind::kString) {
      (argument != nullptr ? argument->sharding : result->sharding) = gspmd_sharding(value.text);
    } else if (argument != nullptr && name == "tf.aliasing_output" &&
               value.kind == Kind::kInteger) {
      argument->aliased_output =
          static_cast<int32_t>(std::clamp<int64_t>(value.integer, -1, INT32_MAX));
      argument->donated = true;
    } else if (argument != nullptr && name == "jax.buffer_donor") {
      argument->donated = true;
    } else if (argument != nullptr && name == "ttcore.argument_type") {
      if (value.text.find("parameter") != std::string_view::npos) argument->role = Role::kParameter;
      if (value.text.find("input") != std::string_view::npos) argument->role = Role::kInput;
    } else if (argument == nullptr && name == "jax.result_info" && value.kind == Kind::kString) {
      result->name = builder_.intern(value.text);
    }
    return;
  }
  if (!builder_.in_operation()) {
    if (name == "mhlo.num_partitions" && value.kind == Kind::kInteger)
      builder_.set_partitions(value.integer, 0);
    if (name == "mhlo.num_replicas" && value.kind == Kind::kInteger)
      builder_.set_partitions(0, value.integer);
    return;
  }
  if (name == "is_associative" && value.kind == Kind::kInteger && value.integer == 0)
    builder_.add_note(
        "a scan that is not associative is counted as one kernel, not as a loop over its steps");
  if (const AttributeRule* rule = find_rule(name)) apply(*rule, value);
}

void Translation::apply(const AttributeRule& rule, const AttributeValue& value) {
  using Kind = AttributeValue::Kind;
  switch (rule.form) {
    case Form::kInteger:
      if (value.kind == Kind::kInteger) builder_.set_int(rule.key, value.integer);
      if (value.kind == Kind::kUnit) builder_.set_int(rule.key, 1);
      break;
    case Form::kIntegers:
      if (value.kind == Kind::kIntegers)
        builder_.set_ints(rule.key, *value.integers);
      else if (value.kind == Kind::kInteger)
        builder_.set_ints(rule.key, {value.integer});
      break;
    case Form::kOneAsList:
      if (value.kind == Kind::kInteger) builder_.set_ints(rule.key, {value.integer});
      break;
    case Form::kString:
      if (value.kind == Kind::kString) builder_.set_string(rule.key, value.text);
      break;
    case Form::kFunction:
      if (value.kind == Kind::kSymbol)
        builder_.set_function(rule.key, declare_function(value.text));
      break;
    case Form::kPadding:
      if (value.kind == Kind::kIntegers) {
        std::vector<int64_t> low, high;
        for (size_t i = 0; i + 1 < value.integers->size(); i += 2) {
          low.push_back((*value.integers)[i]);
          high.push_back((*value.integers)[i + 1]);
        }
        builder_.set_ints(Attr::kPaddingLow, low);
        builder_.set_ints(Attr::kPaddingHigh, high);
      }
      break;
    case Form::kPairs:
      if (value.kind == Kind::kIntegers) builder_.set_ints(rule.key, *value.integers);
      break;
    case Form::kReplicaGroups:
      apply_replica_groups(value);
      break;
    case Form::kChannel:
      if (value.kind == Kind::kInteger) builder_.set_int(rule.key, value.integer);
      break;
    case Form::kPrecision: {
      const bool highest = value.text.find("HIGHEST") != std::string_view::npos;
      const bool high = value.text.find("HIGH") != std::string_view::npos;
      if (high) builder_.set_int(Attr::kPrecision, highest ? 2 : 1);
      break;
    }
    case Form::kComputeType:
      if (const auto type = element_type_from_mlir(value.text))
        builder_.set_int(rule.key, static_cast<int64_t>(*type));
      break;
    case Form::kDirection:
      for (const std::string_view direction : {"EQ", "NE", "LT", "LE", "GT", "GE"})
        if (value.text.find(direction) != std::string_view::npos)
          builder_.set_string(rule.key, direction);
      break;
    case Form::kGspmdSharding:
      if (value.kind == Kind::kString) builder_.set_sharding(rule.key, gspmd_sharding(value.text));
      break;
  }
}

void Translation::apply_replica_groups(const AttributeValue& value) {
  if (value.kind != AttributeValue::Kind::kIntegers) return;
  int64_t size = static_cast<int64_t>(value.integers->size());
  if (value.type.valid() && builder_.type(value.type).rank() == 2)
    size = builder_.type(value.type).dims[1];
  std::vector<int64_t>& ranks = *value.integers;
  // Ragged groups are padded with -1.
  if (size > 0 && std::find(ranks.begin(), ranks.end(), -1) != ranks.end()) {
    group_sizes_.clear();
    for (size_t i = 0; i < ranks.size(); i += static_cast<size_t>(size)) {
      const auto row = std::span(ranks).subspan(
          i, std::min<size_t>(static_cast<size_t>(size), ranks.size() - i));
      group_sizes_.push_back(
          std::count_if(row.begin(), row.end(), [](int64_t r) { return r >= 0; }));
    }
    builder_.set_ints(Attr::kRaggedGroups, group_sizes_);
    std::erase(ranks, -1);
  }
  builder_.set_ints(Attr::kReplicaGroups, ranks);
  if (size > 0) builder_.set_int(Attr::kReplicaGroupSize, size);
}

bool Translation::apply_mesh_axes(std::string_view mesh_name, const Mesh* inline_mesh,
                                  std::span<const AxisReference> axes) {
  const MeshId named = builder_.find_mesh(mesh_name);
  int64_t size = 0;
  std::optional<std::vector<int64_t>> groups;
  if (inline_mesh != nullptr)
    groups = device_groups(*inline_mesh, axes, &size);
  else if (named.valid())
    groups = device_groups(builder_.mesh(named), axes, &size);
  if (!groups) {
    builder_.add_note(
        fmt::format("replica groups over mesh '@{}' could not be worked out: that mesh or one of "
                    "the axes is not defined",
                    mesh_name));
    return true;
  }
  listed_ranks_ += groups->size();
  if (listed_ranks_ > kMaxListedRanks) return false;
  builder_.set_ints(Attr::kReplicaGroups, *groups);
  builder_.set_int(Attr::kReplicaGroupSize, size);
  return true;
}

ShardingId Translation::gspmd_sharding(std::string_view text) {
  Sharding sharding;
  sharding.form = Sharding::Form::kGspmd;
  sharding.text = std::string(text);
  return builder_.add_sharding(std::move(sharding));
}

/// What the exporters of GSPMD modules write to carry shardings is no work.
namespace {

/// A string's characters, of which MLIR writes some as two hexadecimal digits behind a backslash.
std::string unescaped(std::string_view written) {
  std::string text;
  text.reserve(written.size());
  for (size_t i = 0; i < written.size(); ++i) {
    unsigned character = 0;
    const char* const digits = written.data() + i + 1;
    if (written[i] == '\\' && i + 2 < written.size() &&
        std::from_chars(digits, digits + 2, character, 16).ptr == digits + 2) {
      text += static_cast<char>(character);
      i += 2;
    } else if (written[i] == '\\' && i + 1 < written.size()) {
      text += written[++i];
    } else {
      text += written[i];
    }
  }
  return text;
}

}  // namespace

void Translation::recognise_target() {
  const std::string_view target = builder_.open_string(Attr::kTarget);
  if (target == "Sharding" || target == "SPMDFullToShardShape" || target == "SPMDShardToFullShape")
    builder_.set_open_code(Opcode::k_sharding_constraint);
  else if (target == "mhlo.topk" && builder_.open_has(Attr::kK))
    builder_.set_open_code(Opcode::k_top_k);
  else if (target == "annotate_device_placement")
    builder_.set_open_code(Opcode::k_identity);
  else if (target.starts_with("__cudnn$fmha"))
    // What XLA takes as it is: the configuration says what is computed.
    hlo::describe_library_call(builder_, builder_.open_operands(), TypeId{}, target,
                               unescaped(builder_.open_string(Attr::kConfig)));
}

}  // namespace orrery::stablehlo
