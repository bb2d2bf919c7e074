#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "orrery/api/serving.h"
#include "orrery/serving/load.h"

namespace orrery {

/// What load is counted in.
enum class LoadUnit : uint8_t { kRequests, kConversations, kUsers, kTableSpeed };
/// "requests/s", "conversations/s", "users", "times the table's rate"
std::string_view name(LoadUnit unit);

/// How much load keeps a promise, or what the cheapest engines for a load are.
struct CapacityRequest {
  /// The model, who asks. Layout, replicas and disaggregation are found, and so is what the
  /// scheduler fills its steps up to, `engine.max_batched_tokens` or `scheduler.chunk_size`, unless
  /// it is fixed or given. `traffic` tells the kind of load: users where
  /// it has a concurrency, a table of requests, conversations where they have turns, or requests;
  /// and how much of it (concurrency, speed, rate) is to be carried.
  ServingRequest serving;
  /// Find the most load of that kind instead, as where no rate is given.
  bool most = false;
  /// Kinds of devices: engines on each, and prompts on one with answers on another; empty: that of
  /// `serving.engine` alone.
  std::vector<std::string> on;
  Promise promise;
  int devices = 0;  ///< At most; 0: a node's, or for a given load all that a cluster has.
  std::optional<ServingLayout> layout;  ///< No other is tried.
  bool fixed_tokens = false;            ///< `engine.max_batched_tokens` is as given.
  bool disaggregate = false;            ///< Prompts and answers by different engines are tried too.
  int threads = 0;                      ///< 0: as many as the machine has. Answers are the same.

  LoadUnit unit() const;
  /// The load to be carried; 0: the most.
  double asked() const;
  std::vector<std::string> kinds() const;
};

/// Engines alike, of one arrangement.
struct ArrangedPool {
  std::string role;  ///< "engines", "prefill", "decode"
  std::string device;
  ServingLayout layout;
  int replicas = 1;
  // What the scheduler fills its steps up to: one of the two, or neither; 0: not that.
  int64_t max_batched_tokens = 0;
  int64_t chunk_size = 0;  ///< Where it looks at that alone.

  int devices() const { return layout.devices() * replicas; }
};

/// One pool, or one for prompts and one for answers.
struct Arrangement {
  std::vector<ArrangedPool> pools;

  int devices() const {
    int sum = 0;
    for (const ArrangedPool& pool : pools) sum += pool.devices();
    return sum;
  }
};

/// What an arrangement can carry.
struct CapacityCandidate {
  Arrangement arrangement;
  LoadPoint kept;  ///< The highest load that keeps the promise, or the load that was given.
  /// The lowest load that was tried and breaks it, or the given load on one engine less; of
  /// candidates that are far from the best, without what users saw.
  std::optional<LoadPoint> broken;
  double price_per_hour = 0;  ///< 0: no price was given.

  double rate_per_device() const { return kept.rate / arrangement.devices(); }
};

/// One that cannot be, or cannot keep the promise, and why.
struct ImpossibleLayout {
  std::string device;
  ServingLayout layout;
  std::string why;
};

struct CapacityAnswer {
  std::string cluster;
  int devices = 0;         ///< That could be used.
  CapacityCandidate best;  ///< The most load, or the cheapest: the fewest devices without prices.
  LoadPoint most;          ///< The highest load of the best arrangement, …
  double most_low = 0;     ///< … where all steps are longer by the model's error, …
  double most_high = 0;    ///< … or shorter: a 90 % interval.
  ServingAnswer run;       ///< Of the best arrangement, under `best.kept`'s load.
  std::vector<CapacityCandidate> others;    ///< Best first.
  std::vector<CapacityCandidate> frontier;  ///< The best for each number of devices, ascending.
  std::vector<LoadPoint> curve;             ///< Of the best arrangement, by load.
  std::vector<ImpossibleLayout> left_out;
};

/// "tp 4, pp 2"
std::string words(const ServingLayout& layout);
/// "2 × (tp 4)", "prefill 1 × (tp 4), decode 2 × (tp 2)"; with `devices` "2 × (tp 4) on h200".
std::string words(const Arrangement& arrangement, bool devices);
/// "5.1 requests/s", "120 users", "1.4 times the table's rate"
std::string load_text(double load, LoadUnit unit, int digits = 3);
/// Why `loser` is not the best: "p99 ttft 1.2 s at 5.1 requests/s".
std::string reason(const CapacityCandidate& loser, const CapacityRequest& request);

/// Layouts worth a try for an engine of so many devices, a power of two: degrees are powers of two,
/// tensor ranks stay in a node, attention is data-parallel and experts are spread where a model has
/// experts.
std::vector<ServingLayout> serving_layouts(const TransformerDescription& model, int devices,
                                           int node_size);

std::string to_json(const CapacityAnswer& answer, const CapacityRequest& request);

}  // namespace orrery
