#include "orrery/kernel/measured_table_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <tuple>

#include "orrery/base/error.h"
#include "orrery/base/units.h"

namespace orrery {
namespace {

/// Median ratio of time to roofline that a table may have: see the header's test over
/// measured tables, whose medians lie between 1 and 30. A wrong unit is a thousandfold.
constexpr double kLeastMedianRatio = 0.1;
constexpr double kMostMedianRatio = 200;
/// How far repeats of one kernel may lie apart.
constexpr double kMostRepeatRatio = 1.5;
/// How far a row may lie from rows like it before it is odd, and before it is refused.
constexpr double kOddRatio = 10;
constexpr double kImpossibleRatio = 30;

constexpr size_t kLeafRows = 16;
constexpr size_t kFewestAlike = 4;

/// Where a kernel lies among others of its operator: logarithms of its sizes.
constexpr size_t kFeatures = Kernel::kMaxLoops + 2;
using Features = std::array<float, kFeatures>;

Features features_of(const Kernel& kernel) {
  Features f{};
  for (size_t i = 0; i < kernel.loop_count; ++i)
    f[i] = std::log2(static_cast<float>(std::max<int64_t>(1, kernel.loops[i].extent)));
  f[Kernel::kMaxLoops] = static_cast<float>(std::log2(1 + kernel.cost.flops()));
  f[Kernel::kMaxLoops + 1] = static_cast<float>(std::log2(1 + kernel.cost.bytes()));
  return f;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class TableCheck {
 public:
  TableCheck(const MeasuredTable& table, const Predictor& roofline) : table_(table) {
    const size_t count = table.rows.size();
    std::vector<Kernel> kernels;
    kernels.reserve(count);
    for (const MeasuredRow& row : table.rows) kernels.push_back(row.kernel);
    std::vector<Estimate> estimates(count);
    roofline.predict(kernels, {}, estimates);
    log_ratio_.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      // A device without published rates has no roofline; a nanosecond keeps times comparable.
      const double bound = std::max(estimates[i].seconds.value, 1e-9);
      log_ratio_.push_back(std::log(table.rows[i].seconds / bound));
    }
  }

  std::vector<TableProblem> problems() {
    if (table_.rows.empty()) return {};
    if (!unit_of_the_table()) return std::move(problems_);
    rows_unlike_their_neighbours();
    contradictions();
    std::sort(problems_.begin(), problems_.end(), [](const TableProblem& a, const TableProblem& b) {
      return std::tie(a.line, a.other_line) < std::tie(b.line, b.other_line);
    });
    return std::move(problems_);
  }

 private:
  bool unit_of_the_table() {
    const double typical = std::exp(median(log_ratio_));
    if (typical >= kLeastMedianRatio && typical <= kMostMedianRatio) return true;
    const bool micro = table_.time_unit == MeasuredTable::TimeUnit::kMicroseconds;
    const bool small = typical < kLeastMedianRatio;
    problems_.push_back(
        {TableProblem::Severity::kRefuse, table_.rows[0].line, 0,
         fmt::format("times look like {} where {} are expected: half of them are {} {:.3g} times "
                     "what the device's peak rates allow",
                     small ? (micro ? "milliseconds" : "seconds")
                           : (micro ? "nanoseconds" : "microseconds"),
                     micro ? "microseconds" : "milliseconds", small ? "below" : "above", typical)});
    return false;
  }

  /// Rows that may be compared, split by size until a few are left together.
  void rows_unlike_their_neighbours() {
    std::vector<size_t> order(table_.rows.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto kind = [&](size_t i) {
      const MeasuredRow& r = table_.rows[i];
      return std::tuple(r.operation, r.source, r.device, r.regime);
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return kind(a) < kind(b); });
    features_.reserve(table_.rows.size());
    for (const MeasuredRow& row : table_.rows) features_.push_back(features_of(row.kernel));
    flagged_.assign(table_.rows.size(), false);
    for (auto first = order.begin(); first != order.end();) {
      const auto last =
          std::find_if(first, order.end(), [&](size_t i) { return kind(i) != kind(*first); });
      split({first, last});
      first = last;
    }
  }

  void split(std::span<size_t> rows) {
    if (rows.size() <= kLeafRows) {
      compare(rows);
      return;
    }
    size_t widest = 0;
    float width = -1;
    for (size_t f = 0; f < kFeatures; ++f) {
      const auto [least, most] = std::minmax_element(
          rows.begin(), rows.end(),
          [&](size_t a, size_t b) { return features_[a][f] < features_[b][f]; });
      const float range = features_[*most][f] - features_[*least][f];
      if (range > width) {
        width = range;
        widest = f;
      }
    }
    const size_t middle = rows.size() / 2;
    std::nth_element(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(middle), rows.end(),
                     [&](size_t a, size_t b) {
                       return std::tie(features_[a][widest], a) < std::tie(features_[b][widest], b);
                     });
    split(rows.first(middle));
    split(rows.subspan(middle));
  }

  /// Rows of like size: which of them took a time that the others make incredible?
  void compare(std::span<const size_t> rows) {
    if (rows.size() < kFewestAlike) return;
    std::vector<double> ratios;
    for (size_t i : rows) ratios.push_back(log_ratio_[i]);
    const double typical = median(ratios);
    for (size_t i : rows) {
      const double off = std::exp(std::abs(log_ratio_[i] - typical));
      if (off < kOddRatio) continue;
      flagged_[i] = true;
      const auto [a, b] = nearest_typical(rows, i, typical);
      const MeasuredRow& row = table_.rows[i];
      const double expected = row.seconds * std::exp(typical - log_ratio_[i]);
      problems_.push_back({off >= kImpossibleRatio ? TableProblem::Severity::kRefuse
                                                   : TableProblem::Severity::kWarn,
                           row.line, table_.rows[a].line,
                           fmt::format("{} where rows like it (lines {} and {}) suggest {}{}",
                                       format_seconds(row.seconds), table_.rows[a].line,
                                       table_.rows[b].line, format_seconds(expected),
                                       off >= 300 && off <= 3000 ? ": a wrong unit?" : "")});
    }
  }

  /// The two rows nearest in size to row `i` whose times agree with most.
  std::pair<size_t, size_t> nearest_typical(std::span<const size_t> rows, size_t i,
                                            double typical) const {
    std::vector<std::pair<float, size_t>> near;
    for (size_t j : rows) {
      if (j == i || std::abs(log_ratio_[j] - typical) > std::log(kOddRatio)) continue;
      float distance = 0;
      for (size_t f = 0; f < kFeatures; ++f)
        distance += (features_[i][f] - features_[j][f]) * (features_[i][f] - features_[j][f]);
      near.emplace_back(distance, j);
    }
    std::partial_sort(near.begin(), near.begin() + 2, near.end());
    return {near[0].second, near[1].second};
  }

  void contradictions() {
    std::vector<size_t> order(table_.rows.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto condition = [&](size_t i) {
      const MeasuredRow& r = table_.rows[i];
      return std::tuple(r.key, r.source, r.device, r.regime);
    };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::tuple(condition(a), table_.rows[a].seconds) <
             std::tuple(condition(b), table_.rows[b].seconds);
    });
    for (auto first = order.begin(); first != order.end();) {
      const auto last = std::find_if(first, order.end(),
                                     [&](size_t i) { return condition(i) != condition(*first); });
      contradiction(*first, *(last - 1));
      first = last;
    }
  }

  /// The shortest and the longest time of one kernel.
  void contradiction(size_t least, size_t most) {
    const MeasuredRow& fast = table_.rows[least];
    const MeasuredRow& slow = table_.rows[most];
    if (slow.seconds <= kMostRepeatRatio * fast.seconds || flagged_[least] || flagged_[most])
      return;
    const MeasuredRow& first = fast.line < slow.line ? fast : slow;
    const MeasuredRow& second = fast.line < slow.line ? slow : fast;
    problems_.push_back(
        {TableProblem::Severity::kRefuse, second.line, first.line,
         fmt::format("{} where line {} has {} for the same {}", format_seconds(second.seconds),
                     first.line, format_seconds(first.seconds),
                     table_.operations[first.operation])});
  }

  const MeasuredTable& table_;
  std::vector<double> log_ratio_;  ///< ln(time / roofline)
  std::vector<Features> features_;
  std::vector<bool> flagged_;
  std::vector<TableProblem> problems_;
};

}  // namespace

std::vector<TableProblem> check_measured_table(const MeasuredTable& table,
                                               const Predictor& roofline) {
  return TableCheck(table, roofline).problems();
}

void refuse_on_problems(const MeasuredTable& table, const std::vector<TableProblem>& problems) {
  const auto refused = [](const TableProblem& p) {
    return p.severity == TableProblem::Severity::kRefuse;
  };
  const auto first = std::find_if(problems.begin(), problems.end(), refused);
  if (first == problems.end()) return;
  const auto more = std::count_if(first + 1, problems.end(), refused);
  throw Error(ErrorKind::kInput, {table.file, first->line, 0},
              more == 0 ? first->reason
                        : fmt::format("{} (and {} more such problem{})", first->reason, more,
                                      more == 1 ? "" : "s"));
}

}  // namespace orrery
