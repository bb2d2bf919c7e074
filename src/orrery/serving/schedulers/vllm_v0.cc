#include <algorithm>

#include "orrery/serving/scheduler.h"

namespace orrery {
namespace {

class VllmV0 final : public Scheduler {
 public:
  SchedulerOptions configure(const SchedulerOptions& options) override {
    SchedulerOptions defaults;
    defaults.max_batched_tokens = 4096;
    defaults.max_seqs = 128;
    defaults.watermark = 0.01;
    defaults.prefix_caching = false;
    options_ = with_defaults(options, defaults);
    return options_;
  }

  KvCacheOptions cache() const override { return {*options_.prefix_caching, true}; }

  bool fits(const KvRoom& room, int64_t prompt, int64_t output) const override {
    return room.needed(prompt + output - 1 + options_.draft_tokens) + options_.spare(room) <=
           room.blocks;
  }

  void schedule(EngineRank& rank) override {
    int64_t budget = options_.max_batched_tokens;
    while (!rank.waiting.empty() && static_cast<int64_t>(rank.running.size()) < options_.max_seqs) {
      const int32_t tokens = rank.to_compute(rank.sequences[rank.waiting.front()]);
      // A prompt longer than a step may be has one of its own.
      if (tokens > budget && !rank.batch.empty()) break;
      if (!rank.admit_first(tokens, options_.spare(rank.kv.room()))) break;
      budget -= tokens;
    }
    if (rank.batch.empty()) rank.decode_all();
  }

 private:
  SchedulerOptions options_;
};

const Registration<Scheduler> kVllmV0(
    {.name = "vllm-v0",
     .summary = "Whole prompts first, as many as one step takes while a share of the blocks stays "
                "free; decodes when there are none; without blocks the last admitted starts again",
     .source = "Kwon et al., SOSP 2023; VIDUR (Agrawal et al., MLSys 2024), whose limits these are",
     .parameters = {{"max_batched_tokens", 4096, "prompt tokens of a step", true},
                    {"max_seqs", 128, "sequences that run", true},
                    {"watermark", 0.01, "share of the blocks that admission leaves free", true}}},
    [] { return std::make_unique<VllmV0>(); });

}  // namespace
}  // namespace orrery
