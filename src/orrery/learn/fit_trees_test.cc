#include "orrery/learn/fit_trees.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "orrery/base/error.h"
#include "orrery/learn/split.h"

namespace orrery {
namespace {

struct Table {
  Matrix features;
  std::vector<float> target;
};

/// sin(3 x0) + x1² + noise, with x2 of no matter, all x in [-1, 1].
Table additive(size_t rows, double noise, uint64_t seed) {
  SplitMix64 random(seed);
  Table table{Matrix(rows, 3), {}};
  for (size_t r = 0; r < rows; ++r) {
    const std::span<float> x = table.features.row(r);
    for (float& value : x) value = static_cast<float>(2 * random.uniform() - 1);
    table.target.push_back(
        static_cast<float>(std::sin(3 * x[0]) + x[1] * x[1] + noise * (random.uniform() - 0.5)));
  }
  return table;
}

double root_mean_square_error(const BoostedTrees& trees, const Table& table) {
  std::vector<float> out(table.target.size());
  trees.predict(table.features, out);
  double sum = 0;
  for (size_t r = 0; r < out.size(); ++r) sum += std::pow(out[r] - table.target[r], 2);
  return std::sqrt(sum / static_cast<double>(out.size()));
}

/// One tree that takes all it can.
TreeOptions one_exact_tree(int depth) {
  TreeOptions options;
  options.trees = 1;
  options.depth = depth;
  options.learning_rate = 1;
  options.leaf_regularization = 0;
  options.row_sample = 1;
  return options;
}

Table step() {
  Table table{Matrix(8, 2), {}};
  for (size_t r = 0; r < 8; ++r) {
    table.features.row(r)[0] = static_cast<float>((r * 5) % 8);  // tells nothing
    table.features.row(r)[1] = static_cast<float>(r);
    table.target.push_back(r < 3 ? 2.0f : 10.0f);
  }
  return table;
}

TEST(FitTrees, RecoversAStep) {
  const Table table = step();
  const BoostedTrees trees = fit_trees(table.features, table.target, {}, one_exact_tree(1));
  // The base is the mean, (3·2 + 5·10) / 8 = 7; leaves are -5 and 3, in units of 1e-5.
  const std::vector<BoostedTrees::Tree> expected = {{{{1, 2.5f}}, {-500000, 300000}}};
  EXPECT_EQ(trees.base(), 7);
  EXPECT_EQ(trees.trees(), expected);
  EXPECT_EQ(trees.predict(std::vector<float>{0, 2}), 2.0f);
  EXPECT_EQ(trees.predict(std::vector<float>{0, 3}), 10.0f);
  EXPECT_EQ(trees.importance()[0], 0);
  EXPECT_EQ(trees.importance()[1], 1);
}

TEST(FitTrees, ATreeStopsWhereNoQuestionHelps) {
  const Table table = step();
  EXPECT_EQ(fit_trees(table.features, table.target, {}, one_exact_tree(6)).trees().at(0).splits,
            (std::vector<BoostedTrees::Split>{{1, 2.5f}}));
  // A constant target leaves nothing to ask.
  const std::vector<float> constant(8, 4.0f);
  const BoostedTrees none = fit_trees(table.features, constant, {}, TreeOptions());
  EXPECT_EQ(none.tree_count(), 0u);
  EXPECT_EQ(none.predict(std::vector<float>{0, 0}), 4.0f);
}

TEST(FitTrees, ARefitGoesToWhatItsRegularizationLeavesOfTheRows) {
  const Table table = step();
  TreeOptions options = one_exact_tree(1);
  options.learning_rate = 0.5;  // which leaves -2.5 and 1.5
  options.refits = 1;
  options.refit_regularization = 5;
  // Σ (target - 7) is -15 over 3 rows and 15 over 5: 15 / (n + 5).
  EXPECT_EQ(fit_trees(table.features, table.target, {}, options).trees().at(0).leaves,
            (std::vector<int32_t>{-187500, 150000}));
  // Trees that were not kept play no part: of rows as the first leaves have them, none is better.
  const std::vector<float> as_the_first{4.5f, 4.5f, 4.5f, 8.5f, 8.5f, 8.5f, 8.5f, 8.5f};
  options.trees = 20;
  const ValidationRows rows{table.features, as_the_first, 5};
  const BoostedTrees kept = fit_trees(table.features, table.target, {}, options, &rows);
  ASSERT_EQ(kept.tree_count(), 1u);
  EXPECT_EQ(kept.trees().at(0).leaves, (std::vector<int32_t>{-187500, 150000}));
}

TEST(FitTrees, ShortLeavesAreMultiplesThatACharacterHolds) {
  const Table table = step();
  TreeOptions options = one_exact_tree(1);
  options.leaf_unit = 0.01;
  options.short_leaves = true;
  // -5 is 500 units, which take steps of ⌈500 / 45⌉ = 12: -41.7 and 25 of them.
  EXPECT_EQ(fit_trees(table.features, table.target, {}, options).trees().at(0).leaves,
            (std::vector<int32_t>{-42 * 12, 25 * 12}));
}

TEST(FitTrees, RegularizationShrinksALeafByItsRows) {
  const Table table = step();
  TreeOptions options = one_exact_tree(1);
  options.leaf_regularization = 3;
  options.learning_rate = 0.5;
  // Σ residual is -15 over 3 rows and 15 over 5: 0.5 · 15 / (n + 3).
  EXPECT_EQ(fit_trees(table.features, table.target, {}, options).trees().at(0).leaves,
            (std::vector<int32_t>{-125000, 93750}));
}

TEST(FitTrees, WeightsCountAsRepeatedRows) {
  Table table = additive(200, 0.1, 3);
  std::vector<float> weight(200, 1);
  Table repeated{Matrix(300, 3), {}};
  size_t next = 0;
  for (size_t r = 0; r < 200; ++r) {
    weight[r] = r % 2 == 0 ? 4.0f : 2.0f;  // twice as much; the scale is of no matter
    for (int copy = 0; copy < (r % 2 == 0 ? 2 : 1); ++copy) {
      std::ranges::copy(table.features.row(r), repeated.features.row(next++).begin());
      repeated.target.push_back(table.target[r]);
    }
  }
  TreeOptions options = one_exact_tree(3);
  options.bins = 256;  // a bin a value, so that repetition does not move the quantiles
  const auto weighted = fit_trees(table.features, table.target, weight, options).trees();
  const auto copies = fit_trees(repeated.features, repeated.target, {}, options).trees();
  ASSERT_EQ(weighted.size(), 1u);
  EXPECT_EQ(weighted[0].splits, copies.at(0).splits);
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(weighted[0].leaves[i], copies[0].leaves.at(i), 1);
}

TEST(FitTrees, MoreTreesFitAnAdditiveFunctionBetter) {
  const Table train = additive(2000, 0, 1), test = additive(500, 0, 2);
  double last = 1e9;
  for (const int trees : {0, 20, 80, 400}) {
    TreeOptions options;
    options.trees = trees;
    const double error =
        root_mean_square_error(fit_trees(train.features, train.target, {}, options), test);
    EXPECT_LT(error, 0.8 * last) << trees;
    last = error;
  }
  EXPECT_LT(last, 0.05);  // of a standard deviation of 0.75
}

TEST(FitTrees, ImportanceIsWhereTheSignalIs) {
  const Table train = additive(2000, 0.2, 1);
  const auto trees = fit_trees(train.features, train.target, {}, TreeOptions());
  const auto share = trees.importance();
  EXPECT_NEAR(std::accumulate(share.begin(), share.end(), 0.0), 1, 2e-6);
  // Var sin(3x) is 0.52, var x² is 4/45 = 0.09.
  EXPECT_GT(share[0], 0.75);
  EXPECT_GT(share[1], 0.08);
  EXPECT_LT(share[2], 0.02);
}

TEST(FitTrees, ThreadsDoNotChangeAByte) {
  const Table train = additive(700, 0.3, 9);
  TreeOptions options;
  options.trees = 30;
  options.feature_sample = 0.7;
  const std::string one = to_json(fit_trees(train.features, train.target, {}, options));
  for (const int threads : {2, 3, 8}) {
    options.threads = threads;
    EXPECT_EQ(to_json(fit_trees(train.features, train.target, {}, options)), one) << threads;
  }
  options.seed = 2;
  EXPECT_NE(to_json(fit_trees(train.features, train.target, {}, options)), one);
}

TEST(FitTrees, AFileGivesTheSamePredictions) {
  const Table train = additive(500, 0.3, 9);
  const BoostedTrees trees = fit_trees(train.features, train.target, {}, TreeOptions());
  const BoostedTrees again =
      trees_from_json(JsonValue::parse(Source::from_memory("t.json", to_json(trees))));
  EXPECT_EQ(again, trees);
  for (size_t r = 0; r < 500; ++r)
    EXPECT_EQ(again.predict(train.features.row(r)), trees.predict(train.features.row(r)));
}

TEST(FitTrees, ASampleOfFeaturesUsesNoMore) {
  const Table train = additive(500, 0, 4);
  TreeOptions options;
  options.feature_sample = 0.01;  // rounds up to one a tree
  options.trees = 40;
  for (const auto& tree : fit_trees(train.features, train.target, {}, options).trees())
    for (const auto& split : tree.splits) EXPECT_EQ(split.feature, tree.splits[0].feature);
}

TEST(FitTrees, HuberLossIgnoresHowFarAnOutlierIs) {
  Table train = additive(1000, 0, 1);
  const Table test = additive(300, 0, 2);
  for (size_t r = 0; r < 1000; r += 20) train.target[r] += 50;
  TreeOptions options;
  const double squared =
      root_mean_square_error(fit_trees(train.features, train.target, {}, options), test);
  options.huber_delta = 0.3;
  const double robust =
      root_mean_square_error(fit_trees(train.features, train.target, {}, options), test);
  EXPECT_GT(squared, 1.0);  // one row in twenty pulls by 50: the mean alone is off by 2.5
  EXPECT_LT(robust, 0.15);
}

TEST(FitTrees, ValidationStopsWhereItsLossIsLeast) {
  const Table train = additive(300, 4, 1), held_out = additive(300, 4, 2);
  TreeOptions options;
  options.learning_rate = 0.3;
  const ValidationRows validation{held_out.features, held_out.target, 20};
  const BoostedTrees stopped = fit_trees(train.features, train.target, {}, options, &validation);
  const size_t best = stopped.tree_count();
  ASSERT_GT(best, 0u);
  ASSERT_LT(best, 100u);
  // No other length of the same sequence does better on those rows.
  const double least = root_mean_square_error(stopped, held_out);
  for (int trees = 1; trees < static_cast<int>(best) + 20; ++trees) {
    options.trees = trees;
    const double error =
        root_mean_square_error(fit_trees(train.features, train.target, {}, options), held_out);
    if (trees != static_cast<int>(best)) {
      EXPECT_GT(error, least) << trees;
    }
  }
}

TEST(FitTrees, RefusesWhatItCannotFit) {
  const auto kind_of = [](Table table, std::vector<float> weight, const TreeOptions& options) {
    try {
      fit_trees(table.features, table.target, weight, options);
    } catch (const Error& error) {
      return std::string(name(error.kind())) + ": " + error.what();
    }
    return std::string();
  };
  Table table = step();
  table.features.row(3)[1] = NAN;
  EXPECT_EQ(kind_of(table, {}, {}), "input: row 3: feature 1 is not finite");
  table = step();
  table.target[2] = INFINITY;
  EXPECT_EQ(kind_of(table, {}, {}), "input: row 2: the target is not finite");
  EXPECT_EQ(kind_of(step(), {1, 1, 1, -1, 1, 1, 1, 1}, {}),
            "input: row 3: expected a finite weight of at least 0");
  EXPECT_EQ(kind_of(step(), std::vector<float>(8), {}), "input: all weights are 0");
  EXPECT_EQ(kind_of({Matrix(0, 2), {}}, {}, {}), "input: no rows to fit trees to");
  EXPECT_EQ(kind_of({Matrix(3, 2), {}}, {}, {}), "internal: 0 targets for 3 rows");
  TreeOptions options;
  options.depth = 9;
  EXPECT_EQ(kind_of(step(), {}, options),
            "usage: trees cannot be fitted: expected a depth of 1 to 8");
  options = {};
  options.bins = 257;
  EXPECT_EQ(kind_of(step(), {}, options), "usage: trees cannot be fitted: expected 2 to 256 bins");
  table = step();
  for (float& value : table.target) value *= 1e6f;
  EXPECT_EQ(kind_of(table, {}, one_exact_tree(1)),
            "input: a leaf of -5000000 is too large for a unit of 1e-05: scale the target");
  for (float& value : table.target) value *= 1e-2f;
  EXPECT_TRUE(kind_of(table, {}, {}).starts_with("input: the target is too large"));
}

}  // namespace
}  // namespace orrery
