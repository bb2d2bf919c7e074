#include "orrery/learn/ridge.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "orrery/base/error.h"

namespace orrery {
namespace {

void check(const Matrix& rows, std::span<const double> target, std::span<const double> weight,
           std::span<const double> precision) {
  if (target.size() != rows.rows() || precision.size() != rows.columns() ||
      (!weight.empty() && weight.size() != rows.rows()))
    throw_internal(fmt::format("{} targets, {} weights and {} precisions for {} rows of {}",
                               target.size(), weight.size(), precision.size(), rows.rows(),
                               rows.columns()));
  const auto expect = [](bool holds, size_t row) {
    if (!holds)
      throw Error(ErrorKind::kInput,
                  fmt::format("row {}: a number that is not finite, or a negative weight", row));
  };
  for (size_t r = 0; r < rows.rows(); ++r) {
    expect(std::isfinite(target[r]), r);
    expect(weight.empty() || (std::isfinite(weight[r]) && weight[r] >= 0), r);
    for (const float value : rows.row(r)) expect(std::isfinite(value), r);
  }
  for (const double p : precision)
    if (!std::isfinite(p) || p < 0) throw_internal("a prior's precision must be at least 0");
}

/// A symmetric positive definite matrix as L Lᵀ.
class Cholesky {
 public:
  /// `matrix` is n × n, row after row; its lower triangle is read.
  Cholesky(std::vector<double> matrix, size_t n) : n_(n), lower_(std::move(matrix)) {
    for (size_t j = 0; j < n_; ++j) {
      const double before = at(j, j);
      for (size_t k = 0; k < j; ++k) at(j, j) -= at(j, k) * at(j, k);
      // What is left of a column that others explain is rounding.
      if (at(j, j) <= before * static_cast<double>(n_) * std::numeric_limits<double>::epsilon())
        throw Error(ErrorKind::kInput,
                    fmt::format("column {} follows from those before it: its coefficient needs a "
                                "prior, or more rows",
                                j));
      at(j, j) = std::sqrt(at(j, j));
      for (size_t i = j + 1; i < n_; ++i) {
        for (size_t k = 0; k < j; ++k) at(i, j) -= at(i, k) * at(j, k);
        at(i, j) /= at(j, j);
      }
    }
  }

  /// L⁻¹ b
  std::vector<double> forward(std::vector<double> b) const {
    for (size_t i = 0; i < n_; ++i) {
      for (size_t k = 0; k < i; ++k) b[i] -= at(i, k) * b[k];
      b[i] /= at(i, i);
    }
    return b;
  }
  /// L⁻ᵀ b
  std::vector<double> backward(std::vector<double> b) const {
    for (size_t i = n_; i-- > 0;) {
      for (size_t k = i + 1; k < n_; ++k) b[i] -= at(k, i) * b[k];
      b[i] /= at(i, i);
    }
    return b;
  }

 private:
  double& at(size_t i, size_t j) { return lower_[i * n_ + j]; }
  double at(size_t i, size_t j) const { return lower_[i * n_ + j]; }

  size_t n_;
  std::vector<double> lower_;
};

}  // namespace

RidgeFit fit_ridge(const Matrix& rows, std::span<const double> target,
                   std::span<const double> weight, std::span<const double> precision) {
  check(rows, target, weight, precision);
  const size_t n = rows.columns();
  const auto weight_of = [&](size_t r) { return weight.empty() ? 1.0 : weight[r]; };

  std::vector<double> normal(n * n);
  std::vector<double> moment(n);
  for (size_t r = 0; r < rows.rows(); ++r) {
    const std::span<const float> x = rows.row(r);
    for (size_t i = 0; i < n; ++i) {
      const double weighted = weight_of(r) * x[i];
      moment[i] += weighted * target[r];
      for (size_t j = 0; j <= i; ++j) normal[i * n + j] += weighted * x[j];
    }
  }
  for (size_t i = 0; i < n; ++i) normal[i * n + i] += precision[i];

  const Cholesky cholesky(std::move(normal), n);
  RidgeFit fit;
  fit.coefficients = cholesky.backward(cholesky.forward(std::move(moment)));
  for (size_t r = 0; r < rows.rows(); ++r) {
    const std::span<const float> x = rows.row(r);
    double residual = target[r];
    for (size_t i = 0; i < n; ++i) residual -= fit.coefficients[i] * x[i];
    double leverage = 0;  // w |L⁻¹ x|²
    for (const double z : cholesky.forward({x.begin(), x.end()})) leverage += z * z;
    leverage *= weight_of(r);
    // A row that alone determines a coefficient has leverage 1 and cannot be left out.
    constexpr double kSoleSupport = 1e-12;
    fit.left_out_residuals.push_back(1 - leverage > kSoleSupport
                                         ? residual / (1 - leverage)
                                         : std::numeric_limits<double>::infinity());
  }
  return fit;
}

}  // namespace orrery
