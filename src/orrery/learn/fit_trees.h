#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "orrery/learn/boosted_trees.h"
#include "orrery/learn/matrix.h"

namespace orrery {

struct TreeOptions {
  int trees = 400;
  int depth = 6;  ///< 1 to BoostedTrees::kMaxDepth
  double learning_rate = 0.05;
  double leaf_regularization = 3;  ///< λ below, in rows of mean weight
  double row_sample = 0.8;         ///< chance of each row to be seen by a tree
  double feature_sample = 1;       ///< share of the features a tree may use
  int bins = 128;                  ///< 2 to 256: what a feature is told apart by
  /// Residuals beyond this count as if they were this large (Huber's loss); infinite
  /// for squared loss.
  double huber_delta = std::numeric_limits<double>::infinity();
  double leaf_unit = 1e-5;  ///< leaves are rounded to it
  /// A tree's leaves are rounded to multiples of the unit that the model's text holds in a
  /// character each; the trees after it make that good.
  bool short_leaves = false;
  /// Passes over all trees at the end that fit each one's leaves again, to what the others
  /// leave over: as if there were more trees, but none is added.
  int refits = 0;
  double refit_regularization = 20;  ///< μ below, in rows of mean weight
  uint64_t seed = 1;
  int threads = 1;  ///< changes the time it takes, never the result
};

/// Rows that say when to stop, and are not fitted.
struct ValidationRows {
  const Matrix& features;
  std::span<const float> target;
  int patience = 50;  ///< trees without a smaller loss before the fit stops
};

/// Boosts oblivious trees on the gradient of squared or Huber loss (Friedman: "Greedy
/// function approximation", Annals of Statistics 2001). A level's question (feature,
/// threshold) is the one that maximises, over all leaves it makes,
///
///   Σ_leaves G² / (H + λ),   G = Σ weight · residual,   H = Σ weight,
///
/// and a leaf is learning_rate · G / (H + λ). A tree stops growing where no question
/// raises that sum. Thresholds lie between quantiles of the feature's values, as
/// short decimals. A refit (the leaves' step of Johnson and Zhang: "Learning nonlinear
/// functions using regularized greedy forest", 2014) moves each leaf w by
///
///   (G - μ · w) / (H + μ),
///
/// over all rows. `weight` may be empty, for equal weights; its scale is of no
/// matter. With `validation` the fit keeps the trees up to the smallest loss there.
///
/// Throws `kInput` for a feature, target or weight that is not finite or a negative
/// weight, naming its row, `kUsage` for options out of range, `kInternal` for sizes
/// that do not belong together.
BoostedTrees fit_trees(const Matrix& features, std::span<const float> target,
                       std::span<const float> weight, const TreeOptions& options,
                       const ValidationRows* validation = nullptr);

}  // namespace orrery
