#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "orrery/kernel/tile/features.h"
#include "orrery/learn/boosted_trees.h"

namespace orrery {

/// What a GPU draws, as shares of its power limit, so that one GPU's figures say something
/// of another's. All but `burst`, `still`, `stir` and `warm` are drawn at the boost clock.
struct PowerCoefficients {
  double idle = 0;           ///< Clocks up, nothing running.
  double busy = 0;           ///< SMs that have work, whatever it is.
  double matrix_byte = 0;    ///< Matrix units at their full rate: types of 8 bits or fewer …
  double matrix_half = 0;    ///< … of 16 …
  double matrix_single = 0;  ///< … of 32 (tf32) or 64.
  double vector = 0;         ///< Vector units at their full rate.
  double memory = 0;         ///< Main memory at its full bandwidth.
  double burst = 0;          ///< What is let through for a moment, before the limit bites.
  double still = 0;          ///< Floors of a kernel (TileDescription) for which SMs stand still.
  double stir = 0;           ///< Utilisation at which half of `busy` is drawn.
  /// How far on the way from a burst to the sustained time the times of a fit are, of the
  /// logarithm: a table timed in short windows has slowed a little already.
  double warm = 0;
};

/// A multiple of the power that the coefficients give, for one class of kernels.
struct PowerCorrection {
  BoostedTrees trees;  ///< of ln(measured / physical)
  size_t rows = 0;
};

/// All that measurements taught about a device's power.
struct PowerFit {
  static constexpr int kVersion = 1;

  std::string device;
  std::string command;               ///< That made it.
  std::vector<std::string> sources;  ///< Tables it was made from.
  PowerCoefficients coefficients;
  size_t rows = 0;
  std::array<std::optional<PowerCorrection>, kTileClassCount> corrections;
};

/// Readable and versioned, as the tile model's fits.
std::string to_json(const PowerFit& fit);
/// Throws `kInput` with the path of what is not as `to_json` writes it.
PowerFit power_fit_from_json(const JsonValue& value);

/// What a kernel, or a step of many, takes from the board in a cool burst. Terms of
/// kernels that run one after the other add up; a gap between them is `time` alone.
struct PowerTerms {
  Seconds time;
  Seconds core_time;  ///< Of it, what goes with 1 / clock.
  Joules busy;        ///< Of SMs that have work, at the boost clock.
  Joules core;        ///< Of arithmetic, at the boost clock.
  Joules memory;

  PowerTerms& operator+=(const PowerTerms& other);
};
PowerTerms operator*(const PowerTerms& terms, double times);

/// A board lets work of any power through before it holds the mean to its limit: products on an
/// H200 run at full speed for 20 to 75 ms, after a rest or after copies, and have lost all of their
/// 15 % after 50 to 150 (data/measured/h200_limit_delay.csv; stated between them).
inline constexpr Seconds kLimitLooksAt(45e-3);

/// Of work or of a rest that takes so long, the share that the limit sees by itself, not averaged
/// with what comes before and after.
inline double seen_by_limit(Seconds time) { return time / (time + kLimitLooksAt); }

/// Where a device runs its work.
struct PowerState {
  Hertz clock;
  Seconds time;
  Watts power;
  Joules energy() const { return power * time; }
};

/// At which clock a kernel's time was taken, and what another makes of it.
struct ClockOfFit {
  Hertz measured;
  double core_share = 0;  ///< Of the time, what goes with 1 / clock.

  /// time at `clock` / time.
  double slowdown(Hertz clock) const {
    return clock.value > 0 ? 1 - core_share + core_share * (measured / clock) : 1;
  }
};

/// The power, and so the clock, that work runs at on one device. With r the clock over the
/// boost clock, and the square of the voltage taken in proportion to it,
///
///   power(r) = idle + busy · r² + (core · r + memory) / time(r)
///   time(r)  = core_time · r_burst / r + (time − core_time)
///
/// A burst runs at the highest clock r_burst whose power is no more than `burst` times what
/// the board is rated at, sustained work at the highest clock whose power is within the limit: the
/// mean of a clock that flickers between the driver's steps, and never below a quarter of the boost
/// clock. Matrix units, vector units and memory
/// draw in proportion to their utilisation u; SMs draw `busy` · u / (u + stir) for the time they do
/// not stand still. Time follows the clock for the share u_core / (u_core + u_memory); all of it in
/// attention, whose softmax runs on the SMs and whose keys come from the L2 cache.
///
/// Thread-safe and stateless.
class PowerModel {
 public:
  /// A fit of another device stands in by its shares of the limit; `gaps` then says so.
  PowerModel(const Device& device, std::shared_ptr<const PowerFit> fit);

  /// Of a kernel, described at the boost clock, that takes `time` in a cool burst.
  PowerTerms burst_terms(const Kernel& kernel, const TileDescription& description,
                         Seconds time) const;
  /// The same of a time as fits predict it, somewhat warm (PowerCoefficients::warm).
  PowerTerms terms(const Kernel& kernel, const TileDescription& description, Seconds time) const;

  /// Of a time as fits predict it, the clock it was taken at, by the power of the kernel itself:
  /// between that of a burst and the sustained one, as far as fits are warm.
  ClockOfFit clock_of_fit(const Kernel& kernel, const TileDescription& description,
                          Seconds time) const;

  PowerState burst(const PowerTerms& terms) const;
  PowerState sustained(const PowerTerms& terms) const;
  /// Where work settles that takes `terms` at the boost clock itself, not at that of a burst, on a
  /// card that draws `draw` times what a usual one does.
  PowerState settled(const PowerTerms& terms, double draw = 1) const;
  /// The mean power of a usual card that is through with `terms` before `slowest` and rests then.
  Watts waiting_for(const PowerTerms& terms, const PowerState& slowest) const;
  /// At a clock that somebody fixed, whatever it draws, of `terms` at the boost clock itself.
  PowerState at(const PowerTerms& terms, Hertz clock) const;
  /// The same of `terms` whose time was taken at that very clock.
  PowerState taken_at(const PowerTerms& terms, Hertz clock) const;

  /// What to multiply a kernel's power by where its class was measured; 1 elsewhere.
  double correction(const TileDescription& description) const;

  /// That a card which draws `draw` times the state's power exceeds the limit, as a sentence;
  /// empty: it does not.
  std::string gap(const PowerState& state, double draw = 1) const;
  /// What is not known of this device, as sentences.
  std::vector<std::string> gaps() const;

 private:
  /// Arithmetic of a kernel on the unit that does most of it.
  struct CoreWork {
    double seconds = 0;  ///< At the unit's full rate and the boost clock.
    double watts = 0;    ///< At its full rate.
  };

  CoreWork core_work(const Kernel& kernel, TileClass tile_class) const;
  double power_at(const PowerTerms& terms, double burst_ratio, double ratio) const;
  double highest_ratio(const PowerTerms& terms, double burst_ratio, double most_watts) const;
  double burst_limit() const;  // W
  double burst_ratio(const PowerTerms& terms) const;
  PowerState held_to(double watts, const PowerTerms& terms) const;
  PowerState state(const PowerTerms& terms, double burst_ratio, double ratio) const;

  Device device_;
  TileGpu gpu_;
  double limit_ = 0;  // W; 0: not known
  double rated_ = 0;  // W: the limit that kernels were measured under, unless a what-if set another
  double scale_ = 0;  // W that coefficients are shares of: the limit, or the device's reference
  double idle_ = 0;   // W: clocks up, nothing running
  double added_idle_ = 0;  // W: of it, what a what-if on the power at rest adds
  double boost_ = 1;       // Hz
  std::shared_ptr<const PowerFit> fit_;
};

}  // namespace orrery
