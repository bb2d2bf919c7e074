#pragma once

#include <string>
#include <utility>
#include <vector>

#include "orrery/cluster/training/step.h"
#include "orrery/cluster/training/strategy.h"
#include "orrery/hardware/catalogue.h"

namespace orrery {

/// What is trained and on what, of every question about training.
struct TrainingQuestion {
  std::string model;    ///< A name of the zoo, or a Hugging Face config.json.
  std::string cluster;  ///< A catalogue name, or a YAML file.
  std::vector<Override> overrides;
  std::string framework = "megatron-core";
  Strategy strategy;
  /// Of the strategy, what was asked for in so many words and stays whatever the framework does.
  std::vector<std::string> given;
};

/// The strategy with what its framework decides, save what was asked for.
Strategy decided(const TrainingQuestion& question);

/// A training step that is asked for. Sizes that are 0 take what follows from the others.
struct TrainRequest : TrainingQuestion {
  int data = 0;  ///< Data-parallel ranks; where given, GPUs must come out as the product.
  std::vector<std::string> stragglers;  ///< Devices at a part of their speed: "12=0.8", "0-7=0.9".
  std::vector<std::string> slow_nodes;  ///< Nodes with a part of the network's bandwidth: "3=0.5".
};

struct TrainAnswer {
  StepEstimate estimate;
  StepCosts costs;    ///< What its timeline is drawn from.
  Strategy strategy;  ///< As evaluated.
  Stragglers stragglers;
  Seconds step_without;  ///< … them, where there are any.
  std::vector<RankMemory> memory_by_stage;
  double tokens_per_s_per_gpu = 0;
  double tflops_per_gpu = 0;  ///< Of the model, recomputation left out.
  double mfu = 0;             ///< … over the peak of the linear layers' number format.
  double capacity_bytes = 0;
  bool fits = true;
  std::vector<std::string> gaps;
  std::vector<std::pair<std::string, std::string>> provenance;
};

/// "bf16", "fp16", "fp8", "mxfp8", "nvfp4"; `kUsage` for others.
TrainingPrecision training_precision(const std::string& text);
std::string_view name(TrainingPrecision precision);
LossKernel loss_kernel(const std::string& text);
std::string_view name(LossKernel loss);
PipelineSchedule pipeline_schedule(const std::string& text);
std::string_view name(PipelineSchedule schedule);

/// The device's rate in the number format of the linear layers.
double peak_of(const Device& device, TrainingPrecision precision);
/// `kInfeasible` where the device has no units for the format, with those that it has.
void require_precision(const Device& device, TrainingPrecision precision);

std::string to_json(const TrainAnswer& answer, const TrainRequest& request);

}  // namespace orrery
