#include "orrery/kernel/profile/kernel_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "orrery/kernel/operator_kernel.h"

namespace orrery {
namespace {

using testing::ElementsAre;

KernelPlace place(const char* op, const char* dtype, const char* params) {
  return place_of(operator_kernel(op, dtype, params));
}

TEST(KernelPlace, ProductsOfOneTypeDifferInSizesAlone) {
  const auto a = place("gemm", "bf16", R"({"m": 64, "n": 4096, "k": 512})");
  const auto b = place("gemm", "bf16", R"({"m": 128, "n": 4096, "k": 512})");
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_NE(a.identity, b.identity);
  EXPECT_THAT(a.coordinates(), ElementsAre(6, 12, 9, 0));
}

TEST(KernelPlace, OtherTypesScalesAndBatchesAreOtherKinds) {
  const char* one = R"({"m": 64, "n": 4096, "k": 512})";
  const uint64_t bf16 = place("gemm", "bf16", one).kind;
  for (const char* dtype : {"fp16", "fp8", "int8", "fp32", "tf32", "int4_weight", "fp8_block"})
    EXPECT_NE(place("gemm", dtype, one).kind, bf16) << dtype;
  EXPECT_NE(place("bmm", "bf16", R"({"b": 8, "m": 64, "n": 4096, "k": 512})").kind, bf16);
}

TEST(KernelPlace, HeadSizesMasksAndCachesAreOtherKinds) {
  const char* plain = R"({"b": 1, "h": 8, "s": 512, "d": 64})";
  const uint64_t kind = place("sdpa", "bf16", plain).kind;
  EXPECT_EQ(place("sdpa", "bf16", R"({"b": 4, "h": 16, "s": 2048, "d": 64})").kind, kind);
  EXPECT_NE(place("sdpa", "bf16", R"({"b": 1, "h": 8, "s": 512, "d": 128})").kind, kind);
  EXPECT_NE(place("sdpa", "bf16", R"({"b": 1, "h": 8, "s": 512, "d": 64, "causal": true})").kind,
            kind);
  EXPECT_NE(place("sdpa", "bf16", R"({"b": 1, "h": 8, "s": 512, "d": 64, "window": 128})").kind,
            kind);
  // A window wider than the keys is none.
  EXPECT_EQ(place("sdpa", "bf16", R"({"b": 1, "h": 8, "s": 512, "d": 64, "window": 600})").kind,
            kind);
}

TEST(KernelPlace, OperatorsAreKinds) {
  const char* shape = R"({"shape": [1024, 1024]})";
  EXPECT_NE(place("add", "bf16", shape).kind, place("mul", "bf16", shape).kind);
  EXPECT_NE(place("softmax", "bf16", shape).kind, place("layernorm", "bf16", shape).kind);
  EXPECT_EQ(place("softmax", "bf16", shape).identity, place("softmax", "bf16", shape).identity);
}

TEST(KernelPlace, AFusedEpilogueIsNotTheSameKernel) {
  Kernel gemm = operator_kernel("gemm", "bf16", R"({"m": 64, "n": 4096, "k": 512})");
  const KernelPlace alone = place_of(gemm);
  gemm.cost.vector_flops += 64 * 4096;
  gemm.cost.vector_type = ElementType::kBF16;
  EXPECT_NE(place_of(gemm).identity, alone.identity);
}

}  // namespace
}  // namespace orrery
