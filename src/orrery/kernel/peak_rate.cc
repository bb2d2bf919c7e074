#include "orrery/kernel/peak_rate.h"

#include <array>
#include <span>

namespace orrery {
namespace {

using E = ElementType;

/// Types whose unit may stand in for one the device has no rate for, in order:
/// the next wider one that is exact for it.
std::span<const ElementType> stand_ins(ElementType type) {
  static constexpr std::array kFloat4 = {E::kF8E4M3FN, E::kBF16, E::kF16, E::kF32};
  static constexpr std::array kFloat8 = {E::kF8E4M3FN, E::kF8E5M2, E::kBF16, E::kF16, E::kF32};
  static constexpr std::array kHalf = {E::kF16, E::kBF16, E::kTF32, E::kF32};
  static constexpr std::array kSingle = {E::kF32};
  static constexpr std::array kDouble = {E::kF64, E::kF32};
  static constexpr std::array kSmallInteger = {E::kS8, E::kS32, E::kF32};
  static constexpr std::array kInteger = {E::kS32, E::kF32};
  if (type == E::kF64 || type == E::kC128) return kDouble;
  if (type == E::kF32 || type == E::kTF32 || type == E::kC64) return kSingle;
  if (type == E::kBF16 || type == E::kF16) return kHalf;
  if (type >= E::kF8E3M4 && type <= E::kF8E8M0FNU) return kFloat8;
  if (is_float(type)) return kFloat4;
  if (bit_width(type) <= 8 && type != E::kBool) return kSmallInteger;
  return kInteger;
}

}  // namespace

Rate find_rate(const PeakRates& rates, ElementType type) {
  if (rates[type].value > 0) return {rates[type].value, type};
  for (ElementType t : stand_ins(type))
    if (rates[t].value > 0) return {rates[t].value, t};
  return {};
}

Rate product_rate(const Device& device, ElementType type) {
  const Rate matrix = find_rate(device.matrix, type);
  const Rate vector = find_rate(device.vector, type);
  if (matrix.used != type && vector.flops_per_second > matrix.flops_per_second) return vector;
  return matrix;
}

}  // namespace orrery
