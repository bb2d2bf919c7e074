#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/element_type.h"
#include "orrery/workload/zoo/network.h"

namespace orrery {

/// A number format of products by the name that operators have for it.
struct NumberFormat {
  std::string_view name;  ///< "bf16", "fp8_block" …
  double bytes;           ///< Of one weight, its share of the scales included.
};
/// `kUsage` with the names there are.
const NumberFormat& number_format(std::string_view name);

/// The name of a plain type.
std::string operator_name(ElementType type);
/// How operators call products with weights of this format, in a model of type `plain`.
std::string format_name(const WeightFormat& format, ElementType plain);

}  // namespace orrery
