#pragma once

#include <cstdint>
#include <memory>

#include "orrery/serving/traffic/arrivals.h"

namespace orrery {

/// Users who send one request after another, each when the one before has ended.
struct ClosedLoop {
  int64_t concurrency = 1;  ///< Users.
  int64_t count = 1;        ///< Requests in all.
  Seconds ramp;             ///< Users begin evenly over it.
};
/// Throws `kUsage` where there is nobody, or nothing to ask.
std::unique_ptr<RequestSource> make_closed_loop(const ClosedLoop& loop, LengthSampler lengths,
                                                uint64_t seed, SharedPrefixes prefixes = {});

/// Conversations of several turns: each turn's prompt is all that was said before and something
/// new. With a person the pause is to read and write, with an agent it is a tool at work.
struct Conversations {
  ArrivalProcess begin;   ///< Of conversations.
  int64_t count = 1;      ///< Of conversations.
  double mean_turns = 4;  ///< Geometric, 1 at least.
  Seconds mean_pause{10};
  double pause_variation = 1;  ///< Coefficient of variation; gamma.
  int64_t longest = 131072;    ///< Tokens after which a conversation ends.
};
/// `lengths` draws what a turn adds: its new prompt tokens and its output.
std::unique_ptr<RequestSource> make_conversations(const Conversations& conversations,
                                                  LengthSampler lengths, uint64_t seed,
                                                  SharedPrefixes prefixes = {});

}  // namespace orrery
