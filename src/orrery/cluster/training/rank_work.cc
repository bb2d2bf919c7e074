#include "orrery/cluster/training/rank_work.h"

#include <algorithm>

#include "orrery/cluster/training/layer_builder.h"
#include "orrery/model/torch/torch_kernels.h"

namespace orrery {

std::string_view name(TrafficCause cause) {
  switch (cause) {
    case TrafficCause::kTensor:
      return "tensor";
    case TrafficCause::kContext:
      return "context";
    case TrafficCause::kExperts:
      return "experts";
    case TrafficCause::kPipeline:
      return "pipeline";
    case TrafficCause::kGradients:
      return "gradients";
    case TrafficCause::kParameters:
      return "parameters";
  }
  return "";
}

RankWork layer_work(const Layer& layer, const TransformerDescription& model,
                    const Strategy& strategy, int node, const TrainingConstants& constants,
                    std::vector<std::string>& gaps) {
  LayerBuilder builder(model, strategy, node, constants, gaps);
  builder.layer(layer);
  return builder.finish();
}

RankWork embedding_work(const TransformerDescription& model, const Strategy& strategy) {
  std::vector<std::string> none;
  const TrainingConstants unused;
  Strategy kept = strategy;
  kept.recompute = Recompute::kNone;
  LayerBuilder builder(model, kept, 1, unused, none);
  builder.embedding();
  return builder.finish();
}

RankWork head_work(const TransformerDescription& model, const Strategy& strategy,
                   const TrainingConstants& constants) {
  std::vector<std::string> none;
  Strategy kept = strategy;
  kept.recompute = Recompute::kNone;
  LayerBuilder builder(model, kept, 1, constants, none);
  builder.head();
  return builder.finish();
}

namespace {

/// The last layer that attends, with the last feed-forward part where it has none of its own.
std::vector<Layer> predicting_layers(const TransformerDescription& model) {
  const auto last = [&](const auto& has) -> const Layer* {
    const auto found = std::find_if(model.layers.rbegin(), model.layers.rend(), has);
    return found == model.layers.rend() ? nullptr : &*found;
  };
  const auto feeds = [](const Layer& layer) {
    return !std::holds_alternative<std::monostate>(layer.feed_forward);
  };
  std::vector<Layer> layers;
  if (const Layer* attends = last([](const Layer& layer) {
        return std::holds_alternative<SoftmaxAttention>(layer.mixer) ||
               std::holds_alternative<LatentAttention>(layer.mixer);
      }))
    layers.push_back(*attends);
  if (layers.empty() || !feeds(layers.front()))
    if (const Layer* layer = last(feeds)) layers.push_back(*layer);
  return layers;
}

}  // namespace

RankWork further_token_work(const TransformerDescription& model, const Strategy& strategy, int node,
                            const TrainingConstants& constants, std::vector<std::string>& gaps) {
  Strategy plain = strategy;
  plain.recompute = Recompute::kNone;
  if (plain.precision != TrainingPrecision::kFP16) plain.precision = TrainingPrecision::kBF16;
  LayerBuilder builder(model, plain, node, constants, gaps);
  builder.further_token(predicting_layers(model));
  return builder.finish();
}

Pass optimizer_pass(double held, double updated, const Strategy& strategy) {
  const double gradient = strategy.wide_gradients ? kWide : kHalf;
  Pass pass;
  const auto loop = [&](double parameters, double read, double written) {
    Launch launch;
    launch.kernel =
        torch_kernels::loop(Opcode::k_add, KernelFamily::kElementwise, ElementType::kF32,
                            std::max<int64_t>(1, static_cast<int64_t>(parameters)),
                            parameters * read, parameters * written, 0);
    pass.launches.push_back(launch);
  };
  // Zeros for the next step to add to; ZeRO-3 frees what it gathered.
  if (strategy.zero < 3) loop(strategy.zero < 2 ? held : updated, 0, gradient);
  if (strategy.precision == TrainingPrecision::kFP16)
    loop(updated, gradient, gradient);  // the loss's scale taken out, infinities looked for
  loop(updated, gradient, 0);           // their norm
  loop(updated, gradient, gradient);    // … and clipping, taken to be needed
  // Weights and two moments in 32 bits, the copy in 16.
  const double moment = strategy.narrow_moments ? kHalf : kWide;
  loop(updated, kWide + 2 * moment + gradient, kWide + 2 * moment);
  loop(updated, kWide, kHalf);
  return pass;
}

}  // namespace orrery
