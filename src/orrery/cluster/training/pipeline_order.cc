#include "orrery/cluster/training/pipeline_order.h"

#include <algorithm>

#include "orrery/base/error.h"

namespace orrery {
namespace {

/// The n-th forward pass of a stage: groups of as many micro-batches as there are stages go
/// through its first chunk, then through the next.
PipelinePass nth(PassKind kind, int64_t n, int stages, int chunks) {
  if (chunks == 1) return {kind, 0, n};
  const int64_t group = int64_t{stages} * chunks;
  const auto chunk = static_cast<int>(n % group / stages);
  return {kind, kind == PassKind::kForward ? chunk : chunks - 1 - chunk,
          n / group * stages + n % stages};
}

}  // namespace

std::vector<PipelinePass> pipeline_order(PipelineSchedule schedule, int stages, int chunks,
                                         int stage, int64_t micro_batches) {
  const int64_t all = micro_batches * chunks;
  const bool apart = schedule == PipelineSchedule::kZeroBubble;
  // Forward passes ahead of the first backward one, beside the one right before it.
  int64_t ahead = stages - stage - 1;
  if (chunks > 1) ahead = 2 * ahead + int64_t{chunks - 1} * stages;
  if (schedule == PipelineSchedule::kGpipe) ahead = all;
  ahead = std::min(ahead, all);
  std::vector<PipelinePass> order;
  order.reserve(static_cast<size_t>(all) * (apart ? 3 : 2));
  int64_t forward = 0;
  const auto go_forward = [&] {
    if (forward < all) order.push_back(nth(PassKind::kForward, forward++, stages, chunks));
  };
  while (forward < ahead) go_forward();
  for (int64_t n = 0; n < all; ++n) {
    go_forward();
    order.push_back(nth(PassKind::kBackward, n, stages, chunks));
    if (apart && n >= stage) order.push_back({PassKind::kWeights, 0, n - stage});
  }
  if (apart)
    for (int64_t n = std::max<int64_t>(0, all - stage); n < all; ++n)
      order.push_back({PassKind::kWeights, 0, n});
  return order;
}

Seconds PassLengths::of(size_t stage, const PipelinePass& pass) const {
  const auto& lengths = pass.kind == PassKind::kForward    ? forward
                        : pass.kind == PassKind::kBackward ? backward
                                                           : weights;
  return lengths[stage][static_cast<size_t>(pass.chunk)];
}

namespace {

/// Ends of forward and backward passes, by chunk, stage and micro-batch.
class Ends {
 public:
  Ends(size_t stages, int chunks, int64_t micro_batches)
      : stages_(stages),
        chunks_(static_cast<size_t>(chunks)),
        micro_batches_(static_cast<size_t>(micro_batches)),
        ends_(2 * stages_ * chunks_ * micro_batches_, Seconds(-1)) {}

  Seconds& at(PassKind kind, size_t chunk, size_t stage, int64_t micro_batch) {
    const size_t half = kind == PassKind::kForward ? 0 : 1;
    return ends_[((half * chunks_ + chunk) * stages_ + stage) * micro_batches_ +
                 static_cast<size_t>(micro_batch)];
  }
  /// When what `pass` waits for of other stages is there; negative: not yet known.
  Seconds ready(const PipelinePass& pass, size_t stage, Seconds between) {
    const auto chunk = static_cast<size_t>(pass.chunk);
    const int64_t last = static_cast<int64_t>(micro_batches_) - 1;
    Seconds from;
    Seconds way;
    if (pass.kind == PassKind::kForward) {
      if (stage > 0)
        from = at(pass.kind, chunk, stage - 1, pass.micro_batch);
      else if (chunk > 0)
        from = at(pass.kind, chunk - 1, stages_ - 1, pass.micro_batch);
      if (stage > 0 && chunk == 0 && pass.micro_batch == 0) way = between;
    } else if (pass.kind == PassKind::kBackward) {
      if (stage + 1 < stages_)
        from = at(pass.kind, chunk, stage + 1, pass.micro_batch);
      else if (chunk + 1 < chunks_)
        from = at(pass.kind, chunk + 1, 0, pass.micro_batch);
      else
        from = at(PassKind::kForward, chunk, stage, pass.micro_batch);
      if (stage + 1 < stages_ && chunk == 0 && pass.micro_batch == last) way = between;
    }
    return from.value < 0 ? from : from + way;
  }

 private:
  size_t stages_, chunks_, micro_batches_;
  std::vector<Seconds> ends_;
};

}  // namespace

std::vector<std::vector<PlacedPass>> place_passes(
    const std::vector<std::vector<PipelinePass>>& orders, const PassLengths& lengths, int chunks,
    int64_t micro_batches, Seconds between) {
  Ends ends(orders.size(), chunks, micro_batches);
  std::vector<std::vector<PlacedPass>> placed(orders.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t stage = 0; stage < orders.size(); ++stage) {
      std::vector<PlacedPass>& here = placed[stage];
      while (here.size() < orders[stage].size()) {
        const PipelinePass& pass = orders[stage][here.size()];
        const Seconds ready = ends.ready(pass, stage, between);
        if (ready.value < 0) break;
        const Seconds start = here.empty() ? ready : std::max(ready, here.back().end);
        here.push_back({pass, start, start + lengths.of(stage, pass)});
        if (pass.kind != PassKind::kWeights)
          ends.at(pass.kind, static_cast<size_t>(pass.chunk), stage, pass.micro_batch) =
              here.back().end;
        moved = true;
      }
    }
  }
  for (size_t stage = 0; stage < orders.size(); ++stage)
    if (placed[stage].size() < orders[stage].size())
      throw_internal("stages of a pipeline wait for each other");
  return placed;
}

}  // namespace orrery
