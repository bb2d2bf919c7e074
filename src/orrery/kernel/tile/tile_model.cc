#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "orrery/kernel/kernel_model.h"
#include "orrery/kernel/power.h"
#include "orrery/kernel/tile/fit_store.h"
#include "orrery/kernel/unmeasured.h"

namespace orrery {
namespace {

/// Kernels sorted by class together: as many as make groups worth a batch of every class.
constexpr size_t kBlock = 4096;
/// Kernels of one class described together: few enough that their features stay in a core's caches.
constexpr size_t kDescribed = 128;
/// Trees answer fewer rows than this one by one.
constexpr size_t kFewestTogether = 12;

/// A device as kernels are described for it, by the protocol's number.
class TileGpus {
 public:
  explicit TileGpus(const Device& device) {
    for (size_t i = 0; i < TileProtocol::kCount; ++i) {
      own_.emplace_back(device, TileProtocol::of(i));
      alike_.emplace_back(seen_by_alike(device), TileProtocol::of(i));
    }
  }

  const TileGpu& any() const { return own_.front(); }
  /// As a class's fit saw it.
  const TileGpu& of(const FitChoice::OfClass& choice) const {
    return (choice.alike ? alike_ : own_)[choice.protocol.number()];
  }

 private:
  /// A board whose memory holds no check bits, beside one of the same chip whose memory does: that
  /// one's fit takes its whole bandwidth for what is left of it. Reading takes a tenth longer with
  /// them, by pairs of boards in data/kernels/check_bits.csv.
  static Device seen_by_alike(Device device) {
    constexpr double kCheckBits = 1.1;
    MemoryLevel& memory = device.memory.front();
    if (memory.name == "gddr" && !device.check_bits)
      memory.bandwidth = BytesPerSecond(memory.bandwidth.value * kCheckBits);
    return device;
  }

  std::vector<TileGpu> own_;
  std::vector<TileGpu> alike_;  // … for fits of a device of the same chip
};

class TilePredictor final : public Predictor {
 public:
  TilePredictor(const Device& device, const Binding& binding)
      : device_(device),
        gpus_(device),
        fits_(device, binding),
        power_(device, load_power_fit(binding)),
        window_power_(limited_as_measured(device), load_power_fit(binding)) {
    if (device.as_described) described_.emplace(*device.as_described);
  }

  std::string_view name() const override { return "tile"; }

  void predict(std::span<const Kernel> kernels, OperatingPoints points,
               std::span<Estimate> estimates) const override {
    if (kernels.size() < kFewestTogether) {
      for (size_t i = 0; i < kernels.size(); ++i) estimates[i] = predict_one(kernels[i], points[i]);
      return;
    }
    std::vector<uint32_t> order(std::min(kBlock, kernels.size()));
    for (size_t first = 0; first < kernels.size(); first += kBlock) {
      const size_t count = std::min(kBlock, kernels.size() - first);
      std::array<size_t, kTileClassCount + 1> begin{};
      std::vector<TileClass> classes(count);
      for (size_t i = 0; i < count; ++i) {
        classes[i] = gpus_.any().class_of(kernels[first + i]);
        ++begin[static_cast<size_t>(classes[i]) + 1];
      }
      for (size_t c = 0; c < kTileClassCount; ++c) begin[c + 1] += begin[c];
      auto next = begin;
      for (size_t i = 0; i < count; ++i)
        order[next[static_cast<size_t>(classes[i])]++] = static_cast<uint32_t>(first + i);
      for (size_t c = 0; c < kTileClassCount; ++c)
        predict_class(static_cast<TileClass>(c),
                      std::span(order).subspan(begin[c], begin[c + 1] - begin[c]), kernels, points,
                      estimates);
    }
  }

  Explanation explain(const Kernel& kernel, const OperatingPoint& point) const override {
    TileDescription d;
    gpus_.of(fits_.of(gpus_.any().class_of(kernel))).describe(kernel, point.clock, d);
    Explanation x;
    x.bound = std::max(d.compute_seconds, d.memory_seconds) < d.floor_seconds ? "latency"
              : d.memory_seconds >= d.compute_seconds                         ? "memory"
                                                                              : "compute";
    return x;
  }

  StepState settle(std::span<const Kernel> kernels, std::span<const double> counts, Seconds idle,
                   const OperatingPoint& point, std::span<Estimate> estimates) const override {
    PowerTerms step;
    step.time = idle;
    bool clocks_differ = false;  // those that times were taken at
    for (size_t i = 0; i < kernels.size(); ++i) {
      const FitChoice::OfClass& choice = fits_.of(gpus_.any().class_of(kernels[i]));
      TileDescription d;
      describe(kernels[i], choice, Hertz(), d);
      clocks_differ = clocks_differ || choice.windows_elsewhere;
      step += power_.burst_terms(kernels[i], d,
                                 at_boost_clock(kernels[i], choice, d, estimates[i].seconds)) *
              counts[i];
    }
    const bool fixed = point.clock.value > 0;
    const PowerState state =
        fixed ? power_.at(step, point.clock) : power_.settled(step, point.draw);
    const Watts mean = fixed || point.draw == 1 ? state.power : power_.waiting_for(step, state);
    OperatingPoint settled = point;
    settled.clock = state.clock;
    if (fixed || clocks_differ || state.clock.value < gpus_.any().boost_clock())
      predict(kernels, settled, estimates);
    Seconds time = idle;
    for (size_t i = 0; i < kernels.size(); ++i) time += estimates[i].seconds * counts[i];
    return {state.clock, mean * time, power_.gap(state, fixed ? 1 : point.draw)};
  }

  std::vector<std::string> gaps(const Kernel& kernel) const override {
    std::vector<std::string> found = unpublished_rates(device_, kernel);
    const FitChoice::OfClass& choice = fits_.of(gpus_.any().class_of(kernel));
    if (!choice.gap.empty()) found.push_back(choice.gap);
    if (choice.fit != nullptr && !knows_type(*choice.fit, kernel))
      found.push_back(
          fmt::format("kernels of {} in {} were not measured: taken as those of other "
                      "types, with intervals twice as wide",
                      orrery::name(kernel.family), mlir_name(kernel.cost.matrix_type)));
    return found;
  }

  std::vector<std::string> gaps(const OperatingPoint& point) const override {
    std::vector<std::string> found;
    if (point.regime == OperatingPoint::Regime::kSustained) found = power_.gaps();
    if (described_ && described_->any().figures() != gpus_.any().figures())
      found.push_back(
          fmt::format("a what-if moves kernels by their physical estimates alone: how "
                      "they depart from these stays that of {} as it is",
                      device_.name));
    if (device_.clock.value <= 0)
      found.push_back(fmt::format("the clock of {} is not published: taken for {:.0f} MHz",
                                  device_.name, gpus_.any().boost_clock() / 1e6));
    return found;
  }

 private:
  static Device limited_as_measured(Device device) {
    device.reference_power = Watts();
    device.power_limit = device.rated_power;
    device.as_described = nullptr;
    return device;
  }

  Estimate predict_one(const Kernel& kernel, const OperatingPoint& point) const {
    const FitChoice::OfClass& choice = fits_.of(gpus_.any().class_of(kernel));
    TileDescription d;
    describe(kernel, choice, point.clock, d);
    Estimate e = choice.fit != nullptr ? estimate_of(*choice.fit, d, width(*choice.fit, kernel))
                                       : unmeasured_estimate(Seconds(d.seconds), kernel.counted);
    run(kernel, choice, d, point, e);
    return e;
  }

  /// How many times as wide as a fit's are the kernel's intervals.
  static double width(const ClassFit& fit, const Kernel& kernel) {
    return knows_type(fit, kernel) ? 1 : kUnseenType;
  }

  /// Whether the trees of a class's fit know what a clock does: those of tables without clocks do
  /// not, nor those of windows on another device, whose clocks were read as they ended.
  static bool follows_clock(const FitChoice::OfClass& choice) {
    return choice.fit == nullptr || !(choice.protocol.warm || choice.windows_elsewhere);
  }

  /// Describes the kernel for its class's fit: at a clock that its trees do not know, as at the
  /// boost clock. A what-if changes the physical time alone: trees know how kernels of a device
  /// depart from it, not what becomes of them on one whose features are other kernels' there.
  void describe(const Kernel& kernel, const FitChoice::OfClass& choice, Hertz clock,
                TileDescription& d) const {
    if (!follows_clock(choice)) clock = Hertz();
    gpus_.of(choice).describe(kernel, clock, d);
    if (!described_) return;
    const TileGpu& before = described_->of(choice);
    TileDescription known;
    before.describe(kernel, std::min(clock, Hertz(before.boost_clock())), known);
    if (known.tile_class == d.tile_class) d.features = known.features;
  }

  /// What to multiply a fit's time by, of a kernel so described. Tables without clocks ran at the
  /// boost clock: the physical time follows it.
  double slowdown(const Kernel& kernel, const FitChoice::OfClass& choice, const TileDescription& d,
                  Seconds time, Hertz clock) const {
    if (clock.value <= 0 || follows_clock(choice)) return 1;
    if (!choice.protocol.warm) {
      // No kernel runs at more than the clock of a burst of its power.
      const Hertz highest = power_.burst(power_.burst_terms(kernel, d, time)).clock;
      return window_power_.clock_of_fit(kernel, d, time).slowdown(std::min(clock, highest));
    }
    TileDescription slow;
    gpus_.of(choice).describe(kernel, clock, slow);
    return slow.seconds / d.seconds;
  }

  /// What power is reckoned from: the time it would take at the boost clock, were there no limit.
  Seconds at_boost_clock(const Kernel& kernel, const FitChoice::OfClass& choice,
                         const TileDescription& d, Seconds time) const {
    if (follows_clock(choice) || choice.protocol.warm) return time;
    return time *
           window_power_.clock_of_fit(kernel, d, time).slowdown(Hertz(gpus_.any().boost_clock()));
  }

  /// Kernels of one class, by their places.
  void predict_class(TileClass tile_class, std::span<const uint32_t> members,
                     std::span<const Kernel> kernels, const OperatingPoints& points,
                     std::span<Estimate> estimates) const {
    if (members.empty()) return;
    const FitChoice::OfClass& choice = fits_.of(tile_class);
    if (choice.fit == nullptr || members.size() < kFewestTogether) {
      for (const uint32_t i : members) estimates[i] = predict_one(kernels[i], points[i]);
      return;
    }
    const size_t most = std::min(kDescribed, members.size());
    Matrix features(most, TileGpu::feature_names(tile_class).size());
    std::vector<TileDescription> described(most);
    std::vector<float> centre(most), spread(most);
    for (; !members.empty(); members = members.subspan(std::min(most, members.size()))) {
      const size_t count = std::min(most, members.size());
      for (size_t i = 0; i < count; ++i) {
        describe(kernels[members[i]], choice, points[members[i]].clock, described[i]);
        std::ranges::copy(described[i].values(), features.row(i).begin());
      }
      choice.fit->centre.predict(features, std::span(centre).first(count));
      choice.fit->spread.predict(features, std::span(spread).first(count));
      for (size_t i = 0; i < count; ++i) {
        const uint32_t at = members[i];
        estimates[at] = estimate_of(*choice.fit, described[i], centre[i], spread[i],
                                    width(*choice.fit, kernels[at]));
        run(kernels[at], choice, described[i], points[at], estimates[at]);
      }
    }
  }

  /// Of a launch that is timed by itself, what it waits for the host: a part whatever it does, and
  /// all of the host's time while the kernel is shorter than that (NeuSight's additions on
  /// five GPUs: 11 us of a long one, 24 us of the shortest, on A100 and T4).
  static double host_part(const TileDescription& d) {
    constexpr double kAlways = 11e-6, kOfShortest = 13e-6, kShort = 15e-6;
    return kAlways + kOfShortest * std::max(0.0, 1 - (d.seconds - kEagerSeconds) / kShort);
  }

  /// From a fit's estimate of a kernel so described to the point it runs at: the power the kernel
  /// draws, and the time it takes once its clock follows that power. A clock that was given stays.
  void run(const Kernel& kernel, const FitChoice::OfClass& choice, const TileDescription& d,
           const OperatingPoint& point, Estimate& e) const {
    e.seconds = e.seconds * slowdown(kernel, choice, d, e.seconds, point.clock);
    if (point.queued && choice.protocol.eager)
      e.seconds = Seconds(std::max(d.seconds - kEagerSeconds, e.seconds.value - host_part(d)));
    if (point.clock.value > 0) {
      e.joules = power_.taken_at(power_.burst_terms(kernel, d, e.seconds), point.clock).energy();
    } else if (point.regime == OperatingPoint::Regime::kSustained) {
      const PowerState state = power_.sustained(power_.terms(kernel, d, e.seconds));
      e.seconds = state.time;
      e.joules = state.energy();
    } else {
      e.joules = power_.burst(power_.burst_terms(kernel, d, e.seconds)).energy();
    }
  }

  Device device_;
  TileGpus gpus_;
  std::optional<TileGpus> described_;  // before a what-if
  FitChoice fits_;
  PowerModel power_;
  PowerModel window_power_;  // of a board like those measured, whose limit is its reference
};

class TileModel final : public KernelModel {
 public:
  std::unique_ptr<Predictor> bind(const Device& device, const Binding& binding) const override {
    require_tile_device(device);
    return std::make_unique<TilePredictor>(device, binding);
  }
};

const Registration<KernelModel> kTile(
    {.name = "tile",
     .summary = "time = (floor + max(FLOPs / rate at the clock, bytes / bandwidth)) × exp(f(tiles, "
                "waves, sizes, alignment)), f boosted trees fitted to measurements of the device "
                "by class of kernels, 90 % intervals from out-of-fold residuals; 'orrery "
                "calibrate' makes a fit; power = idle + SMs with work + arithmetic and "
                "traffic by utilisation, and the sustained clock is the highest at which that is "
                "within the board's limit",
     .source = "tiles and waves as in NeuSight (Lee, Phanishayee, Mahajan, ASPLOS 2025); trees as "
               "in CatBoost (Prokhorenkova et al., NeurIPS 2018); intervals by split conformal "
               "prediction (Lei et al., JASA 2018)",
     .parameters =
         {{"best", kUnmeasuredBest,
           "of a class that was never measured: low end of the 90 % interval as a multiple of the "
           "physical time; a stated prior"},
          {"worst", kUnmeasuredWorst, "… and its high end; a stated prior"}}},
    [] { return std::make_unique<TileModel>(); });

}  // namespace
}  // namespace orrery
