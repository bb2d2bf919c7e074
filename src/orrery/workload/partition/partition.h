#pragma once

#include "orrery/workload/workload.h"

namespace orrery {

/// Whether a module says by shardings how several devices share it, with shapes that are those of
/// all of them together: StableHLO that was not partitioned yet.
bool needs_partitioning(const Workload& workload);

/// One device's part of such a module: shapes divided as its shardings say, and the collectives
/// that XLA's partitioner would put in. Shardings spread as Shardy spreads them (see
/// partition/sharding_graph.h); an operation runs on the parts its result has, operands are brought
/// to them, and
///   - a shared-out contraction or reduction ends in an all-reduce, or a reduce-scatter where its
///     result is shared out over the same devices;
///   - a dimension that is needed whole ends in an all-gather, one that trades places with another
///     in an all-to-all, one that other devices hold in a collective-permute.
/// Loops and calls stay as they are; a function that calls share out differently becomes several.
/// What is gathered for want of a rule is in the notes. Throws `kInput` where a sharding or an
/// operation cannot be followed, with what to give instead.
Workload partition_module(const Workload& workload);

}  // namespace orrery
