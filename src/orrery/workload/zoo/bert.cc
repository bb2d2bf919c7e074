#include <fmt/format.h>

#include "orrery/base/error.h"
#include "orrery/workload/zoo/transformers.h"

// BERT (Devlin et al. 2019) and RoBERTa, with the parameter names of Hugging Face's
// BertModel. Sequences are taken to be full: no padding mask.

namespace orrery {
namespace {

const LinearOptions kBiased = {.bias = true};

Tensor encoder_layer(Network& net, const Tensor& x, const BertDescription& d) {
  const Dims heads = {x.dim(0), x.dim(1), d.heads, d.hidden / d.heads};
  Tensor y;
  {
    const auto in_self = net.scope("attention.self");
    const Tensor query = net.reshape(net.linear(x, "query", d.hidden, kBiased), heads);
    const Tensor key = net.reshape(net.linear(x, "key", d.hidden, kBiased), heads);
    const Tensor value = net.reshape(net.linear(x, "value", d.hidden, kBiased), heads);
    y = net.reshape(net.attention(query, key, value), x.dims());
  }
  y = net.dropout(net.linear(y, "attention.output.dense", d.hidden, kBiased));
  y = net.layer_norm(net.add(x, y), "attention.output.LayerNorm", d.epsilon);
  Tensor z = net.gelu(net.linear(y, "intermediate.dense", d.intermediate, kBiased));
  z = net.dropout(net.linear(z, "output.dense", d.hidden, kBiased));
  return net.layer_norm(net.add(y, z), "output.LayerNorm", d.epsilon);
}

}  // namespace

std::vector<Choice> bert_choices() {
  std::vector<Choice> all = training_choices();
  all.push_back(
      {"head",
       "auto",
       {"auto", "none", "pooler", "mlm"},
       "what follows the encoder: the pooler, or the masked-language-model head with logits "
       "for every position; auto is pooler forward and mlm in training"});
  all.push_back(
      {"fused_attention", "yes", {"yes", "no"}, "one attention kernel, or dot, softmax, dot"});
  all.push_back({"dropout", "yes", {"yes", "no"}, "in training, activations are dropped"});
  return all;
}

Workload build_bert(const BertDescription& d, const BuildOptions& options) {
  const Phase phase = read_phase(options, false);
  const Choices chosen(bert_choices(), options.choices);
  const int64_t batch = read_batch(options);
  require_sizes(d.name, {{"vocabulary", d.vocabulary},
                         {"positions", d.positions},
                         {"hidden size", d.hidden},
                         {"layers", d.layers},
                         {"heads", d.heads},
                         {"intermediate size", d.intermediate}});
  if (d.longest_sequence > d.positions)
    throw_usage(fmt::format("'{}': sequences of {} need as many positions, not {}", d.name,
                            d.longest_sequence, d.positions));
  const int64_t longest = d.longest_sequence > 0 ? d.longest_sequence : d.positions;
  const int64_t sequence = read_size("sequence", options.sequence, longest, longest);
  if (options.context != 0) throw_usage("an encoder keeps no context between calls");
  if (d.hidden % d.heads != 0)
    throw_usage(fmt::format("'{}': a hidden size of {} is not a multiple of {} heads", d.name,
                            d.hidden, d.heads));
  std::string head = chosen["head"];
  if (head == "auto") head = phase == Phase::kTrain ? "mlm" : "pooler";
  if (phase == Phase::kTrain && head != "mlm")
    throw_usage(fmt::format("head={} gives no loss to train; give head=mlm", head));

  NetworkOptions network = read_network_options(options, chosen, d.dtype, "transformers");
  network.fused_attention = chosen.is("fused_attention", "yes");
  network.dropout = chosen.is("dropout", "yes");
  Network net(d.format, d.name, network);
  const Tensor ids = net.input("input_ids", ElementType::kS32, {batch, sequence});
  const Tensor words = net.parameter("embeddings.word_embeddings.weight", {d.vocabulary, d.hidden});
  const Tensor positions =
      net.parameter("embeddings.position_embeddings.weight", {d.positions, d.hidden});
  Tensor x = net.embedding(words, ids);
  // RoBERTa's positions start after its padding index.
  const int64_t first = d.positions - longest;
  x = net.add(x, net.positions(positions, first, sequence));
  if (d.token_types > 0) {
    const Tensor types = net.input("token_type_ids", ElementType::kS32, {batch, sequence});
    const Tensor table =
        net.parameter("embeddings.token_type_embeddings.weight", {d.token_types, d.hidden});
    x = net.add(x, net.embedding(table, types));
  }
  x = net.dropout(net.layer_norm(x, "embeddings.LayerNorm", d.epsilon));
  {
    const auto in_encoder = net.scope("encoder");
    x = net.repeat("layer", d.layers, {x},
                   [&](const Tensors& in) -> Tensors { return {encoder_layer(net, in[0], d)}; })[0];
  }
  if (head != "mlm") net.output("last_hidden_state", x);
  if (head == "pooler") {
    const Tensor first_token = net.reshape(net.slice(x, 1, 0, 1), {batch, d.hidden});
    net.output("pooler_output",
               net.tanh(net.linear(first_token, "pooler.dense", d.hidden, kBiased)));
  }
  if (head == "mlm") {
    const auto in_head = net.scope("cls.predictions");
    Tensor y = net.gelu(net.linear(x, "transform.dense", d.hidden, kBiased));
    y = net.layer_norm(y, "transform.LayerNorm", d.epsilon);
    const Tensor bias = net.parameter("bias", {d.vocabulary});
    const Tensor logits = net.add(net.linear_with(y, words, WeightOrder::kOutIn), bias);
    if (phase == Phase::kTrain)
      net.minimise_cross_entropy(logits, net.input("labels", ElementType::kS32, {batch, sequence}));
    else
      net.output("logits", logits);
  }
  return net.finish();
}

namespace {

ZooModel entry(const BertDescription& description, std::string title, int64_t parameters) {
  return {.name = description.name,
          .title = std::move(title),
          .family = "bert",
          .choices = bert_choices(),
          .phases = {"forward", "prefill", "train"},
          .published_parameters = parameters,
          .source = "num_parameters() of Hugging Face's BertModel for google-bert/" +
                    description.name + "-uncased; arXiv:1810.04805",
          .build = [description](const BuildOptions& o) { return build_bert(description, o); }};
}

BertDescription large() {
  BertDescription d;
  d.name = "bert-large";
  d.hidden = 1024;
  d.layers = 24;
  d.heads = 16;
  d.intermediate = 4096;
  return d;
}

BertDescription base() {
  BertDescription d;
  d.name = "bert-base";
  return d;
}

const ZooRegistration registration(
    {entry(base(), "BERT base, uncased, 512 tokens, bf16", 109'482'240),
     entry(large(), "BERT large, uncased, 512 tokens, bf16", 335'141'888)});

}  // namespace
}  // namespace orrery
