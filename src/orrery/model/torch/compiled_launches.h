#pragma once

#include <memory>

#include "orrery/model/library_launches.h"

namespace orrery {

/// The kernels of models under torch.compile, where they are not what its scheduler (Stack::rules)
/// makes of the operations, as profiles of PyTorch 2.11 show them (tools/measure/torch_models.py
/// --compile):
///
///   - a bias is added by the product (addmm), a residual by the norm that reads the sum;
///   - the optimiser is not compiled: PyTorch's own kernels over lists of parameters;
///   - batch norm in training is a reduction in two steps and a loop, its gradient likewise;
///   - attention of transformers: causal masks are read from memory, so that nothing is skipped;
///     keys and values of grouped heads are written out for every head; caches grow by a copy;
///     where nothing is causal (BERT), the padding mask has it written out in fp32.
std::unique_ptr<LibraryLaunches> compiled_launches(const Workload& workload);

}  // namespace orrery
