#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/cluster/collective.h"
#include "orrery/kernel/kernel_model.h"
#include "orrery/serving/engine/engine_costs.h"
#include "orrery/serving/engine/engine_work.h"
#include "orrery/serving/engine/step_profile.h"
#include "orrery/serving/step_times.h"

namespace orrery {

/// What a step is made of.
enum class StepPart : uint8_t {
  kTokens,
  kExperts,
  kPrompts,
  kNext,
  kHead,
  kAdapters,
  kTraffic,
  kGap
};
inline constexpr size_t kStepPartCount = static_cast<size_t>(StepPart::kGap) + 1;
/// "linear layers", "experts", "attention of prompts" …
std::string_view name(StepPart part);

struct StepCauses {
  std::array<Seconds, kStepPartCount> parts{};
  Joules energy;      ///< Of one device.
  double spread = 0;  ///< Of ln(true / predicted), shared by all steps of its kind.
};

/// A function of one or two sizes, worked out at the points of a grid when first asked there.
class SizeTable;

/// Step times of an engine from the kernels and collectives of its ranks:
///
///   device = max(tokens(T) + adapters(T, a) + experts(G) + exchange(S) + head(rows) + prompts +
///                next + handover, launch) + gap
///
/// each with the collectives it needs, where prompts = max(longest alone, Σ each as one of eight)
/// and next by the number of sequences and their mean length, at least that of the longest alone.
/// Of data-parallel ranks that gather tokens for the experts, the fullest sets S: each has a link
/// of its own, and what they send goes on at the same time. Graphs are of the same size on all of
/// them, so that the others pad their tokens to its (vLLM: vllm/v1/worker/dp_utils.py).
/// Steps of up to EngineHabits::captured tokens run as graphs made for the next larger size;
/// between points of the grids, times are interpolated. Of larger steps, and of those with prompts,
/// the host launches kernel by kernel, and the device waits for it where that takes longer. What
/// takes longer than a power limit looks at runs at the clock that its power allows. With a
/// profile, measured times take the place of the kernels'. After the first question at a point an
/// answer takes some tens of nanoseconds.
class EngineTimes final : public StepTimes {
 public:
  EngineTimes(EngineWork work, const ServingLayout& layout, const EngineCosts& costs,
              std::shared_ptr<const Predictor> kernels,
              std::shared_ptr<const CollectivePredictor> collectives, double hidden_bytes,
              std::shared_ptr<const StepProfile> profile = nullptr);
  ~EngineTimes() override;

  StepTime of(const StepShape& shape) const override { return of(shape, 1); }
  /// With the kernels' times multiplied: to follow an error that all steps share.
  StepTime of(const StepShape& shape, double scale) const {
    return time_of(shape, Seconds(kernels(shape) * scale));
  }
  StepLine ahead(const StepShape& shape, int64_t growing) const override {
    return ahead(shape, growing, 1);
  }
  StepLine ahead(const StepShape& shape, int64_t growing, double scale) const;
  int64_t window() const override { return window_; }
  int pipeline() const override { return pipeline_; }

  /// With its causes, energy and error.
  StepCauses detail(const StepShape& shape) const;
  const EngineWork& work() const { return work_; }
  const EngineCosts& costs() const { return costs_; }

 private:
  struct Cost {
    Seconds kernels, traffic;
    Joules energy;
    double spread = 0;
  };
  /// What runs once for all tokens, from the embedding on.
  EnginePass token_pass(int64_t tokens) const;
  Cost cost(const EnginePass& pass) const;
  double seconds(const EnginePass& pass) const;
  /// With the profile's time of `size` in place of the kernels', where there is one.
  using Measured = double (StepProfile::*)(int64_t) const;
  Cost cost(const EnginePass& pass, Measured measured, int64_t size) const;
  /// Of a step's kernels and collectives.
  double kernels(const StepShape& shape) const;
  StepTime time_of(const StepShape& shape, Seconds kernels) const;
  double attention(const StepShape& shape) const;
  /// Tokens by what a step does with them, where it has any.
  struct StepTokens {
    int64_t own = 0, experts = 0, exchange = 0;
  };
  StepTokens tokens_of(const StepShape& shape) const;

  EngineWork work_;
  bool has_experts_;
  int64_t window_;
  EngineCosts costs_;
  int pipeline_, data_ranks_;
  std::shared_ptr<const Predictor> kernels_;
  std::shared_ptr<const CollectivePredictor> collectives_;
  std::shared_ptr<const StepProfile> profile_;
  double hidden_bytes_;  ///< Of one token's vector, that stages hand on.
  Seconds launch_;       ///< Of all kernels of a step, one by one.
  std::unique_ptr<SizeTable> tokens_, experts_, exchange_, head_, prompt_alone_, prompt_together_,
      next_, next_windowed_, handover_, adapters_;
};

/// An engine's times, all longer or shorter by a factor.
class ScaledTimes final : public StepTimes {
 public:
  /// `times` outlives it.
  ScaledTimes(const EngineTimes& times, double factor) : times_(times), factor_(factor) {}
  StepTime of(const StepShape& shape) const override { return times_.of(shape, factor_); }
  StepLine ahead(const StepShape& shape, int64_t growing) const override {
    return times_.ahead(shape, growing, factor_);
  }
  int64_t window() const override { return times_.window(); }
  int pipeline() const override { return times_.pipeline(); }

 private:
  const EngineTimes& times_;
  double factor_;
};

}  // namespace orrery
