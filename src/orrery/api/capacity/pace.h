#pragma once

#include "orrery/api/capacity.h"

namespace orrery {

/// Requests as engines see them, on average, and what a step may take.
struct PaceQuestion {
  double prompt = 1, output = 1;  ///< Tokens of a request.
  int64_t max_batched_tokens = 0;
  int64_t max_seqs = 0;
  bool asynchronous = true;  ///< As ReplicaOptions.
  ServiceLevel promise;
};

/// What the step times of one engine allow, in a steady state where all requests are alike.
struct EnginePace {
  /// Requests a second that it answers. With n sequences decoding on each rank, n / output of them
  /// end in a step and as many prompts begin, so that
  ///
  ///   requests = ranks · n / output / (mean step of n decodes and n · prompt / output tokens of
  ///   prompts),
  ///
  /// for the n that gives most of those whose step keeps the promised time per token and whose keys
  /// and values have room.
  double requests = 0;
  double under_way = 0;  ///< Sequences at that n, of all ranks and stages.
  double prompts = 0;    ///< A second, where it computes nothing else, …
  double answers = 0;    ///< … and answers after their first token, likewise.
};

EnginePace pace_of(const ServingEngine& engine, const ServingLayout& layout,
                   const PaceQuestion& asked);

}  // namespace orrery
