#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace orrery {

/// A dense table of numbers, one row after the other.
class Matrix {
 public:
  Matrix() = default;
  /// All zero.
  Matrix(size_t rows, size_t columns) : rows_(rows), columns_(columns), values_(rows * columns) {}

  size_t rows() const { return rows_; }
  size_t columns() const { return columns_; }
  std::span<const float> row(size_t r) const { return {values_.data() + r * columns_, columns_}; }
  std::span<float> row(size_t r) { return {values_.data() + r * columns_, columns_}; }

  /// A copy of the rows named, in that order.
  Matrix select(std::span<const size_t> rows) const {
    Matrix chosen(rows.size(), columns_);
    for (size_t i = 0; i < rows.size(); ++i)
      for (size_t c = 0; c < columns_; ++c) chosen.row(i)[c] = row(rows[i])[c];
    return chosen;
  }

 private:
  size_t rows_ = 0;
  size_t columns_ = 0;
  std::vector<float> values_;
};

}  // namespace orrery
