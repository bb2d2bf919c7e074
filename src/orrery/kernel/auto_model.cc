#include "orrery/kernel/kernel_model.h"

namespace orrery {
namespace {

std::string_view best_model(const Device& device) {
  if (device.array_rows > 0 && Registry<KernelModel>::instance().find("systolic") != nullptr)
    return "systolic";
  if (device.array_rows == 0 && device.kind == "gpu" && device.vector[ElementType::kF32].value > 0)
    return "tile";
  return "roofline";
}

class AutoModel final : public KernelModel {
 public:
  std::unique_ptr<Predictor> bind(const Device& device, const Binding& binding) const override {
    return Registry<KernelModel>::instance()
        .at(best_model(device), "kernel model")
        .create()
        ->bind(device, binding);
  }
};

const Registration<KernelModel> kAuto(
    {.name = "auto",
     .summary = "the best model there is for the device: tile for GPUs, systolic for systolic "
                "arrays where that is registered, else roofline; answers say which it was",
     .source = "",
     .parameters = {}},
    [] { return std::make_unique<AutoModel>(); });

}  // namespace
}  // namespace orrery
