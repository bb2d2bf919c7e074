#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "orrery/kernel/describe.h"
#include "orrery/kernel/kernel_model.h"
#include "orrery/kernel/peak_rate.h"
#include "orrery/kernel/systolic/array_cycles.h"
#include "orrery/kernel/unmeasured.h"

namespace orrery {
namespace {

using E = ElementType;

/// A first access to main memory and the start of a program's pipeline; a stated prior.
constexpr double kFloorSeconds = 1e-6;
/// What anyone may ask for: no launch takes longer.
constexpr double kMostFloorSeconds = 1;
/// Of on-chip memory, half holds what is computed with while the other half is filled.
constexpr double kBuffered = 0.5;
constexpr double kAccumulatorBytes = 4;

/// One product, or several alike, as arrays run it.
struct ArrayProduct {
  ProductSize size;
  double count = 1;
  double share = 1;  ///< Of its folds that are needed: causal attention skips the others.
};
struct ArrayProducts {
  std::array<ArrayProduct, 2> of{};
  size_t count = 0;
  void add(const ArrayProduct& product) { of[count++] = product; }
};

int64_t up(int64_t n, int64_t d) { return d > 0 ? (n + d - 1) / d : 0; }

ArrayProducts products_of(const Kernel& kernel) {
  ArrayProducts products;
  if (const auto* p = std::get_if<ProductShape>(&kernel.shape)) {
    // Rows are dealt to as many groups as they can reach.
    const int64_t groups = std::clamp<int64_t>(p->m, 1, std::max<int64_t>(1, p->groups));
    products.add({{up(p->m, groups), p->n, p->k}, static_cast<double>(joined(p->batch, groups))});
  } else if (const auto* c = std::get_if<ConvolutionShape>(&kernel.shape)) {
    const int64_t groups = std::max<int64_t>(1, c->groups);
    products.add({{joined(c->batch, joined(c->out_height, c->out_width)), up(c->features, groups),
                   joined(up(c->channels, groups), joined(c->window_height, c->window_width))},
                  static_cast<double>(groups)});
  } else if (const auto* a = std::get_if<AttentionShape>(&kernel.shape)) {
    // Heads that share keys stream through them together.
    const int64_t kv = std::max<int64_t>(1, a->kv_heads);
    const int64_t queries = joined(a->queries, up(a->heads, kv));
    const auto count = static_cast<double>(joined(a->batch, kv));
    const double dense = 2 * count * static_cast<double>(queries) * static_cast<double>(a->keys) *
                         static_cast<double>(a->head + a->value_head);
    const double share = dense > 0 ? std::min(1.0, kernel.cost.matrix_flops / dense) : 1;
    products.add({{queries, a->keys, a->head}, count, share});
    products.add({{queries, a->value_head, a->keys}, count, share});
  }
  return products;
}

class SystolicPredictor final : public Predictor {
 public:
  SystolicPredictor(const Device& device, const Binding& binding)
      : device_(device),
        array_{device.array_rows, std::max(1, device.array_columns)},
        arrays_(std::max(1, device.arrays)),
        dataflow_(static_cast<Dataflow>(
            std::clamp(static_cast<int>(binding.parameter("dataflow", 0)), 0, 2))),
        overlap_(binding.parameter("overlap", 1) != 0),
        floor_(binding.parameter("floor", kFloorSeconds)),
        roofline_(Registry<KernelModel>::instance()
                      .at("roofline", "kernel model")
                      .create()
                      ->bind(device, {})) {
    for (const MemoryLevel& level : device.memory)
      if (&level != &device.memory.front())
        on_chip_ = std::max(on_chip_, level.capacity.value * std::max(1, level.instances));
    const double cells =
        static_cast<double>(array_.rows * array_.columns) * static_cast<double>(arrays_);
    for (size_t i = 0; i < seconds_per_cycle_.size(); ++i) {
      Rate rate = find_rate(device.matrix, static_cast<E>(i));
      // XLA's default precision runs wider floats on the arrays in one pass of bf16.
      if (rate.flops_per_second == 0 && is_float(static_cast<E>(i)))
        rate = find_rate(device.matrix, E::kBF16);
      if (rate.flops_per_second > 0) seconds_per_cycle_[i] = 2 * cells / rate.flops_per_second;
      if (rate.flops_per_second > 0) used_[i] = rate.used;
    }
  }

  std::string_view name() const override { return "systolic"; }

  void predict(std::span<const Kernel> kernels, OperatingPoints points,
               std::span<Estimate> estimates) const override {
    for (size_t i = 0; i < kernels.size(); ++i) {
      const Times t = times(kernels[i], points[i]);
      const Seconds busy(std::max({t.array, t.vector, t.memory}));
      Estimate& e = estimates[i];
      e = unmeasured_;
      e.seconds = busy + Seconds(floor_);
      e.joules = device_.power_limit * busy + device_.idle_power * Seconds(floor_);
    }
  }

  Explanation explain(const Kernel& kernel, const OperatingPoint& point) const override {
    const Times t = times(kernel, point);
    Explanation x;
    x.bound = std::max({t.array, t.vector, t.memory}) < floor_ ? "latency"
              : t.memory >= t.array && t.memory >= t.vector    ? "memory"
              : t.array >= t.vector                            ? "compute"
                                                               : t.vector_bound;
    return x;
  }

  std::vector<std::string> gaps(const Kernel& kernel) const override {
    Kernel rest = kernel;
    const auto type = static_cast<size_t>(kernel.cost.matrix_type);
    std::vector<std::string> found;
    if (products_of(kernel).count > 0 && seconds_per_cycle_[type] > 0) {
      if (used_[type] != kernel.cost.matrix_type)
        found.push_back(fmt::format("{} products run on the arrays of {} as {}",
                                    mlir_name(kernel.cost.matrix_type), device_.name,
                                    mlir_name(used_[type])));
      rest.cost.matrix_flops = 0;
      if (on_chip_ <= 0)
        found.push_back(
            fmt::format("the on-chip memory of {} is not published: products read "
                        "their operands once, however large",
                        device_.name));
    }
    const auto* p = std::get_if<ProductShape>(&kernel.shape);
    if (p != nullptr && p->groups > 1 && p->skew > 0)
      found.emplace_back("arrays are taken to have the same number of rows of every group");
    for (std::string& gap : unpublished_rates(device_, rest)) found.push_back(std::move(gap));
    return found;
  }

  std::vector<std::string> gaps(const OperatingPoint& point) const override {
    std::vector<std::string> found;
    if (point.regime == OperatingPoint::Regime::kSustained)
      found.emplace_back(
          "the clock a device sustains is not known: sustained is predicted as burst");
    if (point.clock.value > 0 && device_.clock.value <= 0)
      found.push_back(fmt::format("the clock of {} is not published: a fixed clock changes nothing",
                                  device_.name));
    return found;
  }

 private:
  struct Times {
    double array = 0;
    double vector = 0;
    double memory = 0;
    const char* vector_bound = "compute";
  };

  Times times(const Kernel& kernel, const OperatingPoint& point) const {
    const auto type = static_cast<size_t>(kernel.cost.matrix_type);
    const ArrayProducts products = products_of(kernel);
    Times t;
    if (products.count == 0 || seconds_per_cycle_[type] == 0) {
      t.vector = roofline_seconds(kernel, point);
      t.vector_bound = bound(kernel, point);
      t.memory = kernel.cost.bytes() / device_.main_memory().bandwidth.value;
      return t;
    }
    const Hertz clock = device_.matrix_clock.value > 0 ? device_.matrix_clock : device_.clock;
    const double slowdown =
        point.clock.value > 0 && clock.value > 0 ? clock.value / point.clock.value : 1;
    double bytes = kernel.cost.bytes();
    for (size_t i = 0; i < products.count; ++i) {
      const ArrayProduct& product = products.of[i];
      const Folding folding = fold(dataflow_, array_, product.size);
      const double cycles =
          overlap_ ? overlapped_cycles(folding, array_, arrays_, product.count * product.share)
                   : separate_cycles(folding, arrays_, product.count * product.share);
      t.array += cycles * seconds_per_cycle_[type] * slowdown;
    }
    // What fused attention computes stays on the chip.
    if (!std::holds_alternative<AttentionShape>(kernel.shape))
      bytes += bytes_read_again(kernel, products.of[0]);
    t.memory = bytes / device_.main_memory().bandwidth.value;
    Kernel rest = kernel;
    rest.cost.matrix_flops = 0;
    rest.cost.bytes_read = rest.cost.bytes_written = 0;
    t.vector = roofline_seconds(rest, point);
    t.vector_bound = bound(rest, point);
    return t;
  }

  /// Bytes beyond one read of each operand. An operand that fits on the chip is read once,
  /// and so is the other. Else outputs are computed in blocks of m' × n' whose sums stay on
  /// the chip: the left operand is read ⌈n/n'⌉ times, the right one ⌈m/m'⌉ times.
  double bytes_read_again(const Kernel& kernel, const ArrayProduct& product) const {
    if (on_chip_ <= 0 || kernel.tensor_count < 2) return 0;
    const double room = on_chip_ * kBuffered;
    const double each = 1 / std::max(1.0, product.count);
    const double left = static_cast<double>(kernel.tensors[0].bytes) * each;
    const double right = static_cast<double>(kernel.tensors[1].bytes) * each;
    if (std::min(left, right) <= room) return 0;
    const auto m = static_cast<double>(product.size.m), n = static_cast<double>(product.size.n);
    const double square = std::sqrt(room / kAccumulatorBytes);
    const double columns = std::min(n, std::max(square, room / kAccumulatorBytes / m));
    const double rows = std::min(m, room / kAccumulatorBytes / columns);
    const double again = left * (std::ceil(n / columns) - 1) + right * (std::ceil(m / rows) - 1);
    return again * product.count;
  }

  double roofline_seconds(const Kernel& kernel, const OperatingPoint& point) const {
    Estimate e;
    roofline_->predict({&kernel, 1}, point, {&e, 1});
    return e.seconds.value;
  }
  const char* bound(const Kernel& kernel, const OperatingPoint& point) const {
    return roofline_->explain(kernel, point).bound == "special functions" ? "special functions"
                                                                          : "compute";
  }

  Device device_;
  SystolicArray array_;
  int64_t arrays_;
  Dataflow dataflow_;
  bool overlap_;
  double floor_;
  double on_chip_ = 0;
  std::unique_ptr<Predictor> roofline_;
  std::array<double, kElementTypeCount> seconds_per_cycle_{};
  std::array<E, kElementTypeCount> used_{};
  Estimate unmeasured_ = unmeasured_estimate(Seconds());
};

class Systolic final : public KernelModel {
 public:
  std::unique_ptr<Predictor> bind(const Device& device, const Binding& binding) const override {
    if (device.array_rows <= 0)
      throw_usage(fmt::format("kernel model 'systolic' needs systolic arrays, which {} has not",
                              device.name));
    if (!binding.fit.empty()) throw_usage("kernel model 'systolic' takes no fit");
    const double dataflow = binding.parameter("dataflow", 0);
    if (dataflow != 0 && dataflow != 1 && dataflow != 2)
      throw_usage("systolic: dataflow must be 0 (weights stay), 1 (outputs) or 2 (inputs)");
    const double floor = binding.parameter("floor", kFloorSeconds);
    if (!(floor >= 0 && floor <= kMostFloorSeconds))
      throw_usage(fmt::format("systolic: floor must lie within 0 and {} seconds, found {:g}",
                              kMostFloorSeconds, floor));
    return std::make_unique<SystolicPredictor>(device, binding);
  }
};

const Registration<KernelModel> kSystolic(
    {.name = "systolic",
     .summary = "time = max(array cycles, bytes / bandwidth, vector work) + floor; weights held: "
                "⌈k/R⌉ ⌈n/C⌉ folds over the arrays, max(m, R) cycles each and 2R + C − 2 once; a "
                "cycle is 2 · cells / published rate; operands too large for on-chip memory are "
                "read again for each block of outputs; all but products as roofline",
     .source =
         "Samajdar et al., SCALE-Sim, ISPASS 2020 (folds, fill, drain); Jouppi et al., "
         "In-Datacenter Performance Analysis of a Tensor Processing Unit, ISCA 2017 (the next "
         "fold loads while one runs)",
     .parameters =
         {{"dataflow", 0, "what stays in the cells: 0 weights, 1 outputs, 2 inputs", true},
          {"overlap", 1, "0: every fold is loaded, run and drained alone, as SCALE-Sim has it",
           true},
          {"floor", kFloorSeconds, "seconds added to every kernel; a stated prior", true},
          {"best", kUnmeasuredBest,
           "low end of the 90 % interval as a multiple of the time; a stated prior, no time of "
           "such a device being at hand"},
          {"worst", kUnmeasuredWorst, "… and its high end"}}},
    [] { return std::make_unique<Systolic>(); });

}  // namespace
}  // namespace orrery
