#include "orrery/serving/engine/engine_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "orrery/kernel/operator_kernel.h"
#include "orrery/model/torch/torch_kernels.h"
#include "orrery/serving/engine/number_format.h"

namespace orrery {
namespace {

namespace kernels = torch_kernels;

constexpr double kHalf = 2, kWide = 4;

// Products with weights of four bits were measured with PyTorch's kernel, which is made for few
// rows and takes longer with each. Engines run Marlin, which reads the weights once up to the rows
// at which arithmetic takes as long, and then keeps the pace of 16 bits, whose own kernel is at
// that pace from more rows on (bytes of a weight · arithmetic rate / bandwidth / 2: 40 to 100, and
// four times as many, on the catalogue's GPUs; stated, not measured).
constexpr int64_t kRowsForBandwidth = 64;
constexpr int64_t kRowsForArithmetic = 4 * kRowsForBandwidth;

int64_t split(int64_t size, int64_t ranks) { return (size + ranks - 1) / ranks; }

/// A layer and how often a stage has it.
struct RepeatedLayer {
  Layer layer;
  double count = 0;
};

/// What a rank keeps of the model.
struct Kept {
  double weights = 0;     ///< Bytes, of layers; …
  double outer = 0;       ///< … of the embedding and the head.
  double parameters = 0;  ///< Of all ranks.
  double cache = 0, windowed_cache = 0, state = 0;
  double adapter = 0;  ///< Bytes of one.
};

class PassBuilder {
 public:
  PassBuilder(const TransformerDescription& model, const ServingLayout& layout,
              const ServingPrecision& precision, const EngineHabits& habits,
              std::vector<std::string>& gaps)
      : model_(model),
        layout_(layout),
        precision_(precision),
        habits_(habits),
        gaps_(gaps),
        type_(model.type),
        plain_(operator_name(model.type)) {
    const ElementType cache =
        model.cache_type == ElementType::kNone ? model.type : model.cache_type;
    cache_name_ = precision.cache.empty() ? operator_name(cache) : precision.cache;
    cache_bytes_ = number_format(cache_name_).bytes;
  }

  void set_tokens(int64_t tokens) {
    tokens_ = tokens;
    captured_ = tokens <= habits_.captured_tokens;
  }
  void set_count(double count) { count_ = count; }
  /// Different ones that the tokens ask for.
  void set_adapters(int64_t adapters) { adapters_ = adapters; }
  EnginePass take() { return std::move(pass_); }
  EnginePass take_adapters() { return std::move(adapter_pass_); }
  const Kept& kept() const { return kept_; }

  // --- once for all tokens of a step --------------------------------------------------------

  void layer(const Layer& layer) {
    const bool mixes = !std::holds_alternative<std::monostate>(layer.mixer);
    const bool feeds = !std::holds_alternative<std::monostate>(layer.feed_forward);
    if (mixes) {
      layer_norm(2);
      std::visit([&](const auto& mixer) { project(mixer); }, layer.mixer);
      if (layer.norms == NormPlacement::kBoth) layer_norm(1);
    }
    if (feeds) {
      if (layer.norms != NormPlacement::kParallelOneNorm) layer_norm(2);
      std::visit([&](const auto& part) { feed(part); }, layer.feed_forward);
      if (layer.norms == NormPlacement::kBoth) layer_norm(1);
    }
    if (model_.streams > 1) streams(mixes + feeds);
  }

  void embedding() {
    const int64_t width = model_.embedding_size > 0 ? model_.embedding_size : model_.hidden;
    const int64_t rows = split(model_.vocabulary, layout_.tensor);
    what_ = EngineOperator::kEmbedding;
    add(kernels::lookup(type_, tokens_, width, rows, false));
    kept_.outer += static_cast<double>(rows * width) * kHalf;
    kept_.parameters += static_cast<double>(model_.vocabulary * width);
    if (layout_.tensor > 1)
      talk(CollectiveKind::kAllReduce, rows_bytes(tokens_, width), tensor_group());
  }

  void head(int64_t rows) {
    const int64_t words = split(model_.vocabulary, layout_.tensor);
    set_tokens(rows);
    what_ = EngineOperator::kFinalNorm;
    add(kernels::over_rows(Opcode::k_rms_norm, type_, rows, model_.hidden, 2));
    what_ = EngineOperator::kHead;
    const std::string name = head_format();
    add(product(name, rows, words, model_.hidden));
    if (!model_.tied_embeddings) {
      kept_.outer += static_cast<double>(words * model_.hidden) * number_format(name).bytes;
      kept_.parameters += static_cast<double>(model_.vocabulary * model_.hidden);
    }
    const double logits = static_cast<double>(rows) * static_cast<double>(model_.vocabulary);
    if (layout_.tensor > 1) talk(CollectiveKind::kAllGather, logits * kHalf, tensor_group());
    // To 32 bits, then the largest of each row.
    what_ = EngineOperator::kSampler;
    add(loop(logits, kHalf, kWide));
    add(operator_kernel("reduce_max", "fp32",
                        fmt::format(R"({{"shape":[{},{}]}})", rows, model_.vocabulary)));
  }

  // --- attention ----------------------------------------------------------------------------

  /// Experts for the tokens of all ranks that share them.
  void experts(const Layer& layer, int64_t group_tokens) {
    const auto* m = std::get_if<MixtureOfExperts>(&layer.feed_forward);
    if (m == nullptr) return;
    set_tokens(group_tokens);
    what_ = EngineOperator::kExperts;
    const int64_t width = m->latent > 0 ? m->latent : model_.hidden;
    if (layout_.attention_data > 1) travel(width, *m);
    run_experts(*m, width);
  }

  /// `queries` new tokens of each sequence after `context`.
  void prefill(const Layer& layer, int64_t sequences, int64_t queries, int64_t context) {
    sequences_ = sequences;
    set_tokens(sequences * queries);
    what_ = EngineOperator::kAttention;
    std::visit([&](const auto& mixer) { attend_prompt(mixer, queries, context); }, layer.mixer);
  }
  void decode(const Layer& layer, int64_t sequences, int64_t context, int64_t queries) {
    set_tokens(sequences * queries);
    what_ = EngineOperator::kAttention;
    std::visit([&](const auto& mixer) { attend_next(mixer, sequences, context, queries); },
               layer.mixer);
  }

 private:
  RankGroup tensor_group() const { return {layout_.tensor, 1}; }
  RankGroup stage_group() const { return {layout_.stage_devices(), 1}; }
  int expert_tensor() const {
    return layout_.expert_tensor > 0 ? layout_.expert_tensor
                                     : layout_.stage_devices() / layout_.expert;
  }
  double tokens() const { return static_cast<double>(tokens_); }
  static double rows_bytes(int64_t rows, int64_t width) {
    return static_cast<double>(rows) * static_cast<double>(width) * kHalf;
  }

  void add(const Kernel& kernel, double count = 1) { add_to(pass_, kernel, count, what_); }
  void add_to(EnginePass& pass, const Kernel& kernel, double count, EngineOperator what) const {
    count *= count_;
    for (size_t i = 0; i < pass.launches.size(); ++i)
      if (pass.operators[i] == what && pass.launches[i].kernel == kernel) {
        pass.launches[i].count += count;
        return;
      }
    Launch launch;
    launch.kernel = kernel;
    launch.count = count;
    pass.launches.push_back(launch);
    pass.operators.push_back(what);
  }
  void talk(CollectiveKind kind, double bytes, RankGroup group) {
    if (group.size <= 1) return;
    const CollectiveCall call{kind, Bytes(bytes), group, type_};
    for (EngineTraffic& like : pass_.traffic)
      if (like.call == call) {
        like.count += count_;
        return;
      }
    pass_.traffic.push_back({call, count_});
  }
  void note(std::string text) {
    if (std::ranges::find(gaps_, text) == gaps_.end()) gaps_.push_back(std::move(text));
  }

  /// A loop over `elements` that reads and writes so many bytes for each.
  Kernel loop(double elements, double read, double written) const {
    return kernels::loop(Opcode::k_add, KernelFamily::kElementwise, type_,
                         std::max<int64_t>(1, static_cast<int64_t>(elements)), elements * read,
                         elements * written, 0);
  }
  void norm(int64_t width, int64_t tensors) {
    add(kernels::over_rows(Opcode::k_rms_norm, type_, tokens_, width, tensors));
  }
  /// What comes after it is of no kind until it says so.
  void layer_norm(int64_t tensors) {
    what_ = EngineOperator::kNorm;
    norm(model_.hidden, tensors);
    what_ = EngineOperator::kOther;
  }

  std::string linear_format(const Projection& p) const {
    return asked_format(precision_.linear, p.format);
  }
  /// Numbers that the model has in as many bits already stay as they are, scales and all.
  std::string asked_format(const std::string& asked, const WeightFormat& format) const {
    std::string own = format_name(format, type_);
    if (asked.empty() ||
        std::floor(2 * number_format(asked).bytes) == std::floor(2 * number_format(own).bytes))
      return own;
    return asked;
  }
  std::string head_format() const { return format_name(model_.head.format, type_); }

  Kernel product(const std::string& format, int64_t m, int64_t n, int64_t k) const {
    // Tables time layers with scales for blocks from the host, 59 us at least, which a graph does
    // not wait for (model/vllm/vllm_launches.cc).
    const std::string_view name =
        captured_ && format == "fp8_block" ? std::string_view("fp8") : std::string_view(format);
    return operator_kernel("gemm", name, fmt::format(R"({{"m":{},"n":{},"k":{}}})", m, n, k));
  }

  /// y = x·wᵀ of all tokens; `ranks` share the `n` columns or, as sums, the `k` rows: the sizes
  /// are those of one. `parts` that a checkpoint has apart, and its adapters.
  void linear(const Projection& p, int64_t n, int64_t k, int64_t ranks, int64_t parts = 1) {
    linear_of(p, tokens_, n, k);
    keep(linear_format(p), n, k, ranks);
    if (habits_.adapter_rank > 0) adapt(n, k, parts);
  }
  void adapt(int64_t n, int64_t k, int64_t parts) {
    const int64_t rank = habits_.adapter_rank;
    kept_.adapter += count_ * static_cast<double>((parts * k + n) * rank) * kHalf;
    if (adapters_ == 0) return;
    for (const auto& [columns, depth] : {std::pair(parts * rank, k), std::pair(n, rank)})
      add_to(adapter_pass_,
             operator_kernel("grouped_gemm", plain_,
                             fmt::format(R"({{"experts":{},"tokens":{},"n":{},"k":{}}})",
                                         std::min(adapters_, tokens_), tokens_, columns, depth)),
             1, EngineOperator::kOther);
  }
  void linear_of(const Projection& p, int64_t m, int64_t n, int64_t k) {
    const std::string format = linear_format(p);
    if (format != "int4_weight") {
      add(product(format, m, n, k));
    } else if (m <= kRowsForBandwidth) {
      add(product(format, 1, n, k));
    } else {
      const int64_t rows = std::max(m, kRowsForArithmetic);
      add(product(plain_, rows, n, k), static_cast<double>(m) / static_cast<double>(rows));
    }
  }
  void keep(const std::string& format, int64_t n, int64_t k, int64_t ranks) {
    const double elements = static_cast<double>(n) * static_cast<double>(k) * count_;
    kept_.weights += elements * number_format(format).bytes;
    kept_.parameters += elements * static_cast<double>(ranks * layout_.pipeline);
  }

  void sum_over_tensor() {
    talk(CollectiveKind::kAllReduce, rows_bytes(tokens_, model_.hidden), tensor_group());
  }

  /// New keys and values into the paged cache.
  void write_cache(int64_t width) {
    add(loop(tokens() * static_cast<double>(width), kHalf, cache_bytes_));
  }
  void rotate(int64_t width) { add(loop(tokens() * static_cast<double>(width), kHalf, kHalf)); }

  /// The scores of an indexer's heads and the choice of the best, for `rows` queries in
  /// `batch` sequences over `entries` each.
  void choose(const Indexer& index, int64_t batch, int64_t rows, int64_t entries) {
    if (entries <= index.selected || index.shares_choice) return;
    add(kernels::product(ElementType::kF8E4M3FN, batch, rows * index.heads, entries,
                         index.head_size));
    add(kernels::over_rows(Opcode::k_top_k, ElementType::kF32, batch * rows, entries));
  }
  void project_index(const Indexer& index, int64_t query_width) {
    if (index.shares_choice) return;
    const int64_t from = index.query_from_latent && query_width > 0 ? query_width : model_.hidden;
    linear(index.query, index.heads * index.head_size, from, 1);
    linear(index.key, index.head_size, model_.hidden, 1);
    if (index.weighs_heads) linear(index.weights, index.heads, model_.hidden, 1);
    rotate((index.heads + 1) * index.head_size);
    kept_.cache += count_ * static_cast<double>(index.head_size);  // 8 bits each
  }

  // --- softmax attention

  struct Heads {
    int64_t heads, groups;
  };
  Heads local(const SoftmaxAttention& a) const {
    return {split(a.heads, layout_.tensor), split(a.key_value_heads, layout_.tensor)};
  }

  void project(const SoftmaxAttention& a) {
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
    if (a.gate == OutputGate::kHead)
      linear(a.gate_projection, heads, model_.hidden, layout_.tensor);
    if (a.gate == OutputGate::kElement)
      linear(a.gate_projection, heads * a.value_head_size, model_.hidden, layout_.tensor);
    if (a.gate != OutputGate::kNone)
      add(loop(tokens() * static_cast<double>(heads * a.value_head_size), 2 * kHalf, kHalf));
    what_ = EngineOperator::kAttentionOutput;
    linear(a.output, model_.hidden, heads * a.value_head_size, layout_.tensor);
    sum_over_tensor();
  }

  struct Scores {
    int64_t batch, heads, groups, queries, keys, head, value_head, window;
    bool causal;
  };
  void attend(const Scores& s) {
    const std::string narrow =
        cache_name_ == plain_ ? "" : fmt::format(R"(,"kv_dtype":"{}")", cache_name_);
    add(operator_kernel(
        "sdpa", plain_,
        fmt::format(R"({{"b":{},"h":{},"kv":{},"s":{},"t":{},"d":{},"dv":{},)"
                    R"("causal":{},"window":{},"paged":true{}}})",
                    s.batch, s.heads, s.groups, s.queries, s.keys, s.head, s.value_head, s.causal,
                    s.window < s.keys ? s.window : 0, narrow)));
  }
  /// Over entries of `size` numbers that are keys and, but for their last `rotated`, values as
  /// well: read once. The operator counts keys and values, so each gets half of an entry, and
  /// heads are as many more as keep the products' FLOPs.
  void attend_shared(int64_t batch, int64_t heads, int64_t queries, int64_t keys, int64_t size,
                     int64_t rotated, int64_t window, bool causal) {
    const int64_t both = 2 * size - rotated;
    attend({batch, std::max<int64_t>(1, heads * both / size), 1, queries, keys, size / 2, size / 2,
            window, causal});
  }
  void attend_prompt(const SoftmaxAttention& a, int64_t queries, int64_t context) {
    const auto [heads, groups] = local(a);
    const int64_t keys = context + queries;
    int64_t window = a.window;
    if (a.indexer) {
      choose(*a.indexer, sequences_, queries, keys);
      window = a.indexer->selected * a.indexer->block;
    }
    attend({sequences_, heads, groups, queries,
            window > 0 ? std::min(keys, window + queries) : keys, a.head_size, a.value_head_size,
            window, true});
  }
  void attend_next(const SoftmaxAttention& a, int64_t sequences, int64_t context, int64_t queries) {
    const auto [heads, groups] = local(a);
    int64_t seen = a.window > 0 ? std::min(context, a.window) : context;
    if (a.indexer) {
      choose(*a.indexer, sequences, queries, split(context, a.indexer->block));
      seen = std::min(seen, a.indexer->selected * a.indexer->block);
    }
    attend(
        {sequences, heads, groups, queries, seen, a.head_size, a.value_head_size, 0, queries > 1});
  }

  // --- latent attention

  void project(const LatentAttention& a) {
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

  /// Queries through the keys' up-projection and results through the values': per head.
  void absorb(const LatentAttention& a, int64_t heads) {
    add(kernels::product(type_, heads, tokens_, a.latent_rank, a.nope_size));
    add(kernels::product(type_, heads, tokens_, a.value_size, a.latent_rank));
  }
  void attend_prompt(const LatentAttention& a, int64_t queries, int64_t context) {
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
    attend({sequences_, heads, heads, queries, keys, a.nope_size + a.rope_size, a.value_size, 0,
            true});
  }
  void attend_next(const LatentAttention& a, int64_t sequences, int64_t context, int64_t queries) {
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

  // --- compressed attention

  void project(const CompressedAttention& a) {
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
  void attend_prompt(const CompressedAttention& a, int64_t queries, int64_t context) {
    const int64_t heads = split(a.heads, layout_.tensor);
    const int64_t keys = context + queries;
    attend_shared(sequences_, heads, queries, std::min(keys, a.window + queries), a.head_size, 0,
                  a.window, true);
    attend_pooled(a, sequences_, heads, queries, keys);
  }
  void attend_next(const CompressedAttention& a, int64_t sequences, int64_t context,
                   int64_t queries) {
    const int64_t heads = split(a.heads, layout_.tensor);
    attend_shared(sequences, heads, queries, std::min(context, a.window), a.head_size, 0, 0,
                  queries > 1);
    attend_pooled(a, sequences, heads, queries, context);
  }
  void attend_pooled(const CompressedAttention& a, int64_t batch, int64_t heads, int64_t queries,
                     int64_t context) {
    int64_t entries = a.ratio > 0 ? context / a.ratio : 0;
    if (entries == 0) return;
    if (a.indexer) {
      choose(*a.indexer, batch, queries, entries);
      entries = std::min(entries, a.indexer->selected);
    }
    attend_shared(batch, heads, queries, entries, a.head_size, 0, 0, false);
  }

  // --- linear attention and state spaces

  void project(const DeltaAttention& a) {
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
  void convolve(int64_t channels) {
    add(loop(tokens() * static_cast<double>(channels), kHalf, kHalf));
  }
  void attend_prompt(const DeltaAttention& a, int64_t queries, int64_t /*context*/) {
    constexpr int64_t kChunk = 64;  // of flash-linear-attention's gated delta kernels
    const int64_t heads = split(a.value_heads, layout_.tensor);
    const int64_t chunk = std::min(kChunk, queries), chunks = sequences_ * split(queries, chunk);
    recur(heads, heads, chunk, chunks, a.key_size, a.value_size);
    note("linear attention of prompts is timed as its products");
  }
  /// Products inside chunks, and from chunk to chunk through the state.
  void recur(int64_t groups, int64_t heads, int64_t chunk, int64_t chunks, int64_t key,
             int64_t value) {
    add(kernels::product(type_, groups * chunks, chunk, chunk, key));
    add(kernels::product(type_, heads * chunks, chunk, value, chunk));
    add(kernels::product(type_, heads * chunks, key, value, chunk));
    add(kernels::product(type_, heads * chunks, chunk, value, key));
  }
  void attend_next(const DeltaAttention& a, int64_t sequences, int64_t /*context*/,
                   int64_t /*queries*/) {
    update_state(sequences, split(a.value_heads, layout_.tensor) * a.key_size * a.value_size);
  }
  void update_state(int64_t sequences, int64_t size) {
    add(loop(static_cast<double>(sequences) * static_cast<double>(size), kWide, kWide));
  }

  void project(const StateSpace& m) {
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
  void attend_prompt(const StateSpace& m, int64_t queries, int64_t /*context*/) {
    const int64_t chunk = std::min(m.chunk, queries), chunks = sequences_ * split(queries, chunk);
    recur(split(m.groups, layout_.tensor), split(m.heads, layout_.tensor), chunk, chunks,
          m.state_size, m.head_size);
    note("state-space scans of prompts are timed as their products");
  }
  void attend_next(const StateSpace& m, int64_t sequences, int64_t /*context*/,
                   int64_t /*queries*/) {
    update_state(sequences, split(m.heads, layout_.tensor) * m.head_size * m.state_size);
  }

  void project(const LinearBlock& block) {
    linear(block.projection, model_.hidden, split(model_.hidden, layout_.tensor), layout_.tensor);
    sum_over_tensor();
  }
  void attend_prompt(const LinearBlock& /*block*/, int64_t /*queries*/, int64_t /*context*/) {}
  void attend_next(const LinearBlock& /*block*/, int64_t /*sequences*/, int64_t /*context*/,
                   int64_t /*queries*/) {}
  void project(const std::monostate& /*none*/) {}
  void attend_prompt(const std::monostate& /*none*/, int64_t /*queries*/, int64_t /*context*/) {}
  void attend_next(const std::monostate& /*none*/, int64_t /*sequences*/, int64_t /*context*/,
                   int64_t /*queries*/) {}

  // --- feed-forward parts -------------------------------------------------------------------

  void feed(const std::monostate& /*none*/) {}
  void feed(const LinearBlock& block) { project(block); }
  void feed(const DenseFeedForward& f) {
    using enum EngineOperator;
    dense(f, {kUp, kActivation, kDown});
    sum_over_tensor();
  }
  /// `parts`: what its three launches are for. Beside experts they are none that profilers time.
  using DenseParts = std::array<EngineOperator, 3>;
  static constexpr DenseParts kBesideExperts = {EngineOperator::kOther, EngineOperator::kOther,
                                                EngineOperator::kOther};
  void dense(const DenseFeedForward& f, const DenseParts& parts) {
    const int64_t inner = split(f.inner, layout_.tensor);
    what_ = parts[0];
    linear(f.up, (f.gated ? 2 : 1) * inner, model_.hidden, layout_.tensor, f.gated ? 2 : 1);
    what_ = parts[1];
    activate(tokens() * static_cast<double>(inner), f.gated);
    what_ = parts[2];
    linear(f.down, model_.hidden, inner, layout_.tensor);
  }
  void activate(double elements, bool gated) {
    add(loop(elements, (gated ? 2 : 1) * kHalf, kHalf));
  }

  void feed(const MixtureOfExperts& m) {
    what_ = EngineOperator::kRouter;
    if (habits_.adapter_rank > 0)
      note("adapters of experts are not counted, those of attention and dense layers are");
    add(product(format_name(m.router.format, type_), tokens_, m.experts, model_.hidden));
    keep(plain_, m.experts, model_.hidden, 1);
    add(kernels::over_rows(Opcode::k_softmax, ElementType::kF32, tokens_, m.experts));
    what_ = EngineOperator::kOther;
    if (m.latent > 0) linear(m.latent_down, m.latent, model_.hidden, 1);
    if (m.latent > 0) linear(m.latent_up, model_.hidden, m.latent, 1);
    if (m.shared) dense(*m.shared, kBesideExperts);
    if (m.beside) dense(*m.beside, kBesideExperts);
    if (m.shared || m.beside)
      add(loop(tokens() * static_cast<double>(model_.hidden), 2 * kHalf, kHalf));
    if (layout_.attention_data == 1)
      talk(CollectiveKind::kAllReduce, rows_bytes(tokens_, model_.hidden), stage_group());
    else if (m.shared || m.beside)
      sum_over_tensor();
  }

  /// Between ranks that have tokens of their own and those that have the experts, there and back.
  void travel(int64_t width, const MixtureOfExperts& m) {
    if (habits_.gathers_experts) {
      talk(CollectiveKind::kAllGather, rows_bytes(tokens_, width), stage_group());
      talk(CollectiveKind::kReduceScatter, rows_bytes(tokens_, width), stage_group());
      return;
    }
    const int64_t own = split(tokens_, layout_.attention_data);
    const int64_t sent = own * std::min<int64_t>(m.active, layout_.expert);
    talk(CollectiveKind::kAllToAll, rows_bytes(sent, width), stage_group());
    talk(CollectiveKind::kAllToAll, rows_bytes(sent, width), stage_group());
  }

  void run_experts(const MixtureOfExperts& m, int64_t width) {
    const std::string up = asked_format(precision_.experts, m.up_format);
    const int tensor = expert_tensor();
    const int64_t local = split(m.experts, layout_.expert), inner = split(m.inner, tensor);
    if (m.gated) {
      add(operator_kernel(
          "moe", up,
          fmt::format(R"({{"tokens":{},"hidden":{},"inter":{},"topk":{},"experts":{},"tp":{},)"
                      R"("ep":{},"skew":{}}})",
                      tokens_, width, m.inner, m.active, m.experts, tensor, layout_.expert,
                      habits_.routing_skew)));
    } else {
      const int64_t rows = std::max<int64_t>(1, split(tokens_ * m.active, layout_.expert));
      for (const auto& [n, k] : {std::pair(inner, width), std::pair(width, inner)})
        add(operator_kernel(
            "grouped_gemm", up,
            fmt::format(R"({{"experts":{},"tokens":{},"n":{},"k":{}}})", local, rows, n, k)));
      activate(static_cast<double>(rows) * static_cast<double>(inner), false);
    }
    keep(up, local * (m.gated ? 3 : 2) * inner, width, layout_.stage_devices());
  }

  /// Residual streams are read, mixed and written around every part of a layer.
  void streams(int parts) {
    what_ = EngineOperator::kOther;
    add(loop(tokens() * static_cast<double>(model_.streams * model_.hidden), kHalf, kHalf),
        2 * parts);
    note("mixing of residual streams is timed as reading and writing them");
  }

  const TransformerDescription& model_;
  const ServingLayout& layout_;
  const ServingPrecision& precision_;
  const EngineHabits& habits_;
  std::vector<std::string>& gaps_;
  ElementType type_;
  std::string plain_, cache_name_;
  double cache_bytes_ = 2;
  int64_t tokens_ = 1, sequences_ = 1;
  bool captured_ = true;
  double count_ = 1;
  EngineOperator what_ = EngineOperator::kOther;  ///< What is added next is for.
  int64_t adapters_ = 0;
  EnginePass pass_, adapter_pass_;
  Kept kept_;
};

/// Whether the layer reads no more than a window of what is cached.
bool looks_at_window(const Mixer& mixer) {
  const auto* a = std::get_if<SoftmaxAttention>(&mixer);
  return a != nullptr && a->window > 0;
}

std::vector<RepeatedLayer> distinct(const TransformerDescription& model, int stages) {
  std::vector<RepeatedLayer> found;
  for (const Layer& layer : model.layers) {
    const auto same = std::ranges::find(found, layer, &RepeatedLayer::layer);
    if (same == found.end())
      found.push_back({layer, 1});
    else
      ++same->count;
  }
  const auto layers = static_cast<double>(model.layers.size());
  const double fullest = std::ceil(layers / stages);
  for (RepeatedLayer& layer : found) layer.count *= fullest / layers;
  return found;
}

}  // namespace

std::string_view name(EngineOperator what) {
  switch (what) {
    case EngineOperator::kNorm:
      return "norms";
    case EngineOperator::kQueryKeyValue:
      return "query, key and value projection";
    case EngineOperator::kQueryKeyNorm:
      return "query and key norms";
    case EngineOperator::kRotation:
      return "rotary embedding";
    case EngineOperator::kCacheWrite:
      return "writing of keys and values";
    case EngineOperator::kAttention:
      return "attention";
    case EngineOperator::kAttentionOutput:
      return "output projection of attention";
    case EngineOperator::kUp:
      return "feed-forward up projection";
    case EngineOperator::kActivation:
      return "activation";
    case EngineOperator::kDown:
      return "feed-forward down projection";
    case EngineOperator::kRouter:
      return "routing to experts";
    case EngineOperator::kExperts:
      return "experts";
    case EngineOperator::kEmbedding:
      return "embedding";
    case EngineOperator::kFinalNorm:
      return "final norm";
    case EngineOperator::kHead:
      return "logits";
    case EngineOperator::kSampler:
      return "sampling";
    case EngineOperator::kOther:
      return "other operators";
  }
  return "";
}

void EnginePass::append(const EnginePass& other) {
  launches.insert(launches.end(), other.launches.begin(), other.launches.end());
  operators.insert(operators.end(), other.operators.begin(), other.operators.end());
  traffic.insert(traffic.end(), other.traffic.begin(), other.traffic.end());
}

struct EngineWork::State {
  TransformerDescription model;
  ServingLayout layout;
  ServingPrecision precision;
  EngineHabits habits;
  std::vector<RepeatedLayer> layers;
  std::vector<std::string> gaps;
  Kept kept;
  int64_t window = 0;

  /// A pass over every layer of a stage.
  template <class Each>
  EnginePass pass(const Each& each) const {
    std::vector<std::string> known;
    PassBuilder builder(model, layout, precision, habits, known);
    for (const RepeatedLayer& repeated : layers) {
      builder.set_count(repeated.count);
      each(builder, repeated.layer);
    }
    return builder.take();
  }
};

EngineWork::EngineWork(const TransformerDescription& model, const ServingLayout& layout,
                       const ServingPrecision& precision, const EngineHabits& habits)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.model = model;
  s.layout = layout;
  s.precision = precision;
  s.habits = habits;
  s.layers = distinct(model, layout.pipeline);
  PassBuilder builder(s.model, s.layout, s.precision, s.habits, s.gaps);
  std::map<int64_t, double> windows;
  for (const RepeatedLayer& repeated : s.layers) {
    builder.set_count(repeated.count);
    builder.set_tokens(1);
    builder.layer(repeated.layer);
    builder.experts(repeated.layer, 1);
    builder.prefill(repeated.layer, 1, 1, 0);
    if (const auto* a = std::get_if<SoftmaxAttention>(&repeated.layer.mixer);
        a != nullptr && a->window > 0)
      windows[a->window] += repeated.count;
  }
  builder.set_count(1);
  builder.set_tokens(1);
  builder.embedding();
  builder.head(1);
  s.kept = builder.kept();
  for (const auto& [window, count] : windows)
    if (s.window == 0 || count > windows[s.window]) s.window = window;
}

EngineWork::~EngineWork() = default;
EngineWork::EngineWork(EngineWork&&) noexcept = default;
EngineWork& EngineWork::operator=(EngineWork&&) noexcept = default;

EnginePass EngineWork::tokens(int64_t tokens) const {
  return state_->pass([&](PassBuilder& builder, const Layer& layer) {
    builder.set_tokens(tokens);
    builder.layer(layer);
  });
}

EnginePass EngineWork::experts(int64_t group_tokens) const {
  return state_->pass(
      [&](PassBuilder& builder, const Layer& layer) { builder.experts(layer, group_tokens); });
}

EnginePass EngineWork::prefill(int64_t sequences, int64_t queries, int64_t context) const {
  return state_->pass([&](PassBuilder& builder, const Layer& layer) {
    builder.prefill(layer, sequences, queries, context);
  });
}

EnginePass EngineWork::decode(bool windowed, int64_t sequences, int64_t context,
                              int64_t queries) const {
  return state_->pass([&](PassBuilder& builder, const Layer& layer) {
    if (windowed == looks_at_window(layer.mixer))
      builder.decode(layer, sequences, context, queries);
  });
}

EnginePass EngineWork::embedding(int64_t tokens) const {
  std::vector<std::string> known;
  PassBuilder builder(state_->model, state_->layout, state_->precision, state_->habits, known);
  builder.set_tokens(tokens);
  builder.embedding();
  return builder.take();
}

EnginePass EngineWork::head(int64_t rows) const {
  std::vector<std::string> known;
  PassBuilder builder(state_->model, state_->layout, state_->precision, state_->habits, known);
  builder.head(rows);
  return builder.take();
}

EnginePass EngineWork::adapters(int64_t tokens, int64_t adapters) const {
  std::vector<std::string> known;
  PassBuilder builder(state_->model, state_->layout, state_->precision, state_->habits, known);
  builder.set_tokens(tokens);
  builder.set_adapters(adapters);
  for (const RepeatedLayer& repeated : state_->layers) {
    builder.set_count(repeated.count);
    builder.layer(repeated.layer);
  }
  return builder.take_adapters();
}

int64_t EngineWork::window() const { return state_->window; }
bool EngineWork::has_experts() const {
  return std::ranges::any_of(state_->layers, [](const RepeatedLayer& repeated) {
    return std::holds_alternative<MixtureOfExperts>(repeated.layer.feed_forward);
  });
}
const std::vector<std::string>& EngineWork::gaps() const { return state_->gaps; }
double EngineWork::weight_bytes() const { return state_->kept.weights + state_->kept.outer; }
double EngineWork::cache_bytes_per_token() const { return state_->kept.cache; }
double EngineWork::windowed_cache_bytes_per_token() const { return state_->kept.windowed_cache; }
double EngineWork::state_bytes_per_sequence() const { return state_->kept.state; }
double EngineWork::adapter_bytes() const { return state_->kept.adapter; }
double EngineWork::parameters() const { return state_->kept.parameters; }

}  // namespace orrery
