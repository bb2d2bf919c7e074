#pragma once

#include "orrery/workload/zoo/language_model.h"

namespace orrery {

/// GPT-2's architecture, as Megatron's papers take it: 12·h² parameters a layer, and biases.
inline TransformerDescription gpt_for_test(int64_t layers, int64_t hidden, int64_t heads,
                                           int64_t vocabulary) {
  SoftmaxAttention attention;
  attention.heads = attention.key_value_heads = heads;
  attention.head_size = attention.value_head_size = hidden / heads;
  attention.fused = true;
  attention.query.bias = attention.output.bias = true;
  DenseFeedForward feed_forward;
  feed_forward.inner = 4 * hidden;
  feed_forward.gated = false;
  feed_forward.activation = Activation::kGelu;
  feed_forward.up.bias = feed_forward.down.bias = true;
  TransformerDescription model;
  model.name = "gpt";
  model.vocabulary = vocabulary;
  model.hidden = hidden;
  model.norm = Norm::kLayer;
  model.tied_embeddings = true;
  model.dropout = true;
  model.layers.assign(static_cast<size_t>(layers),
                      {attention, feed_forward, NormPlacement::kBefore, false});
  return model;
}

}  // namespace orrery
