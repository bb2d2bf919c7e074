#include "orrery/learn/cross_validation.h"

#include <fmt/format.h>

#include <algorithm>

#include "orrery/base/error.h"
#include "orrery/learn/parallel.h"

namespace orrery {
namespace {

std::vector<float> select(std::span<const float> values, std::span<const size_t> rows) {
  std::vector<float> chosen;
  chosen.reserve(rows.size());
  for (const size_t r : rows) chosen.push_back(values[r]);
  return chosen;
}

}  // namespace

std::vector<float> out_of_fold_predictions(const Matrix& features, std::span<const float> target,
                                           std::span<const float> weight,
                                           std::span<const int> fold_of_row,
                                           const TreeOptions& options) {
  const size_t rows = features.rows();
  if (target.size() != rows || fold_of_row.size() != rows ||
      (!weight.empty() && weight.size() != rows))
    throw_internal(fmt::format("{} targets, {} folds and {} weights for {} rows", target.size(),
                               fold_of_row.size(), weight.size(), rows));
  std::vector<int> folds(fold_of_row.begin(), fold_of_row.end());
  std::ranges::sort(folds);
  folds.erase(std::unique(folds.begin(), folds.end()), folds.end());
  if (folds.size() < 2)
    throw Error(ErrorKind::kInput, "cross-validation needs rows in two folds or more");

  TreeOptions one_fold = options;
  one_fold.threads = 1;
  std::vector<float> predicted(rows);
  for_each_task(folds.size(), options.threads, [&](size_t task, size_t) {
    std::vector<size_t> inside, outside;
    for (size_t r = 0; r < rows; ++r)
      (fold_of_row[r] == folds[task] ? inside : outside).push_back(r);
    const BoostedTrees trees =
        fit_trees(features.select(outside), select(target, outside),
                  weight.empty() ? std::vector<float>() : select(weight, outside), one_fold);
    std::vector<float> out(inside.size());
    trees.predict(features.select(inside), out);
    for (size_t i = 0; i < inside.size(); ++i) predicted[inside[i]] = out[i];
  });
  return predicted;
}

}  // namespace orrery
