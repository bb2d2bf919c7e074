#include "orrery/api/device_prices.h"

#include <fmt/format.h>

#include "orrery/base/error.h"

namespace orrery {

double DevicePrices::of(const std::string& device) const {
  for (const auto& [name, price] : named)
    if (name == device) return price;
  if (given() && otherwise <= 0)
    throw_usage(fmt::format("there are prices, but none of {}: give --price {}=…", device, device));
  return otherwise;
}

}  // namespace orrery
