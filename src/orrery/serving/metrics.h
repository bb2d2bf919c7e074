#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "orrery/base/units.h"
#include "orrery/serving/sampling_interval.h"
#include "orrery/serving/step_log.h"

namespace orrery {

/// What became of a request.
struct RequestRecord {
  enum class State : uint8_t { kPending, kDone, kRejected };

  Seconds arrival;
  Seconds scheduled;    ///< When its first step began.
  Seconds first_token;  ///< With what comes after the engine.
  Seconds end;
  int32_t prompt = 0;
  int32_t output = 0;
  int32_t cached = 0;  ///< Tokens of the prompt that were found in the cache.
  uint16_t preemptions = 0;
  uint16_t replica = 0;
  State state = State::kPending;

  Seconds ttft() const { return first_token - arrival; }
  Seconds e2e() const { return end - arrival; }
  Seconds queue() const { return scheduled - arrival; }
  /// (end − first token) / (output − 1); a request of one token has none.
  Seconds tpot() const { return (end - first_token) / (output - 1); }
  /// (end − first token) / output, as VIDUR counts it.
  Seconds vidur_tpot() const { return (end - first_token) / output; }
};

/// A value and its 90 % interval under the chance of the requests drawn.
struct Measured {
  double value = 0;
  SamplingInterval by_chance;
};

/// In seconds.
struct Distribution {
  int64_t count = 0;
  Measured mean;
  Measured p50;
  Measured p90;
  Measured p99;
};

/// What a request must keep; 0: no such promise.
struct ServiceLevel {
  Seconds ttft;
  Seconds tpot;
  Seconds e2e;
};

/// Takes down what becomes of requests.
class Recorder {
 public:
  /// `after_engine`: from the engine to the user.
  explicit Recorder(Seconds after_engine) : after_engine_(after_engine) {}

  uint32_t arrive(Seconds now, int32_t prompt, int32_t output);
  RequestRecord& record(uint32_t id) { return records_[id]; }
  void first_token(uint32_t id, Seconds now) { records_[id].first_token = now + after_engine_; }
  void end(uint32_t id, Seconds now);
  void reject(uint32_t id) { records_[id].state = RequestRecord::State::kRejected; }

  const std::vector<RequestRecord>& records() const { return records_; }
  std::vector<RequestRecord> take_records() { return std::move(records_); }

 private:
  Seconds after_engine_;
  std::vector<RequestRecord> records_;
};

/// Which requests count.
struct Trimming {
  double warm_up = 0;    ///< Share of the requests, the first ones, that are left out, …
  double cool_down = 0;  ///< … and of the last ones.
};

/// What is said of a run. Every duration is as the user sees it.
struct ServingMetrics {
  Distribution ttft;
  Distribution tpot;
  Distribution vidur_tpot;
  Distribution e2e;
  Distribution queue;
  Seconds itl_mean;
  Seconds itl_p50;
  Seconds itl_p90;
  Seconds itl_p99;
  int64_t requests = 0;  ///< That ended, …
  int64_t rejected = 0;  ///< … and that could not be served at all.
  int64_t preemptions = 0;
  Seconds duration;  ///< From the first arrival to the last end.
  double requests_per_s = 0;
  double output_tokens_per_s = 0;
  double input_tokens_per_s = 0;
  double cached_share = 0;   ///< Of the prompts' tokens.
  double mean_waiting = 0;   ///< Requests in the queue, by Little's law.
  double goodput = 0;        ///< Requests a second that keep the promise, …
  double goodput_share = 0;  ///< … and their share of all.
};

/// The quantile `q` of type 7 of Hyndman and Fan, of one value at least; reorders them.
double quantile_of(std::span<double> values, double q);

/// Of values in the order their requests came.
Distribution distribution(std::span<const double> values);

ServingMetrics measure(std::span<const RequestRecord> records, const DurationHistogram& intervals,
                       const ServiceLevel& promise, const Trimming& trimming);

}  // namespace orrery
