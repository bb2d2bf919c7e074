#include "orrery/model/stacks/torch.h"

namespace orrery {
namespace {

class CudaGraph final : public TorchStack {
 public:
  std::string name() const override { return "cuda-graph"; }
  std::string kernels() const override { return "torch-eager"; }
};

const Registration<Stack> kCudaGraph(
    {.name = "cuda-graph",
     .summary = "eager PyTorch's kernels, recorded once and replayed without the host",
     .source = "CUDA graphs of PyTorch 2.11; constants measured, data/stacks/cuda-graph.yaml",
     .parameters = {}},
    [] { return std::make_unique<CudaGraph>(); });

}  // namespace
}  // namespace orrery
