#pragma once

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "orrery/cluster/collective.h"
#include "orrery/cluster/training/rank_work.h"
#include "orrery/cluster/training/step_costs.h"
#include "orrery/cluster/training/stragglers.h"
#include "orrery/cluster/training/strategy.h"
#include "orrery/kernel/kernel_model.h"

namespace orrery {

/// What a rank's memory holds, of the rank that holds most.
struct RankMemory {
  Bytes weights, gradients, optimizer, activations, working, other;
  Bytes total() const { return weights + gradients + optimizer + activations + working + other; }
};

/// One training step as a strategy runs it; times are those of the slowest stage, and add up.
struct StepEstimate {
  TimeInterval step;
  Seconds forward, backward, again;  ///< Kernels of the slowest stage, all micro-batches.
  std::array<Seconds, kTrafficCauseCount> exposed{};  ///< Traffic that nothing hides, by cause.
  std::array<Seconds, kTrafficCauseCount> traffic{};  ///< … all of it.
  Seconds bubble;                                     ///< A stage that waits for others.
  Seconds optimizer;
  Seconds gaps;           ///< Between kernels, and where the host is late.
  Joules energy;          ///< Of all devices.
  Hertz clock;            ///< Where the slowest device settles; 0: not known.
  std::string power_gap;  ///< That it draws more than its limit, as a sentence; empty: it does not.
  double model_flops = 0;  ///< Of the step, recomputation left out.
  RankMemory memory;
  double parameters = 0;  ///< Of the model.

  Seconds compute() const { return forward + backward + again; }
  Seconds exposed_communication() const;
};

/// The estimate, and what its timeline is drawn from.
struct StepInDetail {
  StepEstimate estimate;
  StepCosts costs;
};

/// Evaluates strategies for one model on one cluster. Thread-safe.
///
/// A stage i of p takes fᵢ and bᵢ for a micro-batch's passes, exposed traffic included. With m
/// micro-batches and v chunks a stage, 1F1B takes
///   T = m·max(fᵢ + bᵢ) + (Σᵢ (fᵢ + bᵢ) − max(fᵢ + bᵢ)) / v
/// (Narayanan et al. 2021, eq. 2, for unequal stages), GPipe the same; ZB-H1 takes
/// f + b − 2·w instead of f + b where a stage waits, w being its weight gradients (Qi et al.
/// 2024). Traffic of data ranks that hides behind the last micro-batch's backward pass costs
/// what sticks out, one bucket at least.
///
/// Of pipelines with stragglers the slowest counts, since data ranks wait for each other: its
/// stages' kernels are stretched, its traffic takes what it takes on a network with slow links.
class TrainingModel {
 public:
  TrainingModel(TransformerDescription model, Cluster cluster,
                std::shared_ptr<const Predictor> kernels,
                std::shared_ptr<const CollectivePredictor> collectives,
                TrainingConstants constants);

  /// Of a strategy without `faults`.
  StepEstimate evaluate(const Strategy& strategy, const Stragglers& stragglers = {}) const;
  StepInDetail evaluate_in_detail(const Strategy& strategy, const Stragglers& stragglers) const;
  /// Memory alone, in a tenth of the time.
  RankMemory memory(const Strategy& strategy) const;
  /// … of each stage's ranks.
  std::vector<RankMemory> memory_by_stage(const Strategy& strategy) const;
  /// What the answer leaves out.
  std::vector<std::string> gaps(const Strategy& strategy) const;

  /// What its answers rest on, by name.
  std::vector<std::pair<std::string, std::string>> provenance() const;

  const TransformerDescription& description() const { return model_; }
  const Cluster& cluster() const { return cluster_; }

 private:
  struct Parts;
  class Evaluation;
  Parts parts_of(const Strategy& strategy, std::vector<std::string>& gaps) const;
  std::vector<RankMemory> memory_of(const Parts& parts, const Strategy& strategy) const;

  TransformerDescription model_;
  std::vector<Layer> kinds_;  ///< Distinct layers.
  std::vector<int> kind_of_;  ///< Of each layer of the model.
  Cluster cluster_;
  std::shared_ptr<const Predictor> kernels_;
  std::shared_ptr<const CollectivePredictor> collectives_;
  TrainingConstants constants_;
};

}  // namespace orrery
