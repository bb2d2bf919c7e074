#pragma once

#include <cstdint>
#include <string_view>

namespace orrery {

/// What an operation carries beside operands and results. Readers translate
/// every format's spelling into these keys, so that rules downstream see one.
/// In brackets: the kind stored. Dimension numbers count from 0.
enum class Attr : uint16_t {
  // Contractions.
  kLhsBatching,     ///< [ints] dot_general
  kRhsBatching,     ///< [ints]
  kLhsContracting,  ///< [ints]
  kRhsContracting,  ///< [ints]
  kComputeType,     ///< [int: ElementType] precision a dot algorithm asks for, e.g. TF32
  kPrecision,       ///< [int] the highest of the operands': 0 default, 1 high, 2 highest
  kActiveGroups,    ///< [int] grouped_dot: groups whose weights are read; absent: min(groups, rows)
  kSkew,            ///< [real] grouped_dot: rows fall to group i as (i+1)^-skew, default 0

  // Convolution: which dimension of each tensor is what.
  kInputBatch,
  kInputFeature,  ///< [int]
  kInputSpatial,  ///< [ints]
  kKernelInput,
  kKernelOutput,   ///< [int]
  kKernelSpatial,  ///< [ints]
  kOutputBatch,
  kOutputFeature,  ///< [int]
  kOutputSpatial,  ///< [ints]
  kFeatureGroups,
  kBatchGroups,  ///< [int] default 1

  // Windows: convolution (over spatial dimensions), reduce_window and
  // select_and_scatter (over all dimensions), pad.
  kWindowSize,      ///< [ints]
  kWindowStrides,   ///< [ints] default 1
  kBaseDilation,    ///< [ints] lhs dilation, default 1
  kWindowDilation,  ///< [ints] rhs dilation, default 1
  kPaddingLow,
  kPaddingHigh,
  kPaddingInterior,  ///< [ints] may be negative

  // Dimensions of reduce, transpose (permutation), broadcast_in_dim, reverse,
  // concatenate, iota, sort, cumsum, scan, softmax, layer_norm, get_dimension_size …
  kDimensions,  ///< [ints]

  // Slices, gathers, scatters.
  kStart,
  kLimit,
  kStride,                    ///< [ints] slice
  kSliceSizes,                ///< [ints] dynamic_slice, gather
  kOffsetDims,                ///< [ints] gather
  kCollapsedSliceDims,        ///< [ints] gather
  kOperandBatchingDims,       ///< [ints] gather, scatter (its input batching dims)
  kStartIndicesBatchingDims,  ///< [ints]
  kStartIndexMap,             ///< [ints] gather; scatter_dims_to_operand_dims of scatter
  kIndexVectorDim,            ///< [int]
  kUpdateWindowDims,
  kInsertedWindowDims,  ///< [ints] scatter

  // Collectives.
  kReplicaGroups,      ///< [ints] ranks, groups one after the other, all of one size
  kReplicaGroupSize,   ///< [int] ranks a group; absent when every device takes part
  kRaggedGroups,       ///< [ints] sizes where groups differ; kReplicaGroupSize is then the largest
  kSourceTargetPairs,  ///< [ints] collective_permute
  kChannel,            ///< [int]
  kUseGlobalIds,       ///< [int] 0 or 1
  kSplitDimension,
  kConcatDimension,
  kSplitCount,  ///< [int] all_to_all
  kAsync,       ///< [int] 1: a -start whose -done is another operation; 2: that -done

  // Control.
  kCallee,         ///< [function] call, fusion, composite, reduce (HLO), while body (HLO), async
  kCondition,      ///< [function] while condition (HLO)
  kBranches,       ///< [ints] function indices of an HLO conditional
  kTripCount,      ///< [int] of a while, when known
  kReducer,        ///< [string] opcode a reduce applies, where it has no body; default add
  kCompare,        ///< [string] EQ NE LT LE GT GE
  kIndex,          ///< [int] get_tuple_element
  kFusionKind,     ///< [string] HLO: kLoop kInput kOutput kCustom
  kTarget,         ///< [string] custom_call target, composite name
  kConfig,         ///< [string] backend_config, kept as written
  kOutputAliases,  ///< [ints] pairs output, operand of a custom_call or fusion

  // Values and small settings.
  kValue,      ///< [ints] integer constant: one entry when splat, else all (at most 64)
  kRealValue,  ///< [real] splat floating-point constant
  kEpsilon,    ///< [real]
  kK,          ///< [int] top_k
  kLength,     ///< [ints] fft
  kLower,      ///< [int] cholesky, triangular_solve: 0 or 1
  kLeftSide,   ///< [int] triangular_solve
  kCausal,     ///< [int] attention: 1 when only the lower triangle is computed
  kWindow,     ///< [int] attention: sliding window in tokens, 0 none
  kPaged,      ///< [int] attention: 1 when keys and values lie in blocks of a table
  kHeads,
  kKeyValueHeads,  ///< [int] attention
  kScores,         ///< [ints] a library's attention call: batch, heads, queries, keys of its scores
  kInPlace,        ///< [int] 1: the first result may share the first operand's buffer
  kSharding,       ///< [sharding]
  kInShardings,
  kOutShardings,  ///< [ints: ShardingId indices] manual_computation
  kManualAxes,    ///< [string] comma-separated mesh axes of a manual_computation
  kScope,         ///< [string] where in the model: HLO op_name, an ONNX node's name
  /// [string] the layer that it is one of several operations of, and which: "rotary#3". Its
  /// gradient's are "gradient/rotary#3"; those of a plain operation "gradient/gelu#7".
  kModule,
};

std::string_view name(Attr key);

}  // namespace orrery
