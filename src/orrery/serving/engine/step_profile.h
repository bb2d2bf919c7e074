#pragma once

#include <array>
#include <span>
#include <vector>

#include "orrery/serving/engine/layout.h"
#include "orrery/serving/engine/ragged_grid.h"
#include "orrery/serving/engine/step_tables.h"
#include "orrery/serving/step_times.h"
#include "orrery/workload/zoo/language_model.h"

namespace orrery {

/// A step's kernels on one rank from such tables, in seconds of a pipeline stage: those that the
/// tables time (`has`); the others are left to a kernel model. `kUsage` for a model whose layers
/// are not alike in their attention.
class StepProfile {
 public:
  /// `compute_units`: SMs of the device; `counts_ends`: the embedding and the last layer too.
  StepProfile(const StepTables& tables, const TransformerDescription& model,
              const ServingLayout& layout, double routing_skew, int compute_units,
              bool counts_ends = true);

  bool has(EngineOperator what) const { return has_[static_cast<size_t>(what)]; }
  /// Sizes that layers were measured at, ascending.
  std::span<const double> sizes() const;

  double tokens(int64_t tokens) const;
  /// G tokens that each choose expert e with probability qₑ meet A = Σₑ 1 − (1 − qₑ)^G of them;
  /// one of n ranks has A / n and work as of G / n tokens. Tables of one rank's experts are asked
  /// for G alone.
  double experts(int64_t group_tokens) const;
  double head(int64_t rows) const;
  /// Attention of a step's chunks: several take as long as one after the other, or as one chunk of
  /// all their tokens q after so much context c that the work q · (c + q / 2) is theirs, whichever
  /// is less.
  double prompts(const StepShape& shape) const;
  /// … of its next tokens: as of sequences of their mean length, at least what the longest takes
  /// alone, and its end: the tables' sequences are all alike, so that no unit waits for another.
  /// Kernels that do not split a sequence (FlashAttention 2, once sequences times heads of keys
  /// and values fill 0.8 of two places a unit) run w = sequences · heads / (2 · units) of them one
  /// after the other in each place. Who begins with the first share what others leave
  /// and end with them; the longest is not among those with probability 1 - 1 / w. It then begins
  /// half way through, on average, and has w / 2 mean lengths behind it when the others end; the
  /// rest of it runs alone, at the tokens per second of the smallest chunk over the longest
  /// context. Beside chunks, which come last in a launch and hide that end: what the sequences add
  /// to the one chunk.
  double next(const StepShape& shape) const;

 private:
  void set_has(EngineOperator what) { has_[static_cast<size_t>(what)] = true; }
  /// What the longest takes after the others have ended.
  double end_of_longest(const StepShape& shape) const;

  RaggedGrid tokens_, head_, prompts_, next_, mixed_, experts_;
  std::array<bool, kEngineOperatorCount> has_{};
  double layers_ = 0, expert_layers_ = 0;  ///< Of a stage.
  double expert_ranks_ = 1;                ///< That a device's table is divided by.
  double units_per_sequence_ = 1;          ///< Heads of keys and values over units of the device.
  double alone_us_per_token_ = 0;          ///< Of one sequence that is not split.
  std::vector<double> chosen_;             ///< qₑ
};

}  // namespace orrery
