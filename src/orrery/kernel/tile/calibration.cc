#include "orrery/kernel/tile/calibration.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "orrery/kernel/tile/contradiction.h"
#include "orrery/learn/conformal.h"
#include "orrery/learn/cross_validation.h"
#include "orrery/learn/fit_trees.h"
#include "orrery/learn/split.h"
#include "orrery/learn/statistics.h"

namespace orrery {
namespace {

/// Larger tables bear deeper and more trees. Few trees must be able to take large steps; many
/// are better led by the middle of the residuals. Leaves are rounded as coarsely as the next
/// tree can make good.
///
/// `table` is the number of rows of all classes. Where there are very many, most classes would have
/// as many trees as any, and the fit's text would be longer than its readers are promised (500 kB).
TreeOptions centre_options(size_t rows, size_t table, TileProtocol protocol, int threads) {
  const bool large = rows >= 4000, small = rows < 400;
  TreeOptions o;
  o.threads = threads;
  o.learning_rate = large ? 0.12 : 0.1;
  o.leaf_regularization = 1;
  o.row_sample = 0.8;
  o.huber_delta = small ? 0.3 : large ? 0.12 : 0.1;
  o.bins = rows < 2500 ? 64 : 128;
  o.refits = 1;
  o.refit_regularization = rows < 1000 ? 10 : large ? 20 : 30;
  o.leaf_unit = 1e-3;
  o.short_leaves = true;
  o.depth = rows < 100 ? 3 : small ? 4 : rows < 1200 ? 5 : 6;
  o.trees = rows < 100 ? 100 : small ? 200 : rows < 2500 ? 300 : large ? 520 : 420;
  // Rows that scatter by a few per cent, as medians of passes over graphs do: the more of them,
  // the nearer to their middle. Out of fold, products of 5,950 rows: 4.9 % instead of 5.3 %.
  const bool calm = !protocol.warm && !protocol.eager;
  if (rows >= 5000 && calm) {
    o.huber_delta = 0.04;
    o.refit_regularization = 40;
    o.learning_rate = 0.15;
    o.trees = 420;
  }
  // Fewer trees of larger steps, whose leaves are fitted again and again, say as much: out of fold,
  // 34,000 products are off by 4.35 % in 58 kB, by 4.27 % in 340 kB.
  constexpr size_t kVeryMany = 40000;
  if (table >= kVeryMany && rows >= 1000 && calm) {
    o.depth = 6;
    o.bins = 64;
    o.trees = rows >= 20000 ? 420 : rows >= 5000 ? 280 : 220;
    o.learning_rate = rows >= 5000 ? 0.2 : 0.15;
    o.huber_delta = rows >= 20000 ? 0.05 : 0.08;
    o.refits = 4;
    o.refit_regularization = 40;
  }
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

/// What holds for any device takes fewer trees, however many rows there are: the fewer, the fewer
/// devices there are to tell. Of several devices they may ask more.
TreeOptions generic_options(size_t rows, size_t table, size_t devices, TileProtocol protocol,
                            int threads) {
  TreeOptions o = centre_options(rows, table, protocol, threads);
  const bool several = devices >= kFewestDevices;
  o.trees = std::min(o.trees, several ? 260 : 180);
  // Of the four GPUs of the public tables left out in turn, products and attention are off by
  // 10.4 % in the mean after five questions, by 9.9 % after seven, none by more than before. It was
  // chosen by these errors, so that they are no independent check of it.
  o.depth = several && o.depth > 5 ? 7 : std::min(o.depth, 5);
  return o;
}

/// What features of few rows are told apart by.
constexpr int kFewBins = 64;

/// What a prior leaves over is small, and so are the trees for it.
TreeOptions correction_options(size_t rows, double leaf_unit, int threads) {
  TreeOptions o;
  o.threads = threads;
  o.learning_rate = 0.1;
  o.leaf_regularization = 4;
  o.feature_sample = 0.3;
  o.huber_delta = 0.2;
  o.leaf_unit = leaf_unit;
  o.bins = kFewBins;
  o.depth = rows < 100 ? 2 : rows < 400 ? 3 : 4;
  o.trees = rows < 100 ? 60 : rows < 400 ? 120 : 200;
  return o;
}

/// From so few rows no more can be told of the spread than its size.
constexpr size_t kFewestForSpread = 200;

/// Features that a fit for devices to come must not learn from: what they say of the devices
/// measured does not hold for others. Attention knows the SMs by the blocks that each gets.
bool is_of_device(TileClass tile_class, std::string_view feature) {
  const bool attention = tile_class == TileClass::kAttention || tile_class == TileClass::kDecode;
  return feature == "lg_machine_balance" || feature == "kv_bytes" ||
         (attention && feature == "lg_sms");
}
constexpr float kAnyValue = 1e9f;

struct Member {
  const MeasuredRow* row;
  const TileGpu* gpu;
  uint32_t number;
  int device;
};

/// The rows of one class.
struct ClassRows {
  TileClass tile_class = TileClass::kOther;
  std::vector<Member> members;
  Matrix x;
  std::vector<float> target;     // ln(measured / physical)
  std::vector<double> physical;  // seconds
  std::vector<float> weight;     // empty: all alike
  std::vector<int> fold;

  size_t size() const { return members.size(); }
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

void describe(ClassRows& data) {
  const size_t width = TileGpu::feature_names(data.tile_class).size();
  data.x = Matrix(data.size(), width);
  TileDescription d;
  for (size_t i = 0; i < data.size(); ++i) {
    const MeasuredRow& row = *data.members[i].row;
    data.members[i].gpu->describe(row.kernel, Hertz(row.sm_hz), d);
    std::copy(d.features.begin(), d.features.begin() + static_cast<ptrdiff_t>(width),
              data.x.row(i).begin());
    data.physical.push_back(d.seconds);
    data.target.push_back(static_cast<float>(std::log(row.seconds / d.seconds)));
  }
}

/// Products of several matrices are other library calls than those of one; the rest is told apart
/// by what it computes.
int operation_of(const Kernel& kernel) {
  const auto* p = std::get_if<ProductShape>(&kernel.shape);
  return p != nullptr ? (p->batch > 1 ? -1 : -2) : static_cast<int>(kernel.code);
}

/// Kernels of fewer floors say more of launches than of their device's pace.
constexpr double kFewestFloors = 4;

/// Takes rows out of `data` that contradict the rest, where the trees of `prior`, if there are any,
/// say what is to be expected. Gives back whether there were any.
bool leave_out_contradictions(ClassRows& data, const ClassFit* prior,
                              const std::vector<std::string>& devices,
                              std::vector<ContradictedRows>& left_out) {
  std::vector<float> known(data.size(), 0);
  if (prior != nullptr) prior->centre.predict(data.x, known);
  constexpr size_t kFloorsFeature = 0;  // ln_physical_floors
  std::vector<Departure> rows;
  for (size_t i = 0; i < data.size(); ++i)
    if (data.x.row(i)[kFloorsFeature] > std::log(kFewestFloors))
      rows.push_back({data.members[i].device, operation_of(data.members[i].row->kernel),
                      static_cast<double>(data.target[i] - known[i])});
  const std::vector<Contradiction> found = find_contradictions(rows, prior != nullptr);
  for (const Contradiction& one : found) {
    ContradictedRows gone{devices[static_cast<size_t>(one.device)],
                          data.tile_class,
                          one.operation == -1,
                          one.factor,
                          {}};
    std::erase_if(data.members, [&](const Member& m) {
      const bool out = m.device == one.device && operation_of(m.row->kernel) == one.operation;
      if (out) gone.rows.push_back(m.number);
      return out;
    });
    left_out.push_back(std::move(gone));
  }
  if (!found.empty()) {
    data.target.clear();
    data.physical.clear();
    describe(data);
  }
  return !found.empty();
}

/// By a hash of the operator; few rows are dealt out in the order of theirs, so that no fold
/// is empty.
void fold_by_operator(ClassRows& data, const CalibrationOptions& options) {
  constexpr size_t kFewToDeal = 100;
  const auto folds = static_cast<uint64_t>(options.folds);
  const auto hash = [&](size_t i) {
    return mix_bits(data.members[i].row->fold() ^ mix_bits(options.seed));
  };
  data.fold.resize(data.size());
  if (data.size() >= kFewToDeal) {
    for (size_t i = 0; i < data.size(); ++i) data.fold[i] = static_cast<int>(hash(i) % folds);
    return;
  }
  std::vector<size_t> order(data.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return std::pair(hash(a), a) < std::pair(hash(b), b); });
  for (size_t i = 0; i < order.size(); ++i) data.fold[order[i]] = static_cast<int>(i % folds);
}

/// Trees for all rows, and what those for the other folds say of each.
struct Centre {
  BoostedTrees trees;
  std::vector<float> out_of_fold;
  double error = 0;  // mean |residual|
};

void judge(Centre& centre, std::span<const float> target) {
  for (size_t i = 0; i < target.size(); ++i)
    centre.error += std::abs(static_cast<double>(target[i]) - centre.out_of_fold[i]);
  centre.error /= static_cast<double>(target.size());
}

Centre fit_centre(const ClassRows& data, const TreeOptions& options) {
  Centre made{fit_trees(data.x, data.target, data.weight, options),
              out_of_fold_predictions(data.x, data.target, data.weight, data.fold, options)};
  judge(made, data.target);
  return made;
}

/// The trees of both, which must have the same leaf unit.
BoostedTrees sum_of(const BoostedTrees& a, const BoostedTrees& b) {
  std::vector<BoostedTrees::Tree> trees = a.trees();
  for (BoostedTrees::Tree& tree : b.trees()) trees.push_back(std::move(tree));
  return {a.features(), a.base() + b.base(), a.leaf_unit(), trees, {}};
}

/// Half of what each says; they must have the same leaf unit.
Centre mean_of(const Centre& a, const Centre& b, std::span<const float> target) {
  const BoostedTrees both = sum_of(a.trees, b.trees);
  Centre made{{both.features(), both.base() / 2, both.leaf_unit() / 2, both.trees(), {}},
              a.out_of_fold};
  for (size_t i = 0; i < target.size(); ++i)
    made.out_of_fold[i] = (a.out_of_fold[i] + b.out_of_fold[i]) / 2;
  judge(made, target);
  return made;
}

Centre correct_centre(const ClassRows& data, const ClassFit& prior, int threads) {
  std::vector<float> known(data.size());
  prior.centre.predict(data.x, known);
  std::vector<float> left(data.size());
  for (size_t i = 0; i < data.size(); ++i) left[i] = data.target[i] - known[i];
  const TreeOptions options = correction_options(data.size(), prior.centre.leaf_unit(), threads);
  Centre made{sum_of(prior.centre, fit_trees(data.x, left, data.weight, options)),
              out_of_fold_predictions(data.x, left, data.weight, data.fold, options)};
  for (size_t i = 0; i < data.size(); ++i) made.out_of_fold[i] += known[i];
  judge(made, data.target);
  return made;
}

std::vector<std::pair<float, float>> range_of(const Matrix& x) {
  std::vector<std::pair<float, float>> range;
  for (size_t f = 0; f < x.columns(); ++f) {
    float low = x.row(0)[f], high = low;
    for (size_t i = 1; i < x.rows(); ++i) {
      low = std::min(low, x.row(i)[f]);
      high = std::max(high, x.row(i)[f]);
    }
    range.emplace_back(low, high);
  }
  return range;
}

/// Puts a row's out-of-fold answer at its number.
void record(const ClassRows& data, size_t row, float centre, double scale, const ClassFit& fit,
            std::vector<std::optional<OutOfFold>>& found) {
  OutOfFold o;
  o.tile_class = data.tile_class;
  o.measured = data.members[row].row->seconds;
  o.predicted = data.physical[row] * std::exp(static_cast<double>(centre));
  o.low = o.predicted * std::exp(scale * fit.low);
  o.high = o.predicted * std::exp(scale * fit.high);
  o.row = data.members[row].number;
  found[o.row] = o;
}

/// The spread's trees, of what is left over out of fold, and each row's scale out of fold.
std::vector<float> fit_spread(const ClassRows& data, std::span<const float> out_of_fold,
                              int threads, BoostedTrees& spread) {
  std::vector<float> log_size(data.size());
  for (size_t i = 0; i < data.size(); ++i)
    log_size[i] = static_cast<float>(
        std::log(std::max<double>(kSmallestResidual, std::abs(data.target[i] - out_of_fold[i]))));
  const TreeOptions options = spread_options(data.size(), threads);
  spread = fit_trees(data.x, log_size, data.weight, options);
  return out_of_fold_predictions(data.x, log_size, data.weight, data.fold, options);
}

/// Fits the class and puts each row's out-of-fold answer at its number. `keeps_prior`: the prior
/// also answers for what the rows do not show.
ClassFit fit_class(const ClassRows& data, const ClassFit* prior, bool keeps_prior,
                   const TreeOptions& options, const Elsewhere& elsewhere,
                   std::vector<std::optional<OutOfFold>>& found) {
  const size_t n = data.size();
  // Few rows, with a prior: what both ways say together is often better than either.
  const bool few = prior != nullptr && n < kFewestForSpread;
  std::vector<Centre> ways;
  if (prior != nullptr) ways.push_back(correct_centre(data, *prior, options.threads));
  if (n >= kFewestRows && !keeps_prior) {
    TreeOptions own = options;
    if (few) own.bins = kFewBins;  // so that the questions of all three fit into one model
    ways.push_back(fit_centre(data, own));
    if (few && ways[0].trees.leaf_unit() == ways[1].trees.leaf_unit())
      ways.push_back(mean_of(ways[0], ways[1], data.target));
  }
  const auto best = std::min_element(
      ways.begin(), ways.end(), [](const Centre& a, const Centre& b) { return a.error < b.error; });
  const bool corrected = prior != nullptr && best != ways.begin() + 1;
  Centre centre = std::move(*best);

  ClassFit fit;
  fit.rows = n;
  for (const Member& m : data.members) add_multiplied(fit, m.row->kernel);
  fit.range = range_of(data.x);
  std::vector<float> scale(n);
  if (corrected && (keeps_prior || n < kFewestForSpread)) {
    fit.spread = prior->spread;
    fit.spread.predict(data.x, scale);
  } else {
    scale = fit_spread(data, centre.out_of_fold, options.threads, fit.spread);
  }
  if (corrected) {
    for (size_t i = 0; i < fit.multiplied.size(); ++i) fit.multiplied[i] |= prior->multiplied[i];
    for (size_t f = 0; f < fit.range.size(); ++f) {
      fit.range[f].first = std::min(fit.range[f].first, prior->range[f].first);
      fit.range[f].second = std::max(fit.range[f].second, prior->range[f].second);
    }
  }
  std::vector<HeldOutRow> held_out(n);
  for (size_t i = 0; i < n; ++i) {
    const double residual = data.target[i] - centre.out_of_fold[i];
    held_out[i] = {{}, std::exp(static_cast<double>(scale[i])), residual};
    fit.error += std::abs(std::exp(-residual) - 1) / static_cast<double>(n);
  }
  const ConformalIntervals intervals(held_out);
  fit.low = std::max(intervals.of("").low, -kMostMultiplier);
  fit.high = std::min(intervals.of("").high, kMostMultiplier);
  fit.shared = kSharedVariance;
  if (keeps_prior) {
    fit.low = std::min(fit.low, prior->low);
    fit.high = std::max(fit.high, prior->high);
    fit.shared = prior->shared;
  }
  fit.launch_spread = elsewhere.launch;
  fit.machine_spread = elsewhere.machine;
  fit.centre = std::move(centre.trees);
  for (size_t i = 0; i < n; ++i)
    record(data, i, centre.out_of_fold[i], held_out[i].scale, fit, found);
  return fit;
}

std::array<ClassRows, kTileClassCount> rows_by_class(std::span<const RowsOnDevice> tables,
                                                     std::span<const TileGpu> gpus) {
  std::array<ClassRows, kTileClassCount> classes;
  for (size_t c = 0; c < kTileClassCount; ++c) classes[c].tile_class = static_cast<TileClass>(c);
  uint32_t before = 0;
  for (size_t t = 0; t < tables.size(); ++t) {
    for (const size_t i : medians_of_repeats(tables[t].rows)) {
      const MeasuredRow& row = tables[t].rows[i];
      classes[static_cast<size_t>(gpus[t].class_of(row.kernel))].members.push_back(
          {&row, &gpus[t], before + static_cast<uint32_t>(i), static_cast<int>(t)});
    }
    before += static_cast<uint32_t>(tables[t].rows.size());
  }
  return classes;
}

std::vector<OutOfFold> in_order(const std::vector<std::optional<OutOfFold>>& found) {
  std::vector<OutOfFold> list;
  for (const auto& o : found)
    if (o) list.push_back(*o);
  return list;
}

/// What the devices that have a class say of the distance to one that is not measured.
struct Distances {
  std::vector<double> of_device;  // to the nearest other that has the class, by table
  double growth = 0;              // of errors, of those at a distance of 0, for each power of two
};

/// Errors are taken to grow along a line with the distance, as a variogram does near its origin:
/// from `near` on the devices measured to those on each device of fits over the others, by least
/// squares. A device without the class has an error of 0.
Distances distances_of(std::span<const double> error_of_device, double near,
                       std::span<const GpuFigures> figures) {
  Distances found{std::vector<double>(figures.size(), 0)};
  double products = 0, squares = 0;
  for (size_t t = 0; t < figures.size(); ++t) {
    if (error_of_device[t] <= 0) continue;
    double nearest = std::numeric_limits<double>::infinity();
    for (size_t other = 0; other < figures.size(); ++other)
      if (other != t && error_of_device[other] > 0)
        nearest = std::min(nearest, octaves_apart(figures[t], figures[other]));
    found.of_device[t] = nearest;
    products += nearest * (error_of_device[t] / near - 1);
    squares += nearest * nearest;
  }
  if (squares > 0) found.growth = std::clamp(products / squares, 0.0, kMostMultiplier);
  return found;
}

/// Fits a class that several devices tell, whose figures are given by table, and puts the answer to
/// each row of a fit that has not seen its device at its number. How sure the fit is of a kernel is
/// learned from fits that have not seen the operator; how much less of a device's, from the
/// distances.
ClassFit fit_class_of_devices(ClassRows& data, std::span<const GpuFigures> figures,
                              const TreeOptions& options, CalibrationOptions calibration,
                              std::vector<std::optional<OutOfFold>>& found) {
  constexpr int kFolds = 5;  // for a mean and for what kernels differ by
  const size_t n = data.size();
  calibration.folds = kFolds;
  fold_by_operator(data, calibration);
  const Centre seen = fit_centre(data, options);
  ClassFit fit;
  fit.rows = n;
  for (const Member& m : data.members) add_multiplied(fit, m.row->kernel);
  fit.range = range_of(data.x);
  const std::vector<float> scale = fit_spread(data, seen.out_of_fold, options.threads, fit.spread);

  std::vector<int> device(n);
  for (size_t i = 0; i < n; ++i) device[i] = data.members[i].device;
  const std::vector<float> unseen =
      out_of_fold_predictions(data.x, data.target, data.weight, device, options);
  std::vector<double> error(figures.size(), 0);
  double near = 0, weights = 0;
  for (size_t i = 0; i < n; ++i) {
    const double weight = data.weight[i];  // one over the rows of its device
    const double target = data.target[i];
    error[static_cast<size_t>(device[i])] +=
        weight * std::max(kSmallestResidual, std::abs(target - unseen[i]));
    near += weight * std::max(kSmallestResidual, std::abs(target - seen.out_of_fold[i]));
    weights += weight;
  }
  const Distances distances = distances_of(error, near / weights, figures);

  std::vector<ClassFit> without(figures.size());  // ranges of what the others measured
  for (size_t t = 0; t < figures.size(); ++t) {
    std::vector<size_t> others;
    for (size_t i = 0; i < n; ++i)
      if (device[i] != static_cast<int>(t)) others.push_back(i);
    without[t].range = range_of(data.x.select(others));
  }
  // A few devices do not tell whether the next is faster or slower than predicted: one size
  // either way.
  std::vector<double> scales(n), ratios(n);
  const std::vector<double> weight(data.weight.begin(), data.weight.end());
  for (size_t i = 0; i < n; ++i) {
    const auto t = static_cast<size_t>(device[i]);
    const double residual = data.target[i] - unseen[i];
    scales[i] = std::exp(static_cast<double>(scale[i])) *
                widening(octaves_outside(without[t], data.x.row(i))) *
                (1 + distances.growth * distances.of_device[t]);
    ratios[i] = std::abs(residual) / scales[i];
    fit.error += std::abs(std::exp(-residual) - 1) / static_cast<double>(n);
  }
  fit.high = std::min(weighted_quantile(ratios, weight, 0.9), kMostMultiplier);
  fit.low = -fit.high;
  fit.growth = distances.growth;
  fit.launch_spread = calibration.elsewhere.launch;
  fit.machine_spread = calibration.elsewhere.machine;
  fit.centre = seen.trees;
  for (size_t i = 0; i < n; ++i) record(data, i, unseen[i], scales[i], fit, found);
  return fit;
}

/// Of the residuals' variance, the share that all rows of a device have in common.
double shared_by_device(const ClassRows& data, std::span<const std::optional<OutOfFold>> found,
                        size_t devices) {
  std::vector<double> sum(devices, 0), count(devices, 0);
  double squares = 0;
  for (const Member& m : data.members) {
    const OutOfFold& o = *found[m.number];
    const double residual = std::log(o.measured / o.predicted);
    sum[static_cast<size_t>(m.device)] += residual;
    count[static_cast<size_t>(m.device)] += 1;
    squares += residual * residual;
  }
  double common = 0;
  for (size_t t = 0; t < devices; ++t)
    if (count[t] > 0) common += sum[t] * sum[t] / count[t];
  return squares > 0 ? std::clamp(common / squares, kSharedVariance, 0.9) : kSharedVariance;
}

}  // namespace

bool is_held_out(const MeasuredRow& row, int parts) {
  constexpr uint64_t kSeed = 0x6f7272657279;  // "orrery"
  return mix_bits(row.fold() ^ mix_bits(kSeed)) % static_cast<uint64_t>(parts) == 0;
}

Calibration calibrate(const Device& device, std::span<const MeasuredRow> rows,
                      const CalibrationOptions& options) {
  const RowsOnDevice table{&device, rows};
  const TileGpu gpu(device, options.protocol);
  Calibration result;
  result.fit.device = device.name;
  result.fit.devices = {device.name};
  result.fit.protocol = options.protocol;
  std::vector<std::optional<OutOfFold>> found(rows.size());
  for (ClassRows& data : rows_by_class({&table, 1}, {&gpu, 1})) {
    const ClassFit* prior =
        options.prior != nullptr ? options.prior->find(data.tile_class) : nullptr;
    const size_t fewest = prior != nullptr ? kFewestRowsWithPrior : kFewestRows;
    if (data.size() < fewest) continue;
    describe(data);
    const bool contradicted =
        prior != nullptr &&
        leave_out_contradictions(data, prior, result.fit.devices, result.contradicted);
    if (data.size() < fewest) continue;
    fold_by_operator(data, options);
    result.fit.classes[static_cast<size_t>(data.tile_class)] =
        fit_class(data, prior, contradicted,
                  centre_options(data.size(), rows.size(), options.protocol, options.threads),
                  options.elsewhere, found);
  }
  result.out_of_fold = in_order(found);
  return result;
}

Calibration calibrate_generic(std::span<const RowsOnDevice> tables,
                              const CalibrationOptions& options) {
  std::vector<TileGpu> gpus;
  Calibration result;
  result.fit.device = "generic";
  result.fit.protocol = options.protocol;
  size_t rows = 0;
  for (const RowsOnDevice& table : tables) {
    gpus.emplace_back(*table.device, options.protocol);
    result.fit.devices.push_back(table.device->name);
    result.fit.figures.push_back(gpus.back().figures());
    rows += table.rows.size();
  }
  std::vector<std::optional<OutOfFold>> found(rows);
  for (ClassRows& data : rows_by_class(tables, gpus)) {
    if (data.size() < kFewestRows) continue;
    describe(data);
    leave_out_contradictions(data, nullptr, result.fit.devices, result.contradicted);
    std::vector<double> on_device(tables.size(), 0);
    for (const Member& m : data.members) on_device[static_cast<size_t>(m.device)] += 1;
    const auto devices = static_cast<size_t>(
        std::count_if(on_device.begin(), on_device.end(), [](double n) { return n > 0; }));
    for (const Member& m : data.members)
      data.weight.push_back(static_cast<float>(1 / on_device[static_cast<size_t>(m.device)]));
    const auto names = TileGpu::feature_names(data.tile_class);
    std::vector<size_t> masked;
    for (size_t f = 0; f < names.size(); ++f)
      if (is_of_device(data.tile_class, names[f])) masked.push_back(f);
    for (size_t i = 0; i < data.size(); ++i)
      for (const size_t f : masked) data.x.row(i)[f] = 0;
    const bool by_device = devices >= kFewestDevices;
    const TreeOptions trees =
        generic_options(data.size(), rows, devices, options.protocol, options.threads);
    if (!by_device) fold_by_operator(data, options);
    ClassFit fit = by_device ? fit_class_of_devices(data, result.fit.figures, trees, options, found)
                             : fit_class(data, nullptr, false, trees, options.elsewhere, found);
    for (const size_t f : masked) fit.range[f] = {-kAnyValue, kAnyValue};
    if (by_device) {
      fit.shared = shared_by_device(data, found, tables.size());
    } else {
      fit.low = std::max(fit.low * kUnseenDevice, -kMostMultiplier);
      fit.high = std::min(fit.high * kUnseenDevice, kMostMultiplier);
    }
    result.fit.classes[static_cast<size_t>(data.tile_class)] = std::move(fit);
  }
  result.out_of_fold = in_order(found);
  if (tables.size() < kFewestDevices) result.fit.figures.clear();
  return result;
}

}  // namespace orrery
