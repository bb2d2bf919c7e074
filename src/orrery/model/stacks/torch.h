#pragma once

#include <memory>
#include <string>

#include "orrery/model/torch/torch_launches.h"

namespace orrery {

/// PyTorch operator by operator, however the kernels are queued.
class TorchStack : public Stack {
 public:
  FusionRules rules() const override {
    return {.elementwise = false,
            .into_reductions = false,
            .duplicate_cheap = false,
            .broadcasts_are_views = true,
            .transposes_fold_into_dots = true,
            .arguments_are_immutable = false,
            .inline_small_calls = false,
            .fewest_in_graph = 0,
            .compiled = false,
            .single_precision_as_tf32 = false,
            .plans_memory = false};
  }
  std::unique_ptr<LibraryLaunches> library_launches(const Workload& workload, const Device& device,
                                                    const StackConstants& told) const override {
    const auto is = [&](const char* choice, const char* value) {
      const auto found = told.choices.find(choice);
      return found != told.choices.end() && found->second == value;
    };
    return torch_launches(
        workload, device,
        {.fused_optimizer = is("optimizer", "fused"), .kept_gradients = is("gradients", "kept")});
  }
};

}  // namespace orrery
