#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "orrery/base/units.h"

namespace orrery {

/// Tokens of one prompt that a step computes, after `context` of the same sequence whose keys and
/// values are there already.
struct PrefillChunk {
  int64_t tokens = 0;
  int64_t context = 0;
  bool last = false;  ///< Its last token's logits are sampled.
};

/// What one rank of an engine computes in one step.
struct StepShape {
  std::span<const PrefillChunk> prefills;
  int64_t decodes = 0;            ///< Sequences that get their next token, …
  int64_t tokens_per_decode = 1;  ///< … each by so many tokens (more than one: speculation).
  int64_t decode_context = 0;     ///< Σ of the tokens they look at, the new one included, …
  int64_t windowed_context = 0;   ///< … at most StepTimes::window() each, …
  int64_t longest_decode = 0;     ///< … and the most that one of them looks at.
  /// Tokens of all ranks that share the experts (data-parallel attention); 0: its own alone.
  int64_t group_tokens = 0;
  int64_t fullest_rank = 0;  ///< … and those of the rank that has most.
  int64_t adapters = 0;      ///< Different ones (LoRA) that its sequences ask for.

  int64_t prefill_tokens() const {
    int64_t sum = 0;
    for (const PrefillChunk& chunk : prefills) sum += chunk.tokens;
    return sum;
  }
  int64_t tokens() const { return prefill_tokens() + decodes * tokens_per_decode; }
};

/// How long a step takes.
struct StepTime {
  Seconds device;  ///< Of the slowest pipeline stage.
  Seconds host;    ///< Of the engine's own loop: beside the device where it schedules ahead.
  /// Of the host to launch it kernel by kernel, within `device`; 0: a graph.
  Seconds launch = Seconds(0);

  /// From one step to the next, of an engine that prepares it while the device computes the one
  /// before, or of one that does not.
  Seconds duration(bool asynchronous) const {
    return asynchronous ? std::max(device, launch + host) : device + host;
  }
};

/// A step that only decodes, and those after it in which the same sequences do.
struct StepLine {
  StepTime first;
  Seconds slope = Seconds(0);  ///< What `device` gains from each to the next.
  int64_t steps = 1;           ///< For which that holds, with the first.
};

/// What a simulated engine asks about its steps. Thread-safe; the same question has the same
/// answer.
class StepTimes {
 public:
  virtual ~StepTimes() = default;
  virtual StepTime of(const StepShape& shape) const = 0;
  /// The same for steps that follow one another, of a replica with one rank: each sequence looks
  /// at one token more in each, and `growing` of them in windowed layers too.
  virtual StepLine ahead(const StepShape& shape, int64_t /*growing*/) const { return {of(shape)}; }
  /// Of the last such steps so many did not come to pass.
  virtual void not_taken(int64_t /*steps*/) const {}
  /// Tokens that windowed layers look at; 0: there are none.
  virtual int64_t window() const { return 0; }
  /// Stages that a step passes through, each taking `StepTime::device`.
  virtual int pipeline() const { return 1; }
};

/// Room for keys and values on one rank, in blocks. A sequence of n tokens takes
///
///   ceil(n / tokens) + ceil(windowed · ceil(min(n, window) / tokens)) + fixed
///
/// of them, where layers that look at all tokens set the size of a block.
struct KvRoom {
  int64_t blocks = 0;   ///< That there are.
  int64_t tokens = 16;  ///< Of a block.
  double windowed = 0;  ///< Size of windowed layers over that of the others.
  int64_t window = 0;
  int64_t fixed = 0;  ///< State of linear attention and the like.

  int64_t needed(int64_t n) const;
};

}  // namespace orrery
