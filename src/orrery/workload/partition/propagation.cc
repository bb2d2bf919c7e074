#include <algorithm>
#include <deque>
#include <set>

#include "orrery/workload/partition/sharding_graph.h"

namespace orrery::partition {
void ShardingGraph::propagate() {
  std::set<int> priorities = {0};
  for (const Seed& s : later_) priorities.insert(s.priority);
  for (const int priority : priorities) {
    for (const Seed& s : later_) {
      if (s.priority != priority) continue;
      // What came before may have taken its place.
      std::vector<DimensionSharding>& dims = nodes_[s.node].sharding.dims;
      const bool free = std::ranges::none_of(s.axes, [&](Axis a) {
        for (size_t d = 0; d < dims.size(); ++d)
          if (d != s.dim && contains(dims[d].axes, a)) return true;
        return false;
      });
      const Axes& now = dims[s.dim].axes;
      if (free && now.size() <= s.axes.size() && std::equal(now.begin(), now.end(), s.axes.begin()))
        dims[s.dim].axes = s.axes;
    }
    for (int stage = 0; stage < 3; ++stage)
      for (const bool aggressive : {false, true}) spread(stage, aggressive);
  }
}

void ShardingGraph::spread(int stage, bool aggressive) {
  std::vector<std::vector<uint32_t>> users(nodes_.size());
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    for (const NodeId n : steps_[i].operands) users[n].push_back(i);
    for (const NodeId n : steps_[i].results) users[n].push_back(i);
  }
  std::deque<uint32_t> waiting;
  std::vector<bool> queued(steps_.size(), true);
  for (uint32_t i = 0; i < steps_.size(); ++i) waiting.push_back(i);
  std::vector<NodeId> changed;
  while (!waiting.empty()) {
    const uint32_t at = waiting.front();
    waiting.pop_front();
    queued[at] = false;
    changed.clear();
    if (!spread_step(steps_[at], stage, aggressive, changed)) continue;
    for (const NodeId n : changed)
      for (const uint32_t user : users[n])
        if (!queued[user]) {
          queued[user] = true;
          waiting.push_back(user);
        }
  }
}

namespace {

/// A tensor's sharding seen by factors.
struct FactorSharding {
  bool present = false;
  bool closed = false;
  bool minor = true;  ///< The last factor of its dimension, which need not divide.
  Axes axes;
  Axes overflow;  ///< Axes that follow but do not divide the factor.
};
struct Projection {
  std::vector<FactorSharding> factors;
  Axes elsewhere;  ///< Axes on dimensions without factors.
};

Projection project(const DeviceGrid& grid, const Rule& rule, const Rule::Tensor& tensor,
                   const TensorSharding& sharding) {
  Projection p;
  p.factors.resize(rule.factors.size());
  for (size_t d = 0; d < tensor.size(); ++d) {
    const Axes& axes = sharding.dims[d].axes;
    size_t next = 0;
    for (size_t k = 0; k < tensor[d].size(); ++k) {
      FactorSharding& f = p.factors[static_cast<size_t>(tensor[d][k])];
      f.present = true;
      f.closed = !sharding.dims[d].open;
      f.minor = k + 1 == tensor[d].size();
      const int64_t size = rule.factors[static_cast<size_t>(tensor[d][k])].size;
      int64_t got = 1;
      while (next < axes.size() && (f.minor || size % (got * grid.size(axes[next])) == 0)) {
        f.axes.push_back(axes[next]);
        got *= grid.size(axes[next++]);
      }
      if (!f.minor && got != size) {
        f.overflow.assign(axes.begin() + static_cast<ptrdiff_t>(next), axes.end());
        next = axes.size();
      }
    }
    if (tensor[d].empty()) p.elsewhere.insert(p.elsewhere.end(), axes.begin(), axes.end());
  }
  return p;
}

enum class Direction : uint8_t { kNone, kForward, kBackward, kBoth };

Direction direction_of(Opcode code, bool reduced, int stage) {
  if (stage >= 2) return Direction::kBoth;
  if (is_elementwise(code) || code == Opcode::k_reshape || code == Opcode::k_transpose ||
      code == Opcode::k_identity || code == Opcode::k_sharding_constraint)
    return Direction::kBoth;
  if (stage == 1 && !reduced)
    return code == Opcode::k_broadcast_in_dim ? Direction::kBackward : Direction::kBoth;
  const bool slice = code == Opcode::k_dynamic_slice || code == Opcode::k_dynamic_update_slice;
  return slice ? Direction::kForward : Direction::kNone;
}

/// The axes both begin with; behind them those of the longer, where nothing conflicts.
void merge(Axes& axes, const Axes& other, bool& can_grow) {
  size_t same = 0;
  while (same < axes.size() && same < other.size() && axes[same] == other[same]) ++same;
  if (same < axes.size() && same < other.size()) {
    axes.resize(same);
    can_grow = false;
  } else if (can_grow && same < other.size()) {
    axes = other;
  }
}

}  // namespace

bool ShardingGraph::spread_step(const Step& step, int stage, bool aggressive,
                                std::vector<NodeId>& changed) {
  const Rule& rule = *step.rule;
  if (rule.factors.empty()) return false;
  struct Tensor {
    NodeId node;
    const Rule::Tensor* dims;
    Projection projection;
    bool is_result;
  };
  std::vector<Tensor> tensors;
  bool any = false;
  const auto add = [&](const std::vector<NodeId>& nodes, const std::vector<Rule::Tensor>& dims,
                       bool is_result) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (node(nodes[i]).constant()) continue;
      for (const DimensionSharding& d : node(nodes[i]).sharding.dims) any |= !d.axes.empty();
      tensors.push_back({nodes[i], &dims[i], {}, is_result});
    }
  };
  add(step.operands, rule.operands, false);
  add(step.results, rule.results, true);
  if (!any) return false;
  for (Tensor& t : tensors) t.projection = project(grid_, rule, *t.dims, node(t.node).sharding);

  const auto candidate = [&](size_t f) {
    const Direction direction = direction_of(step.code, rule.factors[f].reduced, stage);
    Axes axes;
    if (direction == Direction::kNone) return axes;
    bool can_grow = true;
    for (const bool second : {false, true}) {
      if (second && direction != Direction::kBoth) can_grow = false;
      const bool results = second != (direction == Direction::kBackward);
      for (const Tensor& t : tensors)
        if (t.is_result == results && t.projection.factors[f].present)
          merge(axes, t.projection.factors[f].axes, can_grow);
    }
    return axes;
  };
  const auto fits_factor = [&](const Tensor& t, size_t f, Axis axis, int64_t ways) {
    const FactorSharding& own = t.projection.factors[f];
    if (!own.present) return true;
    if (contains(node(t.node).sharding.replicated, axis)) return false;
    if (contains(own.axes, axis)) return true;
    return !own.closed && own.overflow.empty() && (own.minor || rule.factors[f].size % ways == 0);
  };
  /// Whether another factor of the tensor has the axis, or is about to get it.
  const auto used_elsewhere = [&](const Tensor& t, size_t f, Axis axis,
                                  const std::vector<Axes>* coming) {
    if (contains(t.projection.elsewhere, axis)) return true;
    for (size_t g = 0; g < rule.factors.size(); ++g) {
      const FactorSharding& other = t.projection.factors[g];
      if (g == f || !other.present) continue;
      if (contains(other.axes, axis) || contains(other.overflow, axis)) return true;
      if (coming != nullptr && contains((*coming)[g], axis)) return true;
    }
    return false;
  };
  const auto truncate = [&](Axes& axes, auto&& allowed) {
    int64_t ways = 1;
    for (size_t i = 0; i < axes.size(); ++i) {
      ways *= grid_.size(axes[i]);
      if (!allowed(axes[i], ways)) {
        axes.resize(i);
        return;
      }
    }
  };
  const auto update = [&](size_t f, const Axes& axes) {
    for (Tensor& t : tensors) {
      FactorSharding& own = t.projection.factors[f];
      if (!own.present || own.axes.size() >= axes.size()) continue;
      if (!std::equal(own.axes.begin(), own.axes.end(), axes.begin())) continue;
      own.axes = axes;
    }
  };

  std::vector<Axes> found(rule.factors.size());
  if (aggressive) {
    for (size_t f = 0; f < found.size(); ++f) {
      found[f] = candidate(f);
      truncate(found[f], [&](Axis axis, int64_t ways) {
        return std::ranges::all_of(tensors,
                                   [&](const Tensor& t) { return fits_factor(t, f, axis, ways); });
      });
    }
    const std::vector<Axes> coming = found;
    for (size_t f = 0; f < found.size(); ++f) {
      truncate(found[f], [&](Axis axis, int64_t) {
        return std::ranges::none_of(tensors, [&](const Tensor& t) {
          return t.projection.factors[f].present && used_elsewhere(t, f, axis, &coming);
        });
      });
    }
    for (size_t f = 0; f < found.size(); ++f) update(f, found[f]);
  } else {
    for (size_t f = 0; f < found.size(); ++f) {
      found[f] = candidate(f);
      truncate(found[f], [&](Axis axis, int64_t ways) {
        return std::ranges::all_of(tensors, [&](const Tensor& t) {
          return fits_factor(t, f, axis, ways) && !used_elsewhere(t, f, axis, nullptr);
        });
      });
      update(f, found[f]);
    }
  }

  for (const Tensor& t : tensors) {
    TensorSharding& own = nodes_[t.node].sharding;
    bool grew = false;
    for (size_t d = 0; d < t.dims->size(); ++d) {
      if ((*t.dims)[d].empty() || !own.dims[d].open) continue;
      Axes axes;
      for (size_t k = 0; k < (*t.dims)[d].size(); ++k) {
        const auto f = static_cast<size_t>((*t.dims)[d][k]);
        const FactorSharding& part = t.projection.factors[f];
        axes.insert(axes.end(), part.axes.begin(), part.axes.end());
        axes.insert(axes.end(), part.overflow.begin(), part.overflow.end());
        // What follows a factor that is not shared out whole cannot be written.
        if (grid_.ways(part.axes) != rule.factors[f].size) break;
      }
      if (axes.size() <= own.dims[d].axes.size()) continue;
      // An operand named twice may have grown through its other place.
      const bool taken = std::ranges::any_of(axes, [&](Axis a) {
        for (size_t other = 0; other < own.dims.size(); ++other)
          if (other != d && contains(own.dims[other].axes, a)) return true;
        return false;
      });
      if (taken) continue;
      own.dims[d].axes = std::move(axes);
      grew = true;
    }
    if (grew) changed.push_back(t.node);
  }
  return !changed.empty();
}

}  // namespace orrery::partition
