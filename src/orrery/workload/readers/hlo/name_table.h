#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace orrery::hlo {

/// Names to numbers, for names that live as long as the table (pieces of the
/// source). One table serves every computation in turn: clearing it costs
/// nothing, and it allocates only when it grows.
class NameTable {
 public:
  NameTable() : slots_(kFirstSize) {}

  void clear() {
    ++generation_;
    used_ = 0;
  }

  /// The number of `name`, or null.
  const uint32_t* find(std::string_view name) const {
    const Slot& slot = slots_[place(name)];
    return slot.generation == generation_ ? &slot.number : nullptr;
  }

  /// Adds `name`; false when it is there already.
  bool add(std::string_view name, uint32_t number) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[place(name)];
    if (slot.generation == generation_) return false;
    slot = {name, generation_, number};
    ++used_;
    return true;
  }

 private:
  static constexpr size_t kFirstSize = 64;

  struct Slot {
    std::string_view name;
    uint32_t generation = 0;  ///< Other than the table's: the slot is free.
    uint32_t number = 0;
  };

  /// The slot that holds `name`, or the free one where it would go.
  size_t place(std::string_view name) const {
    const size_t mask = slots_.size() - 1;
    size_t i = std::hash<std::string_view>()(name) & mask;
    while (slots_[i].generation == generation_ && slots_[i].name != name) i = (i + 1) & mask;
    return i;
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.generation == generation_) slots_[place(slot.name)] = slot;
  }

  std::vector<Slot> slots_;
  uint32_t generation_ = 1;
  size_t used_ = 0;
};

}  // namespace orrery::hlo
