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

  std::string_view does(OpId op) const { return name(workload_.view(op).code()); }
  void emit(std::vector<Launch>& launches) const { graph_.emit(1, launches); }

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
  EXPECT_THAT((std::vector{k.steps[2].reads.front(), k.steps[3].reads.front()}),
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
  const auto writer_of = [&](uint32_t value) {
    return std::find_if(k.steps.begin(), k.steps.end(), [&](const auto& step) {
      return !step.writes.empty() && step.writes[0].value == value;
    });
  };
  // The library writes it as it reads filters, outputs outermost; a kernel of its own turns it.
  const auto turns = writer_of(k.results.at(1));
  ASSERT_NE(turns, k.steps.end());
  const auto convolves = writer_of(turns->reads.front());
  ASSERT_NE(convolves, k.steps.end());
  EXPECT_EQ(k.values[convolves->reads.front()].type->bytes, int64_t{40} * 96 * 96 * 192 * 2);
}

/// A normalisation over all but the last dimension and the gradient of it, as batch normalisation
/// is written: which tensors of the image's size its kernels leave in memory.
std::vector<std::string> stored_by_norm(int64_t batch, int64_t size, int64_t channels) {
  const auto image = [&](const char* element) {
    return "tensor<" + std::to_string(batch) + "x" + std::to_string(size) + "x" +
           std::to_string(size) + "x" + std::to_string(channels) + "x" + element + ">";
  };
  const std::string half = image("bf16"), full = image("f32"), open = image("i1");
  const std::string numbers = "tensor<" + std::to_string(channels) + "xf32>";
  const std::string halves = "tensor<" + std::to_string(channels) + "xbf16>";
  const auto spread = [](const std::string& result, const std::string& value,
                         const std::string& from, const std::string& to) {
    return "  %" + result + " = stablehlo.broadcast_in_dim %" + value + ", dims = [3] : (" + from +
           ") -> " + to + "\n";
  };
  const auto convert = [](const std::string& result, const std::string& value,
                          const std::string& from, const std::string& to) {
    return "  %" + result + " = stablehlo.convert %" + value + " : (" + from + ") -> " + to + "\n";
  };
  const auto both = [](const std::string& result, const std::string& code, const std::string& a,
                       const std::string& b, const std::string& type) {
    return "  %" + result + " = stablehlo." + code + " %" + a + ", %" + b + " : " + type + "\n";
  };
  const auto sum = [](const std::string& result, const std::string& value, const std::string& from,
                      const std::string& to, const std::string& element) {
    return "  %" + result + "0 = stablehlo.constant dense<0.0> : tensor<" + element + ">\n  %" +
           result + " = stablehlo.reduce(%" + value + " init: %" + result +
           "0) applies stablehlo.add across dimensions = [0, 1, 2] : (" + from + ", tensor<" +
           element + ">) -> " + to + "\n";
  };
  const std::string body =
      convert("up", "x", half, full) + spread("m", "mean", numbers, full) +
      spread("s", "scale", numbers, full) + both("centred", "subtract", "up", "m", full) +
      both("scaled", "multiply", "centred", "s", full) + convert("normed", "scaled", full, half) +
      spread("g", "gain", halves, half) + spread("c", "bias", halves, half) +
      both("gained", "multiply", "normed", "g", half) +
      both("shifted", "add", "gained", "c", half) +
      "  %zero = stablehlo.constant dense<0.0> : tensor<bf16>\n"
      "  %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<bf16>) -> " +
      half + "\n" + both("y", "maximum", "shifted", "zeros", half) +
      "  %open = stablehlo.compare GT, %shifted, %zeros : (" + half + ", " + half + ") -> " + open +
      "\n  %dz = stablehlo.select %open, %dy, %zeros : " + open + ", " + half + "\n" +
      both("dgs", "multiply", "normed", "dz", half) + sum("dg", "dgs", half, halves, "bf16") +
      sum("db", "dz", half, halves, "bf16") + both("dn", "multiply", "dz", "g", half) +
      convert("dnf", "dn", half, full) + both("dss", "multiply", "centred", "dnf", full) +
      sum("ds", "dss", full, numbers, "f32") + both("dms", "multiply", "dnf", "s", full) +
      sum("dm", "dms", full, numbers, "f32") + "  return %y, %dg, %db, %ds, %dm : " + half + ", " +
      halves + ", " + halves + ", " + numbers + ", " + numbers;
  const Lowered of_k(function_of("(%x: " + half + ", %mean: " + numbers + ", %scale: " + numbers +
                                     ", %gain: " + halves + ", %bias: " + halves +
                                     ", %dy: " + half + ") -> (" + half + ", " + halves + ", " +
                                     halves + ", " + numbers + ", " + numbers + ")",
                                 body));
  std::vector<std::string> stored;
  for (const RegionKernels::Step& step : of_k.kernels.steps)
    for (const RegionKernels::Write& write : step.writes) {
      const Type& type = *of_k.kernels.values[write.value].type;
      if (type.elements == batch * size * size * channels)
        stored.push_back(std::string(of_k.does(write.op)) +
                         (type.element == ElementType::kF32 ? " f32" : ""));
    }
  std::sort(stored.begin(), stored.end());
  return stored;
}

// What XLA stores of these programs, by its optimised HLO for an H200. Larger images are
// normalised again where they are read; of small ones the reductions have so few blocks that
// whatever they would compute on the way is stored first.
TEST(RegionGraph, StoresOfANormalisationWhatXlaStores) {
  EXPECT_THAT(stored_by_norm(64, 56, 64), ElementsAre("maximum", "select"));
  EXPECT_THAT(stored_by_norm(64, 28, 128), ElementsAre("convert", "maximum", "select"));
  EXPECT_THAT(stored_by_norm(64, 7, 512),
              ElementsAre("maximum", "multiply", "multiply f32", "multiply f32", "select"));
}

// bf16 gradients of a filter come as the library writes them. Adam's kernel turns them, so that
// none of its three results is put over what it reads: each is copied there.
TEST(RegionGraph, UpdatesOfAFilterAreCopied) {
  const std::string x = "tensor<8x14x14x64xbf16>", w = "tensor<3x3x64x64xf32>";
  const std::string text = function_of(
      "(%w: " + w + " {tf.aliasing_output = 0 : i32}, %m: " + w +
          " {tf.aliasing_output = 1 : i32}, %x: " + x + ", %g: " + x + ") -> (" + w + ", " + w +
          ")",
      "  %d = stablehlo.convolution(%x, %g) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], "
      "window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, "
      "1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (" +
          x + ", " + x + ") -> tensor<3x3x64x64xbf16>\n" +
          "  %u = stablehlo.convert %d : (tensor<3x3x64x64xbf16>) -> " + w + "\n" +
          "  %n = stablehlo.add %m, %u : " + w + "\n" + "  %v = stablehlo.subtract %w, %n : " + w +
          "\n  return %v, %n : " + w + ", " + w);
  const Lowered of_k(text);
  std::vector<Launch> launches;
  of_k.emit(launches);
  std::vector<double> moved;
  for (const Launch& launch : launches)
    if (launch.kernel.code == Opcode::k_copy) moved.push_back(launch.kernel.cost.bytes_written);
  EXPECT_THAT(moved, ElementsAre(3 * 3 * 64 * 64 * 4.0, 3 * 3 * 64 * 64 * 4.0));
}

}  // namespace
}  // namespace orrery
