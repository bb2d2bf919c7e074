#include "orrery/model/stack.h"

namespace orrery {
namespace {

class TorchEager final : public Stack {
 public:
  std::string name() const override { return "torch-eager"; }
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
};

const Registration<Stack> kTorchEager(
    {.name = "torch-eager",
     .summary = "one kernel an operation; views, broadcasts and transposes before products are "
                "free; the host queues "
                "one operation at a time, so small models wait for it",
     .source = "PyTorch eager semantics; constants measured, data/stacks/torch-eager.yaml",
     .parameters = {}},
    [] { return std::make_unique<TorchEager>(); });

}  // namespace
}  // namespace orrery
