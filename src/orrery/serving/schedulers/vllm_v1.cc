#include <algorithm>

#include "orrery/serving/scheduler.h"

namespace orrery {
namespace {

class VllmV1 final : public Scheduler {
 public:
  SchedulerOptions configure(const SchedulerOptions& options) override {
    SchedulerOptions defaults;
    defaults.max_batched_tokens = 2048;
    defaults.max_seqs = 1024;
    defaults.chunk_size = INT32_MAX;
    defaults.watermark = 0;
    defaults.prefix_caching = true;
    options_ = with_defaults(options, defaults);
    return options_;
  }

  KvCacheOptions cache() const override { return {*options_.prefix_caching, true}; }

  bool fits(const KvRoom& room, int64_t prompt, int64_t output) const override {
    return room.needed(prompt + output - 1 + options_.draft_tokens) <= room.blocks;
  }

  void schedule(EngineRank& rank) override {
    int64_t budget = options_.max_batched_tokens;
    for (size_t i = 0; i < rank.running.size() && budget > 0; ++i) {
      const uint32_t slot = rank.running[i];
      const Sequence& s = rank.sequences[slot];
      if (s.in_flight) continue;
      const int32_t wanted = rank.wanted(s);
      const int32_t tokens = s.decoding() ? cut(wanted, budget) : chunk(wanted, budget);
      if (rank.schedule(slot, tokens)) {
        budget -= tokens;
        continue;
      }
      const bool scheduled = rank.schedule_by_force(i, tokens);
      budget = options_.max_batched_tokens - rank.batch_tokens();
      if (!scheduled) break;
    }
    if (!rank.preempted.empty()) return;
    while (!rank.waiting.empty() && budget > 0 &&
           static_cast<int64_t>(rank.running.size()) < options_.max_seqs) {
      if (!options_.first_chunk && !rank.first_fits()) break;
      const Sequence& s = rank.sequences[rank.waiting.front()];
      const int32_t tokens = chunk(rank.to_compute(s), budget);
      if (!rank.admit_first(tokens)) break;
      budget -= tokens;
    }
  }

  /// Where a chunk is enough: what the first who waits would find may be evicted, and a chunk of it
  /// then need less. For all of its tokens it needs more then, and so stays where it is.
  int64_t alike_steps(const EngineRank& rank) const override {
    if (rank.waiting.empty() || !options_.first_chunk) return std::numeric_limits<int64_t>::max();
    const Sequence& s = rank.sequences[rank.waiting.front()];
    const bool finds = s.received == 0 && rank.to_compute(s) < s.tokens();
    return finds ? 0 : std::numeric_limits<int64_t>::max();
  }

 private:
  static int32_t cut(int32_t tokens, int64_t budget) {
    return static_cast<int32_t>(std::min<int64_t>(tokens, budget));
  }
  int32_t chunk(int32_t tokens, int64_t budget) const {
    return cut(tokens, std::min(budget, options_.chunk_size));
  }

  SchedulerOptions options_;
};

const Registration<Scheduler> kVllmV1(
    {.name = "vllm-v1",
     .summary = "One budget of tokens a step: first those who run, each its next token or the next "
                "chunk of its prompt, then those who wait, if there is room for all of their "
                "tokens; without blocks the last admitted is thrown out and computed again",
     .source = "vLLM 0.19, vllm/v1/core/sched/scheduler.py",
     .parameters = {{"max_batched_tokens", 2048,
                     "tokens of a step, unless the engine says another number for the "
                     "device (data/serving/vllm.yaml)",
                     true},
                    {"max_seqs", 1024, "sequences that run; the same", true},
                    {"chunk_size", INT32_MAX,
                     "tokens of one prompt in a step: vLLM's long_prefill_token_threshold", true},
                    {"first_chunk", 0,
                     "1: room for a chunk is enough (scheduler_reserve_full_isl=False)", true}}},
    [] { return std::make_unique<VllmV1>(); });

}  // namespace
}  // namespace orrery
