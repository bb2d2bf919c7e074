#pragma once

#include <string>

#include "orrery/api/session.h"
#include "orrery/api/train.h"

namespace orrery {

/// The timeline of an answer as a trace that ui.perfetto.dev and chrome://tracing open
/// (Trace Event Format, JSON): the device with the step, the model's parts and its stream,
/// the host with its dispatches, and the memory held where the answer has it. Times are in
/// microseconds, rounded to nanoseconds.
std::string perfetto_trace(const PredictAnswer& answer, const PredictRequest& request);

/// A replay's timeline in the same format: a process a rank, in it the host, the compute
/// units, communication and messages that are waited for beside it.
std::string perfetto_trace(const ReplayAnswer& answer, const ReplayRequest& request);

/// A training step: a process for a rank of each pipeline stage, in it what computes, traffic of
/// its layers, transfers to other stages, and traffic of data ranks. Of long steps the middle is
/// left out and says so.
std::string perfetto_trace(const TrainAnswer& answer, const TrainRequest& request);

/// A serving run in the same format: a process an engine with its steps, one with the requests
/// (waiting, prompt, answer; the first thousands) and counters of queue and cache.
std::string perfetto_trace(const ServingAnswer& answer, const ServingRequest& request);

}  // namespace orrery
