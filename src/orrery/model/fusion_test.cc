// Which kernels the passes make of patterns that models are full of. The expected kernels are
// those of XLA's optimised HLO for the H200 where a test says so, else worked out by hand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "orrery/hardware/catalogue.h"
#include "orrery/model/stack.h"
#include "orrery/workload/readers/stablehlo/stablehlo_for_test.h"

namespace orrery {
namespace {

using stablehlo::function_of;
using stablehlo::read_text;
using testing::ElementsAre;

constexpr double kMB = 1e6;

Program lower_for_xla(const std::string& text) {
  static const Device device =
      Catalogue(std::string(ORRERY_SOURCE_DIR) + "/hardware").device("h200");
  static const FusionRules rules = Registry<Stack>::instance().at("xla", "stack").create()->rules();
  return lower(read_text(text), device, rules);
}

/// Megabytes read and written, kernel by kernel.
std::vector<std::pair<double, double>> traffic(const Program& p) {
  std::vector<std::pair<double, double>> found;
  for (const Launch& l : p.launches)
    found.emplace_back(l.kernel.cost.bytes_read / kMB, l.kernel.cost.bytes_written / kMB);
  return found;
}

std::vector<Opcode> codes(const Program& p) {
  std::vector<Opcode> found;
  for (const Launch& l : p.launches) found.push_back(l.kernel.code);
  return found;
}

std::string type(const std::string& dims, const std::string& element) {
  return "tensor<" + dims + "x" + element + ">";
}

std::string reduce(const std::string& result, const std::string& value, const std::string& with,
                   const std::string& dims, const std::string& from, const std::string& to) {
  const std::string element = from.substr(from.rfind('x') + 1, from.size() - from.rfind('x') - 2);
  const std::string zero = with == "maximum" ? "0xFF800000" : "0.0";
  return "  %z" + result + " = stablehlo.constant dense<" + zero + "> : tensor<" + element +
         ">\n  %" + result + " = stablehlo.reduce(%" + value + " init: %z" + result +
         ") applies stablehlo." + with + " across dimensions = [" + dims + "] : (" + from +
         ", tensor<" + element + ">) -> " + to + "\n";
}

std::string broadcast(const std::string& result, const std::string& value, const std::string& dims,
                      const std::string& from, const std::string& to) {
  return "  %" + result + " = stablehlo.broadcast_in_dim %" + value + ", dims = [" + dims +
         "] : (" + from + ") -> " + to + "\n";
}

std::string unary(const std::string& result, const std::string& op, const std::string& value,
                  const std::string& of) {
  return "  %" + result + " = stablehlo." + op + " %" + value + " : " + of + "\n";
}

std::string binary(const std::string& result, const std::string& op, const std::string& a,
                   const std::string& b, const std::string& of) {
  return "  %" + result + " = stablehlo." + op + " %" + a + ", %" + b + " : " + of + "\n";
}

// --- rows ---------------------------------------------------------------------

const std::string kScores = type("64x512x512", "f32");
const std::string kRows = type("64x512", "f32");

std::string softmax_of(const std::string& x) {
  return reduce("max", x, "maximum", "2", kScores, kRows) +
         broadcast("maxs", "max", "0, 1", kRows, kScores) +
         binary("shifted", "subtract", x, "maxs", kScores) +
         unary("e", "exponential", "shifted", kScores) +
         reduce("sum", "e", "add", "2", kScores, kRows) +
         broadcast("sums", "sum", "0, 1", kRows, kScores) +
         binary("p", "divide", "e", "sums", kScores);
}

// bert_large_b8_s256_infer: fusion.760 reads the scores once and writes the probabilities.
TEST(Fusion, SoftmaxAlongRowsIsOneKernel) {
  const Program p = lower_for_xla(function_of("(%x: " + kScores + ") -> " + kScores,
                                              softmax_of("x") + "  return %p : " + kScores));
  EXPECT_THAT(traffic(p), ElementsAre(std::pair(67.108864, 67.108864)));
  EXPECT_EQ(p.launches[0].kernel.family, KernelFamily::kReduction);
}

// bert_large_b8_s384_train: fusion.2346 writes the exponentials, which the gradient reads as well;
// input_reduce_fusion.148 sums them, loop_convert_fusion divides by the sums.
TEST(Fusion, SoftmaxWhoseExponentialsAreKeptIsThreeKernels) {
  const Program p =
      lower_for_xla(function_of("(%x: " + kScores + ") -> (" + kScores + ", " + kScores + ")",
                                softmax_of("x") + "  return %p, %e : " + kScores + ", " + kScores));
  EXPECT_THAT(traffic(p),
              ElementsAre(std::pair(67.108864, 67.108864), std::pair(67.108864, 0.131072),
                          std::pair(67.108864 + 0.131072, 67.108864)));
}

// bert_base_b32_s512_infer: the product's result is transposed, so that rows lie across memory:
// two reductions and a loop, each of which computes the exponentials again.
TEST(Fusion, SoftmaxAcrossMemoryIsTwoReductionsAndALoop) {
  const Program p = lower_for_xla(function_of(
      "(%k: " + type("64x512x64", "f32") + ", %q: " + type("64x512x64", "f32") + ") -> " + kScores,
      "  %s = stablehlo.dot_general %k, %q, batching_dims = [0] x [0], contracting_dims = [2] x "
      "[2] : (" +
          type("64x512x64", "f32") + ", " + type("64x512x64", "f32") + ") -> " + kScores +
          "\n  %x = stablehlo.transpose %s, dims = [0, 2, 1] : (" + kScores + ") -> " + kScores +
          "\n" + softmax_of("x") + "  return %p : " + kScores));
  EXPECT_THAT(codes(p), ElementsAre(Opcode::k_dot_general, Opcode::k_reduce, Opcode::k_reduce,
                                    Opcode::k_divide));
  EXPECT_DOUBLE_EQ(p.launches[2].kernel.cost.bytes_read, 67108864 + 64 * 512 * 4);
}

const std::string kHidden = type("2048x4096", "bf16");
const std::string kWide = type("2048x4096", "f32");
const std::string kToken = type("2048", "f32");

std::string root_mean_square(const std::string& x) {
  return "  %f = stablehlo.convert %" + x + " : (" + kHidden + ") -> " + kWide + "\n" +
         binary("sq", "multiply", "f", "f", kWide) + reduce("ss", "sq", "add", "1", kWide, kToken) +
         unary("r", "rsqrt", "ss", kToken) + broadcast("rs", "r", "0", kToken, kWide) +
         binary("n", "multiply", "f", "rs", kWide) + "  %h = stablehlo.convert %n : (" + kWide +
         ") -> " + kHidden + "\n";
}

// llama2_7b_b1_s2048_prefill: fusion.1191 normalises, and each product of the pair that is too
// large to merge has a loop of its own that multiplies by the weights (fusion.1682, fusion.1683).
TEST(Fusion, EachLibraryProductHasItsOwnScaledOperand) {
  const std::string weight = type("4096x11008", "bf16"), out = type("2048x11008", "bf16");
  const auto dot = [&](const std::string& result, const std::string& w) {
    return "  %" + result + " = stablehlo.dot_general %y, %" + w +
           ", contracting_dims = [1] x [0] : (" + kHidden + ", " + weight + ") -> " + out + "\n";
  };
  const Program p = lower_for_xla(
      function_of("(%x: " + kHidden + ", %g: " + type("4096", "bf16") + ", %w: " + weight +
                      ", %v: " + weight + ") -> (" + out + ", " + out + ")",
                  root_mean_square("x") + broadcast("gs", "g", "1", type("4096", "bf16"), kHidden) +
                      binary("y", "multiply", "h", "gs", kHidden) + dot("a", "w") + dot("b", "v") +
                      "  return %a, %b : " + out + ", " + out));
  const double hidden = 16.777216, gain = 0.008192;
  EXPECT_THAT(traffic(p), ElementsAre(std::pair(hidden, hidden), std::pair(hidden + gain, hidden),
                                      std::pair(hidden + gain, hidden),
                                      std::pair(hidden + 90.177536, 45.088768),
                                      std::pair(hidden + 90.177536, 45.088768)));
}

// --- products -----------------------------------------------------------------

std::string two_products(int64_t rows, int64_t columns) {
  const std::string x = type(std::to_string(rows) + "x4096", "bf16");
  const std::string w = type("4096x" + std::to_string(columns), "bf16");
  const std::string y = type(std::to_string(rows) + "x" + std::to_string(columns), "bf16");
  const auto dot = [&](const std::string& result, const std::string& weight) {
    return "  %" + result + " = stablehlo.dot_general %x, %" + weight +
           ", contracting_dims = [1] x [0] : (" + x + ", " + w + ") -> " + y + "\n";
  };
  return function_of(
      "(%x: " + x + ", %w: " + w + ", %v: " + w + ") -> " + y,
      dot("a", "w") + dot("b", "v") + binary("c", "multiply", "a", "b", y) + "  return %c : " + y);
}

// llama2_7b_b1_s2048_prefill, keys and values: wrapped_concatenate and custom-call.32.
TEST(Fusion, ProductsThatShareAnOperandAreMerged) {
  const Program p = lower_for_xla(two_products(2048, 4096));
  ASSERT_THAT(codes(p),
              ElementsAre(Opcode::k_concatenate, Opcode::k_dot_general, Opcode::k_multiply));
  const auto& shape = std::get<ProductShape>(p.launches[1].kernel.shape);
  EXPECT_EQ(shape.m, 2048);
  EXPECT_EQ(shape.n, 8192);
  EXPECT_EQ(shape.k, 4096);
  EXPECT_EQ(p.launches[1].kernel.cost.matrix_flops, 2.0 * 2048 * 8192 * 4096);
}

// llama2_7b_b1_s512_prefill: writing the joined weights would take as long as the product
// (gemm_fusion_dot.644 reads both).
TEST(Fusion, ASmallProductReadsWeightsFromTwoPlaces) {
  const Program p = lower_for_xla(two_products(512, 4096));
  EXPECT_THAT(codes(p), ElementsAre(Opcode::k_dot_general, Opcode::k_multiply));
  EXPECT_DOUBLE_EQ(p.launches[0].kernel.cost.bytes_read, 512 * 4096 * 2 + 2.0 * 4096 * 4096 * 2);
}

// x1_029_dit_w1536_b1_s32: a product's kernel multiplies by a vector that is there, but one that is
// cut out of another product's result is multiplied beforehand.
TEST(Fusion, ASmallProductScalesByWhatLiesInMemory) {
  const std::string x = type("256x1536", "bf16"), w = type("1536x6144", "bf16"),
                    y = type("256x6144", "bf16"), gain = type("1536", "bf16"),
                    gains = type("3072", "bf16");
  const auto scaled = [&](const std::string& given, const std::string& cut) {
    return codes(lower_for_xla(
        function_of("(%x: " + x + ", %w: " + w + ", %g: " + given + ") -> " + y,
                    cut + broadcast("gs", cut.empty() ? "g" : "c", "1", gain, x) +
                        binary("s", "multiply", "x", "gs", x) +
                        "  %0 = stablehlo.dot_general %s, %w, contracting_dims = [1] x [0] : (" +
                        x + ", " + w + ") -> " + y + "\n  return %0 : " + y)));
  };
  EXPECT_THAT(scaled(gain, ""), ElementsAre(Opcode::k_dot_general));
  EXPECT_THAT(
      scaled(gains, "  %c = stablehlo.slice %g [1536:3072] : (" + gains + ") -> " + gain + "\n"),
      ElementsAre(Opcode::k_multiply, Opcode::k_dot_general));
}

// 4096 × 11008 of two bytes and their results are beyond the 64 MB XLA merges.
TEST(Fusion, LargeProductsAreNotMerged) {
  EXPECT_THAT(codes(lower_for_xla(two_products(512, 11008))),
              ElementsAre(Opcode::k_dot_general, Opcode::k_dot_general, Opcode::k_multiply));
}

// bert_base_b1_s128_infer: gemm_fusion_dot.265, 16 parts in fp32 that loop_add_fusion.8 adds.
TEST(Fusion, LongSumsOfFewTilesAreSplit) {
  const std::string x = type("128x3072", "bf16"), w = type("3072x768", "bf16"),
                    y = type("128x768", "bf16");
  const Program p = lower_for_xla(function_of(
      "(%x: " + x + ", %w: " + w + ", %r: " + y + ") -> " + y,
      "  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (" + x + ", " + w +
          ") -> " + y + "\n" + binary("1", "add", "0", "r", y) + "  return %1 : " + y));
  ASSERT_THAT(codes(p), ElementsAre(Opcode::k_dot_general, Opcode::k_add));
  const auto& shape = std::get<ProductShape>(p.launches[0].kernel.shape);
  EXPECT_EQ(shape.batch, 16);
  EXPECT_EQ(shape.k, 192);
  EXPECT_EQ(p.launches[0].kernel.cost.bytes_written, 16 * 128 * 768 * 4);
  EXPECT_EQ(p.launches[1].kernel.cost.bytes_read, 16 * 128 * 768 * 4 + 128 * 768 * 2);
}

// llama2_7b_b32_c1024_decode: input_reduce_fusion.30 multiplies 32 · 32 queries with their keys,
// where the cache lies.
TEST(Fusion, AQueryTimesItsKeysIsAReduction) {
  const std::string cache = type("32x1024x32x128", "bf16"), query = type("32x32x128", "bf16"),
                    scores = type("32x32x1024", "f32");
  const Program p = lower_for_xla(function_of(
      "(%k: " + cache + ", %q: " + query + ") -> " + scores,
      "  %0 = stablehlo.dot_general %q, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = "
      "[2] x [3] : (" +
          query + ", " + cache + ") -> " + scores + "\n  return %0 : " + scores));
  ASSERT_EQ(p.launches.size(), 1u);
  EXPECT_EQ(p.launches[0].kernel.family, KernelFamily::kReduction);
  EXPECT_EQ(p.launches[0].kernel.cost.matrix_flops, 0);
  EXPECT_EQ(p.launches[0].kernel.cost.bytes_read, 32.0 * 1024 * 32 * 128 * 2 + 32 * 32 * 128 * 2);
}

// x1_020_decode_w2304_h18_kv18_b251_c1024: input_reduce_fusion.6 adds values up where the cache
// lies, neighbours of a sum 18 heads of 128 apart.
TEST(Fusion, SharesTimesTheirValuesAreASumAcrossTheCache) {
  const std::string cache = type("251x1024x18x128", "bf16"), shares = type("251x18x1024", "bf16"),
                    found = type("251x18x128", "bf16");
  const Program p = lower_for_xla(function_of(
      "(%v: " + cache + ", %s: " + shares + ") -> " + found,
      "  %0 = stablehlo.dot_general %s, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = "
      "[2] x [1] : (" +
          shares + ", " + cache + ") -> " + found + "\n  return %0 : " + found));
  ASSERT_EQ(p.launches.size(), 1u);
  const auto& shape = std::get<FusionShape>(p.launches[0].kernel.shape);
  EXPECT_EQ(shape.rows, 251 * 18 * 128);
  EXPECT_EQ(shape.columns, 1024);
  EXPECT_EQ(shape.inner, 18 * 128);
}

// vit_b16_b64_infer: several images, so that a head's queries do not lie side by side: they are
// moved first (input_transpose_fusion). Of one image they do, and nothing moves.
TEST(Fusion, OperandsOfABatchedProductLieSideBySide) {
  const auto kernels = [](int64_t batch) {
    const std::string x = type(std::to_string(batch) + "x196x12x64", "bf16");
    const std::string y = type(std::to_string(batch) + "x12x196x196", "bf16");
    return codes(lower_for_xla(function_of(
        "(%q: " + x + ", %k: " + x + ") -> " + y,
        "  %0 = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims "
        "= [3] x [3] : (" +
            x + ", " + x + ") -> " + y + "\n  return %0 : " + y)));
  };
  EXPECT_THAT(kernels(64),
              ElementsAre(Opcode::k_transpose, Opcode::k_transpose, Opcode::k_dot_general));
  EXPECT_THAT(kernels(1), ElementsAre(Opcode::k_dot_general));
}

// --- convolutions and reductions over outer dimensions --------------------------

const std::string kImage = type("64x14x14x256", "bf16");

std::string convolution(const std::string& result, const std::string& image,
                        const std::string& filter, const std::string& pad) {
  return "  %" + result + " = stablehlo.convolution(%" + image + ", %" + filter +
         ") dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad "
         "= [[" +
         pad + "], [" + pad +
         "]], lhs_dilate = [1, 1], rhs_dilate = [1, 1]} {batch_group_count = 1 : i64, "
         "feature_group_count = 1 : i64} : (" +
         kImage + ", " + type("3x3x256x256", "bf16") + ") -> " + kImage + "\n";
}

// resnet50_b64_train: wrapped_transpose brings the filter into [out, window, in].
TEST(Fusion, FiltersAreRearrangedForTheLibrary) {
  const Program p = lower_for_xla(
      function_of("(%x: " + kImage + ", %w: " + type("3x3x256x256", "bf16") + ") -> " + kImage,
                  convolution("y", "x", "w", "1, 1") + "  return %y : " + kImage));
  EXPECT_THAT(codes(p), ElementsAre(Opcode::k_transpose, Opcode::k_convolution));
  EXPECT_DOUBLE_EQ(p.launches[0].kernel.cost.bytes(), 2.0 * 3 * 3 * 256 * 256 * 2);
}

// resnet50_b32_infer: loop_pad_fusion.1; the library pads both sides alike.
TEST(Fusion, UnevenPaddingIsWrittenOut) {
  const Program p = lower_for_xla(
      function_of("(%x: " + kImage + ", %w: " + type("3x3x256x256", "bf16") + ") -> " + kImage,
                  unary("n", "negate", "x", kImage) + convolution("y", "n", "w", "0, 2") +
                      "  return %y : " + kImage));
  ASSERT_EQ(p.launches.size(), 3u);
  double padded = 0;
  for (const Launch& l : p.launches)
    padded = std::max(padded, l.kernel.code == Opcode::k_pad ? l.kernel.cost.bytes_written : 0);
  EXPECT_DOUBLE_EQ(padded, 64.0 * 16 * 16 * 256 * 2);
}

// resnet50_b64_train, batch normalisation: input_reduce_fusion.51 sums x and x² in 64 parts over
// one reading, two kernels add the parts.
TEST(Fusion, StatisticsOfABatchAreReadOnceAndSummedInTwoSteps) {
  const std::string wide = type("64x14x14x256", "f32"), channels = type("256", "f32");
  const Program p =
      lower_for_xla(function_of("(%x: " + kImage + ") -> (" + channels + ", " + channels + ")",
                                "  %f = stablehlo.convert %x : (" + kImage + ") -> " + wide + "\n" +
                                    binary("s", "multiply", "f", "f", wide) +
                                    reduce("a", "f", "add", "0, 1, 2", wide, channels) +
                                    reduce("b", "s", "add", "0, 1, 2", wide, channels) +
                                    "  return %a, %b : " + channels + ", " + channels));
  EXPECT_THAT(traffic(p), testing::UnorderedElementsAre(std::pair(6.422528, 2 * 0.065536),
                                                        std::pair(0.065536, 0.001024),
                                                        std::pair(0.065536, 0.001024)));
}

// unet_b8_infer, group normalisation: input_reduce_fusion.11 sums over the pixels, the longest of
// the two dimensions apart, input_reduce_fusion.56 over the channels of a group.
TEST(Fusion, DimensionsApartAreSummedOneAfterTheOther) {
  const std::string x = type("8x4096x32x4", "f32"), y = type("8x32", "f32");
  const Program p = lower_for_xla(function_of(
      "(%x: " + x + ") -> " + y, reduce("a", "x", "add", "1, 3", x, y) + "  return %a : " + y));
  ASSERT_EQ(p.launches.size(), 2u);
  const auto& first = std::get<FusionShape>(p.launches[0].kernel.shape);
  EXPECT_EQ(first.rows, 8 * 32 * 4);
  EXPECT_EQ(first.columns, 4096);
  EXPECT_EQ(first.inner, 32 * 4);
  EXPECT_EQ(p.launches[0].kernel.cost.bytes_written, 8 * 32 * 4 * 4);
  const auto& second = std::get<FusionShape>(p.launches[1].kernel.shape);
  EXPECT_EQ(second.rows, 8 * 32);
  EXPECT_EQ(second.columns, 4);
  EXPECT_EQ(second.inner, 1);
}

const std::string kStem = type("8x112x112x64", "bf16"), kPooled = type("8x56x56x64", "bf16");

std::string window_maximum(const std::string& result, const std::string& value) {
  return "  %low" + result + " = stablehlo.constant dense<0xFF80> : tensor<bf16>\n  %" + result +
         " = \"stablehlo.reduce_window\"(%" + value + ", %low" + result +
         ") <{padding = dense<[[0, 0], [0, 1], [0, 1], [0, 0]]> : tensor<4x2xi64>, "
         "window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>}> "
         "({\n  ^bb0(%p: tensor<bf16>, %q: tensor<bf16>):\n    %m = stablehlo.maximum %p, %q : "
         "tensor<bf16>\n    stablehlo.return %m : tensor<bf16>\n  }) : (" +
         kStem + ", tensor<bf16>) -> " + kPooled + "\n";
}

std::string window_gradient(const std::string& result, const std::string& value,
                            const std::string& source) {
  const std::string padded = type("8x113x113x64", "bf16");
  return "  %zero = stablehlo.constant dense<0.0> : tensor<bf16>\n  %pad = stablehlo.pad %" +
         value + ", %zero, low = [0, 0, 0, 0], high = [0, 1, 1, 0], interior = [0, 0, 0, 0] : (" +
         kStem + ", tensor<bf16>) -> " + padded +
         "\n  %sas = \"stablehlo.select_and_scatter\"(%pad, %" + source +
         ", %zero) <{padding = dense<0> : tensor<4x2xi64>, window_dimensions = array<i64: 1, 3, 3, "
         "1>, window_strides = array<i64: 1, 2, 2, 1>}> ({\n  ^bb0(%p: tensor<bf16>, %q: "
         "tensor<bf16>):\n    %c = stablehlo.compare GE, %p, %q, FLOAT : (tensor<bf16>, "
         "tensor<bf16>) -> tensor<i1>\n    stablehlo.return %c : tensor<i1>\n  }, {\n  ^bb0(%p: "
         "tensor<bf16>, %q: tensor<bf16>):\n    %s = stablehlo.add %p, %q : tensor<bf16>\n    "
         "stablehlo.return %s : tensor<bf16>\n  }) : (" +
         padded + ", " + kPooled + ", tensor<bf16>) -> " + padded + "\n  %" + result +
         " = stablehlo.slice %sas [0:8, 0:112, 0:112, 0:64] : (" + padded + ") -> " + kStem + "\n";
}

// resnet50_b32_train: loop_broadcast_maximum_fusion writes the activation and the zeros beside it,
// loop_convert_fusion pools, loop_reduce_window_fusion finds where the largest lie (five tensors of
// 32 bits), copy.198 copies the zeros and input_scatter_fusion adds to them, without padding.
TEST(Fusion, AWindowsGradientIsScatteredIntoTheActivationsZeros) {
  const Program p = lower_for_xla(function_of(
      "(%x: " + kStem + ", %g: " + kPooled + ") -> (" + kPooled + ", " + kStem + ")",
      "  %n = stablehlo.constant dense<0.0> : " + kStem + "\n" +
          binary("y", "maximum", "x", "n", kStem) + window_maximum("w", "y") +
          window_gradient("d", "y", "g") + "  return %w, %d : " + kPooled + ", " + kStem));
  const double stem = 8 * 112 * 112 * 64 * 2 / kMB, pooled = stem / 4;
  double places = 0;
  std::vector<double> copied;
  for (const Launch& l : p.launches) {
    const Cost& c = l.kernel.cost;
    if (l.kernel.code == Opcode::k_copy) copied.push_back(c.bytes_written / kMB);
    places = std::max(places, c.bytes_written / kMB);
  }
  EXPECT_THAT(copied, ElementsAre(stem));
  EXPECT_DOUBLE_EQ(places, 5 * 2 * pooled);
  EXPECT_THAT(traffic(p), testing::Contains(std::pair(stem, 2 * stem)));
}

// convnext_b32_train: tanh is written beside the activation (loop_convert_multiply_fusion),
// whatever its size; decoders' silu is computed again in each kernel that reads it.
TEST(Fusion, TanhIsStoredAndTheLogisticFunctionComputedAgain) {
  const std::string x = type("65536x1024", "bf16"), w = type("1024x1024", "bf16");
  const double size = 134.217728;
  const auto stored = [&](const std::string& function) {
    const auto dot = [&](const std::string& result, const std::string& value) {
      return "  %" + result + " = stablehlo.dot_general %" + value +
             ", %w, contracting_dims = [1] x [0] : (" + x + ", " + w + ") -> " + x + "\n";
    };
    const Program p =
        lower_for_xla(function_of("(%x: " + x + ", %w: " + w + ") -> " + x,
                                  function + binary("y", "multiply", "x", "t", x) + dot("a", "y") +
                                      binary("c", "multiply", "a", "t", x) +
                                      binary("d", "add", "c", "a", x) + "  return %d : " + x));
    return p.launches[0].kernel.cost.bytes_written / kMB;
  };
  const std::string one = "  %one = stablehlo.constant dense<1.0> : " + x + "\n";
  EXPECT_DOUBLE_EQ(stored(unary("t", "tanh", "x", x)), 2 * size);
  EXPECT_DOUBLE_EQ(stored(one + unary("m", "negate", "x", x) + unary("e", "exponential", "m", x) +
                          binary("s", "add", "one", "e", x) + binary("t", "divide", "one", "s", x)),
                   size);
}

// Losses of decoders, gpt2m_b4_s1024_fused_train: loop_multiply_fusion.24 writes one term, and
// input_scatter_fusion.1 adds the other to it in place.
TEST(Fusion, TermsAreScatteredIntoTheSumTheyBelongTo) {
  const std::string x = type("4096x8192", "f32"), i = type("4096x1", "i32"),
                    u = type("4096", "f32");
  const Program p = lower_for_xla(function_of(
      "(%x: " + x + ", %i: " + i + ", %u: " + u + ") -> " + x,
      "  %z = stablehlo.constant dense<0.0> : " + x +
          "\n  %s = \"stablehlo.scatter\"(%z, %i, %u) <{scatter_dimension_numbers = "
          "#stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0], "
          "scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], "
          "index_vector_dim = 1>}> ({\n  ^bb0(%p: tensor<f32>, %q: tensor<f32>):\n    %a = "
          "stablehlo.add %p, %q : tensor<f32>\n    stablehlo.return %a : tensor<f32>\n  }) : (" +
          x + ", " + i + ", " + u + ") -> " + x + "\n" + binary("e", "multiply", "x", "x", x) +
          binary("y", "add", "s", "e", x) + unary("r", "negate", "y", x) + "  return %r : " + x));
  const double size = 134.217728;
  // No kernel writes zeros: one makes x², one scatters, one negates.
  ASSERT_THAT(codes(p), ElementsAre(Opcode::k_multiply, Opcode::k_scatter, Opcode::k_negate));
  EXPECT_DOUBLE_EQ(p.launches[0].kernel.cost.bytes_written / kMB, size);
  EXPECT_LT(p.launches[1].kernel.cost.bytes_written / kMB, 0.1);
  EXPECT_EQ(p.memory.temporaries, 0);  // all in the result's memory
}

// --- simplification -------------------------------------------------------------

TEST(Fusion, EqualWorkIsDoneOnceAndUnreadWorkNever) {
  const std::string x = type("1024x1024", "f32");
  const Program p = lower_for_xla(function_of(
      "(%x: " + x + ") -> " + x, unary("a", "tanh", "x", x) + unary("b", "tanh", "x", x) +
                                     unary("c", "exponential", "x", x) +
                                     binary("d", "add", "a", "b", x) + "  return %d : " + x));
  ASSERT_EQ(p.launches.size(), 1u);
  EXPECT_EQ(p.launches[0].fused, 2u);
  EXPECT_EQ(p.launches[0].kernel.cost.transcendental_flops, 1024 * 1024);
}

TEST(Fusion, NumbersKnownBeforehandAreNotRead) {
  const std::string x = type("1024x1024", "f32");
  const Program p = lower_for_xla(function_of(
      "(%x: " + x + ") -> " + x, "  %c = stablehlo.constant dense<2.0> : tensor<f32>\n" +
                                     broadcast("cs", "c", "", "tensor<f32>", x) +
                                     unary("l", "log", "cs", x) +
                                     binary("y", "multiply", "x", "l", x) + "  return %y : " + x));
  EXPECT_THAT(traffic(p), ElementsAre(std::pair(4.194304, 4.194304)));
  EXPECT_EQ(p.launches[0].kernel.cost.transcendental_flops, 0);
}

// llama2_7b_b1_s512_prefill_scan stacks its layers' weights sixteen at a time;
// loop_concatenate_fusion joins all 32.
TEST(Fusion, ConcatenationsOfConcatenationsAreOne) {
  const std::string x = type("1x1024", "f32"), two = type("2x1024", "f32"),
                    four = type("4x1024", "f32");
  const auto join = [](const std::string& result, const std::string& parts, const std::string& from,
                       const std::string& to) {
    return "  %" + result + " = stablehlo.concatenate " + parts + ", dim = 0 : (" + from + ", " +
           from + ") -> " + to + "\n";
  };
  const Program p = lower_for_xla(
      function_of("(%a: " + x + ", %b: " + x + ", %c: " + x + ", %d: " + x + ") -> " + four,
                  join("e", "%a, %b", x, two) + join("f", "%c, %d", x, two) +
                      join("g", "%e, %f", two, four) + "  return %g : " + four));
  ASSERT_EQ(p.launches.size(), 1u);
  EXPECT_EQ(p.launches[0].fused, 1u);
  EXPECT_EQ(p.launches[0].kernel.cost.bytes_read, 4 * 4096);
}

// Positions and masks of all layers are computed where they are used.
TEST(Fusion, ATrainingStepsWorthOfOperationsIsFusedInTime) {
  const std::string x = type("1024x1024", "f32");
  std::string body = "  %v0 = stablehlo.tanh %x : " + x + "\n";
  for (int i = 0; i < 10000; ++i) {
    const std::string from = std::to_string(i), to = std::to_string(i + 1);
    body.append("  %i").append(from).append(" = stablehlo.iota dim = 0 : ").append(x).append("\n");
    body += binary("a" + from, "add", "v" + from, "i" + from, x);
    body += binary("v" + to, "multiply", "a" + from, "v" + from, x);
  }
  const Program p =
      lower_for_xla(function_of("(%x: " + x + ") -> " + x, body + "  return %v10000 : " + x));
  EXPECT_LT(p.launches.size(), 200u);  // a kernel holds 256 operations, each with its iota
}

/// The only convolution of a program.
const Kernel& convolution_of(const Program& p) {
  for (const Launch& l : p.launches)
    if (std::holds_alternative<ConvolutionShape>(l.kernel.shape)) return l.kernel;
  ADD_FAILURE() << "no convolution";
  static const Kernel kNone;
  return kNone;
}

std::string depthwise(const std::string& images, const std::string& window,
                      const std::string& result) {
  return function_of(
      "(%x: " + images + ", %w: tensor<7x7x1x192xbf16>) -> " + result,
      "  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
      "window = {" +
          window + "} {batch_group_count = 1 : i64, feature_group_count = 192 : i64} : (" + images +
          ", tensor<7x7x1x192xbf16>) -> " + result + "\n  return %0 : " + result);
}

// x2_051_next_w192_b128_s192: loop_pad_fusion.1 writes bf16[128,101,101,192], which
// cudnn-conv reads with window={size=7x7 stride=2x2}.
TEST(XlaConvolution, ReadsWhatWasPaddedOnOneSideMore) {
  const Program p = lower_for_xla(
      depthwise("tensor<128x96x96x192xbf16>",
                "stride = [2, 2], pad = [[2, 3], [2, 3]], lhs_dilate = [1, 1], rhs_dilate = [1, 1]",
                "tensor<128x48x48x192xbf16>"));
  const auto& shape = std::get<ConvolutionShape>(convolution_of(p).shape);
  EXPECT_EQ(shape.height, 101);
  EXPECT_EQ(shape.width, 101);
  EXPECT_EQ(shape.out_height, 48);
  EXPECT_EQ(shape.stride, 2);
  EXPECT_EQ(convolution_of(p).tensors[0].bytes, int64_t{128} * 101 * 101 * 192 * 2);
}

TEST(XlaConvolution, EachReadsItsOwnPaddingOfAnImageThatSeveralRead) {
  const std::string x = "tensor<32x64x64x64xf16>";
  const auto line = [&](const std::string& to, const std::string& filter, const std::string& type,
                        const std::string& pad) {
    return "  %" + to + " = stablehlo.convolution(%x, %" + filter +
           ") dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[" + pad +
           "], [" + pad + "]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (" +
           x + ", " + type + ") -> " + x + "\n";
  };
  const std::string two = "tensor<2x2x64x64xf16>", eight = "tensor<8x8x64x64xf16>";
  const Program p = lower_for_xla(function_of(
      "(%x: " + x + ", %w: " + two + ", %v: " + eight + ") -> (" + x + ", " + x + ", " + x + ")",
      line("0", "w", two, "0, 1") + line("1", "v", eight, "3, 4") + line("2", "v", eight, "4, 3") +
          "  return %0, %1, %2 : " + x + ", " + x + ", " + x));
  std::vector<int64_t> heights;
  for (const Launch& l : p.launches)
    if (const auto* shape = std::get_if<ConvolutionShape>(&l.kernel.shape))
      heights.push_back(shape->height);
  EXPECT_EQ(heights, (std::vector<int64_t>{65, 71, 71}));
}

// x1_046_next_w192_b40_s192_train, cudnn-conv.34: the gradient of such a convolution's input is a
// convolution of stride 1 over bf16[40,102,102,192], the gradients with zeros between them.
TEST(XlaConvolution, GradientsOfGroupsRunForwardsOverWhatIsSpreadOut) {
  const Program p = lower_for_xla(
      depthwise("tensor<40x48x48x192xbf16>",
                "stride = [1, 1], pad = [[3, 4], [3, 4]], lhs_dilate = [2, 2], rhs_dilate = [1, 1]",
                "tensor<40x96x96x192xbf16>"));
  const Kernel& kernel = convolution_of(p);
  const auto& shape = std::get<ConvolutionShape>(kernel.shape);
  EXPECT_EQ(shape.computes, ConvolutionShape::Computes::kOutput);
  EXPECT_EQ(shape.height, 102);
  EXPECT_EQ(shape.out_height, 96);
  EXPECT_EQ(shape.stride, 1);
  EXPECT_EQ(shape.groups, 192);
  EXPECT_EQ(kernel.cost.matrix_flops, 2.0 * 40 * 96 * 96 * 192 * 49);
}

// x2_030_experts_capacity: the kept dimensions [64,49] of an operand are rows of 3,136 elements, as
// gemm_fusion_dot reads bf16[2496,3136].
TEST(XlaProduct, RowsOfAnOperandAreItsKeptDimensionsJoined) {
  const auto aligned = [](const std::string& experts) {
    const Program p = lower_for_xla(
        function_of("(%x: tensor<2496x1536xbf16>, %d: tensor<2496x" + experts +
                        "xbf16>) -> tensor<1536x" + experts + "xbf16>",
                    "  %0 = stablehlo.dot_general %x, %d, contracting_dims = [0] x [0] : "
                    "(tensor<2496x1536xbf16>, tensor<2496x" +
                        experts + "xbf16>) -> tensor<1536x" + experts +
                        "xbf16>\n  return %0 : tensor<1536x" + experts + "xbf16>"));
    for (const Launch& l : p.launches)
      if (const auto* shape = std::get_if<ProductShape>(&l.kernel.shape))
        return static_cast<int>(shape->aligned);
    return 0;
  };
  EXPECT_EQ(aligned("64x49"), 16);
  EXPECT_EQ(aligned("63x49"), 2);
}

}  // namespace
}  // namespace orrery
