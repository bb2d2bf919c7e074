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
    defaults.wait_share = 1;
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
    waits_ = waits(rank);
    if (waits_) {
      ++waited_;
      return;
    }
    const size_t decodes = rank.batch.size();
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
    // Who finds no room has waited long enough when there is some.
    if (rank.batch.size() > decodes || rank.waiting.empty()) waited_ = 0;
  }

  int64_t alike_steps(const EngineRank& rank) const override {
    if (waits_) return options_.wait_steps - waited_;
    if (!rank.waiting.empty() && waited_ < options_.wait_steps) return 0;
    return Scheduler::alike_steps(rank);
  }
  void repeated(int64_t steps) override {
    if (waits_) waited_ += steps;
  }

 private:
  /// Whether prompts let the others decode a while longer.
  bool waits(const EngineRank& rank) const {
    if (waited_ >= options_.wait_steps || rank.batch.empty()) return false;
    const double enough = options_.wait_share * static_cast<double>(options_.max_batched_tokens);
    int64_t tokens = rank.batch_tokens();
    bool prompts = false;
    for (const uint32_t slot : rank.running) {
      const Sequence& s = rank.sequences[slot];
      if (s.in_flight || s.decoding()) continue;
      prompts = true;
      tokens += s.pending();
    }
    rank.waiting.for_each([&](uint32_t slot) {
      prompts = true;
      tokens += rank.sequences[slot].tokens();
      return static_cast<double>(tokens) < enough;
    });
    return prompts && static_cast<double>(tokens) < enough;
  }

  int32_t chunk(int32_t tokens, int64_t budget) const {
    if (!chunked_) return tokens;
    return static_cast<int32_t>(std::min({int64_t{tokens}, budget, options_.chunk_size}));
  }

  SchedulerOptions options_;
  bool chunked_ = false;
  bool waits_ = false;
  int64_t waited_ = 0;  ///< Steps, since a prompt was last admitted.
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
                    {"max_utilization", 0, "1: MAX_UTILIZATION", true},
                    {"wait_steps", 0,
                     "steps that prompts wait for others to decode: batch_wait_timeout_iters",
                     true},
                    {"wait_share", 1,
                     "… until a step would have this share of its tokens: "
                     "batch_wait_max_tokens_ratio",
                     true}}},
    [] { return std::make_unique<TrtLlm>(); });

}  // namespace
}  // namespace orrery
