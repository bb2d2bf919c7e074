#include "orrery/model/stacks/torch_compile.h"

namespace orrery {
namespace {

class TorchCompile final : public Stack {
 public:
  std::string name() const override { return "torch-compile"; }
  FusionRules rules() const override { return inductor_rules(); }
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
