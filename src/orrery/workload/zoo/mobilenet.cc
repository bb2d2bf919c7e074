#include <fmt/format.h>

#include <array>

#include "orrery/workload/zoo/zoo.h"

// MobileNetV2 (Sandler et al. 2018) as torchvision has it, width 1.0.

namespace orrery {
namespace {

/// A row of Table 2: expansion, channels, repeats, stride of the first.
struct Stage {
  int64_t expansion, channels, repeats, stride;
};
constexpr std::array<Stage, 7> kStages = {{{1, 16, 1, 1},
                                           {6, 24, 2, 2},
                                           {6, 32, 3, 2},
                                           {6, 64, 4, 2},
                                           {6, 96, 3, 1},
                                           {6, 160, 3, 2},
                                           {6, 320, 1, 1}}};

Tensor convolve(Network& net, const Tensor& x, std::string_view name, int64_t channels,
                int64_t window, int64_t stride, int64_t groups) {
  const Tensor y = net.convolution(
      x, fmt::format("{}.0", name), channels, {window, window},
      {.stride = {stride, stride}, .padding_low = Dims(2, window / 2), .groups = groups});
  return net.batch_norm(y, fmt::format("{}.1", name));
}

Tensor inverted_residual(Network& net, const Tensor& x, const Stage& stage, int64_t stride) {
  const int64_t wide = x.dim(-1) * stage.expansion;
  Tensor y = x;
  if (stage.expansion != 1) y = net.relu6(convolve(net, y, "expand", wide, 1, 1, 1));
  y = net.relu6(convolve(net, y, "depthwise", wide, 3, stride, wide));
  y = convolve(net, y, "project", stage.channels, 1, 1, 1);
  return stride == 1 && x.dim(-1) == stage.channels ? net.add(x, y) : y;
}

std::vector<Choice> choices() {
  std::vector<Choice> all = training_choices();
  all.push_back({"image", "224", {}, "height and width of the images in pixels"});
  return all;
}

Workload build(const BuildOptions& options) {
  read_phase(options, false);
  refuse_sequence(options);
  const Choices chosen(choices(), options.choices);
  const int64_t batch = read_batch(options);
  const int64_t image = read_number(chosen, "image", 1 << 14);
  Network net("zoo", "mobilenet-v2",
              read_network_options(options, chosen, ElementType::kBF16, "torchvision"));

  Tensor x = net.input("pixels", net.options().activations, {batch, image, image, 3});
  x = net.relu6(convolve(net, x, "features.0", 32, 3, 2, 1));
  int64_t index = 1;
  for (size_t s = 0; s < kStages.size(); ++s) {
    const Stage& stage = kStages[s];
    for (int64_t i = 0; i < stage.repeats; ++i, ++index) {
      const int64_t stride = i == 0 ? stage.stride : 1;
      const std::string kind = fmt::format("stage{}.{}", s + 1, i == 0 ? "first" : "block");
      x = net.layer(kind, fmt::format("features.{}", index), {x},
                    [&](const Tensors& in) -> Tensors {
                      return {inverted_residual(net, in[0], stage, stride)};
                    })[0];
    }
  }
  x = net.relu6(convolve(net, x, fmt::format("features.{}", index), 1280, 1, 1, 1));
  const Tensor logits =
      net.linear(net.global_average_pool(x), "classifier.1", 1000, {.bias = true});
  if (net.training())
    net.minimise_cross_entropy(logits, net.input("labels", ElementType::kS32, {batch}));
  else
    net.output("logits", logits);
  return net.finish();
}

const ZooRegistration registration(
    {{.name = "mobilenet-v2",
      .title = "MobileNetV2 1.0, 1000 classes, bf16",
      .family = "mobilenet",
      .choices = choices(),
      .phases = {"forward", "prefill", "train"},
      .published_parameters = 3'504'872,
      .source = "torchvision.models, IMAGENET1K_V1 num_params; arXiv:1801.04381",
      .build = build}});

}  // namespace
}  // namespace orrery
