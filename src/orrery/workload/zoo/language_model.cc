#include "orrery/workload/zoo/language_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <stdexcept>

#include "orrery/base/error.h"
#include "orrery/workload/zoo/language_model_parts.h"

namespace orrery {
namespace language_model {
namespace {

/// Longest sequence and context that are taken as meant.
constexpr int64_t kMaxTokens = int64_t{1} << 24;
constexpr int64_t kDefaultSequence = 2048;
constexpr int64_t kDefaultContext = 1024;

std::string mixer_name(const Mixer& mixer) {
  struct {
    std::string operator()(const std::monostate&) const { return ""; }
    std::string operator()(const SoftmaxAttention& a) const {
      return a.indexer ? "sparse_attention" : a.window > 0 ? "sliding_attention" : "attention";
    }
    std::string operator()(const LatentAttention& a) const {
      return a.indexer ? "sparse_latent_attention" : "latent_attention";
    }
    std::string operator()(const CompressedAttention& a) const {
      return a.ratio == 0 ? "sliding_attention" : fmt::format("compressed_attention_{}", a.ratio);
    }
    std::string operator()(const DeltaAttention&) const { return "delta_attention"; }
    std::string operator()(const StateSpace&) const { return "state_space"; }
    std::string operator()(const LinearBlock&) const { return "linear"; }
  } visitor;
  return std::visit(visitor, mixer);
}

std::string feed_forward_name(const FeedForward& part) {
  struct {
    std::string operator()(const std::monostate&) const { return ""; }
    std::string operator()(const DenseFeedForward&) const { return "mlp"; }
    std::string operator()(const MixtureOfExperts&) const { return "experts"; }
    std::string operator()(const LinearBlock&) const { return "linear"; }
  } visitor;
  return std::visit(visitor, part);
}

/// Layers of one make, written once as a function.
struct Kind {
  Layer layer;
  int64_t blocks = 0;  ///< Attention residuals: sealed blocks it looks back at.
  bool seals = false;  ///< It adds one.
  std::string name;
  std::vector<std::string> caches;  ///< Names, known once the body was written.
};

/// Layers of one make have one of these; it spares comparing whole layers.
using Fingerprint = std::array<int64_t, 4>;

Fingerprint fingerprint(const Layer& layer) {
  const auto* attention = std::get_if<SoftmaxAttention>(&layer.mixer);
  const auto* dense = std::get_if<DenseFeedForward>(&layer.feed_forward);
  return {static_cast<int64_t>(layer.mixer.index()),
          static_cast<int64_t>(layer.feed_forward.index()),
          attention != nullptr ? attention->window + attention->key_value_heads : 0,
          dense != nullptr ? dense->inner : 0};
}

class Builder {
 public:
  Builder(const TransformerDescription& model, const BuildOptions& options,
          const std::string& format);
  Workload build();

 private:
  Tensor embed(const Tensor& ids);
  Tensor run_layers(Tensor x);
  Tensor run_layers_with_attention_residuals(Tensor x);
  Tensor finish_residual(Tensor x);
  Tensor logits(Tensor x);
  Kind& kind_of(const Layer& layer, int64_t blocks, bool seals);
  /// Inputs of a layer: its hidden states, then what its mixer needs.
  Tensors inputs_of(const Kind& kind, Tensors states);
  Surroundings surroundings(const Kind& kind, const Tensors& inputs, size_t first) const;
  Tensors call(Kind& kind, int64_t index, const Tensors& states,
               const std::function<Tensor(Kind&, const Tensors&, const Surroundings&)>& body);
  Tensor mixed(Kind& kind, const Tensor& x, const Surroundings& around);
  Tensor plain_layer(Kind& kind, const Tensor& x, const Surroundings& around);
  Tensor streamed_layer(Kind& kind, const Tensor& x, const Surroundings& around);

  TransformerDescription model_;
  Phase phase_;
  Choices choices_;
  WeightFormat narrow_;   ///< What a narrow --dtype asks for; plain otherwise.
  BuildOptions options_;  ///< As asked for, less a narrow --dtype.
  Network net_;
  Pass pass_;
  Tensor position_;
  Tensor table_;
  std::map<int64_t, Network::Rotary> rotary_;
  std::vector<std::unique_ptr<Kind>> kinds_;
  std::map<Fingerprint, std::vector<Kind*>> alike_;
  std::map<std::string, int> names_;
  std::vector<NamedTensor> caches_of_call_;  ///< Of the body being written.
  std::vector<NamedTensor> caches_;
};

/// A --dtype of eight bits or fewer quantises the weights; activations keep the
/// model's type. Plain for wider types.
WeightFormat narrow_format(const BuildOptions& options) {
  WeightFormat format;
  const auto type = element_type_from_user(options.dtype);
  if (options.dtype.empty() || !type || bit_width(*type) > 8 || *type == ElementType::kBool)
    return format;
  format.storage = *type;
  switch (bit_width(*type)) {
    case 8:  // a scale an output, activations row by row
      format.compute = *type;
      format.scale = ElementType::kF32;
      format.dynamic_activation_scales = true;
      break;
    default:
      if (is_float(*type)) {  // as NVFP4
        format.compute = *type;
        format.scale = ElementType::kF8E4M3FN;
        format.block_in = 16;
        format.dynamic_activation_scales = true;
      } else {  // as GPTQ and AWQ: weights alone
        format.scale = ElementType::kF16;
        format.block_in = 128;
      }
  }
  return format;
}

BuildOptions without_narrow_type(BuildOptions options) {
  if (narrow_format(options).storage != ElementType::kNone) options.dtype.clear();
  return options;
}

NetworkOptions network_options(const BuildOptions& options, const Choices& choices,
                               ElementType type, bool dropout) {
  NetworkOptions network = read_network_options(options, choices, type, "transformers");
  network.fused_attention = choices.is("fused_attention", "yes");
  network.dropout = choices.is("dropout", "yes") || (choices.is("dropout", "auto") && dropout);
  return network;
}

Builder::Builder(const TransformerDescription& model, const BuildOptions& options,
                 const std::string& format)
    : model_(model),
      phase_(read_phase(options, true)),
      choices_(language_model_choices(), options.choices),
      narrow_(narrow_format(options)),
      options_(without_narrow_type(options)),
      net_(format, model.name, network_options(options_, choices_, model.type, model.dropout)),
      pass_{.net = net_, .model = model_, .fallback = narrow_} {
  model_.type = net_.options().activations;
  pass_.phase = phase_;
  pass_.batch = read_batch(options);
  pass_.causal = choices_.is("attention", "causal");
  const int64_t longest = model_.longest > 0 ? model_.longest : kMaxTokens;
  if (pass_.decoding()) {
    pass_.tokens = read_size("sequence", options.sequence, 1, kMaxTokens);
    if (pass_.tokens != 1)
      throw_usage(fmt::format("decode runs one new token a sequence, not {}; prefill runs more",
                              pass_.tokens));
    pass_.context =
        read_size("context", options.context, std::min(kDefaultContext, longest), kMaxTokens);
  } else {
    if (options.context != 0)
      throw_usage(
          fmt::format("--context is for decode; {} starts with an empty cache", options.phase));
    pass_.tokens =
        read_size("sequence", options.sequence, std::min(kDefaultSequence, longest), kMaxTokens);
  }
  const int64_t reach = std::max(pass_.tokens, pass_.context);
  if (model_.learnt_positions > 0 && reach > model_.learnt_positions)
    throw_usage(fmt::format("'{}' has {} positions, {} were asked for", model_.name,
                            model_.learnt_positions, reach));
  if (reach > longest)
    net_.add_note(
        fmt::format("{} tokens are more than the {} the model was made for", reach, longest));
}

// --- layers -------------------------------------------------------------------

Kind& Builder::kind_of(const Layer& layer, int64_t blocks, bool seals) {
  std::vector<Kind*>& alike = alike_[fingerprint(layer)];
  for (Kind* kind : alike)
    if (kind->blocks == blocks && kind->seals == seals && kind->layer == layer) return *kind;
  const std::string mixer = mixer_name(layer.mixer);
  const std::string part = feed_forward_name(layer.feed_forward);
  std::string name = mixer.empty() ? part : part.empty() ? mixer : mixer + "_" + part;
  if (name.empty()) name = "empty";
  if (const int before = names_[name]++; before > 0) name += fmt::format("_{}", before + 1);
  kinds_.push_back(std::make_unique<Kind>(Kind{layer, blocks, seals, name, {}}));
  alike.push_back(kinds_.back().get());
  return *kinds_.back();
}

Tensors Builder::inputs_of(const Kind& kind, Tensors states) {
  if (pass_.decoding() && !std::holds_alternative<std::monostate>(kind.layer.mixer))
    states.push_back(position_);
  if (const int64_t size = rotary_size(kind.layer.mixer); size > 0) {
    auto [at, added] = rotary_.try_emplace(size);
    if (added) at->second = net_.rotary_tables(pass_.tokens, size, model_.rotary_base, position_);
    states.push_back(at->second.cosine);
    states.push_back(at->second.sine);
  }
  return states;
}

Surroundings Builder::surroundings(const Kind& kind, const Tensors& inputs, size_t first) const {
  Surroundings around;
  if (pass_.decoding() && !std::holds_alternative<std::monostate>(kind.layer.mixer))
    around.position = inputs[first++];
  if (rotary_size(kind.layer.mixer) > 0) {
    around.cosine = inputs[first];
    around.sine = inputs[first + 1];
  }
  return around;
}

/// Calls layer `index`; its first result is the new hidden state.
Tensors Builder::call(
    Kind& kind, int64_t index, const Tensors& states,
    const std::function<Tensor(Kind&, const Tensors&, const Surroundings&)>& body) {
  const size_t count = states.size();
  Tensors results =
      net_.layer(kind.name, fmt::format("layers.{}", index), inputs_of(kind, states),
                 [&](const Tensors& inputs) -> Tensors {
                   caches_of_call_.clear();
                   Tensors outputs = {body(kind, inputs, surroundings(kind, inputs, count))};
                   for (const NamedTensor& cache : caches_of_call_) {
                     kind.caches.push_back(cache.name);
                     outputs.push_back(cache.value);
                   }
                   return outputs;
                 });
  for (size_t i = 0; i < kind.caches.size(); ++i)
    caches_.push_back({fmt::format("layers.{}.{}", index, kind.caches[i]), results[i + 1]});
  return results;
}

Tensor Builder::mixed(Kind& kind, const Tensor& x, const Surroundings& around) {
  Mixed result = mix(pass_, kind.layer.mixer, x, around);
  caches_of_call_ = std::move(result.caches);
  return result.output;
}

/// One layer with the ordinary residual.
Tensor Builder::plain_layer(Kind& kind, const Tensor& input, const Surroundings& around) {
  const bool mixes = !std::holds_alternative<std::monostate>(kind.layer.mixer);
  const bool feeds = !std::holds_alternative<std::monostate>(kind.layer.feed_forward);
  Tensor x = input;
  switch (kind.layer.norms) {
    case NormPlacement::kParallel:
    case NormPlacement::kParallelOneNorm: {
      const Tensor first = norm(pass_, x, "input_layernorm");
      const Tensor second = kind.layer.norms == NormPlacement::kParallel
                                ? norm(pass_, x, "post_attention_layernorm")
                                : first;
      const Tensor attended = mixed(kind, first, around);
      return net_.add(net_.add(x, attended),
                      feed_forward(pass_, kind.layer.feed_forward, second, x));
    }
    case NormPlacement::kAfter:
      if (mixes) x = norm(pass_, net_.add(x, mixed(kind, x, around)), "self_attn_layer_norm");
      if (feeds)
        x = norm(pass_, net_.add(x, feed_forward(pass_, kind.layer.feed_forward, x, x)),
                 "final_layer_norm");
      return x;
    case NormPlacement::kBefore:
      if (mixes)
        x = net_.add(
            x, net_.dropout(mixed(kind, norm(pass_, x, mixes && feeds ? "input_layernorm" : "norm"),
                                  around)));
      if (feeds)
        x = net_.add(x,
                     net_.dropout(feed_forward(
                         pass_, kind.layer.feed_forward,
                         norm(pass_, x, mixes && feeds ? "post_attention_layernorm" : "norm"), x)));
      return x;
    case NormPlacement::kBoth:
      if (mixes)
        x = net_.add(x, norm(pass_, mixed(kind, norm(pass_, x, "input_layernorm"), around),
                             "post_attention_layernorm"));
      if (feeds)
        x = net_.add(x, norm(pass_,
                             feed_forward(pass_, kind.layer.feed_forward,
                                          norm(pass_, x, "pre_feedforward_layernorm"), x),
                             "post_feedforward_layernorm"));
      if (kind.layer.scaled_output) x = net_.multiply(x, net_.buffer("layer_scalar", {1}));
      return x;
  }
  throw_internal("a placement of norms that is none");
}

/// The three small maps of hyper-connections: from the flattened streams to how
/// they are gathered (pre), fed back (post) and mixed (comb).
struct StreamMaps {
  Tensor pre, post, comb;
};

StreamMaps stream_maps(const Pass& pass, const Tensor& x, std::string_view name, bool gather_only) {
  Network& net = pass.net;
  const int64_t n = x.dim(2);
  const int64_t b = x.dim(0), s = x.dim(1);
  const Tensor flat = net.rms_norm(net.reshape(x, {b, s, n * x.dim(3)}),
                                   fmt::format("{}_norm", name), pass.model.epsilon, false);
  LinearOptions single;  // kept in single precision, as published
  single.format.storage = ElementType::kF32;
  const int64_t outputs = gather_only ? n : (2 + n) * n;
  const Tensor maps = net.linear(flat, fmt::format("{}_fn", name), outputs, single);
  const Tensor base = net.parameter(fmt::format("{}_base", name), {outputs}, ElementType::kF32);
  const Tensor scale =
      net.parameter(fmt::format("{}_scale", name), {gather_only ? 1 : 3}, ElementType::kF32);
  const auto part = [&](int64_t from, int64_t to, int64_t which) {
    const Tensor scaled =
        net.multiply(net.slice(maps, -1, from, to),
                     net.convert(net.slice(scale, 0, which, which + 1), maps.element()));
    return net.add(scaled, net.convert(net.slice(base, 0, from, to), maps.element()));
  };
  StreamMaps result;
  result.pre = net.reshape(net.sigmoid(part(0, n, 0)), {b, s, n, 1});
  if (gather_only) return result;
  result.post = net.reshape(net.scale(net.sigmoid(part(n, 2 * n, 1)), 2), {b, s, n, 1});
  result.comb = net.softmax(net.reshape(part(2 * n, outputs, 2), {b, s, n, n}));
  return result;
}

/// One layer of hyper-connections; x [b, s, streams, hidden].
Tensor Builder::streamed_layer(Kind& kind, const Tensor& input, const Surroundings& around) {
  Tensor x = input;
  const auto around_block = [&](std::string_view name, const auto& block) {
    const StreamMaps maps = stream_maps(pass_, x, name, false);
    const Tensor gathered = net_.reduce_sum(net_.multiply(maps.pre, x), {2});
    const Tensor out = net_.reshape(block(gathered), {x.dim(0), x.dim(1), 1, x.dim(3)});
    x = net_.add(net_.multiply(maps.post, out), net_.matmul(maps.comb, x));
  };
  around_block("hc_attn",
               [&](const Tensor& y) { return mixed(kind, norm(pass_, y, "attn_norm"), around); });
  around_block("hc_ffn", [&](const Tensor& y) {
    return feed_forward(pass_, kind.layer.feed_forward, norm(pass_, y, "ffn_norm"), y);
  });
  return x;
}

Tensor Builder::run_layers(Tensor x) {
  const bool streams = model_.streams > 0;
  if (streams)
    x = net_.broadcast(net_.reshape(x, {x.dim(0), x.dim(1), 1, x.dim(2)}),
                       {x.dim(0), x.dim(1), model_.streams, x.dim(2)});
  for (size_t i = 0; i < model_.layers.size(); ++i) {
    const Layer& layer = model_.layers[i];
    if (std::holds_alternative<std::monostate>(layer.mixer) &&
        std::holds_alternative<std::monostate>(layer.feed_forward))
      continue;
    x = call(kind_of(layer, 0, false), static_cast<int64_t>(i), {x},
             [&](Kind& kind, const Tensors& inputs, const Surroundings& around) {
               return streams ? streamed_layer(kind, inputs[0], around)
                              : plain_layer(kind, inputs[0], around);
             })[0];
  }
  return finish_residual(x);
}

Tensor Builder::finish_residual(Tensor x) {
  if (model_.streams == 0) return x;
  const StreamMaps maps = stream_maps(pass_, x, "hc_head", true);
  return net_.reduce_sum(net_.multiply(maps.pre, x), {2});
}

/// Softmax over depth: the sealed blocks [b, s, n, h] and the running sum.
Tensor attend_to_depth(const Pass& pass, const Tensor& sum, const Tensor& blocks,
                       std::string_view name) {
  Network& net = pass.net;
  const int64_t b = sum.dim(0), s = sum.dim(1), h = sum.dim(2);
  const Tensor values = net.concatenate({blocks, net.reshape(sum, {b, s, 1, h})}, 2);
  const int64_t n = values.dim(2);
  const Tensor keys = net.rms_norm(values, fmt::format("{}_norm", name), pass.model.epsilon);
  const Tensor scores = net.linear(keys, fmt::format("{}_proj", name), 1);
  const Tensor shares = net.softmax(net.reshape(scores, {b, s, 1, n}));
  return net.reshape(net.matmul(shares, values), {b, s, h});
}

// Kimi K3: every `residual_block` layers the running sum is sealed as a block; each
// part of a layer takes its input from a softmax over the blocks and the sum.
Tensor Builder::run_layers_with_attention_residuals(Tensor x) {
  Tensor blocks;
  for (size_t i = 0; i < model_.layers.size(); ++i) {
    const bool seals = static_cast<int64_t>(i) % model_.residual_block == 0;
    const int64_t count = blocks.valid() ? blocks.dim(2) : 0;
    Kind& kind = kind_of(model_.layers[i], count, seals);
    Tensors states = {x};
    if (count > 0) states.push_back(blocks);
    if (seals) {
      // The sum that the layer receives is the block it seals.
      const Tensor sealed = net_.reshape(x, {x.dim(0), x.dim(1), 1, x.dim(2)});
      blocks = count > 0 ? net_.concatenate({blocks, sealed}, 2) : sealed;
    }
    x = call(kind, static_cast<int64_t>(i), states,
             [&](Kind& k, const Tensors& inputs, const Surroundings& around) {
               const Tensor& sum = inputs[0];
               Tensor seen = sum;
               Tensor behind;
               if (k.blocks > 0) {
                 behind = inputs[1];
                 seen = attend_to_depth(pass_, sum, behind, "self_attention_res");
               }
               if (k.seals) {
                 const Tensor sealed = net_.reshape(sum, {sum.dim(0), sum.dim(1), 1, sum.dim(2)});
                 behind = k.blocks > 0 ? net_.concatenate({behind, sealed}, 2) : sealed;
               }
               const Tensor attended = mixed(k, norm(pass_, seen, "input_layernorm"), around);
               const Tensor total = k.seals ? attended : net_.add(sum, attended);
               const Tensor second = attend_to_depth(pass_, total, behind, "mlp_res");
               return net_.add(
                   total, feed_forward(pass_, k.layer.feed_forward,
                                       norm(pass_, second, "post_attention_layernorm"), second));
             })[0];
  }
  return attend_to_depth(pass_, x, blocks, "output_attn_res");
}

// --- the whole ----------------------------------------------------------------

Tensor Builder::embed(const Tensor& ids) {
  const int64_t size = model_.embedding_size > 0 ? model_.embedding_size : model_.hidden;
  table_ = net_.parameter("embed_tokens.weight", {model_.vocabulary, size});
  Tensor x = net_.embedding(table_, ids);
  if (model_.scaled_embedding) x = net_.scale(x, std::sqrt(static_cast<double>(model_.hidden)));
  if (model_.embedding_size > 0) x = net_.linear(x, "project_in", model_.hidden);
  if (model_.learnt_positions > 0) {
    const Tensor positions =
        net_.parameter("embed_positions.weight", {model_.learnt_positions, model_.hidden});
    x = net_.add(x, pass_.decoding() ? net_.embedding(positions, net_.reshape(position_, {1}))
                                     : net_.positions(positions, 0, pass_.tokens));
  }
  return net_.dropout(x);
}

Tensor Builder::logits(Tensor x) {
  const bool last =
      choices_.is("logits", "last") || (choices_.is("logits", "auto") && pass_.gives_caches());
  if (last && pass_.tokens > 1) x = net_.slice(x, 1, pass_.tokens - 1, pass_.tokens);
  if (model_.final_norm) x = norm(pass_, x, "norm");
  if (model_.embedding_size > 0) x = net_.linear(x, "project_out", model_.embedding_size);
  Tensor logits =
      model_.tied_embeddings
          ? net_.linear_with(x, table_, WeightOrder::kOutIn)
          : net_.linear(x, "lm_head", model_.vocabulary,
                        {.bias = model_.head.bias,
                         .format = pass_.training() ? WeightFormat() : model_.head.format,
                         .order = std::nullopt});
  if (model_.capped_logits) logits = net_.tanh(logits);
  return logits;
}

Workload Builder::build() {
  for (const std::string& note : model_.notes) net_.add_note(note);
  if (pass_.training() && (model_.quantised || pass_.fallback.storage != ElementType::kNone))
    net_.add_note(
        "training runs on weights of the model's own type: their quantisation is left out");
  const Tensor ids = net_.input("input_ids", ElementType::kS32, {pass_.batch, pass_.tokens});
  if (pass_.decoding()) position_ = net_.input("position", ElementType::kS32, {});
  Tensor x = embed(ids);
  x = model_.residual_block > 0 ? run_layers_with_attention_residuals(x) : run_layers(x);
  const Tensor scores = logits(x);
  if (pass_.training()) {
    if (scores.dim(1) != pass_.tokens)
      throw_usage("training needs the logits of every position: logits=all");
    net_.minimise_cross_entropy(
        scores, net_.input("labels", ElementType::kS32, {pass_.batch, pass_.tokens}));
  } else {
    net_.output("logits", scores);
    for (const NamedTensor& cache : caches_) net_.output(cache.name, cache.value);
  }
  return net_.finish();
}

}  // namespace

ElementType Pass::cache_type() const {
  return model.cache_type == ElementType::kNone ? model.type : model.cache_type;
}

WeightFormat Pass::format(const WeightFormat& described) const {
  if (training()) return {};  // weights are trained in the model's own type
  return described.storage != ElementType::kNone ? described : fallback;
}

LinearOptions Pass::linear(const Projection& projection) const {
  LinearOptions options;
  options.bias = projection.bias;
  options.format = format(projection.format);
  return options;
}

int64_t width(std::initializer_list<int64_t> sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes)
    if (__builtin_mul_overflow(product, size, &product) || product > (int64_t{1} << 40))
      throw std::invalid_argument("a layer wider than 2^40");
  return product;
}

Tensor norm(const Pass& pass, const Tensor& x, std::string_view name) {
  if (pass.model.norm == Norm::kRms) return pass.net.rms_norm(x, name, pass.model.epsilon);
  return pass.net.layer_norm(x, name, pass.model.epsilon, true, pass.model.norm == Norm::kLayer);
}

}  // namespace language_model

std::vector<Choice> language_model_choices() {
  std::vector<Choice> choices = {
      {"logits",
       "auto",
       {"auto", "last", "all"},
       "positions that get logits; auto: the last in prefill, else all"},
      {"attention",
       "causal",
       {"causal", "full"},
       "scores above the diagonal are skipped, or computed and masked as without a fused kernel"},
      {"fused_attention",
       "yes",
       {"yes", "no"},
       "one attention kernel, or dot, softmax, dot (latent and sparse attention stay fused)"},
      {"routing", "balanced", {"balanced"}, "tokens spread evenly over experts"},
      {"dropout",
       "auto",
       {"auto", "yes", "no"},
       "in training, activations are dropped; auto: where the published configuration says so"}};
  for (Choice& choice : training_choices()) choices.push_back(std::move(choice));
  return choices;
}

Workload build_language_model(const TransformerDescription& description,
                              const BuildOptions& options, const std::string& format) {
  return language_model::Builder(description, options, format).build();
}

}  // namespace orrery
