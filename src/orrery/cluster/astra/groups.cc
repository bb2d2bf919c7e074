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

void add_traced_groups(Groups& groups, const chakra::Trace& trace, int ranks) {
  for (uint32_t i = 0; i < trace.nodes().size(); ++i) {
    if (trace.nodes()[i].type != chakra::NodeType::kMetadata) continue;
    const std::string values = trace.whole(i).inputs.values;
    if (values.find("pg_name") == std::string::npos) continue;
    // The list is a string in a list: ['[{"pg_name": …}]'].
    const size_t begin = values.find('[', 1);
    const size_t end = values.rfind(']', values.size() - 2);
    if (begin == std::string::npos || end == std::string::npos || end < begin)
      trace.fail(i, fmt::format("{}: its process groups are not a list", trace.named(i)));
    const JsonValue list =
        JsonValue::parse(Source::from_memory(fmt::format("{}: {}", trace.file(), trace.named(i)),
                                             values.substr(begin, end - begin + 1)));
    for (const JsonValue& group : list.elements(0, 1'000'000)) {
      std::vector<int> members;
      for (const JsonValue& rank : group.member("ranks").elements(0, static_cast<size_t>(ranks)))
        members.push_back(static_cast<int>(rank.whole(0, ranks - 1)));
      if (members.empty())
        for (int rank = 0; rank < ranks; ++rank) members.push_back(rank);
      const std::string name = group.member("pg_name").text();
      const auto [at, added] = groups.try_emplace(name, members);
      if (!added && at->second != members)
        trace.fail(i, fmt::format("{}: process group '{}' has other ranks elsewhere",
                                  trace.named(i), name));
    }
  }
}

}  // namespace orrery::astra
