#include "orrery/workload/readers/hlo/library_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace orrery::hlo {
namespace {

using nlohmann::json;

/// An object's member, or a null value.
const json& member(const json& object, const char* key) {
  static const json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

/// Protobuf writes 64-bit integers as strings: "32". Plain numbers are read too.
std::optional<int64_t> to_integer(const json& value) {
  if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) return std::nullopt;
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  int64_t number = 0;
  const auto [stopped, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || stopped != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::vector<int64_t>> to_integers(const json& value) {
  std::vector<int64_t> numbers;
  if (value.is_null()) return numbers;
  if (!value.is_array()) return std::nullopt;
  for (const json& element : value) {
    const auto number = to_integer(element);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

std::string_view to_text(const json& value) {
  return value.is_string() ? std::string_view(value.get_ref<const std::string&>())
                           : std::string_view();
}

struct DotDimensions {
  std::vector<int64_t> lhs_contracting, rhs_contracting, lhs_batching, rhs_batching;
};

std::optional<DotDimensions> to_dot_dimensions(const json& value) {
  if (!value.is_object()) return std::nullopt;
  auto lhs_contracting = to_integers(member(value, "lhs_contracting_dimensions"));
  auto rhs_contracting = to_integers(member(value, "rhs_contracting_dimensions"));
  auto lhs_batching = to_integers(member(value, "lhs_batch_dimensions"));
  auto rhs_batching = to_integers(member(value, "rhs_batch_dimensions"));
  if (!lhs_contracting || !rhs_contracting || !lhs_batching || !rhs_batching) return std::nullopt;
  return DotDimensions{*std::move(lhs_contracting), *std::move(rhs_contracting),
                       *std::move(lhs_batching), *std::move(rhs_batching)};
}

void set_dot_dimensions(WorkloadBuilder& builder, const DotDimensions& dims) {
  builder.set_ints(Attr::kLhsContracting, dims.lhs_contracting);
  builder.set_ints(Attr::kRhsContracting, dims.rhs_contracting);
  if (!dims.lhs_batching.empty()) builder.set_ints(Attr::kLhsBatching, dims.lhs_batching);
  if (!dims.rhs_batching.empty()) builder.set_ints(Attr::kRhsBatching, dims.rhs_batching);
}

/// The configuration of this kind of call, which newer XLA wraps in the
/// configuration of the device.
const json& part_or_whole(const json& config, const char* part) {
  const json& found = member(config, part);
  return found.is_null() ? config : found;
}

bool describe_gemm(WorkloadBuilder& builder, const json& config) {
  const json& gemm = part_or_whole(config, "gemm_backend_config");
  const auto dims = to_dot_dimensions(member(gemm, "dot_dimension_numbers"));
  if (!dims) return false;
  set_dot_dimensions(builder, *dims);
  const json& precision = member(gemm, "precision_config");
  int64_t highest = 0;
  if (const json& operands = member(precision, "operand_precision"); operands.is_array()) {
    for (const json& operand : operands) {
      if (to_text(operand) == "HIGH") highest = std::max<int64_t>(highest, 1);
      if (to_text(operand) == "HIGHEST") highest = 2;
    }
  }
  if (highest > 0) builder.set_int(Attr::kPrecision, highest);
  if (const auto type = algorithm_compute_type(to_text(member(precision, "algorithm"))))
    builder.set_int(Attr::kComputeType, static_cast<int64_t>(*type));
  return true;
}

bool describe_attention(WorkloadBuilder& builder, std::span<const ValueId> operands,
                        const json& config) {
  const json& attention = part_or_whole(config, "cudnn_fmha_backend_config");
  const auto scores =
      to_integers(member(member(attention, "intermediate_tensor_shape"), "dimensions"));
  // The scores are [batch, heads, queries, keys].
  constexpr size_t kScoresRank = 4;
  if (!scores || scores->size() != kScoresRank) return false;
  builder.set_ints(Attr::kScores, *scores);
  builder.set_int(Attr::kHeads, (*scores)[1]);
  const std::string_view mask = to_text(member(attention, "mask_type"));
  const json& causal_flag = member(attention, "is_causal_mask");
  const bool causal = mask == "CAUSAL" || mask == "PADDING_CAUSAL" ||
                      (causal_flag.is_boolean() && causal_flag.get<bool>());
  builder.set_int(Attr::kCausal, causal ? 1 : 0);
  if (const auto window = to_integer(member(attention, "sliding_window_length")))
    builder.set_int(Attr::kWindow, *window);
  const auto dims = to_dot_dimensions(member(attention, "bmm1_dot_dimension_numbers"));
  // Batch dimensions are [batch, heads]; of the keys they count the shared heads.
  if (dims && operands.size() >= 2 && dims->rhs_batching.size() == 2) {
    const Type& keys = builder.type_of(operands[1]);
    const int64_t heads = dims->rhs_batching[1];
    if (heads >= 0 && heads < keys.rank())
      builder.set_int(Attr::kKeyValueHeads, keys.dims[static_cast<size_t>(heads)]);
  }
  return true;
}

bool describe_top_k(WorkloadBuilder& builder, TypeId result) {
  const Type* values = &builder.type(result);
  if (values->kind == Type::Kind::kTuple && !values->members.empty())
    values = &builder.type(values->members.front());
  if (values->rank() == 0) return false;
  builder.set_int(Attr::kK, values->dims.back());
  builder.set_ints(Attr::kDimensions, {values->rank() - 1});
  return true;
}

}  // namespace

void describe_library_call(WorkloadBuilder& builder, std::span<const ValueId> operands,
                           TypeId result, std::string_view target, std::string_view config) {
  const bool is_gemm = target.starts_with("__cublas$") || target == "__triton_gemm";
  const bool is_attention = target.starts_with("__cudnn$fmha");
  bool understood = true;
  if (is_gemm || is_attention) {
    const json parsed = json::parse(config, nullptr, /*allow_exceptions=*/false);
    understood =
        is_gemm ? describe_gemm(builder, parsed) : describe_attention(builder, operands, parsed);
  } else if (target == "TopK" || target == "__gpu$TopK") {
    understood = describe_top_k(builder, result);
  }
  if (!understood)
    builder.add_note(
        fmt::format("{} without the configuration XLA writes: what they compute is "
                    "not known",
                    is_gemm        ? "cuBLAS or Triton matrix products"
                    : is_attention ? "cuDNN attention calls"
                                   : "TopK calls"));
}

ConvolutionCall convolution_call(std::string_view target) {
  if (target == "__cudnn$convBackwardInput") return ConvolutionCall::kInputGradient;
  if (target == "__cudnn$convBackwardFilter") return ConvolutionCall::kKernelGradient;
  return ConvolutionCall::kForward;
}

std::optional<int64_t> known_trip_count(std::string_view config) {
  if (config.find("known_trip_count") == std::string_view::npos) return std::nullopt;
  const json parsed = json::parse(config, nullptr, /*allow_exceptions=*/false);
  const auto count = to_integer(member(member(parsed, "known_trip_count"), "n"));
  return count && *count >= 0 ? count : std::nullopt;
}

std::optional<ElementType> algorithm_compute_type(std::string_view algorithm) {
  std::string name(algorithm);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  std::string_view rest = name;
  if (rest.starts_with("alg_")) rest.remove_prefix(4);
  if (!rest.starts_with("dot_")) return std::nullopt;
  rest.remove_prefix(4);
  return element_type_from_hlo(rest.substr(0, rest.find('_')));
}

int algorithm_passes(std::string_view algorithm) {
  if (algorithm.ends_with("_x3") || algorithm.ends_with("_X3")) return 3;
  if (algorithm.ends_with("_x6") || algorithm.ends_with("_X6")) return 6;
  if (algorithm.ends_with("_x9") || algorithm.ends_with("_X9")) return 9;
  return 1;
}

}  // namespace orrery::hlo
