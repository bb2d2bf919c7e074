#include "orrery/model/stacks/torch.h"

namespace orrery {
namespace {

class TorchEager final : public TorchStack {
 public:
  std::string name() const override { return "torch-eager"; }
};

const Registration<Stack> kTorchEager(
    {.name = "torch-eager",
     .summary = "the kernels of PyTorch's operators one by one, with the copies their layouts "
                "need; layers as their library's Python writes them; the host queues one at a "
                "time, so small models wait for it",
     .source = "PyTorch 2.11 (ATen, autograd), transformers, cuBLAS and cuDNN as profiled; "
               "constants measured, data/stacks/torch-eager.yaml",
     .parameters = {}},
    [] { return std::make_unique<TorchEager>(); });

}  // namespace
}  // namespace orrery
