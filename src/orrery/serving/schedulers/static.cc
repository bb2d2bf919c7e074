#include "orrery/serving/scheduler.h"

namespace orrery {
namespace {

class Static final : public Scheduler {
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
    return room.needed(prompt + output - 1 + options_.draft_tokens) <= room.blocks;
  }

  void schedule(EngineRank& rank) override {
    if (!rank.running.empty()) {
      rank.decode_all();
      return;
    }
    while (!rank.waiting.empty() && static_cast<int64_t>(rank.running.size()) < options_.max_seqs) {
      const Sequence& s = rank.sequences[rank.waiting.front()];
      const int64_t reserve = int64_t{s.prompt} + s.output - 1 + options_.draft_tokens;
      if (!rank.admit_first(rank.to_compute(s), 0, reserve)) break;
    }
  }

 private:
  SchedulerOptions options_;
};

const Registration<Scheduler> kStatic(
    {.name = "static",
     .summary = "A batch of those who wait runs until the last of them has ended; only then the "
                "next one begins",
     .source = "NVIDIA FasterTransformer; VIDUR, whose limit this is",
     .parameters = {{"max_seqs", 128, "sequences of a batch", true}}},
    [] { return std::make_unique<Static>(); });

}  // namespace
}  // namespace orrery
