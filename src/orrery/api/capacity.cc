#include "orrery/api/capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <thread>
#include <tuple>

#include "orrery/api/serving_fleet.h"
#include "orrery/api/session.h"
#include "orrery/api/traffic.h"
#include "orrery/base/error.h"
#include "orrery/learn/parallel.h"

namespace orrery {
namespace {

/// Share of the requests of a run that come while the engines fill.
constexpr double kWarmUp = 0.2;
/// Requests a second at which they do not meet, and so many of them.
constexpr double kTrickle = 1e-3;
constexpr int64_t kTrickleCount = 120;
/// Requests of a run: enough for a 99 % quantile, no more than a second's work.
constexpr int64_t kLeastCount = 1000, kMostCount = 50000;
constexpr std::array<int64_t, 5> kTokenBudgets = {512, 1024, 2048, 4096, 8192};
/// Other budgets are tried for arrangements with this share of the best one's load, so many at
/// most, …
constexpr double kPromising = 0.6;
constexpr size_t kMostPromising = 6;
/// … and those with this share are looked at to the end, beside the best of each layout.
constexpr double kClose = 0.9;
constexpr size_t kMostClose = 8;
/// Engines of so many times the devices of the smallest that keeps the promise are large enough.
constexpr int kLargeEnough = 2;
/// Pairs of prefill and decode engines that are simulated.
constexpr size_t kPairs = 12;
/// Loads of the curve: up to an eighth past the most.
constexpr double kCurveSteps = 8;

/// How well a load is to be known.
struct Effort {
  double length = 1;        ///< Of a run, over one that settles.
  double precision = 0.01;  ///< Of the rate.
};
constexpr Effort kQuick = {0.5, 0.05}, kThorough = {1, 0.01}, kInterval = {1, 0.03};

/// Of a layout: its engine, or why there is none, and what a lone user sees.
struct LayoutEngine {
  ServingLayout layout;
  std::optional<ServingEngine> engine;
  LoadPoint trickle;
  std::string fault;

  bool keeps() const { return engine && trickle.kept(); }
};

/// Copies of the smallest fleet of a kind, and what they carry.
struct Option {
  Arrangement unit;
  int copies = 1;
  LoadPoint kept;
  std::optional<LoadPoint> broken;

  Arrangement arrangement() const {
    Arrangement all = unit;
    for (ArrangedPool& pool : all.pools) pool.replicas *= copies;
    return all;
  }
  int devices() const { return unit.devices() * copies; }
  CapacityCandidate candidate() const { return {arrangement(), kept, broken}; }
};

class CapacitySearch {
 public:
  CapacitySearch(const Session& session, const CapacityRequest& request);
  CapacityAnswer answer();

 private:
  void build_engines();
  void add_engines(const std::vector<ServingLayout>& layouts);
  const LayoutEngine& engine_of(const ServingLayout& layout) const;
  std::vector<EnginePool> pools_of(const Arrangement& arrangement) const;
  ServingRequest serving_request(const Arrangement& arrangement, double rate, int64_t count) const;
  int64_t count_for(double rate, const Effort& effort) const;
  LoadPoint trial(const Arrangement& arrangement, const std::vector<EnginePool>& pools, double rate,
                  const Effort& effort) const;
  double lone_rate(const Arrangement& arrangement) const;
  RateBracket carry(const Arrangement& arrangement, double start, const Effort& effort) const;

  std::optional<Option> most_load(const Option& option, const Effort& effort) const;
  std::optional<Option> fewest_devices(const Option& option, const Effort& effort) const;
  /// Those that keep the promise, best first.
  std::vector<Option> evaluate(const std::vector<Option>& all, const Effort& effort) const;
  bool better(const Option& a, const Option& b) const;
  bool near(const Option& option, const Option& best, double share) const;
  std::vector<Option> search() const;
  Option option(Arrangement unit) const;
  std::vector<Option> colocated() const;
  std::vector<Option> disaggregated() const;
  std::vector<Option> copies_for_load(const std::vector<Option>& units) const;
  std::vector<Option> with_other_budgets(const std::vector<Option>& options) const;
  std::vector<CapacityCandidate> frontier(const std::vector<Option>& found) const;
  [[noreturn]] void refuse_all() const;
  void fill_interval(CapacityAnswer& answer) const;

  const Session& session_;
  const CapacityRequest& request_;
  double asked_;  ///< Requests a second; 0: as many as can be.
  int threads_;
  int devices_ = 0;
  Cluster cluster_;
  std::vector<LayoutEngine> engines_;
  double mean_prompt_ = 0, mean_output_ = 0;
  Seconds settling_;  ///< Requests must come for so long that a run tells of a steady state.
};

CapacitySearch::CapacitySearch(const Session& session, const CapacityRequest& request)
    : session_(session), request_(request), asked_(request.serving.traffic.rate) {
  const TrafficRequest& traffic = request.serving.traffic;
  const ServiceLevel& level = request.promise.level;
  if (!traffic.requests.empty() || traffic.concurrency > 0)
    throw_usage(
        "capacity finds when requests come: give the lengths of a table by --lengths, not its "
        "requests or a concurrency");
  if (level.ttft.value <= 0 && level.e2e.value <= 0)
    throw_usage(
        "--slo: promise ttft or e2e too; with tpot alone requests may wait for ever before their "
        "first token");
  if (!(request.promise.quantile > 0 && request.promise.quantile < 1))
    throw_usage("--quantile is between 0 and 1");
  threads_ = request.threads > 0
                 ? request.threads
                 : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  cluster_ = usual_cluster(session.catalogue(), request.serving.engine.device,
                           request.serving.engine.overrides);
  const double largest = cluster_.largest();
  devices_ = request.devices > 0 ? request.devices
             : asked_ > 0        ? static_cast<int>(std::min(largest, 1e6))
                                 : cluster_.node_size();
  TrafficRequest drawn = traffic;
  drawn.rate = 1;
  drawn.count = kLeastCount;
  const auto source = make_traffic(drawn);
  double requests = 0;
  while (source->next_arrival().value < kNever.value) {
    const Request r = source->take();
    mean_prompt_ += r.prompt;
    mean_output_ += r.output;
    requests += 1;
  }
  mean_prompt_ /= requests;
  mean_output_ /= requests;
}

void CapacitySearch::build_engines() {
  if (request_.layout) {
    add_engines({*request_.layout});
  } else {
    const TransformerDescription model = load_language_model(request_.serving.engine.model);
    const double largest = std::min<double>(devices_, cluster_.largest());
    int enough = 0;
    for (int devices = 1; devices <= largest && (enough == 0 || devices <= enough); devices *= 2) {
      add_engines(serving_layouts(model, devices, cluster_.node_size()));
      if (enough == 0 && std::ranges::any_of(engines_, &LayoutEngine::keeps))
        enough = std::max(cluster_.node_size(), kLargeEnough * devices);
    }
  }
  const ServiceLevel& level = request_.promise.level;
  double answer = level.e2e.value;
  if (answer <= 0) {
    double tpot = level.tpot.value;
    if (tpot <= 0)
      for (const LayoutEngine& e : engines_) tpot = std::max(tpot, 10 * e.trickle.tpot.value);
    answer = level.ttft.value + tpot * mean_output_;
  }
  // Four answers one after the other; or a queue that grows by 4 % of what comes reaches the
  // promised wait.
  settling_ = Seconds(std::max(4 * answer, 25 * level.ttft.value));
}

void CapacitySearch::add_engines(const std::vector<ServingLayout>& layouts) {
  const size_t before = engines_.size();
  for (const ServingLayout& layout : layouts) engines_.push_back({layout, {}, {}, {}});
  for_each_task(layouts.size(), threads_, [&](size_t i, size_t) {
    LayoutEngine& e = engines_[before + i];
    try {
      EngineRequest wanted = request_.serving.engine;
      wanted.layout = e.layout;
      if (e.layout.devices() > devices_)
        throw_infeasible(fmt::format("it needs {} devices", e.layout.devices()));
      e.engine = session_.serving_engine(wanted);
      const Arrangement alone = {{{"engines", e.layout, 1, wanted.max_batched_tokens}}};
      const ServingRun run =
          run_pools(serving_request(alone, kTrickle, kTrickleCount), pools_of(alone));
      e.trickle = load_point(kTrickle, run.requests, request_.promise, 0);
      if (!std::isfinite(e.trickle.ttft.value))
        throw_infeasible(
            fmt::format("{:.1f} GB for keys and values do not hold the longest requests",
                        e.engine->memory.cache / 1e9));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInfeasible) throw;
      e.engine.reset();
      e.fault = error.message();
    }
  });
}

const LayoutEngine& CapacitySearch::engine_of(const ServingLayout& layout) const {
  const auto found = std::ranges::find(engines_, layout, &LayoutEngine::layout);
  if (found == engines_.end()) throw_internal("a layout without an engine");
  return *found;
}

std::vector<EnginePool> CapacitySearch::pools_of(const Arrangement& arrangement) const {
  std::vector<EnginePool> pools;
  for (const ArrangedPool& arranged : arrangement.pools) {
    EnginePool pool = {arranged.role, *engine_of(arranged.layout).engine, request_.serving.engine,
                       arranged.replicas};
    pool.request.layout = arranged.layout;
    pool.request.max_batched_tokens = arranged.max_batched_tokens;
    divide_memory(pool.engine, pool.request);
    pools.push_back(std::move(pool));
  }
  return pools;
}

ServingRequest CapacitySearch::serving_request(const Arrangement& arrangement, double rate,
                                               int64_t count) const {
  ServingRequest serving = request_.serving;
  serving.traffic.rate = rate;
  serving.traffic.count = count;
  serving.promise = request_.promise.level;
  const ArrangedPool& first = arrangement.pools.front();
  serving.engine.layout = first.layout;
  serving.engine.max_batched_tokens = first.max_batched_tokens;
  serving.replicas = first.replicas;
  serving.pools.clear();
  if (arrangement.pools.size() > 1)
    for (const ArrangedPool& pool : arrangement.pools) {
      PoolRequest& wanted = serving.pools.emplace_back(pool.role, serving.engine, pool.replicas);
      wanted.engine.layout = pool.layout;
      wanted.engine.max_batched_tokens = pool.max_batched_tokens;
    }
  return serving;
}

int64_t CapacitySearch::count_for(double rate, const Effort& effort) const {
  const double wanted =
      request_.serving.traffic.count > 0
          ? static_cast<double>(request_.serving.traffic.count)
          : std::clamp(rate * settling_.value, double{kLeastCount}, double{kMostCount});
  return std::max<int64_t>(std::min<int64_t>(static_cast<int64_t>(wanted), kLeastCount / 4),
                           static_cast<int64_t>(wanted * effort.length));
}

LoadPoint CapacitySearch::trial(const Arrangement& arrangement,
                                const std::vector<EnginePool>& pools, double rate,
                                const Effort& effort) const {
  const ServingRequest serving = serving_request(arrangement, rate, count_for(rate, effort));
  return load_point(rate, run_pools(serving, pools).requests, request_.promise, kWarmUp);
}

/// At which each engine has about one request.
double CapacitySearch::lone_rate(const Arrangement& arrangement) const {
  const ArrangedPool& pool = arrangement.pools.back();
  return pool.replicas * pool.layout.attention_data /
         std::max(1e-6, engine_of(pool.layout).trickle.e2e.value);
}

RateBracket CapacitySearch::carry(const Arrangement& arrangement, double start,
                                  const Effort& effort) const {
  const std::vector<EnginePool> pools = pools_of(arrangement);
  return highest_rate([&](double rate) { return trial(arrangement, pools, rate, effort); }, start,
                      kTrickle, effort.precision);
}

std::optional<Option> CapacitySearch::most_load(const Option& option, const Effort& effort) const {
  Option found = option;
  const Arrangement arrangement = option.arrangement();
  const double start = option.kept.rate > 0 ? option.kept.rate : lone_rate(arrangement);
  const RateBracket bracket = carry(arrangement, start, effort);
  if (!bracket.kept) return std::nullopt;
  found.kept = *bracket.kept;
  found.broken = bracket.broken;
  return found;
}

std::optional<Option> CapacitySearch::fewest_devices(const Option& option,
                                                     const Effort& effort) const {
  Option found = option;
  const int most = devices_ / option.unit.devices();
  std::optional<LoadPoint> kept, broken;
  int breaks = 0, keeps = most + 1, step = 1;
  while (keeps - breaks > 1) {
    found.copies = std::clamp(found.copies, breaks + 1, keeps - 1);
    const Arrangement arrangement = found.arrangement();
    const LoadPoint point = trial(arrangement, pools_of(arrangement), asked_, effort);
    (point.kept() ? kept : broken) = point;
    (point.kept() ? keeps : breaks) = found.copies;
    if (kept && broken) {
      found.copies = (breaks + keeps) / 2;
    } else {
      found.copies = point.kept() ? keeps - step : breaks + step;
      step *= 2;
    }
  }
  if (!kept) return std::nullopt;
  found.copies = keeps;
  found.kept = *kept;
  found.broken = broken;
  return found;
}

bool CapacitySearch::better(const Option& a, const Option& b) const {
  if (asked_ > 0)
    return std::tuple(a.devices(), a.kept.strain) < std::tuple(b.devices(), b.kept.strain);
  return std::tuple(-a.kept.rate, a.devices()) < std::tuple(-b.kept.rate, b.devices());
}

bool CapacitySearch::near(const Option& option, const Option& best, double share) const {
  return asked_ > 0 ? option.devices() * share <= best.devices()
                    : option.kept.rate >= best.kept.rate * share;
}

std::vector<Option> CapacitySearch::evaluate(const std::vector<Option>& all,
                                             const Effort& effort) const {
  std::vector<std::optional<Option>> results(all.size());
  for_each_task(all.size(), threads_, [&](size_t i, size_t) {
    try {
      results[i] = asked_ > 0 ? fewest_devices(all[i], effort) : most_load(all[i], effort);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInfeasible) throw;
    }
  });
  std::vector<Option> found;
  for (std::optional<Option>& result : results)
    if (result) found.push_back(std::move(*result));
  std::ranges::stable_sort(found,
                           [this](const Option& a, const Option& b) { return better(a, b); });
  return found;
}

/// As many copies as there are devices for; of a given load, as many as it turns out to need.
Option CapacitySearch::option(Arrangement unit) const {
  const int copies = asked_ > 0 ? 1 : devices_ / unit.devices();
  return {std::move(unit), copies, {}, {}};
}

std::vector<Option> CapacitySearch::colocated() const {
  std::vector<Option> all;
  for (const LayoutEngine& e : engines_)
    if (e.keeps())
      all.push_back(
          option({{{"engines", e.layout, 1, request_.serving.engine.max_batched_tokens}}}));
  return all;
}

std::vector<Option> CapacitySearch::with_other_budgets(const std::vector<Option>& options) const {
  std::vector<Option> all;
  if (request_.fixed_tokens) return all;
  for (const Option& option : options)
    for (const int64_t tokens : kTokenBudgets) {
      Option other = option;
      // Engines that only decode have no prompts to put in a step.
      ArrangedPool& pool = other.unit.pools.front();
      if (tokens == pool.max_batched_tokens || tokens < request_.serving.engine.max_seqs) continue;
      pool.max_batched_tokens = tokens;
      all.push_back(std::move(other));
    }
  return all;
}

/// Pairs of engines in the numbers that balance them: prompts a second by the time of a mean one
/// alone, answers a second by the largest batch whose step keeps the promise and that has room.
/// That ranks them; what they carry is simulated.
std::vector<Option> CapacitySearch::disaggregated() const {
  struct Pace {
    const LayoutEngine* engine;
    double prompts = 0, answers = 0;
  };
  std::vector<Pace> paces;
  const int64_t budget = request_.serving.engine.max_batched_tokens;
  for (const LayoutEngine& e : engines_) {
    if (!e.engine) continue;
    Pace pace{&e};
    const EngineTimes& times = *e.engine->times;
    double prompt = 0;
    for (int64_t done = 0, all = std::llround(mean_prompt_); done < all; done += budget) {
      const PrefillChunk chunk = {std::min(budget, all - done), done, done + budget >= all};
      StepShape shape;
      shape.prefills = {&chunk, 1};
      prompt += times.of(shape).device.value;
    }
    const int ranks = e.layout.attention_data;
    pace.prompts = ranks / prompt;
    const double context = mean_prompt_ + mean_output_ / 2;
    const KvRoom& room = e.engine->room;
    const int64_t most =
        std::min(request_.serving.engine.max_seqs,
                 room.blocks / std::max<int64_t>(1, room.needed(std::llround(context))));
    for (int64_t n = 1; n <= most; n = std::max(n + 1, n * 5 / 4)) {
      StepShape shape;
      shape.decodes = n;
      shape.decode_context = std::llround(context) * n;
      shape.longest_decode = std::llround(context);
      shape.windowed_context =
          std::min<int64_t>(shape.longest_decode, std::max<int64_t>(1, times.window())) * n;
      shape.group_tokens = n * ranks;
      // A token passes through every stage; each stage takes the next batch meanwhile.
      const double step = times.of(shape).device.value;
      const double tpot = step * times.pipeline();
      if (request_.promise.level.tpot.value > 0 && tpot > request_.promise.level.tpot.value) break;
      pace.answers = std::max(pace.answers, ranks * static_cast<double>(n) / step / mean_output_);
    }
    if (pace.answers > 0) paces.push_back(pace);
  }
  std::vector<std::pair<double, Option>> ranked;
  for (const Pace& prefill : paces)
    for (const Pace& decode : paces) {
      const int p = prefill.engine->layout.devices(), d = decode.engine->layout.devices();
      const int most =
          asked_ > 0 ? std::max(p + d, std::min(devices_, cluster_.node_size())) : devices_;
      std::optional<std::pair<double, Option>> best;
      for (int workers = 1; workers * p + d <= most; ++workers) {
        const int decoders = (most - workers * p) / d;
        const double pace = std::min(workers * prefill.prompts, decoders * decode.answers);
        const int devices = workers * p + decoders * d;
        const double value = asked_ > 0 ? pace / devices : pace;
        if (best && value <= best->first) continue;
        best = {value, option({{{"prefill", prefill.engine->layout, workers, budget},
                                {"decode", decode.engine->layout, decoders, budget}}})};
      }
      if (best && best->second.devices() <= devices_) ranked.push_back(*std::move(best));
    }
  std::ranges::stable_sort(ranked, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Option> all;
  for (size_t i = 0; i < std::min(kPairs, ranked.size()); ++i)
    all.push_back(std::move(ranked[i].second));
  return all;
}

/// Copies that the load takes by what one carries, of those that may need the fewest devices.
std::vector<Option> CapacitySearch::copies_for_load(const std::vector<Option>& units) const {
  std::vector<std::optional<Option>> results(units.size());
  for_each_task(units.size(), threads_,
                [&](size_t i, size_t) { results[i] = most_load(units[i], kQuick); });
  double fewest = devices_;
  const auto needed = [&](const Option& one) {
    return std::ceil(asked_ / one.kept.rate) * one.unit.devices();
  };
  for (const std::optional<Option>& one : results)
    if (one) fewest = std::min(fewest, needed(*one));
  std::vector<Option> all;
  for (std::optional<Option>& one : results)
    if (one && needed(*one) * kPromising <= fewest) {
      one->copies = static_cast<int>(std::ceil(asked_ / one->kept.rate));
      all.push_back(*std::move(one));
    }
  return all;
}

/// Same layouts, whatever the number of engines and the tokens of a step.
bool alike(const Arrangement& a, const Arrangement& b) {
  return std::ranges::equal(a.pools, b.pools, {}, &ArrangedPool::layout, &ArrangedPool::layout);
}

/// Of those that keep the promise, the ones near the best and the best of each layout.
std::vector<Option> CapacitySearch::search() const {
  std::vector<Option> all = colocated();
  if (request_.disaggregate)
    for (Option& pair : disaggregated()) all.push_back(std::move(pair));
  if (asked_ > 0) all = copies_for_load(all);
  std::vector<Option> found = evaluate(all, kQuick);
  if (found.empty()) return found;
  std::vector<Option> promising;
  for (const Option& option : found)
    if (promising.size() < kMostPromising && near(option, found.front(), kPromising))
      promising.push_back(option);
  for (Option& other : evaluate(with_other_budgets(promising), kQuick))
    found.push_back(std::move(other));
  std::ranges::stable_sort(found,
                           [this](const Option& a, const Option& b) { return better(a, b); });
  std::vector<Option> finalists;
  for (size_t i = 0; i < found.size(); ++i) {
    const bool first_of_layout = std::ranges::none_of(
        finalists, [&](const Option& o) { return alike(o.unit, found[i].unit); });
    if (first_of_layout || (i < kMostClose && near(found[i], found.front(), kClose)))
      finalists.push_back(found[i]);
  }
  return evaluate(finalists, kThorough);
}

/// Of the most load: the best for 1, 2, 4 … devices. Of a given load: the best with more engines.
std::vector<CapacityCandidate> CapacitySearch::frontier(const std::vector<Option>& found) const {
  const Option& best = found.front();
  std::vector<Option> options;
  if (asked_ > 0) {
    for (const int more : {1, 2, best.copies}) {
      Option option = best;
      option.copies += more;
      if (option.devices() <= devices_ &&
          (options.empty() || option.copies > options.back().copies))
        options.push_back(option);
    }
  } else {
    std::vector<const Arrangement*> units;  // each layout's best
    for (const Option& option : found)
      if (std::ranges::none_of(units,
                               [&](const Arrangement* unit) { return alike(*unit, option.unit); }))
        units.push_back(&option.unit);
    for (int devices = 1; devices < best.devices(); devices *= 2)
      for (const Arrangement* unit : units)
        if (devices % unit->devices() == 0)
          options.push_back({*unit, devices / unit->devices(), {}, {}});
  }
  std::vector<std::optional<Option>> results(options.size());
  for_each_task(options.size(), threads_, [&](size_t i, size_t) {
    if (asked_ > 0) {
      const Arrangement arrangement = options[i].arrangement();
      results[i] = options[i];
      results[i]->kept = trial(arrangement, pools_of(arrangement), asked_, kThorough);
      results[i]->broken.reset();
    } else {
      results[i] = most_load(options[i], kThorough);
    }
  });
  std::vector<CapacityCandidate> frontier;
  if (asked_ > 0) frontier.push_back(best.candidate());
  for (const std::optional<Option>& result : results) {
    if (!result) continue;
    if (!frontier.empty() && asked_ == 0 &&
        frontier.back().arrangement.devices() == result->devices()) {
      if (frontier.back().kept.rate < result->kept.rate) frontier.back() = result->candidate();
    } else {
      frontier.push_back(result->candidate());
    }
  }
  if (asked_ == 0) frontier.push_back(best.candidate());
  return frontier;
}

/// With all steps of the best arrangement longer or shorter by the model's error.
void CapacitySearch::fill_interval(CapacityAnswer& answer) const {
  const Arrangement& arrangement = answer.best.arrangement;
  const auto at = [&](double sign) {
    std::vector<EnginePool> pools = pools_of(arrangement);
    for (size_t i = 0; i < pools.size(); ++i)
      pools[i].engine.times->scale(std::exp(sign * kNinetyPercent * answer.run.pools[i].spread));
    const RateBracket found = carry(arrangement, answer.most.rate, kInterval);
    for (EnginePool& pool : pools) pool.engine.times->scale(1);
    return found.kept ? found.kept->rate : 0;
  };
  answer.most_low = std::min(answer.most.rate, at(1));
  answer.most_high = std::max(answer.most.rate, at(-1));
}

void CapacitySearch::refuse_all() const {
  const LayoutEngine* nearest = nullptr;
  for (const LayoutEngine& e : engines_)
    if (e.engine && (nearest == nullptr || e.trickle.strain < nearest->trickle.strain))
      nearest = &e;
  if (nearest == nullptr)
    throw_infeasible(engines_.empty() ? "no layout is possible" : engines_.back().fault);
  const double percent = 100 * request_.promise.quantile;
  if (!nearest->trickle.kept()) {
    const ServiceLevel& level = request_.promise.level;
    std::string seen;
    const auto add = [&](const char* what, Seconds is, Seconds promised) {
      if (promised.value > 0)
        seen += fmt::format("{}{} {} (promised {})", seen.empty() ? "" : ", ", what,
                            format_seconds(is.value), format_seconds(promised.value));
    };
    add("ttft", nearest->trickle.ttft, level.ttft);
    add("tpot", nearest->trickle.tpot, level.tpot);
    add("e2e", nearest->trickle.e2e, level.e2e);
    throw_infeasible(fmt::format(
        "nothing keeps the promise, whatever the load: where requests do not even meet, p{:g} is "
        "at best {}, with {}; promise more time (--slo), a smaller share (--quantile), or use "
        "narrower weights (--dtype), more devices (--devices) or faster ones",
        percent, seen, words(nearest->layout)));
  }
  if (asked_ > 0) {
    std::optional<Option> most;
    for (const Option& one : colocated()) {
      Option all = one;
      all.copies = devices_ / all.unit.devices();
      const std::optional<Option> found = most_load(all, kQuick);
      if (found && (!most || most->kept.rate < found->kept.rate)) most = found;
    }
    if (most)
      throw_infeasible(fmt::format(
          "{:.4g} requests/s need more than {} devices: the most they carry is about {:.3g} "
          "requests/s, as {}; allow more (--devices), promise more time (--slo) or use narrower "
          "weights (--dtype)",
          asked_, devices_, most->kept.rate, words(most->arrangement())));
  }
  throw_infeasible(fmt::format(
      "no load above {:g} requests/s keeps the promise; promise more time (--slo), or allow more "
      "devices (--devices)",
      kTrickle));
}

CapacityAnswer CapacitySearch::answer() {
  build_engines();
  const std::vector<Option> found = search();
  if (found.empty()) refuse_all();
  CapacityAnswer answer;
  answer.cluster = cluster_.name;
  answer.devices = devices_;
  answer.best = found.front().candidate();
  for (size_t i = 1; i < found.size(); ++i) answer.others.push_back(found[i].candidate());
  for (const LayoutEngine& e : engines_)
    if (!e.engine) {
      answer.left_out.push_back({e.layout, e.fault});
    } else if (!e.trickle.kept()) {
      const PromiseTerm term = e.trickle.tightest;
      answer.left_out.push_back(
          {e.layout, fmt::format("a lone request's {} is {} already", name(term),
                                 format_seconds(e.trickle.of(term).value))});
    }
  answer.frontier = frontier(found);
  const Arrangement& arrangement = answer.best.arrangement;
  answer.most = answer.best.kept;
  if (asked_ > 0)
    if (const RateBracket bracket = carry(arrangement, asked_, kThorough); bracket.kept)
      answer.most = *bracket.kept;
  const std::vector<EnginePool> pools = pools_of(arrangement);
  answer.curve.resize(static_cast<size_t>(kCurveSteps));
  for_each_task(answer.curve.size(), threads_, [&](size_t i, size_t) {
    const double share = (static_cast<double>(i) + 1) / (kCurveSteps - 1);
    answer.curve[i] = trial(arrangement, pools, share * answer.most.rate, kThorough);
  });
  const double rate = answer.best.kept.rate;
  ServingRequest run = serving_request(arrangement, rate, count_for(rate, kThorough));
  run.trimming.warm_up = kWarmUp;
  answer.run = session_.serving(run);
  fill_interval(answer);
  return answer;
}

}  // namespace

std::string words(const ServingLayout& l) {
  std::string text = fmt::format("tp {}", l.tensor);
  if (l.pipeline > 1) text += fmt::format(", pp {}", l.pipeline);
  if (l.attention_data > 1) text += fmt::format(", attention dp {}", l.attention_data);
  if (l.expert > 1) text += fmt::format(", ep {}", l.expert);
  return text;
}

std::string words(const Arrangement& arrangement) {
  std::string text;
  for (const ArrangedPool& pool : arrangement.pools)
    text += fmt::format("{}{}{} × ({})", text.empty() ? "" : ", ",
                        pool.role == "engines" ? "" : pool.role + " ", pool.replicas,
                        words(pool.layout));
  return text;
}

std::string reason(const CapacityCandidate& loser, const CapacityRequest& request) {
  if (!loser.broken) return {};
  const LoadPoint& broken = *loser.broken;
  return fmt::format("p{:g} {} {} at {:.4g} requests/s{}", 100 * request.promise.quantile,
                     name(broken.tightest), format_seconds(broken.of(broken.tightest).value),
                     broken.rate, request.serving.traffic.rate > 0 ? " with fewer" : "");
}

std::vector<ServingLayout> serving_layouts(const TransformerDescription& model, int devices,
                                           int node_size) {
  const bool experts = std::ranges::any_of(model.layers, [](const Layer& layer) {
    return std::holds_alternative<MixtureOfExperts>(layer.feed_forward);
  });
  std::vector<ServingLayout> layouts;
  for (int stage = devices; stage >= 1; stage /= 2)
    for (int tensor = stage; tensor >= (experts ? 1 : stage); tensor /= 2)
      for (int expert = 1; expert <= (experts ? stage : 1); expert *= stage) {
        const ServingLayout layout = {tensor, devices / stage, stage / tensor, 0, expert};
        if (tensor <= node_size && faults(layout, model).empty()) layouts.push_back(layout);
        if (stage == 1) break;
      }
  return layouts;
}

CapacityAnswer Session::capacity(const CapacityRequest& request) const {
  CapacityRequest limited = request;
  limited.serving.engine = with_limits(request.serving.engine);
  return CapacitySearch(*this, limited).answer();
}

}  // namespace orrery
