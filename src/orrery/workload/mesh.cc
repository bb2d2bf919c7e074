#include "orrery/workload/mesh.h"

#include <algorithm>

namespace orrery {
namespace {

constexpr int64_t kMaxDevices = int64_t{1} << 20;

/// A factor of the device grid: an axis, split where references cut it.
struct GridDimension {
  size_t axis = 0;
  int64_t pre_size = 1;
  int64_t size = 1;
  int order = -1;  ///< Place among the references; -1: not one of them.
};

}  // namespace

std::optional<std::vector<int64_t>> device_groups(const Mesh& mesh,
                                                  std::span<const AxisReference> axes,
                                                  int64_t* group_size) {
  int64_t devices = 1;
  for (const MeshAxis& a : mesh.axes) {
    if (a.size <= 0 || __builtin_mul_overflow(devices, a.size, &devices) || devices > kMaxDevices)
      return std::nullopt;
  }
  if (!mesh.device_ids.empty() && static_cast<int64_t>(mesh.device_ids.size()) != devices)
    return std::nullopt;

  std::vector<GridDimension> grid;
  std::vector<bool> found(axes.size());
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    // The cuts of this axis, major to minor: every reference starts and ends one.
    std::vector<int64_t> cuts = {1, mesh.axes[i].size};
    for (const AxisReference& r : axes) {
      if (r.name != mesh.axes[i].name || r.size == 0) continue;
      int64_t end = 0;
      if (r.pre_size <= 0 || r.size <= 0 || __builtin_mul_overflow(r.pre_size, r.size, &end) ||
          mesh.axes[i].size % end != 0)
        return std::nullopt;
      cuts.push_back(r.pre_size);
      cuts.push_back(end);
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    for (size_t c = 0; c + 1 < cuts.size(); ++c) {
      if (cuts[c + 1] % cuts[c] != 0) return std::nullopt;
      grid.push_back({i, cuts[c], cuts[c + 1] / cuts[c], -1});
    }
    if (cuts.size() == 1) grid.push_back({i, 1, 1, -1});
  }
  for (size_t r = 0; r < axes.size(); ++r) {
    for (GridDimension& g : grid) {
      const MeshAxis& axis = mesh.axes[g.axis];
      if (axis.name != axes[r].name) continue;
      const int64_t end = axes[r].size == 0 ? axis.size : axes[r].pre_size * axes[r].size;
      const int64_t begin = axes[r].size == 0 ? 1 : axes[r].pre_size;
      if (g.pre_size < begin || g.pre_size * g.size > end) continue;
      if (g.order >= 0) return std::nullopt;  // two references overlap
      g.order = static_cast<int>(r);
      found[r] = true;
    }
  }
  if (std::find(found.begin(), found.end(), false) != found.end()) return std::nullopt;

  // Walk the groups (grid dimensions not referenced), and inside each the
  // referenced dimensions in the order of the references.
  std::vector<size_t> order;
  for (size_t g = 0; g < grid.size(); ++g)
    if (grid[g].order < 0) order.push_back(g);
  const size_t outer = order.size();
  for (size_t r = 0; r < axes.size(); ++r)
    for (size_t g = 0; g < grid.size(); ++g)
      if (grid[g].order == static_cast<int>(r)) order.push_back(g);

  std::vector<int64_t> strides(grid.size());
  int64_t stride = 1;
  for (size_t g = grid.size(); g-- > 0;) {
    strides[g] = stride;
    stride *= grid[g].size;
  }
  *group_size = 1;
  for (size_t i = outer; i < order.size(); ++i) *group_size *= grid[order[i]].size;
  std::vector<int64_t> groups(static_cast<size_t>(devices));
  for (int64_t n = 0; n < devices; ++n) {
    int64_t rest = n;
    int64_t device = 0;
    for (size_t i = order.size(); i-- > 0;) {
      device += rest % grid[order[i]].size * strides[order[i]];
      rest /= grid[order[i]].size;
    }
    groups[static_cast<size_t>(n)] =
        mesh.device_ids.empty() ? device : mesh.device_ids[static_cast<size_t>(device)];
  }
  return groups;
}

}  // namespace orrery
