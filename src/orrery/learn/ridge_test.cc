#include "orrery/learn/ridge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "orrery/base/error.h"
#include "orrery/learn/split.h"

namespace orrery {
namespace {

Matrix matrix(size_t columns, const std::vector<float>& values) {
  Matrix made(values.size() / columns, columns);
  for (size_t i = 0; i < values.size(); ++i) made.row(i / columns)[i % columns] = values[i];
  return made;
}

TEST(Ridge, WithoutAPriorItIsLeastSquares) {
  // Through (0, 1), (1, 2), (2, 4): slope 3/2, intercept 5/6.
  const auto fit = fit_ridge(matrix(2, {1, 0, 1, 1, 1, 2}), std::vector<double>{1, 2, 4}, {},
                             std::vector<double>{0, 0});
  EXPECT_NEAR(fit.coefficients[0], 5.0 / 6, 1e-12);
  EXPECT_NEAR(fit.coefficients[1], 1.5, 1e-12);
  // Left out in turn, the other two points give the lines y = 2x, 1 + 1.5x and 1 + x.
  EXPECT_NEAR(fit.left_out_residuals[0], 1 - 0, 1e-12);
  EXPECT_NEAR(fit.left_out_residuals[1], 2 - 2.5, 1e-12);
  EXPECT_NEAR(fit.left_out_residuals[2], 4 - 3, 1e-12);
}

TEST(Ridge, ThePriorPullsTowardsZero) {
  // One column of ones: Σy / (n + λ).
  const auto fit =
      fit_ridge(matrix(1, {1, 1, 1}), std::vector<double>{1, 2, 6}, {}, std::vector<double>{1.5});
  EXPECT_NEAR(fit.coefficients[0], 9 / 4.5, 1e-12);
  // Without the last row it is 3 / 3.5.
  EXPECT_NEAR(fit.left_out_residuals[2], 6 - 3 / 3.5, 1e-12);
}

TEST(Ridge, LeftOutResidualsAreThoseOfFitsWithoutTheRow) {
  SplitMix64 random(3);
  Matrix rows(30, 5);
  std::vector<double> target, weight;
  for (size_t r = 0; r < 30; ++r) {
    for (float& value : rows.row(r)) value = static_cast<float>(random.uniform() - 0.5);
    target.push_back(random.uniform());
    weight.push_back(random.uniform());
  }
  const std::vector<double> precision = {0, 0.1, 1, 10, 0};
  const RidgeFit all = fit_ridge(rows, target, weight, precision);
  for (size_t left_out = 0; left_out < 30; ++left_out) {
    std::vector<size_t> kept;
    std::vector<double> kept_target, kept_weight;
    for (size_t r = 0; r < 30; ++r) {
      if (r == left_out) continue;
      kept.push_back(r);
      kept_target.push_back(target[r]);
      kept_weight.push_back(weight[r]);
    }
    const RidgeFit others = fit_ridge(rows.select(kept), kept_target, kept_weight, precision);
    double predicted = 0;
    for (size_t c = 0; c < 5; ++c) predicted += others.coefficients[c] * rows.row(left_out)[c];
    EXPECT_NEAR(all.left_out_residuals[left_out], target[left_out] - predicted, 1e-10);
  }
}

TEST(Ridge, ARowThatAloneTellsACoefficientCannotBeLeftOut) {
  const auto fit = fit_ridge(matrix(2, {1, 0, 1, 0, 1, 1}), std::vector<double>{1, 2, 9}, {},
                             std::vector<double>{0, 0});
  EXPECT_NEAR(fit.coefficients[1], 7.5, 1e-12);
  EXPECT_TRUE(std::isinf(fit.left_out_residuals[2]));
}

TEST(Ridge, RefusesWhatDoesNotDetermineTheCoefficients) {
  const Matrix twins = matrix(2, {1, 1, 2, 2, 3, 3});
  const std::vector<double> target = {1, 2, 3};
  EXPECT_THROW(fit_ridge(twins, target, {}, std::vector<double>{0, 0}), Error);
  const auto shared = fit_ridge(twins, target, {}, std::vector<double>{1, 1});
  EXPECT_NEAR(shared.coefficients[0], shared.coefficients[1], 1e-12);
  EXPECT_NEAR(shared.coefficients[0], 14.0 / 29, 1e-12);  // Σxy / (2 Σx² + 1)
  EXPECT_THROW(fit_ridge(twins, target, {}, std::vector<double>{1}), Error);
  EXPECT_THROW(fit_ridge(twins, std::vector<double>{1, NAN, 3}, {}, std::vector<double>{1, 1}),
               Error);
  EXPECT_THROW(fit_ridge(twins, target, std::vector<double>{1, -1, 1}, std::vector<double>{1, 1}),
               Error);
}

}  // namespace
}  // namespace orrery
