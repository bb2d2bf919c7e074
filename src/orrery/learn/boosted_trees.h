#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "orrery/learn/json_value.h"
#include "orrery/learn/matrix.h"

namespace orrery {

/// A sum of oblivious regression trees (Prokhorenkova et al.: "CatBoost: unbiased
/// boosting with categorical features", NeurIPS 2018): all nodes of one level ask the
/// same question, so that a tree of depth d is d comparisons x[feature] > threshold
/// that spell a d-bit number, the first comparison its highest bit, which names one of
/// 2^d leaves:
///
///   y(x) = base + leaf_unit · Σ_trees leaf[bits(x)]
///
/// Leaves are whole numbers of `leaf_unit`: their sum has no rounding, so that every
/// order of evaluation, one row or many, gives the same bits. A NaN is greater than no
/// threshold. A value type; safe to read from several threads.
class BoostedTrees {
 public:
  static constexpr size_t kMaxDepth = 8;
  static constexpr size_t kMaxTrees = 4096;
  static constexpr size_t kMaxFeatures = 2048;
  static constexpr size_t kMaxThresholds = 255;     ///< that differ, of one feature
  static constexpr int32_t kLargestCharacter = 45;  ///< that one character of the text holds

  struct Split {
    uint16_t feature = 0;
    float threshold = 0;
    bool operator==(const Split&) const = default;
  };
  struct Tree {
    std::vector<Split> splits;    ///< 1 to kMaxDepth
    std::vector<int32_t> leaves;  ///< 2^splits, in leaf units
    bool operator==(const Tree&) const = default;
  };

  /// No features, no trees: predicts 0.
  BoostedTrees() = default;
  /// `importance` has one number a feature, or is empty. Throws std::invalid_argument
  /// with the path of what is wrong ("trees[12].splits[3]: feature 41 of 40"): a count or
  /// depth beyond the limits, a number that is not finite, a sum that could overflow, more than
  /// 2^26 pairs of a tree and a question.
  BoostedTrees(size_t features, double base, double leaf_unit, const std::vector<Tree>& trees,
               std::vector<double> importance);

  size_t features() const { return features_; }
  size_t tree_count() const { return depths_.size(); }
  double base() const { return base_; }
  double leaf_unit() const { return leaf_unit_; }
  /// A feature's share in the loss that all splits of the fit took away; sums to 1, or is
  /// empty where nobody recorded it.
  std::span<const double> importance() const { return importance_; }
  std::vector<Tree> trees() const;

  /// One row of `features()` numbers.
  float predict(std::span<const float> row) const;
  /// The first rows, as many as `out` has places, which takes a fraction of the time a row.
  void predict(const Matrix& rows, std::span<float> out) const;

  bool operator==(const BoostedTrees&) const = default;

 private:
  class Block;

  static constexpr size_t kAnswersTogether = 8;
  static constexpr size_t kShuffled = 16;
  static constexpr size_t kMostSteps = size_t{1} << 26;

  /// The questions about one feature are numbers first .. last - 1.
  struct Questions {
    uint16_t feature = 0;
    uint16_t first = 0;
    uint16_t last = 0;
    bool operator==(const Questions&) const = default;
  };
  /// Neighbouring trees of one depth.
  struct Run {
    uint8_t depth = 0;
    uint16_t trees = 0;
    bool operator==(const Run&) const = default;
  };

  void pad_thresholds();
  void add_steps();
  void add_short_leaves();
  float value_of(int32_t sum) const;
  /// Of a few rows.
  void sum(std::span<const float* const> rows, std::span<int32_t> sums) const;

  size_t features_ = 0;
  double base_ = 0;
  double leaf_unit_ = 1;
  std::vector<double> importance_;
  // Boosting asks the same few questions again and again: each distinct one is answered
  // once a row, and a tree names its own by number.
  std::vector<Questions> questions_;
  // Of the distinct questions, by feature and threshold; after each feature's one or more that
  // nothing is above, up to a multiple of kAnswersTogether.
  std::vector<float> thresholds_;
  std::vector<uint8_t> depths_;         // of each tree
  std::vector<uint16_t> conditions_;    // of all trees, one after the other
  std::vector<int32_t> leaves_;         // of all trees, one after the other
  std::vector<uint32_t> first_leaves_;  // of each tree, their place
  // What a feature adds to the indices of all trees' leaves, a byte a tree, when it is above r of
  // its thresholds stands at its first question's number + r.
  std::vector<uint8_t> steps_;
  // Where they all fit into a byte once divided by what those of a tree have in common: the
  // leaves, each tree's padded to a multiple of kShuffled, and what to multiply them by, in runs
  // whose sums fit into 16 bits. Else there are no runs.
  std::vector<int8_t> short_leaves_;
  std::vector<uint8_t> scales_;
  std::vector<Run> runs_;
};

/// The text of a JSON object that reads back as an equal model. Questions are
/// [feature, [threshold, …]]; they are numbered through all thresholds, and a tree is a line
/// of the numbers it asks and of its leaves:
///   {"features":2,"base":0.5,"leaf_unit":1e-05,"importance":[1,0],"questions":[[0,[1.5]]],
///   "trees":[
///   [[0],"IW"]]}
/// A leaf is a character: the 91 from '#' to '~' without the backslash are -45 to 45 ('P' is
/// 0), times a third element where there is one. Leaves that this does not reach are an
/// array of whole numbers.
std::string to_json(const BoostedTrees& trees);
/// Throws `kInput` with the path of whatever is not as `to_json` writes it.
BoostedTrees trees_from_json(const JsonValue& value);

}  // namespace orrery
