#include "orrery/api/capacity/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "orrery/base/error.h"
#include "orrery/learn/parallel.h"

namespace orrery {
namespace {

/// Other limits of a step are tried for arrangements with this share of the best one's load, so
/// many at most, …
constexpr double kPromising = 0.6;
constexpr size_t kMostPromising = 6;
/// … and those with this share are looked at to the end, so many at most.
constexpr double kClose = 0.9;
constexpr size_t kMostClose = 6;
/// Arrangements that are tried whatever their pace, the best ones.
constexpr size_t kFirst = 4;
/// An engine never carries so many times what its mean step allows.
constexpr double kSurely = 1.5;
/// Arrangements that are tried for each smaller number of devices.
constexpr size_t kForEachSize = 2;

}  // namespace

CapacitySearch::CapacitySearch(const CapacityRequest& request, const KnownEngines& engines,
                               const OfferedLoad& load, const Trials& trials, int devices,
                               int threads)
    : request_(request),
      engines_(engines),
      load_(load),
      trials_(trials),
      devices_(devices),
      threads_(threads) {}

double CapacitySearch::cost_of(const Option& option) const {
  return cost(option.arrangement(), request_.serving.prices);
}

bool CapacitySearch::better(const Option& a, const Option& b) const {
  if (asked())
    return std::tuple(cost_of(a), a.devices(), a.kept.strain) <
           std::tuple(cost_of(b), b.devices(), b.kept.strain);
  return std::tuple(-a.kept.load, cost_of(a)) < std::tuple(-b.kept.load, cost_of(b));
}

bool CapacitySearch::near(const Option& option, const Option& best, double share) const {
  return asked() ? cost_of(option) * share <= cost_of(best)
                 : option.kept.load >= best.kept.load * share;
}

void CapacitySearch::sort(std::vector<Option>& options) const {
  std::ranges::stable_sort(options,
                           [this](const Option& a, const Option& b) { return better(a, b); });
}

std::vector<Option> CapacitySearch::tried(const std::vector<Option>& all, Aim aim,
                                          const Effort& effort) const {
  std::vector<std::optional<Option>> results(all.size());
  share_tasks(all.size(), threads_, [&](size_t i) {
    try {
      results[i] = aim == Aim::kMostLoad ? trials_.most_load(all[i], effort)
                                         : trials_.fewest_copies(all[i], effort);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInfeasible) throw;
    }
  });
  std::vector<Option> found;
  for (std::optional<Option>& result : results)
    if (result) {
      result->exact = effort.to_the_end;
      found.push_back(*std::move(result));
    }
  return found;
}

int CapacitySearch::copies_for_load(const Option& one) const {
  return static_cast<int>(std::ceil(std::min(1e6, load_.asked() / one.kept.load)));
}

double CapacitySearch::worth(const Option& unit, double load) const {
  if (!asked()) return load;
  Option enough = unit;
  enough.copies = static_cast<int>(std::ceil(std::min(1e6, load_.asked() / load)));
  return 1 / cost_of(enough);
}

std::vector<Option> CapacitySearch::units(int devices) const {
  std::vector<Option> all = single_engines(engines_);
  std::erase_if(all, [&](const Option& one) { return one.unit.devices() > devices; });
  if (request_.disaggregate || engines_.kinds().size() > 1)
    for (Option& pair : pairs(engines_, load_, request_.serving.prices, devices))
      all.push_back(std::move(pair));
  return all;
}

std::vector<Option> CapacitySearch::roughly(std::vector<Option> units, int devices,
                                            std::vector<ImpossibleLayout>& too_slow) const {
  if (!asked())
    for (Option& unit : units) unit.copies = devices / unit.unit.devices();
  std::ranges::stable_sort(units, [&](const Option& a, const Option& b) {
    return worth(a, a.allowed(load_)) > worth(b, b.allowed(load_));
  });
  const auto split = units.begin() + static_cast<std::ptrdiff_t>(std::min(kFirst, units.size()));
  std::vector<Option> found = tried({units.begin(), split}, Aim::kMostLoad, kQuick);
  double best = 0;
  for (const Option& option : found) best = std::max(best, worth(option, option.kept.load));
  std::vector<Option> others;
  for (auto unit = split; unit != units.end(); ++unit) {
    const double allowed = kSurely * unit->allowed(load_);
    if (worth(*unit, allowed) >= kPromising * best) {
      others.push_back(*unit);
    } else if (unit->unit.pools.size() == 1) {
      const ArrangedPool& pool = unit->unit.pools.front();
      too_slow.push_back({pool.device, pool.layout,
                          fmt::format("its steps allow {} at most",
                                      load_text(allowed / unit->copies, load_.unit()))});
    }
  }
  for (Option& other : tried(others, Aim::kMostLoad, kQuick)) found.push_back(std::move(other));
  return found;
}

std::vector<Option> CapacitySearch::find() {
  std::vector<Option> found = roughly(units(devices_), devices_, too_slow_);
  const Aim aim = asked() ? Aim::kFewestCopies : Aim::kMostLoad;
  if (asked()) {
    // As many copies as the load takes by what one carries, of those that may cost least.
    double best = 0;
    for (const Option& one : found) best = std::max(best, worth(one, one.kept.load));
    std::erase_if(found,
                  [&](const Option& one) { return worth(one, one.kept.load) < kPromising * best; });
    for (Option& one : found) one.copies = copies_for_load(one);
    found = tried(found, aim, kQuick);
  }
  if (found.empty()) return found;
  sort(found);
  std::vector<Option> promising;
  for (const Option& option : found)
    if (promising.size() < kMostPromising && near(option, found.front(), kPromising))
      promising.push_back(option);
  for (Option& other : tried(with_other_limits(promising, engines_), aim, kQuick))
    found.push_back(std::move(other));
  sort(found);
  std::vector<Option> close, far;
  for (size_t i = 0; i < found.size(); ++i) {
    if (i < kMostClose && near(found[i], found.front(), kClose)) {
      close.push_back(found[i]);
      continue;
    }
    const auto same = [&](const Option& o) { return alike(o.unit, found[i].unit); };
    if (std::ranges::none_of(close, same) && std::ranges::none_of(far, same))
      far.push_back(found[i]);
  }
  std::vector<Option> all = tried(close, aim, kThorough);
  for (Option& option : far) all.push_back(std::move(option));
  sort(all);
  // Short runs flatter: who they put first is looked at as closely as those it passed.
  while (!all.empty() && !all.front().exact) {
    const std::vector<Option> first = tried({all.front()}, aim, kThorough);
    all.erase(all.begin());
    all.insert(all.end(), first.begin(), first.end());
    sort(all);
  }
  return all;
}

std::vector<Option> CapacitySearch::with_more_engines(const Option& best) const {
  std::vector<Option> options;
  for (const int more : {1, 2, best.copies}) {
    Option option = best;
    option.copies += more;
    if (option.devices() <= devices_ && (options.empty() || option.copies > options.back().copies))
      options.push_back(option);
  }
  share_tasks(options.size(), threads_, [&](size_t i) {
    const Fielded engines = trials_.field(options[i].arrangement());
    options[i].kept = trials_.at(engines, load_.asked(), kThorough);
    options[i].broken.reset();
  });
  return options;
}

std::optional<Option> CapacitySearch::best_of(int devices, const std::vector<Option>& found) const {
  std::vector<Option> all = units(devices);
  // What is known of the same layouts on all devices tells where to look.
  for (Option& one : all)
    if (const auto known = std::ranges::find_if(
            found, [&](const Option& option) { return alike(option.unit, one.unit); });
        known != found.end()) {
      const int copies = devices / one.unit.devices();
      one.kept.load = known->kept.load * copies * one.unit.devices() / known->devices();
      for (size_t i = 0; i < one.unit.pools.size(); ++i) {
        one.unit.pools[i].max_batched_tokens = known->unit.pools[i].max_batched_tokens;
        one.unit.pools[i].chunk_size = known->unit.pools[i].chunk_size;
      }
    }
  std::vector<ImpossibleLayout> too_slow;
  std::vector<Option> rough = roughly(std::move(all), devices, too_slow);
  sort(rough);
  if (rough.size() > kForEachSize) rough.resize(kForEachSize);
  std::vector<Option> exact = tried(rough, Aim::kMostLoad, kThorough);
  sort(exact);
  return exact.empty() ? std::nullopt : std::optional(exact.front());
}

std::vector<Option> CapacitySearch::frontier(const std::vector<Option>& found) const {
  const Option& best = found.front();
  std::vector<Option> frontier;
  if (asked()) {
    frontier = with_more_engines(best);
    frontier.insert(frontier.begin(), best);
    return frontier;
  }
  for (int devices = 1; devices < best.devices(); devices *= 2) {
    const std::optional<Option> option = best_of(devices, found);
    if (option && (frontier.empty() || frontier.back().kept.load < option->kept.load))
      frontier.push_back(*option);
  }
  frontier.push_back(best);
  return frontier;
}

void CapacitySearch::refuse_all() const {
  const KnownEngine* nearest = nullptr;
  for (const KnownEngine& e : engines_.all())
    if (e.engine && (nearest == nullptr || e.trickle.strain < nearest->trickle.strain))
      nearest = &e;
  if (nearest == nullptr)
    throw_infeasible(engines_.all().empty() ? "no layout is possible"
                                            : engines_.all().back().fault);
  const bool named = engines_.kinds().size() > 1;
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
        "at best {}, with {}{}; promise more time (--slo), a smaller share (--quantile), or use "
        "narrower weights (--dtype), more devices (--devices) or faster ones",
        percent, seen, words(nearest->layout), named ? " on " + nearest->device : ""));
  }
  if (asked()) {
    // As many copies as might be needed, by what one carries.
    std::vector<Option> all = tried(single_engines(engines_), Aim::kMostLoad, kQuick);
    bool enough = true;
    for (Option& option : all) {
      option.copies = trials_.most_copies(option, copies_for_load(option));
      enough = enough && option.copies < devices_ / option.unit.devices();
      option.kept = {};
    }
    const std::vector<Option> found = tried(all, Aim::kMostLoad, kQuick);
    const auto most =
        std::ranges::max_element(found, {}, [](const Option& option) { return option.kept.load; });
    if (most != found.end() && enough)
      throw_infeasible(
          fmt::format("{} are too many, whatever the number of devices: {} carry about {}, as {}, "
                      "and what is in "
                      "the way is not theirs (the front end, or all users who begin at once); "
                      "promise more time "
                      "(--slo)",
                      load_text(load_.asked(), load_.unit(), 4), most->devices(),
                      load_text(most->kept.load, load_.unit()), words(most->arrangement(), named)));
    if (most != found.end())
      throw_infeasible(fmt::format(
          "{} need more than {} devices: the most they carry is about {}, as {}; allow more "
          "(--devices), promise more time (--slo) or use narrower weights (--dtype)",
          load_text(load_.asked(), load_.unit(), 4), devices_,
          load_text(most->kept.load, load_.unit()), words(most->arrangement(), named)));
  }
  throw_infeasible(fmt::format(
      "no load above {} keeps the promise; promise more time (--slo), or allow more devices "
      "(--devices)",
      load_text(load_.search(1, kQuick).least, load_.unit())));
}

}  // namespace orrery
