#pragma once

#include <map>
#include <string>
#include <vector>

#include "orrery/base/source.h"

namespace orrery::astra {

/// Ranks of each communicator group by its name, in the order of their ring.
using Groups = std::map<std::string, std::vector<int>>;

/// ASTRA-sim's communicator groups: `{"1": [0, 1, 2, 3], "2": [4, 5, 6, 7]}`. Throws `kInput`
/// for a rank outside 0 … ranks-1 or twice in a group.
Groups read_groups(const Source& json, int ranks);

}  // namespace orrery::astra
