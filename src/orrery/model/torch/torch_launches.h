#pragma once

#include <memory>

#include "orrery/hardware/device.h"
#include "orrery/model/library_launches.h"

namespace orrery {

/// How a training step is written in PyTorch.
struct TorchTraining {
  /// The optimiser as one kernel over lists of parameters (`fused=True`); else one kernel for
  /// each of its operations (`foreach=True`, PyTorch's own default).
  bool fused_optimizer = true;
  /// Gradients are added to buffers that are kept from step to step and set to zero
  /// (`zero_grad(set_to_none=False)`, micro-batches); else they are new in every step.
  bool kept_gradients = true;
};

/// The kernels that eager PyTorch launches on a GPU: operations by what ATen, cuBLAS and cuDNN run
/// for them, with the copies that the layouts of their operands make necessary; layers that a
/// library's Python writes out (Attr::kModule, Workload::library) by the operations it
/// writes; gradients by the kernels of autograd's own formulas; the optimiser by lists of tensors.
/// Sources: PyTorch 2.11's aten/src/ATen/native and tools/autograd/derivatives.yaml, transformers'
/// modeling files, and profiles made by tools/measure/torch_models.py.
std::unique_ptr<LibraryLaunches> torch_launches(const Workload& workload, const Device& device,
                                                const TorchTraining& training);

}  // namespace orrery
