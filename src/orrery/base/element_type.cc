#include "orrery/base/element_type.h"

#include <array>
#include <cctype>
#include <string>

namespace orrery {
namespace {

struct Row {
  ElementType type;
  int bits;
  std::string_view mlir;
  std::string_view hlo;
};

using E = ElementType;
constexpr std::array<Row, kElementTypeCount> kRows = {{
    {E::kBool, 8, "i1", "pred"},
    {E::kS2, 2, "i2", "s2"},
    {E::kS4, 4, "i4", "s4"},
    {E::kS8, 8, "i8", "s8"},
    {E::kS16, 16, "i16", "s16"},
    {E::kS32, 32, "i32", "s32"},
    {E::kS64, 64, "i64", "s64"},
    {E::kU2, 2, "ui2", "u2"},
    {E::kU4, 4, "ui4", "u4"},
    {E::kU8, 8, "ui8", "u8"},
    {E::kU16, 16, "ui16", "u16"},
    {E::kU32, 32, "ui32", "u32"},
    {E::kU64, 64, "ui64", "u64"},
    {E::kF4E2M1FN, 4, "f4E2M1FN", "f4e2m1fn"},
    {E::kF6E2M3FN, 6, "f6E2M3FN", "f6e2m3fn"},
    {E::kF6E3M2FN, 6, "f6E3M2FN", "f6e3m2fn"},
    {E::kF8E3M4, 8, "f8E3M4", "f8e3m4"},
    {E::kF8E4M3, 8, "f8E4M3", "f8e4m3"},
    {E::kF8E4M3FN, 8, "f8E4M3FN", "f8e4m3fn"},
    {E::kF8E4M3FNUZ, 8, "f8E4M3FNUZ", "f8e4m3fnuz"},
    {E::kF8E4M3B11FNUZ, 8, "f8E4M3B11FNUZ", "f8e4m3b11fnuz"},
    {E::kF8E5M2, 8, "f8E5M2", "f8e5m2"},
    {E::kF8E5M2FNUZ, 8, "f8E5M2FNUZ", "f8e5m2fnuz"},
    {E::kF8E8M0FNU, 8, "f8E8M0FNU", "f8e8m0fnu"},
    {E::kBF16, 16, "bf16", "bf16"},
    {E::kF16, 16, "f16", "f16"},
    {E::kTF32, 32, "tf32", "tf32"},
    {E::kF32, 32, "f32", "f32"},
    {E::kF64, 64, "f64", "f64"},
    {E::kC64, 64, "complex<f32>", "c64"},
    {E::kC128, 128, "complex<f64>", "c128"},
    {E::kIndex, 64, "index", "index"},
    {E::kString, 8, "string", "string"},
    {E::kNone, 0, "none", "token"},
}};

constexpr const Row& row(ElementType type) { return kRows[static_cast<size_t>(type)]; }

}  // namespace

int bit_width(ElementType type) { return row(type).bits; }
std::string_view mlir_name(ElementType type) { return row(type).mlir; }

std::optional<ElementType> element_type_from_mlir(std::string_view name) {
  if (name.starts_with("si")) name.remove_prefix(1);  // MLIR's explicitly signed integers
  for (const Row& r : kRows)
    if (r.mlir == name) return r.type;
  return std::nullopt;
}

std::optional<ElementType> element_type_from_hlo(std::string_view name) {
  for (const Row& r : kRows)
    if (r.hlo == name) return r.type;
  return std::nullopt;
}

std::optional<ElementType> element_type_from_user(std::string_view name) {
  struct Alias {
    std::string_view name;
    ElementType type;
  };
  static constexpr std::array<Alias, 24> kAliases = {
      {{"fp64", E::kF64},       {"float64", E::kF64},  {"double", E::kF64},
       {"fp32", E::kF32},       {"float32", E::kF32},  {"float", E::kF32},
       {"fp16", E::kF16},       {"float16", E::kF16},  {"half", E::kF16},
       {"bfloat16", E::kBF16},  {"fp8", E::kF8E4M3FN}, {"e4m3", E::kF8E4M3FN},
       {"e5m2", E::kF8E5M2},    {"fp4", E::kF4E2M1FN}, {"nvfp4", E::kF4E2M1FN},
       {"mxfp4", E::kF4E2M1FN}, {"int4", E::kS4},      {"int8", E::kS8},
       {"int16", E::kS16},      {"int32", E::kS32},    {"int64", E::kS64},
       {"uint8", E::kU8},       {"bool", E::kBool},    {"float8_e4m3fn", E::kF8E4M3FN}}};
  std::string lower;
  for (char c : name) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const Alias& a : kAliases)
    if (a.name == lower) return a.type;
  if (auto type = element_type_from_hlo(lower)) return type;
  return element_type_from_mlir(name);
}

bool is_float(ElementType type) { return type >= E::kF4E2M1FN && type <= E::kF64; }
bool is_integer(ElementType type) {
  return (type >= E::kS2 && type <= E::kU64) || type == E::kIndex;
}
bool is_complex(ElementType type) { return type == E::kC64 || type == E::kC128; }

}  // namespace orrery
