// Whole modules in bytecode, written by hand, against what text of the same meaning gives.

#include "orrery/workload/readers/stablehlo/bytecode_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "orrery/workload/readers/stablehlo/bytecode_for_test.h"
#include "orrery/workload/readers/stablehlo/stablehlo_for_test.h"
#include "orrery/workload/readers/stablehlo/workload_text_for_test.h"

namespace orrery::stablehlo {
namespace {

using testing::bytes;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::error_of_bytes;
using ::testing::HasSubstr;
using testing::Module;
using testing::OneFunction;
using testing::read_bytes;
using testing::signed_varint;
using testing::varint;
using testing::varints;

std::string little_endian(std::initializer_list<int64_t> values) {
  std::string data;
  for (const int64_t v : values)
    for (int i = 0; i < 8; ++i) data += static_cast<char>(v >> (8 * i));
  return data;
}

void expect_same(const std::string& file, const std::string& text) {
  EXPECT_EQ(WorkloadText(read_bytes(file)).lines(), WorkloadText(read_text(text)).lines());
}

TEST(BytecodeReader, AProductOfMatrices) {
  OneFunction m;
  const uint64_t f32 = m.type("vhlo", varint(4));
  const uint64_t i64 = m.type("vhlo", varint(14));
  const uint64_t lhs = m.tensor_type({4, 8}, f32);
  const uint64_t rhs = m.tensor_type({8, 16}, f32);
  const uint64_t out = m.tensor_type({4, 16}, f32);
  const uint64_t none = m.tensor(m.tensor_type({0}, i64), "");
  const uint64_t one = m.tensor(m.tensor_type({1}, i64), little_endian({1}));
  const uint64_t zero = m.tensor(m.tensor_type({1}, i64), little_endian({0}));
  const uint64_t high = m.attribute("vhlo", varints({11, 1}));
  const uint64_t standard = m.attribute("vhlo", varints({11, 0}));
  const uint64_t precision = m.attribute("vhlo", varints({1, 2, standard, high}));
  const uint64_t dot = m.operation("vhlo", "dot_general_v1");
  const auto properties =
      static_cast<int64_t>(m.properties(varints({none, one, precision, none, zero})));
  const std::string file = m.file({lhs, rhs}, {out}, 3,
                                  {Module::op(dot, m.location, properties, {out}, {0, 1}),
                                   Module::op(m.end, m.location, -1, {}, {2})});
  expect_same(file, R"(
    func.func public @main(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>) -> tensor<4x16xf32> {
      %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0],
             precision = [DEFAULT, HIGH] : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
      return %0 : tensor<4x16xf32>
    })");
  const Workload w = read_bytes(file);
  EXPECT_EQ(w.format(), "stablehlo");
  EXPECT_EQ(find_op(w, Opcode::k_dot_general).integer(Attr::kPrecision, 0), 1);
}

TEST(BytecodeReader, ALoopIsCountedAndABodySeesWhatIsOutside) {
  OneFunction m;
  const uint64_t i32 = m.type("vhlo", varint(13));
  const uint64_t i1 = m.type("vhlo", varint(0));
  const uint64_t number = m.tensor_type({}, i32);
  const uint64_t truth = m.tensor_type({}, i1);
  const uint64_t constant = m.operation("vhlo", "constant_v1");
  const uint64_t loop = m.operation("vhlo", "while_v1");
  const uint64_t compare = m.operation("vhlo", "compare_v1");
  const uint64_t add = m.operation("vhlo", "add_v1");
  const auto value = [&](int v) {
    return static_cast<int64_t>(m.properties(varint(m.tensor(number, bytes({v, 0, 0, 0})))));
  };
  const uint64_t less = m.attribute("vhlo", varints({3, 5}));
  const uint64_t as_signed = m.attribute("vhlo", varints({4, 3}));
  const auto compared = static_cast<int64_t>(m.properties(varints({as_signed, less})));
  // Values: 0, 1 and 2 are constants, 3 the loop's result; inside, 4 is the variable.
  const std::string condition =
      Module::region(2, {number},
                     {Module::op(compare, m.location, compared, {truth}, {4, 1}),
                      Module::op(m.end, m.location, -1, {}, {5})});
  const std::string body = Module::region(2, {number},
                                          {Module::op(add, m.location, -1, {number}, {4, 2}),
                                           Module::op(m.end, m.location, -1, {}, {5})});
  const std::string file =
      m.file({}, {number}, 4,
             {Module::op(constant, m.location, value(0), {number}, {}),
              Module::op(constant, m.location, value(30), {number}, {}),
              Module::op(constant, m.location, value(3), {number}, {}),
              Module::op(loop, m.location, -1, {number}, {0}, Module::inlined({condition, body})),
              Module::op(m.end, m.location, -1, {}, {3})});
  expect_same(file, R"(
    func.func public @main() -> tensor<i32> {
      %c = stablehlo.constant dense<0> : tensor<i32>
      %c_0 = stablehlo.constant dense<30> : tensor<i32>
      %c_1 = stablehlo.constant dense<3> : tensor<i32>
      %0 = stablehlo.while(%i = %c) : tensor<i32> cond {
        %1 = stablehlo.compare LT, %i, %c_0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      } do {
        %1 = stablehlo.add %i, %c_1 : tensor<i32>
        stablehlo.return %1 : tensor<i32>
      }
      return %0 : tensor<i32>
    })");
  EXPECT_EQ(find_op(read_bytes(file), Opcode::k_while).integer(Attr::kTripCount, 0), 10);
}

/// reduce over dimension 0 whose body is `inner`, in a section of its own or not.
std::string reduction(const char* inner, bool isolated, bool swapped) {
  OneFunction m;
  const uint64_t f32 = m.type("vhlo", varint(4));
  const uint64_t i64 = m.type("vhlo", varint(14));
  const uint64_t scalar = m.tensor_type({}, f32);
  const uint64_t vector = m.tensor_type({8}, f32);
  const uint64_t reduce = m.operation("vhlo", "reduce_v1");
  const uint64_t operation = m.operation("vhlo", inner);
  const uint64_t first = isolated ? 0 : 3;
  const std::string body =
      Module::region(3, {scalar, scalar},
                     {Module::op(operation, m.location, -1, {scalar},
                                 swapped ? std::initializer_list<uint64_t>{first + 1, first}
                                         : std::initializer_list<uint64_t>{first, first + 1}),
                      Module::op(m.end, m.location, -1, {}, {first + 2})});
  const auto dimensions = static_cast<int64_t>(
      m.properties(varint(m.tensor(m.tensor_type({1}, i64), little_endian({0})))));
  return m.file({vector, scalar}, {scalar}, 3,
                {Module::op(reduce, m.location, dimensions, {scalar}, {0, 1},
                            isolated ? Module::isolated(body) : Module::inlined({body})),
                 Module::op(m.end, m.location, -1, {}, {2})});
}

TEST(BytecodeReader, AReductionByOneOperationIsNamedAsInText) {
  for (const bool isolated : {false, true}) {
    const Workload w = read_bytes(reduction("maximum_v1", isolated, false));
    EXPECT_EQ(find_op(w, Opcode::k_reduce).string(Attr::kReducer), "maximum");
    EXPECT_EQ(count(w, Opcode::k_maximum), 0);
    EXPECT_THAT(list(find_op(w, Opcode::k_reduce), Attr::kDimensions), ElementsAre(0));
  }
}

TEST(BytecodeReader, OtherReductionsKeepTheirBody) {
  EXPECT_EQ(count(read_bytes(reduction("subtract_v1", true, false)), Opcode::k_subtract), 1);
  EXPECT_EQ(count(read_bytes(reduction("add_v1", false, true)), Opcode::k_add), 1);
}

TEST(BytecodeReader, ConstantsKeepSmallIntegersAndSingleReals) {
  OneFunction m;
  const uint64_t f32 = m.type("vhlo", varint(4));
  const uint64_t i64 = m.type("vhlo", varint(14));
  const uint64_t constant = m.operation("vhlo", "constant_v1");
  const uint64_t real = m.tensor_type({1000, 1000}, f32);
  const uint64_t pair = m.tensor_type({2}, i64);
  const uint64_t many = m.tensor_type({65}, i64);
  const auto value = [&](uint64_t type, const std::string& data) {
    return static_cast<int64_t>(m.properties(varint(m.tensor(type, data))));
  };
  const Workload w = read_bytes(
      m.file({}, {}, 3,
             {Module::op(constant, m.location, value(real, bytes({0, 0, 0, 0x40})), {real}, {}),
              Module::op(constant, m.location, value(pair, little_endian({7, -1})), {pair}, {}),
              Module::op(constant, m.location, value(many, std::string(65 * 8, '\1')), {many}, {}),
              Module::op(m.end, m.location, -1, {}, {})}));
  EXPECT_EQ(find_op(w, Opcode::k_constant, 0).real(Attr::kRealValue, 0), 2);
  EXPECT_THAT(list(find_op(w, Opcode::k_constant, 1), Attr::kValue), ElementsAre(7, -1));
  EXPECT_FALSE(find_op(w, Opcode::k_constant, 2).has(Attr::kValue));
}

TEST(BytecodeReader, TheOldestVersionNamesAttributesInADictionary) {
  OneFunction m;
  m.version = 0;
  const uint64_t f32 = m.type("vhlo", varint(4));
  const uint64_t i64 = m.type("vhlo", varint(14));
  const uint64_t pair = m.tensor_type({2, 3}, f32);
  const uint64_t turned = m.tensor_type({3, 2}, f32);
  const auto name = [&](std::string_view text) {
    return m.attribute("builtin", varints({2, m.string(text)}));
  };
  const uint64_t order = m.tensor(m.tensor_type({2}, i64), little_endian({1, 0}));
  const uint64_t attributes = m.attribute("builtin", varints({1, 1, name("permutation"), order}));
  const uint64_t type =
      m.attribute("vhlo", varints({17, m.type("vhlo", varints({8, 1, pair, 1, turned}))}));
  const uint64_t signature = m.attribute(
      "builtin", varints({1, 2, name("function_type"), type, name("sym_name"), m.text("main")}));
  const uint64_t transpose = m.operation("vhlo", "transpose_v1");
  // No properties, no sections for regions, no use lists; a location for every argument.
  const std::string body = varints({1, 2, 2 << 1 | 1, 1, pair, m.location}) + varint(transpose) +
                           bytes({0x07}) + varints({m.location, attributes, 1, turned, 1, 0}) +
                           varint(m.end) + bytes({0x04}) + varints({m.location, 1, 1});
  const std::string function =
      varint(m.function) + bytes({0x11}) + varints({m.location, signature, 1 << 1 | 1}) + body;
  const std::string module =
      varint(m.module) + bytes({0x10}) + varints({m.location, 1 << 1 | 1, 1, 0, 1 << 1}) + function;
  const Workload w = read_bytes(m.Module::file({module}));
  EXPECT_THAT(list(find_op(w, Opcode::k_transpose), Attr::kDimensions), ElementsAre(1, 0));
  EXPECT_EQ(w.string(w.function(w.entry()).name), "main");
}

TEST(BytecodeReader, ArgumentsKeepTheirAttributesAndTheModuleItsName) {
  Module m;
  const uint64_t location = m.unknown_location();
  const uint64_t module = m.operation("builtin", "module");
  const uint64_t function = m.operation("vhlo", "func_v1");
  const uint64_t end = m.operation("vhlo", "return_v1");
  const uint64_t f32 = m.type("vhlo", varint(4));
  const uint64_t i32 = m.type("vhlo", varint(13));
  const uint64_t scalar = m.tensor_type({}, f32);
  const uint64_t signature = m.type("vhlo", varints({8, 1, scalar, 1, scalar}));
  const uint64_t arguments = m.attribute(
      "vhlo",
      varints({1, 1,
               m.attribute("vhlo", varints({6, 2, m.text("mhlo.sharding"), m.text("{replicated}"),
                                            m.text("tf.aliasing_output"), m.integer(i32, 0)}))}));
  const uint64_t results = m.attribute(
      "vhlo",
      varints(
          {1, 1, m.attribute("vhlo", varints({6, 1, m.text("jax.result_info"), m.text("loss")}))}));
  const auto properties = static_cast<int64_t>(
      m.properties(varints({arguments, m.attribute("vhlo", varints({17, signature})), results,
                            m.text("step"), m.text("private")})));
  const uint64_t name = m.attribute("builtin", varints({2, m.string("trainer")}));
  const uint64_t i32_builtin = m.type("builtin", varints({0, 32 << 2}));
  const uint64_t four = m.attribute("builtin", varints({8, i32_builtin}) + signed_varint(4));
  const uint64_t dictionary = m.attribute(
      "builtin",
      varints({1, 1, m.attribute("builtin", varints({2, m.string("mhlo.num_partitions")})), four}));
  const auto named = m.properties(varints({name << 1 | 1, 0}));
  const std::string body = Module::region(1, {scalar}, {Module::op(end, location, -1, {}, {0})});
  const std::string step =
      Module::op(function, location, properties, {}, {}, Module::isolated(body));
  const std::string whole = varint(module) + bytes({0x51}) +
                            varints({location, dictionary, named}) +
                            Module::isolated(Module::region(0, {}, {step}));
  const Workload w = read_bytes(m.file({whole}));
  EXPECT_EQ(w.name(), "trainer");
  EXPECT_EQ(w.partitions(), 4);
  ASSERT_EQ(w.functions().size(), 1u);
  const Function& f = w.functions()[0];
  EXPECT_FALSE(f.is_public);
  EXPECT_EQ(w.shardings()[f.arguments[0].sharding.index].text, "{replicated}");
  EXPECT_EQ(f.arguments[0].aliased_output, 0);
  EXPECT_TRUE(f.arguments[0].donated);
  EXPECT_EQ(w.string(f.results[0].name), "loss");
}

/// One operation of that name, with properties of two attributes where said, between an
/// argument and a return.
std::string one_operation(std::string_view dialect, std::string_view name, bool with_properties) {
  OneFunction m;
  const uint64_t f32 = m.type("vhlo", varint(4));
  const uint64_t scalar = m.tensor_type({}, f32);
  const uint64_t operation = m.operation(dialect, name);
  const uint64_t text = m.text("x");
  const int64_t properties =
      with_properties ? static_cast<int64_t>(m.properties(varints({text, text}))) : -1;
  return m.file({scalar}, {scalar}, 2,
                {Module::op(operation, m.location, properties, {scalar}, {0}),
                 Module::op(m.end, m.location, -1, {}, {1})});
}

TEST(BytecodeReader, UnknownOperationsAreNoted) {
  const Workload w = read_bytes(one_operation("custom", "frobnicate", true));
  EXPECT_EQ(count(w, Opcode::k_unknown), 1);
  EXPECT_THAT(w.notes(), Contains(HasSubstr("operation 'custom.frobnicate' is not known")));
  EXPECT_THAT(read_bytes(one_operation("vhlo", "frobnicate_v1", true)).notes(),
              Contains(HasSubstr("operation 'stablehlo.frobnicate' is not known")));
}

TEST(BytecodeReader, WhatWouldLoseItsMeaningIsRefused) {
  EXPECT_EQ(error_of_bytes(one_operation("vhlo", "abs_v1", false)), "");
  EXPECT_THAT(
      error_of_bytes(one_operation("vhlo", "abs_v7", true)),
      HasSubstr("the properties of 'vhlo.abs_v7' are not known: newer than StableHLO 1.20"));
  EXPECT_THAT(error_of_bytes(one_operation("vhlo", "iota_v1", true)),
              HasSubstr("'vhlo.iota_v1' has more properties than are known"));
  EXPECT_THAT(
      error_of_bytes(one_operation("stablehlo", "abs", false)),
      HasSubstr("operation 'stablehlo.abs' outside VHLO: only portable artifacts are read"));
}

TEST(BytecodeReader, OtherDialectsAtTheTopAreLeftOutOrRefused) {
  OneFunction m;
  const uint64_t mesh = m.operation("sdy", "mesh");
  const uint64_t function = m.operation("func", "func");
  const std::string end = Module::op(m.end, m.location, -1, {}, {});
  m.beside = {Module::op(mesh, m.location, static_cast<int64_t>(m.properties("")), {}, {})};
  EXPECT_THAT(read_bytes(m.file({}, {}, 0, {end})).notes(),
              Contains("'sdy.mesh' at the top of the module is left out"));
  m.beside = {
      Module::op(function, m.location, -1, {}, {}, Module::isolated(Module::region(0, {}, {})))};
  EXPECT_THAT(error_of_bytes(m.file({}, {}, 0, {end})),
              HasSubstr("found 'func.func': only portable artifacts are read"));
}

TEST(BytecodeReader, FaultsOfTheProgramNameTheByte) {
  const auto body = [](uint64_t values, const std::vector<std::string>& operations) {
    OneFunction m;
    const uint64_t f32 = m.type("vhlo", varint(4));
    const uint64_t scalar = m.tensor_type({}, f32);
    m.operation("vhlo", "abs_v1");  // number 3
    return error_of_bytes(m.file({scalar}, {scalar}, values, operations));
  };
  EXPECT_EQ(body(2, {Module::op(3, 0, -1, {1}, {0}), Module::op(2, 0, -1, {}, {1})}), "");
  EXPECT_THAT(body(2, {Module::op(3, 0, -1, {1}, {1}), Module::op(2, 0, -1, {}, {1})}),
              HasSubstr("value 1 is not defined here"));
  EXPECT_THAT(body(2, {Module::op(3, 0, -1, {1}, {7}), Module::op(2, 0, -1, {}, {1})}),
              HasSubstr("value 7 is not defined here"));
  EXPECT_THAT(body(1, {Module::op(3, 0, -1, {1}, {0}), Module::op(2, 0, -1, {}, {0})}),
              HasSubstr("more values in a region than it was said to have"));
  EXPECT_THAT(body(uint64_t{1} << 60, {Module::op(2, 0, -1, {}, {0})}),
              HasSubstr("values in a region"));
  EXPECT_THAT(body(1, {Module::op(99, 0, -1, {}, {0})}), HasSubstr("operation name 99 of 4"));
  EXPECT_THAT(body(1, {Module::op(2, 77, -1, {}, {0})}), HasSubstr("attribute 77 of"));
  EXPECT_THAT(body(2, {Module::op(3, 0, 5, {1}, {0})}), HasSubstr("properties 5 of 1"));
  EXPECT_THAT(body(2, {Module::op(3, 0, -1, {44}, {0})}), HasSubstr("type 44 of"));
  // What is wrong with the workload rather than with its encoding has a place too.
  EXPECT_THAT(body(2, {Module::op(3, 0, -1, {1}, {}), Module::op(2, 0, -1, {}, {1})}),
              ::testing::MatchesRegex("byte [0-9]+: abs: 0 operands, at least 1 expected"));
}

TEST(BytecodeReader, RegionsMayNotBeDeeperThan200) {
  OneFunction m;
  const uint64_t f32 = m.type("vhlo", varint(4));
  const uint64_t scalar = m.tensor_type({}, f32);
  const uint64_t branch = m.operation("vhlo", "case_v1");
  std::string inner = Module::op(m.end, m.location, -1, {}, {0});
  for (int i = 0; i < 300; ++i)
    inner = Module::op(branch, m.location, -1, {}, {0},
                       Module::inlined({Module::region(0, {}, {inner})}));
  EXPECT_THAT(error_of_bytes(m.file({scalar}, {}, 1, {inner})),
              HasSubstr("nested deeper than 200 levels"));
}

TEST(BytecodeReader, AFewBytesDoNotMakeManyIntegers) {
  // 2^20 integers on each of thousands of operations: refused before they are hashed.
  OneFunction m;
  const uint64_t f32 = m.type("vhlo", varint(4));
  const uint64_t i8 = m.type("vhlo", varint(11));
  const uint64_t scalar = m.tensor_type({}, f32);
  const uint64_t transpose = m.operation("vhlo", "transpose_v1");
  std::string data(size_t{1} << 20, '\0');
  data[0] = 1;
  const auto properties = static_cast<int64_t>(
      m.properties(varint(m.tensor(m.tensor_type({int64_t{1} << 20}, i8), data))));
  std::vector<std::string> operations(2000,
                                      Module::op(transpose, m.location, properties, {scalar}, {0}));
  operations.push_back(Module::op(m.end, m.location, -1, {}, {0}));
  EXPECT_THAT(error_of_bytes(m.file({scalar}, {}, 2001, operations)),
              HasSubstr("make more of the file than it can mean"));
}

TEST(BytecodeReader, OperationsAreCalledAsTheirLocationSays) {
  OneFunction m;
  const uint64_t f32 = m.type("vhlo", varint(4));
  const uint64_t scalar = m.tensor_type({}, f32);
  const uint64_t operation = m.operation("vhlo", "abs_v1");
  const uint64_t label = m.attribute("builtin", varints({2, m.string("block/abs")}));
  const uint64_t place = m.attribute("builtin", varints({14, label, m.location}));
  const Workload w = read_bytes(m.file({scalar}, {scalar}, 2,
                                       {Module::op(operation, place, -1, {scalar}, {0}),
                                        Module::op(m.end, m.location, -1, {}, {1})}));
  EXPECT_EQ(w.string(find_op(w, Opcode::k_abs).raw().name), "block/abs");
}

}  // namespace
}  // namespace orrery::stablehlo
