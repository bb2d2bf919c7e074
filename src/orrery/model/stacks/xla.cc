#include "orrery/model/stack.h"

namespace orrery {
namespace {

class Xla final : public Stack {
 public:
  std::string name() const override { return "xla"; }
  FusionRules rules() const override {
    return {.elementwise = true,
            .into_reductions = true,
            .duplicate_cheap = true,
            .broadcasts_are_views = false,
            .transposes_fold_into_dots = true,
            .arguments_are_immutable = true,
            .inline_small_calls = true,
            .fewest_in_graph = 5,
            .compiled = true,
            .single_precision_as_tf32 = true,
            .plans_memory = true};
  }
};

const Registration<Stack> kXla({.name = "xla",
                                .summary = "elementwise work joins its consumers and reductions, "
                                           "cheap producers are computed again in each; "
                                           "products, convolutions and library calls are kernels "
                                           "of their own; fp32 products run in TF32",
                                .source = "XLA GPU fusion passes (instruction fusion, multi-output "
                                          "fusion) in outline; checked on h200/jax_models.csv",
                                .parameters = {}},
                               [] { return std::make_unique<Xla>(); });

}  // namespace
}  // namespace orrery
