#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orrery/base/error.h"
#include "orrery/workload/zoo/transformers.h"

// T5 (Raffel et al. 2020): with the parameter names of Hugging Face's
// T5ForConditionalGeneration, but for the lists of sub-layers. Switch Transformers (Fedus et al.
// 2022) as Hugging Face's SwitchTransformersForConditionalGeneration.

namespace orrery {
namespace {

class T5Builder {
 public:
  T5Builder(Network& net, const T5Description& d, bool causal)
      : net_(net), d_(d), causal_(causal) {}

  /// The score bias [1, heads, rows, columns] of relative positions; the rows are the
  /// last of the columns when `first` is given. Buckets grow with the logarithm of
  /// the distance.
  Tensor relative_bias(std::string_view name, int64_t rows, int64_t columns, const Tensor& first) {
    const auto in_bias = net_.scope(name);
    const Tensor table =
        net_.parameter("relative_attention_bias.weight", {d_.relative_buckets, d_.heads});
    Tensor row = net_.iota(ElementType::kS32, {rows, columns}, 0);
    if (first.valid()) row = net_.add(row, first);
    const Tensor column = net_.iota(ElementType::kS32, {rows, columns}, 1);
    const Tensor distance = net_.convert(net_.subtract(row, column), ElementType::kF32);
    const auto buckets = static_cast<double>(d_.relative_buckets);
    const Tensor bucket = net_.minimum(
        net_.scale(net_.log(net_.maximum(distance, net_.constant(1, ElementType::kF32))),
                   buckets / std::log(128.0)),
        net_.constant(buckets - 1, ElementType::kF32));
    const Tensor bias = net_.embedding(table, net_.convert(bucket, ElementType::kS32));
    return net_.reshape(net_.transpose(bias, {2, 0, 1}), {1, d_.heads, rows, columns});
  }

  Tensor heads(const Tensor& x) {
    return net_.reshape(x, {x.dim(0), x.dim(1), d_.heads, d_.head_size});
  }
  int64_t inner() const { return d_.heads * d_.head_size; }

  Tensor joined(const Tensor& mixed) {
    return net_.linear(net_.reshape(mixed, {mixed.dim(0), mixed.dim(1), inner()}), "o", d_.hidden);
  }

  Tensor self_attention(const Tensor& x, const Tensor& bias, bool causal, int64_t cached,
                        const Tensor& position) {
    const auto in_attention = net_.scope("SelfAttention");
    const Tensor normal = net_.rms_norm(x, "layer_norm", d_.epsilon);
    const Tensor q = heads(net_.linear(normal, "q", inner()));
    Tensor k = heads(net_.linear(normal, "k", inner()));
    Tensor v = heads(net_.linear(normal, "v", inner()));
    if (cached > 0) {
      const Dims dims = {x.dim(0), cached, d_.heads, d_.head_size};
      k = net_.update_cache(net_.cache("key_cache", dims), k, position);
      v = net_.update_cache(net_.cache("value_cache", dims), v, position);
    }
    return net_.add(x,
                    joined(net_.attention(q, k, v, {.causal = causal && causal_, .bias = bias})));
  }

  Tensor cross_attention(const Tensor& x, const Tensor& encoded) {
    const auto in_attention = net_.scope("EncDecAttention");
    const Tensor q = heads(net_.linear(net_.rms_norm(x, "layer_norm", d_.epsilon), "q", inner()));
    const Tensor k = heads(net_.linear(encoded, "k", inner()));
    const Tensor v = heads(net_.linear(encoded, "v", inner()));
    return net_.add(x, joined(net_.attention(q, k, v)));
  }

  /// While decoding, the encoder's keys and values are there already. The weights
  /// that made them stay arguments: they are part of the loaded model.
  Tensor cached_cross_attention(const Tensor& x, int64_t encoder_length) {
    const auto in_attention = net_.scope("EncDecAttention");
    const Tensor q = heads(net_.linear(net_.rms_norm(x, "layer_norm", d_.epsilon), "q", inner()));
    net_.parameter("k.weight", {d_.hidden, inner()});
    net_.parameter("v.weight", {d_.hidden, inner()});
    const Dims dims = {x.dim(0), encoder_length, d_.heads, d_.head_size};
    const Tensor k = net_.cache("key_cache", dims);
    const Tensor v = net_.cache("value_cache", dims);
    net_.set_cache(k, k);
    net_.set_cache(v, v);
    return net_.add(x, joined(net_.attention(q, k, v)));
  }

  Tensor feed_forward(const Tensor& x) {
    const auto in_dense = net_.scope("DenseReluDense");
    const Tensor normal = net_.rms_norm(x, "layer_norm", d_.epsilon);
    Tensor y;
    if (d_.gated) {
      y = net_.multiply(net_.gelu(net_.linear(normal, "wi_0", d_.intermediate)),
                        net_.linear(normal, "wi_1", d_.intermediate));
    } else {
      y = net_.relu(net_.linear(normal, "wi", d_.intermediate));
    }
    return net_.add(x, net_.linear(y, "wo", d_.hidden));
  }

  /// One expert a token, of those it has room for.
  Tensor sparse_feed_forward(const Tensor& x) {
    const auto in_experts = net_.scope("mlp");
    const int64_t tokens = x.dim(0) * x.dim(1);
    const Tensor rows =
        net_.reshape(net_.rms_norm(x, "layer_norm", d_.epsilon), {tokens, d_.hidden});
    const int64_t kept = x.dim(0) * std::min(x.dim(1), d_.experts * d_.expert_capacity);
    const Tensor routed = kept < tokens ? net_.slice(rows, 0, 0, kept) : rows;
    const Tensor logits = net_.linear(routed, "router.classifier", d_.experts);
    const Routing routing = net_.route(logits, {});
    const Tensor sorted = net_.dispatch(routed, routing);
    const Tensor inner =
        net_.relu(net_.grouped_linear(sorted, "experts.wi", d_.experts, d_.intermediate, routing));
    Tensor y = net_.combine(
        net_.grouped_linear(inner, "experts.wo", d_.experts, d_.hidden, routing), routing);
    if (kept < tokens) y = net_.concatenate({y, net_.slice(rows, 0, kept, tokens)}, 0);
    return net_.add(x, net_.reshape(y, {x.dim(0), x.dim(1), d_.hidden}));
  }

  static bool is_sparse(int64_t layer, int64_t step) {
    return step == 1 || (step > 1 && layer % step == 1);
  }

 private:
  Network& net_;
  const T5Description& d_;
  bool causal_;
};

// Past any model's training length; keeps products of sizes far from overflow.
constexpr int64_t kMostTokens = 1 << 20;

}  // namespace

std::vector<Choice> t5_choices() {
  std::vector<Choice> all = training_choices();
  all.push_back(
      {"logits", "all", {"all", "last"}, "logits of every decoder position, or of the last"});
  all.push_back({"attention",
                 "causal",
                 {"causal", "full"},
                 "whether the decoder's masked scores are left out or computed"});
  all.push_back(
      {"fused_attention", "yes", {"yes", "no"}, "one attention kernel, or dot, softmax, dot"});
  all.push_back({"encoder_length", "512", {}, "when decoding: tokens the encoder was given"});
  return all;
}

Workload build_t5(const T5Description& d, const BuildOptions& options) {
  const Phase phase = read_phase(options, true);
  const bool decoding = phase == Phase::kDecode;
  const Choices chosen(t5_choices(), options.choices);
  const int64_t batch = read_batch(options);
  const int64_t sequence = read_size("sequence", options.sequence, decoding ? 1 : 512, kMostTokens);
  if (!decoding && options.context != 0) throw_usage("a context length is for the phase 'decode'");
  if (options.context < 0 || options.context > kMostTokens)
    throw_usage(fmt::format("context {} is not possible here; allowed are 0 to {}", options.context,
                            kMostTokens));
  require_sizes(d.name, {{"vocabulary", d.vocabulary},
                         {"hidden size", d.hidden},
                         {"head size", d.head_size},
                         {"intermediate size", d.intermediate},
                         {"encoder layers", d.encoder_layers},
                         {"decoder layers", d.decoder_layers},
                         {"heads", d.heads},
                         {"buckets of relative positions", d.relative_buckets}});
  if (d.encoder_sparse_step > 0 || d.decoder_sparse_step > 0)
    require_sizes(d.name, {{"experts", d.experts}, {"expert capacity", d.expert_capacity}});

  NetworkOptions network = read_network_options(options, chosen, d.dtype, "transformers");
  network.fused_attention = chosen.is("fused_attention", "yes");
  Network net(d.format, d.name, network);
  T5Builder t5(net, d, chosen.is("attention", "causal"));
  const Tensor table = net.parameter("shared.weight", {d.vocabulary, d.hidden});

  Tensor encoded;
  if (!decoding) {
    const auto in_encoder = net.scope("encoder");
    const Tensor ids = net.input("input_ids", ElementType::kS32, {batch, sequence});
    const Tensor bias = net.convert(
        t5.relative_bias("block.0.SelfAttention", sequence, sequence, {}), network.activations);
    const auto block = [&t5](bool sparse) {
      return [&t5, sparse](const Tensors& in) -> Tensors {
        const Tensor x = t5.self_attention(in[0], in[1], false, 0, {});
        return {sparse ? t5.sparse_feed_forward(x) : t5.feed_forward(x)};
      };
    };
    Tensors inputs = {net.embedding(table, ids), bias};
    if (d.encoder_sparse_step == 0) {
      encoded = net.repeat("block", d.encoder_layers, inputs, block(false))[0];
    } else {
      for (int64_t i = 0; i < d.encoder_layers; ++i) {
        const bool sparse = T5Builder::is_sparse(i, d.encoder_sparse_step);
        inputs[0] = net.layer(sparse ? "sparse_block" : "block", fmt::format("block.{}", i), inputs,
                              block(sparse))[0];
      }
      encoded = inputs[0];
    }
    encoded = net.rms_norm(encoded, "final_layer_norm", d.epsilon);
  } else {
    net.add_note("T5 decode: the encoder ran before; its weights are not among the arguments");
  }

  Tensor x;
  {
    const auto in_decoder = net.scope("decoder");
    const Tensor ids = net.input("input_ids", ElementType::kS32, {batch, sequence});
    const Tensor position = decoding ? net.input("position", ElementType::kS32, {}) : Tensor();
    const int64_t columns = options.context + sequence;
    const Tensor bias =
        net.convert(t5.relative_bias("block.0.SelfAttention", sequence, columns, position),
                    network.activations);
    const int64_t encoder_length = read_number(chosen, "encoder_length", kMostTokens);
    Tensors inputs = {net.embedding(table, ids), bias};
    inputs.push_back(decoding ? position : encoded);
    for (int64_t i = 0; i < d.decoder_layers; ++i) {
      const bool sparse = T5Builder::is_sparse(i, d.decoder_sparse_step);
      inputs[0] = net.layer(sparse ? "sparse_decoder_block" : "decoder_block",
                            fmt::format("block.{}", i), inputs, [&](const Tensors& in) -> Tensors {
                              Tensor y = decoding
                                             ? t5.self_attention(in[0], in[1], true, columns, in[2])
                                             : t5.self_attention(in[0], in[1], true, 0, {});
                              y = decoding ? t5.cached_cross_attention(y, encoder_length)
                                           : t5.cross_attention(y, in[2]);
                              return {sparse ? t5.sparse_feed_forward(y) : t5.feed_forward(y)};
                            })[0];
    }
    x = net.rms_norm(inputs[0], "final_layer_norm", d.epsilon);
  }
  if (chosen.is("logits", "last") && phase != Phase::kTrain)
    x = net.slice(x, 1, sequence - 1, sequence);
  Tensor logits;
  if (d.tied) {
    logits = net.linear_with(net.scale(x, 1 / std::sqrt(static_cast<double>(d.hidden))), table,
                             WeightOrder::kOutIn);
  } else {
    logits = net.linear(x, "lm_head", d.vocabulary);
  }
  if (phase == Phase::kTrain)
    net.minimise_cross_entropy(logits, net.input("labels", ElementType::kS32, {batch, sequence}));
  else
    net.output("logits", logits);
  return net.finish();
}

namespace {

ZooModel entry(const T5Description& description, std::string title, int64_t parameters) {
  return {.name = description.name,
          .title = std::move(title),
          .family = "t5",
          .choices = t5_choices(),
          .phases = {"forward", "prefill", "decode", "train"},
          .published_parameters = parameters,
          .source = "num_parameters() of Hugging Face's T5ForConditionalGeneration for google-t5/" +
                    description.name + "; arXiv:1910.10683",
          .build = [description](const BuildOptions& o) { return build_t5(description, o); }};
}

T5Description small() {
  T5Description d;
  d.name = "t5-small";
  return d;
}

T5Description base() {
  T5Description d;
  d.name = "t5-base";
  d.hidden = 768;
  d.intermediate = 3072;
  d.encoder_layers = d.decoder_layers = 12;
  d.heads = 12;
  return d;
}

const ZooRegistration registration(
    {entry(small(), "T5 small, 512 tokens in and out, bf16", 60'506'624),
     entry(base(), "T5 base, 512 tokens in and out, bf16", 222'903'552)});

}  // namespace
}  // namespace orrery
