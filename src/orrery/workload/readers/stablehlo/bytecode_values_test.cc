// Every kind of type and attribute that VHLO and the builtin dialect encode.

#include "orrery/workload/readers/stablehlo/bytecode_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "orrery/workload/readers/stablehlo/bytecode_for_test.h"
#include "orrery/workload/readers/stablehlo/vhlo.h"

namespace orrery::stablehlo {
namespace {

using testing::bytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::list;
using testing::Module;
using testing::signed_varint;
using testing::sizes;
using testing::varint;
using testing::varints;
using Kind = BytecodeAttribute::Kind;

/// A file of the module's types and attributes, opened.
class Opened {
 public:
  explicit Opened(Module& module, ReadOptions options = {})
      : options_(std::move(options)),
        source_(Source::from_memory("f", module.file({})).binary()),
        file_(source_),
        builder_("stablehlo", "f"),
        values(source_, file_, options_, builder_) {}

  Type type(uint64_t index) { return builder_.type(values.type(index, 0)); }
  Type type_of(const BytecodeAttribute& attribute) { return builder_.type(attribute.type); }
  std::string error_of_type(uint64_t index) {
    return error_of([&] { values.type(index, 0); });
  }
  static std::string error_of(const std::function<void()>& act) {
    try {
      act();
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  }
  std::vector<std::string> notes() const {
    const auto all = builder_.so_far().notes();
    return {all.begin(), all.end()};
  }

 private:
  ReadOptions options_;
  Source source_;
  BytecodeFile file_;
  WorkloadBuilder builder_;

 public:
  BytecodeValues values;
};

TEST(BytecodeTypes, ElementTypesByTheirCode) {
  // The codes of openxla/stablehlo VhloBytecode.cpp.
  const std::vector<std::pair<uint64_t, ElementType>> codes = {{0, ElementType::kBool},
                                                               {2, ElementType::kBF16},
                                                               {3, ElementType::kF16},
                                                               {4, ElementType::kF32},
                                                               {5, ElementType::kF64},
                                                               {6, ElementType::kF8E4M3FN},
                                                               {7, ElementType::kF8E5M2},
                                                               {9, ElementType::kIndex},
                                                               {10, ElementType::kS4},
                                                               {11, ElementType::kS8},
                                                               {12, ElementType::kS16},
                                                               {13, ElementType::kS32},
                                                               {14, ElementType::kS64},
                                                               {15, ElementType::kU4},
                                                               {16, ElementType::kU8},
                                                               {17, ElementType::kU16},
                                                               {18, ElementType::kU32},
                                                               {19, ElementType::kU64},
                                                               {27, ElementType::kF8E4M3FNUZ},
                                                               {28, ElementType::kF8E5M2FNUZ},
                                                               {29, ElementType::kF8E4M3B11FNUZ},
                                                               {31, ElementType::kS2},
                                                               {32, ElementType::kU2},
                                                               {34, ElementType::kTF32},
                                                               {35, ElementType::kF8E4M3},
                                                               {36, ElementType::kF8E3M4},
                                                               {37, ElementType::kF4E2M1FN},
                                                               {38, ElementType::kF6E2M3FN},
                                                               {39, ElementType::kF6E3M2FN},
                                                               {40, ElementType::kF8E8M0FNU}};
  Module module;
  for (const auto& [code, element] : codes) module.type("vhlo", varint(code));
  Opened opened(module);
  for (uint64_t i = 0; i < codes.size(); ++i) {
    EXPECT_EQ(opened.type(i).element, codes[i].second) << codes[i].first;
    EXPECT_EQ(opened.type(i).rank(), 0);
  }
}

TEST(BytecodeTypes, TensorsAndWhatIsMadeOfTypes) {
  Module module;
  const uint64_t f32 = module.type("vhlo", bytes({0x09}));                            // code 4
  const uint64_t plain = module.type("vhlo", bytes({0x29, 0x05, 0x0D, 0x05, 0x01}));  // [3, 1] of 0
  const uint64_t complex = module.type("vhlo", bytes({0x03, 0x01}));
  const uint64_t tuple = module.type("vhlo", bytes({0x2F, 0x05, 0x01, 0x03}));
  const uint64_t token = module.type("vhlo", bytes({0x2D}));
  const uint64_t buffer = module.type("vhlo", varint(41) + sizes({2}) + varint(f32));
  const uint64_t future = module.type("vhlo", varint(42) + list({plain}));
  const uint64_t futures = module.type("vhlo", varint(42) + list({plain, f32}));
  const uint64_t unranked = module.type("vhlo", varints({25, f32}));
  const uint64_t open = module.type("vhlo", varint(20) + sizes({INT64_MIN, 8}) + varint(f32));
  const uint64_t function = module.type("vhlo", varint(8) + list({f32}) + list({plain, f32}));
  const uint64_t of_function = module.attribute("vhlo", varints({17, function}));
  Opened opened(module);
  EXPECT_THAT(opened.type(plain).dims, ElementsAre(3, 1));
  EXPECT_EQ(opened.type(plain).element, ElementType::kF32);
  EXPECT_EQ(opened.type(complex).element, ElementType::kC64);
  EXPECT_EQ(opened.type(tuple).kind, Type::Kind::kTuple);
  EXPECT_EQ(opened.type(tuple).bytes, 4 + 12);
  EXPECT_EQ(opened.type(token).kind, Type::Kind::kToken);
  EXPECT_THAT(opened.type(buffer).dims, ElementsAre(2));
  EXPECT_THAT(opened.type(future).dims, ElementsAre(3, 1));
  EXPECT_EQ(opened.type(futures).members.size(), 2u);
  EXPECT_TRUE(opened.type(unranked).dynamic);
  EXPECT_THAT(opened.type(open).dims, ElementsAre(kDynamic, 8));
  const auto signature = opened.values.signature(opened.values.attribute(of_function));
  EXPECT_EQ(signature.arguments.size(), 1u);
  EXPECT_EQ(signature.results.size(), 2u);
}

TEST(BytecodeTypes, OpenSizesAreBoundOrTakenAtTheirBound) {
  Module module;
  const uint64_t f32 = module.type("vhlo", varint(4));
  const uint64_t bounds = module.attribute("vhlo", varint(18) + sizes({16, INT64_MIN}));
  const uint64_t bounded =
      module.type("vhlo", varints({21, bounds}) + sizes({INT64_MIN, INT64_MIN}) + varint(f32));
  Opened opened(module);
  EXPECT_THAT(opened.type(bounded).dims, ElementsAre(16, kDynamic));
  EXPECT_THAT(opened.notes(), ElementsAre("bounded dynamic dimensions are taken at their bound"));
  ReadOptions options;
  options.bindings["?"] = 5;
  Opened bound(module, options);
  EXPECT_THAT(bound.type(bounded).dims, ElementsAre(5, 5));
}

TEST(BytecodeTypes, QuantisedTypesSayWhatIsStored) {
  Module module;
  const uint64_t i8 = module.type("vhlo", varint(11));
  const uint64_t f32 = module.type("vhlo", varint(4));
  const std::string rest = signed_varint(0x3FA0000000000000) + sizes({}) + bytes({1, 1});
  const uint64_t quantised = module.type("vhlo", varints({24, 1, i8, f32}) + rest);
  const uint64_t as_unsigned = module.type("vhlo", varints({24, 0, i8, f32}) + rest);
  const uint64_t per_axis = module.type("vhlo", varints({30, 1, i8, f32, 0}) + rest);
  const uint64_t tensor = module.tensor_type({4}, per_axis);
  Opened opened(module);
  EXPECT_EQ(opened.type(quantised).element, ElementType::kS8);
  EXPECT_EQ(opened.type(quantised).expressed, ElementType::kF32);
  EXPECT_EQ(opened.type(as_unsigned).element, ElementType::kU8);
  EXPECT_EQ(opened.type(tensor).element, ElementType::kS8);
  EXPECT_EQ(opened.type(tensor).expressed, ElementType::kF32);
  EXPECT_EQ(opened.type(tensor).bytes, 4);
}

TEST(BytecodeTypes, BuiltinAndTextualTypes) {
  Module module;
  const uint64_t i32 = module.type("builtin", varints({0, 32 << 2}));
  const uint64_t u8 = module.type("builtin", varints({0, 8 << 2 | 2}));
  const uint64_t index = module.type("builtin", varint(1));
  const uint64_t bf16 = module.type("builtin", varint(3));
  const uint64_t f16 = module.type("builtin", varint(4));
  const uint64_t f64 = module.type("builtin", varint(6));
  const uint64_t complex = module.type("builtin", varints({9, f64}));
  const uint64_t tensor = module.type("builtin", varint(13) + sizes({7}) + varint(bf16));
  const uint64_t none = module.type("builtin", varint(12));
  const uint64_t written = module.type("builtin", "f8E4M3FN" + std::string(1, '\0'), false);
  const uint64_t other = module.type("sparse", "!sparse.thing<4>" + std::string(1, '\0'), false);
  Opened opened(module);
  EXPECT_EQ(opened.type(i32).element, ElementType::kS32);
  EXPECT_EQ(opened.type(u8).element, ElementType::kU8);
  EXPECT_EQ(opened.type(index).element, ElementType::kIndex);
  EXPECT_EQ(opened.type(f16).element, ElementType::kF16);
  EXPECT_EQ(opened.type(complex).element, ElementType::kC128);
  EXPECT_THAT(opened.type(tensor).dims, ElementsAre(7));
  EXPECT_EQ(opened.type(none).kind, Type::Kind::kToken);
  EXPECT_EQ(opened.type(written).element, ElementType::kF8E4M3FN);
  EXPECT_EQ(opened.type(other).kind, Type::Kind::kToken);
  EXPECT_THAT(opened.notes(),
              ElementsAre("values of type !sparse.thing are taken as having no data"));
}

TEST(BytecodeTypes, FaultsAreRefused) {
  Module module;
  const uint64_t f32 = module.type("vhlo", varint(4));
  const uint64_t itself = module.type("vhlo", varint(23) + list({1}));
  const uint64_t newer = module.type("vhlo", varint(43));
  const uint64_t foreign = module.type("other", varint(0));
  const uint64_t negative = module.type("vhlo", varint(20) + sizes({-7}) + varint(f32));
  const uint64_t huge = module.type("vhlo", varint(20) + sizes({INT64_MAX, 2}) + varint(f32));
  const uint64_t of_tensor = module.tensor_type({2}, module.tensor_type({2}, f32));
  const uint64_t missing = module.tensor_type({2}, 99);
  const uint64_t odd = module.type("builtin", varints({0, 17 << 2}));
  const uint64_t cut = module.type("vhlo", varint(20) + bytes({0x05, 0x05}));
  Opened opened(module);
  EXPECT_THAT(opened.error_of_type(itself), HasSubstr("a type that holds itself"));
  EXPECT_THAT(opened.error_of_type(newer), HasSubstr("VHLO type 43 is not known"));
  EXPECT_THAT(opened.error_of_type(foreign), HasSubstr("dialect 'other' encodes its own way"));
  EXPECT_NE(opened.error_of_type(negative), "");
  EXPECT_NE(opened.error_of_type(huge), "");
  EXPECT_THAT(opened.error_of_type(of_tensor), HasSubstr("no element type"));
  EXPECT_THAT(opened.error_of_type(missing), HasSubstr("type 99 of 11"));
  EXPECT_THAT(opened.error_of_type(odd), HasSubstr("'i17' is not an element type"));
  EXPECT_THAT(opened.error_of_type(cut), HasSubstr("entries where"));
  EXPECT_THAT(opened.error_of_type(1000), HasSubstr("type 1000 of 11"));
}

TEST(BytecodeTypes, DeepTypesAreRefused) {
  Module module;
  module.type("vhlo", varint(4));
  for (uint64_t i = 0; i < 300; ++i) module.type("vhlo", varint(23) + list({i}));
  Opened opened(module);
  EXPECT_THAT(opened.error_of_type(300), HasSubstr("nested deeper than 200 levels"));
}

TEST(BytecodeAttributes, Scalars) {
  Module module;
  const uint64_t i64 = module.type("vhlo", varint(14));
  const uint64_t i4 = module.type("vhlo", varint(10));
  const uint64_t ui8 = module.type("vhlo", varint(16));
  const uint64_t f32 = module.type("vhlo", varint(4));
  const uint64_t f64 = module.type("vhlo", varint(5));
  const uint64_t integer = module.attribute("vhlo", bytes({0x13, 0x01, 0x03}));  // i64, -1
  const uint64_t small = module.attribute("vhlo", varints({9, i4}) + bytes({0x0F}));
  const uint64_t byte = module.attribute("vhlo", varints({9, ui8}) + bytes({0xFF}));
  const uint64_t real = module.attribute("vhlo", varints({8, f32}) + signed_varint(0x3F800000));
  const uint64_t half =
      module.attribute("vhlo", varints({8, f64}) + signed_varint(0x3FE0000000000000));
  const uint64_t yes = module.attribute("vhlo", bytes({0x05, 0x03}));
  const uint64_t text = module.text("hello");
  const uint64_t less = module.attribute("vhlo", bytes({0x07, 0x0B}));  // LT is 5
  const uint64_t highest = module.attribute("vhlo", bytes({0x17, 0x05}));
  const uint64_t type = module.attribute("vhlo", varints({17, f32}));
  Opened opened(module);
  EXPECT_EQ(opened.values.attribute(integer).kind, Kind::kInteger);
  EXPECT_EQ(opened.values.attribute(integer).integer, -1);
  EXPECT_EQ(opened.type_of(opened.values.attribute(integer)).element, ElementType::kS64);
  EXPECT_EQ(opened.values.attribute(small).integer, -1);
  EXPECT_EQ(opened.values.attribute(byte).integer, 255);
  EXPECT_EQ(opened.values.attribute(real).kind, Kind::kReal);
  EXPECT_EQ(opened.values.attribute(real).real, 1);
  EXPECT_EQ(opened.values.attribute(half).real, 0.5);
  EXPECT_EQ(opened.values.attribute(yes).integer, 1);
  EXPECT_EQ(opened.values.attribute(text).text, "hello");
  EXPECT_EQ(opened.values.string(text), "hello");
  EXPECT_EQ(opened.values.attribute(less).text, "LT");
  EXPECT_EQ(opened.values.attribute(highest).text, "HIGHEST");
  EXPECT_EQ(opened.values.element_name(opened.values.attribute(type)), "f32");
  EXPECT_THAT(i64, 0u);
}

TEST(BytecodeAttributes, WhatNobodyNeedsIsReadPast) {
  Module module;
  for (const uint64_t code : {4, 5, 7, 10, 12, 13, 16, 18, 19, 20, 21, 22})
    module.attribute("vhlo", varints({code, 0, 0}));
  module.attribute("builtin", varints({16, 0, 0}));  // a resource
  module.attribute("other", varint(3));
  const uint64_t written = module.attribute("other", "#other.x<1>" + std::string(1, '\0'), false);
  Opened opened(module);
  for (uint64_t i = 0; i < written; ++i)
    EXPECT_EQ(opened.values.attribute(i).kind, Kind::kOther) << i;
  EXPECT_EQ(opened.values.attribute(written).text, "#other.x<1>");
}

TEST(BytecodeAttributes, CollectionsNameTheirParts) {
  Module module;
  const uint64_t a = module.text("a");
  const uint64_t b = module.text("b");
  const uint64_t array = module.attribute("vhlo", varint(1) + list({a, b}));
  const uint64_t dictionary = module.attribute("vhlo", varints({6, 1, a, b}));
  const uint64_t name = module.attribute("builtin", varints({2, module.string("n")}));
  const uint64_t builtin = module.attribute("builtin", varints({1, 1, name, a}));
  const uint64_t symbol = module.attribute("builtin", varints({4, name}));
  const uint64_t unit = module.attribute("builtin", varint(7));
  Opened opened(module);
  const BytecodeAttribute parts = opened.values.attribute(array);
  EXPECT_EQ(parts.kind, Kind::kArray);
  ByteCursor cursor = opened.values.parts(parts);
  EXPECT_EQ(cursor.count(), 2u);
  EXPECT_EQ(opened.values.attribute(cursor).text, "a");
  EXPECT_EQ(opened.values.attribute(cursor).text, "b");
  EXPECT_EQ(opened.values.attribute(dictionary).kind, Kind::kDictionary);
  EXPECT_EQ(opened.values.attribute(builtin).kind, Kind::kDictionary);
  EXPECT_EQ(opened.values.attribute(symbol).kind, Kind::kSymbol);
  EXPECT_EQ(opened.values.attribute(symbol).text, "n");
  EXPECT_EQ(opened.values.attribute(unit).kind, Kind::kUnit);
}

std::vector<int64_t> integers_of(Opened& opened, uint64_t tensor, size_t most = 64) {
  std::vector<int64_t> values;
  if (!opened.values.integers(opened.values.attribute(tensor), most, &values)) return {-999};
  return values;
}

TEST(BytecodeAttributes, IntegersOfTensors) {
  Module module;
  const uint64_t i64 = module.type("vhlo", varint(14));
  const uint64_t i8 = module.type("vhlo", varint(11));
  const uint64_t u16 = module.type("vhlo", varint(17));
  const uint64_t i1 = module.type("vhlo", varint(0));
  const uint64_t f32 = module.type("vhlo", varint(4));
  const uint64_t two = module.tensor(
      module.tensor_type({2}, i64), bytes({1, 0, 0, 0, 0, 0, 0, 0, 0xFE}) + std::string(7, '\xFF'));
  const uint64_t splat = module.tensor(module.tensor_type({5}, i8), bytes({0xFD}));
  const uint64_t wide = module.tensor(module.tensor_type({2}, u16), bytes({0xFF, 0xFF, 2, 1}));
  const uint64_t packed = module.tensor(module.tensor_type({10}, i1), bytes({0x05, 0x02}));
  const uint64_t all = module.tensor(module.tensor_type({10}, i1), bytes({0xFF, 0x03}));
  const uint64_t once = module.tensor(module.tensor_type({2}, i1), bytes({1, 0}));
  const uint64_t none = module.tensor(module.tensor_type({0}, i64), "");
  const uint64_t reals = module.tensor(module.tensor_type({1}, f32), bytes({0, 0, 0x80, 0x3F}));
  const uint64_t wrong = module.tensor(module.tensor_type({3}, i8), bytes({1, 2}));
  const uint64_t array =
      module.attribute("builtin", varints({17, i64, 2, 16}) + bytes({3, 0, 0, 0, 0, 0, 0, 0, 4}) +
                                      std::string(7, '\0'));
  Opened opened(module);
  EXPECT_THAT(integers_of(opened, two), ElementsAre(1, -2));
  EXPECT_THAT(integers_of(opened, two, 1), ElementsAre(-999));  // more than asked for
  EXPECT_THAT(integers_of(opened, splat), ElementsAre(-3));
  EXPECT_THAT(integers_of(opened, wide), ElementsAre(65535, 258));
  EXPECT_THAT(integers_of(opened, packed), ElementsAre(1, 0, 1, 0, 0, 0, 0, 0, 0, 1));
  EXPECT_THAT(integers_of(opened, all), ElementsAre(1));
  EXPECT_THAT(integers_of(opened, once), ElementsAre(1, 0));  // a byte each, as once
  EXPECT_THAT(integers_of(opened, none), IsEmpty());
  EXPECT_THAT(integers_of(opened, reals), ElementsAre(-999));
  EXPECT_EQ(opened.values.splat_real(opened.values.attribute(reals)), 1.0);
  EXPECT_THAT(integers_of(opened, array), ElementsAre(3, 4));
  EXPECT_THAT(Opened::error_of([&] { integers_of(opened, wrong); }),
              HasSubstr("2 bytes of data for 3 elements of i8"));
}

TEST(BytecodeAttributes, MeshAxes) {
  Module module;
  const uint64_t mesh = module.text("mesh");
  const uint64_t x = module.text("x");
  const uint64_t part = module.attribute("vhlo", varint(21) + signed_varint(2) + signed_varint(4));
  const uint64_t first = module.attribute("vhlo", varints({22, x, 1, part}));
  const uint64_t second = module.attribute("vhlo", varints({22, module.text("y"), 0}));
  const uint64_t axes = module.attribute("vhlo", varint(1) + list({first, second}));
  const uint64_t groups = module.attribute("vhlo", varints({23, mesh, axes}));
  Opened opened(module);
  const auto found = opened.values.mesh_axes(opened.values.attribute(groups));
  EXPECT_EQ(found.mesh, "mesh");
  ASSERT_EQ(found.axes.size(), 2u);
  EXPECT_EQ(found.axes[0].name, "x");
  EXPECT_EQ(found.axes[0].pre_size, 2);
  EXPECT_EQ(found.axes[0].size, 4);
  EXPECT_EQ(found.axes[1].name, "y");
  EXPECT_EQ(found.axes[1].size, 0);
}

TEST(BytecodeAttributes, LocationsGiveTheirFirstName) {
  Module module;
  const uint64_t unknown = module.unknown_location();
  const uint64_t path = module.attribute("builtin", varints({2, module.string("model.py")}));
  const uint64_t line = module.attribute("builtin", varints({11, path, 12, 3}));
  const uint64_t label = module.attribute("builtin", varints({2, module.string("layer/dot")}));
  const uint64_t named = module.attribute("builtin", varints({14, label, line}));
  const uint64_t call = module.attribute("builtin", varints({10, named, line}));
  const uint64_t fused = module.attribute("builtin", varint(12) + list({line, named}));
  const uint64_t itself = module.attribute("builtin", varints({10, fused + 1, unknown}));
  Opened opened(module);
  EXPECT_EQ(opened.values.location_name(unknown), "");
  EXPECT_EQ(opened.values.location_name(line), "model.py:12");
  EXPECT_EQ(opened.values.location_name(named), "layer/dot");
  EXPECT_EQ(opened.values.location_name(call), "layer/dot");
  EXPECT_EQ(opened.values.location_name(fused), "model.py:12");
  EXPECT_EQ(opened.values.location_name(itself), "");
}

TEST(BytecodeAttributes, FaultsAreRefused) {
  Module module;
  const uint64_t f32 = module.type("vhlo", varint(4));
  const uint64_t newer = module.attribute("vhlo", varint(24));
  const uint64_t no_string = module.attribute("vhlo", varints({14, 99}));
  const uint64_t direction = module.attribute("vhlo", varints({3, 6}));
  const uint64_t real_integer = module.attribute("vhlo", varints({9, f32, 0}));
  const uint64_t blob = module.attribute("vhlo", varints({15, f32, 100, 1}));
  Opened opened(module);
  const auto error_of = [&](uint64_t index) {
    return Opened::error_of([&] { opened.values.attribute(index); });
  };
  EXPECT_THAT(error_of(newer), HasSubstr("VHLO attribute 24 is not known"));
  EXPECT_THAT(error_of(no_string), HasSubstr("string 99 of"));
  EXPECT_THAT(error_of(direction), HasSubstr("comparison direction 6 is not known"));
  EXPECT_THAT(error_of(real_integer), HasSubstr("an integer of a type that has none"));
  EXPECT_THAT(error_of(blob), HasSubstr("a length of 100 bytes"));
  EXPECT_THAT(Opened::error_of([&] { opened.values.string(newer); }),
              HasSubstr("expected a string"));
}

TEST(Vhlo, PropertiesStandInTheOrderOfTheAlphabet) {
  for (const char* operation : {"all_gather_v2", "custom_call_v2", "dot_general_v2", "scatter_v2",
                                "convolution_v1", "func_v1", "gather_v1"}) {
    const auto names = vhlo_properties(operation);
    ASSERT_TRUE(names) << operation;
    EXPECT_TRUE(std::is_sorted(names->begin(), names->end())) << operation;
  }
  EXPECT_THAT(*vhlo_properties("compare_v1"), ElementsAre("compare_type", "comparison_direction"));
  EXPECT_FALSE(vhlo_properties("compare_v2"));
  EXPECT_FALSE(vhlo_properties("add_v1"));
  EXPECT_FALSE(vhlo_properties("add"));
  EXPECT_EQ(without_version("dot_general_v2"), "dot_general");
  EXPECT_EQ(without_version("x_v"), "x_v");
  EXPECT_EQ(without_version("x_vy"), "x_vy");
}

}  // namespace
}  // namespace orrery::stablehlo
