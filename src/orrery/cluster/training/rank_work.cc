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

Pass optimizer_pass(double parameters, bool wide_gradients) {
  // Weights, two moments: read and written in 32 bits; the 16-bit copy written; gradients read
  // twice, for their norm and for the step.
  const double gradient = wide_gradients ? kWide : kHalf;
  Pass pass;
  const auto elements = std::max<int64_t>(1, static_cast<int64_t>(parameters));
  const auto loop = [&](double read, double written) {
    Launch launch;
    launch.kernel =
        torch_kernels::loop(Opcode::k_add, KernelFamily::kElementwise, ElementType::kF32, elements,
                            parameters * read, parameters * written, 0);
    pass.launches.push_back(launch);
  };
  loop(gradient, 0);
  loop(3 * kWide + gradient, 3 * kWide + kHalf);
  return pass;
}

}  // namespace orrery
