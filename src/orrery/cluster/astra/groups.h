#pragma once

#include <map>
#include <string>
#include <vector>

#include "orrery/base/source.h"
#include "orrery/workload/chakra/trace.h"

namespace orrery::astra {

/// Ranks of each communicator group by its name, in the order of their ring.
using Groups = std::map<std::string, std::vector<int>>;

/// ASTRA-sim's communicator groups: `{"1": [0, 1, 2, 3], "2": [4, 5, 6, 7]}`. Throws `kInput`
/// for a rank outside 0 … ranks-1 or twice in a group.
Groups read_groups(const Source& json, int ranks);

/// Adds the process groups that PyTorch's traces tell of: metadata nodes whose input is a JSON
/// list of `{"pg_name", "ranks"}`, no ranks being all. Those of the groups JSON stay. Throws
/// `kInput` where two traces give different ranks to one name.
void add_traced_groups(Groups& groups, const chakra::Trace& trace, int ranks);

}  // namespace orrery::astra
