#include "orrery/learn/boosted_trees.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <tuple>

#include "orrery/base/error.h"

namespace orrery {
namespace {

[[noreturn]] void invalid(std::string message) { throw std::invalid_argument(message); }

bool before(const BoostedTrees::Split& a, const BoostedTrees::Split& b) {
  return std::tie(a.feature, a.threshold) < std::tie(b.feature, b.threshold);
}

void check_tree(const BoostedTrees::Tree& tree, size_t number, size_t features) {
  if (tree.splits.empty() || tree.splits.size() > BoostedTrees::kMaxDepth)
    invalid(fmt::format("trees[{}].splits: {} of them, expected 1 to {}", number,
                        tree.splits.size(), BoostedTrees::kMaxDepth));
  for (size_t s = 0; s < tree.splits.size(); ++s) {
    if (tree.splits[s].feature >= features)
      invalid(fmt::format("trees[{}].splits[{}]: feature {} of {}", number, s,
                          tree.splits[s].feature, features));
    if (!std::isfinite(tree.splits[s].threshold))
      invalid(fmt::format("trees[{}].splits[{}]: the threshold is not finite", number, s));
  }
  if (tree.leaves.size() != size_t{1} << tree.splits.size())
    invalid(fmt::format("trees[{}].leaves: {} of them, expected {}", number, tree.leaves.size(),
                        size_t{1} << tree.splits.size()));
}

// Rows that are predicted together, and trees whose leaves are added before the next ones'
// indices are worked out: both keep what is used again in the first-level cache.
constexpr size_t kBlock = 32;
constexpr size_t kTreesTogether = 16;

struct BlockView {
  const float* columns;  // [used feature][kBlock]
  size_t tree_count;
  const uint8_t* depths;
  const uint16_t* conditions;
  const int32_t* leaves;
  uint8_t* answers;  // [distinct question][kBlock]
  int32_t* sums;     // [kBlock]
};

/// 255 where the row's value is greater than the threshold, else 0.
[[gnu::always_inline]] inline void answer(const float* column, float threshold, uint8_t* answers) {
  for (size_t r = 0; r < kBlock; ++r) answers[r] = column[r] > threshold ? 255 : 0;
}

/// Adds up the leaves of `kBlock` rows whose answers are known.
[[gnu::always_inline]] inline void add_leaves(const BlockView& block) {
  std::array<int32_t, kBlock> sums{};
  std::array<std::array<uint8_t, kBlock>, kTreesTogether> index;
  std::array<const int32_t*, kTreesTogether> leaves;
  const uint16_t* condition = block.conditions;
  const int32_t* next_leaves = block.leaves;
  for (size_t first = 0; first < block.tree_count; first += kTreesTogether) {
    const size_t count = std::min(kTreesTogether, block.tree_count - first);
    for (size_t t = 0; t < count; ++t) {
      const size_t depth = block.depths[first + t];
      std::array<uint8_t, kBlock> bits{};
      for (size_t level = 0; level < depth; ++level) {
        const uint8_t* answers = block.answers + size_t{condition[level]} * kBlock;
        // 255 is -1: the subtraction appends a one.
        for (size_t r = 0; r < kBlock; ++r)
          bits[r] = static_cast<uint8_t>(bits[r] + bits[r] - answers[r]);
      }
      index[t] = bits;
      leaves[t] = next_leaves;
      condition += depth;
      next_leaves += size_t{1} << depth;
    }
    if (count == kTreesTogether) {
      for (size_t r = 0; r < kBlock; ++r)
        for (size_t t = 0; t < kTreesTogether; ++t) sums[r] += leaves[t][index[t][r]];
    } else {
      for (size_t r = 0; r < kBlock; ++r)
        for (size_t t = 0; t < count; ++t) sums[r] += leaves[t][index[t][r]];
    }
  }
  std::copy(sums.begin(), sums.end(), block.sums);
}

}  // namespace

BoostedTrees::BoostedTrees(size_t features, double base, double leaf_unit,
                           const std::vector<Tree>& trees, std::vector<double> importance)
    : features_(features), base_(base), leaf_unit_(leaf_unit), importance_(std::move(importance)) {
  if (features > kMaxFeatures)
    invalid(fmt::format("features: {}, expected at most {}", features, kMaxFeatures));
  if (trees.size() > kMaxTrees)
    invalid(fmt::format("trees: {} of them, expected at most {}", trees.size(), kMaxTrees));
  if (!std::isfinite(leaf_unit) || leaf_unit <= 0) invalid("leaf_unit: expected more than 0");
  constexpr int64_t kMaxSum = std::numeric_limits<int32_t>::max();
  // Written so that a NaN fails as well.
  if (!(std::abs(base) + leaf_unit * static_cast<double>(kMaxSum) <=
        static_cast<double>(std::numeric_limits<float>::max())))
    invalid("base: not finite, or too large for a float with this leaf_unit");
  if (!importance_.empty() && importance_.size() != features)
    invalid(fmt::format("importance: {} numbers for {} features", importance_.size(), features));
  for (size_t f = 0; f < importance_.size(); ++f)
    if (!(importance_[f] >= 0 && importance_[f] <= 1))
      invalid(fmt::format("importance[{}]: expected 0 to 1", f));

  int64_t largest_sum = 0;
  std::vector<Split> distinct;
  for (size_t t = 0; t < trees.size(); ++t) {
    check_tree(trees[t], t, features);
    int64_t largest = 0;
    for (const int32_t leaf : trees[t].leaves) largest = std::max(largest, std::abs(int64_t{leaf}));
    largest_sum += largest;
    if (largest_sum > kMaxSum) invalid(fmt::format("trees[{}].leaves: the sum overflows", t));
    distinct.insert(distinct.end(), trees[t].splits.begin(), trees[t].splits.end());
  }
  std::ranges::sort(distinct, before);
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  static_assert(kMaxTrees * kMaxDepth <= std::numeric_limits<uint16_t>::max());

  for (size_t d = 0; d < distinct.size(); ++d) {
    const auto at = static_cast<uint16_t>(d);
    if (questions_.empty() || questions_.back().feature != distinct[d].feature)
      questions_.push_back({distinct[d].feature, at, at});
    ++questions_.back().last;
    thresholds_.push_back(distinct[d].threshold);
  }
  for (const Tree& tree : trees) {
    depths_.push_back(static_cast<uint8_t>(tree.splits.size()));
    for (const Split& split : tree.splits)
      conditions_.push_back(static_cast<uint16_t>(
          std::ranges::lower_bound(distinct, split, before) - distinct.begin()));
    leaves_.insert(leaves_.end(), tree.leaves.begin(), tree.leaves.end());
  }
}

std::vector<BoostedTrees::Tree> BoostedTrees::trees() const {
  std::vector<Split> distinct(thresholds_.size());
  for (const Questions& q : questions_)
    for (size_t d = q.first; d < q.last; ++d) distinct[d] = {q.feature, thresholds_[d]};
  std::vector<Tree> all;
  size_t condition = 0;
  auto leaf = leaves_.begin();
  for (const uint8_t depth : depths_) {
    Tree tree;
    for (size_t level = 0; level < depth; ++level)
      tree.splits.push_back(distinct[conditions_[condition++]]);
    tree.leaves.assign(leaf, leaf + (1 << depth));
    leaf += 1 << depth;
    all.push_back(std::move(tree));
  }
  return all;
}

float BoostedTrees::value_of(int32_t sum) const {
  return static_cast<float>(base_ + leaf_unit_ * sum);
}

int32_t BoostedTrees::sum_of(std::span<const float> row) const {
  std::array<uint8_t, kMaxTrees * kMaxDepth> answers;  // left uninitialised: 32 KiB
  for (const Questions& q : questions_) {
    const float value = row[q.feature];
    for (size_t d = q.first; d < q.last; ++d) answers[d] = value > thresholds_[d] ? 1 : 0;
  }
  int32_t sum = 0;
  const uint16_t* condition = conditions_.data();
  const int32_t* leaves = leaves_.data();
  for (const uint8_t depth : depths_) {
    size_t index = 0;
    for (size_t level = 0; level < depth; ++level) index = 2 * index + answers[condition[level]];
    sum += leaves[index];
    condition += depth;
    leaves += size_t{1} << depth;
  }
  return sum;
}

float BoostedTrees::predict(std::span<const float> row) const {
  if (row.size() != features_)
    throw_internal(
        fmt::format("{} features given to trees that were fitted to {}", row.size(), features_));
  return value_of(sum_of(row));
}

void BoostedTrees::predict(const Matrix& rows, std::span<float> out) const {
  if (rows.columns() != features_ || out.size() != rows.rows())
    throw_internal(fmt::format("trees of {} features were given {}, and {} places for {} rows",
                               features_, rows.columns(), out.size(), rows.rows()));
  // Below this a block's work costs more than it saves.
  constexpr size_t kFewRows = 8;
  std::vector<uint8_t> answers(rows.rows() < kFewRows ? 0 : thresholds_.size() * kBlock);
  std::array<float, kBlock> column;
  std::array<int32_t, kBlock> sums;
  for (size_t first = 0; first < rows.rows();) {
    const size_t count = std::min(kBlock, rows.rows() - first);
    if (count < kFewRows) {
      for (size_t r = 0; r < count; ++r) out[first + r] = value_of(sum_of(rows.row(first + r)));
    } else {
      for (const Questions& q : questions_) {
        for (size_t r = 0; r < kBlock; ++r)
          column[r] = rows.row(first + std::min(r, count - 1))[q.feature];
        for (size_t d = q.first; d < q.last; ++d)
          answer(column.data(), thresholds_[d], answers.data() + d * kBlock);
      }
      add_leaves({column.data(), depths_.size(), depths_.data(), conditions_.data(), leaves_.data(),
                  answers.data(), sums.data()});
      for (size_t r = 0; r < count; ++r) out[first + r] = value_of(sums[r]);
    }
    first += count;
  }
}

std::string to_json(const BoostedTrees& trees) {
  std::string text = fmt::format("{{\"features\":{},\"base\":{},\"leaf_unit\":{}", trees.features(),
                                 json_number(trees.base()), json_number(trees.leaf_unit()));
  if (!trees.importance().empty()) {
    text += ",\"importance\":[";
    for (const double share : trees.importance()) text += json_number(share) + ",";
    text.back() = ']';
  }
  text += ",\"trees\":[";
  const char* separator = "\n";
  for (const BoostedTrees::Tree& tree : trees.trees()) {
    text += separator;
    separator = ",\n";
    text += "{\"splits\":[";
    for (const BoostedTrees::Split& split : tree.splits)
      text += fmt::format("[{},{}],", split.feature, json_number(split.threshold));
    text.back() = ']';
    text += fmt::format(",\"leaves\":[{}]}}", fmt::join(tree.leaves, ","));
  }
  return text + "]}";
}

BoostedTrees trees_from_json(const JsonValue& value) {
  value.expect_only({"features", "base", "leaf_unit", "importance", "trees"});
  const auto features =
      static_cast<size_t>(value.member("features").whole(0, BoostedTrees::kMaxFeatures));
  std::vector<double> importance;
  if (value.has("importance"))
    for (const JsonValue& share : value.member("importance").elements(features, features))
      importance.push_back(share.number());

  std::vector<BoostedTrees::Tree> trees;
  for (const JsonValue& entry : value.member("trees").elements(0, BoostedTrees::kMaxTrees)) {
    entry.expect_only({"splits", "leaves"});
    BoostedTrees::Tree tree;
    for (const JsonValue& pair : entry.member("splits").elements(1, BoostedTrees::kMaxDepth)) {
      const auto parts = pair.elements(2, 2);
      // Adding 0 turns -0 into 0, which asks the same question.
      tree.splits.push_back({static_cast<uint16_t>(parts[0].whole(0, UINT16_MAX)),
                             static_cast<float>(parts[1].number()) + 0.0f});
    }
    tree.leaves = entry.member("leaves").whole_numbers(size_t{1} << tree.splits.size(),
                                                       -std::numeric_limits<int32_t>::max(),
                                                       std::numeric_limits<int32_t>::max());
    trees.push_back(std::move(tree));
  }
  try {
    return {features, value.member("base").number(), value.member("leaf_unit").number(), trees,
            std::move(importance)};
  } catch (const std::invalid_argument& e) {
    value.fail(e.what());
  }
}

}  // namespace orrery
