#include <algorithm>

#include "orrery/serving/scheduler.h"

namespace orrery {
namespace {

class TrtLlm final : public Scheduler {
 public:
  SchedulerOptions configure(const SchedulerOptions& options) override {
    chunked_ = options.chunk_size > 0;
    SchedulerOptions defaults;
    defaults.max_batched_tokens = 8192;
    defaults.max_seqs = 2048;
    defaults.watermark = 0;
    defaults.prefix_caching = true;
    options_ = with_defaults(options, defaults);
    return options_;
  }

  KvCacheOptions cache() const override { return {*options_.prefix_caching, false}; }

  bool fits(const KvRoom& room, int64_t prompt, int64_t output) const override {
    if (!chunked_ && prompt > options_.max_batched_tokens) return false;
    return room.needed(prompt + output - 1 + options_.draft_tokens) <= room.blocks;
  }

  void schedule(EngineRank& rank) override {
    rank.decode_all();
    int64_t budget = options_.max_batched_tokens - rank.batch_tokens();
    for (size_t i = 0; i < rank.running.size() && budget > 0; ++i) {
      const Sequence& s = rank.sequences[rank.running[i]];
      if (s.in_flight || s.decoding()) continue;
      const int32_t tokens = chunk(s.pending(), budget);
      if (!rank.schedule(rank.running[i], tokens)) break;
      budget -= tokens;
    }
    if (!rank.preempted.empty()) return;
    while (!rank.waiting.empty() && budget > 0 &&
           static_cast<int64_t>(rank.running.size()) < options_.max_seqs) {
      const Sequence& s = rank.sequences[rank.waiting.front()];
      const int32_t whole = rank.to_compute(s);
      const int32_t tokens = chunk(whole, budget);
      // What was paused may have become longer than a step; then it has one of its own.
      if (!chunked_ && whole > budget && !rank.batch.empty()) break;
      const int64_t reserve = options_.max_utilization
                                  ? s.tokens()
                                  : int64_t{s.prompt} + s.output - 1 + options_.draft_tokens;
      if (!rank.admit_first(tokens, 0, reserve)) break;
      budget -= tokens;
    }
  }

 private:
  int32_t chunk(int32_t tokens, int64_t budget) const {
    if (!chunked_) return tokens;
    return static_cast<int32_t>(std::min({int64_t{tokens}, budget, options_.chunk_size}));
  }

  SchedulerOptions options_;
  bool chunked_ = false;
};

const Registration<Scheduler> kTrtLlm(
    {.name = "trtllm",
     .summary = "In-flight batching: all decodes, then prompts within the tokens of a step; admits "
                "who finds blocks for prompt and output to the end (GUARANTEED_NO_EVICT), or with "
                "max_utilization for the prompt alone, pausing the last admitted when blocks run "
                "out",
     .source = "TensorRT-LLM 1.0, capacity and micro batch schedulers",
     .parameters = {{"max_batched_tokens", 8192, "tokens of a step: max_num_tokens", true},
                    {"max_seqs", 2048, "sequences that run: max_batch_size", true},
                    {"chunk_size", 0, "tokens of one prompt in a step; 0: prompts are not chunked",
                     true},
                    {"max_utilization", 0, "1: MAX_UTILIZATION", true}}},
    [] { return std::make_unique<TrtLlm>(); });

}  // namespace
}  // namespace orrery
