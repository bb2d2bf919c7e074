#pragma once

#include <optional>
#include <vector>

#include "orrery/workload/partition/exchange.h"
#include "orrery/workload/partition/rule.h"

namespace orrery::partition {

/// How an operation itself is shared out, as the axes of its factors: what it sums over stays where
/// all operands have it; else by its results, and for what these do not have by its largest
/// operand. `operands` are the layouts the operands have, nothing for constants, which take any.
std::vector<Axes> share_out(const DeviceGrid& grid, const OpView& op, const Rule& rule,
                            const std::vector<std::optional<Layout>>& operands,
                            const std::vector<Layout>& results);

/// The layout that a tensor of the operation then has.
Layout layout_by(const Rule::Tensor& tensor, const std::vector<Axes>& of_factors);

}  // namespace orrery::partition
