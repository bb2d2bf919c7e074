#pragma once

#include <span>
#include <vector>

#include "orrery/kernel/measured_table.h"
#include "orrery/kernel/tile/fit.h"

namespace orrery {

struct CalibrationOptions {
  int folds = 5;
  uint64_t seed = 1;  ///< Of the folds, by a hash of each row's operator.
  int threads = 2;
  TileProtocol protocol;
};

/// One measured row and what was predicted of it by a fit that had not seen it.
struct OutOfFold {
  TileClass tile_class = TileClass::kOther;
  double measured = 0;   ///< seconds
  double predicted = 0;  ///< seconds
  double low = 0, high = 0;
  uint32_t row = 0;  ///< Index of the row given.
};

struct Calibration {
  TileFit fit;
  std::vector<OutOfFold> out_of_fold;  ///< In the order of the rows.
};

/// Rows measured on one device.
struct RowsOnDevice {
  const Device* device = nullptr;
  std::span<const MeasuredRow> rows;
};

/// Fits every class that the rows have enough of (kFewestRows). Each class is fitted
/// `folds` times without one fold for its out-of-fold residuals, whose quantiles make
/// the intervals, and once with all rows.
Calibration calibrate(const Device& device, std::span<const MeasuredRow> rows,
                      const CalibrationOptions& options);
/// One fit over several devices, for those like them; rows are numbered through all of
/// them, and an operator is in the same fold on each.
Calibration calibrate(std::span<const RowsOnDevice> tables, const CalibrationOptions& options);
inline constexpr size_t kFewestRows = 20;

/// Whether a row is in the part of `parts` that a fit leaves out to be judged by: by a
/// hash of its operator that is apart from that of the folds.
bool is_held_out(const MeasuredRow& row, int parts);

}  // namespace orrery
