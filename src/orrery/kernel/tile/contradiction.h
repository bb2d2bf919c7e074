#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace orrery {

/// One measured kernel, for what rows of one device say of each other.
struct Departure {
  int device = 0;
  int operation = 0;     ///< Kernels of one kind: batched products, single ones.
  double log_ratio = 0;  ///< ln(measured / expected)
};

/// Rows of one operation on one device that cannot have been measured as the others were: a
/// clock held low, another unit, another machine.
struct Contradiction {
  int device = 0;
  int operation = 0;
  double factor = 1;  ///< How many times as long as the device's other operations have it.
  size_t rows = 0;
};

/// Libraries build all operations of a class from the same kernels, so that a device that is slow
/// at one of them is slow at all. With d(g, o) the median of ln(measured / expected) of operation
/// o on device g, less the median of that over the other devices, operation o contradicts the rest
/// of g's where
///
///   d(g, o) - median over g's other operations of d > ln kContradiction
///
/// and o is the one further from what other devices reach. Longer alone is told: what libraries
/// do better on one device than on others is no contradiction. `expected` is what physics says,
/// for which kFewestWitnesses other devices must have the operation; where it is what a fit over
/// other devices says (`known`), no others are needed. Operations of fewer than
/// kFewestToContradict rows on a device are not asked.
std::vector<Contradiction> find_contradictions(std::span<const Departure> rows, bool known);
/// A stated prior, with NeuSight's tables in view: between the P4, whose single products ran at
/// a fraction of its clock (2.4 times as long by physics, 1.7 by a fit over the others), and the
/// most that another device shows (1.45, the T4).
inline constexpr double kContradiction = 1.6;
inline constexpr size_t kFewestWitnesses = 3;
inline constexpr size_t kFewestToContradict = 50;

}  // namespace orrery
