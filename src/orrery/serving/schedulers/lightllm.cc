#include <algorithm>
#include <utility>

#include "orrery/serving/scheduler.h"

namespace orrery {
namespace {

constexpr int64_t kDecodesBetween = 10;

class LightLlm final : public Scheduler {
 public:
  SchedulerOptions configure(const SchedulerOptions& options) override {
    SchedulerOptions defaults;
    defaults.max_batched_tokens = 4096;
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
    if (rank.running.empty()) {
      admit(rank);
      if (!rank.batch.empty()) decodes_ = 0;
      return;
    }
    if (decodes_ >= kDecodesBetween) {
      decodes_ = 0;
      admit(rank);
      if (!rank.batch.empty()) return;
    }
    rank.decode_all();
    ++decodes_;
  }

  int64_t alike_steps(const EngineRank& rank) const override {
    return rank.waiting.empty() ? std::numeric_limits<int64_t>::max() : kDecodesBetween - decodes_;
  }
  void repeated(int64_t steps) override { decodes_ = (decodes_ + steps - 1) % kDecodesBetween + 1; }

 private:
  /// In tokens of the cache.
  struct Need {
    int64_t held = 0;
    int64_t left = 0;  ///< That it will still take.
  };

  Need need(const KvRoom& room, const Sequence& s) const {
    // Of blocks that are larger than a token the last may be almost empty, and what windows and
    // state take comes on top.
    const int64_t beside = room.needed(1) - 1 + room.needed(room.window) - blocks(room);
    const int64_t waste = room.tokens - 1 + beside * room.tokens;
    return {s.tokens() + options_.draft_tokens + waste, s.output - s.generated - 1};
  }
  static int64_t blocks(const KvRoom& room) {
    return room.fixed + (room.window + room.tokens - 1) / room.tokens;
  }

  void admit(EngineRank& rank) {
    const KvRoom& room = rank.kv.room();
    needs_.clear();
    for (const uint32_t slot : rank.running) needs_.push_back(need(room, rank.sequences[slot]));
    int64_t budget = options_.max_batched_tokens;
    while (!rank.waiting.empty() && static_cast<int64_t>(rank.running.size()) < options_.max_seqs) {
      const Sequence& s = rank.sequences[rank.waiting.front()];
      const int32_t tokens = rank.to_compute(s);
      if (tokens > budget && !rank.batch.empty()) return;
      needs_.push_back(need(room, s));
      if (!rank.running.empty() && !enough(room)) return;
      if (!rank.admit_first(tokens)) return;
      budget -= tokens;
    }
  }

  /// Whether all can go on to their ends: when one ends, those with more to come have grown by as
  /// many tokens as it had left.
  bool enough(const KvRoom& room) {
    std::sort(needs_.begin(), needs_.end(),
              [](const Need& a, const Need& b) { return a.left > b.left; });
    int64_t held = 0;
    int64_t growing = 0;
    for (const Need& n : needs_) {
      held += n.held;
      ++growing;
      if (held + growing * n.left > room.blocks * room.tokens) return false;
    }
    return true;
  }

  SchedulerOptions options_;
  int64_t decodes_ = 0;  ///< Since newcomers were looked at.
  std::vector<Need> needs_;
};

const Registration<Scheduler> kLightLlm(
    {.name = "lightllm",
     .summary = "Every tenth step, or when nobody runs, whole prompts of those with whom all could "
                "go on to their ends: max over i of Σ_{j ≤ i} (held_j + left_i) ≤ capacity, by "
                "left_i from the longest down",
     .source = "LightLLM, token attention and efficient router; VIDUR, whose limits these are",
     .parameters = {{"max_batched_tokens", 4096, "prompt tokens of a step", true},
                    {"max_seqs", 128, "sequences that run", true}}},
    [] { return std::make_unique<LightLlm>(); });

}  // namespace
}  // namespace orrery
