#include "orrery/model/stacks/torch_compile.h"
#include "orrery/model/vllm/vllm_launches.h"

namespace orrery {
namespace {

class Vllm final : public Stack {
 public:
  std::string name() const override { return "vllm"; }
  FusionRules rules() const override { return inductor_rules(); }
  std::unique_ptr<LibraryLaunches> library_launches(const Workload& workload,
                                                    const Device& /*device*/,
                                                    const StackConstants& /*told*/) const override {
    return vllm_launches(workload);
  }
  LaunchCosts costs(const Workload& workload, const StackConstants& told) const override {
    LaunchCosts costs = told.costs;
    if (is_captured(workload)) costs.dispatch = costs.graph_node;
    return costs;
  }
};

const Registration<Stack> kVllm(
    {.name = "vllm",
     .summary = "one step of vLLM's engine: stacked projections, sums joined with norms, paged "
                "attention, experts as one block, sampling; up to 512 tokens replayed as a CUDA "
                "graph, the rest as torch-compile does it",
     .source = "vLLM 0.24's model_executor and v1; checked against profiles and serving runs "
               "(docs/validation.md); constants in data/stacks/vllm.yaml",
     .parameters = {}},
    [] { return std::make_unique<Vllm>(); });

}  // namespace
}  // namespace orrery
