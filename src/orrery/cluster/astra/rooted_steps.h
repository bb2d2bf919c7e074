#pragma once

#include <memory>

#include "orrery/cluster/astra/step_algorithm.h"

namespace orrery::astra {

/// Collectives that ASTRA-sim has no algorithm for, and which the system JSON therefore cannot
/// choose one of: reduce, gather, scatter and barrier.
bool has_steps_of_its_own(chakra::Collective kind);

/// Their steps over N ranks, the first of which is the root.
/// reduce: S from every rank to its parent in a binomial tree, added on the way: rank r sends to
/// r − 2^k, its lowest set bit, when it has all of r + 1, r + 2, r + 4 … below 2^k.
/// gather: the same with what the rank and all below it have, S each.
/// scatter: the other way, S/N for the rank and all below it, the largest part first.
/// barrier: a byte to rank r + 2^k and one from r − 2^k for each k up to log2 N (Hensgen, Finkel
/// and Manber 1988).
std::unique_ptr<StepAlgorithm> make_steps_of_its_own(const Phase& phase, StepPort& port);

/// Messages that a rank sends at most.
uint64_t messages_of_its_own(const Phase& phase);

}  // namespace orrery::astra
