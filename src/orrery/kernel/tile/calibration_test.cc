#include "orrery/kernel/tile/calibration.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "orrery/kernel/operator_kernel.h"
#include "orrery/learn/split.h"

namespace orrery {
namespace {

Device gpu_of(const char* name, double bandwidth) {
  Device d;
  d.name = name;
  d.kind = "gpu";
  d.compute_units = 100;
  d.clock = Hertz(1e9);
  d.matrix.set(ElementType::kBF16, FlopsPerSecond(200e12));
  d.vector.set(ElementType::kF32, FlopsPerSecond(20e12));
  d.memory.push_back({"hbm", Bytes(1e9), BytesPerSecond(bandwidth), 1});
  d.memory.push_back({"l2", Bytes(4e7), BytesPerSecond(0), 1});
  return d;
}

/// Products that take `factor` times their physical time, give or take `noise`.
std::vector<MeasuredRow> products(const Device& device, int count, double factor, double noise) {
  const TileGpu gpu(device);
  SplitMix64 random(7);
  std::vector<MeasuredRow> rows;
  for (int i = 0; i < count; ++i) {
    const auto size = [&] { return 64 << random.below(7); };
    MeasuredRow row;
    const std::string params =
        fmt::format(R"({{"m": {}, "n": {}, "k": {}}})", size() + i, size(), size());
    row.kernel = operator_kernel("gemm", "bf16", params);
    row.key = stable_hash(params, 0);
    TileDescription d;
    gpu.describe(row.kernel, {}, d);
    row.seconds = d.seconds * factor * std::exp(noise * (2 * random.uniform() - 1));
    rows.push_back(row);
  }
  return rows;
}

TEST(Calibration, LearnsAFactorThatAllKernelsShare) {
  const Device device = gpu_of("one", 1e12);
  const auto rows = products(device, 200, 1.7, 0);
  const Calibration made = calibrate(device, rows, {});
  ASSERT_EQ(made.out_of_fold.size(), 200u);
  for (const OutOfFold& o : made.out_of_fold)
    EXPECT_NEAR(o.predicted / o.measured, 1, 0.01) << o.row;
  EXPECT_LT(made.fit.find(TileClass::kProduct)->error, 0.01);
  EXPECT_EQ(made.fit.find(TileClass::kConvolution), nullptr);
}

TEST(Calibration, NineInTenRowsLieInsideTheirIntervals) {
  const Device device = gpu_of("one", 1e12);
  const auto rows = products(device, 1000, 1.2, 0.2);
  const Calibration made = calibrate(device, rows, {});
  int inside = 0;
  for (const OutOfFold& o : made.out_of_fold)
    inside += o.low <= o.measured && o.measured <= o.high ? 1 : 0;
  EXPECT_NEAR(inside, 900, 15);
}

TEST(Calibration, RepeatsCountOnceByTheMiddleOne) {
  const Device device = gpu_of("one", 1e12);
  auto rows = products(device, 60, 1, 0);
  MeasuredRow slow = rows[0], middle = rows[0];
  slow.seconds *= 3;
  middle.seconds *= 2;
  rows.push_back(slow);
  rows.push_back(middle);
  const Calibration made = calibrate(device, rows, {});
  EXPECT_EQ(made.fit.find(TileClass::kProduct)->rows, 60u);
  const bool kept = std::any_of(made.out_of_fold.begin(), made.out_of_fold.end(),
                                [](const OutOfFold& o) { return o.row == 61; });
  EXPECT_TRUE(kept);
}

TEST(Calibration, AFitOverSeveralDevicesFollowsTheirFigures) {
  const Device slow = gpu_of("slow", 0.5e12), fast = gpu_of("fast", 2e12);
  const auto on_slow = products(slow, 150, 1.4, 0), on_fast = products(fast, 150, 1.4, 0);
  const std::array<RowsOnDevice, 2> tables = {{{&slow, on_slow}, {&fast, on_fast}}};
  const Calibration made = calibrate_generic(tables, {});
  const Device between = gpu_of("between", 1e12);
  TileDescription d;
  TileGpu(between).describe(operator_kernel("gemm", "bf16", R"({"m": 700, "n": 512, "k": 512})"),
                            {}, d);
  EXPECT_NEAR(estimate_of(*made.fit.find(TileClass::kProduct), d).seconds.value / d.seconds, 1.4,
              0.03);
}

/// Long products, of one matrix or of several, that take `factor` times their physical time.
void add_long_products(std::vector<MeasuredRow>& rows, const Device& device, bool batched,
                       double factor) {
  const TileGpu gpu(device);
  for (int i = 0; i < 100; ++i) {
    MeasuredRow row;
    const std::string params =
        fmt::format(R"({{{}"m": {}, "n": {}, "k": {}}})", batched ? R"("b": 4, )" : "",
                    1024 + 8 * i, 1024 << (i % 3), 1024 << (i % 2));
    row.kernel = operator_kernel(batched ? "bmm" : "gemm", "bf16", params);
    row.key = stable_hash(params, 0);
    TileDescription d;
    gpu.describe(row.kernel, {}, d);
    row.seconds = d.seconds * factor;
    rows.push_back(row);
  }
}

TEST(Calibration, RowsThatTheRestContradictsAreLeftToTheOthers) {
  std::vector<Device> devices;
  std::vector<std::vector<MeasuredRow>> rows(5);
  for (int i = 0; i < 5; ++i) {
    devices.push_back(gpu_of(std::string(1, static_cast<char>('a' + i)).c_str(), (1 + i) * 0.5e12));
    // The single products of the last one ran at a third of its clock.
    add_long_products(rows[static_cast<size_t>(i)], devices.back(), false, i == 4 ? 3.6 : 1.2);
    add_long_products(rows[static_cast<size_t>(i)], devices.back(), true, 1.2);
  }
  std::vector<RowsOnDevice> tables;
  for (size_t i = 0; i < 5; ++i) tables.push_back({&devices[i], rows[i]});
  const auto right = [&](const Calibration& made) {
    ASSERT_EQ(made.contradicted.size(), 1u);
    EXPECT_EQ(made.contradicted[0].device, "e");
    EXPECT_FALSE(made.contradicted[0].batched);
    EXPECT_NEAR(made.contradicted[0].factor, 3, 0.05);
    EXPECT_EQ(made.contradicted[0].rows.size(), 100u);
    TileDescription d;
    TileGpu(devices[4])
        .describe(operator_kernel("gemm", "bf16", R"({"m": 2048, "n": 2048, "k": 2048})"), {}, d);
    EXPECT_NEAR(estimate_of(*made.fit.find(TileClass::kProduct), d).seconds.value / d.seconds, 1.2,
                0.05);
  };
  const Calibration of_all = calibrate_generic(tables, {});
  right(of_all);
  EXPECT_EQ(of_all.out_of_fold.size(), 900u);
  tables.pop_back();
  const TileFit others = calibrate_generic(tables, {}).fit;
  CalibrationOptions options;
  options.prior = &others;
  const Calibration of_one = calibrate(devices[4], rows[4], options);
  right(of_one);
  EXPECT_EQ(of_one.out_of_fold.size(), 100u);
  // Without the others nothing contradicts them.
  EXPECT_TRUE(calibrate(devices[4], rows[4], {}).contradicted.empty());
}

TEST(Calibration, RowsOfSeveralDevicesArePredictedWithoutTheirOwn) {
  const Device a = gpu_of("a", 0.5e12), b = gpu_of("b", 1e12), c = gpu_of("c", 2e12);
  const auto on_a = products(a, 120, 1.2, 0), on_b = products(b, 120, 1.2, 0),
             on_c = products(c, 120, 2.4, 0);
  const std::array<RowsOnDevice, 3> tables = {{{&a, on_a}, {&b, on_b}, {&c, on_c}}};
  const Calibration made = calibrate_generic(tables, {});
  EXPECT_EQ(made.fit.device, "generic");
  EXPECT_EQ(made.fit.devices, (std::vector<std::string>{"a", "b", "c"}));
  ASSERT_EQ(made.out_of_fold.size(), 360u);
  // The others know nothing of c's factor.
  for (size_t i = 240; i < 360; ++i)
    EXPECT_NEAR(made.out_of_fold[i].predicted / made.out_of_fold[i].measured, 0.5, 0.01);
  // All of the error is a device's own.
  EXPECT_NEAR(made.fit.find(TileClass::kProduct)->shared, 0.9, 0.1);
}

TEST(Calibration, DevicesFartherOffArePredictedWithWiderIntervals) {
  // Bandwidths of 1, 2 and 8: the nearest other lies 1, 1 and 2 powers of two off.
  const std::array<Device, 3> devices = {gpu_of("a", 0.5e12), gpu_of("b", 1e12), gpu_of("c", 4e12)};
  const auto made_with = [&](double a, double b, double c) {
    const auto on_a = products(devices[0], 300, a, 0.02), on_b = products(devices[1], 300, b, 0.02),
               on_c = products(devices[2], 300, c, 0.02);
    const std::array<RowsOnDevice, 3> tables = {
        {{&devices[0], on_a}, {&devices[1], on_b}, {&devices[2], on_c}}};
    return calibrate_generic(tables, {});
  };
  const Calibration alike = made_with(1.2, 1.2, 1.2), apart = made_with(1, 1.3, 2);
  const ClassFit& same = *alike.fit.find(TileClass::kProduct);
  const ClassFit& other = *apart.fit.find(TileClass::kProduct);
  // What no device has of its own is known as well on a further one.
  EXPECT_LT(same.growth, 0.3);
  EXPECT_GT(other.growth, 3);
  EXPECT_EQ(other.low, -other.high);
  const auto share_inside = [](const Calibration& made) {
    double inside = 0;
    for (const OutOfFold& o : made.out_of_fold)
      inside += o.low <= o.measured && o.measured <= o.high ? 1 : 0;
    return inside / static_cast<double>(made.out_of_fold.size());
  };
  EXPECT_NEAR(share_inside(alike), 0.9, 0.01);
  EXPECT_NEAR(share_inside(apart), 0.9, 0.01);
  ASSERT_EQ(apart.fit.figures.size(), 3u);
  EXPECT_NEAR(octaves_apart(apart.fit.figures[0], apart.fit.figures[2]), 3, 1e-5);
  const GpuFigures far = TileGpu(gpu_of("far", 64e12)).figures();  // four from the nearest
  const ClassFit seen = seen_from(far, apart.fit, other);
  EXPECT_NEAR(seen.high, other.high * (1 + 4 * other.growth), 1e-6 * seen.high);
  EXPECT_NEAR(seen.low, other.low * (1 + 4 * other.growth), 1e-6 * seen.high);
}

TEST(Calibration, WhatFewDevicesTeachIsTrustedHalfAsFar) {
  const Device device = gpu_of("one", 1e12);
  const auto rows = products(device, 90, 1.2, 0.1);
  const RowsOnDevice table{&device, rows};
  const Calibration own = calibrate(device, rows, {}), generic = calibrate_generic({&table, 1}, {});
  const ClassFit& a = *own.fit.find(TileClass::kProduct);
  const ClassFit& b = *generic.fit.find(TileClass::kProduct);
  EXPECT_NEAR(b.low, 2 * a.low, 1e-9);
  EXPECT_NEAR(b.high, 2 * a.high, 1e-9);
}

TEST(Calibration, FewRowsCorrectWhatOtherDevicesTaught) {
  const Device other = gpu_of("other", 1e12), device = gpu_of("one", 2e12);
  auto rows = products(other, 400, 1.4, 0);
  // Small products take twice as long: no ten rows could tell where that begins.
  for (MeasuredRow& row : rows)
    if (row.seconds < 8e-6) row.seconds *= 2;
  const RowsOnDevice table{&other, rows};
  const TileFit prior = calibrate_generic({&table, 1}, {}).fit;
  CalibrationOptions options;
  options.prior = &prior;

  auto few = products(device, 12, 1.4 * 1.3, 0);
  for (MeasuredRow& row : few)
    if (row.seconds < 1.3 * 8e-6) row.seconds *= 2;
  const Calibration made = calibrate(device, few, options);
  ASSERT_NE(made.fit.find(TileClass::kProduct), nullptr);
  const auto factor = [&](const char* params) {
    TileDescription d;
    TileGpu(device).describe(operator_kernel("gemm", "bf16", params), {}, d);
    return estimate_of(*made.fit.find(TileClass::kProduct), d).seconds.value / d.seconds;
  };
  EXPECT_NEAR(factor(R"({"m": 4096, "n": 4096, "k": 4096})"), 1.4 * 1.3, 0.2);
  EXPECT_NEAR(factor(R"({"m": 64, "n": 64, "k": 64})"), 2 * 1.4 * 1.3, 0.5);
  few.resize(9);
  EXPECT_EQ(calibrate(device, few, options).fit.find(TileClass::kProduct), nullptr);
  options.prior = nullptr;
  EXPECT_EQ(calibrate(device, few, options).fit.find(TileClass::kProduct), nullptr);
}

TEST(Calibration, APriorThatMisleadsIsLeftAlone) {
  const Device other = gpu_of("other", 1e12), device = gpu_of("one", 2e12);
  auto strange = products(other, 400, 1, 0);
  SplitMix64 random(3);
  for (MeasuredRow& row : strange) row.seconds *= std::exp(4 * random.uniform());
  const RowsOnDevice table{&other, strange};
  const TileFit prior = calibrate_generic({&table, 1}, {}).fit;
  const auto rows = products(device, 300, 1.5, 0.02);
  CalibrationOptions with, without;
  with.prior = &prior;
  EXPECT_EQ(to_json(calibrate(device, rows, with).fit),
            to_json(calibrate(device, rows, without).fit));
}

TEST(Calibration, OneInFiveIsHeldOutWhateverElseIsInTheTable) {
  const auto rows = products(gpu_of("one", 1e12), 2000, 1, 0);
  int held = 0;
  for (const MeasuredRow& row : rows) held += is_held_out(row, 5) ? 1 : 0;
  EXPECT_NEAR(held, 400, 60);
  // Of the keys 0 to 11, by the SplitMix64 finaliser worked out apart.
  std::vector<uint64_t> keys;
  for (MeasuredRow row; row.key < 12; ++row.key)
    if (is_held_out(row, 5)) keys.push_back(row.key);
  EXPECT_EQ(keys, (std::vector<uint64_t>{6, 7, 9, 11}));
}

TEST(Calibration, ThreadsChangeNothing) {
  const Device device = gpu_of("one", 1e12);
  const auto rows = products(device, 300, 1.2, 0.1);
  CalibrationOptions one, two;
  one.threads = 1;
  two.threads = 2;
  EXPECT_EQ(to_json(calibrate(device, rows, one).fit), to_json(calibrate(device, rows, two).fit));
}

TEST(Calibration, FarFromTheDataIntervalsWiden) {
  const Device device = gpu_of("one", 1e12);
  const Calibration made = calibrate(device, products(device, 300, 1.2, 0.1), {});
  const TileGpu gpu(device);
  const auto spread = [&](const char* params) {
    TileDescription d;
    gpu.describe(operator_kernel("gemm", "bf16", params), {}, d);
    return estimate_of(*made.fit.find(TileClass::kProduct), d).own_spread;
  };
  EXPECT_GT(spread(R"({"m": 1048576, "n": 65536, "k": 65536})"),
            2 * spread(R"({"m": 1024, "n": 1024, "k": 1024})"));
}

}  // namespace
}  // namespace orrery
