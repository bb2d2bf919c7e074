#pragma once

#include <map>
#include <string>
#include <vector>

#include "orrery/base/source.h"
#include "orrery/cluster/collective.h"
#include "orrery/serving/engine/engine_work.h"
#include "orrery/serving/engine/layout.h"
#include "orrery/serving/engine/ragged_grid.h"
#include "orrery/workload/zoo/language_model.h"

namespace orrery {

/// Times of one kind of collective between so many devices, so many of a node: by bytes.
struct CollectiveTimes {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int64_t workers = 2, per_node = 2;
  RaggedGrid bytes;
  std::string file;
};

/// Measured times of one model's operators on one device, in microseconds, of one rank.
struct StepTables {
  std::map<EngineOperator, RaggedGrid> operators;  ///< Of each run, by tokens; of kHead and
                                                   ///< kSampler by sequences.
  RaggedGrid prompts;                              ///< Attention of a chunk alone: chunk, context.
  RaggedGrid next;                                 ///< Of next tokens alone: sequences, context.
  RaggedGrid mixed;               ///< Of both: chunk, context, sequences, context; may be empty.
  bool attention_writes = false;  ///< Its times hold the writing of keys and values.
  RaggedGrid experts;             ///< Tokens, experts that have some; may be empty.
  bool experts_of_rank = false;   ///< Of one rank for all ranks' tokens; false: of a device that
                                  ///< has all experts, for its own.
  bool experts_route = false;     ///< Its times hold the routing.
  std::vector<CollectiveTimes> collectives;
};

/// What tables are taken for: those that state sizes must state these.
struct ProfiledEngine {
  const TransformerDescription& model;
  const ServingLayout& layout;
};

/// Tables that profilers of serving engines write, known by their columns. LLMServingSim's, times
/// in microseconds:
///
///   layers        layer,tokens,time_us: of every layer qkv_proj, o_proj, layernorm (twice a
///                 layer), rotary_emb, qk_norm, gate_up_proj, act_fn, down_proj; once a step
///                 embedding and final_layernorm;
///   attention     prefill_chunk,kv_prefill,n_decode,kv_decode,time_us: one prompt's chunk after
///                 kv_prefill tokens and n_decode sequences of kv_decode tokens in one launch;
///   per sequence  layer,sequences,time_us: lm_head and sampler;
///   experts       tokens,activated_experts,time_us: of a device that has all experts.
///
/// VIDUR's and Frontier's, medians `time_stats.OPERATOR.median` in milliseconds, with the sizes of
/// the model and `num_tensor_parallel_workers`; rows of other numbers of ranks are passed over:
///
///   mlp           num_tokens; emb, input_layernorm, post_attention_layernorm, attn_pre_proj,
///                 attn_rope, attn_post_proj, mlp_up_proj, mlp_act, mlp_down_proj, add. A layer
///                 adds its residual twice: VIDUR's norms leave it out and it counts one;
///   attention     is_prefill, batch_size, prefill_chunk_size, kv_cache_size; attn_prefill,
///                 attn_decode, attn_kv_cache_save, attn_input_reshape, attn_output_reshape;
///   moe           num_tokens; moe_gating, moe_shuffling, moe_grouped_gemm; its products of single
///                 experts are not used;
///   network       size in bytes, num_workers, devices_per_node, collective; all_reduce, send_recv.
///
/// Rows of the same sizes are averaged there, unless they differ by more than a factor of two and
/// ten microseconds. `kInput` with line and column for a table of neither kind, sizes of another
/// model, and times of an operator that another table has as well; `kInfeasible` where no row is of
/// the layout's ranks.
void read_step_table(const Source& source, const ProfiledEngine& engine, StepTables& tables);
/// Of each path: a table, a folder of tables (all of its .csv), or PREFIX of PREFIX_dense.csv,
/// PREFIX_attention.csv, PREFIX_per_sequence.csv and, where the model has experts, PREFIX_moe.csv.
StepTables read_step_tables(const std::vector<std::string>& paths, const ProfiledEngine& engine);

}  // namespace orrery
