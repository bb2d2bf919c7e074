#include "orrery/model/torch/torch_launches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "orrery/base/error.h"
#include "orrery/hardware/catalogue.h"
#include "orrery/workload/readers/stablehlo/stablehlo_for_test.h"
#include "orrery/workload/zoo/zoo.h"

namespace orrery {
namespace {

using stablehlo::function_of;
using stablehlo::read_text;
using testing::ElementsAre;
using testing::HasSubstr;

const Device& h200() {
  static const Device device =
      Catalogue(std::string(ORRERY_SOURCE_DIR) + "/hardware").device("h200");
  return device;
}

Program lowered(const Workload& workload, const std::string& stack = "torch-eager",
                const std::vector<std::pair<std::string, std::string>>& settings = {},
                const Device& device = h200()) {
  const auto made = Registry<Stack>::instance().at(stack, "stack").create();
  const StackConstants told =
      load_stack_constants(ORRERY_SOURCE_DIR "/data", made->name(), settings);
  const auto library = made->library_launches(workload, device, told);
  return lower(workload, device, made->rules(), library.get());
}

Program lowered(const std::string& signature, const std::string& body) {
  return lowered(read_text(function_of(signature, body)));
}

Workload zoo(const std::string& name, const std::string& phase, int64_t batch, int64_t sequence = 0,
             const std::map<std::string, std::string>& choices = {}) {
  BuildOptions options;
  options.phase = phase;
  options.batch = batch;
  options.sequence = sequence;
  options.choices = choices;
  return build_zoo_model(name, options);
}

std::vector<Opcode> codes(const Program& program) {
  std::vector<Opcode> found;
  for (const Launch& l : program.launches) found.push_back(l.kernel.code);
  return found;
}

double count(const Program& program, auto&& is) {
  double n = 0;
  for (const Launch& l : program.launches)
    if (is(l)) n += l.count;
  return n;
}
double count(const Program& program) {
  return count(program, [](const Launch&) { return true; });
}

TEST(TorchLaunches, ABiasIsAddedByTheProduct) {
  const Program p = lowered(
      "(%x: tensor<64x128xbf16>, %w: tensor<128x256xbf16>, %b: tensor<256xbf16>) -> "
      "tensor<64x256xbf16>",
      "  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x128xbf16>, "
      "tensor<128x256xbf16>) -> tensor<64x256xbf16>\n"
      "  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<256xbf16>) -> "
      "tensor<64x256xbf16>\n"
      "  %2 = stablehlo.add %0, %1 : tensor<64x256xbf16>\n  return %2 : tensor<64x256xbf16>");
  EXPECT_THAT(codes(p), ElementsAre(Opcode::k_dot_general));
}

TEST(TorchLaunches, OnlyOperandsThatLieAlikeAreVectorized) {
  const Program p =
      lowered("(%x: tensor<64x128xf32>, %b: tensor<128xf32>) -> tensor<64x128xf32>",
              "  %0 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<128xf32>) -> "
              "tensor<64x128xf32>\n"
              "  %1 = stablehlo.multiply %x, %0 : tensor<64x128xf32>\n"
              "  %2 = stablehlo.add %1, %x : tensor<64x128xf32>\n  return %2 : tensor<64x128xf32>");
  ASSERT_THAT(codes(p), ElementsAre(Opcode::k_multiply, Opcode::k_add));
  const Kernel& indexed = p.launches[0].kernel;
  EXPECT_EQ(indexed.family, KernelFamily::kIndexed);
  EXPECT_EQ(indexed.cost.bytes_read, (64 * 128 + 128) * 4);
  // Two dimensions to divide by, four bytes: (0.32 + 2 · 0.16) · 1.28 clocks of 128 lanes.
  EXPECT_NEAR(indexed.cost.vector_flops, 64 * 128 * 0.64 * 1.28 * 256, 1);
  EXPECT_EQ(p.launches[1].kernel.family, KernelFamily::kElementwise);
}

TEST(TorchLaunches, AReshapeOfATransposedTensorCopiesIt) {
  const Program p =
      lowered("(%x: tensor<4x8x16xf32>) -> tensor<4x128xf32>",
              "  %0 = stablehlo.transpose %x, dims = [0, 2, 1] : (tensor<4x8x16xf32>) -> "
              "tensor<4x16x8xf32>\n"
              "  %1 = stablehlo.reshape %0 : (tensor<4x16x8xf32>) -> tensor<4x128xf32>\n"
              "  return %1 : tensor<4x128xf32>");
  ASSERT_THAT(codes(p), ElementsAre(Opcode::k_copy));
  EXPECT_EQ(p.launches[0].kernel.cost.bytes(), 2 * 4 * 8 * 16 * 4);
  // Cutting the last dimension in two moves nothing.
  EXPECT_TRUE(lowered("(%x: tensor<4x128xf32>) -> tensor<4x8x16xf32>",
                      "  %0 = stablehlo.reshape %x : (tensor<4x128xf32>) -> tensor<4x8x16xf32>\n"
                      "  return %0 : tensor<4x8x16xf32>")
                  .launches.empty());
}

/// A layer: two norms of eight kernels, seven products, five kernels for queries' and keys'
/// positions each, attention and its counter, SiLU, a product and two sums. Around them the
/// embedding, nine kernels of rotary tables, twelve of the mask, the last norm and the head. A
/// profile of transformers' Llama-2 has as many.
TEST(TorchLaunches, LlamaIsWhatTransformersWritesOut) {
  const Program p = lowered(zoo("llama2-7b", "prefill", 1, 512));
  EXPECT_EQ(count(p), 32 * (2 * 8 + 7 + 2 * 5 + 2 + 4) + 1 + 9 + 12 + 8 + 1);
  // At 2,048 tokens both products up are more than two waves of tiles, with a counter each.
  EXPECT_EQ(count(lowered(zoo("llama2-7b", "prefill", 1, 2048))) - count(p), 2 * 32);
}

TEST(TorchLaunches, AGraphReplaysTheSameKernels) {
  const Workload w = zoo("gpt2", "forward", 2, 128);
  const Program eager = lowered(w), graph = lowered(w, "cuda-graph");
  ASSERT_EQ(eager.launches.size(), graph.launches.size());
  for (size_t i = 0; i < eager.launches.size(); ++i)
    EXPECT_EQ(eager.launches[i].kernel, graph.launches[i].kernel);
}

TEST(TorchLaunches, OddVocabulariesHaveOnlySlowKernels) {
  const auto times_on = [](const Device& device) {
    const Program p = lowered(zoo("gpt2", "forward", 1, 128), "torch-eager", {}, device);
    const auto found = std::ranges::find_if(p.launches, [](const Launch& l) {
      const auto* s = std::get_if<ProductShape>(&l.kernel.shape);
      return s != nullptr && s->n == 50257;
    });
    return found == p.launches.end() ? 0 : found->times;
  };
  const Catalogue catalogue(std::string(ORRERY_SOURCE_DIR) + "/hardware");
  EXPECT_GT(times_on(h200()), 5);
  // GPUs that have no faster kernels for other sizes lose less, newer ones as much.
  EXPECT_NEAR(times_on(catalogue.device("a100-sxm-80gb")) / times_on(h200()), 0.62, 1e-12);
  EXPECT_EQ(times_on(catalogue.device("b200")), times_on(h200()));
}

TEST(TorchLaunches, TrainingNormalizesInBothDirectionsAndUpdatesListsOfTensors) {
  const Workload w = zoo("resnet-18", "train", 8);
  const Program p = lowered(w);
  const auto of = [](Opcode code) {
    return [code](const Launch& l) { return l.kernel.code == code; };
  };
  // 20 batch norms: statistics and transform forward, sums and gradient backward.
  EXPECT_EQ(count(p, of(Opcode::k_batch_norm_training)), 2 * 20);
  EXPECT_EQ(count(p, of(Opcode::k_batch_norm_grad)), 2 * 20);
  // 20 convolutions; all but the first give a gradient to their input, too.
  EXPECT_EQ(count(p, of(Opcode::k_convolution)), 20 + 19 + 20);
  // 62 parameters of 11.7 million elements: in two lists of 36 for Adam, in one to be zeroed.
  EXPECT_EQ(count(p, of(Opcode::k_map)), 2 + 1);
  const Program apart = lowered(w, "torch-eager", {{"optimizer", "foreach"}});
  EXPECT_GT(count(apart, of(Opcode::k_map)), 8);
  // Without kept gradients nothing is added to them.
  const Program fresh = lowered(w, "torch-eager", {{"gradients", "dropped"}});
  EXPECT_EQ(count(p) - count(fresh), 62 + 1);
}

TEST(TorchLaunches, DropoutAndTheGradientOfSplitQueriesAreOneKernelEach) {
  const Program with = lowered(zoo("gpt2", "train", 1, 128));
  const Program without = lowered(zoo("gpt2", "train", 1, 128, {{"dropout", "no"}}));
  const auto draws = [](const Launch& l) { return l.kernel.code == Opcode::k_rng; };
  EXPECT_EQ(count(with, draws), 1 + 2 * 12);
  EXPECT_EQ(count(without, draws), 0);
  EXPECT_EQ(count(without, [](const Launch& l) { return l.kernel.code == Opcode::k_concatenate; }),
            12);
}

TEST(StackSettings, ReplaceConstantsAndAreChecked) {
  const std::string data = ORRERY_SOURCE_DIR "/data";
  const StackConstants plain = load_stack_constants(data, "torch-eager");
  EXPECT_TRUE(plain.dispatch_of_library.contains("transformers"));
  const StackConstants told =
      load_stack_constants(data, "torch-eager", {{"dispatch", "21us"}, {"optimizer", "foreach"}});
  EXPECT_NEAR(told.costs.dispatch.value, 21e-6, 1e-12);
  EXPECT_TRUE(told.dispatch_of_library.empty());
  EXPECT_EQ(told.choices.at("optimizer"), "foreach");
  const auto message = [&](const char* name, const char* value) {
    try {
      load_stack_constants(data, "torch-eager", {{name, value}});
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kUsage);
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_THAT(message("dispach", "21us"), HasSubstr("dispatch"));
  EXPECT_THAT(message("dispatch", "fast"), HasSubstr("stack.dispatch"));
  EXPECT_THAT(message("optimizer", "adam"), HasSubstr("fused, foreach"));
}

TEST(Adjust, TimesAndHidesPartsOfEstimates) {
  std::vector<Launch> launches(3);
  launches[1].times = 2;
  launches[1].hidden = Seconds(1e-6);
  launches[2].hidden = Seconds(1);
  std::vector<Estimate> estimates(3);
  for (Estimate& e : estimates) e.seconds = Seconds(3e-6);
  adjust(launches, estimates);
  EXPECT_DOUBLE_EQ(estimates[0].seconds.value, 3e-6);
  EXPECT_DOUBLE_EQ(estimates[1].seconds.value, 5e-6);
  EXPECT_DOUBLE_EQ(estimates[2].seconds.value, 0);
}

}  // namespace
}  // namespace orrery
