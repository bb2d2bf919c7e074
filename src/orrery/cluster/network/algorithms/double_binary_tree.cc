#include <algorithm>
#include <bit>
#include <cmath>

#include "orrery/cluster/network/schedule.h"

namespace orrery::fabric {
namespace {

/// NCCL's slice of a tree: its 4 MiB buffer in eight steps.
constexpr double kSliceBytes = 524288;

/// Parents in a binary tree whose in-order walk is 0 … n−1 and whose leaves stand at even
/// places; -1 for the root.
std::vector<int> in_order_tree(int n) {
  std::vector<int> parent(static_cast<size_t>(n), -1);
  struct Interval {
    int first, size, parent;
  };
  std::vector<Interval> open = {{0, n, -1}};
  while (!open.empty()) {
    const auto [first, size, above] = open.back();
    open.pop_back();
    if (size == 0) continue;
    const int left = static_cast<int>(std::bit_floor(static_cast<unsigned>(size))) - 1;
    const int root = first + left;
    parent[static_cast<size_t>(root)] = above;
    open.push_back({first, left, root});
    open.push_back({root + 1, size - left - 1, root});
  }
  return parent;
}

class DoubleBinaryTree final : public ScheduleAlgorithm {
 public:
  bool runs(CollectiveKind kind, const std::vector<int>& /*grid*/) const override {
    return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kBroadcast ||
           kind == CollectiveKind::kReduce;
  }

  Schedule schedule(CollectiveKind kind, Bytes bytes, const GroupLayout& layout) const override {
    const std::vector<int> parent = in_order_tree(layout.size());
    Phase phase;
    for (const std::vector<int>& ranks : layout.groups)
      for (const int shift : {0, 1}) add_tree(phase, kind, bytes / 2, ranks, parent, shift);
    return {{std::move(phase)}};
  }

 private:
  static void add_tree(Phase& phase, CollectiveKind kind, Bytes bytes,
                       const std::vector<int>& ranks, const std::vector<int>& parent, int shift) {
    const size_t n = ranks.size();
    const auto slices = static_cast<int64_t>(std::max(1.0, std::ceil(bytes.value / kSliceBytes)));
    const Bytes slice = bytes / static_cast<double>(slices);
    const auto rank = [&](size_t place) { return ranks[(place + static_cast<size_t>(shift)) % n]; };
    std::vector<std::vector<size_t>> children(n);
    size_t root = 0;
    for (size_t v = 0; v < n; ++v) {
      if (parent[v] < 0) {
        root = v;
      } else {
        children[static_cast<size_t>(parent[v])].push_back(v);
      }
    }
    std::vector<size_t> downwards = {root};
    for (size_t i = 0; i < downwards.size(); ++i)
      downwards.insert(downwards.end(), children[downwards[i]].begin(),
                       children[downwards[i]].end());

    const bool reduces = kind != CollectiveKind::kBroadcast;
    std::vector<int> up(n, -1), down(n, -1);
    std::vector<Need> needs;
    const auto gather_children = [&](size_t v) {
      needs.clear();
      for (const size_t child : children[v]) needs.push_back({up[child], false});
    };
    if (reduces)
      for (size_t i = n; i-- > 1;) {
        const size_t v = downwards[i];
        gather_children(v);
        up[v] = phase.add({rank(v), rank(static_cast<size_t>(parent[v])), slice, slices}, needs);
      }
    if (kind == CollectiveKind::kReduce) return;
    for (size_t i = 1; i < n; ++i) {
      const size_t v = downwards[i], above = static_cast<size_t>(parent[v]);
      needs.clear();
      if (above != root) {
        needs.push_back({down[above], false});
      } else if (reduces) {
        gather_children(root);
      }
      down[v] = phase.add({rank(above), rank(v), slice, slices}, needs);
    }
  }
};

const Registration<ScheduleAlgorithm> kDoubleBinaryTree(
    {.name = "double-binary-tree",
     .summary = "half of the bytes over each of two trees, leaves of one inside the other, in c "
                "slices: all-reduce about S/B·(1 + 2·log2(n)/c) + 2·log2(n)·L; its root is in "
                "the trees' middle",
     .source = "Sanders, Speck and Träff, Two-tree algorithms for full bandwidth broadcast, "
               "reduction and scan, 2009",
     .parameters = {{"slice", kSliceBytes, "bytes of a slice (NCCL 2)"}}},
    [] { return std::make_unique<DoubleBinaryTree>(); });

}  // namespace
}  // namespace orrery::fabric
