#include "orrery/serving/adapter_slots.h"

#include <algorithm>

#include "orrery/base/error.h"

namespace orrery {

bool AdapterSlots::admits(uint32_t adapter) const {
  if (adapter == 0 || active_ < most_) return true;
  const auto slot = std::ranges::find(slots_, adapter, &Slot::adapter);
  return slot != slots_.end() && slot->users > 0;
}

void AdapterSlots::use(uint32_t adapter) {
  if (adapter == 0) return;
  auto slot = std::ranges::find(slots_, adapter, &Slot::adapter);
  if (slot == slots_.end()) {
    if (slots_.size() < most_) {
      slot = slots_.insert(slots_.end(), Slot{});
    } else {
      for (auto other = slots_.begin(); other != slots_.end(); ++other)
        if (other->users == 0 && (slot == slots_.end() || other->used < slot->used)) slot = other;
      if (slot == slots_.end()) throw_internal("more adapters are in use than there are slots");
    }
    *slot = {adapter, 0, 0};
    ++loads_;
    ++new_loads_;
  }
  if (slot->users++ == 0) ++active_;
  slot->used = ++uses_;
}

void AdapterSlots::leave(uint32_t adapter) {
  if (adapter == 0) return;
  const auto slot = std::ranges::find(slots_, adapter, &Slot::adapter);
  if (slot == slots_.end() || slot->users == 0)
    throw_internal("an adapter was given back by who does not use it");
  if (--slot->users == 0) --active_;
}

}  // namespace orrery
