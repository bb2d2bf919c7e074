#include <fmt/format.h>

#include <algorithm>

#include "orrery/kernel/operator_kernel.h"
#include "orrery/model/torch/torch_kernels.h"
#include "orrery/serving/engine/pass_builder.h"

namespace orrery {

namespace kernels = torch_kernels;

void PassBuilder::choose(const Indexer& index, int64_t batch, int64_t rows, int64_t entries) {
  if (entries <= index.selected || index.shares_choice) return;
  add(kernels::product(ElementType::kF8E4M3FN, batch, rows * index.heads, entries,
                       index.head_size));
  add(kernels::over_rows(Opcode::k_top_k, ElementType::kF32, batch * rows, entries));
}

void PassBuilder::project_index(const Indexer& index, int64_t query_width) {
  if (index.shares_choice) return;
  const int64_t from = index.query_from_latent && query_width > 0 ? query_width : model_.hidden;
  linear(index.query, index.heads * index.head_size, from, 1);
  linear(index.key, index.head_size, model_.hidden, 1);
  if (index.weighs_heads) linear(index.weights, index.heads, model_.hidden, 1);
  rotate((index.heads + 1) * index.head_size);
  kept_.cache += count_ * static_cast<double>(index.head_size);  // 8 bits each
}

PassBuilder::Heads PassBuilder::local(const SoftmaxAttention& a) const {
  return {split(a.heads, layout_.tensor), split(a.key_value_heads, layout_.tensor)};
}

void PassBuilder::project(const SoftmaxAttention& a) {
  const auto [heads, groups] = local(a);
  const int64_t query = heads * a.head_size * (a.gate == OutputGate::kElementFromQuery ? 2 : 1);
  const int64_t keys = groups * a.head_size;
  const int64_t values = groups * a.value_head_size;
  what_ = EngineOperator::kQueryKeyValue;
  linear(a.query, query + keys + (a.value_is_key ? 0 : values), model_.hidden, layout_.tensor,
         a.value_is_key ? 2 : 3);
  what_ = EngineOperator::kQueryKeyNorm;
  if (a.norm != QueryKeyNorm::kNone) {
    const bool whole = a.norm == QueryKeyNorm::kWholeProjection;
    for (const int64_t n : {heads, groups})
      add(kernels::over_rows(Opcode::k_rms_norm, type_, whole ? tokens_ : tokens_ * n,
                             whole ? n * a.head_size : a.head_size, 1));
  }
  what_ = EngineOperator::kRotation;
  if (a.rotary_size > 0) rotate((heads + groups) * a.rotary_size);
  what_ = EngineOperator::kCacheWrite;
  write_cache(keys + values);
  what_ = EngineOperator::kOther;
  const double bytes = static_cast<double>(keys + values) * cache_bytes_ * count_;
  (a.window > 0 ? kept_.windowed_cache : kept_.cache) += bytes;
  if (a.indexer) project_index(*a.indexer, 0);
  if (a.gate == OutputGate::kHead) linear(a.gate_projection, heads, model_.hidden, layout_.tensor);
  if (a.gate == OutputGate::kElement)
    linear(a.gate_projection, heads * a.value_head_size, model_.hidden, layout_.tensor);
  if (a.gate != OutputGate::kNone)
    add(loop(tokens() * static_cast<double>(heads * a.value_head_size), 2 * kHalf, kHalf));
  what_ = EngineOperator::kAttentionOutput;
  linear(a.output, model_.hidden, heads * a.value_head_size, layout_.tensor);
  sum_over_tensor();
}

void PassBuilder::attend(const Scores& s) {
  const std::string narrow =
      cache_name_ == plain_ ? "" : fmt::format(R"(,"kv_dtype":"{}")", cache_name_);
  add(operator_kernel(
      "sdpa", plain_,
      fmt::format(R"({{"b":{},"h":{},"kv":{},"s":{},"t":{},"d":{},"dv":{},)"
                  R"("causal":{},"window":{},"paged":true{}}})",
                  s.batch, s.heads, s.groups, s.queries, s.keys, s.head, s.value_head, s.causal,
                  s.window < s.keys ? s.window : 0, narrow)));
}

void PassBuilder::attend_shared(int64_t batch, int64_t heads, int64_t queries, int64_t keys,
                                int64_t size, int64_t rotated, int64_t window, bool causal) {
  const int64_t both = 2 * size - rotated;
  attend({batch, std::max<int64_t>(1, heads * both / size), 1, queries, keys, size / 2, size / 2,
          window, causal});
}

void PassBuilder::attend_prompt(const SoftmaxAttention& a, int64_t queries, int64_t context) {
  const auto [heads, groups] = local(a);
  const int64_t keys = context + queries;
  int64_t window = a.window;
  if (a.indexer) {
    choose(*a.indexer, sequences_, queries, keys);
    window = a.indexer->selected * a.indexer->block;
  }
  attend({sequences_, heads, groups, queries, window > 0 ? std::min(keys, window + queries) : keys,
          a.head_size, a.value_head_size, window, true});
}

void PassBuilder::attend_next(const SoftmaxAttention& a, int64_t sequences, int64_t context,
                              int64_t queries) {
  const auto [heads, groups] = local(a);
  int64_t seen = a.window > 0 ? std::min(context, a.window) : context;
  if (a.indexer) {
    choose(*a.indexer, sequences, queries, split(context, a.indexer->block));
    seen = std::min(seen, a.indexer->selected * a.indexer->block);
  }
  attend({sequences, heads, groups, queries, seen, a.head_size, a.value_head_size, 0, queries > 1});
}

void PassBuilder::project(const LatentAttention& a) {
  const int64_t heads = split(a.heads, layout_.tensor);
  const int64_t head = a.nope_size + a.rope_size;
  const int64_t latent = a.latent_rank + a.rope_size;
  if (a.query_rank > 0) {
    linear(a.query_down, a.query_rank + latent, model_.hidden, 1);
    norm(a.query_rank, 1);
    linear(a.query_up, heads * head, a.query_rank, layout_.tensor);
  } else {
    linear(a.query_up, heads * head, model_.hidden, layout_.tensor);
    linear(a.latent_down, latent, model_.hidden, 1);
  }
  norm(a.latent_rank, 1);
  if (a.rotated) rotate((heads + 1) * a.rope_size);
  write_cache(latent);
  kept_.cache += static_cast<double>(latent) * cache_bytes_ * count_;
  keep(linear_format(a.latent_up), heads * (a.nope_size + a.value_size), a.latent_rank,
       layout_.tensor);
  if (a.indexer) project_index(*a.indexer, a.query_rank);
  if (a.gate != OutputGate::kNone) {
    linear(a.gate_projection, heads * a.value_size, model_.hidden, layout_.tensor);
    add(loop(tokens() * static_cast<double>(heads * a.value_size), 2 * kHalf, kHalf));
  }
  linear(a.output, model_.hidden, heads * a.value_size, layout_.tensor);
  sum_over_tensor();
}

void PassBuilder::absorb(const LatentAttention& a, int64_t heads) {
  add(kernels::product(type_, heads, tokens_, a.latent_rank, a.nope_size));
  add(kernels::product(type_, heads, tokens_, a.value_size, a.latent_rank));
}

void PassBuilder::attend_prompt(const LatentAttention& a, int64_t queries, int64_t context) {
  const int64_t heads = split(a.heads, layout_.tensor);
  const int64_t keys = context + queries;
  if (a.indexer) {  // sparse kernels look at the latent itself
    choose(*a.indexer, sequences_, queries, keys);
    absorb(a, heads);
    attend_shared(sequences_, heads, queries, std::min(keys, a.indexer->selected),
                  a.latent_rank + a.rope_size, a.rope_size, 0, keys <= a.indexer->selected);
    return;
  }
  // Keys and values of all tokens are made from the latent, then it is plain attention.
  linear_of(a.latent_up, sequences_ * keys, heads * (a.nope_size + a.value_size), a.latent_rank);
  const double put_together = static_cast<double>(sequences_ * keys) *
                              static_cast<double>(heads * (a.nope_size + a.rope_size));
  add(loop(put_together, kHalf, kHalf));
  attend(
      {sequences_, heads, heads, queries, keys, a.nope_size + a.rope_size, a.value_size, 0, true});
}

void PassBuilder::attend_next(const LatentAttention& a, int64_t sequences, int64_t context,
                              int64_t queries) {
  const int64_t heads = split(a.heads, layout_.tensor);
  int64_t seen = context;
  if (a.indexer) {
    choose(*a.indexer, sequences, queries, context);
    seen = std::min(seen, a.indexer->selected);
  }
  absorb(a, heads);
  attend_shared(sequences, heads, queries, seen, a.latent_rank + a.rope_size, a.rope_size, 0,
                queries > 1);
}

void PassBuilder::project(const CompressedAttention& a) {
  const int64_t heads = split(a.heads, layout_.tensor);
  const int64_t groups = split(a.output_groups, layout_.tensor);
  linear(a.query_down, a.query_rank + a.head_size, model_.hidden, 1);
  norm(a.query_rank, 1);
  linear(a.query_up, heads * a.head_size, a.query_rank, layout_.tensor);
  add(kernels::over_rows(Opcode::k_rms_norm, type_, tokens_ * heads, a.head_size, 1));
  rotate((heads + 1) * a.rotary_size);
  write_cache(a.head_size);
  kept_.windowed_cache += static_cast<double>(a.head_size) * cache_bytes_ * count_;
  if (a.ratio > 0) {
    Projection pool = a.key_value;
    linear(pool, 2 * a.head_size, model_.hidden, 1);
    kept_.cache +=
        static_cast<double>(a.head_size) * cache_bytes_ * count_ / static_cast<double>(a.ratio);
    if (a.indexer) project_index(*a.indexer, a.query_rank);
  }
  const int64_t group_width = heads / std::max<int64_t>(1, groups) * a.head_size;
  add(kernels::product(type_, groups, tokens_, a.output_rank, group_width));
  keep(linear_format(a.output_down), groups * a.output_rank, group_width, layout_.tensor);
  linear(a.output_up, model_.hidden, groups * a.output_rank, layout_.tensor);
  sum_over_tensor();
  note("pooling of tokens in compressed attention is timed as its products alone");
}

void PassBuilder::attend_prompt(const CompressedAttention& a, int64_t queries, int64_t context) {
  const int64_t heads = split(a.heads, layout_.tensor);
  const int64_t keys = context + queries;
  attend_shared(sequences_, heads, queries, std::min(keys, a.window + queries), a.head_size, 0,
                a.window, true);
  attend_pooled(a, sequences_, heads, queries, keys);
}

void PassBuilder::attend_next(const CompressedAttention& a, int64_t sequences, int64_t context,
                              int64_t queries) {
  const int64_t heads = split(a.heads, layout_.tensor);
  attend_shared(sequences, heads, queries, std::min(context, a.window), a.head_size, 0, 0,
                queries > 1);
  attend_pooled(a, sequences, heads, queries, context);
}

void PassBuilder::attend_pooled(const CompressedAttention& a, int64_t batch, int64_t heads,
                                int64_t queries, int64_t context) {
  int64_t entries = a.ratio > 0 ? context / a.ratio : 0;
  if (entries == 0) return;
  if (a.indexer) {
    choose(*a.indexer, batch, queries, entries);
    entries = std::min(entries, a.indexer->selected);
  }
  attend_shared(batch, heads, queries, entries, a.head_size, 0, 0, false);
}

}  // namespace orrery
