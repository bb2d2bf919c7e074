#include "orrery/api/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "orrery/api/json_answer.h"
#include "orrery/api/session.h"
#include "orrery/base/error.h"
#include "orrery/base/units.h"

namespace orrery {

PlanAnswer Session::plan(const PlanRequest& request) const {
  if (request.gpus.empty()) throw_usage("plan needs a number of GPUs");
  const TrainingModel model = training_model(request.model, request.cluster, request.overrides);
  PlanQuestion question;
  question.fixed = decided(request);
  // As the help says.
  if (std::ranges::find(request.given, "overlap-tensor") == request.given.end())
    question.fixed.overlap_tensor = true;
  for (const int gpus : request.gpus) {
    if (gpus > model.cluster().largest())
      throw_infeasible(fmt::format("{} has {:.0f} devices at most, not {}", model.cluster().name,
                                   model.cluster().largest(), gpus));
    question.gpus.push_back(gpus);
  }
  require_precision(model.cluster().device, question.fixed.precision);
  PlanAnswer answer;
  answer.capacity_bytes = model.cluster().device.usable_memory.value;
  answer.peak_flops = peak_of(model.cluster().device, question.fixed.precision);
  answer.plan = make_plan(model, question);
  const Plan& plan = answer.plan;
  if (plan.considered == 0)
    throw_infeasible(
        fmt::format("no strategy divides {} GPUs and {} sequences: change --gpus or "
                    "--global-batch to have common factors",
                    request.gpus.front(), request.strategy.global_batch));
  if (plan.layouts.empty())
    throw_infeasible(fmt::format(
        "{} does not fit: of {} strategies the smallest ({}) needs {} of {} a GPU; give "
        "more GPUs, a shorter --seq or GPUs with more memory",
        request.model, plan.considered, in_words(plan.smallest), format_bytes(plan.least_bytes),
        format_bytes(answer.capacity_bytes)));
  answer.gaps = model.gaps(plan.layouts.front().strategy);
  return answer;
}

namespace {

JsonAnswer step_json(const PlannedStep& step, double peak) {
  const Strategy& s = step.strategy;
  const StepEstimate& e = step.estimate;
  const double seconds = e.step.value.value;
  const double rate = e.model_flops / seconds / s.gpus;
  return {
      {"strategy", strategy_json(s)},
      {"step_s", seconds},
      {"step_low_s", e.step.low.value},
      {"step_high_s", e.step.high.value},
      {"tokens_per_s_per_gpu", static_cast<double>(s.global_batch * s.length) / seconds / s.gpus},
      {"tflops_per_gpu", rate / 1e12},
      {"mfu", peak > 0 ? rate / peak : 0},
      {"memory_bytes", e.memory.total().value},
      {"breakdown", breakdown_json(e)}};
}

}  // namespace

std::string to_json(const PlanAnswer& a, const PlanRequest& request) {
  JsonAnswer json;
  json["schema"] = schema("plan");
  json["model"] = request.model;
  json["cluster"] = request.cluster;
  json["framework"] = request.framework;
  json["considered"] = a.plan.considered;
  json["too_large"] = a.plan.too_large;
  json["capacity_bytes"] = a.capacity_bytes;
  JsonAnswer best = JsonAnswer::array();
  for (size_t i = 0; i < std::min(request.most, a.plan.layouts.size()); ++i) {
    best.push_back(step_json(a.plan.layouts[i], a.peak_flops));
    best.back()["why"] = i == 0 ? "" : why_slower(a.plan.layouts[i], a.plan.layouts[0]);
  }
  json["best"] = std::move(best);
  JsonAnswer front = JsonAnswer::array();
  for (const PlannedStep& step : a.plan.front) front.push_back(step_json(step, a.peak_flops));
  json["front"] = std::move(front);
  json["gaps"] = a.gaps;
  return write(json);
}

}  // namespace orrery
