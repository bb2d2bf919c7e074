#include <fmt/format.h>

#include <cmath>

#include "orrery/base/error.h"
#include "orrery/workload/zoo/zoo.h"

// DiT (Peebles & Xie 2023), the XL/2 of Table 1, class-conditional on ImageNet, with
// the parameter names of facebookresearch/DiT.

namespace orrery {
namespace {

constexpr int64_t kHidden = 1152;
constexpr int64_t kDepth = 28;
constexpr int64_t kHeads = 16;
constexpr int64_t kPatch = 2;
constexpr int64_t kChannels = 4;
constexpr int64_t kFrequencies = 256;  // Of the timestep's sinusoids.
constexpr int64_t kClasses = 1000;     // And one more for "none", for guidance.

const LinearOptions kBiased = {.bias = true};

/// x·(1 + scale) + shift, with a scale and shift an image.
Tensor modulate(Network& net, const Tensor& x, const Tensor& shift, const Tensor& scale) {
  const Dims column = {x.dim(0), 1, x.dim(-1)};
  return net.add(net.multiply(x, net.reshape(net.offset(scale, 1), column)),
                 net.reshape(shift, column));
}

Tensor block(Network& net, const Tensor& x, const Tensor& condition) {
  const int64_t batch = x.dim(0);
  const int64_t tokens = x.dim(1);
  const Tensors six =
      net.split(net.linear(net.silu(condition), "adaLN_modulation.1", 6 * kHidden, kBiased), -1,
                Dims(6, kHidden));
  const auto gate = [&](const Tensor& y, const Tensor& g) {
    return net.multiply(y, net.reshape(g, {batch, 1, kHidden}));
  };
  const Tensor attended = modulate(net, net.layer_norm(x, "norm1", 1e-6, false), six[0], six[1]);
  const Tensors qkv = net.split(net.linear(attended, "attn.qkv", 3 * kHidden, kBiased), -1,
                                {kHidden, kHidden, kHidden});
  const Dims heads = {batch, tokens, kHeads, kHidden / kHeads};
  const Tensor mixed = net.attention(net.reshape(qkv[0], heads), net.reshape(qkv[1], heads),
                                     net.reshape(qkv[2], heads));
  const Tensor y = net.add(
      x, gate(net.linear(net.reshape(mixed, x.dims()), "attn.proj", kHidden, kBiased), six[2]));
  Tensor z = modulate(net, net.layer_norm(y, "norm2", 1e-6, false), six[3], six[4]);
  z = net.gelu(net.linear(z, "mlp.fc1", 4 * kHidden, kBiased));
  return net.add(y, gate(net.linear(z, "mlp.fc2", kHidden, kBiased), six[5]));
}

Tensor timestep_embedding(Network& net, const Tensor& steps) {
  constexpr double kLongestPeriod = 10000;
  const int64_t half = kFrequencies / 2;
  const Tensor frequency =
      net.exponential(net.scale(net.iota(ElementType::kF32, {half}, 0),
                                -std::log(kLongestPeriod) / static_cast<double>(half)));
  const Tensor angle = net.multiply(net.reshape(steps, {steps.dim(0), 1}), frequency);
  const Tensor waves = net.convert(net.concatenate({net.cosine(angle), net.sine(angle)}, 1),
                                   net.options().activations);
  return net.linear(net.silu(net.linear(waves, "t_embedder.mlp.0", kHidden, kBiased)),
                    "t_embedder.mlp.2", kHidden, kBiased);
}

std::vector<Choice> choices() {
  std::vector<Choice> all = training_choices();
  all.push_back(
      {"latent", "32", {}, "height and width of the latents (an eighth of the image's pixels)"});
  all.push_back(
      {"fused_attention", "yes", {"yes", "no"}, "one attention kernel, or dot, softmax, dot"});
  return all;
}

Workload build(const BuildOptions& options) {
  const Phase phase = read_phase(options, false);
  refuse_sequence(options);
  const Choices chosen(choices(), options.choices);
  const int64_t batch = read_batch(options);
  const int64_t latent = read_number(chosen, "latent", 1 << 12);
  if (latent % kPatch != 0)
    throw_usage(fmt::format("latent={} is not made of 2×2 patches; give an even number", latent));

  NetworkOptions network = read_network_options(options, chosen, ElementType::kBF16);
  network.fused_attention = chosen.is("fused_attention", "yes");
  Network net("zoo", "dit-xl-2", network);
  const int64_t side = latent / kPatch;
  const int64_t tokens = side * side;
  const Tensor latents =
      net.input("latents", network.activations, {batch, latent, latent, kChannels});
  const Tensor steps = net.input("timestep", ElementType::kF32, {batch});
  const Tensor labels = net.input("class_labels", ElementType::kS32, {batch});

  Tensor x = net.convolution(latents, "x_embedder.proj", kHidden, {kPatch, kPatch},
                             {.stride = {kPatch, kPatch}, .bias = true});
  x = net.add(net.reshape(x, {batch, tokens, kHidden}),
              net.buffer("pos_embed", {1, tokens, kHidden}));
  const Tensor classes =
      net.parameter("y_embedder.embedding_table.weight", {kClasses + 1, kHidden});
  const Tensor condition = net.add(timestep_embedding(net, steps), net.embedding(classes, labels));
  x = net.repeat("blocks", kDepth, {x, condition},
                 [&](const Tensors& in) -> Tensors { return {block(net, in[0], in[1])}; })[0];

  // The noise and its variance, four channels each.
  const int64_t out = 2 * kChannels;
  const Tensors two = net.split(
      net.linear(net.silu(condition), "final_layer.adaLN_modulation.1", 2 * kHidden, kBiased), -1,
      {kHidden, kHidden});
  x = modulate(net, net.layer_norm(x, "final_layer.norm_final", 1e-6, false), two[0], two[1]);
  x = net.linear(x, "final_layer.linear", kPatch * kPatch * out, kBiased);
  x = net.transpose(net.reshape(x, {batch, side, side, kPatch, kPatch, out}), {0, 1, 3, 2, 4, 5});
  x = net.reshape(x, {batch, latent, latent, out});
  if (phase == Phase::kTrain)
    net.minimise_mean_squared_error(x, net.input("target", network.activations, x.dims()));
  else
    net.output("noise_and_variance", x);
  return net.finish();
}

const ZooRegistration registration(
    {{.name = "dit-xl-2",
      .title = "DiT-XL/2, one step, 32×32 latents (256×256 images), 1000 classes, bf16",
      .family = "diffusion",
      .choices = choices(),
      .phases = {"forward", "prefill", "train"},
      // 675M in the paper's Table 1; exactly, without the fixed position table:
      // 28·23,905,152 in the blocks and 5,490,464 around them.
      .published_parameters = 674'834'720,
      .source = "arXiv:2212.09748, Table 1 (675M); facebookresearch/DiT models.py",
      .build = build}});

}  // namespace
}  // namespace orrery
