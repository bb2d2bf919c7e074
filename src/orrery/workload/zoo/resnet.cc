#include <fmt/format.h>

#include <array>

#include "orrery/workload/zoo/zoo.h"

// ResNet (He et al. 2016) as torchvision has it: version 1.5, which strides in the
// 3×3 convolution of a bottleneck.

namespace orrery {
namespace {

struct ResNet {
  std::string name;
  std::array<int64_t, 4> blocks;
  bool bottleneck;
  int64_t parameters;
};

Tensor convolve(Network& net, const Tensor& x, std::string_view convolution, std::string_view norm,
                int64_t channels, int64_t window, int64_t stride) {
  const Tensor y =
      net.convolution(x, convolution, channels, {window, window},
                      {.stride = {stride, stride}, .padding_low = Dims(2, window / 2)});
  return net.batch_norm(y, norm);
}

Tensor block(Network& net, const Tensor& x, int64_t width, int64_t stride, bool bottleneck) {
  const int64_t out = bottleneck ? 4 * width : width;
  Tensor y;
  if (bottleneck) {
    y = net.relu(convolve(net, x, "conv1", "bn1", width, 1, 1));
    y = net.relu(convolve(net, y, "conv2", "bn2", width, 3, stride));
    y = convolve(net, y, "conv3", "bn3", out, 1, 1);
  } else {
    y = net.relu(convolve(net, x, "conv1", "bn1", width, 3, stride));
    y = convolve(net, y, "conv2", "bn2", out, 3, 1);
  }
  const bool same = stride == 1 && x.dim(-1) == out;
  const Tensor shortcut =
      same ? x : convolve(net, x, "downsample.0", "downsample.1", out, 1, stride);
  return net.relu(net.add(y, shortcut));
}

std::vector<Choice> choices() {
  std::vector<Choice> all = training_choices();
  all.push_back({"image", "224", {}, "height and width of the images in pixels"});
  return all;
}

Workload build(const ResNet& model, const BuildOptions& options) {
  read_phase(options, false);
  refuse_sequence(options);
  const Choices chosen(choices(), options.choices);
  const int64_t batch = read_batch(options);
  const int64_t image = read_number(chosen, "image", 1 << 14);
  Network net("zoo", model.name,
              read_network_options(options, chosen, ElementType::kBF16, "torchvision"));

  Tensor x = net.input("pixels", net.options().activations, {batch, image, image, 3});
  x = net.relu(convolve(net, x, "conv1", "bn1", 64, 7, 2));
  x = net.max_pool(x, {.window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  for (size_t stage = 0; stage < 4; ++stage) {
    const int64_t width = int64_t{64} << stage;
    for (int64_t i = 0; i < model.blocks[stage]; ++i) {
      const int64_t stride = i == 0 && stage > 0 ? 2 : 1;
      const bool first = i == 0 && (stage > 0 || model.bottleneck);
      const std::string kind = fmt::format("layer{}.{}", stage + 1, first ? "first" : "block");
      x = net.layer(kind, fmt::format("layer{}.{}", stage + 1, i), {x},
                    [&](const Tensors& in) -> Tensors {
                      return {block(net, in[0], width, stride, model.bottleneck)};
                    })[0];
    }
  }
  const Tensor logits = net.linear(net.global_average_pool(x), "fc", 1000, {.bias = true});
  if (net.training())
    net.minimise_cross_entropy(logits, net.input("labels", ElementType::kS32, {batch}));
  else
    net.output("logits", logits);
  return net.finish();
}

std::vector<ZooModel> models() {
  const std::vector<ResNet> all = {{"resnet-18", {2, 2, 2, 2}, false, 11'689'512},
                                   {"resnet-50", {3, 4, 6, 3}, true, 25'557'032},
                                   {"resnet-101", {3, 4, 23, 3}, true, 44'549'160},
                                   {"resnet-152", {3, 8, 36, 3}, true, 60'192'808}};
  std::vector<ZooModel> zoo;
  zoo.reserve(all.size());
  for (const ResNet& model : all)
    zoo.push_back(
        {.name = model.name,
         .title = fmt::format("ResNet-{} (v1.5), 1000 classes, bf16", model.name.substr(7)),
         .family = "resnet",
         .choices = choices(),
         .phases = {"forward", "prefill", "train"},
         .published_parameters = model.parameters,
         .source = "torchvision.models, IMAGENET1K_V1 num_params; arXiv:1512.03385",
         .build = [model](const BuildOptions& options) { return build(model, options); }});
  return zoo;
}

const ZooRegistration registration(models());

}  // namespace
}  // namespace orrery
