#include "orrery/kernel/kernel_model.h"

namespace orrery {
namespace {

std::string_view best_model(const Device& device, const Binding& binding) {
  if (binding.origin) return "wave-scaling";
  if (!binding.profile.empty()) return "profile";
  if (device.array_rows > 0) return "systolic";
  if (device.kind == "gpu" && device.vector[ElementType::kF32].value > 0) return "tile";
  return "roofline";
}

class AutoModel final : public KernelModel {
 public:
  bool takes_profile() const override { return true; }
  bool takes_origin() const override { return true; }
  std::unique_ptr<Predictor> bind(const Device& device, const Binding& binding) const override {
    return Registry<KernelModel>::instance()
        .at(best_model(device, binding), "kernel model")
        .create()
        ->bind(device, binding);
  }
};

const Registration<KernelModel> kAuto(
    {.name = "auto",
     .summary = "the best model there is: wave-scaling or profile where a table is given, else "
                "tile for GPUs, systolic for systolic arrays, roofline for others; answers say "
                "which it was",
     .source = "",
     .parameters = {}},
    [] { return std::make_unique<AutoModel>(); });

}  // namespace
}  // namespace orrery
