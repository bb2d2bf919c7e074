#include "orrery/workload/readers/hlo/attribute_rules.h"

#include <array>
#include <unordered_map>

namespace orrery::hlo {
namespace {

using F = AttributeRule::Form;

constexpr auto kRules = std::to_array<AttributeRule>({
    // Contractions.
    {"lhs_batch_dims", F::kIntegers, Attr::kLhsBatching},
    {"rhs_batch_dims", F::kIntegers, Attr::kRhsBatching},
    {"lhs_contracting_dims", F::kIntegers, Attr::kLhsContracting},
    {"rhs_contracting_dims", F::kIntegers, Attr::kRhsContracting},
    {"operand_precision", F::kPrecision, Attr::kPrecision},
    {"algorithm", F::kAlgorithm, Attr::kComputeType},
    {"feature_group_count", F::kInteger, Attr::kFeatureGroups},
    {"batch_group_count", F::kInteger, Attr::kBatchGroups},
    {"window", F::kWindow, {}},
    {"dim_labels", F::kDimLabels, {}},
    {"padding", F::kPadding, {}},
    // Dimensions.
    {"dimensions", F::kIntegers, Attr::kDimensions},
    {"iota_dimension", F::kOneInteger, Attr::kDimensions},
    {"feature_index", F::kOneInteger, Attr::kDimensions},
    // Slices, gathers, scatters.
    {"slice", F::kSlices, {}},
    {"dynamic_slice_sizes", F::kIntegers, Attr::kSliceSizes},
    {"slice_sizes", F::kIntegers, Attr::kSliceSizes},
    {"offset_dims", F::kIntegers, Attr::kOffsetDims},
    {"collapsed_slice_dims", F::kIntegers, Attr::kCollapsedSliceDims},
    {"operand_batching_dims", F::kIntegers, Attr::kOperandBatchingDims},
    {"input_batching_dims", F::kIntegers, Attr::kOperandBatchingDims},
    {"start_indices_batching_dims", F::kIntegers, Attr::kStartIndicesBatchingDims},
    {"scatter_indices_batching_dims", F::kIntegers, Attr::kStartIndicesBatchingDims},
    {"start_index_map", F::kIntegers, Attr::kStartIndexMap},
    {"scatter_dims_to_operand_dims", F::kIntegers, Attr::kStartIndexMap},
    {"index_vector_dim", F::kInteger, Attr::kIndexVectorDim},
    {"update_window_dims", F::kIntegers, Attr::kUpdateWindowDims},
    {"inserted_window_dims", F::kIntegers, Attr::kInsertedWindowDims},
    // Collectives.
    {"replica_groups", F::kReplicaGroups, {}},
    {"source_target_pairs", F::kPairs, Attr::kSourceTargetPairs},
    {"channel_id", F::kInteger, Attr::kChannel},
    {"use_global_device_ids", F::kFlag, Attr::kUseGlobalIds},
    // Control.
    {"to_apply", F::kComputation, Attr::kCallee},
    {"calls", F::kComputation, Attr::kCallee},
    {"body", F::kComputation, Attr::kCallee},
    {"condition", F::kComputation, Attr::kCondition},
    {"scatter", F::kComputation, Attr::kCallee},
    {"select", F::kComputation, Attr::kCondition},
    {"branch_computations", F::kBranches, Attr::kBranches},
    {"true_computation", F::kBranches, Attr::kBranches},
    {"false_computation", F::kBranches, Attr::kBranches},
    {"called_computations", F::kBranches, Attr::kCallee},
    {"direction", F::kWord, Attr::kCompare},
    {"index", F::kInteger, Attr::kIndex},
    {"kind", F::kWord, Attr::kFusionKind},
    {"custom_call_target", F::kText, Attr::kTarget},
    {"backend_config", F::kBackendConfig, Attr::kConfig},
    {"output_to_operand_aliasing", F::kAliases, Attr::kOutputAliases},
    // Small settings.
    {"epsilon", F::kReal, Attr::kEpsilon},
    {"k", F::kInteger, Attr::kK},
    {"fft_length", F::kIntegers, Attr::kLength},
    {"lower", F::kFlag, Attr::kLower},
    {"left_side", F::kFlag, Attr::kLeftSide},
    {"metadata", F::kMetadata, Attr::kScope},
    {"sharding", F::kSharding, Attr::kSharding},
    // Order, identity, numerics and bookkeeping.
    {"api_version", F::kNothing, {}},
    {"async_execution_thread", F::kNothing, {}},
    {"async_group_id", F::kNothing, {}},
    {"constrain_layout", F::kNothing, {}},
    {"control-predecessors", F::kNothing, {}},
    {"conv_kind", F::kNothing, {}},
    {"cross_program_prefetch_index", F::kNothing, {}},
    {"custom_call_has_side_effect", F::kNothing, {}},
    {"custom_call_schedule", F::kNothing, {}},
    {"delta", F::kNothing, {}},
    {"distribution", F::kNothing, {}},
    {"domain", F::kNothing, {}},
    {"execution_thread", F::kNothing, {}},
    {"exponent_bits", F::kNothing, {}},
    {"fft_type", F::kNothing, {}},
    {"frontend_attributes", F::kNothing, {}},
    {"has_dynamic_root", F::kNothing, {}},
    {"indices_are_sorted", F::kNothing, {}},
    {"infeed_config", F::kNothing, {}},
    {"is_associative", F::kNothing, {}},
    {"is_composite", F::kNothing, {}},
    {"is_host_transfer", F::kNothing, {}},
    {"is_reverse", F::kNothing, {}},
    {"is_stable", F::kNothing, {}},
    {"largest", F::kNothing, {}},
    {"lhs_ragged_dims", F::kNothing, {}},
    {"literal", F::kNothing, {}},
    {"mantissa_bits", F::kNothing, {}},
    {"num_carries", F::kNothing, {}},
    {"operand_layout_constraints", F::kNothing, {}},
    {"origin", F::kNothing, {}},
    {"original_value", F::kNothing, {}},
    {"outfeed_config", F::kNothing, {}},
    {"outfeed_shape", F::kNothing, {}},
    {"parameter_replication", F::kNothing, {}},
    {"result_accuracy", F::kNothing, {}},
    {"rhs_group_dims", F::kNothing, {}},
    {"schedule", F::kNothing, {}},
    {"statistics", F::kNothing, {}},
    {"transpose_a", F::kNothing, {}},
    {"type", F::kNothing, {}},
    {"unique_indices", F::kNothing, {}},
    {"unit_diagonal", F::kNothing, {}},
});

}  // namespace

const AttributeRule* attribute_rule(std::string_view key) {
  static const auto* const kByKey = [] {
    auto* table = new std::unordered_map<std::string_view, const AttributeRule*>;
    for (const AttributeRule& rule : kRules) table->emplace(rule.key, &rule);
    return table;
  }();
  const auto found = kByKey->find(key);
  return found == kByKey->end() ? nullptr : found->second;
}

}  // namespace orrery::hlo
