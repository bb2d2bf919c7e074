#include "orrery/serving/engine/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

namespace orrery {
namespace {

int64_t heads_of(const Mixer& mixer) {
  if (const auto* a = std::get_if<SoftmaxAttention>(&mixer)) return a->heads;
  if (const auto* a = std::get_if<LatentAttention>(&mixer)) return a->heads;
  if (const auto* a = std::get_if<CompressedAttention>(&mixer)) return a->heads;
  return 0;
}

}  // namespace

std::vector<std::string> faults(const ServingLayout& layout, const TransformerDescription& model) {
  std::vector<std::string> found;
  const auto add = [&](std::string text) {
    if (std::ranges::find(found, text) == found.end()) found.push_back(std::move(text));
  };
  if (layout.tensor < 1 || layout.pipeline < 1 || layout.attention_data < 1 || layout.expert < 1)
    add("every degree of a layout is 1 or more");
  if (!found.empty()) return found;
  const auto layers = static_cast<int64_t>(model.layers.size());
  if (layout.pipeline > layers)
    add(fmt::format("{} layers do not fill {} pipeline stages", layers, layout.pipeline));
  const int stage = layout.stage_devices();
  if (layout.expert_tensor > 0 && layout.expert_tensor * layout.expert != stage)
    add(fmt::format("experts over {} × {} devices, attention over {} × {}", layout.expert_tensor,
                    layout.expert, layout.tensor, layout.attention_data));
  if (layout.expert_tensor == 0 && stage % layout.expert != 0)
    add(fmt::format("experts over {} ranks do not divide {} devices of a stage", layout.expert,
                    stage));
  for (const Layer& layer : model.layers) {
    const int64_t heads = heads_of(layer.mixer);
    if (heads % layout.tensor != 0)
      add(fmt::format("{} attention heads cannot be shared evenly by {} tensor ranks", heads,
                      layout.tensor));
    if (const auto* m = std::get_if<MixtureOfExperts>(&layer.feed_forward);
        m != nullptr && layout.expert > m->experts)
      add(fmt::format("{} experts do not fill {} ranks", m->experts, layout.expert));
  }
  return found;
}

}  // namespace orrery
