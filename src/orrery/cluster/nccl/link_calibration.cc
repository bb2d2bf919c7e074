#include "orrery/cluster/nccl/link_calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>

#include "orrery/base/csv.h"
#include "orrery/learn/conformal.h"
#include "orrery/learn/split.h"
#include "orrery/learn/statistics.h"

namespace orrery {
namespace {

constexpr uint64_t kSeed = 1;
constexpr int kHeldOut = 3;
constexpr int kFolds = 5;
constexpr double kHuber = 0.08;  // relative error from which a row counts less

double number_at(const CsvReader& reader, size_t column) {
  const std::string_view text = reader.field(column);
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size() || !std::isfinite(value) ||
      value <= 0)
    throw Error(ErrorKind::kInput, reader.location(column),
                fmt::format("'{}' is not a number above 0", text));
  return value;
}

ElementType type_at(const CsvReader& reader, size_t column) {
  const std::string_view text = reader.field(column);
  if (text == "half" || text == "float16") return ElementType::kF16;
  if (text == "bfloat16") return ElementType::kBF16;
  if (text == "float") return ElementType::kF32;
  if (const auto type = element_type_from_user(text)) return *type;
  throw Error(ErrorKind::kInput, reader.location(column),
              fmt::format("unknown element type '{}'", text));
}

std::string_view kind_of(std::string_view text) {
  if (text == "all_reduce") return "all-reduce";
  if (text == "all_gather") return "all-gather";
  if (text == "reduce_scatter") return "reduce-scatter";
  if (text == "alltoall") return "all-to-all";
  return text;
}

/// Solves the symmetric positive definite a · x = b in place; a by rows.
std::vector<double> solve(std::vector<double> a, std::vector<double> b) {
  const size_t n = b.size();
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = i + 1; j < n; ++j) {
      const double f = a[j * n + i] / a[i * n + i];
      if (f == 0) continue;
      for (size_t k = i; k < n; ++k) a[j * n + k] -= f * a[i * n + k];
      b[j] -= f * b[i];
    }
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  return b;
}

/// A row with what NCCL did for it.
struct Explained {
  const MeasuredCollective* row = nullptr;
  size_t table = 0;
  GroupPlace place;
  NcclModel::Choice choice;
  MeasuredKind kind = MeasuredKind::kAllReduce;
  std::string constants;  ///< Its key in LinkFit::constants.
  double hops = 0;
  double wire_us = 0;  ///< At the link's full bandwidth.
  double us = 0;
};

double huber_weight(double residual) {
  return std::min(1.0, kHuber / std::max(1e-12, std::abs(residual)));
}

/// Where nothing speaks against it: NCCL's hops, and what its protocols carry.
std::array<double, 3> prior(Protocol protocol) {
  constexpr std::array<std::array<double, 3>, kProtocolCount> kPrior = {
      {{5, 0.6, 4}, {8, 1.9, 1.6}, {8, 3.4, 1.4}}};
  return kPrior[static_cast<size_t>(protocol)];
}

LinkConstants fit_constants(std::span<const Explained* const> rows, Protocol protocol) {
  constexpr double kPull = 0.02;
  const std::array<double, 3> origin = prior(protocol);
  std::array<double, 3> theta = origin;
  for (int round = 0; round < 30; ++round) {
    // Normal equations of relative errors in units of the prior, then coordinates in turn.
    std::array<std::array<double, 3>, 3> a{};
    std::array<double, 3> b{};
    for (size_t i = 0; i < 3; ++i) {
      a[i][i] = kPull;
      b[i] = kPull;
    }
    for (const Explained* e : rows) {
      const std::array<double, 3> x = {origin[0] / e->us, origin[1] * e->hops / e->us,
                                       origin[2] * e->wire_us / e->us};
      double predicted = 0;
      for (size_t i = 0; i < 3; ++i) predicted += x[i] * theta[i] / origin[i];
      const double w = huber_weight(std::log(std::max(1e-9, predicted)));
      for (size_t i = 0; i < 3; ++i) {
        b[i] += w * x[i];
        for (size_t j = 0; j < 3; ++j) a[i][j] += w * x[i] * x[j];
      }
    }
    std::array<double, 3> scaled = {theta[0] / origin[0], theta[1] / origin[1],
                                    theta[2] / origin[2]};
    constexpr std::array<double, 3> kLeast = {0, 0, 0.02};
    for (int sweep = 0; sweep < 200; ++sweep)
      for (size_t i = 0; i < 3; ++i) {
        double rest = b[i];
        for (size_t j = 0; j < 3; ++j)
          if (j != i) rest -= a[i][j] * scaled[j];
        scaled[i] = std::max(kLeast[i], rest / a[i][i]);
      }
    for (size_t i = 0; i < 3; ++i) theta[i] = scaled[i] * origin[i];
  }
  return {theta[0], theta[1], 1 / theta[2]};
}

struct Residual {
  double octave = 0;  ///< From LinkFit::kFirstOctave.
  double value = 0;
};

/// Values at whole octaves that follow the residuals: Σ w (y − r)² + smooth · Σ (r'')² + a little
/// of Σ (r')² and Σ r².
LinkFit::Curve fit_curve(std::span<const Residual> points, double smooth) {
  constexpr double kFlat = 0.1;
  constexpr auto n = static_cast<size_t>(LinkFit::kOctaves);
  LinkFit::Curve curve{};
  for (int round = 0; round < 8; ++round) {
    std::vector<double> a(n * n);
    std::vector<double> b(n);
    for (size_t i = 0; i < n; ++i) a[i * n + i] = 1e-3;
    for (size_t i = 0; i + 2 < n; ++i) {
      constexpr std::array<double, 3> kSecond = {1, -2, 1};
      for (size_t j = 0; j < 3; ++j)
        for (size_t k = 0; k < 3; ++k) a[(i + j) * n + i + k] += smooth * kSecond[j] * kSecond[k];
    }
    // Where there are no rows it stays as it is beside them, rather than go on as it went.
    for (size_t i = 0; i + 1 < n; ++i) {
      const double flat = kFlat * smooth;
      a[i * n + i] += flat;
      a[(i + 1) * n + i + 1] += flat;
      a[i * n + i + 1] -= flat;
      a[(i + 1) * n + i] -= flat;
    }
    for (const Residual& point : points) {
      const double x = std::clamp(point.octave, 0.0, static_cast<double>(n - 1));
      const auto at = std::min(static_cast<size_t>(x), n - 2);
      const double part = x - static_cast<double>(at);
      const double now = curve[at] * (1 - part) + curve[at + 1] * part;
      const double w = round == 0 ? 1 : huber_weight(point.value - now);
      const std::array<double, 2> share = {1 - part, part};
      for (size_t j = 0; j < 2; ++j) {
        b[at + j] += w * share[j] * point.value;
        for (size_t k = 0; k < 2; ++k) a[(at + j) * n + at + k] += w * share[j] * share[k];
      }
    }
    const std::vector<double> solved = solve(std::move(a), std::move(b));
    std::copy(solved.begin(), solved.end(), curve.begin());
  }
  return curve;
}

class Calibration {
 public:
  Calibration(std::span<const LinkTable> tables, CustomKernels custom)
      : tables_(tables), custom_(custom) {
    for (const LinkTable& table : tables)
      for (const MeasuredCollective& row : table.rows) {
        if (!is_measured(row.call.kind))
          throw_usage(
              fmt::format("a {} is not fitted: all-reduce, all-gather, reduce-scatter and "
                          "all-to-all are",
                          name(row.call.kind)));
        if (std::find(ranks_.begin(), ranks_.end(), row.call.group.size) == ranks_.end())
          ranks_.push_back(row.call.group.size);
      }
    std::sort(ranks_.begin(), ranks_.end());
    const Cluster& first = tables.front().cluster;
    start_.system = tables.size() == 1 ? first.device.name : "generic";
    start_.fabric = first.tiers.front().name;
    start_.bandwidth = tables.size() == 1 ? first.tiers.front().bandwidth.value : 0;
    start_.ranks = ranks_;
    // 20, 20.6 and 40.1 GB/s of the 25, 25 and 50 of a link (NCCL 2.27, src/graph/topo.h).
    start_.bus_share = first.device.architecture == "hopper" ? 0.824 : 0.8;
    start_.nvls_share = 0.62;  // above a ring's 4/7 on 8 ranks, which takes NVLS, below 2/3 on 4
  }

  LinkFit run() {
    choose_tuning();
    std::array<double, kMeasuredKindCount> least;
    least.fill(INFINITY);
    for (const double smooth : {1000.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01}) {
      const std::vector<Judged> rows = left_out_in_turn(all_alike(smooth));
      for (size_t k = 0; k < kMeasuredKindCount; ++k) {
        std::vector<Judged> of_kind;
        for (const Judged& j : rows)
          if (j.kind == static_cast<MeasuredKind>(k)) of_kind.push_back(j);
        if (of_kind.empty()) continue;
        const double error = mean_absolute(of_kind);
        if (error >= least[k] * 0.99) continue;
        least[k] = error;
        smooth_[k] = smooth;
      }
    }
    LinkFit fit = fitted(trained(-1), smooth_);
    set_spreads(fit);
    set_eager(fit);
    judge(fit);
    return fit;
  }

 private:
  using Smoothing = std::array<double, kMeasuredKindCount>;
  static Smoothing all_alike(double smooth) {
    Smoothing all;
    all.fill(smooth);
    return all;
  }

  using Rows = std::vector<std::pair<size_t, const MeasuredCollective*>>;

  /// Rows that are not held out and not of `fold`, or of all folds.
  Rows trained(int fold) const {
    return rows_where([&](const MeasuredCollective& row) {
      return !row.eager && !is_held_out(row) &&
             (fold < 0 || fold_of(row.key, kFolds, kSeed + 1) != fold);
    });
  }
  Rows rows_where(const std::function<bool(const MeasuredCollective&)>& wanted) const {
    Rows rows;
    for (size_t t = 0; t < tables_.size(); ++t)
      for (const MeasuredCollective& row : tables_[t].rows)
        if (wanted(row)) rows.emplace_back(t, &row);
    return rows;
  }

  std::vector<NcclModel> models(const LinkFit& fit) const {
    std::vector<NcclModel> list;
    for (const LinkTable& table : tables_)
      list.emplace_back(table.cluster, fit, CollectiveBinding(), custom_);
    return list;
  }

  std::vector<Explained> explain(const Rows& rows, const LinkFit& fit) const {
    const std::vector<NcclModel> by_table = models(fit);
    std::vector<Explained> list;
    for (const auto& [t, row] : rows) {
      const NcclModel& model = by_table[t];
      Explained e;
      e.row = row;
      e.table = t;
      // It points into the cluster: into that of the table, which outlives the models.
      e.place = place_group(tables_[t].cluster, row->call.group);
      if (e.place.nodes > 1)
        throw_usage(fmt::format("line {}: {} ranks are more than a node of {}", row->line,
                                row->call.group.size, model.cluster().name));
      e.choice = model.choose(row->call, e.place);
      e.kind = model.measured(e.choice, row->call.kind);
      e.constants = fmt::format("{} {} {}", name(e.kind), model.algorithm_name(e.choice.algorithm),
                                name(e.choice.protocol));
      const CollectiveWork work = model.work(e.choice, row->call, e.place);
      e.hops = work.hops_inside;
      e.wire_us = work.wire_inside.value / e.place.inside_bandwidth.value * 1e6;
      e.us = row->time.value * 1e6;
      list.push_back(std::move(e));
    }
    return list;
  }

  LinkFit with_constants(const std::vector<Explained>& rows) const {
    LinkFit fit = start_;
    std::map<std::string, std::vector<const Explained*>> groups;
    for (const Explained& e : rows) groups[e.constants].push_back(&e);
    for (const auto& [key, members] : groups)
      fit.constants[key] = fit_constants(members, members.front()->choice.protocol);
    return fit;
  }

  LinkFit fitted(const Rows& rows, const Smoothing& smooth) const {
    const std::vector<Explained> explained = explain(rows, start_);
    LinkFit fit = with_constants(explained);
    const std::vector<NcclModel> by_table = models(fit);
    struct Left {
      const Explained* row;
      double value;
    };
    std::array<std::vector<Left>, kMeasuredKindCount> left;
    for (const Explained& e : explained)
      left[static_cast<size_t>(e.kind)].push_back(
          {&e, std::log(e.us * 1e-6 /
                        by_table[e.table].physical(e.choice, e.row->call, e.place).value)});
    for (size_t k = 0; k < kMeasuredKindCount; ++k) {
      fit.corrections[k].assign(ranks_.size(), {});
      fit.one_byte[k].assign(ranks_.size(), {});
      // Bytes and wider elements share a curve and differ by a constant a protocol.
      std::array<double, kProtocolCount> pooled{};
      for (int round = 0; round < 4; ++round) {
        std::array<std::vector<double>, kProtocolCount> offsets;
        for (size_t n = 0; n < ranks_.size(); ++n) {
          std::vector<Residual> points;
          for (const Left& l : left[k])
            if (l.row->row->call.group.size == ranks_[n])
              points.push_back({std::log2(l.row->row->call.bytes.value) - LinkFit::kFirstOctave,
                                l.value - byte_part(fit, k, *l.row)});
          fit.corrections[k][n] = fit_curve(points, smooth[k]);
        }
        for (size_t n = 0; n < ranks_.size(); ++n)
          for (size_t p = 0; p < kProtocolCount; ++p) {
            std::vector<double> of_bytes;
            for (const Left& l : left[k])
              if (bit_width(l.row->row->call.type) <= 8 &&
                  l.row->row->call.group.size == ranks_[n] &&
                  l.row->choice.protocol == static_cast<Protocol>(p))
                of_bytes.push_back(l.value - fit.correction(static_cast<MeasuredKind>(k), ranks_[n],
                                                            l.row->row->call.bytes.value));
            offsets[p].insert(offsets[p].end(), of_bytes.begin(), of_bytes.end());
            // A few rows say little: towards what all rank counts say.
            const auto count = static_cast<double>(of_bytes.size());
            if (count > 0)
              fit.one_byte[k][n][p] =
                  pooled[p] + (median(of_bytes) - pooled[p]) * count / (count + 8);
          }
        for (size_t p = 0; p < kProtocolCount; ++p)
          pooled[p] = offsets[p].size() < 4 ? 0 : median(offsets[p]);
      }
    }
    return fit;
  }

  static double byte_part(const LinkFit& fit, size_t kind, const Explained& e) {
    return bit_width(e.row->call.type) <= 8 ? fit.byte_correction(static_cast<MeasuredKind>(kind),
                                                                  e.place.ranks, e.choice.protocol)
                                            : 0;
  }

  struct Judged {
    const MeasuredCollective* row = nullptr;
    MeasuredKind kind = MeasuredKind::kAllReduce;
    Protocol protocol = Protocol::kSimple;
    double residual = 0;  ///< ln(measured / predicted)
    double error() const { return std::abs(std::exp(-residual) - 1); }
  };

  std::vector<Judged> judged(const LinkFit& fit, const Rows& rows) const {
    const std::vector<NcclModel> by_table = models(fit);
    std::vector<Judged> list;
    for (const Explained& e : explain(rows, fit))
      list.push_back(
          {e.row, e.kind, e.choice.protocol,
           std::log(e.us * 1e-6 / by_table[e.table].time(e.choice, e.row->call, e.place).value)});
    return list;
  }

  static double mean_absolute(const std::vector<Judged>& rows) {
    double sum = 0;
    for (const Judged& j : rows) sum += std::min(0.5, std::abs(j.residual));
    return sum / static_cast<double>(rows.size());
  }

  std::vector<Judged> left_out_in_turn(const Smoothing& smooth) const {
    std::vector<Judged> all;
    for (int fold = 0; fold < kFolds; ++fold) {
      const LinkFit fit = fitted(trained(fold), smooth);
      const Rows rows = rows_where([&](const MeasuredCollective& row) {
        return !row.eager && !is_held_out(row) && fold_of(row.key, kFolds, kSeed + 1) == fold;
      });
      const std::vector<Judged> part = judged(fit, rows);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  /// By physics alone, so that corrections do not hide a wrong choice of protocol.
  void choose_tuning() {
    const bool pcie = start_.fabric == "pcie";
    double least = INFINITY;
    LinkFit best = start_;
    for (const double bus : pcie ? std::vector<double>{0.4, 0.6, 0.8, 1.0, 1.3, 1.6, 2.0}
                                 : std::vector<double>{start_.bus_share})
      for (const double ll : {1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3}) {
        start_.bus_share = bus;
        start_.ll_scale = ll;
        const LinkFit fit = fitted(trained(-1), all_alike(1e6));
        const double error = mean_absolute(judged(fit, trained(-1)));
        if (error < least - 1e-9) {
          least = error;
          best = start_;
        }
      }
    start_ = best;
  }

  void set_spreads(LinkFit& fit) const {
    std::vector<HeldOutRow> rows;
    const auto group = [](size_t kind, Protocol protocol) {
      return fmt::format("{} {}", kind, name(protocol));
    };
    for (const Judged& j : left_out_in_turn(smooth_))
      rows.push_back({group(static_cast<size_t>(j.kind), j.protocol), 1, j.residual});
    const ConformalIntervals intervals(rows, 0.9);
    for (size_t k = 0; k < kMeasuredKindCount; ++k)
      for (size_t p = 0; p < kProtocolCount; ++p) {
        const IntervalMultipliers& m = intervals.of(group(k, static_cast<Protocol>(p)));
        fit.spreads[k][p] = {(m.low + m.high) / 2, (m.high - m.low) / 2 / kNinetyPercent};
      }
  }

  /// Rows that the host bounds say how long it takes; those far above, at what rate it copies.
  void set_eager(LinkFit& fit) const {
    const std::vector<NcclModel> by_table = models(fit);
    std::map<std::string, std::vector<double>> host;
    std::vector<double> shares;
    const Rows rows =
        rows_where([](const MeasuredCollective& row) { return row.eager && !is_held_out(row); });
    for (const Explained& e : explain(rows, fit)) {
      const NcclModel& model = by_table[e.table];
      const double device = model.time(e.choice, e.row->call, e.place).value * 1e6;
      if (e.us > 1.7 * device)
        host[std::string(model.algorithm_name(e.choice.algorithm))].push_back(e.us);
      const double memory = model.cluster().device.main_memory().bandwidth.value;
      if (e.us < 1.4 * device && device > 100 && e.us > device)
        shares.push_back(2 * e.row->call.bytes.value / memory * 1e6 / (e.us - device));
    }
    std::vector<double> all;
    for (const auto& [algorithm, us] : host) {
      fit.eager_host_us[algorithm] = median(us);
      all.insert(all.end(), us.begin(), us.end());
    }
    if (all.empty()) return;
    fit.eager_host_us["other"] = median(all);
    fit.eager_copy_share = shares.empty() ? 1 : median(shares);
  }

  void judge(LinkFit& fit) const {
    std::vector<double> errors;
    const Rows rows =
        rows_where([](const MeasuredCollective& row) { return !row.eager && is_held_out(row); });
    for (const Judged& j : judged(fit, rows)) errors.push_back(j.error());
    if (errors.empty()) return;
    double sum = 0;
    for (const double e : errors) sum += e;
    fit.held_out = {{"rows", static_cast<double>(errors.size())},
                    {"mean", sum / static_cast<double>(errors.size())},
                    {"median", median(errors)},
                    {"p90", quantile(errors, 0.9)}};
  }

  std::span<const LinkTable> tables_;
  CustomKernels custom_;
  std::vector<int> ranks_;
  LinkFit start_;
  Smoothing smooth_ = all_alike(1);
};

}  // namespace

bool is_held_out(const MeasuredCollective& row) { return fold_of(row.key, kHeldOut, kSeed) == 0; }

std::vector<MeasuredCollective> read_collectives(const Source& table) {
  CsvReader reader(table);
  const bool foreign = reader.column("op_name") >= 0;
  const size_t kind = reader.required_column(foreign ? "op_name" : "kind");
  const size_t size = reader.required_column(foreign ? "message_size" : "bytes");
  const size_t ranks = reader.required_column(foreign ? "num_gpus" : "ranks");
  const size_t time = reader.required_column(foreign ? "latency" : "us");
  int type = reader.column(foreign ? "nccl_dtype" : "dtype");
  if (type < 0 && foreign) type = reader.column("allreduce_dtype");
  const int backend = reader.column("backend");
  const int stride = reader.column("stride");
  std::vector<MeasuredCollective> rows;
  while (reader.next()) {
    MeasuredCollective row;
    try {
      row.call.kind = collective_kind(kind_of(reader.field(kind)));
    } catch (const Error& e) {
      throw Error(ErrorKind::kInput, reader.location(kind), e.message());
    }
    row.call.type = type < 0 ? ElementType::kF32 : type_at(reader, static_cast<size_t>(type));
    const auto whole = [&](size_t column, const char* what) {
      const double count = number_at(reader, column);
      if (count != std::floor(count) || count > 1e6)
        throw Error(ErrorKind::kInput, reader.location(column), fmt::format("not a {}", what));
      return static_cast<int>(count);
    };
    row.call.group.size = whole(ranks, "count of ranks");
    if (stride >= 0) row.call.group.stride = whole(static_cast<size_t>(stride), "stride");
    row.call.bytes =
        Bytes(number_at(reader, size) * (foreign ? bit_width(row.call.type) / 8.0 : 1.0));
    row.time = Seconds(number_at(reader, time) * (foreign ? 1e-3 : 1e-6));
    row.key = fmt::format("{} {} {} {:.0f}", name(row.call.kind), mlir_name(row.call.type),
                          row.call.group.size, row.call.bytes.value);
    if (row.call.group.stride > 1) row.key += fmt::format(" {}", row.call.group.stride);
    row.eager = backend >= 0 && reader.field(static_cast<size_t>(backend)).ends_with("eager");
    row.line = reader.line();
    rows.push_back(std::move(row));
  }
  return rows;
}

LinkFit fit_links(std::span<const LinkTable> tables, CustomKernels custom) {
  if (tables.empty()) throw_usage("no table to fit");
  for (const LinkTable& table : tables)
    if (table.rows.size() < 30)
      throw_usage(fmt::format("a fit takes 30 rows at least; of {} there are {}",
                              table.cluster.name, table.rows.size()));
  return Calibration(tables, custom).run();
}

}  // namespace orrery
