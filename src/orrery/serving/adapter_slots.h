#pragma once

#include <cstdint>
#include <vector>

#include "orrery/base/units.h"

namespace orrery {

/// LoRA adapters of an engine.
struct AdapterOptions {
  int slots = 0;  ///< Adapters that a device has room for (vLLM's max_loras); 0: there are none.
  Bytes bytes;    ///< Of one on one device, which its link to the host carries.
};

/// The adapters in a rank's device memory. Those that running sequences use stay; another takes an
/// empty slot, or that of the one used longest ago, and comes from the host (vLLM's
/// LRUCacheLoRAModelManager). Adapter 0 is the model itself.
class AdapterSlots {
 public:
  explicit AdapterSlots(int slots) : most_(static_cast<size_t>(slots)) {}

  /// Whether a sequence with this adapter could run beside those that do.
  bool admits(uint32_t adapter) const;
  void use(uint32_t adapter);
  void leave(uint32_t adapter);
  /// Adapters that came from the host since it was asked last.
  int64_t take_loads() {
    const int64_t loads = new_loads_;
    new_loads_ = 0;
    return loads;
  }
  int64_t loads() const { return loads_; }
  /// Adapters in use.
  size_t active() const { return active_; }

 private:
  struct Slot {
    uint32_t adapter = 0;
    int32_t users = 0;
    uint64_t used = 0;  ///< When, counted in uses.
  };
  size_t most_;
  std::vector<Slot> slots_;
  size_t active_ = 0;
  uint64_t uses_ = 0;
  int64_t loads_ = 0, new_loads_ = 0;
};

}  // namespace orrery
