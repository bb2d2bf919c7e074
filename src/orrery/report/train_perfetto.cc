#include <fmt/format.h>

#include <array>
#include <cmath>

#include "orrery/base/version.h"
#include "orrery/cluster/training/step_timeline.h"
#include "orrery/report/json_text.h"
#include "orrery/report/perfetto.h"
#include "orrery/report/trace_events.h"

namespace orrery {
namespace {

int64_t nanoseconds(Seconds time) { return std::llround(time.value * 1e9); }

std::string title(const StepSlice& slice) {
  switch (slice.work) {
    case StepWork::kTraffic:
      return fmt::format("{}{}", name(slice.cause), slice.exposed ? "" : " (hidden)");
    case StepWork::kSkipped:
      return fmt::format("{} micro-batches, not drawn", slice.count);
    case StepWork::kOptimizer:
    case StepWork::kGaps:
      return std::string(name(slice.work));
    default:
      return fmt::format("{} {}", name(slice.work), slice.micro_batch);
  }
}

std::string arguments(const StepSlice& slice) {
  std::string text = fmt::format(R"({{"exposed":{})", slice.exposed);
  if (slice.chunk >= 0) text += fmt::format(R"(,"chunk":{})", slice.chunk);
  if (slice.micro_batch >= 0) text += fmt::format(R"(,"micro_batch":{})", slice.micro_batch);
  if (slice.work == StepWork::kSkipped)
    text += fmt::format(R"(,"micro_batches":{},"compute_s":{})", slice.count, slice.compute.value);
  return text + "}";
}

}  // namespace

std::string perfetto_trace(const TrainAnswer& answer, const TrainRequest& request) {
  const Strategy& s = answer.strategy;
  const StepTimeline timeline = draw_step({answer.estimate, answer.costs}, s, {});
  const int together = s.tensor * s.context;
  TraceEvents trace;
  for (const StageTimeline& stage : timeline.stages) {
    const int process = stage.stage + 1;
    trace.name_process(
        process,
        fmt::format("stage {}: rank {}{}", stage.stage, stage.first_rank,
                    stage.stage == static_cast<int>(timeline.slowest) ? ", has most to do" : ""));
    std::array<bool, kStepTrackCount> named = {};
    std::array<int64_t, kStepTrackCount> free = {};
    for (const StepSlice& slice : stage.slices) {
      const auto track = static_cast<size_t>(slice.track);
      if (!named[track])
        trace.name_track(process, static_cast<int>(track) + 1, std::string(name(slice.track)));
      named[track] = true;
      // Slices that touch may overlap by a rounded nanosecond, which Perfetto would drop.
      const int64_t start = std::max(nanoseconds(slice.start), free[track]);
      const int64_t end = std::max(start, nanoseconds(slice.end));
      free[track] = end;
      trace.slice(process, static_cast<int>(track) + 1, json_text(title(slice)), start, end,
                  arguments(slice));
    }
  }
  return trace.finish(fmt::format(
      R"({{"made_by":"orrery {}","model":{},"cluster":{},"strategy":{},"step_s":{},)"
      R"("ranks":"one rank of each stage, which stands for {} that share its micro-batches and for those of {} data ranks",)"
      R"("stages_not_drawn":{},"micro_batches":{},"micro_batches_not_drawn":{},)"
      R"("pipeline_s":{},"passes_by_order_s":{}}})",
      kVersion, json_text(request.model), json_text(request.cluster), json_text(in_words(s)),
      answer.estimate.step.value.value, together, s.data(), timeline.stages_skipped,
      timeline.micro_batches, timeline.micro_batches_skipped, timeline.pipeline.value,
      timeline.by_order.value));
}

}  // namespace orrery
