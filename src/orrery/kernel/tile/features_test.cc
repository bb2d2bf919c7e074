#include "orrery/kernel/tile/features.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "orrery/kernel/operator_kernel.h"

namespace orrery {
namespace {

/// Four SMs at 1 GHz: 4 × 1,024 bf16 FLOPs a clock, 1 TB/s, 1 MB of L2.
Device small_gpu() {
  Device d;
  d.name = "small";
  d.kind = "gpu";
  d.compute_units = 4;
  d.clock = Hertz(1e9);
  d.matrix.set(ElementType::kBF16, FlopsPerSecond(4096e9));
  d.matrix.set(ElementType::kTF32, FlopsPerSecond(2048e9));
  d.matrix.set(ElementType::kF8E4M3FN, FlopsPerSecond(8192e9));
  d.vector.set(ElementType::kF32, FlopsPerSecond(512e9));
  d.memory.push_back({"hbm", Bytes(1e9), BytesPerSecond(1e12), 1});
  d.memory.push_back({"l2", Bytes(1e6), BytesPerSecond(0), 1});
  return d;
}

TileDescription described(const TileGpu& gpu, const char* op, const char* dtype, const char* params,
                          Hertz clock = {}) {
  TileDescription d;
  gpu.describe(operator_kernel(op, dtype, params), clock, d);
  return d;
}

float feature(const TileDescription& d, std::string_view wanted) {
  const auto names = TileGpu::feature_names(d.tile_class);
  const auto at = std::find(names.begin(), names.end(), wanted);
  EXPECT_NE(at, names.end()) << wanted;
  return d.features[static_cast<size_t>(at - names.begin())];
}

TEST(TileFeatures, AProductTakesItsFloorAndItsArithmeticOrItsTraffic) {
  const TileGpu gpu(small_gpu());
  // 2 · 640³ FLOPs at 4.096 TFLOP/s; 3 · 640² · 2 bytes at 1 TB/s.
  const TileDescription d = described(gpu, "gemm", "bf16", R"({"m": 640, "n": 640, "k": 640})");
  EXPECT_NEAR(d.compute_seconds * 1e6, 128, 1e-9);
  EXPECT_NEAR(d.memory_seconds * 1e6, 2.4576, 1e-9);
  EXPECT_NEAR(d.seconds, d.floor_seconds + d.compute_seconds, 1e-15);
  const TileDescription slow =
      described(gpu, "gemm", "bf16", R"({"m": 640, "n": 640, "k": 640})", Hertz(0.5e9));
  EXPECT_NEAR(slow.compute_seconds * 1e6, 256, 1e-9);
  EXPECT_NEAR(slow.memory_seconds * 1e6, 2.4576, 1e-9);
}

TEST(TileFeatures, KnowsWhatWholeWavesOfWholeTilesLose) {
  const TileGpu gpu(small_gpu());
  const TileDescription d = described(gpu, "gemm", "bf16", R"({"m": 640, "n": 640, "k": 640})");
  // 5 × 5 tiles of 128² on 4 SMs: 6.25 tiles an SM, so 7 waves of 4.
  EXPECT_FLOAT_EQ(feature(d, "wave_128x128"), 6.25f / 7);
  EXPECT_NEAR(feature(d, "loss_128x128"),
              std::log(7 * 4 * 128 * 128 / (640.0 * 640) * d.compute_seconds / d.seconds), 1e-5);
  // 3 × 5 tiles of 256 × 128: 3.75 an SM, a sixth of the third row's tiles padding.
  EXPECT_FLOAT_EQ(feature(d, "wave_256x128"), 3.75f / 4);
  EXPECT_NEAR(feature(d, "loss_256x128"),
              std::log(4 * 4 * 256 * 128 / (640.0 * 640) * d.compute_seconds / d.seconds), 1e-5);
  EXPECT_FLOAT_EQ(feature(d, "align_m"), 7);  // 640 = 5 · 2^7
}

TEST(TileFeatures, TypesOfProductAreClassesOfTheirOwn) {
  const TileGpu gpu(small_gpu());
  constexpr const char* kSizes = R"({"m": 128, "n": 128, "k": 128})";
  EXPECT_EQ(described(gpu, "gemm", "bf16", kSizes).tile_class, TileClass::kProduct);
  EXPECT_EQ(described(gpu, "gemm", "tf32", kSizes).tile_class, TileClass::kSingleProduct);
  EXPECT_EQ(described(gpu, "gemm", "fp8", kSizes).tile_class, TileClass::kByteProduct);
  EXPECT_EQ(described(gpu, "gemm", "fp8_block", kSizes).tile_class, TileClass::kScaledProduct);
  EXPECT_EQ(described(gpu, "gemm", "int4_weight", kSizes).tile_class,
            TileClass::kWeightOnlyProduct);
  EXPECT_EQ(described(gpu, "gemm", "fp32", kSizes).tile_class, TileClass::kVectorProduct);
}

TEST(TileFeatures, AQuantisingStackScalesItsActivationsFirst) {
  constexpr const char* kSizes = R"({"m": 1024, "n": 128, "k": 4096})";
  const TileDescription plain = described(TileGpu(small_gpu()), "gemm", "fp8", kSizes);
  const TileDescription quantizing =
      described(TileGpu(small_gpu(), {.quantizes = true}), "gemm", "fp8", kSizes);
  // 1.3 SM clocks for each of 4 Mi activations on 4 SMs at 1 GHz, and a floor of its own.
  EXPECT_NEAR(quantizing.seconds - plain.seconds, plain.floor_seconds + 1024 * 4096 * 1.3 / 4e9,
              1e-9);
  EXPECT_EQ(described(TileGpu(small_gpu(), {.quantizes = true}), "gemm", "bf16", kSizes).seconds,
            described(TileGpu(small_gpu()), "gemm", "bf16", kSizes).seconds);
}

TEST(TileFeatures, AttentionOfFewQueriesIsDecode) {
  const TileGpu gpu(small_gpu());
  EXPECT_EQ(
      described(gpu, "sdpa", "bf16", R"({"b": 2, "h": 4, "s": 1, "t": 64, "d": 64})").tile_class,
      TileClass::kDecode);
  const TileDescription d =
      described(gpu, "sdpa", "bf16", R"({"b": 2, "h": 8, "kv": 2, "s": 100, "t": 100, "d": 64})");
  EXPECT_EQ(d.tile_class, TileClass::kAttention);
  EXPECT_FLOAT_EQ(feature(d, "lg_share"), 2);     // 8 heads to 2
  EXPECT_FLOAT_EQ(feature(d, "lg_tiles_64"), 3);  // 2 · 8 · 2 tiles of 64 on 4 SMs
  EXPECT_FLOAT_EQ(feature(d, "wave_packed"), 1);  // 2 · 2 · ⌈400 / 128⌉ = 16 on 4 SMs
  EXPECT_FLOAT_EQ(feature(d, "lg_tiles_packed"), 2);
}

TEST(TileFeatures, EveryFeatureHasANameOfItsOwn) {
  for (size_t c = 0; c < kTileClassCount; ++c) {
    const auto names = TileGpu::feature_names(static_cast<TileClass>(c));
    EXPECT_GT(names.size(), 5u) << name(static_cast<TileClass>(c));
    EXPECT_LT(names.size(), TileDescription::kMostFeatures);
    std::vector<std::string_view> sorted(names.begin(), names.end());
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end())
        << name(static_cast<TileClass>(c));
  }
}

TEST(TileFeatures, AKernelOfNothingHasFiniteFeatures) {
  const TileGpu gpu(small_gpu());
  TileDescription d;
  gpu.describe(Kernel{}, {}, d);
  EXPECT_TRUE(std::isfinite(d.seconds));
  for (const float x : d.values()) EXPECT_TRUE(std::isfinite(x));
}

/// What PyTorch's launch configurations (Reduce.cuh, PersistentSoftmax.cuh, ScanUtils.cuh) give.
struct Launch {
  const char* op;
  const char* dtype;
  const char* params;
  double values_per_thread, threads, blocks, blocks_per_row;
};

class RowLaunches : public testing::TestWithParam<Launch> {};

TEST_P(RowLaunches, AreTheLibrarys) {
  const Launch& expected = GetParam();
  const TileGpu gpu(small_gpu());
  const TileDescription d = described(gpu, expected.op, expected.dtype, expected.params);
  EXPECT_NEAR(std::exp2(feature(d, "lg_values_per_thread")), expected.values_per_thread, 1e-3);
  EXPECT_NEAR(std::exp2(feature(d, "lg_threads")), expected.threads, 1e-3);
  EXPECT_NEAR(std::exp2(feature(d, "lg_blocks_per_sm")) * 4, expected.blocks, 1e-2);
  EXPECT_NEAR(std::exp2(feature(d, "lg_blocks_per_row")), expected.blocks_per_row, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(
    TileFeatures, RowLaunches,
    testing::Values(
        // 32 × 16 threads; 4,176 / 32 = 131 values are too few to part a row among 16 warps.
        Launch{"reduce_sum", "fp32", R"({"shape": [22, 4176]})", 131, 512, 2, 1},
        // 8,192 / 32 = 256 = 16 · 16 are enough: 16 values a thread, a block a row.
        Launch{"reduce_sum", "bf16", R"({"shape": [32, 8192]})", 16, 512, 32, 1},
        // 2^20 / 512 = 2,048 values: parted among as many blocks as 4 SMs hold, 4 each.
        Launch{"reduce_sum", "fp32", R"({"shape": [1, 1048576]})", 128, 512, 16, 16},
        // Down the columns, four outputs a thread: 32 × 4 threads; 300 values are enough to
        // part a column among 4.
        Launch{"reduce_sum_axis0", "fp32", R"({"shape": [300, 256]})", 4 * 75, 128, 2, 1},
        // 100 padded to 128: 4 values a lane, two rows a warp, four warps a block.
        Launch{"softmax", "bf16", R"({"shape": [100, 100]})", 8, 128, 13, 1},
        Launch{"softmax", "bf16", R"({"shape": [10, 5000]})", 5, 1024, 10, 1},
        Launch{"layernorm", "bf16", R"({"shape": [10, 5000]})", 40, 128, 10, 1},
        // Few long against many short rows: 16 threads along a row of 288, 32 rows a block.
        Launch{"cumsum", "fp32", R"({"shape": [11235, 288]})", 18, 512, 352, 1},
        Launch{"cumsum", "fp32", R"({"shape": [1, 19200]})", 15, 128, 10, 1}));

}  // namespace
}  // namespace orrery
