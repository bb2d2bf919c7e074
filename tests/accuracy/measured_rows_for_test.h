#pragma once

#include <cstdlib>
#include <string>

#include "orrery/api/session.h"
#include "orrery/base/csv.h"

namespace orrery {

/// With the catalogue and data of the source tree.
inline const Session& session() {
  static const Session kSession(ORRERY_SOURCE_DIR "/hardware", ORRERY_SOURCE_DIR "/data");
  return kSession;
}

/// Cells of one row by the names of their columns.
class Rows {
 public:
  explicit Rows(const std::string& path) : table_(CsvTable::parse(Source::from_file(path))) {}
  size_t size() const { return table_.rows(); }
  std::string text(size_t row, const char* column) const {
    return std::string(table_.at(row, table_.required_column(column)));
  }
  double number(size_t row, const char* column) const {
    return std::strtod(text(row, column).c_str(), nullptr);
  }
  /// `otherwise` where the cell is empty or 0.
  int whole(size_t row, const char* column, int otherwise = 1) const {
    const int value = static_cast<int>(number(row, column));
    return value > 0 ? value : otherwise;
  }

 private:
  CsvTable table_;
};

}  // namespace orrery
