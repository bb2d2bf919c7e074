#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/registry.h"
#include "orrery/base/units.h"
#include "orrery/cluster/collective.h"

namespace orrery::fabric {

/// Bytes from one rank to another, `repeat` times over: each time after the one before it has
/// left.
struct Transfer {
  int source = 0, destination = 0;
  Bytes bytes;
  int64_t repeat = 1;
};

/// What must have arrived before a transfer starts: the same turn of another transfer of the
/// phase that repeats as often, or the turn before.
struct Need {
  int transfer = 0;
  bool previous = false;
};

/// Transfers that run as soon as their needs have arrived and both their ranks have entered
/// the phase. A ring of n ranks is n transfers that repeat, never n² of them.
struct Phase {
  std::vector<Transfer> transfers;
  std::vector<Need> needs;  ///< Of transfer i: first_need[i] up to first_need[i + 1].
  std::vector<int> first_need = {0};

  /// Besides, every rank of a crowd sends `crowd_bytes` to every other at once.
  std::vector<std::vector<int>> crowds;
  Bytes crowd_bytes;

  /// Returns the transfer's number.
  int add(const Transfer& transfer, std::initializer_list<Need> needs = {});
  int add(const Transfer& transfer, const std::vector<Need>& needs);
};

/// Phases one after another: a rank enters the next when all it sends in this one has left
/// and all it is sent has arrived. Ranks do not wait for each other.
struct Schedule {
  std::vector<Phase> phases;
};

/// Groups of equal size that run the same collective at once.
struct GroupLayout {
  std::vector<std::vector<int>> groups;  ///< Ranks in the order of the collective.
  /// Extents of the grid that each group fills in order, inside first; their product is the
  /// size of a group.
  std::vector<int> grid;
  int size() const { return static_cast<int>(groups.front().size()); }
};

/// All groups alike that fill `ranks`, which `call_ranks` gives, on a fabric of `extents`.
GroupLayout lay_groups(const RankGroup& group, int ranks, const std::vector<int>& extents);

/// Ranks that a call keeps busy: its group's span, filled up to whole nodes.
int call_ranks(const RankGroup& group, int node_size);

/// A way to run collectives, registered by name: `Registry<ScheduleAlgorithm>`.
class ScheduleAlgorithm {
 public:
  virtual ~ScheduleAlgorithm() = default;
  /// Whether it can run the collective over a group with this grid.
  virtual bool runs(CollectiveKind kind, const std::vector<int>& grid) const = 0;
  /// `bytes` as `CollectiveCall::bytes` counts them. The first rank of a group is its root.
  virtual Schedule schedule(CollectiveKind kind, Bytes bytes, const GroupLayout& layout) const = 0;
};

/// Adds one ring over `ranks`: each sends `bytes` to the next `repeat` times, after the first
/// what it was sent before.
void add_ring(Phase& phase, const std::vector<int>& ranks, Bytes bytes, int64_t repeat,
              bool backwards = false);

/// The lines of each group's grid along one dimension.
std::vector<std::vector<int>> grid_lines(const GroupLayout& layout, size_t dimension);

}  // namespace orrery::fabric
