#pragma once

#include <cstdint>
#include <vector>

#include "orrery/model/memory_planner.h"

namespace orrery {

/// Orders in which a graph's steps can run: writers before readers, as they stand
/// in the graph, and before an update in place those who read what it updates.
std::vector<uint32_t> order_as_written(const MemoryGraph& graph);

/// From the results backwards, depth first, in the order results and reads are named.
std::vector<uint32_t> post_order(const MemoryGraph& graph);

/// The same, but of what a step reads, that with the widest fan-out above it comes
/// first, then that with the most bytes above it.
std::vector<uint32_t> depth_first_order(const MemoryGraph& graph);

/// Of the steps that can run, the one that frees the most bytes beyond those it needs.
std::vector<uint32_t> greedy_order(const MemoryGraph& graph);

/// Of the last three, the one that needs the least memory at once, as XLA chooses
/// (hlo_memory_scheduler.cc of openxla/xla); greedy before depth-first before
/// post-order where they are equal.
std::vector<uint32_t> order_for_memory(const MemoryGraph& graph);

}  // namespace orrery
