#include "orrery/api/capacity/arrangements.h"

#include <algorithm>
#include <array>

namespace orrery {
namespace {

constexpr std::array<int64_t, 5> kStepLimits = {512, 1024, 2048, 4096, 8192};
/// Pairs of prefill and decode engines that are simulated.
constexpr size_t kPairs = 12;

}  // namespace

Arrangement Option::arrangement() const {
  Arrangement all = unit;
  for (ArrangedPool& pool : all.pools) pool.replicas *= copies;
  return all;
}

double cost(const Arrangement& arrangement, const DevicePrices& prices) {
  if (!prices.given()) return arrangement.devices();
  double sum = 0;
  for (const ArrangedPool& pool : arrangement.pools) sum += prices.of(pool.device) * pool.devices();
  return sum;
}

bool alike(const Arrangement& a, const Arrangement& b) {
  return std::ranges::equal(a.pools, b.pools, [](const ArrangedPool& x, const ArrangedPool& y) {
    return x.device == y.device && x.layout == y.layout;
  });
}

std::vector<Option> single_engines(const KnownEngines& engines) {
  std::vector<Option> all;
  for (const KnownEngine& e : engines.all()) {
    if (!e.keeps()) continue;
    all.push_back({{{engines.pool("engines", e.device, e.layout, 1)}}, 1, e.pace, {}, {}, false});
  }
  return all;
}

std::vector<Option> pairs(const KnownEngines& engines, const OfferedLoad& load,
                          const DevicePrices& prices, int devices) {
  std::vector<std::pair<double, Option>> ranked;
  for (const KnownEngine& prefill : engines.all())
    for (const KnownEngine& decode : engines.all()) {
      if (!prefill.engine || !decode.engine || decode.pace.answers <= 0) continue;
      const int p = prefill.layout.devices(), d = decode.layout.devices();
      const int node = engines.kind(decode.device).cluster.node_size();
      const int most = load.asked() > 0 ? std::max(p + d, std::min(devices, node)) : devices;
      std::optional<std::pair<double, Option>> best;
      for (int workers = 1; workers * p + d <= most; ++workers) {
        const int decoders = (most - workers * p) / d;
        Option option;
        for (const auto& [role, engine, replicas] :
             {std::tuple("prefill", &prefill, workers), std::tuple("decode", &decode, decoders)})
          option.unit.pools.push_back(engines.pool(role, engine->device, engine->layout, replicas));
        option.pace.requests =
            std::min(workers * prefill.pace.prompts, decoders * decode.pace.answers);
        option.pace.under_way = option.pace.requests * decode.trickle.e2e.value;
        const double value = load.asked() > 0 ? option.pace.requests / cost(option.unit, prices)
                                              : option.pace.requests;
        if (best && value <= best->first) continue;
        best = {value, std::move(option)};
      }
      if (best && best->second.devices() <= devices) ranked.push_back(*std::move(best));
    }
  std::ranges::stable_sort(ranked, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Option> all;
  for (size_t i = 0; i < std::min(kPairs, ranked.size()); ++i)
    all.push_back(std::move(ranked[i].second));
  return all;
}

std::vector<Option> with_other_limits(const std::vector<Option>& options,
                                      const KnownEngines& engines) {
  std::vector<Option> all;
  for (const Option& option : options)
    for (const int64_t tokens : kStepLimits) {
      Option other = option;
      // Engines that only decode have no prompts to put in a step.
      ArrangedPool& pool = other.unit.pools.front();
      int64_t* const limit = engines.variable_limit(pool);
      if (limit == nullptr || *limit == tokens) continue;
      // A step of all its tokens has room for those that decode.
      if (pool.max_batched_tokens > 0 && tokens < engines.kind(pool.device).engine.max_seqs)
        continue;
      *limit = tokens;
      all.push_back(std::move(other));
    }
  return all;
}

}  // namespace orrery
