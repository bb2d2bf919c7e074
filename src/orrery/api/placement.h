#pragma once

#include <span>

namespace orrery {

/// Launches that a host queues and one stream runs, in order: `count` alike in a row.
struct QueuedWork {
  double count = 1;
  double kernel_s = 0;    ///< Of one.
  double gap_s = 0;       ///< The stream rests this long after each.
  double dispatch_s = 0;  ///< The host takes this long to queue each.
};

/// Where they run, from the moment the host begins to queue the step.
struct PlacedWork {
  double start_s = 0, end_s = 0;            ///< On the stream; of several, with the gaps between.
  double host_start_s = 0, host_end_s = 0;  ///< On the host.
};

/// Places one of many steps that follow each other, each `step_s` long. A kernel
/// begins once the stream is free and its dispatch is done:
///   start(i) = max(start(i−1) + kernel(i−1) + gap(i−1), host_end(i)).
/// In the steady state the host works ahead of the stream, by as little as lets the
/// stream finish within its step:
///   lead = max(0, max over i of (Σ_{j≤i} dispatch(j) + Σ_{j≥i} (kernel(j) + gap(j))) − step).
/// With step = max(Σ (kernel + gap), Σ dispatch) both the stream and the host then do a
/// step's work in exactly `step_s`. Gives the lead: the stream's step runs from it to
/// lead + step_s. `placed` is as long as `work`.
double place_step(std::span<const QueuedWork> work, double step_s, std::span<PlacedWork> placed);

}  // namespace orrery
