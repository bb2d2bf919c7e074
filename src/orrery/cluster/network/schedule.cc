#include "orrery/cluster/network/schedule.h"

#include <algorithm>

namespace orrery::fabric {

int Phase::add(const Transfer& transfer, std::initializer_list<Need> its_needs) {
  transfers.push_back(transfer);
  needs.insert(needs.end(), its_needs);
  first_need.push_back(static_cast<int>(needs.size()));
  return static_cast<int>(transfers.size()) - 1;
}

int Phase::add(const Transfer& transfer, const std::vector<Need>& its_needs) {
  transfers.push_back(transfer);
  needs.insert(needs.end(), its_needs.begin(), its_needs.end());
  first_need.push_back(static_cast<int>(needs.size()));
  return static_cast<int>(transfers.size()) - 1;
}

int call_ranks(const RankGroup& group, int node_size) {
  const int span = group.size * group.stride;
  return (span + node_size - 1) / node_size * node_size;
}

namespace {

/// How a group of strided ranks lies on the grid of all ranks; one line where it does not fit.
std::vector<int> group_grid(const RankGroup& group, const std::vector<int>& extents) {
  std::vector<int> grid;
  int unit = 1, left = group.size;
  for (const int extent : extents) {
    const int step = std::max(1, group.stride / unit);
    unit *= extent;
    if (step >= extent && group.stride % unit == 0) continue;
    if (extent % step != 0) return {group.size};
    const int along = std::min(extent / step, left);
    if (left % along != 0) return {group.size};
    if (along > 1) grid.push_back(along);
    left /= along;
  }
  if (left > 1) return {group.size};
  if (grid.empty()) grid.push_back(1);
  return grid;
}

}  // namespace

GroupLayout lay_groups(const RankGroup& group, int ranks, const std::vector<int>& extents) {
  GroupLayout layout;
  layout.grid = group_grid(group, extents);
  const int span = group.size * group.stride;
  for (int block = 0; block + span <= ranks; block += span)
    for (int offset = 0; offset < group.stride; ++offset) {
      std::vector<int>& members = layout.groups.emplace_back();
      members.reserve(static_cast<size_t>(group.size));
      for (int i = 0; i < group.size; ++i) members.push_back(block + offset + i * group.stride);
    }
  return layout;
}

void add_ring(Phase& phase, const std::vector<int>& ranks, Bytes bytes, int64_t repeat,
              bool backwards) {
  const int n = static_cast<int>(ranks.size());
  const int first = static_cast<int>(phase.transfers.size());
  for (int i = 0; i < n; ++i) {
    const int from = backwards ? n - 1 - i : i;
    const int to = backwards ? (from + n - 1) % n : (from + 1) % n;
    phase.add({ranks[static_cast<size_t>(from)], ranks[static_cast<size_t>(to)], bytes, repeat},
              {Need{first + (i + n - 1) % n, true}});
  }
}

std::vector<std::vector<int>> grid_lines(const GroupLayout& layout, size_t dimension) {
  int stride = 1;
  for (size_t d = 0; d < dimension; ++d) stride *= layout.grid[d];
  const int extent = layout.grid[dimension];
  std::vector<std::vector<int>> lines;
  for (const std::vector<int>& group : layout.groups)
    for (int start = 0; start < layout.size(); ++start) {
      if (start / stride % extent != 0) continue;
      std::vector<int>& line = lines.emplace_back();
      for (int i = 0, at = start; i < extent; ++i, at += stride)
        line.push_back(group[static_cast<size_t>(at)]);
    }
  return lines;
}

}  // namespace orrery::fabric
