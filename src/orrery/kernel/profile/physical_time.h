#pragma once

#include <array>
#include <memory>
#include <optional>

#include "orrery/kernel/kernel_model.h"
#include "orrery/kernel/tile/features.h"

namespace orrery {

/// What a kernel would take were its device used fully, against which measurements are read.
struct PhysicalTime {
  double seconds = 0;          ///< floor + max(compute, memory)
  double compute_seconds = 0;  ///< This and the next two: on GPUs.
  double memory_seconds = 0;
  double floor_seconds = 0;
  /// ln of what whole waves of whole tiles take over `seconds`, for products on GPUs.
  float wave_loss = 0;
};

/// On GPUs the tile model's physical estimate (tile/features.h), elsewhere the roofline.
class PhysicalModel {
 public:
  explicit PhysicalModel(const Device& device);

  /// `clock` 0: the boost clock.
  PhysicalTime of(const Kernel& kernel, Hertz clock) const;
  const Predictor& roofline() const { return *roofline_; }

 private:
  std::optional<TileGpu> gpu_;
  std::array<int, kTileClassCount> wave_loss_feature_{};  // -1: none
  std::unique_ptr<Predictor> roofline_;
};

}  // namespace orrery
