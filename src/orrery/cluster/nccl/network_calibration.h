#pragma once

#include "orrery/cluster/nccl/link_calibration.h"

namespace orrery {

/// Fits what several nodes add to the rows that are not held out, all of groups over several
/// nodes. NCCL's tuning says which algorithm and protocol ran; for each of them, wait, hops and
/// share are those of a grid with the least mean |ln(measured / predicted)|, errors above 0.7
/// counting as 0.7. Hops are those of one node where all rows have as many ranks a node. What
/// fewer than three rows ran keeps NCCL's constants. `held_out` are the errors on the third held
/// out. Of several tables it is a generic fit: what is inside a node is then taken from the fit
/// over several devices for all of them.
NetworkFit fit_network(std::span<const LinkTable> tables, const std::string& data);

}  // namespace orrery
