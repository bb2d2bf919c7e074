#include "orrery/learn/fit_trees.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "orrery/base/error.h"
#include "orrery/learn/feature_bins.h"
#include "orrery/learn/parallel.h"
#include "orrery/learn/split.h"
#include "orrery/learn/statistics.h"

namespace orrery {
namespace {

/// What a leaf needs to know of its rows.
struct Sums {
  double gradient = 0;  // Σ weight · residual
  double weight = 0;
};

/// The loss a leaf takes away, but for a factor. A leaf without rows takes none.
double leaf_score(double gradient, double weight, double regularization) {
  // Differences of sums may leave a tiny weight behind where there are no rows.
  constexpr double kNoWeight = 1e-9;
  return gradient * gradient / (weight + regularization + kNoWeight);
}

struct Question {
  size_t feature = 0;
  size_t bin = 0;
  double score = 0;
};

void check_options(const TreeOptions& o) {
  const auto expect = [](bool holds, std::string_view what) {
    if (!holds) throw_usage(fmt::format("trees cannot be fitted: expected {}", what));
  };
  expect(o.trees >= 0 && o.trees <= static_cast<int>(BoostedTrees::kMaxTrees),
         fmt::format("0 to {} trees", BoostedTrees::kMaxTrees));
  expect(o.depth >= 1 && o.depth <= static_cast<int>(BoostedTrees::kMaxDepth),
         fmt::format("a depth of 1 to {}", BoostedTrees::kMaxDepth));
  expect(o.learning_rate > 0 && o.learning_rate <= 1, "a learning rate above 0, at most 1");
  expect(o.leaf_regularization >= 0 && std::isfinite(o.leaf_regularization),
         "a leaf regularization of at least 0");
  expect(o.row_sample > 0 && o.row_sample <= 1, "a row sample above 0, at most 1");
  expect(o.feature_sample > 0 && o.feature_sample <= 1, "a feature sample above 0, at most 1");
  expect(o.bins >= 2 && o.bins <= 256, "2 to 256 bins");
  expect(o.huber_delta > 0, "a Huber delta above 0");
  expect(o.refits >= 0 && o.refits <= 100, "0 to 100 refits");
  expect(o.refit_regularization >= 0 && std::isfinite(o.refit_regularization),
         "a refit regularization of at least 0");
  expect(o.leaf_unit > 0 && std::isfinite(o.leaf_unit), "a leaf unit above 0");
}

void check_rows(const Matrix& features, std::span<const float> target) {
  if (target.size() != features.rows())
    throw_internal(fmt::format("{} targets for {} rows", target.size(), features.rows()));
  for (size_t r = 0; r < features.rows(); ++r) {
    if (!std::isfinite(target[r]))
      throw Error(ErrorKind::kInput, fmt::format("row {}: the target is not finite", r));
    for (size_t f = 0; f < features.columns(); ++f)
      if (!std::isfinite(features.row(r)[f]))
        throw Error(ErrorKind::kInput, fmt::format("row {}: feature {} is not finite", r, f));
  }
}

/// Scaled to a mean of 1, so that the regularization counts rows.
std::vector<double> unit_weights(std::span<const float> weight, size_t rows) {
  if (weight.empty()) return std::vector<double>(rows, 1.0);
  if (weight.size() != rows)
    throw_internal(fmt::format("{} weights for {} rows", weight.size(), rows));
  for (size_t r = 0; r < rows; ++r)
    if (!std::isfinite(weight[r]) || weight[r] < 0)
      throw Error(ErrorKind::kInput,
                  fmt::format("row {}: expected a finite weight of at least 0", r));
  const double sum = std::accumulate(weight.begin(), weight.end(), 0.0);
  if (sum <= 0) throw Error(ErrorKind::kInput, "all weights are 0");
  std::vector<double> scaled(weight.begin(), weight.end());
  for (double& w : scaled) w *= static_cast<double>(rows) / sum;
  return scaled;
}

class Fit {
 public:
  Fit(const Matrix& features, std::span<const float> target, std::span<const float> weight,
      const TreeOptions& options)
      : options_(options),
        target_(target),
        weight_(unit_weights(weight, target.size())),
        bins_(features, options.bins),
        prediction_(target.size()),
        rows_(target.size()),
        leaf_of_row_(target.size()),
        scratch_(static_cast<size_t>(std::max(options.threads, 1))),
        gain_(features.columns()) {
    base_ = robust()
                ? weighted_quantile(std::vector<double>(target.begin(), target.end()), weight_, 0.5)
                : weighted_mean();
  }

  double base() const { return base_; }

  /// The next tree, or nothing where no question was worth asking.
  std::optional<BoostedTrees::Tree> grow(uint64_t number);

  /// Fits the leaves of all trees again, one tree after the other.
  void refit(std::vector<BoostedTrees::Tree>& trees);

  /// Mean loss of predictions in leaf units.
  double loss(std::span<const float> target, std::span<const int64_t> prediction) const;

  /// Gains as shares, to six decimals.
  static std::vector<double> shares(std::span<const double> gain);
  const std::vector<double>& gain() const { return gain_; }

 private:
  struct Scratch {
    std::vector<Sums> histogram;
    std::vector<double> score;
  };

  bool robust() const { return std::isfinite(options_.huber_delta); }
  double weighted_mean() const;
  double residual(float target, int64_t prediction) const {
    return target - (base_ + options_.leaf_unit * static_cast<double>(prediction));
  }
  void sample_rows(SplitMix64& random);
  std::vector<size_t> sample_features(SplitMix64& random) const;
  Question best_question(size_t feature, size_t leaves, Scratch& scratch) const;
  Question best_question(std::span<const size_t> features, size_t leaves);
  std::vector<Sums> leaf_sums(size_t leaves) const;
  /// As whole leaf units.
  std::vector<int32_t> whole_units(std::span<const double> values) const;

  const TreeOptions& options_;
  std::span<const float> target_;
  std::vector<double> weight_;
  FeatureBins bins_;
  double base_ = 0;
  std::vector<int64_t> prediction_;  // of every row, in leaf units without the base
  std::vector<Sums> rows_;           // of each sampled row, by its place in sample_
  std::vector<uint32_t> sample_;
  std::vector<uint8_t> leaf_of_row_;                   // of every row
  std::vector<std::vector<uint8_t>> leaves_of_trees_;  // the same for each tree, for refits
  std::vector<Scratch> scratch_;
  std::vector<double> gain_;
};

double Fit::weighted_mean() const {
  double sum = 0;
  for (size_t r = 0; r < target_.size(); ++r) sum += weight_[r] * target_[r];
  return sum / static_cast<double>(target_.size());
}

void Fit::sample_rows(SplitMix64& random) {
  sample_.clear();
  rows_.clear();
  const double delta = options_.huber_delta;
  for (size_t r = 0; r < target_.size(); ++r) {
    // Drawn for every row, so that rows do not shift the draws of those after them.
    if (random.uniform() >= options_.row_sample) continue;
    const double clipped = std::clamp(residual(target_[r], prediction_[r]), -delta, delta);
    sample_.push_back(static_cast<uint32_t>(r));
    rows_.push_back({weight_[r] * clipped, weight_[r]});
  }
}

std::vector<size_t> Fit::sample_features(SplitMix64& random) const {
  std::vector<size_t> all(bins_.features());
  std::iota(all.begin(), all.end(), size_t{0});
  const auto count =
      static_cast<size_t>(std::ceil(options_.feature_sample * static_cast<double>(all.size())));
  for (size_t i = 0; i < count; ++i) std::swap(all[i], all[i + random.below(all.size() - i)]);
  all.resize(count);
  std::ranges::sort(all);
  return all;
}

Question Fit::best_question(size_t feature, size_t leaves, Scratch& scratch) const {
  const size_t questions = bins_.thresholds(feature).size();
  if (questions == 0) return {feature, 0, 0};
  const size_t bins = questions + 1;
  scratch.histogram.assign(leaves * bins, {});
  scratch.score.assign(questions, 0.0);
  const std::span<const uint8_t> column = bins_.column(feature);
  Sums* const histogram = scratch.histogram.data();
  for (size_t i = 0; i < sample_.size(); ++i) {
    const size_t r = sample_[i];
    Sums& sums = histogram[leaf_of_row_[r] * bins + column[r]];
    sums.gradient += rows_[i].gradient;
    sums.weight += rows_[i].weight;
  }

  for (size_t leaf = 0; leaf < leaves; ++leaf) {
    Sums* const below = histogram + leaf * bins;
    for (size_t b = 1; b < bins; ++b) {
      below[b].gradient += below[b - 1].gradient;
      below[b].weight += below[b - 1].weight;
    }
    const Sums all = below[bins - 1];
    if (all.weight == 0) continue;
    const double regularization = options_.leaf_regularization;
    for (size_t b = 0; b < questions; ++b)
      scratch.score[b] += leaf_score(below[b].gradient, below[b].weight, regularization) +
                          leaf_score(all.gradient - below[b].gradient, all.weight - below[b].weight,
                                     regularization);
  }
  const auto best = std::ranges::max_element(scratch.score);
  return {feature, static_cast<size_t>(best - scratch.score.begin()), *best};
}

Question Fit::best_question(std::span<const size_t> features, size_t leaves) {
  std::vector<Question> found(features.size());
  for_each_task(features.size(), options_.threads, [&](size_t task, size_t worker) {
    found[task] = best_question(features[task], leaves, scratch_[worker]);
  });
  return *std::ranges::max_element(found, {}, &Question::score);  // the first of equals
}

std::vector<Sums> Fit::leaf_sums(size_t leaves) const {
  std::vector<Sums> sums(leaves);
  for (size_t i = 0; i < sample_.size(); ++i) {
    Sums& leaf = sums[leaf_of_row_[sample_[i]]];
    leaf.gradient += rows_[i].gradient;
    leaf.weight += rows_[i].weight;
  }
  return sums;
}

std::optional<BoostedTrees::Tree> Fit::grow(uint64_t number) {
  SplitMix64 random(mix_bits(options_.seed) ^ number);
  sample_rows(random);
  const std::vector<size_t> features = sample_features(random);
  std::ranges::fill(leaf_of_row_, uint8_t{0});

  BoostedTrees::Tree tree;
  size_t leaves = 1;
  const Sums all = leaf_sums(1)[0];
  double score = leaf_score(all.gradient, all.weight, options_.leaf_regularization);
  for (int level = 0; level < options_.depth; ++level) {
    const Question question = best_question(features, leaves);
    // Rounding alone may raise the score by some units in the last place.
    if (question.score <= score * (1 + 1e-12)) break;
    gain_[question.feature] += question.score - score;
    score = question.score;
    const std::span<const uint8_t> column = bins_.column(question.feature);
    for (size_t r = 0; r < leaf_of_row_.size(); ++r)
      leaf_of_row_[r] =
          static_cast<uint8_t>(2 * leaf_of_row_[r] + (column[r] > question.bin ? 1 : 0));
    leaves *= 2;
    tree.splits.push_back({static_cast<uint16_t>(question.feature),
                           bins_.thresholds(question.feature)[question.bin]});
  }
  if (tree.splits.empty()) return std::nullopt;

  std::vector<double> values;
  for (const Sums& sums : leaf_sums(leaves))
    values.push_back(sums.weight == 0 ? 0
                                      : options_.learning_rate * sums.gradient /
                                            (sums.weight + options_.leaf_regularization));
  tree.leaves = whole_units(values);
  for (size_t r = 0; r < leaf_of_row_.size(); ++r) prediction_[r] += tree.leaves[leaf_of_row_[r]];
  if (options_.refits > 0) leaves_of_trees_.push_back(leaf_of_row_);
  return tree;
}

std::vector<int32_t> Fit::whole_units(std::span<const double> values) const {
  double multiple = 1;
  if (options_.short_leaves) {
    double largest = 0;
    for (const double value : values) largest = std::max(largest, std::abs(value));
    const double characters = largest / options_.leaf_unit / BoostedTrees::kLargestCharacter;
    multiple = std::max(1.0, std::ceil(characters - 1e-9));
  }
  std::vector<int32_t> units;
  for (const double value : values) {
    const double whole = multiple * std::round(value / (options_.leaf_unit * multiple));
    if (std::abs(whole) > std::numeric_limits<int32_t>::max())
      throw Error(ErrorKind::kInput,
                  fmt::format("a leaf of {} is too large for a unit of {}: scale the target", value,
                              options_.leaf_unit));
    units.push_back(static_cast<int32_t>(whole));
  }
  return units;
}

void Fit::refit(std::vector<BoostedTrees::Tree>& trees) {
  // Not all that were grown may have been kept.
  std::ranges::fill(prediction_, 0);
  for (size_t t = 0; t < trees.size(); ++t)
    for (size_t r = 0; r < prediction_.size(); ++r)
      prediction_[r] += trees[t].leaves[leaves_of_trees_[t][r]];

  const double delta = options_.huber_delta, penalty = options_.refit_regularization;
  for (size_t t = 0; t < trees.size(); ++t) {
    const std::vector<uint8_t>& leaf_of_row = leaves_of_trees_[t];
    std::vector<int32_t>& leaves = trees[t].leaves;
    std::vector<Sums> sums(leaves.size());
    for (size_t r = 0; r < leaf_of_row.size(); ++r) {
      const double clipped = std::clamp(residual(target_[r], prediction_[r]), -delta, delta);
      sums[leaf_of_row[r]].gradient += weight_[r] * clipped;
      sums[leaf_of_row[r]].weight += weight_[r];
    }
    std::vector<double> values;
    for (size_t leaf = 0; leaf < leaves.size(); ++leaf) {
      const double old = options_.leaf_unit * leaves[leaf];
      const double rows = sums[leaf].weight + penalty;
      values.push_back(rows == 0 ? old : old + (sums[leaf].gradient - penalty * old) / rows);
    }
    const std::vector<int32_t> fitted = whole_units(values);
    for (size_t r = 0; r < leaf_of_row.size(); ++r)
      prediction_[r] += fitted[leaf_of_row[r]] - leaves[leaf_of_row[r]];
    leaves = fitted;
  }
}

double Fit::loss(std::span<const float> target, std::span<const int64_t> prediction) const {
  double sum = 0;
  for (size_t r = 0; r < target.size(); ++r) {
    const double distance = std::abs(residual(target[r], prediction[r]));
    const double delta = options_.huber_delta;
    sum += distance <= delta ? distance * distance : delta * (2 * distance - delta);
  }
  return sum / static_cast<double>(target.size());
}

std::vector<double> Fit::shares(std::span<const double> gain) {
  std::vector<double> shares(gain.begin(), gain.end());
  const double sum = std::accumulate(gain.begin(), gain.end(), 0.0);
  if (sum > 0)
    for (double& share : shares) share = std::round(share / sum * 1e6) / 1e6;
  return shares;
}

void add_tree(const BoostedTrees::Tree& tree, const Matrix& rows, std::span<int64_t> prediction) {
  for (size_t r = 0; r < rows.rows(); ++r) {
    size_t leaf = 0;
    for (const BoostedTrees::Split& split : tree.splits)
      leaf = 2 * leaf + (rows.row(r)[split.feature] > split.threshold ? 1 : 0);
    prediction[r] += tree.leaves[leaf];
  }
}

}  // namespace

BoostedTrees fit_trees(const Matrix& features, std::span<const float> target,
                       std::span<const float> weight, const TreeOptions& options,
                       const ValidationRows* validation) {
  check_options(options);
  check_rows(features, target);
  if (target.empty()) throw Error(ErrorKind::kInput, "no rows to fit trees to");
  if (features.columns() > BoostedTrees::kMaxFeatures)
    throw_internal(fmt::format("{} features, trees take at most {}", features.columns(),
                               BoostedTrees::kMaxFeatures));
  if (validation) {
    check_rows(validation->features, validation->target);
    if (validation->features.columns() != features.columns() || validation->target.empty())
      throw_internal("validation needs rows, with the features that are fitted");
  }

  Fit fit(features, target, weight, options);
  std::vector<BoostedTrees::Tree> trees;
  std::vector<int64_t> held_out(validation ? validation->target.size() : 0);
  double least = validation ? fit.loss(validation->target, held_out) : 0;
  size_t best_count = 0;
  std::vector<double> best_gain(features.columns());
  for (int number = 0; number < options.trees && features.columns() > 0; ++number) {
    auto tree = fit.grow(static_cast<uint64_t>(number));
    if (!tree) continue;  // another sample may still find a question
    trees.push_back(std::move(*tree));
    if (validation) {
      add_tree(trees.back(), validation->features, held_out);
      const double loss = fit.loss(validation->target, held_out);
      if (loss >= least) {
        if (trees.size() >= best_count + static_cast<size_t>(validation->patience)) break;
        continue;
      }
      least = loss;
    }
    best_count = trees.size();
    best_gain = fit.gain();
  }
  trees.resize(best_count);
  for (int pass = 0; pass < options.refits; ++pass) fit.refit(trees);
  try {
    return {features.columns(), fit.base(), options.leaf_unit, trees, Fit::shares(best_gain)};
  } catch (const std::invalid_argument& e) {
    throw Error(ErrorKind::kInput, fmt::format("the target is too large for leaves of {}: {}",
                                               options.leaf_unit, e.what()));
  }
}

}  // namespace orrery
