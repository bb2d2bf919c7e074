#include "orrery/api/train.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "orrery/api/json_answer.h"
#include "orrery/api/session.h"
#include "orrery/base/error.h"
#include "orrery/base/nearest.h"

namespace orrery {
namespace {

template <class Choice>
struct Named {
  std::string_view name;
  Choice value;
};

constexpr std::array<Named<TrainingPrecision>, 5> kPrecisions = {
    {{"bf16", TrainingPrecision::kBF16},
     {"fp16", TrainingPrecision::kFP16},
     {"fp8", TrainingPrecision::kFP8},
     {"mxfp8", TrainingPrecision::kMXFP8},
     {"nvfp4", TrainingPrecision::kNVFP4}}};
constexpr std::array<Named<LossKernel>, 4> kLosses = {{{"fp32", LossKernel::kWide},
                                                       {"operators", LossKernel::kOperators},
                                                       {"compiled", LossKernel::kCompiled},
                                                       {"fused", LossKernel::kFused}}};
constexpr std::array<Named<PipelineSchedule>, 3> kSchedules = {
    {{"1f1b", PipelineSchedule::kOneForwardOneBackward},
     {"gpipe", PipelineSchedule::kGpipe},
     {"zero-bubble", PipelineSchedule::kZeroBubble}}};

template <class Choices>
auto chosen(const Choices& choices, std::string_view what, const std::string& text) {
  std::vector<std::string> names;
  for (const auto& choice : choices) {
    if (choice.name == text) return choice.value;
    names.emplace_back(choice.name);
  }
  throw_usage(fmt::format("unknown {} '{}': give {}", what, text, fmt::join(names, ", ")));
}

template <class Choices, class Value>
std::string_view named(const Choices& choices, Value value) {
  for (const auto& choice : choices)
    if (choice.value == value) return choice.name;
  return "";
}

/// The strategy as it is evaluated: its sizes make up the number of devices.
Strategy resolved(const TrainRequest& request) {
  Strategy s = decided(request);
  // As a real number: the product of four sizes need not fit an integer.
  const double product =
      static_cast<double>(s.tensor) * s.pipeline * s.context * std::max(1, request.data);
  if (product > std::numeric_limits<int>::max())
    throw_infeasible(fmt::format("tp {} × pp {} × cp {} × dp {} is {:.0f} GPUs", s.tensor,
                                 s.pipeline, s.context, std::max(1, request.data), product));
  if (s.gpus == 0) s.gpus = static_cast<int>(product);
  if (request.data > 0 && s.gpus != static_cast<int>(product))
    throw_usage(fmt::format("tp {} × pp {} × cp {} × dp {} is {:.0f} GPUs, not {}", s.tensor,
                            s.pipeline, s.context, request.data, product, s.gpus));
  return s;
}

/// "3=0.5", "0-7=0.9x": from, to, how much.
struct SlowRange {
  int first = 0, last = 0;
  double share = 0;
};

SlowRange slow_range(const std::string& text, std::string_view option) {
  const auto fail = [&] {
    throw_usage(fmt::format("{} {}: expected NUMBER=SHARE or FIRST-LAST=SHARE, such as 0-7=0.9",
                            option, text));
  };
  const size_t equals = text.find('=');
  if (equals == std::string::npos) fail();
  const std::string_view where = std::string_view(text).substr(0, equals);
  std::string_view much = std::string_view(text).substr(equals + 1);
  if (much.ends_with('x')) much.remove_suffix(1);
  const size_t dash = where.find('-');
  const auto read = [&](std::string_view part, auto& value) {
    const auto [end, fault] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (fault != std::errc() || end != part.data() + part.size()) fail();
  };
  SlowRange range;
  read(where.substr(0, dash), range.first);
  range.last = range.first;
  if (dash != std::string_view::npos) read(where.substr(dash + 1), range.last);
  read(much, range.share);
  return range;
}

/// The cluster with its nodes' links into the network at a part of their bandwidth.
Cluster slowed(Cluster cluster, double share) {
  for (size_t tier = 1; tier < cluster.tiers.size(); ++tier)
    cluster.tiers[tier].bandwidth = cluster.tiers[tier].bandwidth * share;
  return cluster;
}

std::shared_ptr<const CollectivePredictor> collectives_on(const Cluster& cluster,
                                                          const std::string& data_folder) {
  return Registry<CollectiveLibrary>::instance()
      .at(default_library(cluster), "library of collectives")
      .create()
      ->bind(cluster, data_folder);
}

Stragglers stragglers_of(const TrainRequest& request, const Cluster& cluster,
                         const std::string& data_folder) {
  Stragglers found;
  for (const std::string& text : request.stragglers) {
    const SlowRange range = slow_range(text, "--straggler");
    found.ranks.push_back({range.first, range.last, range.share});
  }
  for (const std::string& text : request.slow_nodes) {
    const SlowRange range = slow_range(text, "--slow-node");
    if (!(range.share > 0 && range.share <= 1))
      throw_usage(fmt::format("--slow-node {}: give a share above 0 and at most 1", text));
    found.nodes.push_back({range.first, range.last, range.share,
                           collectives_on(slowed(cluster, range.share), data_folder)});
  }
  return found;
}

}  // namespace

Strategy decided(const TrainingQuestion& question) {
  const Strategy& asked = question.strategy;
  Strategy s = asked;
  framework(question.framework).apply(s);
  for (const std::string& name : question.given) {
    if (name == "zero") s.zero = asked.zero;
    if (name == "attention") s.fused_attention = s.fused_sinks = asked.fused_attention;
    if (name == "layers") s.eager = asked.eager;
    if (name == "overlap-tensor") s.overlap_tensor = asked.overlap_tensor;
    if (name == "overlap-experts") s.overlap_experts = asked.overlap_experts;
    if (name == "overlap-gradients") s.overlap_gradients = asked.overlap_gradients;
    if (name == "gradients") s.wide_gradients = asked.wide_gradients;
    if (name == "loss") s.loss = asked.loss;
  }
  return s;
}

double peak_of(const Device& device, TrainingPrecision precision) {
  switch (precision) {
    case TrainingPrecision::kBF16:
      return device.matrix[ElementType::kBF16].value;
    case TrainingPrecision::kFP16:
      return device.matrix[ElementType::kF16].value;
    case TrainingPrecision::kFP8:
    case TrainingPrecision::kMXFP8:
      return device.matrix[ElementType::kF8E4M3FN].value;
    case TrainingPrecision::kNVFP4:
      return device.matrix[ElementType::kF4E2M1FN].value;
  }
  return 0;
}

TrainingPrecision training_precision(const std::string& text) {
  return chosen(kPrecisions, "number format", text);
}
std::string_view name(TrainingPrecision precision) { return named(kPrecisions, precision); }
LossKernel loss_kernel(const std::string& text) { return chosen(kLosses, "loss", text); }
std::string_view name(LossKernel loss) { return named(kLosses, loss); }
PipelineSchedule pipeline_schedule(const std::string& text) {
  return chosen(kSchedules, "schedule", text);
}
std::string_view name(PipelineSchedule schedule) { return named(kSchedules, schedule); }

TrainingModel Session::training_model(const std::string& model, const std::string& cluster_name,
                                      const std::vector<Override>& overrides) const {
  const Cluster cluster = catalogue_.cluster(cluster_name, overrides);
  Binding binding;
  binding.stack = "torch-eager";
  binding.data = data_folder_;
  std::shared_ptr<const Predictor> kernels = Registry<KernelModel>::instance()
                                                 .at("auto", "kernel model")
                                                 .create()
                                                 ->bind(cluster.device, binding);
  return {load_language_model(model), cluster, std::move(kernels),
          collectives_on(cluster, data_folder_),
          load_training_constants(data_folder_, cluster.device.architecture)};
}

void require_precision(const Device& device, TrainingPrecision precision) {
  // Where there are no matrix units vector units multiply.
  if (precision == TrainingPrecision::kBF16 || peak_of(device, precision) > 0) return;
  std::vector<std::string_view> known;
  for (const auto& [text, one] : kPrecisions)
    if (peak_of(device, one) > 0) known.push_back(text);
  throw_infeasible(fmt::format("{} has no units that multiply {}; it has for: {}", device.name,
                               name(precision), fmt::join(known, ", ")));
}

TrainAnswer Session::train(const TrainRequest& request) const {
  const TrainingModel model = training_model(request.model, request.cluster, request.overrides);
  TrainAnswer answer;
  answer.strategy = resolved(request);
  const Strategy& s = answer.strategy;
  require_precision(model.cluster().device, s.precision);
  if (const auto found = faults(s, model.description()); !found.empty())
    throw_infeasible(fmt::format("{}", fmt::join(found, "; ")));
  if (s.gpus > model.cluster().largest())
    throw_infeasible(fmt::format("{} has {:.0f} devices at most, not {}", model.cluster().name,
                                 model.cluster().largest(), s.gpus));
  answer.stragglers = stragglers_of(request, model.cluster(), data_folder_);
  StepInDetail step = model.evaluate_in_detail(s, answer.stragglers);
  answer.estimate = step.estimate;
  answer.costs = std::move(step.costs);
  if (!answer.stragglers.empty()) answer.step_without = model.evaluate(s).step.value;
  answer.memory_by_stage = model.memory_by_stage(s);
  const double seconds = answer.estimate.step.value.value;
  answer.tokens_per_s_per_gpu = static_cast<double>(s.global_batch * s.length) / seconds / s.gpus;
  answer.tflops_per_gpu = answer.estimate.model_flops / seconds / s.gpus / 1e12;
  const double peak = peak_of(model.cluster().device, s.precision);
  answer.mfu = peak > 0 ? answer.tflops_per_gpu * 1e12 / peak : 0;
  answer.capacity_bytes = model.cluster().device.usable_memory.value;
  answer.fits = answer.estimate.memory.total().value <= answer.capacity_bytes;
  answer.gaps = model.gaps(s);
  if (!answer.estimate.power_gap.empty()) answer.gaps.push_back(answer.estimate.power_gap);
  answer.provenance = model.provenance();
  answer.provenance.emplace_back("framework", request.framework);
  return answer;
}

JsonAnswer strategy_json(const Strategy& s) {
  return {{"gpus", s.gpus},
          {"tp", s.tensor},
          {"pp", s.pipeline},
          {"vpp", s.chunks},
          {"cp", s.context},
          {"dp", s.data()},
          {"ep", s.expert},
          {"sp", s.sequence},
          {"micro_batch", s.micro_batch},
          {"global_batch", s.global_batch},
          {"micro_batches", s.micro_batches()},
          {"seq", s.length},
          {"dtype", name(s.precision)},
          {"plain_first", s.plain_first},
          {"plain_last", s.plain_last},
          {"mtp", s.further_tokens},
          {"recompute", recompute_in_words(s)},
          {"layers", s.eager ? "operators" : "fused"},
          {"loss", name(s.loss)},
          {"weights", s.narrow_weights ? "fp8" : "bf16"},
          {"moments", s.narrow_moments ? "bf16" : "fp32"},
          {"gradients", s.wide_gradients ? "fp32" : "bf16"},
          {"attention", s.fused_attention ? "fused" : "unfused"},
          {"overlap_tensor", s.overlap_tensor},
          {"overlap_gradients", s.overlap_gradients},
          {"overlap_experts", s.overlap_experts},
          {"dispatch", s.once_a_node ? "by-node" : "all-to-all"},
          {"fused_router", s.fused_router},
          {"graphs", s.graphs},
          {"schedule", name(s.schedule)},
          {"zero", s.zero}};
}

JsonAnswer breakdown_json(const StepEstimate& e) {
  return {{"compute", e.compute().value},
          {"exposed_communication", e.exposed_communication().value},
          {"bubble", e.bubble.value},
          {"optimizer", e.optimizer.value},
          {"gaps", e.gaps.value}};
}

std::string to_json(const TrainAnswer& a, const TrainRequest& request) {
  const StepEstimate& e = a.estimate;
  const Strategy& s = a.strategy;
  JsonAnswer json;
  json["schema"] = schema("train");
  json["model"] = request.model;
  json["cluster"] = request.cluster;
  json["framework"] = request.framework;
  json["strategy"] = strategy_json(s);
  json["step_s"] = e.step.value.value;
  json["step_low_s"] = e.step.low.value;
  json["step_high_s"] = e.step.high.value;
  if (!a.stragglers.empty()) {
    JsonAnswer& slow = json["stragglers"];
    slow["ranks"] = JsonAnswer::array();
    for (const SlowRanks& r : a.stragglers.ranks)
      slow["ranks"].push_back({{"first", r.first}, {"last", r.last}, {"speed", r.speed}});
    slow["nodes"] = JsonAnswer::array();
    for (const SlowNodes& n : a.stragglers.nodes)
      slow["nodes"].push_back({{"first", n.first}, {"last", n.last}, {"bandwidth", n.share}});
    slow["step_without_s"] = a.step_without.value;
    slow["cost_s"] = (e.step.value - a.step_without).value;
  }
  json["tokens_per_s_per_gpu"] = a.tokens_per_s_per_gpu;
  json["tflops_per_gpu"] = a.tflops_per_gpu;
  json["mfu"] = a.mfu;
  json["model_flops"] = e.model_flops;
  json["parameters"] = e.parameters;
  json["energy_j"] = e.energy.value;
  json["clock_mhz"] = e.clock.value / 1e6;
  json["breakdown"] = breakdown_json(e);
  json["compute"] = {
      {"forward", e.forward.value}, {"backward", e.backward.value}, {"recomputed", e.again.value}};
  JsonAnswer communication;
  for (size_t i = 0; i < kTrafficCauseCount; ++i)
    communication[std::string(name(static_cast<TrafficCause>(i)))] = {
        {"total", e.traffic[i].value}, {"exposed", e.exposed[i].value}};
  json["communication"] = std::move(communication);
  JsonAnswer by_stage = JsonAnswer::array();
  for (const RankMemory& stage : a.memory_by_stage) by_stage.push_back(stage.total().value);
  json["memory"] = {{"total_bytes", e.memory.total().value},
                    {"weights_bytes", e.memory.weights.value},
                    {"gradients_bytes", e.memory.gradients.value},
                    {"optimizer_bytes", e.memory.optimizer.value},
                    {"activations_bytes", e.memory.activations.value},
                    {"working_bytes", e.memory.working.value},
                    {"other_bytes", e.memory.other.value},
                    {"by_stage_bytes", by_stage},
                    {"capacity_bytes", a.capacity_bytes},
                    {"fits", a.fits}};
  json["gaps"] = a.gaps;
  JsonAnswer provenance = JsonAnswer::object();
  for (const auto& [key, value] : a.provenance) provenance[key] = value;
  json["provenance"] = std::move(provenance);
  return write(json);
}

}  // namespace orrery
