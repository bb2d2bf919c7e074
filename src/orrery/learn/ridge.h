#pragma once

#include <span>
#include <vector>

#include "orrery/learn/matrix.h"

namespace orrery {

struct RidgeFit {
  std::vector<double> coefficients;
  /// For each row, its target less what a fit without that row predicts for it; infinite
  /// where no other row tells a free coefficient.
  std::vector<double> left_out_residuals;
};

/// Linear regression with a Gaussian prior of mean 0 and the precision given for each
/// coefficient: the β that solves (XᵀWX + Λ) β = XᵀWy, by Cholesky's decomposition; a
/// precision of 0 leaves a coefficient free. `weight` may be empty, for ones. A row's
/// residual when it is left out is r / (1 - h), with its leverage
/// h = w xᵀ (XᵀWX + Λ)⁻¹ x (Allen's PRESS; Cook and Weisberg, "Residuals and Influence
/// in Regression", 1982). For up to some hundred columns.
///
/// Throws `kInput` when the columns do not determine the coefficients (a precision above
/// 0 would), when a number is not finite or a weight negative; `kInternal` for sizes that
/// do not belong together.
RidgeFit fit_ridge(const Matrix& rows, std::span<const double> target,
                   std::span<const double> weight, std::span<const double> precision);

}  // namespace orrery
