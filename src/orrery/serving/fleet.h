#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "orrery/serving/metrics.h"
#include "orrery/serving/replica.h"
#include "orrery/serving/traffic/source.h"

namespace orrery {

/// How keys and values leave a prefill engine, or come to a decode engine: those of one request
/// after those of another, as fast as the slower end allows.
struct KvTransfer {
  Bytes bytes_per_token;
  BytesPerSecond bandwidth;
  Seconds latency;
};

/// One engine of a fleet.
struct ReplicaSpec {
  const StepTimes* times = nullptr;
  KvRoom room;  ///< Of each rank.
  ReplicaOptions options;
  KvTransfer transfer;  ///< Where prompts and answers are computed apart.
};

/// Replicas that are started and stopped by load: every `interval`
///
///   wanted = ceil(requests outstanding / target), between `least` and all there are,
///
/// are started in their order, ready after `start_up`; fewer only when fewer were wanted for all of
/// `patience`, the last ones first, which end what they have. A stopped replica takes no requests,
/// also where no other could hold them.
struct Autoscaling {
  double target = 0;  ///< Requests a replica; 0: all replicas always run.
  int64_t least = 1;
  Seconds interval{15};
  Seconds start_up{60};
  Seconds patience{300};
};

/// Engines that answer requests from one queue, whatever hardware each runs on.
struct ReplicaPool {
  std::vector<ReplicaSpec> replicas;
  std::string router = "round-robin";
  Autoscaling autoscaling;
};

/// When a run need not go on: more than `tolerated` of the requests from number `first` on have
/// broken the same term of `level`.
struct GivingUp {
  ServiceLevel level;
  size_t first = 0;
  size_t tolerated = 0;
};

struct FleetOptions {
  ReplicaPool pool;
  /// Not empty: `pool` computes prompts up to the first token, these the others.
  ReplicaPool decode_pool;
  Seconds before_engine;  ///< Of each request: network, text to tokens.
  Seconds after_engine;   ///< Of each answer: tokens to text, network.
  uint64_t seed = 0;
  size_t series_points = 0;  ///< Of the run's course, at most.
  size_t events = 0;         ///< Steps and transfers that are listed, at most.
  ServiceLevel promise;
  Trimming trimming;
  std::optional<GivingUp> giving_up;
  bool measured = true;  ///< False: the run's requests are wanted, and no metrics.
  /// Called now and then with the number of requests that have ended; may throw.
  std::function<void(int64_t)> progress;
};

struct ServingRun {
  bool gave_up = false;  ///< It ended with requests under way: see FleetOptions::giving_up.
  ServingMetrics metrics;
  int64_t steps = 0;
  int64_t kv_blocks = 0;             ///< Of all replicas, …
  int64_t kv_peak_blocks = 0;        ///< … the most that were in use, summed over replicas, …
  double kv_mean_use = 0;            ///< … and the share in use while steps ran.
  HostUse host;                      ///< Of all replicas.
  double replica_seconds = 0;        ///< That replicas were running or starting, of all.
  std::vector<ReplicaUse> replicas;  ///< Those of `pool`, then those of `decode_pool`.
  std::vector<RequestRecord> requests;
  std::vector<SeriesPoint> series;
  std::vector<ServingEvent> events;

  /// Of the run's time that a way of the links was busy, on average.
  double link_share(Seconds busy) const {
    const double all = metrics.duration.value * static_cast<double>(host.links);
    return all > 0 ? busy.value / all : 0;
  }
};

/// Runs all requests of `source` through the fleet; those that no engine has room for are rejected.
/// Throws `kUsage` for options that make no sense, `kInfeasible` for engines that cannot work.
ServingRun run_fleet(RequestSource& source, const FleetOptions& options);

}  // namespace orrery
