#pragma once

#include <span>
#include <vector>

#include "orrery/learn/fit_trees.h"
#include "orrery/learn/matrix.h"

namespace orrery {

/// Predicts every row with trees that were fitted to the rows of all other folds.
/// `fold_of_row` names each row's fold by any number; there must be two folds or more
/// (`kInput`). `weight` may be empty. Fits `options.threads` folds at a time, each on one
/// thread; the result does not depend on it. Throws what `fit_trees` throws.
std::vector<float> out_of_fold_predictions(const Matrix& features, std::span<const float> target,
                                           std::span<const float> weight,
                                           std::span<const int> fold_of_row,
                                           const TreeOptions& options);

}  // namespace orrery
