#include "orrery/kernel/measured_table_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>
#include <variant>

#include "orrery/base/error.h"
#include "orrery/base/units.h"

namespace orrery {
namespace {

// The thresholds below were set on 268,703 measured rows in 37 tables (NeuSight's,
// aiconfigurator's and this project's, of 12 GPUs); the test beside this file reads them.

/// A table's median ratio of time to roofline: seen between 1.3 and 7.1. A wrong unit is a
/// thousandfold.
constexpr double kLeastMedianRatio = 0.1;
constexpr double kMostMedianRatio = 200;
/// No kernel beats its roofline by more: seen down to 0.28, from caches.
constexpr double kLeastRatio = 0.1;
/// How far repeats of one kernel may lie apart: seen up to 1.24.
constexpr double kMostRepeatRatio = 1.5;
/// How far a row may lie from rows like it before it is odd: this much, and this many times
/// the farthest of those. Libraries do that once in 20,000 rows.
constexpr double kOddRatio = 8;
constexpr double kOddToFarthest = 5;
/// Before it is refused: this much, or this many times the farthest. Seen up to 136 and 40.
constexpr double kImpossibleRatio = 200;
constexpr double kImpossibleToFarthest = 60;

constexpr size_t kLeafRows = 16;
constexpr size_t kFewestAlike = 5;
constexpr size_t kFewestAtAll = 3;

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

/// What divides the kernels of one operator into kinds that need not resemble each other.
uint64_t variant_of(const Kernel& kernel) {
  if (const auto* a = std::get_if<AttentionShape>(&kernel.shape))
    return static_cast<uint64_t>(a->head) << 32 | static_cast<uint64_t>(a->kv) << 24 |
           static_cast<uint64_t>(a->window & 0x3fffff) << 1 | (a->causal ? 1 : 0);
  if (const auto* c = std::get_if<ConvolutionShape>(&kernel.shape))
    return static_cast<uint64_t>(c->window_height & 0xffff) << 32 |
           static_cast<uint64_t>(c->stride & 0xffff) << 2 | (c->groups > 1 ? 2 : 0) |
           (c->channels_last ? 1 : 0);
  return 0;
}

/// Of the sorted `values`, one of them left out.
double median_without(const std::vector<double>& values, size_t left_out) {
  const size_t others = values.size() - 1;
  const auto other = [&](size_t i) { return values[i < left_out ? i : i + 1]; };
  return (other((others - 1) / 2) + other(others / 2)) / 2;
}

std::string contradiction(const Measurement& first, const Measurement& second) {
  const bool other_clock = first.sm_hz > 0 && second.sm_hz > 0 && first.sm_hz != second.sm_hz;
  return fmt::format("{} where {} has {} for the same {}{}", format_seconds(second.seconds),
                     first.file == second.file ? fmt::format("line {}", first.line)
                                               : fmt::format("{}:{}", first.file, first.line),
                     format_seconds(first.seconds), first.operation,
                     other_clock ? fmt::format(", at {:.0f} MHz where that was at {:.0f} MHz",
                                               second.sm_hz / 1e6, first.sm_hz / 1e6)
                                 : "");
}

/// Of the rows of one kernel the two that contradict each other most.
class Worst {
 public:
  /// `repeats` are places in `rows`. A row without a clock had the highest of the others.
  Worst(std::span<const Measurement> rows, std::span<size_t> repeats) : rows_(rows) {
    for (const size_t i : repeats) highest_ = std::max(highest_, rows[i].sm_hz);
    if (highest_ <= 0) highest_ = 1;
    std::stable_sort(repeats.begin(), repeats.end(),
                     [&](size_t a, size_t b) { return clock(a) < clock(b); });
    // No kernel is slower at a higher clock, nor takes more cycles at a lower one.
    look(repeats, [&](size_t i) { return rows_[i].seconds; });
    std::reverse(repeats.begin(), repeats.end());
    look(repeats, [&](size_t i) { return rows_[i].seconds * clock(i); });
  }
  std::optional<std::pair<size_t, size_t>> pair() const { return pair_; }

 private:
  double clock(size_t i) const { return rows_[i].sm_hz > 0 ? rows_[i].sm_hz : highest_; }

  template <class Length>
  void look(std::span<const size_t> repeats, const Length& length) {
    size_t least = repeats.front();
    for (const size_t i : repeats) {
      if (const double ratio = length(i) / length(least); ratio > ratio_) {
        ratio_ = ratio;
        pair_ = std::minmax(i, least);
      }
      if (length(i) < length(least)) least = i;
    }
  }

  std::span<const Measurement> rows_;
  double highest_ = 0, ratio_ = kMostRepeatRatio;
  std::optional<std::pair<size_t, size_t>> pair_;
};

/// Pairs of places in `rows`, the earlier first, sorted by the later; one for each kernel whose
/// times cannot all be true.
std::vector<std::pair<size_t, size_t>> contradictions(std::span<const Measurement> rows) {
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto condition = [&](size_t i) {
    return std::tie(rows[i].key, rows[i].regime, rows[i].source);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return condition(a) < condition(b); });
  std::vector<std::pair<size_t, size_t>> found;
  for (auto first = order.begin(); first != order.end();) {
    const auto last = std::find_if(first, order.end(),
                                   [&](size_t i) { return condition(i) != condition(*first); });
    if (last - first > 1)
      if (const auto pair = Worst(rows, {first, last}).pair()) found.push_back(*pair);
    first = last;
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  return found;
}

class TableCheck {
 public:
  TableCheck(const MeasuredTable& table, const Predictor& roofline) : table_(table) {
    const size_t count = table.rows.size();
    std::vector<Kernel> kernels;
    std::vector<OperatingPoint> points(count);
    kernels.reserve(count);
    for (const MeasuredRow& row : table.rows) {
      points[kernels.size()].clock = Hertz(row.sm_hz);
      kernels.push_back(row.kernel);
    }
    std::vector<Estimate> estimates(count);
    roofline.predict(kernels, OperatingPoints(points), estimates);
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
    flagged_.assign(table_.rows.size(), false);
    rows_beyond_the_roofline();
    rows_unlike_their_neighbours();
    repeats_that_contradict();
    std::sort(problems_.begin(), problems_.end(), [](const TableProblem& a, const TableProblem& b) {
      return std::tie(a.line, a.other_line) < std::tie(b.line, b.other_line);
    });
    return std::move(problems_);
  }

 private:
  static bool credible(double log_ratio) {
    return log_ratio >= std::log(kLeastMedianRatio) && log_ratio <= std::log(kMostMedianRatio);
  }

  /// False where more than half of the rows are incredible to the same side.
  bool unit_of_the_table() {
    std::vector<double> sorted = log_ratio_;
    std::sort(sorted.begin(), sorted.end());
    const bool small = sorted[sorted.size() / 2] < std::log(kLeastMedianRatio);
    const double median = sorted[small ? sorted.size() / 2 : (sorted.size() - 1) / 2];
    if (!small && median <= std::log(kMostMedianRatio)) return true;
    const double typical = std::exp(median);
    const bool micro = table_.time_unit == MeasuredTable::TimeUnit::kMicroseconds;
    const auto first = std::find_if(log_ratio_.begin(), log_ratio_.end(), [&](double log_ratio) {
      return !credible(log_ratio) && (log_ratio < 0) == small;
    });
    problems_.push_back(
        {TableProblem::Severity::kRefuse,
         table_.rows[static_cast<size_t>(first - log_ratio_.begin())].line, 0,
         fmt::format("times look like {} where {} are expected: half of them are {} {:.3g} times "
                     "what the device's peak rates allow",
                     small ? (micro ? "milliseconds" : "seconds")
                           : (micro ? "nanoseconds" : "microseconds"),
                     micro ? "microseconds" : "milliseconds", small ? "below" : "above", typical)});
    return false;
  }

  void rows_beyond_the_roofline() {
    for (size_t i = 0; i < table_.rows.size(); ++i) {
      if (log_ratio_[i] >= std::log(kLeastRatio)) continue;
      flagged_[i] = true;
      const MeasuredRow& row = table_.rows[i];
      problems_.push_back(
          {TableProblem::Severity::kRefuse, row.line, 0,
           fmt::format("{} where the device's peak rates allow no less than {}: a wrong unit, or "
                       "another device?",
                       format_seconds(row.seconds),
                       format_seconds(row.seconds * std::exp(-log_ratio_[i])))});
    }
  }

  /// Compares rows of one operator where there are enough of them, else of one family,
  /// else all that are left.
  void rows_unlike_their_neighbours() {
    features_.reserve(table_.rows.size());
    for (const MeasuredRow& row : table_.rows) features_.push_back(features_of(row.kernel));
    std::vector<size_t> rows(table_.rows.size());
    std::iota(rows.begin(), rows.end(), size_t{0});
    rows = compare_groups(std::move(rows), kFewestAlike, [](const MeasuredRow& r) {
      return std::tuple(r.operation, r.source, r.device, r.regime, variant_of(r.kernel));
    });
    rows = compare_groups(std::move(rows), kFewestAlike, [](const MeasuredRow& r) {
      return std::tuple(r.kernel.family, r.source, r.device, r.regime);
    });
    compare_groups(std::move(rows), kFewestAtAll, [](const MeasuredRow&) { return 0; });
    if (table_.rows.size() < kFewestAtAll) rows_too_few_to_compare();
  }

  void rows_too_few_to_compare() {
    for (size_t i = 0; i < table_.rows.size(); ++i) {
      if (flagged_[i] || credible(log_ratio_[i])) continue;
      flagged_[i] = true;
      const MeasuredRow& row = table_.rows[i];
      problems_.push_back({TableProblem::Severity::kRefuse, row.line, 0,
                           fmt::format("{} where the device's peak rates allow {}: a wrong unit?",
                                       format_seconds(row.seconds),
                                       format_seconds(row.seconds * std::exp(-log_ratio_[i])))});
    }
  }

  /// Rows that are too few to be compared are given back.
  template <class Kind>
  std::vector<size_t> compare_groups(std::vector<size_t> rows, size_t fewest, const Kind& kind_of) {
    const auto kind = [&](size_t i) { return kind_of(table_.rows[i]); };
    std::stable_sort(rows.begin(), rows.end(),
                     [&](size_t a, size_t b) { return kind(a) < kind(b); });
    std::vector<size_t> left;
    for (auto first = rows.begin(); first != rows.end();) {
      const auto last =
          std::find_if(first, rows.end(), [&](size_t i) { return kind(i) != kind(*first); });
      if (static_cast<size_t>(last - first) < fewest)
        left.insert(left.end(), first, last);
      else
        split({first, last});
      first = last;
    }
    return left;
  }

  /// Halves the rows by the size in which they differ most until a few are left together.
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
  void compare(std::span<size_t> rows) {
    std::sort(rows.begin(), rows.end(), [&](size_t a, size_t b) {
      return std::tie(log_ratio_[a], a) < std::tie(log_ratio_[b], b);
    });
    std::vector<double> sorted;
    for (size_t i : rows) sorted.push_back(log_ratio_[i]);
    for (size_t at = 0; at < rows.size(); ++at) {
      const double typical = median_without(sorted, at);
      const double least = sorted[at == 0 ? 1 : 0];
      const double most = sorted[at + 1 == sorted.size() ? at - 1 : sorted.size() - 1];
      const double farthest = std::exp(std::max(typical - least, most - typical));
      judge(rows, rows[at], typical, farthest);
    }
  }

  void judge(std::span<const size_t> rows, size_t i, double typical, double farthest) {
    if (flagged_[i]) return;
    const double off = std::exp(std::abs(log_ratio_[i] - typical));
    const bool impossible = off >= std::min(kImpossibleRatio, kImpossibleToFarthest * farthest);
    if (!impossible && off < std::max(kOddRatio, kOddToFarthest * farthest)) return;
    if (!credible(typical) && credible(log_ratio_[i])) return;  // those like it are at fault
    flagged_[i] = true;
    const MeasuredRow& row = table_.rows[i];
    const auto [a, b] = nearest_typical(rows, i, typical);
    problems_.push_back(
        {impossible ? TableProblem::Severity::kRefuse : TableProblem::Severity::kWarn, row.line,
         table_.rows[a].line,
         fmt::format("{} where rows like it (lines {} and {}) suggest {}{}",
                     format_seconds(row.seconds), table_.rows[a].line, table_.rows[b].line,
                     format_seconds(row.seconds * std::exp(typical - log_ratio_[i])),
                     off >= 200 && off <= 5000 ? ": a wrong unit?" : "")});
  }

  /// The two rows nearest in size to row `i` whose times agree with most.
  std::pair<size_t, size_t> nearest_typical(std::span<const size_t> rows, size_t i,
                                            double typical) const {
    std::vector<std::pair<float, size_t>> near;
    for (size_t j : rows) {
      if (j == i) continue;
      // Those far from most come last.
      float distance = std::abs(log_ratio_[j] - typical) > std::log(kOddRatio) ? 1e6F : 0;
      for (size_t f = 0; f < kFeatures; ++f)
        distance += (features_[i][f] - features_[j][f]) * (features_[i][f] - features_[j][f]);
      near.emplace_back(distance, j);
    }
    std::partial_sort(near.begin(), near.begin() + 2, near.end());
    return {near[0].second, near[1].second};
  }

  void repeats_that_contradict() {
    std::vector<Measurement> rows;
    for (size_t i = 0; i < table_.rows.size(); ++i)
      if (!flagged_[i]) rows.push_back(measurement(table_, table_.rows[i]));
    for (const auto& [first, second] : contradictions(rows))
      problems_.push_back({TableProblem::Severity::kRefuse, rows[second].line, rows[first].line,
                           contradiction(rows[first], rows[second])});
  }

  const MeasuredTable& table_;
  std::vector<double> log_ratio_;  ///< ln(time / roofline)
  std::vector<Features> features_;
  std::vector<bool> flagged_;
  std::vector<TableProblem> problems_;
};

[[noreturn]] void refuse(const std::string& file, int64_t line, const std::string& reason,
                         ptrdiff_t more) {
  throw Error(ErrorKind::kInput, {file, line, 0},
              more == 0 ? reason
                        : fmt::format("{} (and {} more such problem{})", reason, more,
                                      more == 1 ? "" : "s"));
}

}  // namespace

std::vector<TableProblem> check_measured_table(const MeasuredTable& table,
                                               const Predictor& roofline) {
  return TableCheck(table, roofline).problems();
}

Measurement measurement(const MeasuredTable& table, const MeasuredRow& row) {
  return {table.file,
          table.sources[row.source],
          table.operations[row.operation],
          row.key,
          row.seconds,
          row.sm_hz,
          row.regime,
          row.line};
}

void refuse_contradictions(std::span<const Measurement> rows) {
  const auto found = contradictions(rows);
  if (found.empty()) return;
  const auto [first, second] = found.front();
  refuse(rows[second].file, rows[second].line, contradiction(rows[first], rows[second]),
         static_cast<ptrdiff_t>(found.size()) - 1);
}

void refuse_on_problems(const MeasuredTable& table, const std::vector<TableProblem>& problems) {
  const auto refused = [](const TableProblem& p) {
    return p.severity == TableProblem::Severity::kRefuse;
  };
  const auto first = std::find_if(problems.begin(), problems.end(), refused);
  if (first == problems.end()) return;
  const auto more = std::count_if(first + 1, problems.end(), refused);
  refuse(table.file, first->line, first->reason, more);
}

}  // namespace orrery
