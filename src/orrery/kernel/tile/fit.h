#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "orrery/kernel/estimate.h"
#include "orrery/kernel/tile/features.h"
#include "orrery/learn/boosted_trees.h"

namespace orrery {

/// What measurements taught about one class of kernels. The true time is taken as
///
///   physical · exp(centre(x) + scale · e),   scale = exp(spread(x)) · (1 + far · octaves)
///
/// where e lies between `low` and `high` nine times in ten (out-of-fold
/// residuals), and `octaves` is how far the features lie outside what was measured, all added up.
struct ClassFit {
  BoostedTrees centre;  ///< of ln(measured / physical)
  BoostedTrees spread;  ///< of the logarithm of the residuals' size
  double low = -1, high = 1;
  /// Beside e, standard deviations from one machine to another: seconds a launch, and of ln(time).
  double launch_spread = 0, machine_spread = 0;
  double shared = 0;  ///< Share of the residuals' variance that kernels alike have in common.
  /// Of a fit over several devices: by how much of themselves `low` and `high` grow for each power
  /// of two that a device's figures lie off the nearest of those measured.
  double growth = 0;
  std::vector<std::pair<float, float>> range;  ///< Of each feature, as measured.
  /// Which types the kernels measured multiply, alone and in batches, a bit for each.
  std::array<uint64_t, 2> multiplied{};
  size_t rows = 0;
  double error = 0;  ///< Mean |predicted / measured - 1|, out of fold.
};

/// The largest `low` and `high` that a fit may have, either way, and the most they may grow.
inline constexpr double kMostMultiplier = 20;

/// All that was fitted for one device under one stack, or for any device from several.
struct TileFit {
  static constexpr int kVersion = 2;

  std::string device;                ///< "generic": for any.
  std::vector<std::string> devices;  ///< Whose rows it was made from.
  std::vector<GpuFigures> figures;   ///< Of these, where intervals grow with the distance.
  std::string stack;
  std::string command;               ///< That made it.
  std::vector<std::string> sources;  ///< Tables it was made from.
  TileProtocol protocol;
  std::array<std::optional<ClassFit>, kTileClassCount> classes;

  const ClassFit* find(TileClass tile_class) const {
    const auto& fit = classes[static_cast<size_t>(tile_class)];
    return fit ? &*fit : nullptr;
  }
};

/// The class's fit with the intervals that it has on a device of these figures. One that was
/// measured itself counts as another board of its chip.
ClassFit seen_from(const GpuFigures& device, const TileFit& fit, const ClassFit& one);
/// The same of all classes.
TileFit seen_from(const GpuFigures& device, const TileFit& fit);

/// Remembers what the kernel multiplies.
void add_multiplied(ClassFit& fit, const Kernel& kernel);
/// Whether kernels that multiply alike were measured, or it is not known which were. Others have
/// intervals `kUnseenType` times as wide.
bool knows_type(const ClassFit& fit, const Kernel& kernel);
inline constexpr double kUnseenType = 2;  ///< A stated prior.

/// How far outside the measured range, in units of a feature: powers of two for sizes.
double octaves_outside(const ClassFit& fit, std::span<const float> features);
/// How many times as wide intervals are there.
double widening(double octaves);

/// The estimate of a described kernel, with an interval `wider` times as wide; joules are left to
/// the caller.
Estimate estimate_of(const ClassFit& fit, const TileDescription& description, double wider = 1);
/// The same, of what the trees say of its features.
Estimate estimate_of(const ClassFit& fit, const TileDescription& description, float centre,
                     float spread, double wider = 1);

/// Readable and versioned; names every feature it uses, so that a later build whose
/// features differ says so instead of answering wrongly.
std::string to_json(const TileFit& fit);
/// Throws `kInput` with the path of what is not as `to_json` writes it.
TileFit tile_fit_from_json(const JsonValue& value);

}  // namespace orrery
