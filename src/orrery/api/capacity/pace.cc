#include "orrery/api/capacity/pace.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace orrery {
namespace {

/// Steps of an engine with every rank alike.
class SteadyEngine {
 public:
  SteadyEngine(const ServingEngine& engine, const ServingLayout& layout, const PaceQuestion& asked)
      : times_(*engine.times), ranks_(layout.attention_data), asked_(asked) {
    context_ = std::llround(asked.prompt + asked.output / 2);
    const int64_t each = std::max<int64_t>(1, engine.room.needed(context_));
    most_ = std::min(asked.max_seqs, engine.room.blocks / each) / times_.pipeline();
  }

  int64_t most() const { return most_; }

  /// Of one stage, with `tokens` of prompts.
  double step(int64_t decodes, int64_t tokens) const {
    std::vector<PrefillChunk> chunks;
    const auto prompt = std::max<int64_t>(1, std::llround(asked_.prompt));
    for (int64_t left = tokens; left > 0; left -= prompt) {
      const int64_t part = std::min(left, prompt);
      chunks.push_back({part, part < prompt ? (prompt - part) / 2 : 0, true});
    }
    StepShape shape;
    shape.prefills = chunks;
    shape.decodes = decodes;
    shape.decode_context = context_ * decodes;
    shape.longest_decode = decodes > 0 ? context_ : 0;
    shape.windowed_context =
        std::min<int64_t>(context_, std::max<int64_t>(1, times_.window())) * decodes;
    shape.group_tokens = (decodes + tokens) * ranks_;
    shape.fullest_rank = decodes + tokens;
    const StepTime time = times_.of(shape);
    return time.duration(asked_.asynchronous).value;
  }

  bool keeps(double step) const {
    const double tpot = step * times_.pipeline();
    const ServiceLevel& promise = asked_.promise;
    return (promise.tpot.value <= 0 || tpot <= promise.tpot.value) &&
           (promise.e2e.value <= 0 || tpot * asked_.output <= promise.e2e.value);
  }

 private:
  const EngineTimes& times_;
  int ranks_;
  const PaceQuestion& asked_;
  int64_t context_ = 1, most_ = 0;
};

/// 1, 2, 3 … then by quarters.
int64_t next(int64_t n) { return std::max(n + 1, n * 5 / 4); }

}  // namespace

EnginePace pace_of(const ServingEngine& engine, const ServingLayout& layout,
                   const PaceQuestion& asked) {
  const SteadyEngine steady(engine, layout, asked);
  const int ranks = layout.attention_data;
  const int64_t budget = asked.max_batched_tokens;
  EnginePace pace;
  double prompt = 0;
  for (int64_t done = 0, all = std::max<int64_t>(1, std::llround(asked.prompt)); done < all;
       done += budget) {
    const PrefillChunk chunk = {std::min(budget, all - done), done, done + budget >= all};
    StepShape shape;
    shape.prefills = {&chunk, 1};
    prompt += engine.times->of(shape).device.value;
  }
  pace.prompts = ranks / prompt;
  for (int64_t n = 1; n <= steady.most(); n = next(n)) {
    const double step = steady.step(n, 0);
    if (!steady.keeps(step)) break;
    pace.answers = std::max(pace.answers, ranks * static_cast<double>(n) / step / asked.output);
  }
  for (int64_t n = 1; n <= steady.most() && n < budget; n = next(n)) {
    const auto left = static_cast<double>(budget - n);
    // Prompts come whole where there is room for them, in some of the steps.
    const double tokens = std::min(left, static_cast<double>(n) * asked.prompt / asked.output);
    const double at_once = std::max(tokens, std::min(asked.prompt, left));
    const double share = tokens / at_once;
    const double step = (1 - share) * steady.step(n, 0) +
                        share * steady.step(n, std::max<int64_t>(1, std::llround(at_once)));
    if (!steady.keeps(step)) break;
    const double requests = ranks * tokens / asked.prompt / step;
    if (requests <= pace.requests) continue;
    pace.requests = requests;
    pace.under_way = static_cast<double>(n * ranks * engine.times->pipeline());
  }
  return pace;
}

}  // namespace orrery
