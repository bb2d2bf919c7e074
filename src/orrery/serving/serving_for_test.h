#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "orrery/base/error.h"
#include "orrery/serving/fleet.h"

namespace orrery {

/// base + per_prefill · prompt tokens + per_decode · decodes + per_context · their contexts.
class LinearTimes final : public StepTimes {
 public:
  double base = 1;
  double per_prefill = 0;
  double per_decode = 0;
  double per_context = 0;
  double per_windowed = 0;
  double per_group = 0;
  double per_adapter = 0;
  double host = 0, launch = 0;
  int64_t window_tokens = 0;
  int stages = 1;
  int64_t longest_line = 5;            ///< Lines have one step to so many.
  mutable int64_t prefill_tokens = 0;  ///< Seen so far, planned steps included.

  StepTime of(const StepShape& shape) const override {
    const auto d = [](int64_t n) { return static_cast<double>(n); };
    EXPECT_GT(shape.tokens(), 0);
    EXPECT_GE(shape.decode_context, shape.longest_decode);
    EXPECT_LE(shape.decode_context, shape.decodes * shape.longest_decode);
    prefill_tokens += shape.prefill_tokens();
    return {
        Seconds(base + per_prefill * d(shape.prefill_tokens()) + per_decode * d(shape.decodes) +
                per_context * d(shape.decode_context) + per_windowed * d(shape.windowed_context) +
                per_group * d(shape.group_tokens) + per_adapter * d(shape.adapters)),
        Seconds(host), Seconds(launch)};
  }
  StepLine ahead(const StepShape& shape, int64_t growing) const override {
    return {of(shape),
            Seconds(per_context * static_cast<double>(shape.decodes) +
                    per_windowed * static_cast<double>(growing)),
            1 + shape.decode_context % longest_line};
  }
  int64_t window() const override { return window_tokens; }
  int pipeline() const override { return stages; }
};

/// Requests that are written down.
class GivenRequests final : public RequestSource {
 public:
  explicit GivenRequests(std::vector<Request> requests) : requests_(std::move(requests)) {}
  Seconds next_arrival() const override {
    return next_ < requests_.size() ? requests_[next_].arrival : kNever;
  }
  Request take() override { return requests_[next_++]; }

 private:
  std::vector<Request> requests_;
  size_t next_ = 0;
};

inline Request request(double arrival, int32_t prompt, int32_t output) {
  Request r;
  r.arrival = Seconds(arrival);
  r.prompt = prompt;
  r.output = output;
  return r;
}

inline FleetOptions one_replica(const StepTimes& times, int64_t blocks, int64_t block_tokens,
                                const std::string& scheduler) {
  FleetOptions options;
  ReplicaSpec replica;
  replica.times = &times;
  replica.room.blocks = blocks;
  replica.room.tokens = block_tokens;
  replica.options.scheduler.name = scheduler;
  options.pool.replicas.push_back(replica);
  return options;
}

inline ServingRun run(std::vector<Request> requests, const FleetOptions& options) {
  GivenRequests source(std::move(requests));
  return run_fleet(source, options);
}

/// First token and end of each request.
inline std::vector<std::pair<double, double>> times_of(const ServingRun& run) {
  std::vector<std::pair<double, double>> times;
  for (const RequestRecord& r : run.requests) times.emplace_back(r.first_token.value, r.end.value);
  return times;
}

using Times = std::vector<std::pair<double, double>>;

}  // namespace orrery
