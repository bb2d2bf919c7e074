#include "orrery/api/capacity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <thread>

#include "orrery/api/capacity/search.h"
#include "orrery/api/session.h"
#include "orrery/base/error.h"
#include "orrery/learn/parallel.h"

namespace orrery {
namespace {

/// Loads of the curve: up to an eighth past the most.
constexpr double kCurveSteps = 8;

void check(const CapacityRequest& request) {
  const ServiceLevel& level = request.promise.level;
  if (level.ttft.value <= 0 && level.e2e.value <= 0)
    throw_usage(
        "--slo: promise ttft or e2e too; with tpot alone requests may wait for ever before their "
        "first token");
  if (!(request.promise.quantile > 0 && request.promise.quantile < 1))
    throw_usage("--quantile is between 0 and 1");
  for (const std::string& device : request.kinds()) request.serving.prices.of(device);
}

int most_devices(const CapacityRequest& request, const KnownEngines& engines) {
  if (request.devices > 0) return request.devices;
  int most = 0;
  for (const DeviceKind& kind : engines.kinds())
    most =
        std::max(most, request.asked() > 0 ? static_cast<int>(std::min(kind.cluster.largest(), 1e6))
                                           : kind.cluster.node_size());
  return most;
}

CapacityCandidate candidate(const Option& option, const DevicePrices& prices) {
  const Arrangement arrangement = option.arrangement();
  return {arrangement, option.kept, option.broken, prices.given() ? cost(arrangement, prices) : 0};
}

std::vector<ImpossibleLayout> left_out(const KnownEngines& engines,
                                       const std::vector<ImpossibleLayout>& too_slow) {
  std::vector<ImpossibleLayout> out;
  for (const KnownEngine& e : engines.all())
    if (!e.engine) {
      out.push_back({e.device, e.layout, e.fault});
    } else if (!e.trickle.kept()) {
      const PromiseTerm term = e.trickle.tightest;
      out.push_back({e.device, e.layout,
                     fmt::format("a lone request's {} is {} already", name(term),
                                 format_seconds(e.trickle.of(term).value))});
    }
  out.insert(out.end(), too_slow.begin(), too_slow.end());
  return out;
}

/// With all steps of the best arrangement longer or shorter by the model's error.
void fill_interval(const Trials& trials, int threads, CapacityAnswer& answer) {
  constexpr std::array kSigns = {1.0, -1.0};
  std::array<double, kSigns.size()> found{};
  share_tasks(kSigns.size(), threads, [&](size_t i) {
    double largest = 0;
    std::vector<double> factors;
    for (const PoolAnswer& pool : answer.run.pools) {
      const double reach = kNinetyPercent * pool.spread;
      factors.push_back(std::exp(kSigns[i] * reach));
      largest = std::max(largest, reach);
    }
    const LoadBracket bracket =
        trials.highest(trials.field(answer.best.arrangement, factors),
                       answer.most.load * std::exp(-kSigns[i] * largest), kInterval);
    if (bracket.kept) found[i] = bracket.kept->load;
  });
  answer.most_low = std::min(answer.most.load, found[0]);
  answer.most_high = std::max(answer.most.load, found[1]);
}

/// Of the best arrangement, by load.
void fill_curve(const Trials& trials, LoadUnit unit, int threads, CapacityAnswer& answer) {
  const Fielded engines = trials.field(answer.best.arrangement);
  answer.curve.resize(static_cast<size_t>(kCurveSteps));
  share_tasks(answer.curve.size(), threads, [&](size_t i) {
    const double share = (static_cast<double>(i) + 1) / (kCurveSteps - 1);
    double at = share * answer.most.load;
    if (unit == LoadUnit::kUsers) at = std::max(1.0, std::round(at));
    // The most was found by a whole run at that very load.
    answer.curve[i] = at == answer.most.load ? answer.most : trials.at(engines, at, kThorough);
  });
}

}  // namespace

std::string_view name(LoadUnit unit) {
  switch (unit) {
    case LoadUnit::kRequests:
      return "requests/s";
    case LoadUnit::kConversations:
      return "conversations/s";
    case LoadUnit::kUsers:
      return "users";
    case LoadUnit::kTableSpeed:
      return "times the table's rate";
  }
  return "";
}

LoadUnit CapacityRequest::unit() const {
  const TrafficRequest& traffic = serving.traffic;
  if (!traffic.requests.empty()) return LoadUnit::kTableSpeed;
  if (traffic.concurrency > 0) return LoadUnit::kUsers;
  return traffic.turns > 0 ? LoadUnit::kConversations : LoadUnit::kRequests;
}

double CapacityRequest::asked() const {
  if (most) return 0;
  const TrafficRequest& traffic = serving.traffic;
  switch (unit()) {
    case LoadUnit::kTableSpeed:
      return traffic.speed;
    case LoadUnit::kUsers:
      return static_cast<double>(traffic.concurrency);
    case LoadUnit::kRequests:
    case LoadUnit::kConversations:
      break;
  }
  return traffic.rate;
}

std::vector<std::string> CapacityRequest::kinds() const {
  return on.empty() ? std::vector{serving.engine.device} : on;
}

std::string words(const ServingLayout& l) {
  std::string text = fmt::format("tp {}", l.tensor);
  if (l.pipeline > 1) text += fmt::format(", pp {}", l.pipeline);
  if (l.attention_data > 1) text += fmt::format(", attention dp {}", l.attention_data);
  if (l.expert > 1) text += fmt::format(", ep {}", l.expert);
  return text;
}

std::string words(const Arrangement& arrangement, bool devices) {
  std::string text;
  for (const ArrangedPool& pool : arrangement.pools)
    text += fmt::format("{}{}{} × ({}){}", text.empty() ? "" : ", ",
                        pool.role == "engines" ? "" : pool.role + " ", pool.replicas,
                        words(pool.layout), devices ? " on " + pool.device : "");
  return text;
}

std::string load_text(double load, LoadUnit unit, int digits) {
  return unit == LoadUnit::kUsers ? fmt::format("{:.0f} users", load)
                                  : fmt::format("{:.{}g} {}", load, digits, name(unit));
}

std::string reason(const CapacityCandidate& loser, const CapacityRequest& request) {
  if (!loser.broken) return {};
  const LoadPoint& broken = *loser.broken;
  const std::string where = fmt::format("{}{}", load_text(broken.load, request.unit(), 4),
                                        request.asked() > 0 ? " with fewer" : "");
  if (!std::isfinite(broken.strain)) return fmt::format("broken at {}", where);
  return fmt::format("p{:g} {} {} at {}", 100 * request.promise.quantile, name(broken.tightest),
                     format_seconds(broken.of(broken.tightest).value), where);
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
  check(request);
  const int threads = request.threads > 0
                          ? request.threads
                          : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  OfferedLoad load(request);
  KnownEngines engines(*this, request, load, threads);
  CapacityAnswer answer;
  answer.devices = most_devices(request, engines);
  engines.build(answer.devices);
  double longest_tpot = 0;
  for (const KnownEngine& e : engines.all())
    longest_tpot = std::max(longest_tpot, 10 * e.trickle.tpot.value);
  load.settle(request.promise.level, Seconds(longest_tpot));

  const Trials trials(engines, load, request.promise, answer.devices);
  CapacitySearch search(request, engines, load, trials, answer.devices, threads);
  const std::vector<Option> found = search.find();
  if (found.empty()) search.refuse_all();
  const DevicePrices& prices = request.serving.prices;
  std::vector<std::string> clusters;
  for (const DeviceKind& kind : engines.kinds()) clusters.push_back(kind.cluster.name);
  answer.cluster = fmt::format("{}", fmt::join(clusters, ", "));
  answer.best = candidate(found.front(), prices);
  for (size_t i = 1; i < found.size(); ++i) answer.others.push_back(candidate(found[i], prices));
  answer.left_out = left_out(engines, search.too_slow());

  const Arrangement& arrangement = answer.best.arrangement;
  answer.most = answer.best.kept;
  if (load.asked() > 0)
    if (const LoadBracket bracket =
            trials.highest(trials.field(arrangement), load.asked(), kThorough);
        bracket.kept)
      answer.most = *bracket.kept;
  // Each of the three hangs on the best alone, and is too small to keep all threads busy.
  const std::array<std::function<void()>, 3> rest = {
      [&] {
        ServingRequest run =
            engines.serving(arrangement, load.at(answer.best.kept.load, kThorough));
        run.trimming.warm_up = kWarmUp;
        answer.run = serving(run);
        fill_interval(trials, threads, answer);
      },
      [&] {
        for (const Option& option : search.frontier(found))
          answer.frontier.push_back(candidate(option, prices));
      },
      [&] { fill_curve(trials, load.unit(), threads, answer); }};
  share_tasks(rest.size(), threads, [&](size_t i) { rest[i](); });
  return answer;
}

}  // namespace orrery
