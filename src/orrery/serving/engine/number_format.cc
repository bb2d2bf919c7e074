#include "orrery/serving/engine/number_format.h"

#include <fmt/format.h>

#include <array>

#include "orrery/base/error.h"

namespace orrery {
namespace {

// Scales: one of 32 bits for a block of 128 × 128, of 8 bits for 16 (NVFP4), of 16 bits for 128
// (GPTQ, AWQ), of 8 bits for 32 (MXFP4).
constexpr std::array<NumberFormat, 9> kFormats = {{{"fp32", 4},
                                                   {"bf16", 2},
                                                   {"fp16", 2},
                                                   {"fp8", 1},
                                                   {"fp8_block", 1 + 4.0 / (128 * 128)},
                                                   {"fp4", 0.5 + 1.0 / 16},
                                                   {"fp4_weight", 0.5 + 1.0 / 32},
                                                   {"int4_weight", 0.5 + 2.0 / 128},
                                                   {"int8", 1}}};

}  // namespace

const NumberFormat& number_format(std::string_view name) {
  std::string names;
  for (const NumberFormat& format : kFormats) {
    if (format.name == name) return format;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", format.name);
  }
  throw_usage(fmt::format("unknown number format '{}': give {}", name, names));
}

std::string operator_name(ElementType type) {
  switch (type) {
    case ElementType::kF16:
      return "fp16";
    case ElementType::kF32:
      return "fp32";
    case ElementType::kF8E4M3FN:
    case ElementType::kF8E5M2:
      return "fp8";
    case ElementType::kS8:
      return "int8";
    default:
      return "bf16";
  }
}

std::string format_name(const WeightFormat& format, ElementType plain) {
  const ElementType storage = format.storage == ElementType::kNone ? plain : format.storage;
  if (bit_width(storage) == 4) {
    if (!is_float(storage)) return "int4_weight";
    const bool narrow = format.compute != ElementType::kNone && bit_width(format.compute) == 4;
    return narrow ? "fp4" : "fp4_weight";
  }
  if (bit_width(storage) == 8 && is_float(storage))
    return format.block_in > 1 ? "fp8_block" : "fp8";
  return operator_name(storage);
}

}  // namespace orrery
