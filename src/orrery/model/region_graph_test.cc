// What kernels read and leave in memory, and in which order: as XLA's fusions, by hand.

#include "orrery/model/region_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "orrery/hardware/catalogue.h"
#include "orrery/workload/readers/stablehlo/stablehlo_for_test.h"

namespace orrery {
namespace {

using stablehlo::function_of;
using stablehlo::read_text;
using testing::ElementsAre;
using testing::IsEmpty;

/// The kernels of a program, beside what their types lie in.
class Lowered {
 public:
  explicit Lowered(const std::string& text)
      : workload_(read_text(text)),
        small_(workload_, true),
        graph_(workload_, device(), rules(), small_, workload_.function(workload_.entry()).body),
        kernels(graph_.kernels()) {}

 private:
  static const Device& device() {
    static const Device kDevice =
        Catalogue(std::string(ORRERY_SOURCE_DIR) + "/hardware").device("h200");
    return kDevice;
  }
  static const FusionRules& rules() {
    static const FusionRules kRules =
        Registry<Stack>::instance().at("xla", "stack").create()->rules();
    return kRules;
  }
  const Workload workload_;
  const SmallFunctions small_;
  const RegionGraph graph_;

 public:
  const RegionKernels kernels;
};

// bottleneck_w32_b16_s224_train, loop_maximum_fusion.2: max((convert(x) − mean) · rstd · scale +
// bias, 0) has the operands bias, scale, rstd, mean, x.
TEST(RegionGraph, OperandsStandAsXlasFusionPutsThem) {
  const std::string x = "tensor<16x56x56x32xf32>", half = "tensor<16x56x56x32xbf16>",
                    c = "tensor<32xf32>";
  const auto spread = [&](const std::string& result, const std::string& value) {
    return "  %" + result + " = stablehlo.broadcast_in_dim %" + value + ", dims = [3] : (" + c +
           ") -> " + x + "\n";
  };
  const Lowered of_k(function_of(
      "(%a: " + half + ", %mean: " + c + ", %rstd: " + c + ", %scale: " + c + ", %bias: " + c +
          ") -> " + x,
      "  %x = stablehlo.convert %a : (" + half + ") -> " + x + "\n" + spread("m", "mean") +
          "  %0 = stablehlo.subtract %x, %m : " + x + "\n" + spread("r", "rstd") +
          "  %1 = stablehlo.multiply %0, %r : " + x + "\n" + spread("s", "scale") +
          "  %2 = stablehlo.multiply %1, %s : " + x + "\n" + spread("b", "bias") +
          "  %3 = stablehlo.add %2, %b : " + x + "\n  %z = stablehlo.constant dense<0.0> : " + x +
          "\n  %4 = stablehlo.maximum %3, %z : " + x + "\n  return %4 : " + x));
  const RegionKernels& k = of_k.kernels;
  ASSERT_EQ(k.steps.size(), 1u);
  std::vector<uint32_t> arguments;  // by their places
  for (uint32_t v : k.steps[0].reads)
    for (uint32_t i = 0; i < k.arguments.size(); ++i)
      if (k.arguments[i] == v) arguments.push_back(i);
  EXPECT_THAT(arguments, ElementsAre(4, 3, 2, 1, 0));
}

// llama2_7b_b1_s2048_prefill: fusion.1682 and fusion.1683 write the same scaled rows for one
// product each.
TEST(RegionGraph, EachLibraryProductReadsItsOwnCopy) {
  const std::string x = "tensor<2048x4096xbf16>", w = "tensor<4096x11008xbf16>",
                    y = "tensor<2048x11008xbf16>";
  const auto dot = [&](const std::string& result, const std::string& weight) {
    return "  %" + result + " = stablehlo.dot_general %h, %" + weight +
           ", contracting_dims = [1] x [0] : (" + x + ", " + w + ") -> " + y + "\n";
  };
  const Lowered of_k(
      function_of("(%x: " + x + ", %g: tensor<4096xbf16>, %w: " + w + ", %v: " + w + ") -> (" + y +
                      ", " + y + ")",
                  "  %s = stablehlo.broadcast_in_dim %g, dims = [1] : (tensor<4096xbf16>) -> " + x +
                      "\n  %h = stablehlo.multiply %x, %s : " + x + "\n" + dot("a", "w") +
                      dot("b", "v") + "  return %a, %b : " + y + ", " + y));
  const RegionKernels& k = of_k.kernels;
  ASSERT_EQ(k.steps.size(), 4u);
  const uint32_t one = k.steps[0].writes.at(0).value, other = k.steps[1].writes.at(0).value;
  EXPECT_NE(one, other);
  EXPECT_EQ(k.values[one].type->bytes, k.values[other].type->bytes);
  EXPECT_THAT((std::vector{k.steps[2].reads.at(0), k.steps[3].reads.at(0)}),
              testing::UnorderedElementsAre(one, other));
}

// unet_w128_b4_s64, fusion.180: a softmax keeps the scores, of which it needs a largest and a sum;
// a mean that is taken off is written over what it was taken of.
TEST(RegionGraph, OneReductionMayRunBeforeItsOperandIsOverwrittenNotTwo) {
  const std::string x = "tensor<64x512x512xf32>", r = "tensor<64x512xf32>";
  const auto reduce = [&](const std::string& result, const std::string& value,
                          const std::string& with, const std::string& start) {
    return "  %z" + result + " = stablehlo.constant dense<" + start + "> : tensor<f32>\n  %" +
           result + " = stablehlo.reduce(%" + value + " init: %z" + result +
           ") applies stablehlo." + with + " across dimensions = [2] : (" + x +
           ", tensor<f32>) -> " + r + "\n  %s" + result + " = stablehlo.broadcast_in_dim %" +
           result + ", dims = [0, 1] : (" + r + ") -> " + x + "\n";
  };
  const Lowered of_softmax(function_of(
      "(%x: " + x + ") -> " + x,
      reduce("m", "x", "maximum", "0xFF800000") + "  %d = stablehlo.subtract %x, %sm : " + x +
          "\n  %e = stablehlo.exponential %d : " + x + "\n" + reduce("t", "e", "add", "0.0") +
          "  %p = stablehlo.divide %e, %st : " + x + "\n  return %p : " + x));
  const RegionKernels& softmax = of_softmax.kernels;
  ASSERT_EQ(softmax.steps.size(), 1u);
  EXPECT_THAT(softmax.steps[0].writes.at(0).may_overwrite, IsEmpty());
  const Lowered of_centred(
      function_of("(%x: " + x + ") -> " + x, reduce("m", "x", "add", "0.0") +
                                                 "  %d = stablehlo.subtract %x, %sm : " + x +
                                                 "\n  return %d : " + x));
  const RegionKernels& centred = of_centred.kernels;
  ASSERT_EQ(centred.steps.size(), 1u);
  EXPECT_THAT(centred.steps[0].writes.at(0).may_overwrite, ElementsAre(centred.arguments[0]));
}

// convnext_b32_train: the gradient of a filter of single positions reads the images as they are,
// though another convolution has a padded copy of them.
TEST(RegionGraph, AFiltersGradientReadsWhatItsConvolutionRead) {
  const std::string x = "tensor<40x96x96x192xbf16>", y = "tensor<40x48x48x192xbf16>";
  const std::string attributes =
      "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (" + x + ", ";
  const Lowered of_k(
      function_of("(%a: " + x + ", %g: " + y + ", %w: tensor<3x3x192x192xbf16>) -> (" + y +
                      ", tensor<1x1x192x192xbf16>)",
                  "  %x = stablehlo.negate %a : " + x +
                      "\n  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, "
                      "o]->[b, 0, 1, "
                      "f], window = {stride = [2, 2], pad = [[0, 1], [0, 1]], lhs_dilate = [1, 1], "
                      "rhs_dilate = "
                      "[1, 1]} " +
                      attributes + "tensor<3x3x192x192xbf16>) -> " + y +
                      "\n  %1 = stablehlo.convolution(%x, %g) dim_numbers = [f, 0, 1, b]x[i, 0, 1, "
                      "o]->[0, 1, b, "
                      "f], window = {stride = [1, 1], pad = [[0, -1], [0, -1]], lhs_dilate = [1, "
                      "1], rhs_dilate "
                      "= [2, 2]} " +
                      attributes + y + ") -> tensor<1x1x192x192xbf16>\n  return %0, %1 : " + y +
                      ", tensor<1x1x192x192xbf16>"));
  const RegionKernels& k = of_k.kernels;
  const uint32_t gradient = k.results.at(1);
  const auto writer = std::find_if(k.steps.begin(), k.steps.end(), [&](const auto& step) {
    return !step.writes.empty() && step.writes[0].value == gradient;
  });
  ASSERT_NE(writer, k.steps.end());
  EXPECT_EQ(k.values[writer->reads.at(0)].type->bytes, int64_t{40} * 96 * 96 * 192 * 2);
}

}  // namespace
}  // namespace orrery
