#include "orrery/workload/partition/execution.h"

#include <algorithm>

namespace orrery::partition {
namespace {

/// The axes of each factor of a tensor; what its layout has beyond its factors is left out.
std::vector<Axes> factor_axes(const DeviceGrid& grid, const Rule& rule, const Rule::Tensor& tensor,
                              const Layout& layout) {
  std::vector<Axes> found(rule.factors.size());
  for (size_t d = 0; d < tensor.size(); ++d) {
    size_t next = 0;
    for (size_t k = 0; k < tensor[d].size(); ++k) {
      const auto f = static_cast<size_t>(tensor[d][k]);
      const bool minor = k + 1 == tensor[d].size();
      int64_t got = 1;
      while (next < layout[d].size() &&
             (minor || rule.factors[f].size % (got * grid.size(layout[d][next])) == 0)) {
        found[f].push_back(layout[d][next]);
        got *= grid.size(layout[d][next++]);
      }
      if (got != rule.factors[f].size) break;
    }
  }
  return found;
}

}  // namespace

Layout layout_by(const Rule::Tensor& tensor, const std::vector<Axes>& of_factors) {
  Layout layout(tensor.size());
  for (size_t d = 0; d < tensor.size(); ++d)
    for (const int f : tensor[d]) {
      const Axes& axes = of_factors[static_cast<size_t>(f)];
      layout[d].insert(layout[d].end(), axes.begin(), axes.end());
    }
  return layout;
}

std::vector<Axes> share_out(const DeviceGrid& grid, const OpView& op, const Rule& rule,
                            const std::vector<std::optional<Layout>>& operands,
                            const std::vector<Layout>& results) {
  std::vector<Axes> chosen(rule.factors.size());
  Axes taken;
  const auto take = [&](size_t f, const Axes& axes) {
    if (!chosen[f].empty()) return;
    for (const Axis a : axes) {
      if (contains(taken, a)) break;
      chosen[f].push_back(a);
      taken.push_back(a);
    }
  };
  std::vector<uint32_t> by_size;
  for (uint32_t i = 0; i < op.operand_count(); ++i)
    if (operands[i]) by_size.push_back(i);
  std::ranges::stable_sort(by_size, [&](uint32_t a, uint32_t b) {
    return op.operand_type(a).bytes > op.operand_type(b).bytes;
  });
  std::vector<std::vector<Axes>> of_operands;
  of_operands.reserve(by_size.size());
  for (const uint32_t i : by_size)
    of_operands.push_back(factor_axes(grid, rule, rule.operands[i], *operands[i]));
  for (size_t f = 0; f < chosen.size(); ++f) {
    if (!rule.factors[f].reduced) continue;
    const Axes* agreed = nullptr;
    bool all = true;
    for (size_t k = 0; k < by_size.size(); ++k) {
      if (!Rule::has(rule.operands[by_size[k]], static_cast<int>(f))) continue;
      if (agreed == nullptr) agreed = &of_operands[k][f];
      all = all && *agreed == of_operands[k][f];
    }
    if (agreed != nullptr && all) take(f, *agreed);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const auto axes = factor_axes(grid, rule, rule.results[i], results[i]);
    for (size_t f = 0; f < chosen.size(); ++f) take(f, axes[f]);
  }
  const bool contracts = op_class(op.code()) == OpClass::kContraction;
  for (const std::vector<Axes>& axes : of_operands)
    for (size_t f = 0; f < chosen.size(); ++f)
      if (contracts || !rule.in_results(static_cast<int>(f))) take(f, axes[f]);
  // A factor behind one that is not shared out whole cannot be shared out.
  bool again = true;
  while (again) {
    again = false;
    const auto check = [&](const Rule::Tensor& tensor) {
      for (const Rule::Dimension& dim : tensor) {
        bool whole = true;
        for (size_t k = 0; k < dim.size(); ++k) {
          const auto f = static_cast<size_t>(dim[k]);
          const int64_t ways = grid.ways(chosen[f]);
          const bool minor = k + 1 == dim.size();
          if (ways > 1 && (!whole || (!minor && rule.factors[f].size % ways != 0))) {
            chosen[f].clear();
            again = true;
          }
          whole = whole && grid.ways(chosen[f]) == rule.factors[f].size;
        }
      }
    };
    for (const Rule::Tensor& t : rule.operands) check(t);
    for (const Rule::Tensor& t : rule.results) check(t);
  }
  return chosen;
}

}  // namespace orrery::partition
