#include "orrery/model/torch/foreach.h"

#include <algorithm>
#include <array>

#include "orrery/model/torch/torch_kernels.h"

namespace orrery {
namespace {

constexpr int64_t kChunk = 65536, kMostChunks = 320;
/// Tensors of a launch by how many lists it goes through together (MultiTensorApply.cuh,
/// depth_to_max_tensors).
constexpr std::array<size_t, 5> kMostTensors = {110, 64, 48, 36, 30};
/// Clocks that an SM takes for an element of the fused AdamW: some 75 instructions for a square
/// root, two divisions and conversions of four numbers each way; a prior.
constexpr double kFusedAdamClocks = 0.6;
/// What chunks that end unevenly cost: 21 million bf16 elements multiplied in place take 27 us
/// of which the memory's bandwidth explains 17.5 (profiles of PyTorch 2.11 on an H200).
constexpr double kUnevenness = 1.25;

}  // namespace

std::vector<Kernel> foreach_kernels(const ForeachTensors& tensors, int read, int written,
                                    double clocks) {
  std::vector<Kernel> launches;
  const auto lists = static_cast<size_t>(std::clamp(read, 1, 5));
  int64_t chunks = 0, elements = 0;
  size_t held = 0;
  ElementType element = ElementType::kF32;
  const auto launch = [&] {
    if (elements == 0) return;
    const double bytes = static_cast<double>(elements) * bit_width(element) / 8 * kUnevenness;
    launches.push_back(torch_kernels::loop(Opcode::k_map, KernelFamily::kLibrary, element, elements,
                                           bytes * read, bytes * written, clocks));
    chunks = elements = 0;
    held = 0;
  };
  for (const ForeachTensor& t : tensors) {
    element = t.element;
    ++held;
    for (int64_t left = t.elements; left > 0; left -= kChunk) {
      elements += std::min(left, kChunk);
      if (++chunks < kMostChunks) continue;
      launch();
      held = left > kChunk ? 1 : 0;
    }
    if (held == kMostTensors[std::min(lists, kMostTensors.size()) - 1]) launch();
  }
  launch();
  return launches;
}

std::vector<Kernel> optimizer_kernels(const ForeachTensors& parameters, bool adam, bool fused) {
  if (adam && fused) return foreach_kernels(parameters, 4, 3, kFusedAdamClocks);
  if (fused || !adam) return foreach_kernels(parameters, 2, 1, 0);
  // Weight decay, first moment, second moment (two), its root, the correction, ε, the step.
  std::vector<Kernel> all;
  for (const auto& [read, written] :
       {std::pair{1, 1}, {2, 1}, {1, 1}, {2, 1}, {1, 1}, {1, 1}, {1, 1}, {3, 1}})
    for (const Kernel& kernel : foreach_kernels(parameters, read, written, 0))
      all.push_back(kernel);
  return all;
}

TrainedParameters trained_parameters(const Workload& w) {
  TrainedParameters trained;
  const Function& entry = w.function(w.entry());
  const Region& body = w.region(entry.body);
  for (uint32_t i = 0; i < body.argument_count && i < entry.arguments.size(); ++i) {
    const Role role = entry.arguments[i].role;
    const Type& type = w.type(ValueId{body.first_argument + i});
    trained.adam |= role == Role::kOptimizerState;
    if (role != Role::kParameter) continue;
    trained.updated |= entry.arguments[i].donated;
    trained.tensors.push_back({type.element, type.elements});
  }
  return trained;
}

bool is_optimizer(const Workload& w, const Function& function) {
  const std::string_view name = w.string(function.name);
  return name.starts_with("adamw_") || name.starts_with("sgd_");
}

}  // namespace orrery
