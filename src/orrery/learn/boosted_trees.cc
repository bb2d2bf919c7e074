#include "orrery/learn/boosted_trees.h"

#include <fmt/format.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
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

constexpr size_t rounded_up(size_t count, size_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

// A vector as GCC and Clang have it, of the size every x86-64 and ARM64 has.
using Bytes [[gnu::vector_size(16)]] = uint8_t;
/// Indices of leaves that are worked out together, a byte a tree: as many as stay in registers,
/// and a line of the cache.
constexpr size_t kTreesTogether = 64;
using Indices = std::array<Bytes, kTreesTogether / sizeof(Bytes)>;
/// Rows that the same trees are asked for, while what they add is in the cache.
constexpr size_t kRowsTogether = 8;

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
      pad_thresholds();
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
  pad_thresholds();

  for (const Tree& tree : trees) {
    depths_.push_back(static_cast<uint8_t>(tree.splits.size()));
    for (const Split& split : tree.splits)
      conditions_.push_back(number[static_cast<size_t>(
          std::ranges::lower_bound(distinct, split, before) - distinct.begin())]);
    first_leaves_.push_back(static_cast<uint32_t>(leaves_.size()));
    leaves_.insert(leaves_.end(), tree.leaves.begin(), tree.leaves.end());
  }
  add_steps();
  add_short_leaves();
}

void BoostedTrees::pad_thresholds() {
  // There is one more rank than thresholds.
  if (!questions_.empty())
    thresholds_.resize(rounded_up(thresholds_.size() + 1, kAnswersTogether),
                       std::numeric_limits<float>::infinity());
}

void BoostedTrees::add_steps() {
  const size_t stride = rounded_up(depths_.size(), kTreesTogether);
  if (stride * thresholds_.size() > kMostSteps)
    invalid(fmt::format("trees: {} of them times {} questions are more than {}", depths_.size(),
                        thresholds_.size(), kMostSteps));
  steps_.resize(stride * thresholds_.size());
  const uint16_t* condition = conditions_.data();
  for (size_t t = 0; t < depths_.size(); ++t)
    for (size_t bit = depths_[t]; bit-- > 0; ++condition)
      steps_[(*condition + size_t{1}) * stride + t] += static_cast<uint8_t>(1u << bit);
  // So far each is what one more threshold adds.
  for (const Questions& q : questions_)
    for (size_t rank = q.first + size_t{1}; rank <= q.last; ++rank) {
      uint8_t* const at = &steps_[rank * stride];
      std::transform(at - stride, at, at, at, std::plus<uint8_t>());
    }
}

void BoostedTrees::add_short_leaves() {
  constexpr int32_t kMostOfRun = std::numeric_limits<int16_t>::max();
  int32_t run_sum = 0;
  for (size_t t = 0; t < depths_.size(); ++t) {
    const std::span leaves(&leaves_[first_leaves_[t]], size_t{1} << depths_[t]);
    int32_t scale = 0, largest = 0;
    for (const int32_t leaf : leaves) {
      scale = std::gcd(scale, leaf);
      largest = std::max(largest, std::abs(leaf));
    }
    scale = std::max(1, scale);
    if (scale > std::numeric_limits<uint8_t>::max() || largest > kMostOfRun ||
        largest / scale > std::numeric_limits<int8_t>::max()) {
      runs_.clear();
      scales_.clear();
      short_leaves_.clear();
      return;
    }
    if (runs_.empty() || runs_.back().depth != depths_[t] || run_sum + largest > kMostOfRun) {
      runs_.push_back({depths_[t], 0});
      run_sum = 0;
    }
    run_sum += largest;
    ++runs_.back().trees;
    scales_.push_back(static_cast<uint8_t>(scale));
    std::ranges::transform(leaves, std::back_inserter(short_leaves_),
                           [&](int32_t leaf) { return static_cast<int8_t>(leaf / scale); });
    short_leaves_.resize(rounded_up(short_leaves_.size(), kShuffled));
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

void BoostedTrees::sum(std::span<const float* const> rows, std::span<int32_t> sums) const {
  constexpr size_t kMaxQuestions = kMaxTrees * kMaxDepth + kMaxFeatures * kAnswersTogether;
  static_assert(kMaxQuestions <= std::numeric_limits<uint16_t>::max());
  const size_t stride = rounded_up(depths_.size(), kTreesTogether);
  // What the features add, row after row; left uninitialised.
  std::array<const uint8_t*, kRowsTogether * kMaxFeatures> steps;
  const uint8_t** step = steps.data();
  for (const float* row : rows)
    for (const Questions& q : questions_) {
      const float value = row[q.feature];
      int32_t rank = 0;
      for (size_t d = q.first; d < q.last; d += kAnswersTogether)
        for (size_t k = 0; k < kAnswersTogether; ++k) rank += value > thresholds_[d + k] ? 1 : 0;
      *step++ = &steps_[(q.first + static_cast<size_t>(rank)) * stride];
    }
  std::ranges::fill(sums, 0);
  for (size_t first = 0; first < depths_.size(); first += kTreesTogether) {
    const size_t count = std::min(kTreesTogether, depths_.size() - first);
    step = steps.data();
    for (int32_t& row_sum : sums) {
      Indices indices{};
      for (size_t i = 0; i < questions_.size(); ++i) {
        Indices added;
        std::memcpy(added.data(), *step++ + first, sizeof added);
        for (size_t v = 0; v < indices.size(); ++v) indices[v] += added[v];
      }
      std::array<uint8_t, kTreesTogether> index;
      std::memcpy(index.data(), indices.data(), sizeof index);
      int32_t sum = 0;
      for (size_t t = 0; t < count; ++t) sum += leaves_[first_leaves_[first + t] + index[t]];
      row_sum += sum;
    }
  }
}

float BoostedTrees::predict(std::span<const float> row) const {
  if (row.size() != features_)
    throw_internal(
        fmt::format("{} features given to trees that were fitted to {}", row.size(), features_));
  const float* const only = row.data();
  int32_t found = 0;
  sum({&only, 1}, {&found, 1});
  return value_of(found);
}

#ifdef __x86_64__

/// Rows at once where the processor has vectors of 32 bytes: a byte of each for a row. A shuffle
/// looks 32 leaves up at once, in tables of 16.
class BoostedTrees::Block {
 public:
  static constexpr size_t kRows = 32;
  using Rows = std::array<const float*, kRows>;
  using Sums = std::array<int32_t, kRows>;

  static bool is_supported() { return __builtin_cpu_supports("avx2") != 0; }

  explicit Block(const BoostedTrees& trees)
      : trees_(trees), columns_(trees.questions_.size()), answers_(trees.thresholds_.size()) {}

  /// The sum of each row's leaves.
  Sums sums(const Rows& rows) {
    answer(rows);
    Sums sums{};
    const uint16_t* conditions = trees_.conditions_.data();
    const int8_t* leaves = trees_.short_leaves_.data();
    const uint8_t* scales = trees_.scales_.data();
    for (const Run& run : trees_.runs_) {
      kAdd[run.depth - size_t{1}](run.trees, conditions, leaves, scales, answers_.data(), sums);
      conditions += size_t{run.trees} * run.depth;
      leaves += run.trees * std::max(kShuffled, size_t{1} << run.depth);
      scales += run.trees;
    }
    return sums;
  }

 private:
  static constexpr size_t kShuffledLevels = 4;
  static_assert(kShuffled == size_t{1} << kShuffledLevels);

  struct alignas(kRows) Bytes {
    std::array<int8_t, kRows> of;
  };
  struct alignas(kRows) Floats {
    std::array<float, kRows> of;
  };

  [[gnu::target("avx2")]] void answer(const Rows& rows) {
    // All columns before the first rank: what was just written number by number cannot be read in
    // vectors at once.
    for (size_t i = 0; i < columns_.size(); ++i) {
      const size_t feature = trees_.questions_[i].feature;
      for (size_t r = 0; r < kRows; ++r) columns_[i].of[r] = rows[r][feature];
    }
    for (size_t i = 0; i < columns_.size(); ++i) {
      const Questions q = trees_.questions_[i];
      answer(columns_[i], {&trees_.thresholds_[q.first], size_t{q.last} - q.first},
             &answers_[q.first]);
    }
  }

  /// Counts how many of the thresholds each value is greater than, less 128: at most 255, they fit
  /// a signed byte, which vectors compare in one step.
  [[gnu::target("avx2")]] static void answer(const Floats& column,
                                             std::span<const float> thresholds, Bytes* answers) {
    const float* values = column.of.data();
    const __m256 v0 = _mm256_load_ps(values), v1 = _mm256_load_ps(values + 8),
                 v2 = _mm256_load_ps(values + 16), v3 = _mm256_load_ps(values + 24);
    __m256i c0 = _mm256_set1_epi32(-128), c1 = c0, c2 = c0, c3 = c0;
    for (const float t : thresholds) {
      const __m256 threshold = _mm256_set1_ps(t);
      c0 = _mm256_sub_epi32(c0, _mm256_castps_si256(_mm256_cmp_ps(v0, threshold, _CMP_GT_OQ)));
      c1 = _mm256_sub_epi32(c1, _mm256_castps_si256(_mm256_cmp_ps(v1, threshold, _CMP_GT_OQ)));
      c2 = _mm256_sub_epi32(c2, _mm256_castps_si256(_mm256_cmp_ps(v2, threshold, _CMP_GT_OQ)));
      c3 = _mm256_sub_epi32(c3, _mm256_castps_si256(_mm256_cmp_ps(v3, threshold, _CMP_GT_OQ)));
    }
    // Packing leaves fours of rows as 0 2 4 6 1 3 5 7.
    const __m256i ranks = _mm256_permutevar8x32_epi32(
        _mm256_packs_epi16(_mm256_packs_epi32(c0, c1), _mm256_packs_epi32(c2, c3)),
        _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    __m256i number = _mm256_set1_epi8(-128);
    for (size_t t = 0; t < thresholds.size(); ++t) {
      _mm256_store_si256(reinterpret_cast<__m256i*>(answers[t].of.data()),
                         _mm256_cmpgt_epi8(ranks, number));
      number = _mm256_add_epi8(number, _mm256_set1_epi8(1));
    }
  }

  [[gnu::target("avx2")]] static __m256i load(const Bytes& bytes) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(bytes.of.data()));
  }

  /// The leaves of one tree, of which `index` has the four last answers: of more levels, each
  /// halves what was found for both of its answers.
  template <size_t kDepth>
  [[gnu::target("avx2")]] static __m256i look_up(const uint16_t* conditions, const int8_t* leaves,
                                                 const Bytes* answers, __m256i index) {
    if constexpr (kDepth <= kShuffledLevels) {
      const auto* table = reinterpret_cast<const __m128i*>(leaves);
      return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(table)), index);
    } else {
      constexpr size_t kHalf = size_t{1} << (kDepth - 1);
      return _mm256_blendv_epi8(look_up<kDepth - 1>(conditions + 1, leaves, answers, index),
                                look_up<kDepth - 1>(conditions + 1, leaves + kHalf, answers, index),
                                load(answers[*conditions]));
    }
  }
  template <size_t kDepth>
  [[gnu::target("avx2")]] static __m256i leaves_of(const uint16_t* conditions, const int8_t* leaves,
                                                   const Bytes* answers) {
    __m256i index = _mm256_setzero_si256();
    for (size_t level = kDepth - std::min(kDepth, kShuffledLevels); level < kDepth; ++level)
      index = _mm256_sub_epi8(_mm256_add_epi8(index, index), load(answers[conditions[level]]));
    return look_up<kDepth>(conditions, leaves, answers, index);
  }

  /// Adds the leaves of a run of trees.
  template <size_t kDepth>
  [[gnu::target("avx2")]] static void add(size_t trees, const uint16_t* conditions,
                                          const int8_t* leaves, const uint8_t* scales,
                                          const Bytes* answers, Sums& sums) {
    constexpr size_t kLeaves = std::max(kShuffled, size_t{1} << kDepth);
    __m256i low = _mm256_setzero_si256(), high = low;  // rows 0 to 7 and 16 to 23, and the others
    for (size_t t = 0; t < trees; t += 2) {
      const bool pair = t + 1 < trees;
      const __m256i a = leaves_of<kDepth>(conditions, leaves, answers);
      const __m256i b = pair ? leaves_of<kDepth>(conditions + kDepth, leaves + kLeaves, answers)
                             : _mm256_setzero_si256();
      const __m256i scale =
          _mm256_set1_epi16(static_cast<int16_t>(scales[t] | (pair ? scales[t + 1] << 8 : 0)));
      low = _mm256_add_epi16(low, _mm256_maddubs_epi16(scale, _mm256_unpacklo_epi8(a, b)));
      high = _mm256_add_epi16(high, _mm256_maddubs_epi16(scale, _mm256_unpackhi_epi8(a, b)));
      conditions += (pair ? 2 : 1) * kDepth;
      leaves += (pair ? 2 : 1) * kLeaves;
    }
    std::array<int16_t, kRows> found;
    auto* out = reinterpret_cast<__m256i*>(found.data());
    _mm256_storeu_si256(out, _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(low, high, 0x31));
    for (size_t r = 0; r < kRows; ++r) sums[r] += found[r];
  }
  static constexpr std::array kAdd = {add<1>, add<2>, add<3>, add<4>,
                                      add<5>, add<6>, add<7>, add<8>};

  const BoostedTrees& trees_;
  std::vector<Floats> columns_;  // of the features asked about
  std::vector<Bytes> answers_;   // to all questions, -1 for yes, 0 for no
};

#endif

void BoostedTrees::predict(const Matrix& rows, std::span<float> out) const {
  if (rows.columns() != features_ || out.size() > rows.rows())
    throw_internal(fmt::format("trees of {} features were given {}, and {} places for {} rows",
                               features_, rows.columns(), out.size(), rows.rows()));
  size_t first = 0;
#ifdef __x86_64__
  constexpr size_t kFewRows = 8;  // for which a block's work costs more than it saves
  if (out.size() >= kFewRows && !runs_.empty() && Block::is_supported()) {
    Block block(*this);
    for (; first + kFewRows <= out.size(); first += Block::kRows) {
      const size_t count = std::min(Block::kRows, out.size() - first);
      Block::Rows members;
      for (size_t r = 0; r < Block::kRows; ++r)
        members[r] = rows.row(first + std::min(r, count - 1)).data();
      const Block::Sums sums = block.sums(members);
      for (size_t r = 0; r < count; ++r) out[first + r] = value_of(sums[r]);
    }
  }
#endif
  for (; first < out.size(); first += kRowsTogether) {
    const size_t count = std::min(kRowsTogether, out.size() - first);
    std::array<const float*, kRowsTogether> members;
    for (size_t r = 0; r < count; ++r) members[r] = rows.row(first + r).data();
    std::array<int32_t, kRowsTogether> sums;
    sum(std::span(members).first(count), std::span(sums).first(count));
    for (size_t r = 0; r < count; ++r) out[first + r] = value_of(sums[r]);
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
