#include "orrery/learn/boosted_trees.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <tuple>

#include "orrery/base/error.h"

namespace orrery {
namespace {

[[noreturn]] void invalid(const std::string& message) { throw std::invalid_argument(message); }

bool before(const BoostedTrees::Split& a, const BoostedTrees::Split& b) {
  return std::tie(a.feature, a.threshold) < std::tie(b.feature, b.threshold);
}

/// All distinct questions, by feature and threshold.
std::vector<BoostedTrees::Split> questions_of(const std::vector<BoostedTrees::Tree>& trees) {
  std::vector<BoostedTrees::Split> distinct;
  for (const BoostedTrees::Tree& tree : trees)
    distinct.insert(distinct.end(), tree.splits.begin(), tree.splits.end());
  std::ranges::sort(distinct, before);
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  return distinct;
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

/// The leaves of `trees` trees, all of one depth. `answers` are 1 for yes, 0 for no. The
/// depth is known when compiling: the loop's own work would take as long again.
template <size_t kDepth>
int32_t sum_leaves(size_t trees, const uint16_t* conditions, const int32_t* leaves,
                   const uint8_t* answers) {
  int32_t sum = 0;
  for (size_t t = 0; t < trees; ++t) {
    size_t index = 0;
    for (size_t level = 0; level < kDepth; ++level) index = 2 * index + answers[conditions[level]];
    sum += leaves[index];
    conditions += kDepth;
    leaves += size_t{1} << kDepth;
  }
  return sum;
}

constexpr std::array kSumLeaves = {sum_leaves<1>, sum_leaves<2>, sum_leaves<3>, sum_leaves<4>,
                                   sum_leaves<5>, sum_leaves<6>, sum_leaves<7>, sum_leaves<8>};
static_assert(kSumLeaves.size() == BoostedTrees::kMaxDepth);

// Rows that are predicted together.
constexpr size_t kBlock = 32;
// Trees whose leaves are added before the next ones' indices are worked out, so that both
// stay in the first-level cache.
constexpr size_t kTreesTogether = 16;

// Vectors as GCC and Clang have them, of the size every x86-64 and ARM64 has.
constexpr size_t kVector = 16;
using Floats [[gnu::vector_size(kVector)]] = float;
using Counts [[gnu::vector_size(kVector)]] = int32_t;
using Bytes [[gnu::vector_size(kVector)]] = int8_t;

/// One byte for each row of a block.
using RowBytes = std::array<Bytes, kBlock / kVector>;

/// How many of the thresholds each value is greater than, less 128: at most 255, they fit a
/// signed byte, which vectors compare in one step.
RowBytes ranks(const std::array<Floats, kBlock / 4>& values, std::span<const float> thresholds) {
  std::array<Counts, kBlock / 4> counts;
  constexpr size_t kTogether = 4;  // as many as stay in registers
  static_assert(kBlock / 4 % kTogether == 0);
  for (size_t first = 0; first < values.size(); first += kTogether) {
    std::array<Counts, kTogether> count;
    count.fill(Counts{} - 128);
    for (const float threshold : thresholds)
      for (size_t v = 0; v < kTogether; ++v)
        count[v] -= values[first + v] > threshold;  // true is -1
    std::copy(count.begin(), count.end(), counts.begin() + static_cast<ptrdiff_t>(first));
  }
  std::array<int32_t, kBlock> wide;
  std::memcpy(wide.data(), counts.data(), sizeof wide);
  std::array<int8_t, kBlock> narrow;
  for (size_t r = 0; r < kBlock; ++r) narrow[r] = static_cast<int8_t>(wide[r]);
  RowBytes ranks;
  std::memcpy(ranks.data(), narrow.data(), sizeof ranks);
  return ranks;
}

/// Sums of each row's leaves, given the answers to all questions: -1 for yes, 0 for no.
std::array<int32_t, kBlock> add_leaves(std::span<const uint8_t> depths, const uint16_t* condition,
                                       const int32_t* next_leaves, const RowBytes* answers) {
  std::array<int32_t, kBlock> sums{};
  std::array<std::array<uint8_t, kBlock>, kTreesTogether> index;
  std::array<const int32_t*, kTreesTogether> leaves;
  for (size_t first = 0; first < depths.size(); first += kTreesTogether) {
    const size_t count = std::min(kTreesTogether, depths.size() - first);
    for (size_t t = 0; t < count; ++t) {
      const size_t depth = depths[first + t];
      RowBytes bits{};
      for (size_t level = 0; level < depth; ++level)
        for (size_t part = 0; part < bits.size(); ++part)
          bits[part] = bits[part] + bits[part] - answers[condition[level]][part];
      std::memcpy(index[t].data(), bits.data(), kBlock);
      leaves[t] = next_leaves;
      condition += depth;
      next_leaves += size_t{1} << depth;
    }
    size_t t = 0;
    for (; t + 4 <= count; t += 4)  // four at a time: the sum stays in a register
      for (size_t r = 0; r < kBlock; ++r)
        sums[r] += leaves[t][index[t][r]] + leaves[t + 1][index[t + 1][r]] +
                   leaves[t + 2][index[t + 2][r]] + leaves[t + 3][index[t + 3][r]];
    for (; t < count; ++t)
      for (size_t r = 0; r < kBlock; ++r) sums[r] += leaves[t][index[t][r]];
  }
  return sums;
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
  for (size_t t = 0; t < trees.size(); ++t) {
    check_tree(trees[t], t, features);
    int64_t largest = 0;
    for (const int32_t leaf : trees[t].leaves) largest = std::max(largest, std::abs(int64_t{leaf}));
    largest_sum += largest;
    if (largest_sum > kMaxSum) invalid(fmt::format("trees[{}].leaves: the sum overflows", t));
  }
  const std::vector<Split> distinct = questions_of(trees);
  std::vector<uint16_t> number(distinct.size());
  for (size_t d = 0; d < distinct.size(); ++d) {
    if (questions_.empty() || questions_.back().feature != distinct[d].feature) {
      while (thresholds_.size() % kAnswersTogether != 0) thresholds_.push_back(0);
      const auto first = static_cast<uint16_t>(thresholds_.size());
      questions_.push_back({distinct[d].feature, first, first});
    }
    Questions& about = questions_.back();
    number[d] = about.last++;
    if (about.last - about.first > static_cast<int>(kMaxThresholds))
      invalid(fmt::format("trees: more than {} thresholds of feature {}", kMaxThresholds,
                          about.feature));
    thresholds_.push_back(distinct[d].threshold);
  }
  while (thresholds_.size() % kAnswersTogether != 0) thresholds_.push_back(0);

  for (const Tree& tree : trees) {
    depths_.push_back(static_cast<uint8_t>(tree.splits.size()));
    for (const Split& split : tree.splits)
      conditions_.push_back(number[static_cast<size_t>(
          std::ranges::lower_bound(distinct, split, before) - distinct.begin())]);
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
  constexpr size_t kMaxQuestions = kMaxTrees * kMaxDepth + kMaxFeatures * (kAnswersTogether - 1);
  static_assert(kMaxQuestions <= std::numeric_limits<uint16_t>::max());
  std::array<uint8_t, kMaxQuestions> answers;  // left uninitialised
  for (const Questions& q : questions_) {
    const float value = row[q.feature];
    for (size_t d = q.first; d < q.last; d += kAnswersTogether) {
      std::array<uint8_t, kAnswersTogether> greater;
      for (size_t i = 0; i < kAnswersTogether; ++i) greater[i] = value > thresholds_[d + i] ? 1 : 0;
      std::memcpy(&answers[d], greater.data(), kAnswersTogether);
    }
  }
  int32_t sum = 0;
  const uint16_t* condition = conditions_.data();
  const int32_t* leaves = leaves_.data();
  for (size_t first = 0; first < depths_.size();) {
    const size_t depth = depths_[first];
    size_t last = first + 1;
    while (last < depths_.size() && depths_[last] == depth) ++last;
    sum += kSumLeaves[depth - 1](last - first, condition, leaves, answers.data());
    condition += depth * (last - first);
    leaves += (last - first) << depth;
    first = last;
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
  constexpr size_t kFewRows = 12;
  std::vector<RowBytes> answers(rows.rows() < kFewRows ? 0 : thresholds_.size());
  for (size_t first = 0; first < rows.rows();) {
    const size_t count = std::min(kBlock, rows.rows() - first);
    if (count < kFewRows) {
      for (size_t r = 0; r < count; ++r) out[first + r] = value_of(sum_of(rows.row(first + r)));
    } else {
      for (const Questions& q : questions_) {
        std::array<float, kBlock> column;
        for (size_t r = 0; r < kBlock; ++r)
          column[r] = rows.row(first + std::min(r, count - 1))[q.feature];
        std::array<Floats, kBlock / 4> values;
        std::memcpy(values.data(), column.data(), sizeof values);
        const RowBytes rank =
            ranks(values, std::span(thresholds_).subspan(q.first, q.last - q.first));
        for (size_t d = q.first; d < q.last; ++d)
          for (size_t part = 0; part < rank.size(); ++part)
            answers[d][part] = rank[part] > static_cast<int8_t>(d - q.first - 128);
      }
      const auto sums = add_leaves(depths_, conditions_.data(), leaves_.data(), answers.data());
      for (size_t r = 0; r < count; ++r) out[first + r] = value_of(sums[r]);
    }
    first += count;
  }
}

namespace {

constexpr char kFirstCharacter = '#', kLastCharacter = '~', kNoCharacter = '\\';
static_assert(kLastCharacter - kFirstCharacter == 2 * BoostedTrees::kLargestCharacter + 1);

char character_of(int32_t value) {
  const char c = static_cast<char>(kFirstCharacter + value + BoostedTrees::kLargestCharacter);
  return static_cast<char>(c < kNoCharacter ? c : c + 1);
}

std::optional<int32_t> value_of(char c) {
  if (c < kFirstCharacter || c > kLastCharacter || c == kNoCharacter) return std::nullopt;
  return c - kFirstCharacter - (c > kNoCharacter ? 1 : 0) - BoostedTrees::kLargestCharacter;
}

/// The leaves as text, and what to multiply them by where that is not 1.
std::string leaves_text(const std::vector<int32_t>& leaves) {
  int32_t divisor = 0, largest = 0;
  for (const int32_t leaf : leaves) {
    divisor = std::gcd(divisor, leaf);
    largest = std::max(largest, std::abs(leaf));
  }
  if (largest <= BoostedTrees::kLargestCharacter) divisor = 1;
  if (largest / divisor > BoostedTrees::kLargestCharacter)
    return fmt::format("[{}]", fmt::join(leaves, ","));
  std::string text = "\"";
  for (const int32_t leaf : leaves) text += character_of(leaf / divisor);
  text += '"';
  return divisor == 1 ? text : fmt::format("{},{}", text, divisor);
}

std::vector<int32_t> leaves_from(const std::vector<JsonValue>& parts, size_t count) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  if (!parts[1].is_text()) {
    if (parts.size() > 2) parts[2].fail("no factor belongs to leaves that are numbers");
    return parts[1].whole_numbers(count, -kMost, kMost);
  }
  const int64_t factor =
      parts.size() > 2 ? parts[2].whole(1, kMost / BoostedTrees::kLargestCharacter) : 1;
  const std::string text = parts[1].text();
  if (text.size() != count)
    parts[1].fail(fmt::format("expected {} characters, found {}", count, text.size()));
  std::vector<int32_t> leaves;
  for (const char c : text) {
    const auto value = value_of(c);
    if (!value) parts[1].fail(fmt::format("character {} is no leaf", leaves.size()));
    leaves.push_back(static_cast<int32_t>(*value * factor));
  }
  return leaves;
}

}  // namespace

std::string to_json(const BoostedTrees& model) {
  std::string text = fmt::format("{{\"features\":{},\"base\":{},\"leaf_unit\":{}", model.features(),
                                 json_number(model.base()), json_number(model.leaf_unit()));
  if (!model.importance().empty()) {
    text += ",\"importance\":[";
    for (const double share : model.importance()) text += json_number(share) + ",";
    text.back() = ']';
  }
  const std::vector<BoostedTrees::Tree> trees = model.trees();
  const std::vector<BoostedTrees::Split> questions = questions_of(trees);
  text += ",\"questions\":[";
  for (size_t q = 0; q < questions.size(); ++q) {
    const bool next = q == 0 || questions[q].feature != questions[q - 1].feature;
    if (next) text += fmt::format("{}[{},[", q > 0 ? "]],\n" : "", questions[q].feature);
    text += (next ? "" : ",") + json_number(questions[q].threshold);
  }
  text += questions.empty() ? "],\n\"trees\":[" : "]]],\n\"trees\":[";
  const char* separator = "\n";
  for (const BoostedTrees::Tree& tree : trees) {
    text += separator;
    separator = ",\n";
    text += "[[";
    for (const BoostedTrees::Split& split : tree.splits)
      text += fmt::format("{},",
                          std::ranges::lower_bound(questions, split, before) - questions.begin());
    text.back() = ']';
    text += "," + leaves_text(tree.leaves) + "]";
  }
  return text + "]}";
}

BoostedTrees trees_from_json(const JsonValue& value) {
  value.expect_only({"features", "base", "leaf_unit", "importance", "questions", "trees"});
  const auto features =
      static_cast<size_t>(value.member("features").whole(0, BoostedTrees::kMaxFeatures));
  std::vector<double> importance;
  if (value.has("importance")) importance = value.member("importance").numbers(features);

  std::vector<BoostedTrees::Split> questions;
  for (const JsonValue& entry : value.member("questions").elements(0, features)) {
    const auto parts = entry.elements(2, 2);
    const int64_t feature = parts[0].whole(0, static_cast<int64_t>(features) - 1);
    const size_t count = parts[1].count(1, BoostedTrees::kMaxThresholds);
    for (const double threshold : parts[1].numbers(count))
      // Adding 0 turns -0 into 0, which asks the same question.
      questions.push_back({static_cast<uint16_t>(feature), static_cast<float>(threshold) + 0.0f});
  }

  std::vector<BoostedTrees::Tree> trees;
  for (const JsonValue& entry : value.member("trees").elements(0, BoostedTrees::kMaxTrees)) {
    const auto parts = entry.elements(2, 3);
    BoostedTrees::Tree tree;
    const size_t depth = parts[0].count(1, BoostedTrees::kMaxDepth);
    const auto last = static_cast<int32_t>(questions.size()) - 1;
    for (const int32_t number : parts[0].whole_numbers(depth, 0, last))
      tree.splits.push_back(questions[static_cast<size_t>(number)]);
    tree.leaves = leaves_from(parts, size_t{1} << tree.splits.size());
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
