#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "orrery/workload/reader.h"
#include "orrery/workload/workload.h"
#include "orrery/workload/zoo/zoo.h"

namespace orrery {

/// BERT and RoBERTa: an encoder with learned positions, normalised after each block.
struct BertDescription {
  std::string name = "bert";
  std::string format = "zoo";  ///< Who describes it, as in `Workload::format`.
  int64_t vocabulary = 30522;
  int64_t positions = 512;  ///< Rows of the position table.
  /// The longest sequence allowed; RoBERTa's table has two rows more than that. 0: `positions`.
  int64_t longest_sequence = 0;
  int64_t token_types = 2;
  int64_t hidden = 768;
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t intermediate = 3072;
  double epsilon = 1e-12;
  ElementType dtype = ElementType::kBF16;  ///< Unless BuildOptions says otherwise.
};
/// head=auto|none|pooler|mlm|classifier (auto: pooler forward, mlm in training),
/// attention=fused|unfused.
std::vector<Choice> bert_choices();
Workload build_bert(const BertDescription& description, const BuildOptions& options);

/// The Vision Transformer: patches, a class token, pre-normalised blocks.
struct VitDescription {
  std::string name = "vit";
  std::string format = "zoo";
  int64_t image = 224;  ///< Height and width in pixels.
  int64_t patch = 16;
  int64_t channels = 3;
  int64_t hidden = 768;
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t intermediate = 3072;
  int64_t classes = 1000;  ///< 0: no classifier.
  bool query_key_value_bias = true;
  double epsilon = 1e-6;
  ElementType dtype = ElementType::kBF16;
};
/// fused_attention=yes|no.
std::vector<Choice> vit_choices();
Workload build_vit(const VitDescription& description, const BuildOptions& options);

/// T5 and its kin: encoder and decoder with relative positions and RMS norms.
struct T5Description {
  std::string name = "t5";
  std::string format = "zoo";
  int64_t vocabulary = 32128;
  int64_t hidden = 512;         ///< d_model
  int64_t head_size = 64;       ///< d_kv
  int64_t intermediate = 2048;  ///< d_ff
  int64_t encoder_layers = 6;
  int64_t decoder_layers = 6;
  int64_t heads = 8;
  int64_t relative_buckets = 32;
  bool gated = false;  ///< v1.1 and Flan: two up-projections, gated by GELU.
  bool tied = true;    ///< The output matrix is the embedding.
  double epsilon = 1e-6;
  ElementType dtype = ElementType::kBF16;
  /// Switch Transformers: layers whose feed-forward is one of so many experts, each of which takes
  /// no more than `expert_capacity` tokens of a sequence; the rest pass it by. 0: none.
  int64_t experts = 0;
  int64_t expert_capacity = 64;
  /// Of so many layers in a row the second has experts; 1: all have, 0: none.
  int64_t encoder_sparse_step = 0;
  int64_t decoder_sparse_step = 0;
};
/// BuildOptions::sequence: tokens of the encoder and (forward, train) of the decoder.
/// Decode: `sequence` new tokens a step after `context` decoded ones, over an encoder
/// output of choice encoder_length= (its keys and values cached).
/// logits=all|last, attention=causal|full (what a causal score matrix counts),
/// fused_attention=yes|no.
std::vector<Choice> t5_choices();
Workload build_t5(const T5Description& description, const BuildOptions& options);

}  // namespace orrery
