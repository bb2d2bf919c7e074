#include <algorithm>

#include "orrery/cluster/network/schedule.h"

namespace orrery::fabric {
namespace {

class Hierarchical final : public ScheduleAlgorithm {
 public:
  bool runs(CollectiveKind kind, const std::vector<int>& grid) const override {
    return grid.size() > 1 &&
           (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kAllGather ||
            kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllToAll);
  }

  Schedule schedule(CollectiveKind kind, Bytes bytes, const GroupLayout& layout) const override {
    const size_t dimensions = layout.grid.size();
    Schedule schedule;
    if (kind == CollectiveKind::kAllToAll) {
      for (size_t d = 0; d < dimensions; ++d) {
        Phase& phase = schedule.phases.emplace_back();
        phase.crowds = grid_lines(layout, d);
        phase.crowd_bytes = bytes / layout.grid[d];
      }
      return schedule;
    }
    const bool scatters = kind != CollectiveKind::kAllGather;
    const bool gathers = kind != CollectiveKind::kReduceScatter;
    std::vector<Bytes> share = {bytes};  // Of a rank before dimension d is scattered.
    for (const int extent : layout.grid) share.push_back(share.back() / extent);
    const auto rings = [&](size_t d, int steps) {
      Phase& phase = schedule.phases.emplace_back();
      for (const std::vector<int>& line : grid_lines(layout, d))
        add_ring(phase, line, share[d + 1], steps);
    };
    const size_t last = dimensions - 1;
    const auto steps = [&](size_t d) { return layout.grid[d] - 1; };
    if (scatters)
      for (size_t d = 0; d < last; ++d) rings(d, steps(d));
    rings(last, (scatters && gathers ? 2 : 1) * steps(last));
    if (gathers)
      for (size_t d = last; d-- > 0;) rings(d, steps(d));
    return schedule;
  }
};

const Registration<ScheduleAlgorithm> kHierarchical(
    {.name = "hierarchical",
     .summary = "rings in each tier in turn: reduce-scatter outwards, all-reduce in the last, "
                "all-gather back: Σ 2(e−1)(S/(e·u·B) + L) over tiers of extent e above u ranks; "
                "all-to-all within each tier, S/e to each",
     .source = "Cho et al., BlueConnect: decomposing all-reduce for deep learning on "
               "heterogeneous network hierarchy, 2019",
     .parameters = {}},
    [] { return std::make_unique<Hierarchical>(); });

/// Parts of the bytes that each start along another dimension and way round, so that all links
/// of a torus are busy.
class TorusRings final : public ScheduleAlgorithm {
 public:
  bool runs(CollectiveKind kind, const std::vector<int>& grid) const override {
    return grid.size() > 1 &&
           (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kAllGather ||
            kind == CollectiveKind::kReduceScatter);
  }

  Schedule schedule(CollectiveKind kind, Bytes bytes, const GroupLayout& layout) const override {
    const size_t dimensions = layout.grid.size();
    std::vector<std::vector<std::vector<int>>> lines;
    for (size_t d = 0; d < dimensions; ++d) lines.push_back(grid_lines(layout, d));
    const Bytes part = bytes / (2.0 * static_cast<double>(dimensions));
    std::vector<Phase> scatter(dimensions);
    for (size_t start = 0; start < dimensions; ++start) {
      Bytes share = part;
      for (size_t p = 0; p < dimensions; ++p) {
        const size_t d = (start + p) % dimensions;
        share = share / layout.grid[d];
        for (const std::vector<int>& line : lines[d])
          for (const bool backwards : {false, true})
            add_ring(scatter[p], line, share, layout.grid[d] - 1, backwards);
      }
    }
    Schedule schedule;
    if (kind != CollectiveKind::kAllGather) schedule.phases = scatter;
    if (kind != CollectiveKind::kReduceScatter)
      schedule.phases.insert(schedule.phases.end(), scatter.rbegin(), scatter.rend());
    return schedule;
  }
};

const Registration<ScheduleAlgorithm> kTorusRings(
    {.name = "torus",
     .summary = "2d parts of the bytes, each round another of d dimensions first and both ways: "
                "all-reduce of extent e about 2·S/(2d·B) for links of B each way, latency "
                "2d(e−1)L",
     .source = "Jain and Sabharwal, Optimal bucket algorithms for large MPI collectives on torus "
               "interconnects, 2010",
     .parameters = {}},
    [] { return std::make_unique<TorusRings>(); });

}  // namespace
}  // namespace orrery::fabric
