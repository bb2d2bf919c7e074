#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "orrery/serving/engine/engine_work.h"

namespace orrery {

/// A model, and how it is served.
struct ServedModel {
  TransformerDescription model;
  ServingLayout layout;
  ServingPrecision precision;
  EngineHabits habits;
  ModelUse use;
};

/// What a rank keeps of the model.
struct KeptBytes {
  double weights = 0;     ///< Bytes, of layers; …
  double outer = 0;       ///< … of the embedding and the head.
  double parameters = 0;  ///< Of all ranks.
  double cache = 0, windowed_cache = 0, state = 0;
  double adapter = 0;  ///< Bytes of one.
};

/// Puts together what one rank launches for parts of a step, layer by layer, and adds up what it
/// keeps. The launches of attention, of recurrences and of feed-forward parts each have a file.
class PassBuilder {
 public:
  /// `gaps` gets what the passes leave out. Both outlive it.
  PassBuilder(const ServedModel& served, std::vector<std::string>& gaps);

  void set_tokens(int64_t tokens);
  void set_count(double count) { count_ = count; }
  /// Different ones that the tokens ask for.
  void set_adapters(int64_t adapters) { adapters_ = adapters; }
  EnginePass take() { return std::move(pass_); }
  EnginePass take_adapters() { return std::move(adapter_pass_); }
  const KeptBytes& kept() const { return kept_; }

  // Once for all tokens of a step:
  void layer(const Layer& layer);
  void embedding();
  void head(int64_t rows);

  /// Experts for the tokens of all ranks that share them.
  void experts(const Layer& layer, int64_t group_tokens);
  /// What data-parallel ranks send each other before and after.
  void exchange(const Layer& layer, int64_t group_tokens);

  /// `queries` new tokens of each sequence after `context`.
  void prefill(const Layer& layer, int64_t sequences, int64_t queries, int64_t context);
  void decode(const Layer& layer, int64_t sequences, int64_t context, int64_t queries);

 private:
  static constexpr double kHalf = 2, kWide = 4;  ///< Bytes of a number.
  /// What the fullest of `ranks` gets of `size`.
  static int64_t split(int64_t size, int64_t ranks) { return (size + ranks - 1) / ranks; }
  RankGroup tensor_group() const { return {layout_.tensor, 1}; }
  RankGroup stage_group() const { return {layout_.stage_devices(), 1}; }
  int expert_tensor() const;
  double tokens() const { return static_cast<double>(tokens_); }
  static double rows_bytes(int64_t rows, int64_t width);

  void add(const Kernel& kernel, double count = 1) { add_to(pass_, kernel, count, what_); }
  void add_to(EnginePass& pass, const Kernel& kernel, double count, EngineOperator what) const;
  void talk(CollectiveKind kind, double bytes, RankGroup group);
  void note(std::string text);

  /// A loop over `elements` that reads and writes so many bytes for each.
  Kernel loop(double elements, double read, double written) const;
  void norm(int64_t width, int64_t tensors);
  /// Whether a layer of this part ends in a sum over ranks.
  bool sums(const FeedForward& part) const;
  /// What comes after it is of no kind until it says so.
  void layer_norm(int64_t tensors, bool after_sum = false);

  std::string linear_format(const Projection& p) const;
  /// Numbers that the model has in as many bits already stay as they are, scales and all.
  std::string asked_format(const std::string& asked, const WeightFormat& format) const;

  Kernel product(const std::string& format, int64_t m, int64_t n, int64_t k) const;

  /// y = x·wᵀ of all tokens; `ranks` share the `n` columns or, as sums, the `k` rows: the sizes
  /// are those of one. `parts` that a checkpoint has apart, and its adapters.
  void linear(const Projection& p, int64_t n, int64_t k, int64_t ranks, int64_t parts = 1);
  void adapt(int64_t n, int64_t k, int64_t parts);
  void linear_of(const Projection& p, int64_t m, int64_t n, int64_t k);
  void keep(const std::string& format, int64_t n, int64_t k, int64_t ranks);

  void sum_over_tensor();

  /// New keys and values into the paged cache.
  void write_cache(int64_t width);
  void rotate(int64_t width) { add(loop(tokens() * static_cast<double>(width), kHalf, kHalf)); }

  /// The scores of an indexer's heads and the choice of the best, for `rows` queries in
  /// `batch` sequences over `entries` each.
  void choose(const Indexer& index, int64_t batch, int64_t rows, int64_t entries);
  void project_index(const Indexer& index, int64_t query_width);

  // Softmax attention:
  struct Heads {
    int64_t heads, groups;
  };
  Heads local(const SoftmaxAttention& a) const;

  void project(const SoftmaxAttention& a);

  struct Scores {
    int64_t batch, heads, groups, queries, keys, head, value_head, window;
    bool causal;
  };
  void attend(const Scores& s);
  /// Over entries of `size` numbers that are keys and, but for their last `rotated`, values as
  /// well: read once. The operator counts keys and values, so each gets half of an entry, and
  /// heads are as many more as keep the products' FLOPs.
  void attend_shared(int64_t batch, int64_t heads, int64_t queries, int64_t keys, int64_t size,
                     int64_t rotated, int64_t window, bool causal);
  void attend_prompt(const SoftmaxAttention& a, int64_t queries, int64_t context);
  void attend_next(const SoftmaxAttention& a, int64_t sequences, int64_t context, int64_t queries);

  // Latent attention:
  void project(const LatentAttention& a);

  /// Queries through the keys' up-projection and results through the values': per head.
  void absorb(const LatentAttention& a, int64_t heads);
  void attend_prompt(const LatentAttention& a, int64_t queries, int64_t context);
  void attend_next(const LatentAttention& a, int64_t sequences, int64_t context, int64_t queries);

  // Compressed attention:
  void project(const CompressedAttention& a);
  void attend_prompt(const CompressedAttention& a, int64_t queries, int64_t context);
  void attend_next(const CompressedAttention& a, int64_t sequences, int64_t context,
                   int64_t queries);
  void attend_pooled(const CompressedAttention& a, int64_t batch, int64_t heads, int64_t queries,
                     int64_t context);

  // Linear attention and state spaces:
  void project(const DeltaAttention& a);
  void convolve(int64_t channels);
  void attend_prompt(const DeltaAttention& a, int64_t queries, int64_t /*context*/);
  /// Products inside chunks, and from chunk to chunk through the state.
  void recur(int64_t groups, int64_t heads, int64_t chunk, int64_t chunks, int64_t key,
             int64_t value);
  void attend_next(const DeltaAttention& a, int64_t sequences, int64_t /*context*/,
                   int64_t /*queries*/);
  void update_state(int64_t sequences, int64_t size);

  void project(const StateSpace& m);
  void attend_prompt(const StateSpace& m, int64_t queries, int64_t /*context*/);
  void attend_next(const StateSpace& m, int64_t sequences, int64_t /*context*/,
                   int64_t /*queries*/);

  void project(const LinearBlock& block);
  void attend_prompt(const LinearBlock& /*block*/, int64_t /*queries*/, int64_t /*context*/) {}
  void attend_next(const LinearBlock& /*block*/, int64_t /*sequences*/, int64_t /*context*/,
                   int64_t /*queries*/) {}
  void project(const std::monostate& /*none*/) {}
  void attend_prompt(const std::monostate& /*none*/, int64_t /*queries*/, int64_t /*context*/) {}
  void attend_next(const std::monostate& /*none*/, int64_t /*sequences*/, int64_t /*context*/,
                   int64_t /*queries*/) {}

  // Feed-forward parts:
  void feed(const std::monostate& /*none*/) {}
  void feed(const LinearBlock& block) { project(block); }
  void feed(const DenseFeedForward& f);
  /// `parts`: what its three launches are for. Beside experts they are none that profilers time.
  using DenseParts = std::array<EngineOperator, 3>;
  static constexpr DenseParts kBesideExperts = {EngineOperator::kOther, EngineOperator::kOther,
                                                EngineOperator::kOther};
  void dense(const DenseFeedForward& f, const DenseParts& parts);
  void activate(double elements, bool gated);

  void feed(const MixtureOfExperts& m);

  /// Between ranks that have tokens of their own and those that have the experts, there and back.
  void travel(int64_t width, const MixtureOfExperts& m);

  void run_experts(const MixtureOfExperts& m, int64_t width);

  /// Residual streams are read, mixed and written around every part of a layer.
  void streams(int parts);

  const TransformerDescription& model_;
  const ServingLayout& layout_;
  const ServingPrecision& precision_;
  const EngineHabits& habits_;
  const ModelUse& use_;
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
  KeptBytes kept_;
};

}  // namespace orrery
