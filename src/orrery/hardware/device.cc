#include "orrery/hardware/device.h"

namespace orrery {

const MemoryLevel* Device::level(std::string_view name) const {
  for (const MemoryLevel& m : memory)
    if (m.name == name) return &m;
  return nullptr;
}

}  // namespace orrery
