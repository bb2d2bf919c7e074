#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "orrery/kernel/kernel_model.h"
#include "orrery/kernel/measured_table.h"

namespace orrery {

/// Something in a measured table that cannot be, or is hard to believe.
struct TableProblem {
  enum class Severity : uint8_t {
    kWarn,    ///< Odd; the table may still be used.
    kRefuse,  ///< Impossible or contradictory: fitting it would mislead.
  };
  Severity severity = Severity::kRefuse;
  uint32_t line = 0;
  uint32_t other_line = 0;  ///< Of the row it was compared with; 0: none.
  std::string reason;
};

/// What a reader of single rows cannot see, sorted by line. With r the ratio of a row's
/// time to its roofline (`roofline`, bound to the device it was measured on):
///  - the table's times are in another unit: the median of r lies outside what any real
///    table has;
///  - a row's time is far below its roofline;
///  - a row's time is in another unit, or of another kernel: its r differs from the median r
///    of rows like it (same operator, element type, source and device, nearest in the
///    logarithms of their sizes) by far more than those differ among each other;
///  - two rows of the same kernel, source and regime contradict each other: one took far
///    longer, and as many times the cycles where their clocks differ.
/// Repeated rows that agree are not a problem. A row's roofline is that at its clock.
std::vector<TableProblem> check_measured_table(const MeasuredTable& table,
                                               const Predictor& roofline);

/// What of a row shows whether others contradict it.
struct Measurement {
  std::string file, source, operation;
  uint64_t key = 0;
  double seconds = 0;
  double sm_hz = 0;
  OperatingPoint::Regime regime = OperatingPoint::Regime::kBurst;
  uint32_t line = 0;
};
Measurement measurement(const MeasuredTable& table, const MeasuredRow& row);

/// The last of these checks for rows of several tables, all of one device. Throws `kInput`
/// naming both rows.
void refuse_contradictions(std::span<const Measurement> rows);

/// Throws `kInput` at the first problem that refuses the table, with how many there are.
void refuse_on_problems(const MeasuredTable& table, const std::vector<TableProblem>& problems);

}  // namespace orrery
