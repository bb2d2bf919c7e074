#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "orrery/base/source.h"
#include "orrery/serving/traffic/lengths.h"
#include "orrery/serving/traffic/source.h"

namespace orrery {

/// A request that was seen somewhere.
struct TraceRow {
  Seconds arrival;
  RequestLengths lengths;
  int32_t priority = 0;  ///< As of a Request.
};

struct Trace {
  std::vector<TraceRow> rows;  ///< In order of arrival, the first at 0.
  bool timed = false;          ///< Whether it says when requests arrived.
  bool counted = false;        ///< Tokens of text in it were counted by its bytes.
  int64_t unanswered = 0;      ///< Conversations that were left out: they have no answer.

  /// What it does not say itself, in words; as the `arrivals` of a run, or for its lengths alone.
  std::vector<std::string> gaps(bool arrivals) const;
};

/// Reads a table of requests, one a line:
///
/// - CSV with a column `arrived_at`, `arrival_s`, `arrival_time`, `arrival` or `timestamp`, in
///   capitals or not (seconds, or date and time), `num_prefill_tokens`, `ContextTokens` or
///   `input_tokens`, and `num_decode_tokens`, `GeneratedTokens` or `output_tokens`: Orrery's own
///   and VIDUR's, the Azure traces', and those of vLLM runs;
/// - JSON lines with `prompt_len`, `input_tokens`, `input_length` or `input_toks`, with
///   `output_len`, `expected_output_len`, `output_tokens`, `output_length` or `output_toks`, and
///   with `arrival_s`, `arrived_at`, `arrival_time`, `arrival` (seconds), `timestamp`
///   (milliseconds) or `arrival_time_ns`: those of vLLM's benchmark, Mooncake and LLMServingSim;
/// - JSON lines whose lengths are text, `prompt` and `output`, `completion` or `response`, or
///   ShareGPT's `conversations`, of which the first two turns count, as in vLLM's benchmark: four
///   bytes are a token, and there is one at least. Conversations of one turn are left out;
/// - a JSON array of such objects.
///
/// A `priority`, a whole number, is the request's. Without a time all arrive at once. Throws
/// `kInput` with line and column for what is neither.
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
