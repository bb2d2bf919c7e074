#include <algorithm>

#include "orrery/model/torch/torch_kernels.h"
#include "orrery/serving/engine/pass_builder.h"

namespace orrery {

namespace kernels = torch_kernels;

void PassBuilder::project(const DeltaAttention& a) {
  const int64_t key = split(a.key_heads, layout_.tensor) * a.key_size;
  const int64_t value_heads = split(a.value_heads, layout_.tensor);
  const int64_t value = value_heads * a.value_size;
  linear(a.query_key_value, 2 * key + value, model_.hidden, layout_.tensor);
  if (a.gate_rank > 0) {
    linear(a.gate, a.gate_rank, model_.hidden, 1);
    linear(a.gate, value, a.gate_rank, layout_.tensor);
  } else {
    linear(a.gate, value, model_.hidden, layout_.tensor);
  }
  if (a.channel_decay) {
    linear(a.decay, a.decay_rank, model_.hidden, 1);
    linear(a.decay, key, a.decay_rank, layout_.tensor);
    linear(a.decay, value_heads, model_.hidden, layout_.tensor);
  } else {
    linear(a.decay, 2 * value_heads, model_.hidden, layout_.tensor);
  }
  convolve(2 * key + value);
  // The gated norm of the result.
  add(loop(tokens() * static_cast<double>(value), 2 * kHalf, kHalf));
  linear(a.output, model_.hidden, value, layout_.tensor);
  sum_over_tensor();
  kept_.state += count_ * (static_cast<double>(value_heads * a.key_size * a.value_size) * kWide +
                           static_cast<double>((2 * key + value) * (a.convolution - 1)) * kHalf);
}

void PassBuilder::convolve(int64_t channels) {
  add(loop(tokens() * static_cast<double>(channels), kHalf, kHalf));
}

void PassBuilder::attend_prompt(const DeltaAttention& a, int64_t queries, int64_t /*context*/) {
  constexpr int64_t kChunk = 64;  // of flash-linear-attention's gated delta kernels
  const int64_t heads = split(a.value_heads, layout_.tensor);
  const int64_t chunk = std::min(kChunk, queries), chunks = sequences_ * split(queries, chunk);
  recur(heads, heads, chunk, chunks, a.key_size, a.value_size);
  note("linear attention of prompts is timed as its products");
}

void PassBuilder::recur(int64_t groups, int64_t heads, int64_t chunk, int64_t chunks, int64_t key,
                        int64_t value) {
  add(kernels::product(type_, groups * chunks, chunk, chunk, key));
  add(kernels::product(type_, heads * chunks, chunk, value, chunk));
  add(kernels::product(type_, heads * chunks, key, value, chunk));
  add(kernels::product(type_, heads * chunks, chunk, value, key));
}

void PassBuilder::attend_next(const DeltaAttention& a, int64_t sequences, int64_t /*context*/,
                              int64_t /*queries*/) {
  update_state(sequences, split(a.value_heads, layout_.tensor) * a.key_size * a.value_size);
}

void PassBuilder::update_state(int64_t sequences, int64_t size) {
  add(loop(static_cast<double>(sequences) * static_cast<double>(size), kWide, kWide));
}

void PassBuilder::project(const StateSpace& m) {
  const int64_t heads = split(m.heads, layout_.tensor);
  const int64_t groups = split(m.groups, layout_.tensor);
  const int64_t inner = heads * m.head_size, shared = 2 * groups * m.state_size;
  linear(m.input, 2 * inner + shared + heads, model_.hidden, layout_.tensor);
  convolve(inner + shared);
  add(loop(tokens() * static_cast<double>(inner), 2 * kHalf, kHalf));
  linear(m.output, model_.hidden, inner, layout_.tensor);
  sum_over_tensor();
  kept_.state += count_ * (static_cast<double>(inner * m.state_size) * kWide +
                           static_cast<double>((inner + shared) * (m.convolution - 1)) * kHalf);
}

void PassBuilder::attend_prompt(const StateSpace& m, int64_t queries, int64_t /*context*/) {
  const int64_t chunk = std::min(m.chunk, queries), chunks = sequences_ * split(queries, chunk);
  recur(split(m.groups, layout_.tensor), split(m.heads, layout_.tensor), chunk, chunks,
        m.state_size, m.head_size);
  note("state-space scans of prompts are timed as their products");
}

void PassBuilder::attend_next(const StateSpace& m, int64_t sequences, int64_t /*context*/,
                              int64_t /*queries*/) {
  update_state(sequences, split(m.heads, layout_.tensor) * m.head_size * m.state_size);
}

void PassBuilder::project(const LinearBlock& block) {
  linear(block.projection, model_.hidden, split(model_.hidden, layout_.tensor), layout_.tensor);
  sum_over_tensor();
}

}  // namespace orrery
