#pragma once

#include "orrery/workload/readers/onnx/operator.h"

namespace orrery::onnx {

struct AttentionShape {
  int64_t heads = 1;
  int64_t key_value_heads = 1;
  bool causal = false;
  int64_t window = 0;
};

/// [batch, sequence, heads·width] seen as [batch, heads, sequence, width]: fused
/// kernels read it with strides, so nothing moves.
ValueId split_heads(NodeContext& c, ValueId value, int64_t heads);

/// Fused attention of q[b,h,s,d], k[b,hk,t,d], v[b,hk,t,dv] and optional masks or
/// biases. `merged`: the result is [b, s, h·dv] instead of [b, h, s, dv].
ValueId attend(NodeContext& c, std::span<const ValueId> operands, const AttentionShape& shape,
               bool merged);

/// `past` followed by `now` along the sequence (dimension 2); `now` alone when
/// there is no past.
ValueId extend_cache(NodeContext& c, ValueId past, ValueId now);

/// Rotary position embedding of `value` with tables of cosines and sines, looked
/// up by `positions` where that is valid.
ValueId rotate(NodeContext& c, ValueId value, ValueId cosines, ValueId sines, ValueId positions);

}  // namespace orrery::onnx
