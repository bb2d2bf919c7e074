#include "orrery/cluster/astra/groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "orrery/learn/json_value.h"

namespace orrery::astra {

Groups read_groups(const Source& json, int ranks) {
  Groups groups;
  for (const auto& [name, value] : JsonValue::parse(json).members()) {
    if (name.empty() || name.find_first_not_of("0123456789") != std::string::npos || name == "0")
      value.fail("the name of a group is a whole number from 1");
    std::vector<int>& members = groups[name];
    for (const JsonValue& rank : value.elements(1, static_cast<size_t>(ranks)))
      members.push_back(static_cast<int>(rank.whole(0, ranks - 1)));
    std::vector<int> sorted = members;
    std::sort(sorted.begin(), sorted.end());
    if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
      value.fail(fmt::format("rank {} twice in one group", *twice));
  }
  return groups;
}

}  // namespace orrery::astra
