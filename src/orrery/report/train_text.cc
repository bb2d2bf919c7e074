#include "orrery/report/train_text.h"

#include <fmt/format.h>

#include "orrery/base/units.h"
#include "orrery/report/table.h"
#include "orrery/report/text.h"

namespace orrery {

std::string stragglers_text(const TrainAnswer& a) {
  const double step = a.estimate.step.value.value, without = a.step_without.value;
  return fmt::format("cost {}, {:.1f} %: without them {}", format_seconds(step - without),
                     100 * (step / without - 1), format_seconds(without));
}

std::string train_text(const TrainAnswer& a, const TrainRequest& request) {
  const StepEstimate& e = a.estimate;
  const Strategy& s = a.strategy;
  std::string text =
      fmt::format("{} on {} × {} ({})\n\n", request.model, s.gpus, request.cluster, in_words(s));
  const auto line = [&](const char* what, const std::string& value) {
    text += fmt::format("  {:<13}{}\n", what, value);
  };
  line("step time",
       fmt::format("{}   (90 % within {} … {})", format_seconds(e.step.value.value),
                   format_seconds(e.step.low.value), format_seconds(e.step.high.value)));
  if (!a.stragglers.empty()) line("stragglers", stragglers_text(a));
  line("throughput", fmt::format("{:.0f} tokens a second and GPU, {:.0f} TFLOP/s of the model, MFU "
                                 "{:.1f} %",
                                 a.tokens_per_s_per_gpu, a.tflops_per_gpu, 100 * a.mfu));
  line("batch", fmt::format("{} sequences of {} tokens: {} micro-batches of {}", s.global_batch,
                            s.length, s.micro_batches(), s.micro_batch));
  line("energy", fmt::format("{} a step, {} a GPU{}", format_joules(e.energy.value),
                             format_si(e.energy.value / e.step.value.value / s.gpus, "W"),
                             e.clock.value > 0 ? fmt::format(", at {:.0f} MHz", e.clock.value / 1e6)
                                               : std::string()));
  line("memory", fmt::format("{} of {} a GPU: {}", format_bytes(e.memory.total().value),
                             format_bytes(a.capacity_bytes), a.fits ? "fits" : "DOES NOT FIT"));
  line("",
       fmt::format("weights {}, gradients {}, optimiser {}, activations {}, working {}, other {}",
                   format_bytes(e.memory.weights.value), format_bytes(e.memory.gradients.value),
                   format_bytes(e.memory.optimizer.value), format_bytes(e.memory.activations.value),
                   format_bytes(e.memory.working.value), format_bytes(e.memory.other.value)));

  text += "\nWhere the time goes, on the slowest stage\n";
  Table table({{"", Table::Align::kLeft},
               {"time", Table::Align::kRight},
               {"share", Table::Align::kRight},
               {"hidden", Table::Align::kRight}});
  const double step = e.step.value.value;
  const auto row = [&](const std::string& what, Seconds time, const std::string& hidden = "") {
    if (time.value <= 0 && hidden.empty()) return;
    table.add({what, format_seconds(time.value), fmt::format("{:.1f} %", 100 * time.value / step),
               hidden});
  };
  row("forward", e.forward);
  row("backward", e.backward);
  row("computed again", e.again);
  for (size_t i = 0; i < kTrafficCauseCount; ++i) {
    const Seconds hidden = e.traffic[i] - e.exposed[i];
    if (e.traffic[i].value <= 0) continue;
    row(fmt::format("traffic: {}", name(static_cast<TrafficCause>(i))), e.exposed[i],
        hidden.value > 0 ? format_seconds(hidden.value) : "–");
  }
  row("waiting for other stages", e.bubble);
  row("optimiser", e.optimizer);
  row("between kernels", e.gaps);
  text += table.text(2);
  text += list_text("Not modelled", a.gaps);
  return text;
}

namespace {

std::vector<std::string> plan_row(const PlannedStep& step, double peak) {
  const Strategy& s = step.strategy;
  const StepEstimate& e = step.estimate;
  const double seconds = e.step.value.value;
  const double rate = e.model_flops / seconds / s.gpus;
  std::string variant = fmt::format("micro-batch {}", s.micro_batch);
  if (s.chunks > 1) variant += fmt::format(", vpp {}", s.chunks);
  if (s.zero > 0) variant += fmt::format(", zero {}", s.zero);
  if (s.recompute != Recompute::kNone)
    variant += fmt::format(", {} recompute", recompute_in_words(s));
  return {fmt::format("{}", s.gpus),
          fmt::format("{}", s.tensor),
          fmt::format("{}", s.pipeline),
          fmt::format("{}", s.context),
          fmt::format("{}", s.data()),
          fmt::format("{}", s.expert),
          variant,
          format_seconds(seconds),
          fmt::format("{:.0f}", rate / 1e12),
          peak > 0 ? fmt::format("{:.1f} %", 100 * rate / peak) : "–",
          format_bytes(e.memory.total().value)};
}

Table plan_table() {
  constexpr auto kRight = Table::Align::kRight;
  return Table({{"GPUs", kRight},
                {"tp", kRight},
                {"pp", kRight},
                {"cp", kRight},
                {"dp", kRight},
                {"ep", kRight},
                {"variant", Table::Align::kLeft},
                {"step", kRight},
                {"TFLOP/s", kRight},
                {"MFU", kRight},
                {"memory", kRight}});
}

}  // namespace

std::string plan_text(const PlanAnswer& a, const PlanRequest& request) {
  const Plan& plan = a.plan;
  const Strategy& first = plan.layouts.front().strategy;
  std::string text = fmt::format("{} on {}: {} sequences of {} tokens\n\n", request.model,
                                 request.cluster, first.global_batch, first.length);
  Table best = plan_table();
  const size_t shown = std::min(request.most, plan.layouts.size());
  for (size_t i = 0; i < shown; ++i) best.add(plan_row(plan.layouts[i], a.peak_flops));
  text += best.text(2);
  if (shown > 1) text += "\nWhy the others lose\n";
  for (size_t i = 1; i < shown; ++i)
    text += hanging(fmt::format("  {}. ", i + 1), why_slower(plan.layouts[i], plan.layouts[0]));
  Table front = plan_table();
  const size_t listed = std::min(2 * request.most, plan.front.size());
  for (size_t i = 0; i < listed; ++i) front.add(plan_row(plan.front[i], a.peak_flops));
  text += "\nNothing is better than these in time, memory and GPUs at once\n" + front.text(2);
  if (listed < plan.front.size())
    text += fmt::format("  … and {} more, slower and smaller (--top lists more, --json all)\n",
                        plan.front.size() - listed);
  text += fmt::format("\n{} strategies looked at, {} of them do not fit into {} a GPU.\n",
                      plan.considered, plan.too_large, format_bytes(a.capacity_bytes));
  text += list_text("Not modelled", a.gaps);
  return text;
}

}  // namespace orrery
