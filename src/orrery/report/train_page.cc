#include "orrery/report/train_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "orrery/base/units.h"
#include "orrery/cluster/training/step_timeline.h"
#include "orrery/report/page_text.h"
#include "orrery/report/train_text.h"

namespace orrery {

/// The files of page/, from cmake/EmbedText.cmake.
namespace embedded {
extern const std::string_view page_css;
extern const std::string_view compare_css;
extern const std::string_view train_css;
extern const std::string_view train_html;
}  // namespace embedded

namespace {

/// What the page draws of a schedule.
constexpr TimelineLimits kDrawn = {.stages = 32, .passes = 3'000};
/// Width of a row of the schedule, in units of its own.
constexpr double kWidth = 1000;
/// What is thinner would not be seen.
constexpr double kThinnest = 0.05;

std::string tile(std::string_view what, const std::string& figure, const std::string& more,
                 bool bad = false) {
  return fmt::format(
      R"(    <div><dt>{}</dt><dd class="figure{}">{}</dd><dd class="more">{}</dd></div>)"
      "\n",
      what, bad ? " bad" : "", html_text(figure), html_text(more));
}

std::string headline_html(const TrainAnswer& a) {
  const StepEstimate& e = a.estimate;
  const Strategy& s = a.strategy;
  const double step = e.step.value.value;
  std::string html = tile("Step time", format_seconds(step),
                          fmt::format("90 % within {} … {}", format_seconds(e.step.low.value),
                                      format_seconds(e.step.high.value)));
  if (!a.stragglers.empty()) {
    const double without = a.step_without.value;
    html += tile("Stragglers", fmt::format("+{:.1f} %", 100 * (step / without - 1)),
                 fmt::format("{} without them", format_seconds(without)), true);
  }
  html += tile("Model", fmt::format("{:.0f} TFLOP/s", a.tflops_per_gpu),
               fmt::format("a GPU, {:.0f} tokens a second", a.tokens_per_s_per_gpu));
  html += tile("MFU", fmt::format("{:.1f} %", 100 * a.mfu), "of the peak of its number format");
  html += tile("Energy", format_joules(e.energy.value),
               fmt::format("{} a GPU", format_si(e.energy.value / step / s.gpus, "W")));
  html += tile("Memory", a.fits ? "fits" : "DOES NOT FIT",
               fmt::format("{} of {} a GPU", format_bytes(e.memory.total().value),
                           format_bytes(a.capacity_bytes)),
               !a.fits);
  return html;
}

struct Part {
  std::string name;
  std::string_view color;
  double amount = 0;
};

std::string bar_html(const std::vector<Part>& parts, double whole,
                     std::string (*text)(double amount)) {
  std::string html;
  for (const Part& part : parts)
    if (part.amount > 0)
      html += fmt::format(R"(<span title="{}: {}" style="background:{};flex:0 0 {}"></span>)",
                          html_text(part.name), text(part.amount), part.color,
                          percent(part.amount, whole));
  return html;
}

std::string legend_html(const std::vector<Part>& parts, double whole) {
  std::string html;
  for (const Part& part : parts)
    if (part.amount > 0)
      html +=
          fmt::format(R"(<li><i style="background:{}"></i>{} <b>{}</b> {:.1f} %</li>)", part.color,
                      html_text(part.name), format_seconds(part.amount), 100 * part.amount / whole);
  return html;
}

/// The same colours in the breakdown and in the schedule.
std::string_view color_of(StepWork work) {
  switch (work) {
    case StepWork::kForward:
      return "#4e79a7";
    case StepWork::kBackward:
      return "#59a14f";
    case StepWork::kWeights:
      return "#8cd17d";
    case StepWork::kAgain:
      return "#b07aa1";
    case StepWork::kGaps:
      return "#9c755f";
    case StepWork::kTraffic:
      return "#e15759";
    case StepWork::kOptimizer:
      return "#f28e2b";
    case StepWork::kSkipped:
      break;
  }
  return "#c6ccd6";
}

/// Shades of traffic by cause.
std::string_view color_of(TrafficCause cause) {
  switch (cause) {
    case TrafficCause::kTensor:
      return "#e15759";
    case TrafficCause::kContext:
      return "#d37295";
    case TrafficCause::kExperts:
      return "#ff9da7";
    case TrafficCause::kPipeline:
      return "#d9b63c";
    case TrafficCause::kGradients:
      return "#a0403f";
    case TrafficCause::kParameters:
      return "#c98a6a";
  }
  return "";
}

std::vector<Part> breakdown(const StepEstimate& e) {
  std::vector<Part> parts = {{"forward", color_of(StepWork::kForward), e.forward.value},
                             {"backward", color_of(StepWork::kBackward), e.backward.value},
                             {"computed again", color_of(StepWork::kAgain), e.again.value}};
  for (size_t i = 0; i < kTrafficCauseCount; ++i) {
    const auto cause = static_cast<TrafficCause>(i);
    parts.push_back({fmt::format("traffic: {}", name(cause)), color_of(cause), e.exposed[i].value});
  }
  parts.push_back({"waiting for other stages", "#c6ccd6", e.bubble.value});
  parts.push_back({"optimiser", color_of(StepWork::kOptimizer), e.optimizer.value});
  parts.push_back({"between kernels", color_of(StepWork::kGaps), e.gaps.value});
  return parts;
}

/// Times on a row; where all stages have left out micro-batches, time is shortened.
class Axis {
 public:
  explicit Axis(const StepTimeline& timeline) {
    for (const StageTimeline& stage : timeline.stages) {
      size_t cut = 0;
      for (const StepSlice& slice : stage.slices) {
        if (slice.work != StepWork::kSkipped) continue;
        if (cut == cuts_.size()) cuts_.push_back({slice.start, slice.end});
        cuts_[cut].first = std::max(cuts_[cut].first, slice.start);
        cuts_[cut].second = std::min(cuts_[cut].second, slice.end);
        ++cut;
      }
    }
    std::erase_if(cuts_, [](const auto& cut) { return cut.first >= cut.second; });
    Seconds left = timeline.step;
    for (const auto& [from, to] : cuts_) left = left - (to - from);
    shortened_ = left * 0.08;
    whole_ = left + shortened_ * static_cast<double>(cuts_.size());
  }

  double at(Seconds time) const {
    Seconds found = time;
    for (const auto& [from, to] : cuts_) {
      if (time <= from) break;
      const Seconds inside = std::min(time, to) - from;
      found = found - inside + shortened_ * (inside / (to - from));
    }
    return kWidth * (found / whole_);
  }

 private:
  std::vector<std::pair<Seconds, Seconds>> cuts_;
  Seconds shortened_, whole_;
};

std::string slice_title(const StepSlice& slice) {
  const std::string length = format_seconds((slice.end - slice.start).value);
  switch (slice.work) {
    case StepWork::kTraffic:
      return fmt::format("{} traffic, {}", name(slice.cause), length);
    case StepWork::kOptimizer:
      return fmt::format("optimiser, {}", length);
    case StepWork::kSkipped:
      return fmt::format("{} micro-batches from {} on, not drawn", slice.count, slice.micro_batch);
    default:
      return fmt::format("{} of micro-batch {}, chunk {}, {}", name(slice.work), slice.micro_batch,
                         slice.chunk, length);
  }
}

/// One row a stage: what computes, and traffic that nothing hides.
std::string schedule_html(const StepTimeline& timeline) {
  const Axis axis(timeline);
  std::string html;
  int last = -1;
  for (const StageTimeline& stage : timeline.stages) {
    if (stage.stage > last + 1)
      html += fmt::format(R"(      <span></span><div class="note">stages {} to {} not drawn</div>)"
                          "\n",
                          last + 1, stage.stage - 1);
    last = stage.stage;
    html += fmt::format(R"(      <span>stage {}</span><svg viewBox="0 0 {} 10" )"
                        R"(preserveAspectRatio="none" role="img">)",
                        stage.stage, kWidth);
    for (const StepSlice& slice : stage.slices) {
      if (slice.work == StepWork::kGaps || (slice.work == StepWork::kTraffic && !slice.exposed))
        continue;
      const double from = axis.at(slice.start), to = axis.at(slice.end);
      if (to - from < kThinnest) continue;
      html += fmt::format(
          R"(<rect x="{:.2f}" width="{:.2f}" height="10" fill="{}"{}><title>{}</title></rect>)",
          from, to - from,
          slice.work == StepWork::kTraffic ? color_of(slice.cause) : color_of(slice.work),
          slice.work == StepWork::kSkipped ? R"( class="skipped")" : "",
          html_text(slice_title(slice)));
    }
    html += "</svg>\n";
  }
  return html;
}

std::string schedule_note(const StepTimeline& t, const TrainAnswer& a) {
  const Strategy& s = a.strategy;
  std::string note = "Each row is one rank of a stage";
  if (!a.stragglers.empty())
    note += fmt::format(", of data rank {}, whose pipeline takes longest", a.costs.data_rank);
  else if (s.gpus > s.pipeline)
    note += fmt::format("; the other {} ranks of the stage do the same at the same time",
                        s.gpus / s.pipeline - 1);
  note += ". Empty space is waiting.";
  if (t.micro_batches_skipped > 0)
    note +=
        fmt::format(" Of {} micro-batches {} in the middle are not drawn (grey, and shortened).",
                    t.micro_batches, t.micro_batches_skipped);
  if (std::abs((t.by_order - t.pipeline).value) > 1e-3 * t.pipeline.value)
    note += fmt::format(
        " Stages are unequal: passes as early as their order allows would take {}, the model's "
        "closed form has {}; waiting is drawn so that the latter holds.",
        format_seconds(t.by_order.value), format_seconds(t.pipeline.value));
  return note;
}

std::vector<Part> memory_parts(const RankMemory& m) {
  return {
      {"weights", "#4e79a7", m.weights.value},     {"gradients", "#59a14f", m.gradients.value},
      {"optimiser", "#f28e2b", m.optimizer.value}, {"activations", "#e15759", m.activations.value},
      {"working", "#b07aa1", m.working.value},     {"other", "#9c755f", m.other.value}};
}

/// Rows of stages that hold the same are one.
std::string memory_html(const TrainAnswer& a) {
  double widest = a.capacity_bytes;
  for (const RankMemory& m : a.memory_by_stage) widest = std::max(widest, m.total().value);
  const auto same = [&](size_t i, size_t j) {
    return a.memory_by_stage[i].total() == a.memory_by_stage[j].total();
  };
  std::string html;
  for (size_t i = 0; i < a.memory_by_stage.size();) {
    size_t last = i;
    while (last + 1 < a.memory_by_stage.size() && same(last + 1, i)) ++last;
    const RankMemory& m = a.memory_by_stage[i];
    const std::string amount = format_bytes(m.total().value);
    html += fmt::format(
        R"(      <span>{}</span><div class="held"><div class="bar-of-parts">{}</div>)"
        R"(<i style="left:{}"></i></div><span class="amount{}">{}</span>)"
        "\n",
        last > i ? fmt::format("stages {}–{}", i, last) : fmt::format("stage {}", i),
        bar_html(memory_parts(m), widest, [](double bytes) { return format_bytes(bytes); }),
        percent(a.capacity_bytes, widest), m.total().value > a.capacity_bytes ? " bad" : "",
        amount);
    i = last + 1;
  }
  return html;
}

std::string memory_legend(const TrainAnswer& a) {
  std::string html;
  for (const Part& part : memory_parts(a.estimate.memory))
    html += fmt::format(R"(<li><i style="background:{}"></i>{}</li>)", part.color, part.name);
  return html;
}

std::string strategy_html(const TrainAnswer& a, const TrainRequest& request) {
  const Strategy& s = a.strategy;
  const auto number = [](int64_t n) { return fmt::format("{}", n); };
  std::vector<std::vector<std::string>> rows = {
      {"devices", number(s.gpus)},
      {"tensor parallel", number(s.tensor)},
      {"sequence parallel", s.sequence ? "yes" : "no"},
      {"pipeline stages", number(s.pipeline)},
      {"chunks a stage", number(s.chunks)},
      {"schedule", std::string(name(s.schedule))},
      {"context parallel", number(s.context)},
      {"data parallel", number(s.data())},
      {"expert parallel", number(s.expert)},
      {"ZeRO", number(s.zero)},
      {"recomputation", recompute_in_words(s)},
      {"number format", std::string(name(s.precision))},
      {"global batch", fmt::format("{} sequences of {} tokens", s.global_batch, s.length)},
      {"micro-batches", fmt::format("{} of {}", s.micro_batches(), s.micro_batch)},
      {"framework", request.framework}};
  for (const SlowRanks& r : a.stragglers.ranks)
    rows.push_back(
        {"straggler", fmt::format("ranks {} to {} at {} of the speed", r.first, r.last, r.speed)});
  for (const SlowNodes& n : a.stragglers.nodes)
    rows.push_back({"slow node", fmt::format("nodes {} to {} with {} of the bandwidth", n.first,
                                             n.last, n.share)});
  return table_html({"", ""}, rows);
}

std::string provenance_html(const TrainAnswer& a) {
  std::string html;
  for (const auto& [what, value] : a.provenance)
    html += fmt::format("<dt>{}</dt><dd>{}</dd>", html_text(what), html_text(value));
  return html;
}

}  // namespace

std::string training_page(const TrainAnswer& a, const TrainRequest& request) {
  const StepTimeline timeline = draw_step({a.estimate, a.costs}, a.strategy, kDrawn);
  const std::vector<Part> parts = breakdown(a.estimate);
  const double step = a.estimate.step.value.value;
  const std::string where = fmt::format("{} × {}", a.strategy.gpus, request.cluster);
  return filled(embedded::train_html,
                {{"{{title}}", html_text(fmt::format("{} on {}", request.model, where))},
                 {"{{page_css}}", std::string(embedded::page_css)},
                 {"{{compare_css}}", std::string(embedded::compare_css)},
                 {"{{train_css}}", std::string(embedded::train_css)},
                 {"{{model}}", html_text(request.model)},
                 {"{{conditions}}", html_text(fmt::format("{} ({})", where, in_words(a.strategy)))},
                 {"{{headline}}", headline_html(a)},
                 {"{{breakdown}}",
                  bar_html(parts, step, [](double seconds) { return format_seconds(seconds); })},
                 {"{{legend}}", legend_html(parts, step)},
                 {"{{schedule}}", schedule_html(timeline)},
                 {"{{schedule_note}}", html_text(schedule_note(timeline, a))},
                 {"{{memory}}", memory_html(a)},
                 {"{{memory_legend}}", memory_legend(a)},
                 {"{{capacity}}", html_text(format_bytes(a.capacity_bytes))},
                 {"{{strategy}}", strategy_html(a, request)},
                 {"{{gaps}}", list_html("Not modelled", a.gaps)},
                 {"{{provenance}}", provenance_html(a)}});
}

}  // namespace orrery
