#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "orrery/cluster/training/gpt_for_test.h"
#include "orrery/cluster/training/step.h"

namespace orrery::training_for_test {

/// What a step asked to settle for.
struct AskedToSettle {
  Seconds idle;  ///< Beside kernels, …
  Seconds rest;  ///< … and without any.
  double draw = 0;
};

/// Times as a function of the kernel.
class FakeKernels final : public Predictor {
 public:
  FakeKernels(std::function<double(const Kernel&)> time, AskedToSettle* asked)
      : time_(std::move(time)), asked_(asked) {}
  std::string_view name() const override { return "fake"; }
  void predict(std::span<const Kernel> kernels, OperatingPoints /*points*/,
               std::span<Estimate> estimates) const override {
    for (size_t i = 0; i < kernels.size(); ++i) {
      estimates[i].seconds = Seconds(time_(kernels[i]));
      estimates[i].joules = Joules(300 * time_(kernels[i]));
      estimates[i].own_spread = 0.1F;
    }
  }
  StepState settle(std::span<const Kernel> kernels, std::span<const double> counts, Seconds idle,
                   const OperatingPoint& point, std::span<Estimate> estimates) const override {
    if (asked_ != nullptr) {
      (kernels.empty() ? asked_->rest : asked_->idle) = idle;
      asked_->draw = point.draw;
    }
    return Predictor::settle(kernels, counts, idle, point, estimates);
  }
  Explanation explain(const Kernel& /*kernel*/, const OperatingPoint& /*point*/) const override {
    return {};
  }
  std::vector<std::string> gaps(const Kernel& /*kernel*/) const override {
    return {"a kernel's gap"};
  }
  std::vector<std::string> gaps(const OperatingPoint& /*point*/) const override { return {}; }

 private:
  std::function<double(const Kernel&)> time_;
  AskedToSettle* asked_;
};

class FakeCollectives final : public CollectivePredictor {
 public:
  explicit FakeCollectives(std::function<double(const CollectiveCall&)> time)
      : time_(std::move(time)) {}
  CollectiveEstimate predict(const CollectiveCall& call) const override {
    CollectiveEstimate answer;
    answer.estimate.seconds = Seconds(time_(call));
    return answer;
  }
  CollectiveTrust trust(const CollectiveCall& /*call*/) const override { return {}; }
  std::vector<std::string> gaps() const override { return {"a collective's gap"}; }
  std::vector<std::pair<std::string, std::string>> provenance() const override { return {}; }

 private:
  std::function<double(const CollectiveCall&)> time_;
};

/// Only fused attention takes time, which layers alone have, so that stages are equal: 1 ms
/// forward, twice that backward.
inline double attention_alone(const Kernel& kernel) {
  return kernel.family == KernelFamily::kAttention ? 1e-3 : 0;
}
inline double ten_microseconds(const Kernel& /*kernel*/) { return 1e-5; }
inline double nothing(const CollectiveCall& /*call*/) { return 0; }

inline TrainingConstants plain() {
  TrainingConstants constants;
  constants.attention_backward = 2;
  constants.cast = 1;
  return constants;
}

inline TrainingModel model(std::function<double(const Kernel&)> kernel,
                           std::function<double(const CollectiveCall&)> collective,
                           const TrainingConstants& constants = plain(), int64_t layers = 8,
                           AskedToSettle* asked = nullptr) {
  Cluster cluster;
  cluster.name = "test";
  FabricTier inside, outside;
  inside.size = 8;
  outside.size = 64;
  cluster.tiers = {inside, outside};
  return {gpt_for_test(layers, 256, 8, 1024), cluster,
          std::make_shared<FakeKernels>(std::move(kernel), asked),
          std::make_shared<FakeCollectives>(std::move(collective)), constants};
}

inline Strategy pipeline(int stages, int chunks, int64_t micro_batches) {
  Strategy s;
  s.gpus = s.pipeline = stages;
  s.chunks = chunks;
  s.global_batch = micro_batches;
  s.length = 256;
  return s;
}

}  // namespace orrery::training_for_test
