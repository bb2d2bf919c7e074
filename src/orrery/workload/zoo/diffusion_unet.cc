#include <fmt/format.h>

#include <array>
#include <cmath>

#include "orrery/base/error.h"
#include "orrery/workload/zoo/zoo.h"

// The U-Net of Stable Diffusion 1.5 (Rombach et al. 2022): diffusers'
// UNet2DConditionModel with the configuration of stable-diffusion-v1-5, whose
// parameter names are used.

namespace orrery {
namespace {

constexpr std::array<int64_t, 4> kChannels = {320, 640, 1280, 1280};
constexpr int64_t kBlocksPerLevel = 2;
constexpr int64_t kHeads = 8;
constexpr int64_t kNormGroups = 32;
constexpr int64_t kTextWidth = 768;
constexpr int64_t kTimeWidth = 4 * kChannels[0];

const LinearOptions kBiased = {.bias = true};
const ConvolutionOptions kWindow3 = {.padding_low = {1, 1}, .bias = true};
const ConvolutionOptions kWindow1 = {.bias = true};

/// A residual block that adds the time embedding between its convolutions.
Tensor residual(Network& net, const Tensor& x, const Tensor& time, int64_t out,
                std::string_view name) {
  const std::string kind = fmt::format("residual_{}_{}_{}", x.dim(1), x.dim(-1), out);
  return net.layer(kind, name, {x, time}, [&](const Tensors& in) -> Tensors {
    Tensor y = net.silu(net.group_norm(in[0], "norm1", kNormGroups));
    y = net.convolution(y, "conv1", out, {3, 3}, kWindow3);
    const Tensor shift = net.linear(net.silu(in[1]), "time_emb_proj", out, kBiased);
    y = net.add(y, net.reshape(shift, {shift.dim(0), 1, 1, out}));
    y = net.silu(net.group_norm(y, "norm2", kNormGroups));
    y = net.convolution(y, "conv2", out, {3, 3}, kWindow3);
    const Tensor shortcut = in[0].dim(-1) == out
                                ? in[0]
                                : net.convolution(in[0], "conv_shortcut", out, {1, 1}, kWindow1);
    return {net.add(shortcut, y)};
  })[0];
}

Tensor attend(Network& net, const Tensor& x, const Tensor& from, std::string_view name) {
  const auto in_attention = net.scope(name);
  const int64_t width = x.dim(-1);
  const auto heads = [&](const Tensor& t) {
    return net.reshape(t, {t.dim(0), t.dim(1), kHeads, width / kHeads});
  };
  const Tensor mixed =
      net.attention(heads(net.linear(x, "to_q", width)), heads(net.linear(from, "to_k", width)),
                    heads(net.linear(from, "to_v", width)));
  return net.linear(net.reshape(mixed, x.dims()), "to_out.0", width, kBiased);
}

/// Self-attention over the pixels, cross-attention to the text, a gated MLP.
Tensor transformer(Network& net, const Tensor& x, const Tensor& text, std::string_view name) {
  const std::string kind = fmt::format("transformer_{}_{}", x.dim(1), x.dim(-1));
  return net.layer(kind, name, {x, text}, [&](const Tensors& in) -> Tensors {
    const int64_t width = in[0].dim(-1);
    Tensor y = net.group_norm(in[0], "norm", kNormGroups, 1e-6);
    y = net.convolution(y, "proj_in", width, {1, 1}, kWindow1);
    y = net.reshape(y, {y.dim(0), y.dim(1) * y.dim(2), width});
    {
      const auto in_block = net.scope("transformer_blocks.0");
      const Tensor own = net.layer_norm(y, "norm1");
      y = net.add(y, attend(net, own, own, "attn1"));
      y = net.add(y, attend(net, net.layer_norm(y, "norm2"), in[1], "attn2"));
      const Tensors gated =
          net.split(net.linear(net.layer_norm(y, "norm3"), "ff.net.0.proj", 8 * width, kBiased), -1,
                    {4 * width, 4 * width});
      y = net.add(
          y, net.linear(net.multiply(gated[0], net.gelu(gated[1])), "ff.net.2", width, kBiased));
    }
    y = net.convolution(net.reshape(y, in[0].dims()), "proj_out", width, {1, 1}, kWindow1);
    return {net.add(y, in[0])};
  })[0];
}

/// [b] to [b, width]: sines and cosines of falling frequency.
Tensor sinusoids(Network& net, const Tensor& steps, int64_t width) {
  constexpr double kLongestPeriod = 10000;
  const int64_t half = width / 2;
  const Tensor frequency =
      net.exponential(net.scale(net.iota(ElementType::kF32, {half}, 0),
                                -std::log(kLongestPeriod) / static_cast<double>(half)));
  const Tensor angle = net.multiply(net.reshape(steps, {steps.dim(0), 1}), frequency);
  return net.convert(net.concatenate({net.cosine(angle), net.sine(angle)}, 1),
                     net.options().activations);
}

std::vector<Choice> choices() {
  std::vector<Choice> all = training_choices();
  all.push_back(
      {"latent", "64", {}, "height and width of the latents (an eighth of the image's pixels)"});
  all.push_back(
      {"fused_attention", "yes", {"yes", "no"}, "one attention kernel, or dot, softmax, dot"});
  return all;
}

Workload build(const BuildOptions& options) {
  const Phase phase = read_phase(options, false);
  const Choices chosen(choices(), options.choices);
  const int64_t batch = read_batch(options);
  const int64_t text_length = read_size("sequence (text tokens)", options.sequence, 77, 1 << 14);
  if (options.context != 0) throw_usage("a diffusion step keeps no context between calls");
  const int64_t latent = read_number(chosen, "latent", 1 << 12);
  if (latent % 8 != 0)
    throw_usage(
        fmt::format("latent={} cannot be halved three times; give a multiple of 8", latent));

  NetworkOptions network = read_network_options(options, chosen, ElementType::kBF16);
  network.fused_attention = chosen.is("fused_attention", "yes");
  Network net("zoo", "stable-diffusion-1.5-unet", network);
  const Tensor sample = net.input("sample", network.activations, {batch, latent, latent, 4});
  const Tensor steps = net.input("timestep", ElementType::kF32, {batch});
  const Tensor text =
      net.input("encoder_hidden_states", network.activations, {batch, text_length, kTextWidth});

  Tensor time = sinusoids(net, steps, kChannels[0]);
  time = net.silu(net.linear(time, "time_embedding.linear_1", kTimeWidth, kBiased));
  time = net.linear(time, "time_embedding.linear_2", kTimeWidth, kBiased);

  Tensor x = net.convolution(sample, "conv_in", kChannels[0], {3, 3}, kWindow3);
  Tensors skips = {x};
  const size_t last = kChannels.size() - 1;
  for (size_t level = 0; level <= last; ++level) {
    const auto in_level = net.scope(fmt::format("down_blocks.{}", level));
    for (int64_t i = 0; i < kBlocksPerLevel; ++i) {
      x = residual(net, x, time, kChannels[level], fmt::format("resnets.{}", i));
      if (level != last) x = transformer(net, x, text, fmt::format("attentions.{}", i));
      skips.push_back(x);
    }
    if (level == last) continue;
    x = net.convolution(x, "downsamplers.0.conv", kChannels[level], {3, 3},
                        {.stride = {2, 2}, .padding_low = {1, 1}, .bias = true});
    skips.push_back(x);
  }
  {
    const auto in_middle = net.scope("mid_block");
    x = residual(net, x, time, kChannels[last], "resnets.0");
    x = transformer(net, x, text, "attentions.0");
    x = residual(net, x, time, kChannels[last], "resnets.1");
  }
  for (size_t up = 0; up <= last; ++up) {
    const size_t level = last - up;
    const auto in_level = net.scope(fmt::format("up_blocks.{}", up));
    for (int64_t i = 0; i <= kBlocksPerLevel; ++i) {
      x = net.concatenate({x, skips.back()}, -1);
      skips.pop_back();
      x = residual(net, x, time, kChannels[level], fmt::format("resnets.{}", i));
      if (level != last) x = transformer(net, x, text, fmt::format("attentions.{}", i));
    }
    if (level > 0)
      x = net.convolution(net.resize(x, 2), "upsamplers.0.conv", kChannels[level], {3, 3},
                          kWindow3);
  }
  x = net.silu(net.group_norm(x, "conv_norm_out", kNormGroups));
  const Tensor noise = net.convolution(x, "conv_out", 4, {3, 3}, kWindow3);
  if (phase == Phase::kTrain)
    net.minimise_mean_squared_error(noise, net.input("target", network.activations, noise.dims()));
  else
    net.output("noise", noise);
  return net.finish();
}

const ZooRegistration registration(
    {{.name = "stable-diffusion-1.5-unet",
      .title = "Stable Diffusion 1.5 U-Net, one step, 64×64 latents, 77 text tokens, bf16",
      .family = "diffusion",
      .choices = choices(),
      .phases = {"forward", "prefill", "train"},
      .published_parameters = 859'520'964,
      .source = "num_parameters() of diffusers' UNet2DConditionModel for stable-diffusion-v1-5; "
                "arXiv:2112.10752",
      .build = build}});

}  // namespace
}  // namespace orrery
