#include "orrery/kernel/profile/physical_time.h"

#include <algorithm>

namespace orrery {

PhysicalModel::PhysicalModel(const Device& device)
    : roofline_(Registry<KernelModel>::instance()
                    .at("roofline", "kernel model")
                    .create()
                    ->bind(device, {})) {
  if (device.kind == "gpu") gpu_.emplace(device);
  for (size_t c = 0; c < kTileClassCount; ++c) {
    const auto names = TileGpu::feature_names(static_cast<TileClass>(c));
    const auto at = std::find(names.begin(), names.end(), "least_loss");
    wave_loss_feature_[c] = at == names.end() ? -1 : static_cast<int>(at - names.begin());
  }
}

PhysicalTime PhysicalModel::of(const Kernel& kernel, Hertz clock) const {
  PhysicalTime time;
  if (!gpu_) {
    OperatingPoint point;
    point.clock = clock;
    Estimate estimate;
    roofline_->predict({&kernel, 1}, point, {&estimate, 1});
    // A device without published rates has no roofline; a nanosecond keeps times comparable.
    time.seconds = std::max(estimate.seconds.value, 1e-9);
    return time;
  }
  TileDescription d;
  gpu_->describe(kernel, clock, d);
  time.seconds = d.seconds;
  time.compute_seconds = d.compute_seconds;
  time.memory_seconds = d.memory_seconds;
  time.floor_seconds = d.floor_seconds;
  const int feature = wave_loss_feature_[static_cast<size_t>(d.tile_class)];
  // Of an empty product it is infinite.
  if (feature >= 0)
    time.wave_loss = std::clamp(d.features[static_cast<size_t>(feature)], -20.0f, 20.0f);
  return time;
}

}  // namespace orrery
