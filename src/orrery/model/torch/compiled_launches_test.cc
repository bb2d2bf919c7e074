#include "orrery/model/torch/compiled_launches.h"

#include <gtest/gtest.h>

#include "orrery/hardware/catalogue.h"
#include "orrery/workload/zoo/zoo.h"

namespace orrery {
namespace {

const Device& h200() {
  static const Device device =
      Catalogue(std::string(ORRERY_SOURCE_DIR) + "/hardware").device("h200");
  return device;
}

Program lowered(const std::string& model, const std::string& phase, int64_t batch,
                int64_t sequence) {
  BuildOptions options;
  options.phase = phase;
  options.batch = batch;
  options.sequence = sequence;
  const Workload workload = build_zoo_model(model, options);
  const auto stack = Registry<Stack>::instance().at("torch-compile", "stack").create();
  const StackConstants told = load_stack_constants(ORRERY_SOURCE_DIR "/data", "torch-compile");
  const auto library = stack->library_launches(workload, h200(), told);
  return lower(workload, h200(), stack->rules(), library.get());
}

double count(const Program& program, auto&& is) {
  double n = 0;
  for (const Launch& l : program.launches)
    if (is(l.kernel)) n += l.count;
  return n;
}

/// A layer: two norms that form the sums they read, four products with their biases, attention
/// and GELU. Around them embeddings, the last norm and the head: 99, where a profile has 103.
TEST(CompiledLaunches, SumsAndBiasesJoinTheirNeighbours) {
  EXPECT_EQ(count(lowered("gpt2", "forward", 8, 1024), [](const Kernel&) { return true; }),
            12 * 8 + 3);
}

/// A profile of torchvision's ViT has as many: copies of queries, keys and values make three more
/// a layer.
TEST(CompiledLaunches, VisionTransformersCopyTheirHeads) {
  EXPECT_EQ(count(lowered("vit-b-16", "forward", 32, 0), [](const Kernel&) { return true; }), 137);
}

/// Without a fused kernel for its mask, BERT's attention is two products and a softmax in fp32.
TEST(CompiledLaunches, BertsAttentionIsWrittenOut) {
  const Program p = lowered("bert-base", "forward", 8, 128);
  EXPECT_EQ(count(p,
                  [](const Kernel& k) {
                    return k.code == Opcode::k_dot_general &&
                           k.cost.matrix_type == ElementType::kF32;
                  }) +
                count(p,
                      [](const Kernel& k) {
                        return k.code == Opcode::k_dot_general &&
                               k.cost.matrix_type == ElementType::kNone;
                      }),
            2 * 12);
  EXPECT_EQ(count(p, [](const Kernel& k) { return k.code == Opcode::k_softmax; }), 12);
  EXPECT_EQ(count(p, [](const Kernel& k) { return k.code == Opcode::k_attention; }), 0);
}

/// Each of ResNet-50's 53 batch norms is a sum in two steps and a loop, forward and backward; the
/// optimiser's kernels go over lists of its 161 parameters. A profile has 682.
TEST(CompiledLaunches, BatchNormsTakeThreeKernels) {
  const Program p = lowered("resnet-50", "train", 64, 0);
  EXPECT_EQ(count(p, [](const Kernel& k) { return k.code == Opcode::k_batch_norm_training; }), 53);
  EXPECT_EQ(count(p, [](const Kernel& k) { return k.code == Opcode::k_batch_norm_grad; }), 53);
  EXPECT_NEAR(count(p, [](const Kernel&) { return true; }), 682, 34);
}

TEST(CompiledLaunches, AReplayHasNoDispatch) {
  const auto stack = Registry<Stack>::instance().at("torch-compile", "stack").create();
  BuildOptions options;
  const Workload workload = build_zoo_model("resnet-18", options);
  const auto costs = [&](const char* mode) {
    return stack->costs(workload, load_stack_constants(ORRERY_SOURCE_DIR "/data", "torch-compile",
                                                       {{"mode", mode}}));
  };
  EXPECT_GT(costs("default").dispatch.value, 1e-5);
  EXPECT_LT(costs("reduce-overhead").dispatch.value, 1e-6);
}

}  // namespace
}  // namespace orrery
