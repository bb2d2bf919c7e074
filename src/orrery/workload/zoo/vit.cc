#include <fmt/format.h>

#include "orrery/base/error.h"
#include "orrery/workload/zoo/transformers.h"

// The Vision Transformer (Dosovitskiy et al. 2021), with torchvision's parameter names.

namespace orrery {
namespace {

const LinearOptions kBiased = {.bias = true};

Tensor encoder_layer(Network& net, const Tensor& x, const VitDescription& d) {
  const int64_t batch = x.dim(0);
  const int64_t tokens = x.dim(1);
  const Dims heads = {batch, tokens, d.heads, d.hidden / d.heads};
  const Tensor normal = net.layer_norm(x, "ln_1", d.epsilon);
  const Tensor projected =
      net.linear(normal, "self_attention.in_proj", 3 * d.hidden, {.bias = d.query_key_value_bias});
  const Tensors qkv = net.split(projected, -1, {d.hidden, d.hidden, d.hidden});
  const Tensor mixed = net.attention(net.reshape(qkv[0], heads), net.reshape(qkv[1], heads),
                                     net.reshape(qkv[2], heads));
  const Tensor y = net.add(
      x, net.linear(net.reshape(mixed, x.dims()), "self_attention.out_proj", d.hidden, kBiased));
  Tensor z = net.layer_norm(y, "ln_2", d.epsilon);
  z = net.gelu(net.linear(z, "mlp.0", d.intermediate, kBiased));
  return net.add(y, net.linear(z, "mlp.3", d.hidden, kBiased));
}

}  // namespace

std::vector<Choice> vit_choices() {
  std::vector<Choice> all = training_choices();
  all.push_back(
      {"fused_attention", "yes", {"yes", "no"}, "one attention kernel, or dot, softmax, dot"});
  return all;
}

Workload build_vit(const VitDescription& d, const BuildOptions& options) {
  const Phase phase = read_phase(options, false);
  refuse_sequence(options);
  const Choices chosen(vit_choices(), options.choices);
  const int64_t batch = read_batch(options);
  require_sizes(d.name, {{"image", d.image},
                         {"patch", d.patch},
                         {"channels", d.channels},
                         {"hidden size", d.hidden},
                         {"layers", d.layers},
                         {"heads", d.heads},
                         {"intermediate size", d.intermediate}});
  if (d.image % d.patch != 0)
    throw_usage(fmt::format("'{}': an image of {} pixels is not made of patches of {}", d.name,
                            d.image, d.patch));
  if (d.hidden % d.heads != 0)
    throw_usage(fmt::format("'{}': a hidden size of {} is not a multiple of {} heads", d.name,
                            d.hidden, d.heads));
  if (phase == Phase::kTrain && d.classes < 1)
    throw_usage(fmt::format("'{}' has no classifier, so there is no loss to train", d.name));

  NetworkOptions network = read_network_options(options, chosen, d.dtype,
                                                d.format == "zoo" ? "torchvision" : "transformers");
  network.fused_attention = chosen.is("fused_attention", "yes");
  Network net(d.format, d.name, network);
  const Tensor pixels =
      net.input("pixels", network.activations, {batch, d.image, d.image, d.channels});
  const int64_t side = d.image / d.patch;
  const int64_t patches = side * side;
  Tensor x = net.convolution(pixels, "conv_proj", d.hidden, {d.patch, d.patch},
                             {.stride = {d.patch, d.patch}, .bias = true});
  x = net.reshape(x, {batch, patches, d.hidden});
  const Tensor class_token = net.parameter("class_token", {1, 1, d.hidden});
  x = net.concatenate({net.broadcast(class_token, {batch, 1, d.hidden}), x}, 1);
  x = net.add(x, net.parameter("encoder.pos_embedding", {1, patches + 1, d.hidden}));
  {
    const auto in_encoder = net.scope("encoder");
    x = net.repeat("layers", d.layers, {x},
                   [&](const Tensors& in) -> Tensors { return {encoder_layer(net, in[0], d)}; })[0];
    x = net.layer_norm(x, "ln", d.epsilon);
  }
  if (d.classes < 1) {
    net.output("last_hidden_state", x);
    return net.finish();
  }
  const Tensor first = net.reshape(net.slice(x, 1, 0, 1), {batch, d.hidden});
  const Tensor logits = net.linear(first, "heads.head", d.classes, kBiased);
  if (phase == Phase::kTrain)
    net.minimise_cross_entropy(logits, net.input("labels", ElementType::kS32, {batch}));
  else
    net.output("logits", logits);
  return net.finish();
}

namespace {

ZooModel entry(const VitDescription& description, std::string title, int64_t parameters) {
  return {.name = description.name,
          .title = std::move(title),
          .family = "vit",
          .choices = vit_choices(),
          .phases = {"forward", "prefill", "train"},
          .published_parameters = parameters,
          .source = "torchvision.models, IMAGENET1K_V1 num_params; arXiv:2010.11929",
          .build = [description](const BuildOptions& o) { return build_vit(description, o); }};
}

VitDescription base() {
  VitDescription d;
  d.name = "vit-b-16";
  return d;
}

VitDescription large() {
  VitDescription d;
  d.name = "vit-l-16";
  d.hidden = 1024;
  d.layers = 24;
  d.heads = 16;
  d.intermediate = 4096;
  return d;
}

const ZooRegistration registration(
    {entry(base(), "ViT-B/16, 224×224 images, 1000 classes, bf16", 86'567'656),
     entry(large(), "ViT-L/16, 224×224 images, 1000 classes, bf16", 304'326'632)});

}  // namespace
}  // namespace orrery
