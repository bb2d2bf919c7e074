// Malformed modules: what is wrong, and where.

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "orrery/base/shared_data_for_test.h"
#include "orrery/workload/readers/hlo/hlo_for_test.h"

namespace orrery::hlo {
namespace {

struct Malformed {
  const char* name;
  const char* text;
  const char* error;
};

void PrintTo(const Malformed& malformed, std::ostream* out) { *out << malformed.name; }

class MalformedHlo : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedHlo, IsRefusedAtItsPlace) {
  EXPECT_EQ(error_of(GetParam().text), std::string("test.hlo:") + GetParam().error);
}

INSTANTIATE_TEST_SUITE_P(
    Text, MalformedHlo,
    testing::Values(
        Malformed{"NoHeader", "ENTRY e { }",
                  "1:1: expected 'HloModule' at the start of an HLO module, found 'ENTRY e { }'"},
        Malformed{"NoEntry", "HloModule m\ne { ROOT a = f32[] parameter(0) }",
                  " the module has no ENTRY computation"},
        Malformed{"TwoEntries",
                  "HloModule m\nENTRY e { a = f32[] parameter(0) }\nENTRY f { a = f32[] "
                  "parameter(0) }",
                  "3:7: a second ENTRY computation"},
        Malformed{"CutInAComputation", "HloModule m\nENTRY e {\n  a = f32[] parameter(0)\n",
                  "4:1: expected an instruction or '}', found the end of the file"},
        Malformed{"CutInOperands", "HloModule m\nENTRY e {\n  a = f32[] add(b,",
                  "3:16: this '(' is not closed"},
        Malformed{"CutInAString",
                  "HloModule m\nENTRY e {\n  a = f32[] parameter(0), metadata={op_name=\"x\n}\n}",
                  "3:45: this string is not closed"},
        Malformed{"OpenComment", "HloModule m /* x", "1:13: this comment is not closed"},
        Malformed{"NoInstructions", "HloModule m\nENTRY e {}\n",
                  "2:11: computation 'e' has no instructions"},
        Malformed{"MemberOutOfRange",
                  "HloModule m\nENTRY e {\n  p = (f32[2]{0}) parameter(0)\n"
                  "  ROOT a = f32[2]{0} negate(p#1)\n}",
                  "4:29: 'p' has 1 members"},
        Malformed{"MemberOfATensor",
                  "HloModule m\nENTRY e {\n  p = f32[2]{0} parameter(0)\n"
                  "  ROOT a = f32[2]{0} negate(p#0)\n}",
                  "4:29: 'p' has 0 members"},
        Malformed{"MemberWithoutANumber",
                  "HloModule m\nENTRY e {\n  p = (f32[2]{0}) parameter(0)\n"
                  "  ROOT a = f32[2]{0} negate(p#)\n}",
                  "4:31: expected a member's number, found ')'"},
        Malformed{"NoShape", "HloModule m\nENTRY e {\n  a = parameter(0)\n}",
                  "3:7: expected a shape like f32[8,128]{1,0}, found 'parameter(0)'"},
        Malformed{"UnknownElementType", "HloModule m\nENTRY e {\n  a = q7[2] parameter(0)\n}",
                  "3:7: unknown element type 'q7'"},
        Malformed{"HugeTensor",
                  "HloModule m\nENTRY e {\n  a = f32[1000000,1000000,1000000] parameter(0)\n}",
                  "3:7: a tensor of more than 2^48 elements"},
        Malformed{"HugeNumber", "HloModule m\nENTRY e {\n  a = f32[99999999999999999999] x()\n}",
                  "3:11: this number does not fit in 64 bits"},
        Malformed{"NegativeDimension", "HloModule m\nENTRY e {\n  a = f32[2,-3] parameter(0)\n}",
                  "3:13: negative dimension -3"},
        Malformed{"LayoutOfOtherRank", "HloModule m\nENTRY e {\n  a = f32[2]{1,0} parameter(0)\n}",
                  "3:7: the layout orders 2 dimensions, the shape has 1"},
        Malformed{"LayoutNoPermutation",
                  "HloModule m\nENTRY e {\n  a = f32[2,2]{0,0} parameter(0)\n}",
                  "3:7: the layout is not a permutation of the dimensions"},
        Malformed{"UndefinedOperand", "HloModule m\nENTRY e {\n  ROOT a = f32[] negate(%b)\n}",
                  "3:26: 'b' is not defined before this place"},
        Malformed{"DuplicateName",
                  "HloModule m\nENTRY e {\n  a = f32[] parameter(0)\n  a = f32[] sine(a)\n}",
                  "4:3: a second instruction 'a'"},
        Malformed{"DuplicateComputation",
                  "HloModule m\nf { a = f32[] parameter(0) }\nf { a = f32[] parameter(0) }",
                  "3:1: a second computation 'f'"},
        Malformed{
            "TwoRoots",
            "HloModule m\nENTRY e {\n  ROOT a = f32[] parameter(0)\n  ROOT b = f32[] sine(a)\n}",
            "4:3: a second ROOT in this computation"},
        Malformed{"DuplicateParameter",
                  "HloModule m\nENTRY e {\n  a = f32[] parameter(0)\n  b = f32[] parameter(0)\n}",
                  "4:3: a second parameter 0"},
        Malformed{"ParameterOutOfRange",
                  "HloModule m\nENTRY e {\n  a = f32[] parameter(4000000000)\n}",
                  "3:22: parameter 4000000000 of a computation with 1"},
        Malformed{"MissingComputation",
                  "HloModule m\nENTRY e {\n  a = f32[] parameter(0)\n  b = f32[] call(a), "
                  "to_apply=%gone\n}",
                  "4:32: there is no computation 'gone'"},
        Malformed{"DuplicateAttribute",
                  "HloModule m\nENTRY e {\n  a = s32[2] iota(), iota_dimension=0, "
                  "iota_dimension=0\n}",
                  "3:40: attribute 'iota_dimension' is given twice"},
        Malformed{"WrongList",
                  "HloModule m\nENTRY e {\n  a = f32[2] parameter(0)\n  b = f32[2] transpose(a), "
                  "dimensions={x}\n}",
                  "4:40: expected a number, found 'x}'"},
        Malformed{"WrongWindow",
                  "HloModule m\nENTRY e {\n  a = f32[2] parameter(0)\n  b = f32[2] convolution(a, "
                  "a), window={size=3x3 stride=2}\n}",
                  "4:40: the window has 2 sizes but 1 of stride"},
        Malformed{"WrongLabels",
                  "HloModule m\nENTRY e {\n  a = f32[2] parameter(0)\n  b = f32[2] convolution(a, "
                  "a), dim_labels=b0f_0io-b0f\n}",
                  "4:44: expected dimension labels like b01f_01io->b01f, found 'b0f_0io-b0f'"},
        Malformed{"WrongConstant", "HloModule m\nENTRY e {\n  a = s32[3] constant({1, 2})\n}",
                  "3:29: the constant has 2 values, its type 3"},
        Malformed{"NotAnInteger", "HloModule m\nENTRY e {\n  a = s32[] constant(1.5)\n}",
                  "3:25: '1.5' is not an integer"},
        Malformed{"AliasOfNoParameter",
                  "HloModule m, input_output_alias={ {0}: (5, {}) }\nENTRY e { a = f32[] "
                  "parameter(0) }",
                  "1:33: there is no parameter 5 in the entry computation"},
        Malformed{"NoPartitions",
                  "HloModule m, num_partitions=0\nENTRY e { a = f32[] parameter(0) }",
                  "1:29: expected a number from 1 to 1048576"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(HloErrors, DeepNestingIsRefusedNotFollowed) {
  std::string shape(100000, '(');
  EXPECT_EQ(error_of(module_of("a = " + shape)),
            "test.hlo:4:69: tuples are nested more than 64 deep");
  const std::string braces(100000, '{');
  EXPECT_EQ(error_of(module_of("a = f32[] constant(" + braces)),
            "test.hlo:4:19: this '(' is not closed");
}

TEST(HloErrors, TheShortFormOfGroupsCannotFillMemory) {
  std::string lines = "a = f32[] parameter(0)\n";
  for (int i = 0; i < 20; ++i) {
    // 2^20 ranks each, in 20 different ways.
    lines += "r" + std::to_string(i) + " = f32[] all-reduce(a), replica_groups=[" +
             std::to_string(1 << i) + "," + std::to_string(1 << (20 - i)) + "]<=[1048576]\n";
  }
  EXPECT_EQ(error_of(module_of(lines)),
            "test.hlo:9:42: the module's replica groups list more than 4194304 ranks");
}

TEST(HloErrors, SeedsOfTheFuzzerAreRead) {
  int files = 0;
  for (const auto& seed : std::filesystem::directory_iterator(
           std::filesystem::path(ORRERY_SOURCE_DIR) / "fuzz" / "corpus" / "hlo")) {
    const Workload w = read_module(Source::from_file(seed.path().string()), {});
    EXPECT_EQ(count(w, Opcode::k_unknown), 0) << seed.path();
    ++files;
  }
  EXPECT_GT(files, 0);
}

TEST(HloErrors, CutAndFlippedFilesNeverCrash) {
  ORRERY_SHARED_DATA_OR_SKIP(path, "stablehlo/sharded/moe_8dev_alltoall.spmd.hlo");
  const Source source = Source::from_file(path);
  const std::string text(source.text());
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    const size_t at = random() % text.size();
    error_of(text.substr(0, at));
    std::string flipped = text;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << random() % 8));
    error_of(flipped);
  }
}

}  // namespace
}  // namespace orrery::hlo
