#include <algorithm>

#include "orrery/base/random_stream.h"
#include "orrery/serving/router.h"

namespace orrery {
namespace {

/// The replica of the least score, the first of them.
template <class Score>
size_t least(std::span<Replica* const> replicas, Score score) {
  size_t best = 0;
  auto best_score = score(*replicas[0]);
  for (size_t i = 1; i < replicas.size(); ++i) {
    const auto s = score(*replicas[i]);
    if (s < best_score) {
      best = i;
      best_score = s;
    }
  }
  return best;
}

class RoundRobin final : public Router {
 public:
  size_t choose(const Request&, std::span<Replica* const> replicas, Seconds) override {
    return next_++ % replicas.size();
  }

 private:
  size_t next_ = 0;
};

class Random final : public Router {
 public:
  void seed(uint64_t seed) override { random_ = RandomStream(seed, 32); }
  size_t choose(const Request&, std::span<Replica* const> replicas, Seconds) override {
    return static_cast<size_t>(random_.integer(0, static_cast<int64_t>(replicas.size()) - 1));
  }

 private:
  RandomStream random_{0};
};

class LeastOutstanding final : public Router {
 public:
  size_t choose(const Request&, std::span<Replica* const> replicas, Seconds) override {
    return least(replicas, [](const Replica& r) { return r.outstanding(); });
  }
};

double kv_use(const Replica& replica, Seconds now) {
  return static_cast<double>(replica.used_blocks(now)) / static_cast<double>(replica.blocks());
}

class KvAware final : public Router {
 public:
  size_t choose(const Request&, std::span<Replica* const> replicas, Seconds now) override {
    return least(replicas, [&](const Replica& r) {
      return std::tuple(kv_use(r, now) + static_cast<double>(r.waiting()), r.outstanding());
    });
  }
};

class PrefixAware final : public Router {
 public:
  size_t choose(const Request& request, std::span<Replica* const> replicas, Seconds now) override {
    return least(replicas, [&](Replica& r) {
      return std::tuple(-r.cached_tokens(request, now), r.outstanding());
    });
  }
};

const Registration<Router> kRoundRobin(
    {.name = "round-robin", .summary = "One replica after another", .source = "", .parameters = {}},
    [] { return std::make_unique<RoundRobin>(); });
const Registration<Router> kRandom({.name = "random",
                                    .summary = "Each replica as likely, by the run's seed",
                                    .source = "",
                                    .parameters = {}},
                                   [] { return std::make_unique<Random>(); });
const Registration<Router> kLeastOutstanding(
    {.name = "least-outstanding",
     .summary = "The replica with the fewest requests, running ones included",
     .source = "VIDUR (Agrawal et al., MLSys 2024), which counts those that wait alone",
     .parameters = {}},
    [] { return std::make_unique<LeastOutstanding>(); });
const Registration<Router> kKvAware(
    {.name = "kv-aware",
     .summary = "The replica whose cache of keys and values is used least, each request that waits "
                "counting as a whole cache",
     .source = "Kubernetes Gateway API inference extension, KV-cache utilisation scorer",
     .parameters = {}},
    [] { return std::make_unique<KvAware>(); });
const Registration<Router> kPrefixAware(
    {.name = "prefix-aware",
     .summary = "The replica that has the most of the prompt in its cache, then the one with the "
                "fewest requests",
     .source = "SGLang router, cache-aware load balancing; NVIDIA Dynamo, KV router",
     .parameters = {}},
    [] { return std::make_unique<PrefixAware>(); });

}  // namespace

std::unique_ptr<Router> make_router(const std::string& name) {
  return Registry<Router>::instance().at(name, "router").create();
}

}  // namespace orrery
