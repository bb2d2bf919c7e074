#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "orrery/base/source.h"
#include "orrery/serving/engine/layout.h"
#include "orrery/serving/engine/ragged_grid.h"
#include "orrery/serving/step_times.h"
#include "orrery/workload/zoo/language_model.h"

namespace orrery {

/// Measured times of one model's layers on one device, in microseconds, as profilers of serving
/// engines write them (LLMServingSim's columns):
///
///   dense         layer,tokens,time_us: of every layer qkv_proj, o_proj, layernorm (twice a
///                 layer), rotary_emb, qk_norm, gate_up_proj, act_fn, down_proj; once a step
///                 embedding and final_layernorm;
///   attention     prefill_chunk,kv_prefill,n_decode,kv_decode,time_us: one prompt's chunk after
///                 kv_prefill tokens and n_decode sequences of kv_decode tokens in one launch;
///   per_sequence  layer,sequences,time_us: lm_head and sampler;
///   experts       tokens,activated_experts,time_us: of a device that has all experts.
struct StepTables {
  std::string dense_file, attention_file, per_sequence_file, experts_file;
  std::map<std::string, RaggedGrid> dense, per_sequence;
  RaggedGrid prompts;  ///< Attention of a chunk alone: chunk, context.
  RaggedGrid next;     ///< Of next tokens alone: sequences, context.
  RaggedGrid mixed;    ///< Of both: chunk, context, sequences, context; may be empty.
  RaggedGrid experts;  ///< Tokens, experts that have some; may be empty.
};

/// Each throws `kInput` with line and column.
void read_dense_times(const Source& source, StepTables& tables);
void read_attention_times(const Source& source, StepTables& tables);
void read_per_sequence_times(const Source& source, StepTables& tables);
void read_expert_times(const Source& source, StepTables& tables);
/// PREFIX_dense.csv, PREFIX_attention.csv, PREFIX_per_sequence.csv and, where the model has
/// experts, PREFIX_moe.csv.
StepTables read_step_tables(const std::string& prefix, bool experts);

/// A step's kernels on one rank from such tables, in seconds of a pipeline stage. `kInput` where
/// they lack a layer that the model has; `kUsage` for a model whose layers are not alike in their
/// attention.
class StepProfile {
 public:
  /// `compute_units`: SMs of the device.
  StepProfile(const StepTables& tables, const TransformerDescription& model,
              const ServingLayout& layout, double routing_skew, int compute_units);

  /// Sizes that layers were measured at, ascending.
  std::span<const double> sizes() const { return tokens_.first(); }

  double tokens(int64_t tokens) const;
  /// G tokens that each choose expert e with probability qₑ meet A = Σₑ 1 − (1 − qₑ)^G of them;
  /// one of n ranks has A / n and work as of G / n tokens.
  double experts(int64_t group_tokens) const;
  double head(int64_t rows) const;
  /// Attention of a step's chunks: several take as long as one after the other, or as one chunk of
  /// all their tokens q after so much context c that the work q · (c + q / 2) is theirs, whichever
  /// is less.
  double prompts(const StepShape& shape) const;
  /// … of its next tokens: as of sequences of their mean length, at least what the longest takes
  /// alone, and its end: the tables' sequences are all alike, so that no unit waits for another.
  /// Kernels that do not split a sequence (FlashAttention 2, once sequences times heads of keys
  /// and values fill 0.8 of the units) give w = sequences · heads / units of them to a unit, one
  /// after the other. The longest begins half way through, on average, and has max(1, w / 2) mean
  /// lengths behind it when the others end; the rest of it runs alone, at the tokens per second of
  /// the smallest chunk over the longest context. Beside chunks, which come last in a launch and
  /// hide that end: what the sequences add to the one chunk.
  double next(const StepShape& shape) const;

 private:
  /// What the longest takes after the others have ended.
  double end_of_longest(const StepShape& shape) const;

  RaggedGrid tokens_, head_, prompts_, next_, mixed_, experts_;
  double layers_ = 0, expert_layers_ = 0;  ///< Of a stage.
  double expert_ranks_ = 1;
  double units_per_sequence_ = 1;  ///< Heads of keys and values over units of the device.
  double alone_us_per_token_ = 0;  ///< Of one sequence that is not split.
  std::vector<double> chosen_;     ///< qₑ
};

}  // namespace orrery
