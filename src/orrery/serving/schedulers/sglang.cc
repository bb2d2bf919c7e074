#include <algorithm>

#include "orrery/serving/scheduler.h"

namespace orrery {
namespace {

// Of SGLang's scheduler: what a running request is taken to still generate, as a share of the most
// it may, falls from the first to the least over so many decodes.
constexpr double kFirstRatio = 0.7;
constexpr double kLeastRatio = 0.7 * 0.14;
constexpr double kDecaySteps = 600;
constexpr int64_t kMostForeseen = 4096;  ///< Tokens of one request.
constexpr int64_t kStepsAfterRetreat = 20;

class Sglang final : public Scheduler {
 public:
  SchedulerOptions configure(const SchedulerOptions& options) override {
    SchedulerOptions defaults;
    defaults.max_batched_tokens = 16384;
    defaults.chunk_size = 8192;
    defaults.max_seqs = 2048;
    defaults.watermark = 0;
    defaults.prefix_caching = true;
    options_ = with_defaults(options, defaults);
    return options_;
  }

  KvCacheOptions cache() const override { return {*options_.prefix_caching, false}; }

  bool fits(const KvRoom& room, int64_t prompt, int64_t output) const override {
    return room.needed(prompt + output - 1 + options_.draft_tokens) <= room.blocks;
  }

  void schedule(EngineRank& rank) override {
    if (rank.running.size() < running_) full_ = false;
    if (rank.running.empty()) {
      full_ = false;
      start_ratio_ = kFirstRatio;
      decodes_ = 0;
    }
    const size_t running = rank.running.size();
    prefill(rank);
    if (rank.batch.empty())
      decode(rank);
    else if (options_.mixed)
      decode_beside(rank, running);
    running_ = rank.running.size();
  }

  void repeated(int64_t steps) override { decodes_ += steps; }

 private:
  double ratio() const {
    const double decay = (kFirstRatio - kLeastRatio) / kDecaySteps;
    return std::max(kLeastRatio, start_ratio_ - decay * static_cast<double>(decodes_));
  }

  void prefill(EngineRank& rank) {
    int64_t input = options_.max_batched_tokens;
    int64_t chunk = options_.chunk_size;
    for (const uint32_t slot : rank.running) {
      const Sequence& s = rank.sequences[slot];
      if (s.decoding()) continue;
      if (s.in_flight) return;
      const auto tokens = static_cast<int32_t>(std::min<int64_t>(s.pending(), chunk));
      if (!rank.schedule(slot, tokens)) continue;
      input -= tokens;
      chunk -= tokens;
    }
    if (full_ || rank.waiting.empty() || chunk <= 0) return;
    const KvRoom& room = rank.kv.room();
    double left = static_cast<double>(rank.kv.free() * room.tokens);
    for (const uint32_t slot : rank.running) left -= ratio() * foreseen(rank.sequences[slot]);
    while (!rank.waiting.empty() && input > 0 && chunk > 0) {
      if (static_cast<int64_t>(rank.running.size()) >= options_.max_seqs) {
        full_ = true;
        return;
      }
      const Sequence& s = rank.sequences[rank.waiting.front()];
      const int32_t whole = rank.to_compute(s);
      const double total = whole + foreseen(s);
      // Who finds the engine empty has all of it.
      if (total >= left && !rank.running.empty()) {
        full_ = true;
        return;
      }
      if (whole > input && !rank.batch.empty()) return;
      const auto tokens = static_cast<int32_t>(std::min<int64_t>(whole, chunk));
      if (!rank.admit_first(tokens, 0, s.tokens())) {
        full_ = true;
        return;
      }
      left -= total;
      input -= tokens;
      chunk -= tokens;
    }
  }

  static double foreseen(const Sequence& s) {
    return static_cast<double>(std::min<int64_t>(s.output - s.generated, kMostForeseen));
  }

  void decode(EngineRank& rank) {
    while (rank.running.size() > 1 && !room_to_decode(rank)) retreat(rank);
    rank.decode_all();
    ++decodes_;
  }

  /// The first `count` of those who run, beside prompts; who finds no room waits.
  static void decode_beside(EngineRank& rank, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const Sequence& s = rank.sequences[rank.running[i]];
      if (!s.in_flight && s.decoding()) rank.schedule(rank.running[i], rank.decode_tokens);
    }
  }

  static bool room_to_decode(const EngineRank& rank) {
    int64_t blocks = 0;
    for (const uint32_t slot : rank.running) {
      const Sequence& s = rank.sequences[slot];
      if (!s.in_flight && s.decoding())
        blocks += rank.kv.growth(s.holding, s.computed + rank.decode_tokens);
    }
    return blocks <= rank.kv.free();
  }

  /// Throws out who has got the fewest tokens, of those the longest prompt.
  void retreat(EngineRank& rank) {
    size_t victim = 0;
    for (size_t i = 1; i < rank.running.size(); ++i) {
      const Sequence& s = rank.sequences[rank.running[i]];
      const Sequence& least = rank.sequences[rank.running[victim]];
      if (std::pair(s.generated, -s.prompt) <= std::pair(least.generated, -least.prompt))
        victim = i;
    }
    rank.preempt(victim, true);
    double got = 0;
    double most = 1;
    for (const uint32_t slot : rank.running) {
      const Sequence& s = rank.sequences[slot];
      got += s.generated + static_cast<double>(kStepsAfterRetreat);
      most += s.output;
    }
    start_ratio_ = std::min(1.0, got / most);
    decodes_ = 0;
    full_ = false;
  }

  SchedulerOptions options_;
  double start_ratio_ = kFirstRatio;
  int64_t decodes_ = 0;  ///< Since the ratio was set.
  bool full_ = false;    ///< Nobody is admitted before somebody has gone.
  size_t running_ = 0;
};

const Registration<Scheduler> kSglang(
    {.name = "sglang",
     .summary = "Prompts first, in chunks, without decodes unless mixed; admits who fits beside "
                "what the others "
                "are taken to generate still: prompt + output < free − Σ ratio · left; without "
                "room who has got the fewest tokens starts again; prefixes in a radix tree",
     .source = "SGLang 0.5, python/sglang/srt/managers/scheduler.py and schedule_policy.py",
     .parameters = {{"chunk_size", 8192, "prompt tokens of a step: chunked_prefill_size", true},
                    {"max_batched_tokens", 16384, "the same of whole prompts: max_prefill_tokens",
                     true},
                    {"max_seqs", 2048, "sequences that run: max_running_requests", true},
                    {"mixed", 0, "1: a step with prompts decodes too: enable_mixed_chunk", true},
                    {"poll_steps", 1, "decodes between looks for requests: scheduler_recv_interval",
                     true},
                    {"first_ratio", kFirstRatio, "new_token_ratio after a pause", false},
                    {"least_ratio", kLeastRatio, "new_token_ratio after 600 decodes", false}}},
    [] { return std::make_unique<Sglang>(); });

}  // namespace
}  // namespace orrery
