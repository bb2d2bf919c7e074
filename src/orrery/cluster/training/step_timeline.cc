#include "orrery/cluster/training/step_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "orrery/base/error.h"

namespace orrery {

std::string_view name(StepTrack track) {
  switch (track) {
    case StepTrack::kCompute:
      return "compute";
    case StepTrack::kLayers:
      return "tensor, context and expert traffic";
    case StepTrack::kPipeline:
      return "to and from other stages";
    case StepTrack::kData:
      return "gradients and parameters";
  }
  return "";
}

std::string_view name(StepWork work) {
  switch (work) {
    case StepWork::kForward:
      return "forward";
    case StepWork::kBackward:
      return "backward";
    case StepWork::kWeights:
      return "weight gradients";
    case StepWork::kAgain:
      return "computed again";
    case StepWork::kGaps:
      return "between kernels";
    case StepWork::kTraffic:
      return "traffic";
    case StepWork::kOptimizer:
      return "optimiser";
    case StepWork::kSkipped:
      return "not drawn";
  }
  return "";
}

namespace {

/// Passes of all stages that are placed at most, drawn or not.
constexpr double kMostPlaced = 500'000;
/// Stages that are drawn whatever their passes, where there are as many.
constexpr size_t kFewestStages = 8;

/// Passes and what is left out between them.
struct Passes {
  std::vector<std::vector<PlacedPass>> stages;
  struct Cut {
    size_t before = 0;  ///< The pass of the order that comes behind it.
    Seconds start, end;
    Seconds busy;                  ///< What is left out would run so long.
    int64_t first = 0, count = 0;  ///< Micro-batches.
    double of_step = 1;            ///< Share of their compute that is cut here.
  };
  std::vector<std::vector<Cut>> cuts;

  Seconds end() const {
    Seconds last;
    for (const auto& stage : stages)
      if (!stage.empty()) last = std::max(last, stage.back().end);
    return last;
  }
};

class Drawing {
 public:
  Drawing(const StepInDetail& step, const Strategy& strategy, const TimelineLimits& limits)
      : costs_(step.costs),
        s_(strategy),
        limits_(limits),
        apart_(strategy.schedule == PipelineSchedule::kZeroBubble),
        micro_batches_(strategy.micro_batches()) {
    timeline_.slowest = costs_.slowest;
    timeline_.step = timeline_.pipeline = step.estimate.step.value;
    timeline_.pipeline = timeline_.pipeline - costs_.optimizer;
    for (const StepCosts::OnceAStep& data : costs_.data)
      timeline_.pipeline = timeline_.pipeline - data.exposed;
    timeline_.micro_batches = micro_batches_;
  }

  StepTimeline run() {
    choose_stages();
    choose_micro_batches();
    measure();
    const Passes passes = fitted();
    for (const size_t stage : shown_) draw(stage, passes);
    return std::move(timeline_);
  }

 private:
  /// Passes of a micro-batch on a stage.
  int64_t passes_each() const { return int64_t{s_.chunks} * (apart_ ? 3 : 2); }
  /// Micro-batches that fill a pipeline, keep it busy and drain it.
  int64_t fewest() const { return std::min(4 * int64_t{s_.pipeline}, micro_batches_); }

  /// The first and the last stages, and the slowest; in a long pipeline fewer of them, since each
  /// has more passes.
  void choose_stages() {
    const auto stages = static_cast<size_t>(s_.pipeline);
    const size_t room = limits_.passes / static_cast<size_t>(passes_each() * fewest());
    const size_t shown = std::min({stages, limits_.stages, std::max(kFewestStages, room)});
    for (size_t i = 0; i < shown; ++i) shown_.insert(i < (shown + 1) / 2 ? i : stages - shown + i);
    shown_.insert(costs_.slowest);
    timeline_.stages_skipped = static_cast<int>(stages - shown_.size());
  }

  /// As many as may be drawn.
  void choose_micro_batches() {
    const int64_t each = static_cast<int64_t>(shown_.size()) * passes_each();
    int64_t kept = std::max(fewest(), static_cast<int64_t>(limits_.passes) / each);
    if (s_.chunks > 1) kept -= kept % s_.pipeline;
    placed_ = std::min(kept, micro_batches_);
    const double all = static_cast<double>(placed_ * passes_each()) * s_.pipeline;
    if (all > kMostPlaced)
      throw_infeasible(
          fmt::format("a pipeline of {} stages with {} chunks each is too long to draw",
                      s_.pipeline, s_.chunks));
    timeline_.micro_batches_skipped = micro_batches_ - placed_;
  }

  void measure() {
    const Seconds send = costs_.sends_hide ? Seconds() : costs_.send;
    for (const auto& stage : costs_.stages) {
      std::vector<Seconds> forward, backward, weights;
      for (const ChunkTimes& chunk : stage) {
        const Seconds apart = apart_ ? chunk.weights : Seconds();
        forward.push_back(chunk.forward.total() + send);
        backward.push_back(chunk.backward.total() + chunk.again.total() - apart + send);
        weights.push_back(apart);
      }
      lengths_.forward.push_back(std::move(forward));
      lengths_.backward.push_back(std::move(backward));
      lengths_.weights.push_back(std::move(weights));
    }
    for (int stage = 0; stage < s_.pipeline; ++stage)
      orders_.push_back(pipeline_order(s_.schedule, s_.pipeline, s_.chunks, stage, placed_));
  }

  static Seconds sum(const std::vector<Seconds>& parts) {
    return std::accumulate(parts.begin(), parts.end(), Seconds());
  }
  /// Of one micro-batch's passes.
  Seconds length_of(size_t stage, bool forward, bool backward) const {
    Seconds length;
    if (forward) length += sum(lengths_.forward[stage]);
    if (backward) length += sum(lengths_.backward[stage]) + sum(lengths_.weights[stage]);
    return length;
  }
  Seconds longest(bool forward, bool backward) const {
    Seconds most;
    for (size_t i = 0; i < costs_.stages.size(); ++i)
      most = std::max(most, length_of(i, forward, backward));
    return most;
  }

  /// All passes, with a pipeline's edges `between` apart; in its steady state micro-batches are
  /// left out, each of which takes as long as on the slowest stage.
  Passes placed(Seconds between) const {
    Passes passes;
    passes.stages = place_passes(orders_, lengths_, s_.chunks, placed_, between);
    passes.cuts.resize(passes.stages.size());
    const int64_t skipped = micro_batches_ - placed_;
    if (skipped == 0) return passes;
    int64_t kept = placed_ / 2;
    if (s_.chunks > 1) kept -= kept % s_.pipeline;
    const bool gpipe = s_.schedule == PipelineSchedule::kGpipe;
    const auto amount = static_cast<double>(skipped);
    const Seconds first = longest(true, !gpipe) * amount;
    const Seconds second = gpipe ? longest(false, true) * amount : Seconds();
    for (size_t i = 0; i < passes.stages.size(); ++i) {
      std::vector<PlacedPass>& stage = passes.stages[i];
      std::array<int64_t, 2> seen = {};
      Seconds shift;
      std::array<int64_t, 3> renamed = {};  // by kind of pass
      const auto cut = [&](size_t at, Seconds length, Seconds own, double of_step) {
        shift += length;
        passes.cuts[i].push_back(
            {at, stage[at - 1].end, Seconds(), own * amount, kept, skipped, of_step});
      };
      for (size_t j = 0; j < stage.size(); ++j) {
        PlacedPass& placed = stage[j];
        const bool forward = placed.pass.kind == PassKind::kForward;
        const bool backward = placed.pass.kind == PassKind::kBackward;
        const size_t open = passes.cuts[i].size();
        if (forward && seen[0]++ == kept * s_.chunks) {
          cut(j, first, length_of(i, true, !gpipe), gpipe ? forward_share(i) : 1);
          renamed = gpipe ? std::array<int64_t, 3>{skipped, 0, 0}
                          : std::array<int64_t, 3>{skipped, skipped, skipped};
        }
        if (gpipe && backward && seen[1]++ == kept * s_.chunks) {
          cut(j, second, length_of(i, false, true), 1 - forward_share(i));
          renamed.fill(skipped);
        }
        placed.start += shift;
        placed.end += shift;
        placed.pass.micro_batch += renamed[static_cast<size_t>(placed.pass.kind)];
        if (passes.cuts[i].size() > open) passes.cuts[i].back().end = placed.start;
      }
    }
    return passes;
  }

  Seconds kernels_of(size_t stage, bool forward, bool backward) const {
    Seconds found;
    for (const ChunkTimes& chunk : costs_.stages[stage]) {
      if (forward) found += chunk.forward.kernels;
      if (backward) found += chunk.backward.kernels + chunk.again.kernels;
    }
    return found;
  }
  double forward_share(size_t stage) const {
    const Seconds all = kernels_of(stage, true, true);
    return all.value > 0 ? kernels_of(stage, true, false) / all : 0;
  }

  /// … so that the last one ends where the step's closed form has it. Where the order leaves room,
  /// what fills and drains the pipeline comes later; where it needs more, waiting is shortened.
  Passes fitted() {
    const Seconds least = costs_.sends_hide ? costs_.send : Seconds();
    Passes passes = placed(least);
    timeline_.by_order = passes.end();
    const Seconds goal = timeline_.pipeline;
    if (passes.end() < goal) {
      Seconds low = least, high = least + goal;
      for (int i = 0; i < 60 && s_.pipeline > 1; ++i) {
        const Seconds middle = (low + high) / 2;
        (placed(middle).end() > goal ? high : low) = middle;
      }
      passes = placed(low);
    } else if (passes.end() > goal) {
      const Seconds end = passes.end();
      for (size_t i = 0; i < passes.stages.size(); ++i)
        shorten(passes.stages[i], passes.cuts[i], end, goal);
    }
    return passes;
  }

  /// Waiting of one stage, in proportion, so that what took until `end` takes until `goal`.
  static void shorten(std::vector<PlacedPass>& stage, std::vector<Passes::Cut>& cuts, Seconds end,
                      Seconds goal) {
    Seconds busy;
    for (const PlacedPass& placed : stage) busy += placed.end - placed.start;
    for (const Passes::Cut& cut : cuts) busy += cut.busy;
    const double share = end > busy ? std::max(0.0, (goal - busy).value) / (end - busy).value : 0;
    Seconds before, now;  // where what came before ended, and where it ends
    const auto move = [&](Seconds& start, Seconds& finish, Seconds own) {
      now += (start - before) * share;
      const Seconds length = own + (finish - start - own) * share;
      before = finish;
      start = now;
      finish = now = now + length;
    };
    size_t next = 0;
    for (size_t i = 0; i < stage.size(); ++i) {
      if (next < cuts.size() && cuts[next].before == i) {
        move(cuts[next].start, cuts[next].end, cuts[next].busy);
        ++next;
      }
      move(stage[i].start, stage[i].end, stage[i].end - stage[i].start);
    }
  }

  /// Slices of one stage.
  void draw(size_t stage, const Passes& passes) {
    here_ = {};
    here_.stage = static_cast<int>(stage);
    here_.first_rank = static_cast<int>(stage) * s_.tensor * s_.context * s_.data() +
                       costs_.data_rank * s_.tensor * s_.context;
    link_free_ = Seconds();
    for (const PlacedPass& placed : passes.stages[stage]) draw_pass(stage, placed);
    for (const Passes::Cut& cut : passes.cuts[stage]) {
      StepSlice slice;
      slice.work = StepWork::kSkipped;
      slice.micro_batch = cut.first;
      slice.count = cut.count;
      slice.compute =
          kernels_of(stage, true, true) * (static_cast<double>(cut.count) * cut.of_step);
      slice.start = cut.start;
      slice.end = cut.end;
      here_.slices.push_back(slice);
    }
    draw_once(passes.stages[stage]);
    std::ranges::stable_sort(here_.slices, [](const StepSlice& a, const StepSlice& b) {
      return std::tie(a.track, a.start) < std::tie(b.track, b.start);
    });
    timeline_.stages.push_back(std::move(here_));
  }

  void add(StepSlice slice, Seconds& at, Seconds length) {
    if (length.value <= 0) return;
    slice.start = at;
    slice.end = at = at + length;
    here_.slices.push_back(slice);
  }

  void draw_pass(size_t stage, const PlacedPass& placed) {
    const PipelinePass& pass = placed.pass;
    const ChunkTimes& chunk = costs_.stages[stage][static_cast<size_t>(pass.chunk)];
    StepSlice slice;
    slice.chunk = pass.chunk;
    slice.micro_batch = pass.micro_batch;
    Seconds at = placed.start;
    const auto run = [&](StepWork work, Seconds length) {
      slice.work = work;
      add(slice, at, length);
    };
    if (pass.kind == PassKind::kWeights) return run(StepWork::kWeights, chunk.weights);
    PassTime time;
    if (pass.kind == PassKind::kForward) {
      time = chunk.forward;
      run(StepWork::kForward, time.kernels);
    } else {
      time = chunk.backward;
      time.add(chunk.again, 1);
      run(StepWork::kAgain, chunk.again.kernels);
      run(StepWork::kBackward, chunk.backward.kernels - (apart_ ? chunk.weights : Seconds()));
    }
    run(StepWork::kGaps, time.gaps);
    Seconds beside = placed.start;
    slice.work = StepWork::kTraffic;
    for (const bool exposed : {false, true})
      for (size_t i = 0; i < kTrafficCauseCount; ++i) {
        slice.cause = static_cast<TrafficCause>(i);
        slice.track =
            slice.cause == TrafficCause::kGradients || slice.cause == TrafficCause::kParameters
                ? StepTrack::kData
                : StepTrack::kLayers;
        slice.exposed = exposed;
        const Seconds length = exposed ? time.exposed[i] : time.traffic[i] - time.exposed[i];
        // Rounding leaves rests of some 1e-19 s of traffic that is hidden as a whole.
        if (length.value > 1e-12 * time.traffic[i].value) add(slice, exposed ? at : beside, length);
      }
    slice.track = StepTrack::kPipeline;
    slice.cause = TrafficCause::kPipeline;
    slice.exposed = !costs_.sends_hide;
    const bool forward = pass.kind == PassKind::kForward;
    const auto last_stage = static_cast<size_t>(s_.pipeline) - 1;
    const bool leaves =
        forward ? stage < last_stage || pass.chunk + 1 < s_.chunks : stage > 0 || pass.chunk > 0;
    if (!costs_.sends_hide) {
      add(slice, at, costs_.send);
    } else if (leaves) {
      Seconds from = std::max(at, link_free_);
      slice.exposed = pass.chunk == 0 && pass.micro_batch == (forward ? 0 : micro_batches_ - 1);
      add(slice, from, costs_.send);
      link_free_ = from;
    }
  }

  /// Behind the last pass, and what of it hides behind passes: gathering behind the first ones,
  /// sums behind the last.
  void draw_once(const std::vector<PlacedPass>& passes) {
    StepSlice slice;
    slice.work = StepWork::kTraffic;
    slice.track = StepTrack::kData;
    const auto hidden = [&](TrafficCause cause) {
      Seconds found;
      for (const StepCosts::OnceAStep& once : costs_.data)
        if (once.cause == cause) found += once.traffic - once.exposed;
      return found;
    };
    slice.exposed = false;
    slice.cause = TrafficCause::kParameters;
    Seconds at = passes.front().start;
    add(slice, at, hidden(slice.cause));
    slice.cause = TrafficCause::kGradients;
    at = std::max(at, passes.back().end - hidden(slice.cause));
    add(slice, at, hidden(slice.cause));

    slice.exposed = true;
    at = timeline_.pipeline;
    const auto exposed = [&](TrafficCause cause) {
      slice.cause = cause;
      for (const StepCosts::OnceAStep& once : costs_.data)
        if (once.cause == cause) add(slice, at, once.exposed);
    };
    exposed(TrafficCause::kGradients);
    StepSlice update;
    update.work = StepWork::kOptimizer;
    add(update, at, costs_.optimizer);
    exposed(TrafficCause::kParameters);
  }

  const StepCosts& costs_;
  const Strategy& s_;
  const TimelineLimits& limits_;
  bool apart_;  ///< Gradients of weights are passes of their own.
  int64_t micro_batches_;
  int64_t placed_ = 0;  ///< Of those, how many are placed.
  std::set<size_t> shown_;
  PassLengths lengths_;
  std::vector<std::vector<PipelinePass>> orders_;
  StageTimeline here_;
  Seconds link_free_;  ///< Of the stage that is drawn.
  StepTimeline timeline_;
};

}  // namespace

StepTimeline draw_step(const StepInDetail& step, const Strategy& strategy,
                       const TimelineLimits& limits) {
  return Drawing(step, strategy, limits).run();
}

}  // namespace orrery
