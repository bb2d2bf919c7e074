#include "orrery/workload/readers/hlo/instruction_names.h"

#include <array>
#include <unordered_map>

namespace orrery::hlo {
namespace {

struct Row {
  std::string_view name;
  Opcode code;
};

// hlo_opcode.h of XLA, without those that only split another (-start, -done).
// HLO's broadcast has StableHLO's broadcast_in_dim's meaning, its dot that of
// dot_general. cross-replica-sum and tuple-select are former names.
constexpr std::array<Row, 127> kInstructions = {{
    {"abs", Opcode::k_abs},
    {"acos", Opcode::k_acos},
    {"acosh", Opcode::k_acosh},
    {"add", Opcode::k_add},
    {"add-dependency", Opcode::k_add_dependency},
    {"after-all", Opcode::k_after_all},
    {"all-gather", Opcode::k_all_gather},
    {"all-reduce", Opcode::k_all_reduce},
    {"all-to-all", Opcode::k_all_to_all},
    {"and", Opcode::k_and},
    {"asin", Opcode::k_asin},
    {"asinh", Opcode::k_asinh},
    {"atan", Opcode::k_atan},
    {"atan2", Opcode::k_atan2},
    {"atanh", Opcode::k_atanh},
    {"batch-norm-grad", Opcode::k_batch_norm_grad},
    {"batch-norm-inference", Opcode::k_batch_norm_inference},
    {"batch-norm-training", Opcode::k_batch_norm_training},
    {"bitcast", Opcode::k_bitcast},
    {"bitcast-convert", Opcode::k_bitcast_convert},
    {"broadcast", Opcode::k_broadcast_in_dim},
    {"call", Opcode::k_call},
    {"cbrt", Opcode::k_cbrt},
    {"ceil", Opcode::k_ceil},
    {"cholesky", Opcode::k_cholesky},
    {"clamp", Opcode::k_clamp},
    {"collective-broadcast", Opcode::k_collective_broadcast},
    {"collective-permute", Opcode::k_collective_permute},
    {"collective-reduce", Opcode::k_collective_reduce},
    {"compare", Opcode::k_compare},
    {"complex", Opcode::k_complex},
    {"concatenate", Opcode::k_concatenate},
    {"conditional", Opcode::k_case},
    {"constant", Opcode::k_constant},
    {"convert", Opcode::k_convert},
    {"convolution", Opcode::k_convolution},
    {"copy", Opcode::k_copy},
    {"cosh", Opcode::k_cosh},
    {"cosine", Opcode::k_cosine},
    {"count-leading-zeros", Opcode::k_count_leading_zeros},
    {"cross-replica-sum", Opcode::k_all_reduce},
    {"custom-call", Opcode::k_custom_call},
    {"divide", Opcode::k_divide},
    {"domain", Opcode::k_domain},
    {"dot", Opcode::k_dot_general},
    {"dynamic-reshape", Opcode::k_dynamic_reshape},
    {"dynamic-slice", Opcode::k_dynamic_slice},
    {"dynamic-update-slice", Opcode::k_dynamic_update_slice},
    {"erf", Opcode::k_erf},
    {"exponential", Opcode::k_exponential},
    {"exponential-minus-one", Opcode::k_exponential_minus_one},
    {"fft", Opcode::k_fft},
    {"floor", Opcode::k_floor},
    {"fusion", Opcode::k_fusion},
    {"gather", Opcode::k_gather},
    {"get-dimension-size", Opcode::k_get_dimension_size},
    {"get-tuple-element", Opcode::k_get_tuple_element},
    {"imag", Opcode::k_imag},
    {"infeed", Opcode::k_infeed},
    {"iota", Opcode::k_iota},
    {"is-finite", Opcode::k_is_finite},
    {"log", Opcode::k_log},
    {"log-plus-one", Opcode::k_log_plus_one},
    {"logistic", Opcode::k_logistic},
    {"map", Opcode::k_map},
    {"maximum", Opcode::k_maximum},
    {"minimum", Opcode::k_minimum},
    {"mulhi", Opcode::k_mulhi},
    {"multiply", Opcode::k_multiply},
    {"negate", Opcode::k_negate},
    {"not", Opcode::k_not},
    {"opt-barrier", Opcode::k_optimization_barrier},
    {"or", Opcode::k_or},
    {"outfeed", Opcode::k_outfeed},
    {"pad", Opcode::k_pad},
    {"parameter", Opcode::k_parameter},
    {"partition-id", Opcode::k_partition_id},
    {"popcnt", Opcode::k_popcnt},
    {"power", Opcode::k_power},
    {"ragged-all-to-all", Opcode::k_ragged_all_to_all},
    {"ragged-dot", Opcode::k_grouped_dot},
    {"real", Opcode::k_real},
    {"recv", Opcode::k_recv},
    {"recv-done", Opcode::k_recv_done},
    {"reduce", Opcode::k_reduce},
    {"reduce-precision", Opcode::k_reduce_precision},
    {"reduce-scatter", Opcode::k_reduce_scatter},
    {"reduce-window", Opcode::k_reduce_window},
    {"remainder", Opcode::k_remainder},
    {"replica-id", Opcode::k_replica_id},
    {"reshape", Opcode::k_reshape},
    {"reverse", Opcode::k_reverse},
    {"rng", Opcode::k_rng},
    {"rng-bit-generator", Opcode::k_rng_bit_generator},
    {"rng-get-and-update-state", Opcode::k_rng_get_and_update_state},
    {"round-nearest-afz", Opcode::k_round_nearest_afz},
    {"round-nearest-even", Opcode::k_round_nearest_even},
    {"rsqrt", Opcode::k_rsqrt},
    {"scaled-dot", Opcode::k_scaled_dot},
    {"scan", Opcode::k_scan},
    {"scatter", Opcode::k_scatter},
    {"select", Opcode::k_select},
    {"select-and-scatter", Opcode::k_select_and_scatter},
    {"send", Opcode::k_send},
    {"send-done", Opcode::k_send_done},
    {"set-dimension-size", Opcode::k_set_dimension_size},
    {"shift-left", Opcode::k_shift_left},
    {"shift-right-arithmetic", Opcode::k_shift_right_arithmetic},
    {"shift-right-logical", Opcode::k_shift_right_logical},
    {"shuffle", Opcode::k_shuffle},
    {"sign", Opcode::k_sign},
    {"sine", Opcode::k_sine},
    {"sinh", Opcode::k_sinh},
    {"slice", Opcode::k_slice},
    {"sort", Opcode::k_sort},
    {"sqrt", Opcode::k_sqrt},
    {"stochastic-convert", Opcode::k_stochastic_convert},
    {"subtract", Opcode::k_subtract},
    {"tan", Opcode::k_tan},
    {"tanh", Opcode::k_tanh},
    {"topk", Opcode::k_top_k},
    {"transpose", Opcode::k_transpose},
    {"triangular-solve", Opcode::k_triangular_solve},
    {"tuple", Opcode::k_tuple},
    {"tuple-select", Opcode::k_select},
    {"while", Opcode::k_while},
    {"xor", Opcode::k_xor},
}};

const std::unordered_map<std::string_view, Opcode>& by_name() {
  static const auto* const kTable = [] {
    auto* table = new std::unordered_map<std::string_view, Opcode>;
    for (const Row& row : kInstructions) table->emplace(row.name, row.code);
    return table;
  }();
  return *kTable;
}

std::optional<InstructionKind> part_of(std::string_view name, std::string_view suffix,
                                       AsyncPart part) {
  if (!name.ends_with(suffix)) return std::nullopt;
  name.remove_suffix(suffix.size());
  const auto found = by_name().find(name);
  if (found == by_name().end() && name != "async") return std::nullopt;
  if (part == AsyncPart::kUpdate) return InstructionKind{Opcode::k_async_update, part};
  if (part == AsyncPart::kDone) return InstructionKind{Opcode::k_async_done, part};
  return InstructionKind{name == "async" ? Opcode::k_async_start : found->second, part};
}

}  // namespace

std::optional<InstructionKind> instruction_kind(std::string_view name) {
  if (const auto found = by_name().find(name); found != by_name().end()) {
    const Opcode code = found->second;
    AsyncPart part = AsyncPart::kNone;
    if (code == Opcode::k_send || code == Opcode::k_recv) part = AsyncPart::kStart;
    if (code == Opcode::k_send_done || code == Opcode::k_recv_done) part = AsyncPart::kDone;
    return InstructionKind{code, part};
  }
  if (const auto start = part_of(name, "-start", AsyncPart::kStart)) return start;
  if (const auto done = part_of(name, "-done", AsyncPart::kDone)) return done;
  return part_of(name, "-update", AsyncPart::kUpdate);
}

}  // namespace orrery::hlo
