#include "orrery/learn/boosted_trees.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>

#include "orrery/learn/split.h"

namespace orrery {
namespace {

using Tree = BoostedTrees::Tree;

/// 1 + 0.5 · (leaf of tree 0 + leaf of tree 1)
BoostedTrees two_trees() {
  return {3,
          1,
          0.5,
          {Tree{{{0, 1.5f}, {2, -1}}, {10, 20, 30, 40}}, Tree{{{1, 0.25f}}, {-3, 3}}},
          {0.5, 0.25, 0.25}};
}

BoostedTrees read(std::string text) {
  return trees_from_json(JsonValue::parse(Source::from_memory("t.json", std::move(text))));
}

std::string error_of(std::string text) {
  try {
    read(std::move(text));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

std::string problem(const std::vector<Tree>& trees, double base = 0, double leaf_unit = 1e-5,
                    std::vector<double> importance = {}) {
  try {
    BoostedTrees(3, base, leaf_unit, trees, std::move(importance));
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

/// Any trees, with values that meet thresholds exactly now and then. Leaves are multiples of
/// `scale`, up to `most` times.
std::vector<Tree> random_trees(size_t count, size_t features, SplitMix64& random, int32_t most,
                               int32_t scale = 1) {
  std::vector<Tree> trees(count);
  for (Tree& tree : trees) {
    tree.splits.resize(1 + random.below(BoostedTrees::kMaxDepth));
    for (auto& split : tree.splits)
      split = {static_cast<uint16_t>(random.below(features)), static_cast<float>(random.below(16))};
    tree.leaves.resize(size_t{1} << tree.splits.size());
    for (int32_t& leaf : tree.leaves)
      leaf =
          scale * (static_cast<int32_t>(random.below(static_cast<uint64_t>(2 * most + 1))) - most);
  }
  return trees;
}

/// base + leaf_unit · Σ leaves, tree after tree, as the class says.
float walked(double base, double leaf_unit, const std::vector<Tree>& trees,
             std::span<const float> row) {
  int64_t sum = 0;
  for (const Tree& tree : trees) {
    size_t leaf = 0;
    for (const auto& split : tree.splits)
      leaf = 2 * leaf + (row[split.feature] > split.threshold ? 1 : 0);
    sum += tree.leaves[leaf];
  }
  return static_cast<float>(base + leaf_unit * static_cast<double>(sum));
}

Matrix random_rows(size_t rows, size_t features, SplitMix64& random) {
  Matrix matrix(rows, features);
  for (size_t r = 0; r < rows; ++r)
    for (float& value : matrix.row(r)) value = static_cast<float>(random.below(33)) / 2;
  return matrix;
}

TEST(BoostedTrees, TheFirstSplitIsTheHighestBit) {
  const BoostedTrees trees = two_trees();
  // (x0 > 1.5, x2 > -1) chooses among 10, 20, 30, 40; x1 > 0.25 between -3 and 3.
  EXPECT_EQ(trees.predict(std::vector<float>{0, 0, -5}), 1 + 0.5f * (10 - 3));
  EXPECT_EQ(trees.predict(std::vector<float>{0, 0, 0}), 1 + 0.5f * (20 - 3));
  EXPECT_EQ(trees.predict(std::vector<float>{2, 1, -5}), 1 + 0.5f * (30 + 3));
  EXPECT_EQ(trees.predict(std::vector<float>{2, 1, 0}), 1 + 0.5f * (40 + 3));
}

TEST(BoostedTrees, AThresholdItselfAndNanAreNotGreater) {
  const BoostedTrees trees = two_trees();
  EXPECT_EQ(trees.predict(std::vector<float>{1.5f, 0.25f, -1}), 1 + 0.5f * (10 - 3));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(trees.predict(std::vector<float>{nan, nan, nan}), 1 + 0.5f * (10 - 3));
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(trees.predict(std::vector<float>{infinity, infinity, -infinity}), 1 + 0.5f * (30 + 3));
}

TEST(BoostedTrees, PredictsItsBaseWithoutTrees) {
  EXPECT_EQ(BoostedTrees().predict(std::vector<float>{}), 0);
  EXPECT_EQ(BoostedTrees(1, 2.5, 1, {}, {}).predict(std::vector<float>{7}), 2.5f);
}

TEST(BoostedTrees, BatchesOfAnySizeGiveTheBitsOfAWalkThroughTheTrees) {
  SplitMix64 random(5);
  // Leaves of a byte, of a byte times what they have in common, and of more.
  for (const auto& [most, scale] : {std::pair(45, 1), {127, 1}, {127, 200}, {100000, 1}})
    for (const size_t count : {1, 15, 16, 17, 100, 600}) {
      const std::vector<Tree> made = random_trees(count, 7, random, most, scale);
      const BoostedTrees trees(7, -2.75, 1e-5, made, {});
      for (const size_t rows : {0, 1, 7, 8, 11, 31, 32, 33, 44, 64, 101}) {
        Matrix matrix = random_rows(rows, 7, random);
        if (rows > 0) matrix.row(rows - 1)[3] = std::numeric_limits<float>::quiet_NaN();
        std::vector<float> out(rows);
        trees.predict(matrix, out);
        for (size_t r = 0; r < rows; ++r) {
          EXPECT_EQ(out[r], walked(-2.75, 1e-5, made, matrix.row(r)));
          EXPECT_EQ(out[r], trees.predict(matrix.row(r)));
        }
      }
    }
}

TEST(BoostedTrees, TreesOfOneDepthMayAddUpToMoreThanSixteenBits) {
  for (size_t depth = 1; depth <= BoostedTrees::kMaxDepth; ++depth) {
    Tree tree;
    tree.splits.resize(depth, {0, 0.5f});
    tree.leaves.resize(size_t{1} << depth);
    tree.leaves.back() = 127 * 255;
    tree.leaves.front() = -126 * 255;
    const BoostedTrees trees(1, 0, 1, std::vector<Tree>(301, tree), {});
    Matrix rows(40, 1);
    for (size_t r = 0; r < 40; r += 2) rows.row(r)[0] = 1;
    std::vector<float> out(40);
    trees.predict(rows, out);
    for (size_t r = 0; r < 40; ++r) EXPECT_EQ(out[r], 301.0f * 255 * (r % 2 == 0 ? 127 : -126));
  }
}

TEST(BoostedTrees, PredictsAsManyRowsAsThereArePlaces) {
  SplitMix64 random(6);
  const BoostedTrees trees(7, 0, 1, random_trees(20, 7, random, 45), {});
  const Matrix matrix = random_rows(64, 7, random);
  std::vector<float> out(41, -1);
  trees.predict(matrix, std::span(out).first(40));
  for (size_t r = 0; r < 40; ++r) EXPECT_EQ(out[r], trees.predict(matrix.row(r)));
  EXPECT_EQ(out[40], -1);
}

TEST(BoostedTrees, BatchesTellAsManyThresholdsApartAsThereMayBe) {
  std::vector<Tree> trees(255);
  for (size_t t = 0; t < 255; ++t) trees[t] = {{{0, static_cast<float>(t)}}, {0, 1}};
  const BoostedTrees counts(1, 0, 1, trees, {});  // how many of 0, 1 ... 254 are below x
  Matrix rows(256, 1);
  for (size_t r = 0; r < 256; ++r) rows.row(r)[0] = static_cast<float>(r);
  std::vector<float> out(256);
  counts.predict(rows, out);
  for (size_t r = 0; r < 256; ++r) EXPECT_EQ(out[r], static_cast<float>(r));
}

TEST(BoostedTrees, RefusesAnotherNumberOfFeatures) {
  EXPECT_THROW(two_trees().predict(std::vector<float>{1, 2}), Error);
  std::vector<float> out(2);
  EXPECT_THROW(two_trees().predict(Matrix(2, 2), out), Error);
  EXPECT_THROW(two_trees().predict(Matrix(1, 3), out), Error);
}

TEST(BoostedTrees, WritesOneTreeALine) {
  EXPECT_EQ(
      to_json(two_trees()),
      R"({"features":3,"base":1,"leaf_unit":0.5,"importance":[0.5,0.25,0.25],"questions":[[0,[1.5]],
[1,[0.25]],
[2,[-1]]],
"trees":[
[[0,2],"Zeoy"],
[[1],"MS"]]})");
  EXPECT_EQ(to_json(BoostedTrees()),
            "{\"features\":0,\"base\":0,\"leaf_unit\":1,\"questions\":[],\n\"trees\":[]}");
}

TEST(BoostedTrees, ALeafIsACharacterWhereOneReaches) {
  const auto leaves = [](std::vector<int32_t> of_tree) {
    const std::string text =
        to_json(BoostedTrees(1, 0, 1, {Tree{{{0, 1}}, std::move(of_tree)}}, {}));
    return text.substr(text.find("[[0],") + 5);
  };
  EXPECT_EQ(leaves({-45, 45}), R"("#~"]]})");
  EXPECT_EQ(leaves({0, 11}), R"("P["]]})");  // '[' comes before the backslash …
  EXPECT_EQ(leaves({0, 12}), R"("P]"]]})");  // … that is no leaf
  EXPECT_EQ(leaves({0, 0}), R"("PP"]]})");
  EXPECT_EQ(leaves({90, -4}), R"("~N",2]]})");
  EXPECT_EQ(leaves({46, 1}), "[46,1]]]}");
}

TEST(BoostedTrees, ReadsBackAsItWas) {
  EXPECT_EQ(read(to_json(two_trees())), two_trees());
  EXPECT_EQ(read(to_json(BoostedTrees())), BoostedTrees());
  SplitMix64 random(11);
  std::vector<Tree> trees(50);
  for (Tree& tree : trees) {
    // Thresholds of any bits, leaves of any size.
    tree.splits = {
        {static_cast<uint16_t>(random.below(5)),
         static_cast<float>((random.uniform() - 0.5) * std::pow(10, 60 * random.uniform() - 30))}};
    tree.leaves = {static_cast<int32_t>(random.below(1000000)), 0};
  }
  const BoostedTrees model(5, 1.0 / 3, 1e-5, trees, {0.1, 0.2, 0.3, 0.4, 0});
  EXPECT_EQ(read(to_json(model)), model);
  EXPECT_EQ(model.trees(), trees);
}

TEST(BoostedTrees, RefusesWhatIsNotATree) {
  const Tree good{{{0, 1}}, {1, 2}};
  EXPECT_EQ(problem({good}), "");
  EXPECT_EQ(problem({good, Tree{{{0, 1}, {3, 1}}, {1, 2, 3, 4}}}),
            "trees[1].splits[1]: feature 3 of 3");
  EXPECT_EQ(problem({Tree{{}, {1}}}), "trees[0].splits: 0 of them, expected 1 to 8");
  EXPECT_EQ(problem({Tree{std::vector<BoostedTrees::Split>(9), std::vector<int32_t>(512)}}),
            "trees[0].splits: 9 of them, expected 1 to 8");
  EXPECT_EQ(problem({Tree{{{0, 1}}, {1, 2, 3}}}), "trees[0].leaves: 3 of them, expected 2");
  EXPECT_EQ(problem({Tree{{{0, std::numeric_limits<float>::infinity()}}, {1, 2}}}),
            "trees[0].splits[0]: the threshold is not finite");
  EXPECT_EQ(problem({good}, std::numeric_limits<double>::quiet_NaN()),
            "base: not finite, or too large for a float with this leaf_unit");
  EXPECT_EQ(problem({good}, 1e39),
            "base: not finite, or too large for a float with this leaf_unit");
  EXPECT_EQ(problem({good}, 0, 1e30),
            "base: not finite, or too large for a float with this leaf_unit");
  EXPECT_EQ(problem({good}, 0, 0), "leaf_unit: expected more than 0");
  EXPECT_EQ(problem({good}, 0, 1, {1}), "importance: 1 numbers for 3 features");
  EXPECT_EQ(problem({good}, 0, 1, {0, 2, 0}), "importance[1]: expected 0 to 1");
  const Tree huge{{{0, 1}}, {1 << 30, -(1 << 30)}};
  EXPECT_EQ(problem({huge}), "");
  EXPECT_EQ(problem({huge, huge}), "trees[1].leaves: the sum overflows");
  EXPECT_EQ(problem({Tree{{{0, 1}}, {INT32_MIN, 0}}}), "trees[0].leaves: the sum overflows");
  EXPECT_EQ(problem(std::vector<Tree>(BoostedTrees::kMaxTrees, good)), "");
  EXPECT_EQ(problem(std::vector<Tree>(BoostedTrees::kMaxTrees + 1, good)),
            "trees: 4097 of them, expected at most 4096");
  std::vector<Tree> thresholds(255, good);
  for (size_t t = 0; t < 255; ++t) thresholds[t].splits[0].threshold = static_cast<float>(t);
  EXPECT_EQ(problem(thresholds), "");
  thresholds.push_back(Tree{{{0, -1}}, {1, 2}});
  EXPECT_EQ(problem(thresholds), "trees: more than 255 thresholds of feature 0");
  std::vector<Tree> many(4096);
  for (size_t t = 0; t < many.size(); ++t)
    for (size_t level = 0; level < 8; ++level)
      many[t].splits.push_back(
          {static_cast<uint16_t>(t / 30), static_cast<float>(8 * (t % 30) + level)});
  for (Tree& tree : many) tree.leaves.resize(256);
  try {
    BoostedTrees(2048, 0, 1, many, {});
    ADD_FAILURE() << "4096 trees times 33,000 questions were taken";
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(), "trees: 4096 of them times 33864 questions are more than 67108864");
  }
}

TEST(BoostedTrees, HostileFilesAreNamedWithTheirPlace) {
  const auto with = [](std::string_view tree) {
    return R"({"features":40,"base":0,"leaf_unit":1e-5,"questions":[[0,[1]],[7,[2,3]]],"trees":[[[0],"PQ"],)" +
           std::string(tree) + "]}";
  };
  EXPECT_EQ(error_of(with(R"([[0,3],"PPPP"])")),
            "t.json: trees[1][0][1]: expected a whole number from 0 to 2, found 3");
  EXPECT_EQ(error_of(with(R"([[-1],"PP"])")),
            "t.json: trees[1][0][0]: expected a whole number from 0 to 2, found -1");
  EXPECT_EQ(error_of(with(R"([[0],"PPPP"])")),
            "t.json: trees[1][1]: expected 2 characters, found 4");
  EXPECT_EQ(error_of(with(R"([[0],"P "])")), "t.json: trees[1][1]: character 1 is no leaf");
  EXPECT_EQ(error_of(with(R"([[0],"\\P"])")), "t.json: trees[1][1]: character 0 is no leaf");
  EXPECT_EQ(error_of(with(R"([[0],"PP",0])")),
            "t.json: trees[1][2]: expected a whole number from 1 to 47721858, found 0");
  EXPECT_EQ(error_of(with(R"([[0],[0,1],2])")),
            "t.json: trees[1][2]: no factor belongs to leaves that are numbers");
  EXPECT_EQ(error_of(with(R"([[0],[0,1,2,3]])")),
            "t.json: trees[1][1]: expected an array of 2, found an array of 4");
  EXPECT_EQ(error_of(with(R"([[0],[0,1.5]])")),
            "t.json: trees[1][1][1]: expected a whole number from -2147483647 to 2147483647, "
            "found 1.5");
  EXPECT_EQ(error_of(with(R"([[0],[0,3000000000]])")),
            "t.json: trees[1][1][1]: expected a whole number from -2147483647 to 2147483647, "
            "found 3000000000");
  EXPECT_EQ(error_of(with(R"([[],"P"])")),
            "t.json: trees[1][0]: expected 1 to 8 elements, found 0");
  EXPECT_EQ(error_of(with(R"([[0,0,0,0,0,0,0,0,0],"P"])")),
            "t.json: trees[1][0]: expected 1 to 8 elements, found 9");
  EXPECT_EQ(error_of(with(R"([[0]])")), "t.json: trees[1]: expected 2 to 3 elements, found 1");
  EXPECT_EQ(error_of(with("7")), "t.json: trees[1]: expected an array, found 7");
  const auto asked = [](std::string_view questions) {
    return R"({"features":40,"base":0,"leaf_unit":1,"questions":)" + std::string(questions) +
           R"(,"trees":[[[0],"PQ"]]})";
  };
  EXPECT_EQ(error_of(asked("[[41,[1]]]")),
            "t.json: questions[0][0]: expected a whole number from 0 to 39, found 41");
  EXPECT_EQ(error_of(asked("[[0.5,[1]]]")),
            "t.json: questions[0][0]: expected a whole number from 0 to 39, found 0.5");
  EXPECT_EQ(error_of(asked("[[0,[1],2]]")), "t.json: questions[0]: expected 2 elements, found 3");
  EXPECT_EQ(error_of(asked("[[0,[]]]")),
            "t.json: questions[0][1]: expected 1 to 255 elements, found 0");
  EXPECT_EQ(error_of(asked("[[0,[null]]]")),
            "t.json: questions[0][1][0]: expected a number, found null");
  EXPECT_EQ(error_of(asked("[[0,[1e300]]]")),
            "t.json: trees[0].splits[0]: the threshold is not finite");
  EXPECT_EQ(error_of(asked("[]")),
            "t.json: trees[0][0][0]: expected a whole number from 0 to -1, found 0");
  EXPECT_EQ(error_of("[]"), "t.json: expected an object, found an array of 0");
  EXPECT_EQ(error_of(R"({"features":5000,"base":0,"leaf_unit":1,"questions":[],"trees":[]})"),
            "t.json: features: expected a whole number from 0 to 2048, found 5000");
  EXPECT_EQ(error_of(R"({"features":1,"base":0,"leaf_unit":-1,"questions":[],"trees":[]})"),
            "t.json: leaf_unit: expected more than 0");
  EXPECT_EQ(
      error_of(
          R"({"features":2,"base":0,"leaf_unit":1,"importance":[1],"questions":[],"trees":[]})"),
      "t.json: importance: expected an array of 2, found an array of 1");
}

}  // namespace
}  // namespace orrery
