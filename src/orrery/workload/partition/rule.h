#pragma once

#include <cstdint>
#include <vector>

#include "orrery/workload/workload.h"

namespace orrery::partition {

/// How the dimensions of an operation's operands and results belong together, as the sharding
/// rules of Shardy say it (openxla.org/shardy, "Op sharding rule"): each dimension is a product
/// of factors, major to minor, and devices that share out a factor share out every dimension it
/// is in. A dimension without factors is needed whole on every device.
struct Rule {
  struct Factor {
    int64_t size = 1;
    /// Results without the factor are partial where it is shared out, and must be summed (or
    /// whatever the operation reduces by) over the devices.
    bool reduced = false;
  };
  using Dimension = std::vector<int>;     ///< Factors, major to minor.
  using Tensor = std::vector<Dimension>;  ///< By dimension.
  std::vector<Factor> factors;
  std::vector<Tensor> operands;
  std::vector<Tensor> results;
  bool known = true;  ///< Not: nothing is known of the operation, so that all is needed whole.

  static bool has(const Tensor& tensor, int factor);
  bool in_results(int factor) const;
};

/// The rule of an operation without bodies of its own to partition.
Rule rule_of(const OpView& op);

/// operand i and result i are the same thing.
Rule identity_rule(const Type& type);

}  // namespace orrery::partition
