#pragma once

#include <cstdint>
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
///  - two rows of the same kernel under the same conditions contradict each other.
/// Repeated rows that agree are not a problem.
std::vector<TableProblem> check_measured_table(const MeasuredTable& table,
                                               const Predictor& roofline);

/// Throws `kInput` at the first problem that refuses the table, with how many there are.
void refuse_on_problems(const MeasuredTable& table, const std::vector<TableProblem>& problems);

}  // namespace orrery
