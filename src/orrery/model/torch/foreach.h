#pragma once

#include <vector>

#include "orrery/kernel/kernel.h"
#include "orrery/workload/workload.h"

namespace orrery {

struct ForeachTensor {
  ElementType element = ElementType::kNone;
  int64_t elements = 0;
};
using ForeachTensors = std::vector<ForeachTensor>;

/// The launches of one operation over a list of tensors (ATen/native/cuda/MultiTensorApply.cuh):
/// each takes chunks of 65,536 elements from tensors in turn until it has 320 chunks or as many
/// tensors as its arguments hold, which is the fewer the more lists there are. For each
/// element so many are read and written of its own type, in so many clocks of an SM.
std::vector<Kernel> foreach_kernels(const ForeachTensors& tensors, int read, int written,
                                    double clocks);

/// A step of AdamW with both moments in the parameters' type, or of plain SGD.
std::vector<Kernel> optimizer_kernels(const ForeachTensors& parameters, bool adam, bool fused);

/// The entry's parameters and whether a step changes them.
struct TrainedParameters {
  ForeachTensors tensors;
  bool updated = false;
  bool adam = false;  ///< By an optimiser that keeps moments.
};
TrainedParameters trained_parameters(const Workload& workload);
/// Whether a function writes out one parameter's update.
bool is_optimizer(const Workload& workload, const Function& function);

}  // namespace orrery
