#include "orrery/serving/engine/engine_times.h"

#include <algorithm>
#include <cmath>

#include "orrery/kernel/power.h"
#include "orrery/model/composition.h"
#include "orrery/serving/engine/size_table.h"

namespace orrery {
namespace {

/// Steps that are looked ahead at most.
constexpr double kFurthest = 4096;

/// More tokens than a step or a sequence will have; grids go on by their last line.
constexpr int64_t kMostTokens = 65536, kLongest = 1 << 20;
/// Sequences whose prompts share the device when they come together.
constexpr int64_t kTogether = 8;
/// More different adapters than a step will have.
constexpr int64_t kMostAdapters = 65536;

/// Sizes past `captured` that a profile has points at.
void add_sizes(SizeGrid& grid, int64_t captured, std::span<const double> sizes) {
  for (const double size : sizes)
    if (const auto n = static_cast<int64_t>(size); n > captured && n < grid.back())
      grid.push_back(n);
  std::ranges::sort(grid);
  grid.erase(std::unique(grid.begin(), grid.end()), grid.end());
}

}  // namespace

std::string_view name(StepPart part) {
  switch (part) {
    case StepPart::kTokens:
      return "linear layers";
    case StepPart::kExperts:
      return "experts";
    case StepPart::kPrompts:
      return "attention of prompts";
    case StepPart::kNext:
      return "attention of next tokens";
    case StepPart::kHead:
      return "logits and sampling";
    case StepPart::kAdapters:
      return "adapters";
    case StepPart::kTraffic:
      return "communication";
    case StepPart::kGap:
      return "between steps";
  }
  return "";
}

EngineTimes::EngineTimes(EngineWork work, const ServingLayout& layout, const EngineCosts& costs,
                         std::shared_ptr<const Predictor> kernels,
                         std::shared_ptr<const CollectivePredictor> collectives,
                         double hidden_bytes, std::shared_ptr<const StepProfile> profile)
    : work_(std::move(work)),
      has_experts_(work_.has_experts()),
      window_(work_.window()),
      costs_(costs),
      pipeline_(layout.pipeline),
      data_ranks_(layout.attention_data),
      kernels_(std::move(kernels)),
      collectives_(std::move(collectives)),
      profile_(std::move(profile)),
      hidden_bytes_(hidden_bytes) {
  const SizeGrid none = {0};
  SizeGrid steps = step_grid(costs_.habits.captured, kMostTokens);
  if (profile_) add_sizes(steps, costs_.habits.captured, profile_->sizes());
  const SizeGrid lengths = geometric_grid(16, kLongest);
  SizeGrid contexts = lengths;
  contexts.insert(contexts.begin(), 0);
  const auto table = [&](const SizeGrid& second, int64_t padded, SizeTable::Function function) {
    return std::make_unique<SizeTable>(steps, second, padded, std::move(function));
  };
  const auto sum = [](const Cost& c) { return (c.kernels + c.traffic).value; };
  tokens_ = table(none, costs_.habits.captured, [this, sum](int64_t t, int64_t) {
    return sum(cost(token_pass(t), &StepProfile::tokens, t));
  });
  experts_ = table(none, costs_.habits.captured, [this, sum](int64_t t, int64_t) {
    return sum(cost(work_.experts(t), &StepProfile::experts, t));
  });
  exchange_ = table(none, 0, [this](int64_t t, int64_t) { return seconds(work_.exchange(t)); });
  head_ = table(none, 0, [this, sum](int64_t n, int64_t) {
    return sum(cost(work_.head(n), &StepProfile::head, n));
  });
  next_ = table(lengths, 0,
                [this](int64_t n, int64_t c) { return seconds(work_.decode(false, n, c)); });
  next_windowed_ =
      table(lengths, 0, [this](int64_t n, int64_t c) { return seconds(work_.decode(true, n, c)); });
  const SizeGrid chunks = geometric_grid(16, kMostTokens);
  const auto prompts = [&](int64_t together) {
    return std::make_unique<SizeTable>(chunks, contexts, 0, [this, together](int64_t q, int64_t c) {
      return seconds(work_.prefill(together, q, c)) / static_cast<double>(together);
    });
  };
  prompt_alone_ = prompts(1);
  prompt_together_ = prompts(kTogether);
  SizeGrid adapters = {1};
  while (adapters.back() < kMostAdapters) adapters.push_back(2 * adapters.back());
  adapters_ = table(adapters, costs_.habits.captured,
                    [this](int64_t t, int64_t a) { return seconds(work_.adapters(t, a)); });
  handover_ = table(none, 0, [this, group = layout.stage_devices()](int64_t t, int64_t) {
    if (pipeline_ == 1 || collectives_ == nullptr) return 0.0;
    const CollectiveCall call{CollectiveKind::kSendReceive,
                              Bytes(hidden_bytes_ * static_cast<double>(t)),
                              {pipeline_, group},
                              ElementType::kBF16};
    return collectives_->predict(call).estimate.seconds.value;
  });
  double kernels_of_step = 0;
  for (const EnginePass& pass :
       {token_pass(1), work_.experts(1), work_.exchange(1), work_.prefill(1, 1, 0)}) {
    for (const Launch& launch : pass.launches) kernels_of_step += launch.count;
    for (const EngineTraffic& traffic : pass.traffic) kernels_of_step += traffic.count;
  }
  launch_ = costs_.launch * kernels_of_step;
}

EngineTimes::~EngineTimes() = default;

EnginePass EngineTimes::token_pass(int64_t tokens) const {
  EnginePass pass = work_.tokens(tokens);
  if (!costs_.counts_ends) return pass;
  pass.append(work_.embedding(tokens));
  return pass;
}

EngineTimes::Cost EngineTimes::cost(const EnginePass& pass) const {
  Cost sum;
  std::vector<Kernel> kernels;
  std::vector<double> counts;
  for (const Launch& launch : pass.launches) {
    kernels.push_back(launch.kernel);
    counts.push_back(launch.count);
  }
  std::vector<Estimate> estimates(kernels.size());
  OperatingPoint point;
  point.queued = true;
  if (!kernels.empty()) {
    kernels_->predict(kernels, point, estimates);
    Seconds idle;
    for (const EngineTraffic& traffic : pass.traffic)
      idle += collectives_->predict(traffic.call).estimate.seconds * traffic.count;
    std::vector<Estimate> settled = estimates;
    sum.energy = kernels_->settle(kernels, counts, idle, point, settled).energy;
    Seconds all;
    for (size_t i = 0; i < estimates.size(); ++i) all += estimates[i].seconds * counts[i];
    // Steps before it were held or not.
    const double held = seen_by_limit(all);
    for (size_t i = 0; i < estimates.size(); ++i)
      estimates[i].seconds = estimates[i].seconds * (1 - held) + settled[i].seconds * held;
  }
  if (profile_)  // measured: the energy stays, the time is added elsewhere
    for (size_t i = 0; i < estimates.size(); ++i)
      if (profile_->has(pass.operators[i])) estimates[i].seconds = Seconds();
  LaunchCosts none;
  const KernelErrors errors = kernel_errors(pass.launches, estimates, none);
  for (size_t i = 0; i < estimates.size(); ++i)
    sum.kernels += estimates[i].seconds * counts[i] * costs_.kernels;
  double traffic_error = 0;
  for (const EngineTraffic& traffic : pass.traffic) {
    const CollectiveEstimate estimate = collectives_->predict(traffic.call);
    sum.traffic += estimate.estimate.seconds * traffic.count;
    const TimeInterval range = interval(estimate.estimate);
    traffic_error += (range.high - range.low).value / (2 * kNinetyPercent) * traffic.count;
  }
  const double all = (sum.kernels + sum.traffic).value;
  if (all > 0) sum.spread = std::hypot(errors.spread() * sum.kernels.value, traffic_error) / all;
  return sum;
}

EngineTimes::Cost EngineTimes::cost(const EnginePass& pass, Measured measured, int64_t size) const {
  Cost c = cost(pass);
  if (!profile_) return c;
  const Seconds known((*profile_.*measured)(size));
  if (const double predicted = (c.kernels + c.traffic).value; predicted > 0)
    c.spread *= predicted / (predicted + known.value);
  c.kernels += known;
  return c;
}

double EngineTimes::seconds(const EnginePass& pass) const {
  const Cost c = cost(pass);
  return (c.kernels + c.traffic).value;
}

double EngineTimes::attention(const StepShape& shape) const {
  if (profile_ && profile_->has(EngineOperator::kAttention))
    return profile_->prompts(shape) + profile_->next(shape);
  double longest = 0, together = 0;
  for (const PrefillChunk& chunk : shape.prefills) {
    if (chunk.tokens == 0) continue;
    const auto context = static_cast<double>(chunk.context);
    longest = std::max(longest, prompt_alone_->at(chunk.tokens, context));
    if (shape.prefills.size() > 1) together += prompt_together_->at(chunk.tokens, context);
  }
  double sum = std::max(longest, together);
  if (shape.decodes > 0) {
    const double n = static_cast<double>(shape.decodes);
    // Verifying guesses reads the cache once for all of a sequence's tokens.
    double next = next_->at(shape.decodes, static_cast<double>(shape.decode_context) / n);
    if (shape.decodes > 1)
      next = std::max(next, next_->at(1, static_cast<double>(shape.longest_decode)));
    sum += next;
    if (window_ > 0)
      sum += next_windowed_->at(shape.decodes, static_cast<double>(shape.windowed_context) / n);
  }
  return sum;
}

EngineTimes::StepTokens EngineTimes::tokens_of(const StepShape& shape) const {
  const int64_t own = shape.tokens(), group = std::max(own, shape.group_tokens);
  if (data_ranks_ == 1 || !costs_.habits.gathers_experts) return {own, group, group};
  const int64_t fullest = std::max(own, shape.fullest_rank), most = data_ranks_ * fullest;
  if (fullest > costs_.habits.captured) return {own, group, most};
  return {own > 0 ? fullest : 0, most, most};
}

double EngineTimes::kernels(const StepShape& shape) const {
  const auto [tokens, group, sent] = tokens_of(shape);
  int64_t rows = shape.decodes * shape.tokens_per_decode;
  for (const PrefillChunk& chunk : shape.prefills) rows += chunk.tokens > 0 && chunk.last;
  double sum = attention(shape);
  if (tokens > 0) {
    sum += tokens_->at(tokens);
    if (has_experts_) sum += experts_->at(group) + exchange_->at(sent);
    if (pipeline_ > 1) sum += handover_->at(tokens);
    if (shape.adapters > 0) sum += adapters_->at(tokens, static_cast<double>(shape.adapters));
  } else if (group > 0) {
    // A rank without requests of its own keeps the others company.
    sum += tokens_->at(1) + experts_->at(group) + exchange_->at(sent);
  }
  if (rows > 0 && costs_.counts_ends) sum += head_->at(rows);
  return sum;
}

StepTime EngineTimes::time_of(const StepShape& shape, Seconds kernels) const {
  StepTime time;
  if (!shape.prefills.empty() || shape.tokens() > costs_.habits.captured) time.launch = launch_;
  time.device = std::max(kernels, time.launch) + costs_.gap;
  const auto sequences =
      static_cast<double>(shape.decodes) + static_cast<double>(shape.prefills.size());
  time.host = costs_.step + costs_.sequence * sequences;
  return time;
}

StepLine EngineTimes::ahead(const StepShape& shape, int64_t growing, double scale) const {
  const Seconds kernels_now(kernels(shape) * scale);
  StepLine found{time_of(shape, kernels_now)};
  if (!shape.prefills.empty() || shape.decodes == 0 ||
      (profile_ && profile_->has(EngineOperator::kAttention)))
    return found;
  const double n = static_cast<double>(shape.decodes);
  const double mean = static_cast<double>(shape.decode_context) / n;
  SizeTable::Line next = next_->line(shape.decodes, mean);
  double further = next.end - mean;
  if (shape.decodes > 1) {
    const auto longest = static_cast<double>(shape.longest_decode);
    const SizeTable::Line alone = next_->line(1, longest);
    further = std::min({further, alone.end - longest, kFurthest});
    // Which of the two takes longer must not change on the way.
    const double lead = next.value - alone.value;
    if ((lead < 0) != (lead + further * (next.slope - alone.slope) < 0)) return found;
    if (lead < 0) next = alone;
  }
  double slope = next.slope;
  if (window_ > 0 && growing > 0) {
    const double each = static_cast<double>(growing) / n;
    const double seen = static_cast<double>(shape.windowed_context) / n;
    const SizeTable::Line windowed = next_windowed_->line(shape.decodes, seen);
    further = std::min(further, (windowed.end - seen) / each);
    slope += windowed.slope * each;
  }
  further = std::clamp(further, 0.0, kFurthest);
  const Seconds each(slope * scale);
  if (std::min(kernels_now, kernels_now + each * further) <= found.first.launch) return found;
  found.slope = each;
  found.steps = 1 + static_cast<int64_t>(further);
  return found;
}

StepCauses EngineTimes::detail(const StepShape& shape) const {
  StepCauses causes;
  double error = 0, all = 0;
  const auto add_cost = [&](StepPart part, const Cost& c, double times) {
    causes.parts[static_cast<size_t>(part)] += c.kernels * times;
    causes.parts[static_cast<size_t>(StepPart::kTraffic)] += c.traffic * times;
    causes.energy += c.energy * times;
    const double seconds = (c.kernels + c.traffic).value * times;
    error += c.spread * seconds;  // causes of error are shared by the parts of a step
    all += seconds;
  };
  const auto add = [&](StepPart part, const EnginePass& pass, double times) {
    add_cost(part, cost(pass), times);
  };
  const auto [tokens, group, sent] = tokens_of(shape);
  int64_t rows = shape.decodes * shape.tokens_per_decode;
  for (const PrefillChunk& chunk : shape.prefills) {
    rows += chunk.last;
    if (chunk.tokens > 0)
      add(StepPart::kPrompts,
          work_.prefill(shape.prefills.size() > 1 ? kTogether : 1, chunk.tokens, chunk.context),
          shape.prefills.size() > 1 ? 1.0 / kTogether : 1.0);
  }
  if (tokens > 0)
    add_cost(StepPart::kTokens, cost(token_pass(tokens), &StepProfile::tokens, tokens), 1);
  if (tokens > 0 && shape.adapters > 0)
    add_cost(StepPart::kAdapters, cost(work_.adapters(tokens, shape.adapters)), 1);
  if (has_experts_ && group > 0) {
    add_cost(StepPart::kExperts, cost(work_.experts(group), &StepProfile::experts, group), 1);
    add(StepPart::kExperts, work_.exchange(sent), 1);
  }
  if (rows > 0 && costs_.counts_ends)
    add_cost(StepPart::kHead, cost(work_.head(rows), &StepProfile::head, rows), 1);
  if (shape.decodes > 0) {
    add(StepPart::kNext,
        work_.decode(false, shape.decodes,
                     std::max<int64_t>(1, shape.decode_context / shape.decodes)),
        1);
    if (window_ > 0)
      add(StepPart::kNext,
          work_.decode(true, shape.decodes,
                       std::max<int64_t>(1, shape.windowed_context / shape.decodes)),
          1);
  }
  if (profile_) {
    Cost c;
    c.kernels = Seconds(profile_->prompts(shape));
    add_cost(StepPart::kPrompts, c, 1);
    c.kernels = Seconds(profile_->next(shape));
    add_cost(StepPart::kNext, c, 1);
  }
  causes.parts[static_cast<size_t>(StepPart::kGap)] = costs_.gap;
  const double shared = has_experts_ ? costs_.spread_experts : costs_.spread;
  causes.spread = std::hypot(all > 0 ? error / all : 0, shared);
  return causes;
}

}  // namespace orrery
