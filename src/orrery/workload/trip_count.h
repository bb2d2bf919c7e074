#pragma once

#include "orrery/workload/workload_builder.h"

namespace orrery {

/// Sets `Attr::kTripCount` on every counted loop: a `while` whose condition
/// compares one carried integer with a constant (its own or one carried
/// unchanged), which starts at a constant and which the body changes by adding
/// or subtracting a constant. That is what JAX's scan and fori_loop emit.
/// Others take `otherwise`, or stay without the attribute when that is 0.
void infer_trip_counts(WorkloadBuilder& builder, int64_t otherwise);

}  // namespace orrery
