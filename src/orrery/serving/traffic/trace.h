#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "orrery/base/source.h"
#include "orrery/serving/traffic/lengths.h"
#include "orrery/serving/traffic/source.h"

namespace orrery {

/// A request that was seen somewhere.
struct TraceRow {
  Seconds arrival;
  RequestLengths lengths;
};

struct Trace {
  std::vector<TraceRow> rows;  ///< In order of arrival, the first at 0.
  bool timed = false;          ///< Whether it says when requests arrived.
};

/// Reads a table of requests, one a line:
///
/// - CSV with the columns `arrived_at` or `arrival_s` (seconds) or `TIMESTAMP` (date and time),
///   `num_prefill_tokens`, `ContextTokens` or `input_tokens`, and `num_decode_tokens`,
///   `GeneratedTokens` or `output_tokens`: Orrery's own and VIDUR's, the Azure traces', and those
///   of vLLM runs;
/// - JSON lines with `prompt_len`, `input_tokens`, `input_length` or `input_toks`, with
///   `output_len`, `expected_output_len`, `output_tokens`, `output_length` or `output_toks`, and
///   with `arrival_s`, `arrived_at`, `timestamp` (milliseconds) or `arrival_time_ns`: those of
///   vLLM's benchmark, Mooncake and LLMServingSim.
///
/// Without a time all arrive at once. Throws `kInput` with line and column for what is neither.
Trace read_trace(const Source& source);

struct TraceReplay {
  double speed = 1;   ///< Times the rate at which it was seen.
  int64_t count = 0;  ///< Requests: the first ones, or the trace again and again; 0: once.
};

/// Sends the trace's requests at their times. Throws `kUsage` where it has none.
std::unique_ptr<RequestSource> make_replay(std::shared_ptr<const Trace> trace,
                                           const TraceReplay& replay = {});

/// The trace's lengths, to draw from.
std::vector<RequestLengths> lengths_of(const Trace& trace);

}  // namespace orrery
