#include "orrery/learn/cross_validation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "orrery/base/error.h"
#include "orrery/learn/split.h"

namespace orrery {
namespace {

TreeOptions eager() {
  TreeOptions options;
  options.trees = 60;
  options.learning_rate = 0.5;
  options.leaf_regularization = 0;
  options.row_sample = 1;
  return options;
}

TEST(CrossValidation, AFoldNeverSeesItself) {
  // The feature is the fold, and the target a number of the fold's own: who has seen the
  // fold predicts it exactly, who has not can only repeat what other folds say.
  Matrix features(90, 1);
  std::vector<float> target;
  std::vector<int> fold;
  for (size_t r = 0; r < 90; ++r) {
    fold.push_back(static_cast<int>(r % 3));
    features.row(r)[0] = static_cast<float>(fold[r]);
    target.push_back(fold[r] == 1 ? 100.0f : 0.0f);
  }
  const BoostedTrees seen = fit_trees(features, target, {}, eager());
  EXPECT_NEAR(seen.predict(features.row(1)), 100, 1e-3);
  const auto predicted = out_of_fold_predictions(features, target, {}, fold, eager());
  for (size_t r = 0; r < 90; ++r) {
    if (fold[r] == 1) {
      EXPECT_EQ(predicted[r], 0);  // folds 0 and 2 only know 0
    } else {
      // Parted from fold 1 by no threshold that was seen, or taken for it.
      EXPECT_NEAR(predicted[r], 100, 1e-3);
    }
  }
}

TEST(CrossValidation, EachRowIsPredictedByTheFitWithoutItsFold) {
  SplitMix64 random(2);
  Matrix features(120, 3);
  std::vector<float> target, weight;
  std::vector<int> fold;
  for (size_t r = 0; r < 120; ++r) {
    for (float& value : features.row(r)) value = static_cast<float>(random.uniform());
    target.push_back(features.row(r)[0] + features.row(r)[1] * features.row(r)[2]);
    weight.push_back(static_cast<float>(1 + random.uniform()));
    fold.push_back(7 * static_cast<int>(random.below(4)));
  }
  TreeOptions options;
  options.trees = 20;
  const auto predicted = out_of_fold_predictions(features, target, weight, fold, options);
  for (int f = 0; f < 4; ++f) {
    std::vector<size_t> others;
    std::vector<float> other_target, other_weight;
    for (size_t r = 0; r < 120; ++r) {
      if (fold[r] == 7 * f) continue;
      others.push_back(r);
      other_target.push_back(target[r]);
      other_weight.push_back(weight[r]);
    }
    const BoostedTrees trees =
        fit_trees(features.select(others), other_target, other_weight, options);
    for (size_t r = 0; r < 120; ++r) {
      if (fold[r] == 7 * f) {
        EXPECT_EQ(predicted[r], trees.predict(features.row(r)));
      }
    }
  }
  for (const int threads : {2, 5}) {
    options.threads = threads;
    EXPECT_EQ(out_of_fold_predictions(features, target, weight, fold, options), predicted);
  }
}

TEST(CrossValidation, RefusesOneFoldAndBadRows) {
  const std::vector<float> target = {1, 2}, bad = {1, NAN};
  EXPECT_THROW(out_of_fold_predictions(Matrix(2, 1), target, {}, std::vector<int>{3, 3}, {}),
               Error);
  EXPECT_THROW(out_of_fold_predictions(Matrix(2, 1), target, {}, std::vector<int>{0}, {}), Error);
  TreeOptions options;
  options.threads = 2;
  EXPECT_THROW(out_of_fold_predictions(Matrix(2, 1), bad, {}, std::vector<int>{0, 1}, options),
               Error);
}

}  // namespace
}  // namespace orrery
