#include "orrery/kernel/tile/features.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "orrery/hardware/catalogue.h"
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

TEST(TileFeatures, DevicesLieAsFarApartAsTheirFigures) {
  const Catalogue catalogue(ORRERY_SOURCE_DIR "/hardware");
  const auto figures = [&](const char* name) { return TileGpu(catalogue.device(name)).figures(); };
  // One chip: 1,935 GB/s of memory beside 1,555.
  EXPECT_NEAR(octaves_apart(figures("a100-pcie-40gb"), figures("a100-pcie-80gb")),
              std::log2(1935.0 / 1555), 1e-4);
  EXPECT_EQ(octaves_apart(figures("h200"), figures("h200")), 0);
  // Another maker's libraries alone are two off.
  EXPECT_GT(octaves_apart(figures("v100-pcie-32gb"), figures("mi100")), 2);
}

TEST(TileFeatures, ALimitThatSomebodySetDoesNotMakeItAnotherBoard) {
  Device device = small_gpu();
  device.base_clock = Hertz(0.25e9);
  device.power_limit = device.rated_power = Watts(400);
  device.reference_power = Watts(200);  // draws 1.78 times that at most: the base clock is no worry
  const auto seconds = [&] {
    return described(TileGpu(device, {.warm = true}), "gemm", "bf16",
                     R"({"m": 640, "n": 640, "k": 640})")
        .compute_seconds;
  };
  const double spared = seconds();
  device.power_limit = Watts(300);
  EXPECT_EQ(seconds(), spared);
  device.rated_power = Watts(300);
  // Half-way between 1 and 0.25 GHz for long ones; 128 us lose 128 / (128 + 300) of that.
  EXPECT_NEAR(seconds() / spared, 1 + 128.0 / 428, 1e-9);
}

TEST(TileFeatures, OddProductsAreDescribedAsTheNextAlignedOnes) {
  const TileGpu gpu(small_gpu());
  const TileDescription odd = described(gpu, "gemm", "bf16", R"({"m": 640, "n": 1017, "k": 637})"),
                        aligned =
                            described(gpu, "gemm", "bf16", R"({"m": 640, "n": 1024, "k": 640})");
  for (const char* name : {"lg_n", "lg_k", "align_n", "align_k", "wave_64x64", "lg_tiles_128x128"})
    EXPECT_EQ(feature(odd, name), feature(aligned, name)) << name;
  // What it computes is its own; and batches, of which odd ones were measured, stay as they are.
  EXPECT_LT(odd.compute_seconds, aligned.compute_seconds);
  EXPECT_EQ(
      feature(described(gpu, "bmm", "bf16", R"({"b": 2, "m": 64, "n": 197, "k": 64})"), "align_n"),
      0);
}

TEST(TileFeatures, ProductsOnMatrixUnitsRunAtTheirPublicRate) {
  Device device = small_gpu();
  device.products_clock = Hertz(0.8e9);
  const TileGpu gpu(device);
  // 128 us at the data sheet's rate; vector units keep theirs: 2 · 640³ at 512 GFLOP/s.
  const char* const params = R"({"m": 640, "n": 640, "k": 640})";
  EXPECT_NEAR(described(gpu, "gemm", "bf16", params).compute_seconds * 1e6, 160, 1e-9);
  EXPECT_NEAR(described(gpu, "gemm", "fp32", params).compute_seconds * 1e6, 1024, 1e-9);
  // Where matrix units do fp32, theirs as well; and a higher clock is no slower.
  device.matrix.set(ElementType::kF32, FlopsPerSecond(1024e9));
  device.matrix_clock = device.clock;
  EXPECT_NEAR(described(TileGpu(device), "gemm", "fp32", params).compute_seconds * 1e6, 640, 1e-9);
  device.clock = Hertz(2e9);
  EXPECT_NEAR(described(TileGpu(device), "gemm", "bf16", params).compute_seconds * 1e6, 80, 1e-9);
}

TEST(TileFeatures, ACompilersProductPaysForOperandsItCannotLoadAtOnce) {
  const TileGpu gpu(small_gpu());
  const auto longer = [&](const char* params) {
    const TileDescription d = described(gpu, "fused_gemm", "bf16", params);
    const Cost c = operator_kernel("fused_gemm", "bf16", params).cost;
    return d.compute_seconds / (c.matrix_flops / 4096e9);
  };
  EXPECT_DOUBLE_EQ(longer(R"({"m": 640, "n": 640, "k": 640})"), 1);
  EXPECT_DOUBLE_EQ(longer(R"({"m": 640, "n": 641, "k": 640})"), 1.55);  // the output alone
  EXPECT_DOUBLE_EQ(longer(R"({"m": 640, "n": 19, "k": 640})"), 1);      // one tile of columns
  EXPECT_DOUBLE_EQ(longer(R"({"m": 640, "n": 641, "k": 640, "aligned": 2})"), 2.9);
  EXPECT_DOUBLE_EQ(longer(R"({"m": 640, "n": 640, "k": 641, "aligned": 2})"), 4.9);
  EXPECT_DOUBLE_EQ(longer(R"({"m": 640, "n": 642, "k": 640, "aligned": 4})"), 1.95);
  EXPECT_DOUBLE_EQ(longer(R"({"m": 640, "n": 640, "k": 642, "aligned": 4})"), 3.05);
  // Not the depth where it lies across: a gradient of weights sums over any number of tokens.
  EXPECT_DOUBLE_EQ(longer(R"({"m": 640, "n": 640, "k": 641})"), 1);
}

TEST(TileFeatures, TheLongerSideOfACompilersNarrowProductIsItsRows) {
  const TileGpu gpu(small_gpu());
  const TileDescription one =
      described(gpu, "fused_gemm", "bf16", R"({"m": 8, "n": 4096, "k": 128})");
  EXPECT_FLOAT_EQ(feature(one, "lg_m"), 12);
  EXPECT_FLOAT_EQ(feature(one, "lg_n"), 3);
  // 64 rows are enough.
  EXPECT_FLOAT_EQ(
      feature(described(gpu, "fused_gemm", "bf16", R"({"m": 64, "n": 4096, "k": 128})"), "lg_m"),
      6);
}

TEST(TileFeatures, ReductionsOfACompilerTakeTheirRowsOrTheirElements) {
  const TileGpu gpu(small_gpu());
  const auto clocks = [&](const char* params) {  // of four SMs at 1 GHz
    return described(gpu, "fusion", "fp32", params).compute_seconds * 4e9;
  };
  // Rows side by side: 11 clocks each, a quarter of that where they have 16 elements for 64 lanes.
  EXPECT_NEAR(clocks(R"({"elements": 64000, "rows": 1000, "columns": 64})"), 11000, 1e-6);
  EXPECT_NEAR(clocks(R"({"elements": 16000, "rows": 1000, "columns": 16})"), 2750, 1e-6);
  EXPECT_NEAR(clocks(R"({"elements": 64000, "rows": 1000, "columns": 64, "pieces": 2})"), 33000,
              1e-6);
  // Across: nine elements a clock; masked: two.
  EXPECT_NEAR(clocks(R"({"elements": 90000, "rows": 1000, "columns": 90, "inner": 10})"), 10000,
              1e-6);
  EXPECT_NEAR(clocks(R"({"elements": 90000, "rows": 1000, "columns": 90, "does": 65})"), 45000,
              1e-6);
}

TEST(TileFeatures, ThreeChannelsAreConvolvedOnTheVectorUnits) {
  const TileGpu gpu(small_gpu());
  // 2 · 1 · 16 · 16 · 64 · 3 · 9 FLOPs at 512 GFLOP/s; 32 output channels take a tile of 64.
  const char* three =
      R"({"n": 1, "c": 3, "h": 16, "w": 16, "k": 64, "r": 3, "s": 3, "stride": 1, "pad": 1})";
  EXPECT_NEAR(described(gpu, "conv2d", "bf16", three).compute_seconds, 884736 / 512e9, 1e-15);
  const char* few =
      R"({"n": 1, "c": 3, "h": 16, "w": 16, "k": 32, "r": 3, "s": 3, "stride": 1, "pad": 1})";
  EXPECT_NEAR(described(gpu, "conv2d", "bf16", few).compute_seconds, 884736 / 512e9, 1e-15);
  // Eight channels fill a load of 16 bytes: the matrix units at 4.096 TFLOP/s.
  const char* eight =
      R"({"n": 1, "c": 8, "h": 16, "w": 16, "k": 64, "r": 3, "s": 3, "stride": 1, "pad": 1})";
  EXPECT_NEAR(described(gpu, "conv2d", "bf16", eight).compute_seconds, 2359296 / 4096e9, 1e-15);
}

TEST(TileFeatures, ThreeFifthsOfTheFloorFollowTheClock) {
  const TileGpu gpu(small_gpu());
  constexpr const char* kSizes = R"({"m": 8, "n": 8, "k": 8})";
  // Of 2.3 µs at 1,980 MHz.
  EXPECT_NEAR(described(gpu, "gemm", "bf16", kSizes).floor_seconds, 2.3e-6 * (0.4 + 0.6 * 1.98),
              1e-12);
  EXPECT_NEAR(described(gpu, "gemm", "bf16", kSizes, Hertz(1.98e9)).floor_seconds, 2.3e-6, 1e-12);
  EXPECT_NEAR(
      described(TileGpu(small_gpu(), {.eager = true}), "gemm", "bf16", kSizes, Hertz(1.98e9))
          .floor_seconds,
      32.3e-6, 1e-12);
}

TEST(TileFeatures, WarmOperandsAreReadFromL2WhereTheyFit) {
  Device device = small_gpu();
  device.memory[1].bandwidth = BytesPerSecond(4e12);
  const TileGpu warm(device, {.warm = true});
  // Six copies of the weights, 6 · 2 · 64 · 512 bytes, activations and results make 0.53 MB
  // of 1 MB: 0.2 MB a launch at 4 TB/s.
  const TileDescription fits = described(warm, "gemm", "bf16", R"({"m": 128, "n": 64, "k": 512})");
  EXPECT_FLOAT_EQ(feature(fits, "kept_in_l2"), 1);
  EXPECT_NEAR(fits.memory_seconds, 2.0 * (128 * 512 + 512 * 64 + 128 * 64) / 4e12, 1e-15);
  // Twelve times the weights do not.
  const TileDescription beyond =
      described(warm, "gemm", "bf16", R"({"m": 128, "n": 64, "k": 6144})");
  EXPECT_FLOAT_EQ(feature(beyond, "kept_in_l2"), 0);
  EXPECT_NEAR(beyond.memory_seconds, 2.0 * (128 * 6144 + 6144 * 64 + 128 * 64) / 1e12, 1e-15);
  // An addition has no weights: 1 MB of operands are half kept.
  const TileDescription half = described(warm, "add", "bf16", R"({"shape": [166667]})");
  EXPECT_NEAR(feature(half, "kept_in_l2"), 0.5, 1e-4);
  EXPECT_NEAR(half.memory_seconds, 1e-6 * (0.5 + 0.5 / 4), 1e-10);
  EXPECT_NEAR(described(TileGpu(device), "add", "bf16", R"({"shape": [166667]})").memory_seconds,
              1e-6, 1e-10);
}

TEST(TileFeatures, LongProductsRunBetweenBaseAndBoostClockWhereTheyAreMeasuredAtLength) {
  Device device = small_gpu();
  device.base_clock = Hertz(0.25e9);
  constexpr const char* kLong = R"({"m": 12800, "n": 12800, "k": 12800})";
  const double boost = described(TileGpu(device), "gemm", "bf16", kLong).compute_seconds;
  EXPECT_NEAR(boost, 2 * 12800.0 * 12800 * 12800 / 4.096e12, 1e-9);
  // √(0.25 · 1) GHz: twice as long, but for the first 0.3 ms of 1 s.
  EXPECT_NEAR(described(TileGpu(device, {.warm = true}), "gemm", "bf16", kLong).compute_seconds,
              boost * (1 + boost / (boost + 300e-6)), 1e-9);
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
  // AMD's matrix units take fp32 as it is: four times the rate here, the same class.
  Device amd = small_gpu();
  amd.matrix.set(ElementType::kF32, FlopsPerSecond(2048e9));
  const TileDescription d = described(TileGpu(amd), "gemm", "fp32", kSizes);
  EXPECT_EQ(d.tile_class, TileClass::kVectorProduct);
  EXPECT_NEAR(d.compute_seconds, 2 * 128.0 * 128 * 128 / 2048e9, 1e-15);
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

TEST(TileFeatures, ABlockOfAttentionWalksThroughWholeTilesOfKeys) {
  // 100 SMs of 2,048 bf16 FLOPs and 16 special results a clock, at 1 GHz.
  Device device = small_gpu();
  device.compute_units = 100;
  device.matrix.set(ElementType::kBF16, FlopsPerSecond(204.8e12));
  device.special = FlopsPerSecond(1.6e12);
  const TileGpu gpu(device);
  // Tiles of 64 queries and 128 keys of 128: 2 · 64 · 128 · 256 / 2048 + 64 · 128 / 16 = 2,560
  // clocks, and 2,050 between them. One head of 8,192 keys is not parted: 64 tiles in a row.
  const TileDescription alone = described(
      gpu, "sdpa", "bf16", R"({"b": 1, "h": 1, "s": 1, "t": 8192, "d": 128, "paged": true})");
  EXPECT_NEAR(alone.compute_seconds, 64 * (2560 + 2050) * 1e-9, 1e-12);
  // Eight heads that share their keys are packed into one tile, which all SMs part among them.
  const TileDescription parted =
      described(gpu, "sdpa", "bf16",
                R"({"b": 1, "h": 8, "kv": 1, "s": 1, "t": 8192, "d": 128, "paged": true})");
  EXPECT_NEAR(parted.compute_seconds, (2560 + 2050) * 1e-9, 1e-12);
  EXPECT_GT(parted.seconds - parted.floor_seconds - parted.compute_seconds, 1e-6);  // put together
  // With a window they are not packed: 2,048 sequences are 16,384 blocks of a tile.
  const TileDescription window = described(
      gpu, "sdpa", "bf16",
      R"({"b": 2048, "h": 8, "kv": 1, "s": 1, "t": 64, "d": 128, "window": 64, "paged": true})");
  EXPECT_NEAR(window.compute_seconds, 16384 * (2560 + 3000) / 100.0 * 1e-9, 1e-9);
  // 256 queries see 64.5, 128.5 … keys: one, and twice two tiles and three, half a tile each more.
  const TileDescription prefill =
      described(gpu, "sdpa", "bf16",
                R"({"b": 100, "h": 1, "s": 256, "d": 128, "causal": true, "paged": true})");
  EXPECT_NEAR(prefill.compute_seconds, 4 * (1.75 * 2560 + 3000) * 1e-9, 1e-9);
}

TEST(TileFeatures, NarrowKeysAreOtherKernelsWithAndWithoutWarpGroups) {
  constexpr const char* kShape =
      R"({"b": 2, "h": 8, "kv": 2, "s": 100, "d": 64, "kv_dtype": "fp8"})";
  Device device = small_gpu();
  EXPECT_EQ(feature(described(TileGpu(device), "sdpa", "bf16", kShape), "narrow_keys"), -1);
  device.architecture = "hopper";
  EXPECT_EQ(feature(described(TileGpu(device), "sdpa", "bf16", kShape), "narrow_keys"), 1);
}

TEST(TileFeatures, DecodePacksAndSplitsWhereThereIsNoWindow) {
  const TileGpu gpu(small_gpu());
  const TileDescription d =
      described(gpu, "sdpa", "bf16", R"({"b": 8, "h": 8, "kv": 4, "s": 1, "t": 64, "d": 64})");
  EXPECT_FLOAT_EQ(feature(d, "lg_blocks"), 3);  // 8 · 4 of them on 4 SMs
  // Heads are not packed where there is a window: 64 blocks.
  EXPECT_FLOAT_EQ(feature(described(gpu, "sdpa", "bf16",
                                    R"({"b": 8, "h": 8, "kv": 4, "s": 1, "t": 64, "d": 64,
                                        "causal": true, "window": 32})"),
                          "lg_blocks"),
                  4);
  // One block may split its 1,024 keys, eight times 128, among two blocks an SM.
  EXPECT_FLOAT_EQ(feature(described(gpu, "sdpa", "bf16",
                                    R"({"b": 1, "h": 8, "kv": 1, "s": 1, "t": 1024, "d": 64})"),
                          "lg_splits"),
                  3);
}

TEST(TileFeatures, TheDataSheetSaysWhatNothingBeats) {
  // 1 TB/s and 1 MB of L2: what outgrows that comes from memory.
  const TileGpu gpu(small_gpu());
  const auto least = [&](const char* op, const char* dtype, const char* params) {
    return described(gpu, op, dtype, params).least_seconds * 1e6;
  };
  EXPECT_NEAR(least("copy", "fp32", R"({"shape": [16777216]})"), 134.217728 - 1, 1e-9);
  EXPECT_EQ(least("copy", "fp32", R"({"shape": [100000]})"), 0);
  // 2 · 4096³ FLOPs at 4.096 TFLOP/s; of a convolution 35 ms by its definition, but there are ways
  // with less arithmetic.
  EXPECT_NEAR(least("gemm", "bf16", R"({"m": 4096, "n": 4096, "k": 4096})"), 33554.432, 1e-6);
  EXPECT_LT(
      least("conv2d", "bf16", R"({"n": 8, "c": 512, "h": 64, "w": 64, "k": 512, "r": 3, "s": 3})"),
      100);
}

TEST(TileFeatures, ExpertsTakeTheRowsTheirTokensChoose) {
  const TileGpu gpu(small_gpu());
  const TileDescription d =
      described(gpu, "moe", "bf16",
                R"({"tokens": 16, "hidden": 256, "inter": 128, "topk": 2, "experts": 8, "ep": 2})");
  EXPECT_FLOAT_EQ(feature(d, "lg_rank_rows"), 4);  // 32 choices on two ranks
  EXPECT_FLOAT_EQ(feature(d, "lg_touched"), 2);
  EXPECT_FLOAT_EQ(feature(d, "lg_experts"), 3);
  EXPECT_NEAR(feature(d, "ln_padded"), std::log(4.0), 1e-6);  // 4 rows in tiles of 16
  // One tile of rows an expert, two of its 256 columns, on 4 SMs.
  EXPECT_FLOAT_EQ(feature(d, "lg_tiles_16"), 1);
  // The weights of four experts, their 16 rows, and beside them the 32 rows of all.
  EXPECT_NEAR(d.memory_seconds, (4 * 3 * 128 * 256 + 16 * (2 * 256 + 3 * 128)) * 2 / 1e12, 1e-15);
  EXPECT_NEAR(feature(d, "ln_beside"),
              std::log((32 * (256 + 3 * 128) + 16 * 256) * 2 / 1e12 / d.seconds), 1e-4);
}

TEST(TileFeatures, FewChoicesOfManyExpertsAreDealtOutARankAtATime) {
  // 8 choices of 256 experts, drawn by a power law: each expert's share is less than half a
  // row, and the first of 64 ranks is dealt one.
  const TileDescription one =
      described(TileGpu(small_gpu()), "moe", "bf16",
                R"({"tokens": 1, "hidden": 256, "inter": 128, "topk": 8, "experts": 256, "ep": 64,
                    "skew": 1.2})");
  EXPECT_FLOAT_EQ(feature(one, "lg_rank_rows"), 0);
  EXPECT_FLOAT_EQ(feature(one, "lg_touched"), 0);
  EXPECT_FLOAT_EQ(feature(one, "lg_tokens"), 0);
}

TEST(TileFeatures, KnowsTheTilesOfAStacksByteProducts) {
  const TileGpu gpu(small_gpu(), {.quantizes = true});
  // 256 × 128 for 4,096 < n ≤ 8,192: 2 × 40 tiles on 4 SMs; else 128².
  const TileDescription d = described(gpu, "gemm", "fp8", R"({"m": 512, "n": 5120, "k": 128})");
  EXPECT_FLOAT_EQ(feature(d, "own_rows"), 256);
  EXPECT_FLOAT_EQ(feature(d, "lg_own_tiles"), std::log2(20.0f));
  EXPECT_FLOAT_EQ(feature(d, "wave_own"), 1);
  // Such a tile is alone on its SM: 512 · 5,120 results of two bytes are written with nothing
  // multiplied meanwhile, at 1 TB/s; quantising 512 · 128 activations comes before.
  const auto beside = [](const TileDescription& of) {
    return of.seconds - of.floor_seconds - std::max(of.compute_seconds, of.memory_seconds);
  };
  const double scaling = d.floor_seconds + 512 * 128 * 1.3 / 4e9;
  EXPECT_NEAR(beside(d), scaling + 512 * 5120 * 2 / 1e12, 1e-12);
  const TileDescription wide = described(gpu, "gemm", "fp8", R"({"m": 512, "n": 16384, "k": 128})");
  EXPECT_FLOAT_EQ(feature(wide, "own_rows"), 128);
  EXPECT_NEAR(beside(wide), scaling, 1e-12);
  // With warp groups: 16 tiles of 64 columns on 4 SMs, 3,400 clocks each.
  Device fast = small_gpu();
  fast.architecture = "hopper";
  const TileDescription few = described(TileGpu(fast, {.quantizes = true}), "gemm", "fp8",
                                        R"({"m": 16, "n": 1024, "k": 128})");
  const double quantization = few.floor_seconds + 16 * 128 * 1.3 / 4e9;
  EXPECT_NEAR(few.seconds,
              few.floor_seconds + quantization + 4 * 3400e-9 +
                  std::max(few.compute_seconds, few.memory_seconds),
              1e-12);
  EXPECT_FLOAT_EQ(feature(few, "own_rows"), 0);
}

TEST(TileFeatures, AHostThatLaunchesAProductIsWaitedFor) {
  Device fast = small_gpu();
  fast.architecture = "hopper";
  const TileGpu gpu(fast, {.quantizes = true});
  const auto seconds = [&](const char* sizes) {
    return described(gpu, "gemm", "fp8_block", sizes).seconds;
  };
  EXPECT_NEAR(seconds(R"({"m": 16, "n": 1024, "k": 128})"), 58e-6, 1e-12);
  EXPECT_NEAR(seconds(R"({"m": 64, "n": 1024, "k": 128})"), 82e-6, 1e-12);
  EXPECT_NEAR(seconds(R"({"m": 16, "n": 1024, "k": 192})"), 172e-6, 1e-12);
  // 2 · 4,096³ FLOPs take 4 ms: the host is done long before.
  EXPECT_GT(seconds(R"({"m": 4096, "n": 4096, "k": 4096})"), 4e-3);
  EXPECT_LT(
      described(TileGpu(fast), "gemm", "fp8_block", R"({"m": 16, "n": 1024, "k": 128})").seconds,
      20e-6);
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
