#include "orrery/serving/engine/engine_work.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "orrery/serving/engine/pass_builder.h"

namespace orrery {
namespace {

/// A layer and how often a stage has it.
struct RepeatedLayer {
  Layer layer;
  double count = 0;
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
  ServedModel served;
  std::vector<RepeatedLayer> layers;
  std::vector<std::string> gaps;
  KeptBytes kept;
  int64_t window = 0;

  /// A pass over every layer of a stage.
  template <class Each>
  EnginePass pass(const Each& each) const {
    std::vector<std::string> known;
    PassBuilder builder(served, known);
    for (const RepeatedLayer& repeated : layers) {
      builder.set_count(repeated.count);
      each(builder, repeated.layer);
    }
    return builder.take();
  }
};

EngineWork::EngineWork(const TransformerDescription& model, const ServingLayout& layout,
                       const ServingPrecision& precision, const EngineHabits& habits,
                       const ModelUse& use)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.served = {model, layout, precision, habits, use};
  s.layers = distinct(model, layout.pipeline);
  PassBuilder builder(s.served, s.gaps);
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

EnginePass EngineWork::exchange(int64_t group_tokens) const {
  return state_->pass(
      [&](PassBuilder& builder, const Layer& layer) { builder.exchange(layer, group_tokens); });
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
  PassBuilder builder(state_->served, known);
  builder.set_tokens(tokens);
  builder.embedding();
  return builder.take();
}

EnginePass EngineWork::head(int64_t rows) const {
  std::vector<std::string> known;
  PassBuilder builder(state_->served, known);
  builder.head(rows);
  return builder.take();
}

EnginePass EngineWork::adapters(int64_t tokens, int64_t adapters) const {
  std::vector<std::string> known;
  PassBuilder builder(state_->served, known);
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
