#include "orrery/cluster/training/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <thread>
#include <tuple>

#include "orrery/learn/parallel.h"

namespace orrery {
namespace {

/// Tokens of a sequence that a context rank has at least.
constexpr int64_t kContextTokens = 2048;
constexpr int64_t kMostMicroBatch = 8;

std::vector<int> divisors(int n) {
  std::vector<int> found;
  for (int i = 1; i <= n; ++i)
    if (n % i == 0) found.push_back(i);
  return found;
}

/// Sizes 1, 2, 4 … up to `most`.
std::vector<int> doublings(int64_t most) {
  std::vector<int> found;
  for (int64_t i = 1; i <= most; i *= 2) found.push_back(static_cast<int>(i));
  return found;
}

/// One layout: everything that says where weights lie.
using Layout = std::tuple<int, int, int, int, int>;
Layout layout_of(const Strategy& s) { return {s.gpus, s.tensor, s.pipeline, s.context, s.expert}; }

/// What one layout gave.
struct Searched {
  std::vector<PlannedStep> steps;
  size_t considered = 0, too_large = 0;
  double least_bytes = 0;
  Strategy smallest;
};

class Search {
 public:
  Search(const TrainingModel& model, const PlanQuestion& question)
      : model_(model), question_(question), capacity_(model.cluster().device.usable_memory.value) {
    const TransformerDescription& d = model.description();
    const bool latent = std::ranges::any_of(d.layers, [](const Layer& layer) {
      return std::holds_alternative<LatentAttention>(layer.mixer);
    });
    const bool experts = most_experts(d) > 0;
    recomputations_ = {"none"};
    // A fused kernel keeps no scores that could be computed again.
    if (!question.fixed.fused_attention) recomputations_.emplace_back("selective");
    if (experts) recomputations_.emplace_back("layernorm,moe_act");
    if (latent) recomputations_.emplace_back("mla_up_proj");
    if (latent && experts) recomputations_.emplace_back("layernorm,moe_act,mla_up_proj");
    if (experts) recomputations_.emplace_back("experts");
    recomputations_.emplace_back("full");
  }

  std::vector<Strategy> layouts() const {
    std::vector<Strategy> found;
    const TransformerDescription& d = model_.description();
    const auto layers = static_cast<int>(d.layers.size());
    const int64_t experts = most_experts(d);
    for (const int gpus : question_.gpus)
      for (const int tensor : doublings(model_.cluster().node_size())) {
        if (gpus % tensor != 0) continue;
        for (const int pipeline : divisors(gpus / tensor)) {
          if (pipeline > layers) break;
          for (const int context : doublings(question_.fixed.length / kContextTokens)) {
            if (gpus % (tensor * pipeline * context) != 0) continue;
            for (const int expert : doublings(std::max<int64_t>(1, experts))) {
              Strategy s = question_.fixed;
              s.gpus = gpus;
              s.tensor = tensor;
              s.sequence = tensor > 1;
              s.pipeline = pipeline;
              s.context = context;
              s.expert = expert;
              if (s.global_batch % s.data() == 0 && faults(s, d).empty()) found.push_back(s);
            }
          }
        }
      }
    return found;
  }

  /// All variants of a layout.
  Searched variants(const Strategy& layout) const {
    Searched found;
    const int per_stage =
        (static_cast<int>(model_.description().layers.size()) + layout.pipeline - 1) /
        layout.pipeline;
    const int64_t per_rank = layout.global_batch / layout.data();
    for (const int64_t micro : doublings(std::min(per_rank, kMostMicroBatch)))
      for (const int chunks : layout.pipeline > 1 ? divisors(per_stage) : std::vector<int>{1})
        for (const int zero : {layout.zero, 2, 3}) {
          if (zero < layout.zero || (zero != layout.zero && layout.dense_replicas() == 1)) continue;
          if (zero == 2 && layout.zero == 2) continue;
          Strategy s = layout;
          s.micro_batch = micro;
          s.chunks = chunks;
          s.zero = zero;
          if (faults(s, model_.description()).empty()) consider(s, found);
          if (zero == 3) break;
        }
    return found;
  }

 private:
  void consider(Strategy s, Searched& found) const {
    for (const std::string& recompute : recomputations_) {
      set_recompute(s, recompute);
      ++found.considered;
      const double bytes = model_.memory(s).total().value;
      if (found.least_bytes == 0 || bytes < found.least_bytes) {
        found.least_bytes = bytes;
        found.smallest = s;
      }
      if (bytes > capacity_) {
        ++found.too_large;
        continue;
      }
      found.steps.push_back({s, model_.evaluate(s)});
    }
  }

  const TrainingModel& model_;
  const PlanQuestion& question_;
  double capacity_;
  std::vector<std::string> recomputations_;  ///< From the one that takes least time on.
};

bool quicker(const PlannedStep& a, const PlannedStep& b) {
  return a.estimate.step.value < b.estimate.step.value;
}

/// At least as good in everything.
bool beats(const PlannedStep& a, const PlannedStep& b) {
  return a.estimate.step.value <= b.estimate.step.value &&
         a.estimate.memory.total() <= b.estimate.memory.total() &&
         a.strategy.gpus <= b.strategy.gpus;
}

}  // namespace

Plan make_plan(const TrainingModel& model, const PlanQuestion& question) {
  const Search search(model, question);
  const std::vector<Strategy> layouts = search.layouts();
  std::vector<Searched> searched(layouts.size());
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  for_each_task(layouts.size(), question.threads > 0 ? question.threads : static_cast<int>(cores),
                [&](size_t task, size_t) { searched[task] = search.variants(layouts[task]); });

  Plan plan;
  std::map<Layout, PlannedStep> best;
  std::vector<PlannedStep> all;
  for (const Searched& s : searched) {
    plan.considered += s.considered;
    plan.too_large += s.too_large;
    if (s.considered > 0 && (plan.least_bytes == 0 || s.least_bytes < plan.least_bytes)) {
      plan.least_bytes = s.least_bytes;
      plan.smallest = s.smallest;
    }
    for (const PlannedStep& step : s.steps) {
      const auto [at, added] = best.try_emplace(layout_of(step.strategy), step);
      if (!added && quicker(step, at->second)) at->second = step;
      all.push_back(step);
    }
  }
  for (const auto& [layout, step] : best) plan.layouts.push_back(step);
  std::ranges::stable_sort(plan.layouts, quicker);
  std::ranges::stable_sort(all, quicker);
  for (const PlannedStep& step : all)
    if (std::ranges::none_of(plan.front, [&](const PlannedStep& f) { return beats(f, step); }))
      plan.front.push_back(step);
  return plan;
}

std::string why_slower(const PlannedStep& other, const PlannedStep& best) {
  const StepEstimate &a = other.estimate, &b = best.estimate;
  // A step of more devices is shorter in all its parts: compare what a device does.
  const auto whole = [](const PlannedStep& p) { return p.estimate.step.value.value; };
  const double scale = whole(best) > 0 ? 1 / whole(best) : 0;
  std::vector<std::pair<double, std::string>> parts = {
      {(a.compute() - b.compute()).value, "computes longer"},
      {(a.bubble - b.bubble).value, "waits longer for other stages"},
      {(a.optimizer - b.optimizer).value, "a longer optimiser step"},
      {(a.gaps - b.gaps).value, "more time between kernels"}};
  for (size_t i = 0; i < kTrafficCauseCount; ++i)
    parts.emplace_back((a.exposed[i] - b.exposed[i]).value,
                       fmt::format("more {} traffic shows", name(static_cast<TrafficCause>(i))));
  std::ranges::stable_sort(parts, std::greater<>(), &std::pair<double, std::string>::first);
  std::vector<std::string> words;
  constexpr double kWorthSaying = 0.002;
  for (size_t i = 0; i < 2 && parts[i].first * scale > kWorthSaying; ++i)
    words.push_back(fmt::format("{} (+{:.1f} %)", parts[i].second, 100 * parts[i].first * scale));
  return words.empty() ? "as quick" : fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace orrery
