#include "orrery/kernel/tile/calibration.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "orrery/learn/conformal.h"
#include "orrery/learn/cross_validation.h"
#include "orrery/learn/fit_trees.h"
#include "orrery/learn/split.h"

namespace orrery {
namespace {

/// Larger tables bear deeper and more trees, and less of a hold on them. Leaves are rounded
/// as coarsely as the next tree can make good.
TreeOptions centre_options(size_t rows, int threads) {
  const bool large = rows >= 4000;
  TreeOptions o;
  o.threads = threads;
  o.learning_rate = large ? 0.12 : 0.1;
  o.leaf_regularization = 1;
  o.row_sample = 0.8;
  o.huber_delta = large ? 0.12 : 0.1;
  o.refits = 1;
  o.refit_regularization = large ? 20 : 30;
  o.leaf_unit = 1e-3;
  o.short_leaves = true;
  o.depth = rows < 100 ? 3 : rows < 400 ? 4 : rows < 1000 ? 5 : 6;
  o.trees = rows < 100 ? 100 : rows < 400 ? 200 : rows < 1000 ? 300 : large ? 520 : 420;
  return o;
}

TreeOptions spread_options(size_t rows, int threads) {
  TreeOptions o;
  o.threads = threads;
  o.learning_rate = 0.05;
  o.leaf_regularization = 20;
  o.feature_sample = 0.5;
  o.leaf_unit = 1e-3;
  o.short_leaves = true;
  o.depth = 3;
  o.trees = rows < 100 ? 20 : 60;
  return o;
}

/// Of the residuals' variance, what kernels of one class are taken to share: a stated
/// prior, until sums over whole programs can be held against it.
constexpr double kSharedVariance = 0.1;

/// Residuals smaller than the measurement's own scatter say nothing of the model's.
constexpr double kSmallestResidual = 0.005;

struct Member {
  const MeasuredRow* row;
  const TileGpu* gpu;
  uint32_t number;
};

struct ClassRows {
  Matrix x;
  std::vector<float> target;     // ln(measured / physical)
  std::vector<double> physical;  // seconds
  std::vector<int> fold;
  std::vector<uint32_t> row;
};

/// One row an operator and regime, the one of the middle time, in the order of the rows:
/// a yardstick measured fifty times says no more of its kind than any other.
std::vector<size_t> medians_of_repeats(std::span<const MeasuredRow> rows) {
  std::map<std::pair<uint64_t, OperatingPoint::Regime>, std::vector<size_t>> repeats;
  for (size_t i = 0; i < rows.size(); ++i) repeats[{rows[i].key, rows[i].regime}].push_back(i);
  std::vector<size_t> chosen;
  for (auto& [key, same] : repeats) {
    std::stable_sort(same.begin(), same.end(),
                     [&](size_t a, size_t b) { return rows[a].seconds < rows[b].seconds; });
    chosen.push_back(same[(same.size() - 1) / 2]);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace

bool is_held_out(const MeasuredRow& row, int parts) {
  constexpr uint64_t kSeed = 0x6f7272657279;  // "orrery"
  return mix_bits(row.key ^ mix_bits(kSeed)) % static_cast<uint64_t>(parts) == 0;
}

Calibration calibrate(const Device& device, std::span<const MeasuredRow> rows,
                      const CalibrationOptions& options) {
  const RowsOnDevice table{&device, rows};
  Calibration result = calibrate(std::span(&table, 1), options);
  result.fit.device = device.name;
  return result;
}

Calibration calibrate(std::span<const RowsOnDevice> tables, const CalibrationOptions& options) {
  std::vector<TileGpu> gpus;
  gpus.reserve(tables.size());
  std::array<std::vector<Member>, kTileClassCount> members;
  uint32_t rows = 0;
  for (const RowsOnDevice& table : tables) {
    const TileGpu& gpu = gpus.emplace_back(*table.device, options.protocol);
    for (const size_t i : medians_of_repeats(table.rows)) {
      const MeasuredRow& row = table.rows[i];
      members[static_cast<size_t>(gpu.class_of(row.kernel))].push_back(
          {&row, &gpu, rows + static_cast<uint32_t>(i)});
    }
    rows += static_cast<uint32_t>(table.rows.size());
  }

  Calibration result;
  result.fit.protocol = options.protocol;
  std::vector<std::optional<OutOfFold>> found(rows);
  for (size_t c = 0; c < kTileClassCount; ++c) {
    if (members[c].size() < kFewestRows) continue;
    const size_t n = members[c].size();
    const size_t width = TileGpu::feature_names(static_cast<TileClass>(c)).size();
    ClassRows data;
    data.x = Matrix(n, width);
    TileDescription d;
    for (size_t i = 0; i < n; ++i) {
      const MeasuredRow& row = *members[c][i].row;
      members[c][i].gpu->describe(row.kernel, Hertz(row.sm_hz), d);
      std::copy(d.features.begin(), d.features.begin() + static_cast<ptrdiff_t>(width),
                data.x.row(i).begin());
      data.physical.push_back(d.seconds);
      data.target.push_back(static_cast<float>(std::log(row.seconds / data.physical.back())));
      data.fold.push_back(static_cast<int>(mix_bits(row.key ^ mix_bits(options.seed)) %
                                           static_cast<uint64_t>(options.folds)));
    }
    const TreeOptions centre = centre_options(n, options.threads);
    const std::vector<float> predicted =
        out_of_fold_predictions(data.x, data.target, {}, data.fold, centre);
    std::vector<float> log_size(n);
    for (size_t i = 0; i < n; ++i)
      log_size[i] = static_cast<float>(
          std::log(std::max<double>(kSmallestResidual, std::abs(data.target[i] - predicted[i]))));
    const TreeOptions spread = spread_options(n, options.threads);
    const std::vector<float> scale =
        out_of_fold_predictions(data.x, log_size, {}, data.fold, spread);

    ClassFit fit;
    fit.rows = n;
    fit.centre = fit_trees(data.x, data.target, {}, centre);
    fit.spread = fit_trees(data.x, log_size, {}, spread);
    std::vector<HeldOutRow> held_out(n);
    double error = 0;
    for (size_t i = 0; i < n; ++i) {
      const double residual = data.target[i] - predicted[i];
      held_out[i] = {{}, std::exp(static_cast<double>(scale[i])), residual};
      error += std::abs(std::exp(-residual) - 1);
    }
    fit.error = error / static_cast<double>(n);
    const ConformalIntervals intervals(held_out);
    fit.low = intervals.of("").low;
    fit.high = intervals.of("").high;
    fit.shared = kSharedVariance;
    for (size_t f = 0; f < width; ++f) {
      float low = data.x.row(0)[f], high = low;
      for (size_t i = 1; i < n; ++i) {
        low = std::min(low, data.x.row(i)[f]);
        high = std::max(high, data.x.row(i)[f]);
      }
      fit.range.emplace_back(low, high);
    }
    for (size_t i = 0; i < n; ++i) {
      const double s = std::exp(static_cast<double>(scale[i]));
      OutOfFold o;
      o.tile_class = static_cast<TileClass>(c);
      o.measured = members[c][i].row->seconds;
      o.predicted = data.physical[i] * std::exp(static_cast<double>(predicted[i]));
      o.low = o.predicted * std::exp(s * fit.low);
      o.high = o.predicted * std::exp(s * fit.high);
      o.row = members[c][i].number;
      found[o.row] = o;
    }
    result.fit.classes[c] = std::move(fit);
  }
  for (const auto& o : found)
    if (o) result.out_of_fold.push_back(*o);
  return result;
}

}  // namespace orrery
