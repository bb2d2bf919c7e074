#include "orrery/base/element_type.h"

#include <gtest/gtest.h>

namespace orrery {
namespace {

TEST(ElementType, NamesRoundTripThroughMlir) {
  for (int i = 0; i < kElementTypeCount; ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_EQ(element_type_from_mlir(mlir_name(type)), type) << mlir_name(type);
  }
}

TEST(ElementType, TheThreeSpellings) {
  EXPECT_EQ(element_type_from_mlir("i32"), ElementType::kS32);
  EXPECT_EQ(element_type_from_mlir("si32"), ElementType::kS32);
  EXPECT_EQ(element_type_from_mlir("ui8"), ElementType::kU8);
  EXPECT_EQ(element_type_from_mlir("f8E4M3FN"), ElementType::kF8E4M3FN);
  EXPECT_EQ(element_type_from_mlir("s32"), std::nullopt);
  EXPECT_EQ(element_type_from_hlo("s32"), ElementType::kS32);
  EXPECT_EQ(element_type_from_hlo("pred"), ElementType::kBool);
  EXPECT_EQ(element_type_from_hlo("f8e4m3fn"), ElementType::kF8E4M3FN);
  EXPECT_EQ(element_type_from_hlo("c128"), ElementType::kC128);
  EXPECT_EQ(element_type_from_hlo("i32"), std::nullopt);
  EXPECT_EQ(element_type_from_user("fp16"), ElementType::kF16);
  EXPECT_EQ(element_type_from_user("BF16"), ElementType::kBF16);
  EXPECT_EQ(element_type_from_user("fp8"), ElementType::kF8E4M3FN);
  EXPECT_EQ(element_type_from_user("fp4"), ElementType::kF4E2M1FN);
  EXPECT_EQ(element_type_from_user("tf32"), ElementType::kTF32);
  EXPECT_EQ(element_type_from_user("int8"), ElementType::kS8);
  EXPECT_EQ(element_type_from_user("f8E5M2"), ElementType::kF8E5M2);
  EXPECT_EQ(element_type_from_user("i32"), ElementType::kS32);
  for (const char* wrong : {"", "fp", "fp7", "i3", "float128", "bf 16"})
    EXPECT_EQ(element_type_from_user(wrong), std::nullopt) << wrong;
}

TEST(ElementType, Widths) {
  EXPECT_EQ(bit_width(ElementType::kBool), 8);  // a byte, as XLA and PyTorch store it
  EXPECT_EQ(bit_width(ElementType::kS4), 4);
  EXPECT_EQ(bit_width(ElementType::kF6E3M2FN), 6);
  EXPECT_EQ(bit_width(ElementType::kF8E8M0FNU), 8);
  EXPECT_EQ(bit_width(ElementType::kBF16), 16);
  EXPECT_EQ(bit_width(ElementType::kTF32), 32);  // stored as four bytes
  EXPECT_EQ(bit_width(ElementType::kC64), 64);
  EXPECT_EQ(bit_width(ElementType::kNone), 0);
}

TEST(ElementType, EveryTypeIsOfOneKindAtMost) {
  for (int i = 0; i < kElementTypeCount; ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_LE(is_float(type) + is_integer(type) + is_complex(type), 1) << mlir_name(type);
  }
  EXPECT_TRUE(is_float(ElementType::kF4E2M1FN));
  EXPECT_TRUE(is_float(ElementType::kTF32));
  EXPECT_TRUE(is_integer(ElementType::kU64));
  EXPECT_TRUE(is_integer(ElementType::kIndex));
  EXPECT_FALSE(is_integer(ElementType::kBool));
  EXPECT_TRUE(is_complex(ElementType::kC128));
}

}  // namespace
}  // namespace orrery
