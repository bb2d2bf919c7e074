#include "orrery/kernel/tile/contradiction.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace orrery {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

struct Level {
  double middle = 0;
  size_t rows = 0;
};
/// By device, then by operation.
using Levels = std::map<int, std::map<int, Level>>;

/// How far the operation lies from what the other devices have of it.
std::optional<double> departure(const Levels& levels, int device, int operation, bool known) {
  const double own = levels.at(device).at(operation).middle;
  if (known) return own;
  std::vector<double> others;
  for (const auto& [other, operations] : levels) {
    const auto same = operations.find(operation);
    if (other != device && same != operations.end()) others.push_back(same->second.middle);
  }
  if (others.size() < kFewestWitnesses) return std::nullopt;
  return own - median(std::move(others));
}

}  // namespace

std::vector<Contradiction> find_contradictions(std::span<const Departure> rows, bool known) {
  std::map<int, std::map<int, std::vector<double>>> values;
  for (const Departure& row : rows) values[row.device][row.operation].push_back(row.log_ratio);
  Levels levels;
  for (auto& [device, operations] : values)
    for (auto& [operation, of] : operations)
      if (of.size() >= kFewestToContradict) levels[device][operation] = {median(of), of.size()};

  std::vector<Contradiction> found;
  for (const auto& [device, operations] : levels) {
    std::map<int, double> departures;
    for (const auto& [operation, level] : operations)
      if (const auto d = departure(levels, device, operation, known)) departures[operation] = *d;
    for (const auto& [operation, d] : departures) {
      std::vector<double> rest;
      for (const auto& [other, of_other] : departures)
        if (other != operation) rest.push_back(of_other);
      if (rest.empty()) continue;
      const double beside = median(std::move(rest));
      if (d - beside > std::log(kContradiction) && d > std::abs(beside))
        found.push_back({device, operation, std::exp(d - beside), operations.at(operation).rows});
    }
  }
  return found;
}

}  // namespace orrery
