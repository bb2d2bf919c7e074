#include "orrery/api/accuracy.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "orrery/learn/statistics.h"

namespace orrery {

double JudgedRow::error() const { return std::abs(predicted / measured - 1); }

Accuracy accuracy_of(std::string name, std::span<const JudgedRow> rows) {
  std::vector<double> measured, predicted, errors, half_widths;
  int64_t inside = 0;
  for (const JudgedRow& row : rows) {
    measured.push_back(row.measured);
    predicted.push_back(row.predicted);
    errors.push_back(row.error());
    half_widths.push_back((row.high - row.low) / (2 * row.predicted));
    inside += row.inside() ? 1 : 0;
  }
  Accuracy a;
  a.name = std::move(name);
  a.rows = rows.size();
  a.mean_error = mean_absolute_percentage_error(predicted, measured);
  a.median_error = median(errors);
  a.p90_error = quantile(errors, 0.9);
  a.worst_error = *std::max_element(errors.begin(), errors.end());
  a.spearman = spearman_correlation(measured, predicted);
  a.coverage = static_cast<double>(inside) / static_cast<double>(rows.size());
  a.coverage_p = binomial_test(inside, static_cast<int64_t>(rows.size()), 0.9);
  a.median_half_width = median(half_widths);
  std::vector<double> relative;  // |measured / predicted - 1|
  for (const JudgedRow& row : rows) relative.push_back(std::abs(row.measured / row.predicted - 1));
  const double width = quantile(relative, 0.9);
  for (const JudgedRow& row : rows) {
    const double centre = row.predicted / row.measured;
    a.interval_score += interval_score(row.low / row.measured, row.high / row.measured, 1);
    a.constant_interval_score += interval_score(centre * (1 - width), centre * (1 + width), 1);
  }
  a.interval_score /= static_cast<double>(rows.size());
  a.constant_interval_score /= static_cast<double>(rows.size());
  return a;
}

std::vector<Accuracy> accuracy_by(std::span<const JudgedRow> rows,
                                  std::span<const std::string> names) {
  std::map<std::string, std::vector<JudgedRow>> by_name;
  for (size_t i = 0; i < rows.size(); ++i) by_name[names[i]].push_back(rows[i]);
  std::vector<Accuracy> all;
  all.reserve(by_name.size());
  for (const auto& [name, members] : by_name) all.push_back(accuracy_of(name, members));
  return all;
}

std::vector<JudgedRow> worst_of(std::vector<JudgedRow> rows, size_t most) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const JudgedRow& a, const JudgedRow& b) { return a.error() > b.error(); });
  rows.resize(std::min(rows.size(), most));
  return rows;
}

}  // namespace orrery
