// Encoders and encoder-decoders, handed to the zoo's own builders.

#include <fmt/format.h>

#include "orrery/workload/readers/huggingface/families.h"

namespace orrery::huggingface {
namespace {

ElementType read_type(const Config& config) {
  const std::string name = config.text_or({"torch_dtype", "dtype"}, "bfloat16");
  if (name.ends_with("float32")) return ElementType::kF32;
  return name.ends_with("bfloat16")  ? ElementType::kBF16
         : name.ends_with("float16") ? ElementType::kF16
                                     : ElementType::kBF16;
}

int64_t layers_within(const Config& c, std::string_view name, int64_t otherwise) {
  const int64_t layers = c.size_or({name}, otherwise);
  if (layers > kMaxLayers)
    c.fail(name,
           fmt::format("{} layers are more than the {} that can be meant", layers, kMaxLayers));
  return layers;
}

void check_heads(const Config& c, int64_t hidden, int64_t heads) {
  if (hidden % heads != 0)
    c.fail("num_attention_heads",
           fmt::format("hidden size {} does not divide into {} heads", hidden, heads));
}

}  // namespace

BertDescription describe_bert(const Reading& reading) {
  const Config& c = reading.text;
  BertDescription d;
  d.name = reading.type;
  d.format = "huggingface";
  d.vocabulary = c.size({"vocab_size"});
  d.positions = c.size_or({"max_position_embeddings"}, 512);
  // RoBERTa counts positions from 2: the padding token's index and one.
  if (reading.type != "bert") {
    if (d.positions <= 2)
      c.fail("max_position_embeddings", "RoBERTa's position table has more than 2 rows");
    d.longest_sequence = d.positions - 2;
  }
  d.token_types = c.size_or({"type_vocab_size"}, 2);
  d.hidden = c.size({"hidden_size"});
  d.layers = layers_within(c, "num_hidden_layers", 12);
  d.heads = c.size({"num_attention_heads"});
  check_heads(c, d.hidden, d.heads);
  d.intermediate = c.size({"intermediate_size"});
  d.epsilon = c.real_or({"layer_norm_eps"}, 1e-12);
  d.dtype = read_type(c);
  const Activation activation = read_activation(c, "gelu");
  if (activation != Activation::kGelu && activation != Activation::kGeluWrittenOut)
    c.fail("hidden_act",
           fmt::format("activations other than GELU are not supported in '{}'", reading.type));
  const std::string positions = c.text_or({"position_embedding_type"}, "absolute");
  if (positions != "absolute")
    c.fail("position_embedding_type",
           fmt::format("positions of type '{}' are not supported", positions));
  if (c.flag_or({"is_decoder"}, false) || c.flag_or({"add_cross_attention"}, false))
    c.fail("is_decoder", fmt::format("'{}' as a decoder is not supported", reading.type));
  return d;
}

VitDescription describe_vit(const Reading& reading) {
  const Config& c = reading.text;
  VitDescription d;
  d.name = reading.type;
  d.format = "huggingface";
  d.image = c.size_or({"image_size"}, 224);
  d.patch = c.size_or({"patch_size"}, 16);
  d.channels = c.size_or({"num_channels"}, 3);
  if (d.image % d.patch != 0)
    c.fail("patch_size",
           fmt::format("images of {} pixels do not divide into patches of {}", d.image, d.patch));
  d.hidden = c.size_or({"hidden_size"}, 768);
  d.layers = layers_within(c, "num_hidden_layers", 12);
  d.heads = c.size_or({"num_attention_heads"}, 12);
  check_heads(c, d.hidden, d.heads);
  d.intermediate = c.size_or({"intermediate_size"}, 3072);
  d.query_key_value_bias = c.flag_or({"qkv_bias"}, true);
  d.epsilon = c.real_or({"layer_norm_eps"}, 1e-12);
  d.dtype = read_type(c);
  d.classes = 0;
  for (const std::string& architecture : c.texts({"architectures"}))
    if (architecture == "ViTForImageClassification") {
      const auto labels = c.object("id2label");
      // PretrainedConfig's default where the labels are not listed.
      d.classes =
          labels ? static_cast<int64_t>(labels->names().size()) : c.size_or({"num_labels"}, 2);
    }
  return d;
}

T5Description describe_t5(const Reading& reading) {
  const Config& c = reading.text;
  T5Description d;
  d.name = reading.type;
  d.format = "huggingface";
  d.vocabulary = c.size({"vocab_size"});
  d.hidden = c.size({"d_model"});
  d.head_size = c.size({"d_kv"});
  d.intermediate = c.size({"d_ff"});
  d.encoder_layers = layers_within(c, "num_layers", 6);
  d.decoder_layers = layers_within(c, "num_decoder_layers", d.encoder_layers);
  d.heads = c.size({"num_heads"});
  d.relative_buckets = c.size_or({"relative_attention_num_buckets"}, 32);
  if (reading.type == "switch_transformers") {
    // SwitchTransformersConfig: the layers that have experts are spread evenly.
    d.experts = c.size({"num_experts"});
    d.expert_capacity = c.size_or({"expert_capacity"}, 64);
    const auto step = [&](const char* name, int64_t layers) {
      const int64_t sparse = c.count_or({name}, 3);
      if (sparse > layers)
        c.fail(name, fmt::format("of {} layers, {} cannot have experts", layers, sparse));
      return sparse == 0 ? int64_t{0} : layers / sparse;
    };
    d.encoder_sparse_step = step("num_sparse_encoder_layers", d.encoder_layers);
    d.decoder_sparse_step = step("num_sparse_decoder_layers", d.decoder_layers);
  }
  const std::string projection = c.text_or({"feed_forward_proj"}, "relu");
  if (projection != "relu" && projection != "gated-gelu")
    c.fail("feed_forward_proj",
           fmt::format("a feed-forward of kind '{}' is not supported", projection));
  d.gated = projection == "gated-gelu";
  d.tied = reading.tied(true);
  d.epsilon = c.real_or({"layer_norm_epsilon"}, 1e-6);
  d.dtype = read_type(c);
  return d;
}

}  // namespace orrery::huggingface
