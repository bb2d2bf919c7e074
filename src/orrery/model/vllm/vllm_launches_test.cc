#include "orrery/model/vllm/vllm_launches.h"

#include <gmock/gmock.h>
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

Workload zoo(const std::string& name, const std::string& phase, int64_t batch, int64_t length,
             const std::string& dtype = "") {
  BuildOptions options;
  options.phase = phase;
  options.batch = batch;
  options.dtype = dtype;
  (phase == "decode" ? options.context : options.sequence) = length;
  return build_zoo_model(name, options);
}

Program lowered(const Workload& workload) {
  const auto stack = Registry<Stack>::instance().at("vllm", "stack").create();
  const StackConstants told = load_stack_constants(ORRERY_SOURCE_DIR "/data", "vllm");
  const auto library = stack->library_launches(workload, h200(), told);
  return lower(workload, h200(), stack->rules(), library.get());
}

double launches(const Program& program) {
  double n = 0;
  for (const Launch& l : program.launches) n += l.count;
  return n;
}

/// How often a product of [m,k]·[k,n] runs.
double products(const Program& program, int64_t m, int64_t n, int64_t k) {
  double count = 0;
  for (const Launch& l : program.launches)
    if (const auto* p = std::get_if<ProductShape>(&l.kernel.shape);
        p != nullptr && p->m == m && p->n == n && p->k == k)
      count += l.count;
  return count;
}

/// A layer: norm, queries, keys and values together, rotation, cache, attention, output, norm, gate
/// and up together, their activation, down. Around them the embedding, the last norm, the logits,
/// their conversion and the largest.
TEST(VllmLaunches, LlamaDecodesInTenKernelsALayer) {
  const Program p = lowered(zoo("llama3-8b", "decode", 8, 512));
  EXPECT_EQ(launches(p), 32 * 10 + 5);
  EXPECT_EQ(products(p, 8, (32 + 2 * 8) * 128, 4096), 32);
  EXPECT_EQ(products(p, 8, 2 * 14336, 4096), 32);
  EXPECT_EQ(products(p, 8, 128256, 4096), 1);
}

TEST(VllmLaunches, AttentionReadsThePagedCache) {
  for (const Launch& l : lowered(zoo("llama3-8b", "decode", 8, 512)).launches) {
    const auto* a = std::get_if<AttentionShape>(&l.kernel.shape);
    if (a == nullptr) continue;
    EXPECT_TRUE(a->paged);
    EXPECT_EQ(a->keys, 512);
    EXPECT_EQ(a->kv_heads, 8);
    EXPECT_EQ(a->queries, 1);
  }
}

TEST(VllmLaunches, PromptsHaveTheLogitsOfTheirLastTokens) {
  const Program p = lowered(zoo("llama3-8b", "prefill", 2, 1024));
  EXPECT_EQ(products(p, 2 * 1024, 2 * 14336, 4096), 32);
  EXPECT_EQ(products(p, 2, 128256, 4096), 1);
}

/// Experts are one block, their choice one kernel behind the router's product.
TEST(VllmLaunches, ExpertsAreOneBlock) {
  const Program p = lowered(zoo("mixtral-8x7b", "decode", 8, 512));
  EXPECT_EQ(launches(p), 32 * 10 + 5);
  EXPECT_EQ(products(p, 8, 8, 4096), 32);  // the router's
  double blocks = 0;
  for (const Launch& l : p.launches)
    if (const auto* e = std::get_if<ProductShape>(&l.kernel.shape); e != nullptr && e->groups > 1) {
      blocks += l.count;
      EXPECT_EQ(e->groups, 8);
      EXPECT_EQ(e->choices, 2);
      EXPECT_EQ(e->tokens, 8);
      EXPECT_EQ(e->m, 16);
      EXPECT_EQ(e->n, 3 * 14336);
    }
  EXPECT_EQ(blocks, 32);
}

/// Activations are quantised in their products' time: nothing more is launched.
TEST(VllmLaunches, EightBitLayersLaunchNoMore) {
  const Program p = lowered(zoo("llama3-8b", "decode", 8, 512, "fp8"));
  EXPECT_EQ(launches(p), 32 * 10 + 5);
  double narrow = 0;
  for (const Launch& l : p.launches)
    if (l.kernel.cost.matrix_type == ElementType::kF8E4M3FN &&
        std::holds_alternative<ProductShape>(l.kernel.shape))
      narrow += l.count;
  EXPECT_EQ(narrow, 32 * 4);
}

/// GPT-2's layers: two norms, four products with their biases, cache, attention, GELU; its parts of
/// one projection are views. Around them the sum of two embeddings, the last norm and four more.
TEST(VllmLaunches, BiasesAndPartsAreNoKernels) {
  const Program p = lowered(zoo("gpt2", "decode", 2, 128));
  EXPECT_EQ(products(p, 2, 3 * 768, 768), 12);
  double slices = 0, sums = 0;
  for (const Launch& l : p.launches) {
    slices += l.kernel.code == Opcode::k_slice ? l.count : 0;
    sums += l.kernel.code == Opcode::k_add ? l.count : 0;
  }
  EXPECT_EQ(slices, 0);
  EXPECT_LE(sums, 1);
}

/// DeepSeek's down-projections of queries and of the latent share a weight, its experts' gate
/// and up another.
TEST(VllmLaunches, LatentAttentionStacksItsDownProjections) {
  const Program p = lowered(zoo("deepseek-v3", "decode", 2, 128));
  EXPECT_EQ(products(p, 2, 1536 + 512 + 64, 7168), 61);
  EXPECT_EQ(products(p, 2, 2 * 2048, 7168), 58);
}

TEST(VllmLaunches, UpTo512TokensAreReplayed) {
  EXPECT_TRUE(is_captured(zoo("llama3-8b", "decode", 512, 128)));
  EXPECT_TRUE(is_captured(zoo("llama3-8b", "prefill", 1, 512)));
  EXPECT_FALSE(is_captured(zoo("llama3-8b", "prefill", 1, 513)));
  EXPECT_FALSE(is_captured(zoo("resnet-18", "forward", 1, 0)));
  const auto stack = Registry<Stack>::instance().at("vllm", "stack").create();
  const StackConstants told = load_stack_constants(ORRERY_SOURCE_DIR "/data", "vllm");
  EXPECT_EQ(stack->costs(zoo("llama3-8b", "decode", 8, 128), told).dispatch.value, 0);
  EXPECT_EQ(stack->costs(zoo("llama3-8b", "prefill", 1, 2048), told).dispatch.value,
            told.costs.dispatch.value);
}

}  // namespace
}  // namespace orrery
