#include "orrery/serving/engine/step_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "orrery/base/error.h"

namespace orrery {
namespace {

constexpr double kMicro = 1e-6;

/// Σ count · layer, at every size that one of them was measured at; empty where there is none.
RaggedGrid sum_of(const std::vector<std::pair<const RaggedGrid*, double>>& layers) {
  if (layers.empty()) return {};
  std::set<double> sizes;
  for (const auto& [layer, count] : layers)
    sizes.insert(layer->first().begin(), layer->first().end());
  std::vector<RaggedGrid::Point> points;
  for (const double size : sizes) {
    RaggedGrid::Point& point = points.emplace_back();
    point.sizes[0] = static_cast<int64_t>(size);
    for (const auto& [layer, count] : layers) point.value += count * layer->at(size);
  }
  return {1, std::move(points)};
}

/// One chunk that stands for all of a step.
struct OneChunk {
  double tokens = 0, context = 0;
};
OneChunk together(const StepShape& shape) {
  double tokens = 0, work = 0;
  for (const PrefillChunk& chunk : shape.prefills) {
    const auto q = static_cast<double>(chunk.tokens);
    tokens += q;
    work += q * (static_cast<double>(chunk.context) + q / 2);
  }
  if (tokens == 0) return {};
  return {tokens, std::max(0.0, work / tokens - tokens / 2)};
}

}  // namespace

StepProfile::StepProfile(const StepTables& tables, const TransformerDescription& model,
                         const ServingLayout& layout, double routing_skew, int compute_units,
                         bool counts_ends)
    : prompts_(tables.prompts),
      next_(tables.next),
      mixed_(tables.mixed),
      experts_(tables.experts),
      expert_ranks_(tables.experts_of_rank ? 1 : layout.expert) {
  const MixtureOfExperts* routed = nullptr;
  double dense = 0, norms = 0;
  int64_t key_value_heads = 0;
  for (const Layer& layer : model.layers) {
    const auto* attention = std::get_if<SoftmaxAttention>(&layer.mixer);
    if (attention == nullptr || attention->window > 0)
      throw_usage(fmt::format(
          "{}: a step profile has one attention for all layers, over all tokens", model.name));
    key_value_heads = attention->key_value_heads;
    norms += layer.norms == NormPlacement::kBoth              ? 4
             : layer.norms == NormPlacement::kParallelOneNorm ? 1
                                                              : 2;
    if (const auto* m = std::get_if<MixtureOfExperts>(&layer.feed_forward)) {
      routed = m;
      ++expert_layers_;
    } else {
      ++dense;
    }
  }
  const bool attends = !prompts_.empty() && !next_.empty();
  if (compute_units > 0 && attends) {
    const double heads = std::ceil(static_cast<double>(key_value_heads) / layout.tensor);
    units_per_sequence_ = heads / compute_units;
    const double smallest = prompts_.first().front();
    constexpr double kLong = 16384;
    alone_us_per_token_ =
        std::max(0.0, prompts_.at(smallest, kLong) - prompts_.at(smallest, 0)) / kLong;
  }
  const auto all = static_cast<double>(model.layers.size());
  layers_ = std::ceil(all / layout.pipeline);
  expert_layers_ *= layers_ / all;
  dense *= layers_ / all;
  norms *= layers_ / all;

  std::vector<std::pair<const RaggedGrid*, double>> parts;
  const auto add = [&](EngineOperator what, double count) {
    const auto found = tables.operators.find(what);
    if (found == tables.operators.end()) return;
    set_has(what);
    if (count > 0) parts.emplace_back(&found->second, count);
  };
  const double ends = counts_ends ? 1 : 0;
  add(EngineOperator::kNorm, norms);
  for (const auto what : {EngineOperator::kQueryKeyValue, EngineOperator::kQueryKeyNorm,
                          EngineOperator::kRotation, EngineOperator::kAttentionOutput})
    add(what, layers_);
  for (const auto what : {EngineOperator::kUp, EngineOperator::kActivation, EngineOperator::kDown})
    add(what, dense);
  add(EngineOperator::kRouter, expert_layers_);
  add(EngineOperator::kEmbedding, ends);
  add(EngineOperator::kFinalNorm, ends);
  tokens_ = sum_of(parts);
  parts.clear();
  add(EngineOperator::kHead, ends);
  add(EngineOperator::kSampler, ends);
  head_ = sum_of(parts);

  if (attends) {
    set_has(EngineOperator::kAttention);
    if (tables.attention_writes) set_has(EngineOperator::kCacheWrite);
  }
  if (routed == nullptr || experts_.empty()) return;
  set_has(EngineOperator::kExperts);
  if (tables.experts_route) set_has(EngineOperator::kRouter);
  double sum = 0;
  for (int64_t e = 0; e < routed->experts; ++e)
    sum += chosen_.emplace_back(std::pow(static_cast<double>(e + 1), -routing_skew));
  for (double& q : chosen_) q = std::min(1.0, q / sum * static_cast<double>(routed->active));
}

std::span<const double> StepProfile::sizes() const {
  if (tokens_.empty()) return {};
  return tokens_.first();
}

double StepProfile::tokens(int64_t tokens) const {
  return tokens_.empty() ? 0 : tokens_.at(static_cast<double>(tokens)) * kMicro;
}

double StepProfile::head(int64_t rows) const {
  return head_.empty() ? 0 : head_.at(static_cast<double>(rows)) * kMicro;
}

double StepProfile::experts(int64_t group_tokens) const {
  if (experts_.empty()) return 0;
  const auto tokens = static_cast<double>(group_tokens);
  double met = 0;
  for (const double q : chosen_) met += 1 - std::pow(1 - q, tokens);
  return expert_layers_ * experts_.at(tokens / expert_ranks_, met / expert_ranks_) * kMicro;
}

double StepProfile::prompts(const StepShape& shape) const {
  const OneChunk one = together(shape);
  if (one.tokens == 0 || prompts_.empty()) return 0;
  double each = 0;
  for (const PrefillChunk& chunk : shape.prefills)
    if (chunk.tokens > 0)
      each += prompts_.at(static_cast<double>(chunk.tokens), static_cast<double>(chunk.context));
  return layers_ * std::min(each, prompts_.at(one.tokens, one.context)) * kMicro;
}

double StepProfile::end_of_longest(const StepShape& shape) const {
  constexpr double kAtOnce = 2;
  const auto sequences = static_cast<double>(shape.decodes);
  const double turns = sequences * units_per_sequence_ / kAtOnce;
  if (turns <= 1) return 0;
  const double mean = static_cast<double>(shape.decode_context) / sequences;
  const double rest = static_cast<double>(shape.longest_decode) - mean * turns / 2;
  return (1 - 1 / turns) * std::max(0.0, rest) * alone_us_per_token_;
}

double StepProfile::next(const StepShape& shape) const {
  if (shape.decodes == 0 || next_.empty()) return 0;
  const auto sequences = static_cast<double>(shape.decodes);
  const double mean = static_cast<double>(shape.decode_context) / sequences;
  const OneChunk one = together(shape);
  double time = 0;
  if (one.tokens > 0 && !mixed_.empty()) {
    const double chunk = prompts_.at(one.tokens, one.context);
    time = mixed_.at(std::array{one.tokens, one.context, sequences, mean}) - chunk +
           std::max(0.0, end_of_longest(shape) - chunk);
  } else {
    time = std::max(next_.at(sequences, mean) + end_of_longest(shape),
                    next_.at(1, static_cast<double>(shape.longest_decode)));
  }
  return layers_ * std::max(0.0, time) * kMicro;
}

}  // namespace orrery
