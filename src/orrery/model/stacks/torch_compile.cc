#include "orrery/model/stacks/torch_compile.h"

#include "orrery/model/torch/compiled_launches.h"

namespace orrery {
namespace {

class TorchCompile final : public Stack {
 public:
  std::string name() const override { return "torch-compile"; }
  FusionRules rules() const override { return inductor_rules(); }
  std::unique_ptr<LibraryLaunches> library_launches(const Workload& workload,
                                                    const Device& /*device*/,
                                                    const StackConstants& /*told*/) const override {
    return compiled_launches(workload);
  }
  LaunchCosts costs(const Workload& workload, const StackConstants& told) const override {
    LaunchCosts costs = Stack::costs(workload, told);
    const auto mode = told.choices.find("mode");
    if (mode == told.choices.end() || mode->second != "reduce-overhead") return costs;
    costs.dispatch = costs.graph_node;
    costs.gap = costs.graph_gap;
    return costs;
  }
};

const Registration<Stack> kTorchCompile(
    {.name = "torch-compile",
     .summary = "elementwise work joins its consumers and reductions in kernels that Inductor "
                "writes; products, convolutions and attention are the libraries'",
     .source = "torch._inductor's scheduler in outline, checked against profiles of PyTorch 2.11 "
               "(data/measured/h200_torch_compile.csv, docs/validation.md); constants in "
               "data/stacks/torch-compile.yaml",
     .parameters = {}},
    [] { return std::make_unique<TorchCompile>(); });

}  // namespace
}  // namespace orrery
