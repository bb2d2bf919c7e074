#include "orrery/hardware/device.h"

#include <cctype>
#include <string>

#include "orrery/hardware/component.h"
#include "orrery/hardware/schema.h"

namespace orrery {
namespace {

/// "HBM3e" is "hbm", "GDDR6X" is "gddr".
std::string family(const std::string& technology) {
  std::string letters;
  for (char c : technology) {
    if (std::isalpha(static_cast<unsigned char>(c)) == 0) break;
    letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return letters;
}

PeakRates rates(const Component& root, const std::string& section) {
  PeakRates peak;
  for (const RateType& named : rate_types()) {
    const FlopsPerSecond rate(root.value(section + "." + std::string(named.name)));
    for (ElementType type : named.types) peak.set(type, rate);
  }
  return peak;
}

/// A count that may be left out: one.
int count(const Component& part, std::string_view name) {
  const Figure* stated = part.figure(name);
  return stated == nullptr ? 1 : static_cast<int>(stated->value);
}

std::vector<MemoryLevel> memory_levels(const Component& memory) {
  std::vector<MemoryLevel> levels;
  levels.push_back({family(memory.figure("technology")->text), Bytes(memory.value("capacity")),
                    BytesPerSecond(memory.value("bandwidth")), 1});
  for (std::string_view name : memory_level_names())
    if (const Component* level = memory.part(name))
      levels.push_back({std::string(name), Bytes(level->value("capacity")),
                        BytesPerSecond(level->value("bandwidth")), count(*level, "instances")});
  return levels;
}

std::vector<Link> links(const Component& root) {
  std::vector<Link> result;
  const Component* part = root.part("links");
  if (part == nullptr) return result;
  for (std::string_view name : link_names())
    if (const Component* link = part->part(name))
      result.push_back(
          {std::string(name), BytesPerSecond(link->value("bandwidth")), count(*link, "count")});
  return result;
}

std::vector<std::string> gaps(const Component& root) {
  std::vector<std::string> missing;
  for (const SchemaRow& row : device_schema())
    if (row.wanted && root.figure(row.path) == nullptr)
      missing.push_back("no published figure for " + row.path + " (" + row.meaning + ")");
  return missing;
}

}  // namespace

const MemoryLevel* Device::level(std::string_view name) const {
  for (const MemoryLevel& m : memory)
    if (m.name == name) return &m;
  return nullptr;
}

Device make_device(const DeviceTree& tree) {
  const Component& root = tree.root;
  const auto word = [&](const char* key) {
    const auto at = tree.words.find(key);
    return at == tree.words.end() ? std::string() : at->second;
  };
  Device device;
  device.name = tree.name;
  device.title = word("title");
  device.kind = word("kind");
  device.vendor = word("vendor");
  device.architecture = word("architecture");
  device.kernels_like = word("kernels_like");
  device.notes = word("notes");
  device.compute_units = static_cast<int>(root.value("compute.units"));
  device.clock = Hertz(root.value("compute.clock.boost"));
  const bool own_matrix_clock = root.figure("compute.clock.matrix") != nullptr;
  device.matrix_clock = own_matrix_clock ? Hertz(root.value("compute.clock.matrix")) : device.clock;
  device.base_clock = Hertz(root.value("compute.clock.base"));
  device.products_clock = Hertz(root.value("compute.clock.products"));
  device.matrix = rates(root, "compute.matrix");
  device.vector = rates(root, "compute.vector");
  device.special = FlopsPerSecond(root.value("compute.special"));
  device.array_rows = static_cast<int>(root.value("compute.array.rows"));
  device.array_columns = static_cast<int>(root.value("compute.array.columns"));
  device.arrays = static_cast<int>(root.value("compute.array.count"));
  device.memory = memory_levels(*root.part("memory"));
  const Figure* check_bits = root.figure("memory.check_bits");
  device.check_bits = check_bits == nullptr || check_bits->text != "none";
  // Usable and printed sizes differ by what "GB" means; further apart, the one was inherited
  // and the other changed.
  const Bytes capacity = device.main_memory().capacity;
  const Bytes usable(root.value("memory.usable"));
  device.usable_memory = std::abs(usable / capacity - 1) < 0.1 ? usable : capacity;
  device.links = links(root);
  device.power_limit = device.rated_power = Watts(root.value("power.limit"));
  device.idle_power = Watts(root.value("power.idle"));
  device.reference_power = Watts(root.value("power.reference"));
  device.gaps = gaps(root);
  return device;
}

}  // namespace orrery
