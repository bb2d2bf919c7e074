#pragma once

#include <span>
#include <vector>

#include "orrery/kernel/measured_table.h"
#include "orrery/kernel/tile/fit.h"

namespace orrery {

/// What is added to intervals for a machine other than the one measured: standard deviations
/// from one to another.
struct Elsewhere {
  double launch = 0;   ///< Seconds a launch.
  double machine = 0;  ///< Of ln(time), shared by all kernels.
};

struct CalibrationOptions {
  /// Residuals out of fold are those of fits to a little fewer rows, and so a little too large: of
  /// rows that were not fitted, 90.8 % lie inside the intervals of 10 folds, 90.3 % inside those of
  /// 20 (two fifths of what is not held out of sixteen public tables, by fits to the rest).
  int folds = 20;
  uint64_t seed = 1;  ///< Of the folds, by a hash of each row's operator.
  int threads = 2;
  TileProtocol protocol;
  Elsewhere elsewhere;
  /// A fit over other devices under the same protocol, to begin from; may be null. It must
  /// not have seen the device's own rows, or out-of-fold residuals would be too small.
  const TileFit* prior = nullptr;
};

/// One measured row and what was predicted of it by a fit that had not seen it.
struct OutOfFold {
  TileClass tile_class = TileClass::kOther;
  double measured = 0;   ///< seconds
  double predicted = 0;  ///< seconds
  double low = 0, high = 0;
  uint32_t row = 0;  ///< Index of the row given.
};

/// Rows of a device that contradict what else was measured on it (contradiction.h), and were not
/// fitted to.
struct ContradictedRows {
  std::string device;
  TileClass tile_class = TileClass::kOther;
  bool batched = false;        ///< Of products: whether they are those of several matrices.
  double factor = 1;           ///< How many times as long as the rest has it.
  std::vector<uint32_t> rows;  ///< Of the rows given, in order.
};

struct Calibration {
  TileFit fit;
  std::vector<ContradictedRows> contradicted;
  std::vector<OutOfFold> out_of_fold;  ///< In the order of the rows.
};

/// Rows measured on one device.
struct RowsOnDevice {
  const Device* device = nullptr;
  std::span<const MeasuredRow> rows;
};

/// Fits every class that the rows have enough of: kFewestRows, or kFewestRowsWithPrior where
/// the prior has the class. Each class is fitted `folds` times without one fold for its
/// out-of-fold residuals, whose quantiles make the intervals, and once with all rows. With
/// a prior, small trees are fitted to what it leaves over, and kept where they do better out
/// of fold than trees that begin from nothing; rows of an operation that the prior and the
/// device's other operations contradict are left out, and the prior answers for them.
Calibration calibrate(const Device& device, std::span<const MeasuredRow> rows,
                      const CalibrationOptions& options);
inline constexpr size_t kFewestRows = 20;
inline constexpr size_t kFewestRowsWithPrior = 10;

/// One fit over several devices, for any other: devices count alike, features that do no more
/// than tell devices apart are not used, and every row is predicted by fits that have not
/// seen its device. Intervals are those of kernels on the devices measured and grow with the
/// distance to them (`seen_from`), as the errors on each of fits over the others do. Where fewer
/// than kFewestDevices have a class, folds are by operator as above, and intervals widened by
/// kUnseenDevice. Rows are numbered through all tables, of which each device has one. Rows of an
/// operation on one device that its other operations and the other devices contradict are left out.
Calibration calibrate_generic(std::span<const RowsOnDevice> tables,
                              const CalibrationOptions& options);
inline constexpr size_t kFewestDevices = 3;
inline constexpr double kUnseenDevice = 2;  ///< A stated prior.

/// Whether a row is in the part of `parts` that a fit leaves out to be judged by: by a
/// hash of its operator that is apart from that of the folds.
bool is_held_out(const MeasuredRow& row, int parts);

}  // namespace orrery
