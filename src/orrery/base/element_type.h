#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace orrery {

/// Every element type of StableHLO 1.20, HLO and ONNX, with what is not a number
/// (tokens, tuples' place-holders, strings) at the end.
enum class ElementType : uint8_t {
  kBool,
  kS2,
  kS4,
  kS8,
  kS16,
  kS32,
  kS64,
  kU2,
  kU4,
  kU8,
  kU16,
  kU32,
  kU64,
  kF4E2M1FN,
  kF6E2M3FN,
  kF6E3M2FN,
  kF8E3M4,
  kF8E4M3,
  kF8E4M3FN,
  kF8E4M3FNUZ,
  kF8E4M3B11FNUZ,
  kF8E5M2,
  kF8E5M2FNUZ,
  kF8E8M0FNU,
  kBF16,
  kF16,
  kTF32,
  kF32,
  kF64,
  kC64,
  kC128,
  kIndex,   ///< MLIR's `index`, 64 bits.
  kString,  ///< ONNX strings; sized as one byte an element, never computed on.
  kNone,    ///< Tokens, futures and other values without data.
};
inline constexpr int kElementTypeCount = static_cast<int>(ElementType::kNone) + 1;

/// Bits of one element as stored densely packed (i1 takes a byte, as XLA and
/// PyTorch store it; 4-bit types take 4 bits, f6 types 6).
int bit_width(ElementType type);
/// "bf16", "f8E4M3FN", "i32", "ui8", "i1", "complex<f32>" as MLIR writes them.
std::string_view mlir_name(ElementType type);
/// The inverse of `mlir_name`; nothing for an unknown spelling.
std::optional<ElementType> element_type_from_mlir(std::string_view name);
/// "bf16", "f8e4m3fn", "s32", "u8", "pred", "c64" as HLO writes them.
std::optional<ElementType> element_type_from_hlo(std::string_view name);
/// What people type for --dtype: fp32, tf32, fp16, bf16, fp8, int8, int4, fp4, …
/// and any of the spellings above.
std::optional<ElementType> element_type_from_user(std::string_view name);

bool is_float(ElementType type);
bool is_integer(ElementType type);  ///< Signed, unsigned, index; not bool.
bool is_complex(ElementType type);

}  // namespace orrery
