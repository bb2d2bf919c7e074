#include "orrery/learn/conformal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "orrery/base/error.h"

namespace orrery {
namespace {

IntervalMultipliers multipliers(std::vector<double> ratios, double coverage) {
  std::ranges::sort(ratios);
  const auto n = static_cast<double>(ratios.size());
  const double tail = (n + 1) * (1 - coverage) / 2;
  // Ranks count from 1. A rank meant to be whole must not be lost to rounding.
  constexpr double kRounding = 1e-9;
  const double low = std::clamp(std::floor(tail + kRounding), 1.0, n);
  const double high = std::clamp(std::ceil(n + 1 - tail - kRounding), 1.0, n);
  return {ratios[static_cast<size_t>(low) - 1], ratios[static_cast<size_t>(high) - 1],
          ratios.size()};
}

std::string json_of(const IntervalMultipliers& m) {
  return fmt::format("[{},{},{}]", json_number(m.low), json_number(m.high), m.rows);
}

IntervalMultipliers multipliers_from_json(const JsonValue& value) {
  const auto parts = value.elements(3, 3);
  const IntervalMultipliers read{parts[0].number(), parts[1].number(),
                                 static_cast<size_t>(parts[2].whole(0, INT64_MAX))};
  if (read.low > read.high) value.fail("the low multiplier is above the high one");
  return read;
}

}  // namespace

ConformalIntervals::ConformalIntervals(std::span<const HeldOutRow> rows, double coverage)
    : coverage_(coverage) {
  if (!(coverage > 0 && coverage < 1))
    throw_usage(fmt::format("an interval's coverage must lie between 0 and 1, not {}", coverage));
  if (rows.empty()) throw Error(ErrorKind::kInput, "no held-out rows to set intervals by");
  std::vector<double> all;
  std::map<std::string, std::vector<double>> by_group;
  for (size_t r = 0; r < rows.size(); ++r) {
    const double ratio = rows[r].residual / rows[r].scale;
    if (!(rows[r].scale > 0) || !std::isfinite(rows[r].scale) || !std::isfinite(ratio))
      throw Error(ErrorKind::kInput,
                  fmt::format("held-out row {}: expected a finite residual and a scale above 0, "
                              "found {} and {}",
                              r, rows[r].residual, rows[r].scale));
    all.push_back(ratio);
    by_group[rows[r].group].push_back(ratio);
  }
  pooled_ = multipliers(std::move(all), coverage);
  for (auto& [group, ratios] : by_group) {
    IntervalMultipliers own = multipliers(std::move(ratios), coverage);
    const double share =
        std::min(1.0, static_cast<double>(own.rows) / static_cast<double>(kRowsOfItsOwn));
    own.low = std::lerp(pooled_.low, own.low, share);
    own.high = std::lerp(pooled_.high, own.high, share);
    groups_.emplace(group, own);
  }
}

const IntervalMultipliers& ConformalIntervals::of(std::string_view group) const {
  const auto found = groups_.find(group);
  return found == groups_.end() ? pooled_ : found->second;
}

std::string to_json(const ConformalIntervals& intervals) {
  std::string text = fmt::format("{{\"coverage\":{},\"pooled\":{},\"groups\":{{",
                                 json_number(intervals.coverage_), json_of(intervals.pooled_));
  const char* separator = "\n";
  for (const auto& [group, own] : intervals.groups_) {
    text += fmt::format("{}{}:{}", separator, json_string(group), json_of(own));
    separator = ",\n";
  }
  return text + "}}";
}

ConformalIntervals intervals_from_json(const JsonValue& value) {
  value.expect_only({"coverage", "pooled", "groups"});
  ConformalIntervals read;
  read.coverage_ = value.member("coverage").number();
  if (!(read.coverage_ > 0 && read.coverage_ < 1))
    value.member("coverage").fail("expected a number between 0 and 1");
  read.pooled_ = multipliers_from_json(value.member("pooled"));
  for (const auto& [group, own] : value.member("groups").members())
    read.groups_.emplace(group, multipliers_from_json(own));
  return read;
}

}  // namespace orrery
