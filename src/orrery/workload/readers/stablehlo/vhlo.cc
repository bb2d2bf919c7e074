#include "orrery/workload/readers/stablehlo/vhlo.h"

#include <algorithm>
#include <iterator>

namespace orrery::stablehlo {
namespace {

struct Properties {
  std::string_view operation;  ///< Without its version.
  int first_version;
  int last_version;
  std::string_view names;  ///< One blank between two.
};

constexpr Properties kProperties[] = {
    {"all_gather", 1, 2, "all_gather_dim channel_id replica_groups use_global_device_ids"},
    {"all_reduce", 1, 2, "channel_id replica_groups use_global_device_ids"},
    {"all_to_all", 1, 2, "channel_id concat_dimension replica_groups split_count split_dimension"},
    {"batch_norm_grad", 1, 1, "epsilon feature_index"},
    {"batch_norm_inference", 1, 1, "epsilon feature_index"},
    {"batch_norm_training", 1, 1, "epsilon feature_index"},
    {"broadcast", 1, 1, "broadcast_sizes"},
    {"broadcast_in_dim", 1, 1, "broadcast_dimensions"},
    {"call", 1, 1, "callee"},
    {"cbrt", 2, 2, "result_accuracy"},
    {"cholesky", 1, 1, "lower"},
    {"collective_broadcast", 1, 1, "channel_id replica_groups"},
    {"collective_broadcast", 2, 2, "channel_id has_dynamic_root replica_groups"},
    {"collective_permute", 1, 1, "channel_id source_target_pairs"},
    {"collective_reduce", 1, 1, "channel_id has_dynamic_root replica_groups use_global_device_ids"},
    {"compare", 1, 1, "compare_type comparison_direction"},
    {"composite", 1, 2, "composite_attributes decomposition name version"},
    {"concatenate", 1, 1, "dimension"},
    {"constant", 1, 1, "value"},
    {"convolution", 1, 1,
     "batch_group_count feature_group_count input_batch_dimension input_feature_dimension "
     "input_spatial_dimensions kernel_input_feature_dimension kernel_output_feature_dimension "
     "kernel_spatial_dimensions lhs_dilation output_batch_dimension output_feature_dimension "
     "output_spatial_dimensions padding precision_config rhs_dilation window_reversal "
     "window_strides"},
    {"cosine", 2, 2, "result_accuracy"},
    {"cross-replica-sum", 1, 1, "replica_groups"},
    {"custom_call", 1, 1,
     "api_version backend_config call_target_name called_computations has_side_effect "
     "operand_layouts output_operand_aliases result_layouts"},
    {"custom_call", 2, 2,
     "api_version backend_config call_target_name called_computations has_side_effect "
     "operand_layouts output_operand_aliases result_layouts result_tilings"},
    {"dot", 1, 1, "precision_config"},
    {"dot_general", 1, 1,
     "lhs_batching_dimensions lhs_contracting_dimensions precision_config "
     "rhs_batching_dimensions rhs_contracting_dimensions"},
    {"dot_general", 2, 2,
     "accumulation_type allow_imprecise_accumulation lhs_batching_dimensions lhs_component_count "
     "lhs_contracting_dimensions lhs_precision_type num_primitive_operations precision_config "
     "rhs_batching_dimensions rhs_component_count rhs_contracting_dimensions rhs_precision_type"},
    {"dynamic_broadcast_in_dim", 1, 1,
     "broadcast_dimensions known_expanding_dimensions known_nonexpanding_dimensions"},
    {"dynamic_conv", 1, 1,
     "batch_group_count feature_group_count input_batch_dimension input_feature_dimension "
     "input_spatial_dimensions kernel_input_feature_dimension kernel_output_feature_dimension "
     "kernel_spatial_dimensions lhs_dilation output_batch_dimension output_feature_dimension "
     "output_spatial_dimensions padding precision_config rhs_dilation window_reversal "
     "window_strides"},
    {"dynamic_conv", 2, 2,
     "batch_group_count feature_group_count input_batch_dimension input_feature_dimension "
     "input_spatial_dimensions kernel_input_feature_dimension kernel_output_feature_dimension "
     "kernel_spatial_dimensions lhs_dilation output_batch_dimension output_feature_dimension "
     "output_spatial_dimensions precision_config rhs_dilation window_reversal window_strides"},
    {"dynamic_gather", 1, 1,
     "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims start_index_map"},
    {"dynamic_gather", 2, 2,
     "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims operand_batching_dims "
     "start_index_map start_indices_batching_dims"},
    {"dynamic_iota", 1, 1, "iota_dimension"},
    {"dynamic_slice", 1, 1, "slice_sizes"},
    {"einsum", 1, 1, "einsum_config"},
    {"exponential", 2, 2, "result_accuracy"},
    {"exponential_minus_one", 2, 2, "result_accuracy"},
    {"fft", 1, 1, "fft_length fft_type"},
    {"func", 1, 1, "arg_attrs function_type res_attrs sym_name sym_visibility"},
    {"gather", 1, 1,
     "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims slice_sizes "
     "start_index_map"},
    {"gather", 2, 2,
     "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims operand_batching_dims "
     "slice_sizes start_index_map start_indices_batching_dims"},
    {"get_dimension_size", 1, 1, "dimension"},
    {"get_tuple_element", 1, 1, "index"},
    {"infeed", 1, 1, "infeed_config layout"},
    {"iota", 1, 1, "iota_dimension"},
    {"log", 2, 2, "result_accuracy"},
    {"log_plus_one", 2, 2, "result_accuracy"},
    {"logistic", 2, 2, "result_accuracy"},
    {"map", 1, 1, "dimensions"},
    {"outfeed", 1, 1, "outfeed_config"},
    {"pad", 1, 1, "edge_padding_high edge_padding_low interior_padding"},
    {"recv", 1, 1, "channel_id channel_type is_host_transfer"},
    {"recv", 2, 2, "channel_id channel_type is_host_transfer source_target_pairs"},
    {"reduce", 1, 1, "dimensions"},
    {"reduce_precision", 1, 1, "exponent_bits mantissa_bits"},
    {"reduce_scatter", 1, 1, "channel_id replica_groups scatter_dimension use_global_device_ids"},
    {"reduce_window", 1, 1,
     "base_dilations padding window_dilations window_dimensions window_strides"},
    {"reverse", 1, 1, "dimensions"},
    {"rng", 1, 1, "rng_distribution"},
    {"rng_bit_generator", 1, 1, "rng_algorithm"},
    {"rsqrt", 2, 2, "result_accuracy"},
    {"scatter", 1, 1,
     "index_vector_dim indices_are_sorted inserted_window_dims scatter_dims_to_operand_dims "
     "unique_indices update_window_dims"},
    {"scatter", 2, 2,
     "index_vector_dim indices_are_sorted input_batching_dims inserted_window_dims "
     "scatter_dims_to_operand_dims scatter_indices_batching_dims unique_indices "
     "update_window_dims"},
    {"select_and_scatter", 1, 1, "padding window_dimensions window_strides"},
    {"send", 1, 1, "channel_id channel_type is_host_transfer"},
    {"send", 2, 2, "channel_id channel_type is_host_transfer source_target_pairs"},
    {"set_dimension_size", 1, 1, "dimension"},
    {"sine", 2, 2, "result_accuracy"},
    {"slice", 1, 1, "limit_indices start_indices strides"},
    {"sort", 1, 1, "dimension is_stable"},
    {"sqrt", 2, 2, "result_accuracy"},
    {"tan", 2, 2, "result_accuracy"},
    {"tanh", 2, 2, "result_accuracy"},
    {"torch_index_select", 1, 1, "batch_dims dim"},
    {"transpose", 1, 1, "permutation"},
    {"triangular_solve", 1, 1, "left_side lower transpose_a unit_diagonal"},
    {"unary_einsum", 1, 1, "einsum_config"},
};

/// By code; VHLO numbers types in the order they came to be.
constexpr std::string_view kElements[] = {
    "i1",       "",         "bf16",     "f16",        "f32",        "f64",
    "f8E4M3FN", "f8E5M2",   "",         "index",      "i4",         "i8",
    "i16",      "i32",      "i64",      "ui4",        "ui8",        "ui16",
    "ui32",     "ui64",     "",         "",           "",           "",
    "",         "",         "",         "f8E4M3FNUZ", "f8E5M2FNUZ", "f8E4M3B11FNUZ",
    "",         "i2",       "ui2",      "",           "tf32",       "f8E4M3",
    "f8E3M4",   "f4E2M1FN", "f6E2M3FN", "f6E3M2FN",   "f8E8M0FNU",
};

struct Default {
  std::string_view attribute;
  VhloDefault value;
};

/// Attributes that StableHLO leaves out when they say no more than this.
constexpr Default kDefaults[] = {
    {"backend_config", VhloDefault::kEmpty},
    {"base_dilations", VhloDefault::kAllOne},
    {"channel_id", VhloDefault::kZero},
    {"collapsed_slice_dims", VhloDefault::kEmpty},
    {"index_vector_dim", VhloDefault::kZero},
    {"input_batching_dims", VhloDefault::kEmpty},
    {"inserted_window_dims", VhloDefault::kEmpty},
    {"lhs_batching_dimensions", VhloDefault::kEmpty},
    {"lhs_contracting_dimensions", VhloDefault::kEmpty},
    {"lhs_dilation", VhloDefault::kAllOne},
    {"offset_dims", VhloDefault::kEmpty},
    {"operand_batching_dims", VhloDefault::kEmpty},
    {"padding", VhloDefault::kAllZero},
    {"rhs_batching_dimensions", VhloDefault::kEmpty},
    {"rhs_contracting_dimensions", VhloDefault::kEmpty},
    {"rhs_dilation", VhloDefault::kAllOne},
    {"scatter_dims_to_operand_dims", VhloDefault::kEmpty},
    {"scatter_indices_batching_dims", VhloDefault::kEmpty},
    {"source_target_pairs", VhloDefault::kEmpty},
    {"start_index_map", VhloDefault::kEmpty},
    {"start_indices_batching_dims", VhloDefault::kEmpty},
    {"update_window_dims", VhloDefault::kEmpty},
    {"use_global_device_ids", VhloDefault::kZero},
    {"window_dilations", VhloDefault::kAllOne},
    {"window_strides", VhloDefault::kAllOne},
};

/// Where "_v2" stands; npos without one.
size_t version_at(std::string_view operation) {
  const size_t at = operation.rfind("_v");
  if (at == std::string_view::npos || at + 2 == operation.size()) return std::string_view::npos;
  const bool digits = std::all_of(operation.begin() + static_cast<ptrdiff_t>(at) + 2,
                                  operation.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits ? at : std::string_view::npos;
}

}  // namespace

std::string_view without_version(std::string_view operation) {
  return operation.substr(0, version_at(operation));
}

std::optional<std::vector<std::string_view>> vhlo_properties(std::string_view operation) {
  const size_t at = version_at(operation);
  // Versions of two digits are newer than any here.
  if (at == std::string_view::npos || at + 3 != operation.size()) return std::nullopt;
  const int version = operation.back() - '0';
  const auto found =
      std::find_if(std::begin(kProperties), std::end(kProperties), [&](const auto& p) {
        return p.operation == operation.substr(0, at) && p.first_version <= version &&
               version <= p.last_version;
      });
  if (found == std::end(kProperties)) return std::nullopt;
  std::vector<std::string_view> names;
  std::string_view left = found->names;
  while (true) {
    const size_t blank = left.find(' ');
    names.push_back(left.substr(0, blank));
    if (blank == std::string_view::npos) return names;
    left.remove_prefix(blank + 1);
  }
}

std::string_view vhlo_element(uint64_t code) {
  return code < std::size(kElements) ? kElements[code] : std::string_view();
}

VhloDefault vhlo_default(std::string_view operation, std::string_view attribute) {
  if (operation == "sort" && attribute == "dimension") return VhloDefault::kMinusOne;
  if (operation == "cholesky" && attribute == "lower") return VhloDefault::kZero;
  // There it is the address, not an option.
  if ((operation == "send" || operation == "recv") && attribute == "channel_id")
    return VhloDefault::kNone;
  const auto found = std::find_if(std::begin(kDefaults), std::end(kDefaults),
                                  [&](const Default& d) { return d.attribute == attribute; });
  return found == std::end(kDefaults) ? VhloDefault::kNone : found->value;
}

}  // namespace orrery::stablehlo
