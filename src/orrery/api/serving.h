#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "orrery/api/device_prices.h"
#include "orrery/api/serving_engine.h"
#include "orrery/api/trust.h"
#include "orrery/serving/fleet.h"
#include "orrery/serving/metrics.h"
#include "orrery/serving/traffic/adapters.h"

namespace orrery {

struct Trace;

/// Who asks what of a fleet. One of `requests`, `rate` and `concurrency` says when.
struct TrafficRequest {
  std::string requests;     ///< A table of requests (serving/traffic/trace.h).
  double speed = 1;         ///< Times the rate at which the table was seen.
  double rate = 0;          ///< Requests a second.
  double variation = 1;     ///< Of the gaps between them: 1 Poisson, 0 a metronome.
  double swing = 0;         ///< Of the rate, by day: 1 + swing · sin.
  Seconds period{86400};    ///< Of that.
  int64_t concurrency = 0;  ///< Users who each wait for an answer before they ask again.
  int64_t count = 0;        ///< Requests; 0: 1,000, ten a user, or the table once.
  /// Tokens of prompts and answers: "1024", "uniform:512-2048", "zipf:128-4096:1.2",
  /// "lognormal:1024:0.8" (mean and coefficient of variation); where `lengths` is not given.
  std::string isl = "1024", osl = "128";
  /// A table whose lengths are drawn, or "vidur:128-512:20": totals with so many prompt tokens for
  /// one of the answer; with a rate, the very requests that VIDUR draws for this seed.
  std::string lengths;
  int32_t prefix_tokens = 0;  ///< Of a system prompt that requests begin with, …
  int32_t prefixes = 1;       ///< … one of so many.
  double turns = 0;           ///< Of conversations, on average; 0: single requests.
  Seconds pause{10};          ///< Between an answer and the next turn, on average.
  AdapterMix adapters;        ///< That requests ask for; with EngineRequest::lora_rank.
  uint64_t seed = 42;
  std::shared_ptr<const Trace> table;  ///< Of `requests` or `lengths`, where it was read before.
};

/// Engines alike, of a fleet. Either all pools answer whole requests ("engines"), or some compute
/// prompts ("prefill") and hand keys and values to others ("decode").
struct PoolRequest {
  std::string role = "engines";
  EngineRequest engine;  ///< On its own device; the model is the fleet's.
  int replicas = 1;
};

struct ServingRequest {
  EngineRequest engine;
  SchedulerOptions scheduler;
  int replicas = 1;
  std::vector<PoolRequest> pools;  ///< Empty: one, `replicas` of `engine`.
  std::string router = "round-robin";
  /// From prefill to decode engines; 0: of the slower one's network between nodes.
  BytesPerSecond transfer;
  std::optional<bool> asynchronous;  ///< Whether the host works ahead; nothing: as the engine does.
  int64_t stream_interval = 1;       ///< Tokens of an answer that are handed out together.
  Speculation speculation;
  TrafficRequest traffic;
  ServiceLevel promise;
  Trimming trimming;
  std::optional<GivingUp> giving_up;
  DevicePrices prices;
  bool list_requests = false;
  size_t series_points = 240;
  size_t events = 0;
  bool curve = false;  ///< The same under other loads too.
  std::function<void(int64_t)> progress;
};

/// Times the asked rate, number of users or speed of a table.
inline constexpr std::array<double, 8> kCurveLoads = {0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4};

/// One pool of engines.
struct PoolAnswer {
  std::string role;  ///< "engines", "prefill", "decode"
  std::string device;
  ServingLayout layout;
  int replicas = 1;
  EngineMemory memory;
  KvRoom room;
  ReplicaUse use;                  ///< Of all its engines.
  double request_share = 0;        ///< Of the requests that came to pools of its role.
  double busy = 0;                 ///< Share of the run's time in which an engine of it ran a step.
  double power_w = 0;              ///< Of a device, while a step runs, …
  double mean_power_w = 0;         ///< … and over the whole run.
  double price_per_hour = 0;       ///< Of all its devices.
  double mean_decodes = 0;         ///< Sequences of a step, …
  double mean_prefill_tokens = 0;  ///< … and tokens of prompts.
  std::vector<std::pair<std::string, double>> step;  ///< Shares of a step's time, by cause.
  double step_s = 0;                                 ///< On average.
  double spread = 0;                                 ///< Of ln(true / predicted step time).

  int devices() const { return layout.devices() * replicas; }
};

/// What a run said, and what it would have said with all steps shorter or longer by the model's
/// error: two kinds of doubt, kept apart.
struct ServingAnswer {
  ServingRun run;
  ServingMetrics fast, slow;  ///< Where steps take the lower and the upper end of their interval.
  std::vector<PoolAnswer> pools;
  std::vector<ServingMetrics> curve;  ///< Under each of kCurveLoads, if asked for.
  int devices = 0;
  double requests_offered = 0;  ///< A second; 0: a closed loop.
  double energy_j_per_token = 0;
  double tokens_per_s_per_device = 0;
  double price_per_hour = 0;            ///< Of all devices; 0: no price was given, …
  double price_per_million_tokens = 0;  ///< … as here.
  std::vector<std::string> gaps;
  std::vector<std::pair<std::string, std::string>> provenance;
  Trust trust;
};

/// The scheduler that an engine is known by, and the other way round: "trtllm" is both; "vllm-v0",
/// "sarathi", "orca", "static" and "lightllm" run on vLLM's kernels.
std::string engine_of_scheduler(const std::string& scheduler);

/// "8 × h100-sxm", "2 × h100-sxm + 4 × l40s"
std::string devices_text(const std::vector<PoolAnswer>& pools);

std::string to_json(const ServingAnswer& answer, const ServingRequest& request);

}  // namespace orrery
