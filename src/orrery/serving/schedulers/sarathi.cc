#include <algorithm>

#include "orrery/serving/scheduler.h"

namespace orrery {
namespace {

class Sarathi final : public Scheduler {
 public:
  SchedulerOptions configure(const SchedulerOptions& options) override {
    SchedulerOptions defaults;
    defaults.chunk_size = 512;
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
    rank.decode_all();
    int64_t budget = options_.chunk_size - rank.batch_tokens();
    for (size_t i = 0; i < rank.running.size() && budget > 0; ++i) {
      const Sequence& s = rank.sequences[rank.running[i]];
      if (s.in_flight || s.decoding()) continue;
      const auto tokens = static_cast<int32_t>(std::min<int64_t>(s.pending(), budget));
      // Its blocks were taken when it was admitted.
      if (!rank.schedule(rank.running[i], tokens)) break;
      budget -= tokens;
    }
    if (!rank.preempted.empty()) return;
    while (!rank.waiting.empty() && budget > 0 &&
           static_cast<int64_t>(rank.running.size()) < options_.max_seqs) {
      const Sequence& s = rank.sequences[rank.waiting.front()];
      const auto tokens = static_cast<int32_t>(std::min<int64_t>(rank.to_compute(s), budget));
      if (!rank.admit_first(tokens, options_.spare(rank.kv.room()), s.tokens())) break;
      budget -= tokens;
    }
  }

 private:
  SchedulerOptions options_;
};

const Registration<Scheduler> kSarathi(
    {.name = "sarathi",
     .summary = "All decodes, then chunks of prompts until the step has its number of tokens; a "
                "prompt's blocks are taken when it is admitted",
     .source = "Agrawal et al., Taming throughput-latency tradeoff in LLM inference with "
               "Sarathi-Serve, OSDI 2024; VIDUR, whose limits these are",
     .parameters = {{"chunk_size", 512, "tokens of a step, decodes included", true},
                    {"max_seqs", 128, "sequences that run", true},
                    {"watermark", 0.01, "share of the blocks that admission leaves free", true}}},
    [] { return std::make_unique<Sarathi>(); });

}  // namespace
}  // namespace orrery
