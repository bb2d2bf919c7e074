#include "orrery/model/stack.h"

namespace orrery {
namespace {

class TorchCompile final : public Stack {
 public:
  std::string name() const override { return "torch-compile"; }
  FusionRules rules() const override {
    return {.elementwise = true,
            .into_reductions = true,
            .duplicate_cheap = true,
            .broadcasts_are_views = true,
            .transposes_fold_into_dots = true,
            .arguments_are_immutable = false,
            .inline_small_calls = true,
            .fewest_in_graph = 0,
            .compiled = false,
            .single_precision_as_tf32 = false,
            .plans_memory = false};
  }
};

const Registration<Stack> kTorchCompile(
    {.name = "torch-compile",
     .summary = "elementwise work joins its consumers and reductions in kernels that Inductor "
                "writes; products, convolutions and attention are the libraries'",
     .source = "torch._inductor's scheduler in outline, not yet checked against measurements; "
               "constants in data/stacks/torch-compile.yaml",
     .parameters = {}},
    [] { return std::make_unique<TorchCompile>(); });

}  // namespace
}  // namespace orrery
