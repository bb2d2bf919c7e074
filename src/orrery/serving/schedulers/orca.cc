#include <algorithm>

#include "orrery/serving/scheduler.h"

namespace orrery {
namespace {

class Orca final : public Scheduler {
 public:
  SchedulerOptions configure(const SchedulerOptions& options) override {
    SchedulerOptions defaults;
    defaults.max_seqs = 128;
    defaults.watermark = 0;
    defaults.prefix_caching = false;
    options_ = with_defaults(options, defaults);
    return options_;
  }

  KvCacheOptions cache() const override { return {*options_.prefix_caching, true}; }

  bool fits(const KvRoom& room, int64_t prompt, int64_t output) const override {
    return room.needed(reserve(prompt, output)) <= room.blocks;
  }

  void schedule(EngineRank& rank) override {
    rank.decode_all();
    while (!rank.waiting.empty() && static_cast<int64_t>(rank.running.size()) < options_.max_seqs) {
      const Sequence& s = rank.sequences[rank.waiting.front()];
      if (!rank.admit_first(rank.to_compute(s), 0, reserve(s.prompt, s.output))) break;
    }
  }

 private:
  int64_t reserve(int64_t prompt, int64_t output) const {
    return std::max(options_.max_length, prompt + output - 1) + options_.draft_tokens;
  }

  SchedulerOptions options_;
};

const Registration<Scheduler> kOrca(
    {.name = "orca",
     .summary = "Each step whole prompts of newcomers beside the decodes of all others; a request "
                "is admitted when there is room for the longest it may become",
     .source = "Yu et al., Orca: a distributed serving system for transformer-based generative "
               "models, OSDI 2022",
     .parameters = {{"max_seqs", 128, "sequences that run, VIDUR's limit", true},
                    {"max_length", 0, "tokens reserved for each; 0: its own prompt and output",
                     true}}},
    [] { return std::make_unique<Orca>(); });

}  // namespace
}  // namespace orrery
