// The physical time of a product of 4096³ in bf16 on an H200: a floor and 128.388 µs, for
// 989.4 TFLOP/s at 1,830 MHz are 1,070.5 at the boost clock of 1,980 MHz.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "orrery/base/csv.h"
#include "orrery/hardware/catalogue.h"
#include "orrery/kernel/kernel_model.h"
#include "orrery/kernel/operator_kernel.h"
#include "orrery/kernel/tile/fit_store.h"
#include "orrery/learn/fit_trees.h"
#include "orrery/learn/split.h"

namespace orrery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Kernel& product() {
  static const Kernel kernel =
      operator_kernel("gemm", "bf16", R"({"m": 4096, "n": 4096, "k": 4096})");
  return kernel;
}
const Kernel& addition() {
  static const Kernel kernel = operator_kernel("add", "bf16", R"({"shape": [4096, 4096]})");
  return kernel;
}

/// A fit that multiplies the physical time of a class by `factor`, whatever the kernel.
ClassFit constant_fit(TileClass tile_class, double factor) {
  const size_t features = TileGpu::feature_names(tile_class).size();
  ClassFit fit;
  fit.centre = BoostedTrees(features, std::log(factor), 1e-4, {}, {});
  fit.spread = BoostedTrees(features, std::log(0.1), 1e-4, {}, {});
  fit.range.resize(features, {-1e6f, 1e6f});
  fit.rows = 20;
  return fit;
}

TileFit constant_fit(const std::string& device, const std::string& stack, double factor,
                     std::initializer_list<TileClass> classes = {TileClass::kProduct,
                                                                 TileClass::kElementwise}) {
  TileFit fit;
  fit.device = device;
  fit.stack = stack;
  for (const TileClass c : classes) fit.classes[static_cast<size_t>(c)] = constant_fit(c, factor);
  return fit;
}

/// A folder of shipped fits of its own.
class TileModelTest : public testing::Test {
 protected:
  TileModelTest()
      : folder_(std::filesystem::path(testing::TempDir()) /
                ("tile_model_test_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_ / "kernels");
    // Of 700 W: 80 idle, and 620 when the matrix units run at their full rate.
    PowerFit power;
    power.device = "h200";
    power.coefficients.idle = 80.0 / 700;
    power.coefficients.matrix_half = 620.0 / 700;
    power.coefficients.burst = 10;
    ship("power.json", to_json(power));
  }
  ~TileModelTest() override { std::filesystem::remove_all(folder_); }

  std::string ship(const std::string& file, const TileFit& fit) const {
    return ship(file, to_json(fit));
  }
  std::string ship(const std::string& file, const std::string& text) const {
    std::string path = (folder_ / "kernels" / file).string();
    std::ofstream(path) << text;
    return path;
  }
  std::unique_ptr<Predictor> bound(const std::string& stack = "torch-eager",
                                   const std::string& fit = "") const {
    return Registry<KernelModel>::instance()
        .at("tile", "kernel model")
        .create()
        ->bind(h200_, {.stack = stack, .fit = fit, .data = folder_.string()});
  }
  /// How many times the physical estimate the prediction is.
  double factor(const Predictor& predictor, const Kernel& kernel) const {
    TileDescription d;
    TileGpu(h200_).describe(kernel, {}, d);
    Estimate e;
    predictor.predict({&kernel, 1}, {}, {&e, 1});
    return e.seconds.value / d.seconds;
  }
  double floor_us() const {
    TileDescription d;
    TileGpu(h200_).describe(product(), {}, d);
    return d.floor_seconds * 1e6;
  }
  double product_factor(const std::string& stack) const { return factor(*bound(stack), product()); }
  std::vector<std::string> gaps(const std::string& stack, const Kernel& kernel) const {
    return bound(stack)->gaps(kernel);
  }
  std::string refusal(const std::string& text) const {
    try {
      load_tile_fit(ship("hostile.json", text));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      const std::string what = error.what();
      return what.substr(what.find("hostile.json"));
    }
    return "";
  }

  std::filesystem::path folder_;
  Device h200_ = Catalogue(std::string(ORRERY_SOURCE_DIR) + "/hardware").device("h200");
};

TEST_F(TileModelTest, PrefersTheFitOfItsStackThenItsFamilyThenOthersByName) {
  ship("h200.vllm.json", constant_fit("h200", "vllm", 5));
  EXPECT_NEAR(product_factor("torch-eager"), 5, 1e-5);
  EXPECT_THAT(gaps("torch-eager", product()),
              ElementsAre("kernels of h200 were not measured under torch-eager: taken as they are "
                          "under vllm"));
  ship("h200.jax.json", constant_fit("h200", "jax", 4));
  EXPECT_NEAR(product_factor("torch-eager"), 4, 1e-5);
  ship("h200.torch.json", constant_fit("h200", "torch", 3));
  EXPECT_NEAR(product_factor("torch-eager"), 3, 1e-5);
  EXPECT_THAT(gaps("torch-eager", product()), IsEmpty());
  ship("h200.torch-eager.json", constant_fit("h200", "torch-eager", 2));
  EXPECT_NEAR(product_factor("torch-eager"), 2, 1e-5);
  EXPECT_THAT(gaps("torch-eager", product()), IsEmpty());
  EXPECT_NEAR(product_factor("torch-compile"), 3, 1e-5);
  EXPECT_NEAR(product_factor("vllm"), 5, 1e-5);
}

TEST_F(TileModelTest, FitsOfOtherDevicesAreNotTaken) {
  ship("h200x.torch.json", constant_fit("h200x", "torch", 5));
  ship("h200.torch.old.json", constant_fit("h200", "torch", 5));
  ship("h100-sxm.torch.json", constant_fit("h100-sxm", "torch", 5));
  EXPECT_NEAR(product_factor("torch-eager"), 1, 1e-9);
}

TEST_F(TileModelTest, AFitOverSeveralDevicesIsOfEachThatItsFileNames) {
  TileFit fit = constant_fit("generic", "torch", 5);
  ship("generic.torch.json", constant_fit("generic", "torch", 1.5));
  fit.devices = {"h100-sxm", "h200"};
  ship("h100-sxm+h200.torch.json", fit);
  EXPECT_NEAR(product_factor("torch-eager"), 5, 1e-5);
  EXPECT_THAT(gaps("torch-eager", product()), IsEmpty());
  // One that it does not hold rows of may be named as well.
  fit.devices = {"h100-sxm"};
  ship("h100-sxm+h200.torch.json", fit);
  EXPECT_NEAR(product_factor("torch-eager"), 5, 1e-5);
  EXPECT_THAT(gaps("torch-eager", product()),
              ElementsAre("kernels of h200 were not measured: predicted by a fit over other "
                          "devices"));
}

TEST_F(TileModelTest, NoFitBeatsTheDataSheet) {
  ship("h200.torch.json", constant_fit("h200", "torch", 0.01));
  // 16 GB read and written, of which L2 may have held what it can.
  const Kernel copy = operator_kernel("copy", "bf16", R"({"shape": [4000000000]})");
  Estimate e;
  bound()->predict({&copy, 1}, {}, {&e, 1});
  const double held = h200_.level("l2")->capacity.value;
  EXPECT_NEAR(e.seconds.value, (16e9 - held) / h200_.main_memory().bandwidth.value, 1e-9);
}

TEST_F(TileModelTest, TypesThatWereNotMeasuredHaveWiderIntervals) {
  TileFit fit = constant_fit("h200", "torch", 1, {TileClass::kProduct});
  const Kernel half = operator_kernel("gemm", "bf16", R"({"m": 4096, "n": 4096, "k": 4096})");
  const Kernel other = operator_kernel("gemm", "fp16", R"({"m": 4096, "n": 4096, "k": 4096})");
  const Kernel batch =
      operator_kernel("bmm", "bf16", R"({"b": 8, "m": 4096, "n": 4096, "k": 4096})");
  add_multiplied(*fit.classes[static_cast<size_t>(TileClass::kProduct)], half);
  ship("h200.torch.json", fit);
  const auto spread = [&](const Kernel& kernel) {
    Estimate e;
    bound()->predict({&kernel, 1}, {}, {&e, 1});
    return e.own_spread;
  };
  EXPECT_FLOAT_EQ(spread(other), 2 * spread(half));
  EXPECT_FLOAT_EQ(spread(batch), 2 * spread(half));
  EXPECT_THAT(gaps("torch-eager", half), IsEmpty());
  EXPECT_THAT(gaps("torch-eager", other),
              ElementsAre("kernels of gemm in f16 were not measured: taken as those of other "
                          "types, with intervals twice as wide"));
}

TEST_F(TileModelTest, AnUnmeasuredDeviceTakesTheGenericFit) {
  ship("generic.torch.json", constant_fit("generic", "torch", 1.5));
  EXPECT_NEAR(product_factor("torch-eager"), 1.5, 1e-5);
  EXPECT_THAT(gaps("torch-eager", product()),
              ElementsAre("kernels of h200 were not measured: predicted by a fit over other "
                          "devices"));
  EXPECT_NEAR(product_factor("xla"), 1.5, 1e-5);
  EXPECT_THAT(gaps("xla", product()),
              ElementsAre("kernels of h200 were not measured: predicted by a fit over other "
                          "devices under torch"));
  ship("generic.xla.json", constant_fit("generic", "xla", 2.5));
  EXPECT_NEAR(product_factor("xla"), 2.5, 1e-5);
}

TEST_F(TileModelTest, TheFitOfADeviceOfTheSameChipComesBeforeTheGenericOne) {
  ship("generic.torch.json", constant_fit("generic", "torch", 1.5));
  ship("b200.vllm.json", constant_fit("b200", "vllm", 3));
  EXPECT_NEAR(product_factor("torch-eager"), 1.5, 1e-5);
  h200_.kernels_like = "b200";
  EXPECT_NEAR(product_factor("torch-eager"), 3, 1e-5);
  EXPECT_THAT(gaps("torch-eager", product()),
              ElementsAre("kernels of h200 were not measured: predicted by the fit of b200 "
                          "under vllm, the same chip"));
  ship("h200.torch.json", constant_fit("h200", "torch", 2));
  EXPECT_NEAR(product_factor("torch-eager"), 2, 1e-5);
}

/// How much longer boards with check bits take to read what others of the same chip read, by the
/// public runs of data/kernels/check_bits.csv: what a token takes beside reading, where that runs
/// at 91.5 % of the bandwidth without check bits, it takes with them as well.
double reading_with_check_bits() {
  CsvReader rows(Source::from_file(ORRERY_SOURCE_DIR "/data/kernels/check_bits.csv"));
  const auto column = [&](std::string_view name) { return rows.required_column(name); };
  const size_t bits = column("check_bits"), bandwidth = column("bandwidth_gbs"),
               read = column("read_gb"), rate = column("tokens_per_s");
  const auto number = [&](size_t i) { return std::stod(std::string(rows.field(i))); };
  std::vector<double> found;
  while (rows.next()) {
    EXPECT_EQ(rows.field(bits), "on");
    const double with = 1 / number(rate), of_with = number(bandwidth);
    rows.next();
    EXPECT_EQ(rows.field(bits), "off");
    const double without = 1 / number(rate), reading = number(read) / (0.915 * number(bandwidth));
    found.push_back((with - (without - reading)) / reading * of_with / number(bandwidth));
  }
  std::ranges::sort(found);
  return (found[(found.size() - 1) / 2] + found[found.size() / 2]) / 2;
}

TEST_F(TileModelTest, ABoardWithoutCheckBitsReadsFasterThanTheFitOfItsLikeKnows) {
  ship("generic.torch.json", constant_fit("generic", "torch", 1));
  ship("b200.torch.json", constant_fit("b200", "torch", 1));
  // A gigabyte read and written.
  const Kernel copy = operator_kernel("copy", "bf16", R"({"shape": [500000000]})");
  const auto seconds = [&] {
    Estimate e;
    bound()->predict({&copy, 1}, {}, {&e, 1});
    return e.seconds.value;
  };
  h200_.memory.front().name = "gddr";
  h200_.check_bits = false;
  const double by_generic = seconds();
  h200_.kernels_like = "b200";
  EXPECT_NEAR(by_generic / seconds(), reading_with_check_bits(), 5e-3);
  h200_.check_bits = true;
  EXPECT_NEAR(seconds() / by_generic, 1, 1e-6);
}

TEST_F(TileModelTest, AStepSettlesAtTheClockOfTheCardThatDrawsMost) {
  ship("h200.torch.json", constant_fit("h200", "torch", 1));
  const auto predictor = bound();
  const double once = 1;
  const auto settled = [&](double draw, Seconds& time) {
    OperatingPoint point;
    point.draw = draw;
    Estimate e;
    predictor->predict({&product(), 1}, point, {&e, 1});
    const StepState state = predictor->settle({&product(), 1}, {&once, 1}, {}, point, {&e, 1});
    time = e.seconds;
    return state;
  };
  Seconds usual_time, slow_time;
  const StepState usual = settled(1, usual_time), slow = settled(1.2, slow_time);
  EXPECT_LT(slow.clock.value, 0.97 * usual.clock.value);
  EXPECT_GT(slow_time.value, 1.02 * usual_time.value);
  // A usual card works as before and rests for the difference, which costs less than working.
  EXPECT_GT(slow.energy.value, usual.energy.value);
  EXPECT_LT(slow.energy.value, usual.energy.value * (slow_time / usual_time));
  // Nothing to run: a card at rest, for no time at all as well.
  EXPECT_EQ(predictor->settle({}, {}, {}, {}, {}).energy.value, 0);
  EXPECT_GT(predictor->settle({}, {}, Seconds(1), {}, {}).energy.value, 0);
}

TEST_F(TileModelTest, WithoutAnyFitTheDataSheetMustDo) {
  const auto predictor = bound();
  Estimate e;
  predictor->predict({&product(), 1}, {}, {&e, 1});
  EXPECT_NEAR(e.seconds.value * 1e6, floor_us() + 128.388, 0.001);
  const TimeInterval t = interval(e);
  EXPECT_NEAR(t.low / t.value, 0.95, 1e-6);
  EXPECT_NEAR(t.high / t.value, 5, 1e-5);
  EXPECT_THAT(predictor->gaps(product()),
              ElementsAre("h200 was never measured: its kernels are timed by its data sheet alone "
                          "('orrery calibrate' fits a device)"));
}

TEST_F(TileModelTest, AClassThatAFitLacksIsTakenFromTheNext) {
  ship("h200.torch.json", constant_fit("h200", "torch", 3, {TileClass::kProduct}));
  ship("generic.torch.json", constant_fit("generic", "torch", 1.5, {TileClass::kElementwise}));
  const auto predictor = bound();
  EXPECT_NEAR(factor(*predictor, product()), 3, 1e-5);
  EXPECT_NEAR(factor(*predictor, addition()), 1.5, 1e-5);
  EXPECT_THAT(predictor->gaps(addition()),
              ElementsAre("elementwise kernels of h200 were not measured: predicted by a fit over "
                          "other devices"));
  const Kernel sort = operator_kernel("sort", "fp32", R"({"shape": [64, 64]})");
  EXPECT_NEAR(factor(*predictor, sort), 1, 1e-9);
  EXPECT_THAT(predictor->gaps(sort),
              ElementsAre("scan kernels were not measured under torch-eager: timed by the data "
                          "sheet of h200 alone"));
}

TEST_F(TileModelTest, VllmTakesPyTorchsKernelsWhereItHasNoneOfItsOwn) {
  ship("h200.torch.json", constant_fit("h200", "torch", 3,
                                       {TileClass::kProduct, TileClass::kSoftmax, TileClass::kScan,
                                        TileClass::kNormalization}));
  ship("h200.vllm.json", constant_fit("h200", "vllm", 2, {TileClass::kProduct}));
  const std::string shape = R"({"shape": [8192, 8192]})";
  const Kernel sort = operator_kernel("sort", "bf16", shape);
  const Kernel norm = operator_kernel("rmsnorm", "bf16", shape);
  EXPECT_NEAR(product_factor("vllm"), 2, 1e-5);
  EXPECT_NEAR(factor(*bound("vllm"), sort), 3, 1e-5);
  EXPECT_THAT(gaps("vllm", sort),
              ElementsAre("scan kernels of h200 were not measured under vllm: taken as they are "
                          "under torch, in intervals twice as wide"));
  Estimate own, lent;
  bound("torch-eager")->predict({&sort, 1}, {}, {&own, 1});
  bound("vllm")->predict({&sort, 1}, {}, {&lent, 1});
  EXPECT_NEAR(interval(own).high / own.seconds, std::exp(0.1), 1e-5);
  EXPECT_NEAR(interval(lent).high / lent.seconds, std::exp(0.2), 1e-5);
  // vLLM has norms and softmax of its own; XLA writes all such kernels itself.
  EXPECT_NEAR(factor(*bound("vllm"), norm), 1, 1e-9);
  EXPECT_NEAR(factor(*bound("vllm"), operator_kernel("softmax", "bf16", shape)), 1, 1e-9);
  EXPECT_NEAR(factor(*bound("xla"), sort), 1, 1e-9);
  EXPECT_THAT(gaps("xla", sort),
              ElementsAre("scan kernels were not measured under xla: timed by the data sheet of "
                          "h200 alone"));
}

TEST_F(TileModelTest, IntervalsOfLentFitsOverOtherDevicesAreWiderToo) {
  TileFit fit = constant_fit("generic", "torch", 3, {TileClass::kScan});
  ship("generic.torch.json", fit);
  const Kernel sort = operator_kernel("sort", "bf16", R"({"shape": [8192, 8192]})");
  Estimate lent;
  bound("vllm")->predict({&sort, 1}, {}, {&lent, 1});
  EXPECT_NEAR(interval(lent).high / lent.seconds, std::exp(0.2), 1e-5);
  EXPECT_THAT(gaps("vllm", sort),
              ElementsAre("scan kernels of h200 were not measured: predicted by a fit over other "
                          "devices under torch, in intervals twice as wide"));
}

TEST_F(TileModelTest, AFitOfTheUsersOwnWins) {
  ship("h200.torch.json", constant_fit("h200", "torch", 3));
  const std::string own =
      ship("my.json", constant_fit("my-gpu", "torch", 7, {TileClass::kProduct}));
  const auto predictor = bound("torch-eager", own);
  EXPECT_NEAR(factor(*predictor, product()), 7, 1e-5);
  EXPECT_THAT(predictor->gaps(product()), ElementsAre(own + " was fitted on my-gpu and taken for "
                                                            "h200"));
  EXPECT_NEAR(factor(*predictor, addition()), 3, 1e-5);
  EXPECT_THROW(bound("torch-eager", own + ".not-there"), Error);
}

TEST_F(TileModelTest, IntervalsAreWhatTheFitSays) {
  ship("h200.torch.json", constant_fit("h200", "torch", 1));
  Estimate e;
  bound()->predict({&product(), 1}, {}, {&e, 1});
  // low -1, high 1 and a spread of 0.1: exp(∓0.1).
  EXPECT_NEAR(interval(e).low / e.seconds, std::exp(-0.1), 1e-5);
  EXPECT_NEAR(interval(e).high / e.seconds, std::exp(0.1), 1e-5);
}

TEST_F(TileModelTest, FollowsTheClock) {
  OperatingPoint slow;
  slow.clock = Hertz(990e6);
  Estimate e;
  const auto predictor = bound();
  predictor->predict({&product(), 1}, slow, {&e, 1});
  // Three fifths of the floor follow the clock.
  EXPECT_NEAR(e.seconds.value * 1e6, 1.6 * floor_us() + 2 * 128.388, 0.002);
  EXPECT_THAT(predictor->gaps(slow), IsEmpty());
  OperatingPoint sustained;
  sustained.regime = OperatingPoint::Regime::kSustained;
  EXPECT_THAT(predictor->gaps(sustained), IsEmpty());
}

/// As it settles where a limit takes it: 80 W and the arithmetic's 620 W · 128.388 µs, at half of
/// the square of the voltage, in the time at half of the clock.
TEST_F(TileModelTest, EnergyAtAClockThatSomebodyFixedIsOfThatClock) {
  ship("h200.torch.json", constant_fit("h200", "torch", 1));
  const auto predictor = bound();
  OperatingPoint half;
  half.clock = Hertz(990e6);
  Estimate at_half, e;
  predictor->predict({&product(), 1}, half, {&at_half, 1});
  EXPECT_NEAR(at_half.joules.value, 80 * at_half.seconds.value + 620 * 128.388e-6 / 2, 1e-6);
  predictor->predict({&product(), 1}, {}, {&e, 1});
  TileDescription d;
  TileGpu(h200_).describe(product(), {}, d);
  const double u = d.compute_seconds / d.seconds, v = d.memory_seconds / d.seconds;
  const double slowdown = (2 * u + v) / (u + v);
  const double once = 1;
  const StepState state = predictor->settle({&product(), 1}, {&once, 1}, {}, half, {&e, 1});
  EXPECT_EQ(state.clock, half.clock);
  EXPECT_EQ(e.seconds.value, at_half.seconds.value);
  EXPECT_NEAR(state.energy.value, (80 + 620 * u / 2 / slowdown) * e.seconds.value, 1e-6);
  EXPECT_EQ(state.gap, "");
}

/// Trees that call for three times the time where the device's balance is another, or its clock: of
/// a what-if the physics alone is taken.
TEST_F(TileModelTest, AWhatIfChangesThePhysicalTimeAlone) {
  TileFit fit = constant_fit("h200", "torch", 1);
  for (const TileClass c : {TileClass::kProduct, TileClass::kElementwise}) {
    ClassFit& one = *fit.classes[static_cast<size_t>(c)];
    const auto names = TileGpu::feature_names(c);
    const auto balance = static_cast<uint16_t>(
        std::find(names.begin(), names.end(), "lg_machine_balance") - names.begin());
    // 1,070.5 TFLOP/s at 4.8 TB/s: 2^7.8.
    const double three = std::log(3.0);
    one.centre = BoostedTrees(names.size(), 0, three, {{{{balance, 7.9F}}, {0, 1}}}, {});
  }
  ship("h200.torch.json", fit);
  const Catalogue catalogue(std::string(ORRERY_SOURCE_DIR) + "/hardware");
  const auto seconds = [&](const std::vector<Override>& what_if, const Kernel& kernel,
                           Hertz clock = {}) {
    h200_ = catalogue.device("h200", what_if);
    OperatingPoint point;
    point.clock = clock;
    // Of twelve at once, too.
    const std::vector<Kernel> many(16, kernel);
    std::vector<Estimate> together(16);
    Estimate alone;
    const auto predictor = bound();
    predictor->predict({&kernel, 1}, point, {&alone, 1});
    predictor->predict(many, point, together);
    EXPECT_EQ(together[15].seconds.value, alone.seconds.value);
    return alone.seconds.value;
  };
  const double floor = floor_us();
  const double product_s = seconds({}, product()), addition_s = seconds({}, addition());
  EXPECT_NEAR(product_s * 1e6, floor + 128.388, 0.001);
  const std::vector<Override> half = {{"memory.bandwidth", "2.4 TB/s"}};
  EXPECT_DOUBLE_EQ(seconds(half, product()), product_s);
  // 3 · 2 · 4096² B at 4.8 TB/s take 20.972 µs: as long again.
  EXPECT_NEAR(seconds(half, addition()) - addition_s, 20.972e-6, 1e-9);
  const std::vector<Override> fast = {{"compute.clock.boost", "3960 MHz"}};
  // Three fifths of the floor follow the clock, and all of the arithmetic.
  EXPECT_NEAR(seconds(fast, product()) * 1e6, 0.7 * floor + 64.194, 0.001);
  EXPECT_LE(seconds(fast, addition()), addition_s);
  EXPECT_THAT(bound()->gaps(OperatingPoint()),
              ElementsAre("a what-if moves kernels by their physical estimates alone: how they "
                          "depart from these stays that of h200 as it is"));
  // A chip at a clock is the chip at that clock, whichever it could reach.
  EXPECT_DOUBLE_EQ(seconds(fast, product(), Hertz(1e9)), seconds({}, product(), Hertz(1e9)));
}

TEST_F(TileModelTest, SaysWhatBoundsAKernel) {
  const auto predictor = bound();
  EXPECT_EQ(predictor->explain(product(), {}).bound, "compute");
  EXPECT_EQ(predictor->explain(addition(), {}).bound, "memory");
  const Kernel tiny = operator_kernel("add", "bf16", R"({"shape": [8]})");
  EXPECT_EQ(predictor->explain(tiny, {}).bound, "latency");
}

TEST_F(TileModelTest, EnergyIsIdlePowerAndWhatTheMatrixUnitsDraw) {
  ship("h200.torch.json", constant_fit("h200", "torch", 2));
  Estimate e;
  bound()->predict({&product(), 1}, {}, {&e, 1});
  // The arithmetic takes 128.388 µs at full rate, the kernel twice its physical time.
  const double seconds = 2e-6 * (128.388 + floor_us());
  EXPECT_NEAR(e.joules.value, 80 * seconds + 620 * 128.388e-6, 1e-6);
}

TEST_F(TileModelTest, SustainedItRunsAtTheClockItsPowerAllows) {
  ship("h200.torch.json", constant_fit("h200", "torch", 1));
  PowerFit power;
  power.device = "h200";
  power.coefficients.idle = 0.2;
  power.coefficients.matrix_half = 1.6;  // twice the rest of the limit
  power.coefficients.burst = 10;
  ship("power.json", to_json(power));
  OperatingPoint sustained;
  sustained.regime = OperatingPoint::Regime::kSustained;
  Estimate burst, e;
  const auto predictor = bound();
  predictor->predict({&product(), 1}, {}, {&burst, 1});
  predictor->predict({&product(), 1}, sustained, {&e, 1});
  // With u and v the shares of the time that arithmetic and memory are busy for, the share
  // s = u / (u + v) of it goes with 1 / r, and power is 0.2 + 1.6 · u · r / (s / r + 1 − s) of
  // the limit: within it while 2 · u · r² ≤ s + (1 − s) · r.
  TileDescription d;
  TileGpu(h200_).describe(product(), {}, d);
  const double u = d.compute_seconds / d.seconds, v = d.memory_seconds / d.seconds;
  const double share = u / (u + v), rest = 1 - share;
  const double r = (rest + std::sqrt(rest * rest + 8 * u * share)) / (4 * u);
  EXPECT_NEAR(e.seconds / burst.seconds, share / r + rest, 1e-4);
  EXPECT_NEAR(e.joules.value, 700 * e.seconds.value, 1e-3 * e.joules.value);
  EXPECT_THAT(predictor->gaps(sustained), IsEmpty());
}

/// Trees that have seen no clock are asked at the boost clock; time follows by physics.
TEST_F(TileModelTest, AFitWithoutClocksFollowsThePhysicalTime) {
  TileFit warm = constant_fit("h200", "vllm", 1.5);
  warm.protocol.warm = true;
  // A tree that would take half off at any clock below the boost clock.
  const auto names = TileGpu::feature_names(TileClass::kProduct);
  const auto clock =
      static_cast<size_t>(std::find(names.begin(), names.end(), "clock") - names.begin());
  ClassFit& fit = *warm.classes[static_cast<size_t>(TileClass::kProduct)];
  Matrix x(200, names.size());
  std::vector<float> y(200);
  for (size_t i = 0; i < 200; ++i) {
    x.row(i)[clock] = i < 100 ? 0.5f : 1.0f;
    y[i] = i < 100 ? std::log(0.5f) : std::log(1.5f);
  }
  TreeOptions options;
  options.trees = 200;
  options.learning_rate = 0.2;
  options.row_sample = 1;
  fit.centre = fit_trees(x, y, {}, options);
  ship("h200.vllm.json", warm);
  TileDescription boost, slow;
  const TileGpu gpu(h200_, warm.protocol);
  gpu.describe(product(), {}, boost);
  gpu.describe(product(), Hertz(0.99e9), slow);
  Estimate at_boost, at_half;
  OperatingPoint half;
  half.clock = Hertz(0.99e9);
  const auto predictor = bound("vllm");
  predictor->predict({&product(), 1}, {}, {&at_boost, 1});
  predictor->predict({&product(), 1}, half, {&at_half, 1});
  EXPECT_NEAR(at_boost.seconds.value / boost.seconds, 1.5, 0.01);
  EXPECT_NEAR(at_half.seconds / at_boost.seconds, slow.seconds / boost.seconds, 1e-6);
  // Of twelve and more at once, too.
  const std::vector<Kernel> many(16, product());
  std::vector<Estimate> estimates(16);
  predictor->predict(many, half, estimates);
  EXPECT_EQ(estimates[15].seconds.value, at_half.seconds.value);
}

/// A fit of other devices says nothing of this one's clock: its time was taken at the clock that
/// the kernel's power allows, which with a tenth of the limit is the boost clock.
TEST_F(TileModelTest, AFitOfOtherDevicesFollowsThePower) {
  ship("generic.torch.json", constant_fit("generic", "torch", 1));
  PowerFit power;
  power.device = "h200";
  power.coefficients.idle = 0.05;
  power.coefficients.matrix_half = 0.05;
  power.coefficients.burst = 10;
  ship("power.json", to_json(power));
  TileDescription d;
  TileGpu(h200_).describe(product(), {}, d);
  const double u = d.compute_seconds / d.seconds, v = d.memory_seconds / d.seconds;
  Estimate boost, slow;
  OperatingPoint half;
  half.clock = Hertz(0.99e9);
  const auto predictor = bound();
  predictor->predict({&product(), 1}, {}, {&boost, 1});
  predictor->predict({&product(), 1}, half, {&slow, 1});
  EXPECT_NEAR(slow.seconds / boost.seconds, (2 * u + v) / (u + v), 1e-6);
}

TEST_F(TileModelTest, ABatchGivesTheBitsOfItsKernels) {
  // Trees that tell kernels apart.
  const TileGpu gpu(h200_);
  SplitMix64 random(3);
  std::vector<Kernel> kernels;
  std::vector<OperatingPoint> points;
  for (int i = 0; i < 5000; ++i) {
    const auto size = [&] { return 1 + random.below(4096); };
    kernels.push_back(
        random.below(3) > 0
            ? operator_kernel(
                  "gemm", "bf16",
                  fmt::format(R"({{"m": {}, "n": {}, "k": {}}})", size(), size(), size()))
            : operator_kernel(i % 500 == 0 ? "sort" : "add", "bf16",
                              fmt::format(R"({{"shape": [{}, {}]}})", size(), size())));
    points.emplace_back();
    if (i % 7 == 0) points.back().clock = Hertz(1.2e9);
  }
  TileFit fit;
  for (const TileClass c : {TileClass::kProduct, TileClass::kElementwise}) {
    ClassFit made = constant_fit(c, 1);
    Matrix x(400, made.centre.features());
    std::vector<float> target;
    TileDescription d;
    for (size_t k = 0; target.size() < x.rows(); ++k) {
      if (gpu.class_of(kernels[k]) != c) continue;
      gpu.describe(kernels[k], {}, d);
      std::ranges::copy(d.values(), x.row(target.size()).begin());
      target.push_back(static_cast<float>(random.uniform()));
    }
    TreeOptions options;
    options.trees = 30;
    made.centre = fit_trees(x, target, {}, options);
    made.spread = fit_trees(x, target, {}, options);
    made.range.assign(made.range.size(), {0, 8});  // much lies outside
    fit.classes[static_cast<size_t>(c)] = std::move(made);
  }
  fit.device = "h200";
  ship("h200.torch.json", fit);
  const auto predictor = bound();
  std::vector<Estimate> together(kernels.size());
  predictor->predict(kernels, OperatingPoints(points), together);
  size_t different = 0;
  for (size_t i = 0; i < kernels.size(); ++i) {
    Estimate alone;
    predictor->predict({&kernels[i], 1}, points[i], {&alone, 1});
    ASSERT_EQ(alone.seconds, together[i].seconds) << i;
    ASSERT_EQ(alone.joules, together[i].joules) << i;
    ASSERT_EQ(alone.own_spread, together[i].own_spread) << i;
    ASSERT_EQ(alone.skew, together[i].skew) << i;
    ASSERT_EQ(alone.loadings, together[i].loadings) << i;
    different += i > 0 && together[i].own_spread != together[i - 1].own_spread ? 1 : 0;
  }
  EXPECT_GT(different, 1000u);
}

TEST_F(TileModelTest, ThreadsAtOnceAgree) {
  ship("h200.torch.json", constant_fit("h200", "torch", 3, {TileClass::kProduct}));
  ship("generic.torch.json", constant_fit("generic", "torch", 1.5));
  const auto predictor = bound();
  std::vector<double> factors(8);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < factors.size(); ++t)
    threads.emplace_back(
        [&, t] { factors[t] = factor(*predictor, t % 2 ? product() : addition()); });
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < factors.size(); ++t) EXPECT_NEAR(factors[t], t % 2 ? 3 : 1.5, 1e-5);
}

TEST_F(TileModelTest, AFileIsReadOnceUntilItChanges) {
  const std::string path = ship("h200.torch.json", constant_fit("h200", "torch", 3));
  const auto first = load_tile_fit(path);
  EXPECT_EQ(load_tile_fit(path), first);
  TileFit longer = constant_fit("h200", "torch", 3);
  longer.sources = {"another.csv"};
  ship("h200.torch.json", longer);
  EXPECT_NE(load_tile_fit(path), first);
  EXPECT_THAT(load_tile_fit(path)->sources, ElementsAre("another.csv"));
}

TEST_F(TileModelTest, AFitReadsBackAsItWasWritten) {
  TileFit fit = constant_fit("h200", "torch", 2.7);
  fit.command = "orrery calibrate h200 --from 'a \"b\".csv'";
  fit.sources = {"a \"b\".csv"};
  const std::string text = to_json(fit);
  EXPECT_EQ(to_json(*load_tile_fit(ship("own.json", text))), text);
}

TEST_F(TileModelTest, IntervalsOfAFitOverOthersGrowWithTheDistance) {
  const GpuFigures here = TileGpu(h200_).figures();
  TileFit fit = constant_fit("generic", "torch", 1, {TileClass::kProduct});
  fit.devices = {"near", "far"};
  ClassFit& one = *fit.classes[static_cast<size_t>(TileClass::kProduct)];
  one.low = -2;
  one.high = 3;
  one.growth = 0.25;
  const auto spread_at = [&](double clock, double bandwidth) {
    fit.figures = {here, here};
    fit.figures[0][1] += clock;
    fit.figures[0][2] -= bandwidth;
    fit.figures[1][5] += 20;
    ship("generic.torch.json", fit);
    Estimate e;
    bound()->predict({&product(), 1}, {}, {&e, 1});
    // Of ln(time), with the trees' 0.1: all of it is the kernel's own.
    return e.own_spread * kNinetyPercent / (0.1 * (3 + 2) / 2);
  };
  // Figures are written to a thousandth.
  EXPECT_NEAR(spread_at(3, 4), 1 + 0.25 * 5, 1e-3);
  EXPECT_NEAR(spread_at(1, 0), 1 + 0.25 * 1, 1e-3);
  // Boards of one chip are no nearer than half a power of two.
  EXPECT_NEAR(spread_at(0.1, 0), 1 + 0.25 * 0.5, 1e-3);
  EXPECT_NEAR(spread_at(0, 0), 1 + 0.25 * 0.5, 1e-3);
}

TEST_F(TileModelTest, FiguresReadBackAsTheyWereWritten) {
  TileFit fit = constant_fit("generic", "torch", 1, {TileClass::kOther});
  fit.devices = {"a", "b"};
  fit.figures = {{6.75, 30.394, 40.893, 25.322, 11.001, 7, 0}, {0, 0, 0, 0, 0, 0, 2}};
  fit.classes[static_cast<size_t>(TileClass::kOther)]->growth = 1.375;
  const std::string text = to_json(fit);
  EXPECT_EQ(to_json(*load_tile_fit(ship("figures.json", text))), text);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    return refusal(other.replace(other.find(from), from.size(), to));
  };
  EXPECT_THAT(changed("\"growth\":1.375", "\"growth\":-1"), HasSubstr("classes.other.growth"));
  EXPECT_THAT(changed("\"growth\":1.375", "\"growth\":1e9"), HasSubstr("within 0 and 20"));
  EXPECT_THAT(changed("[\"a\",\"b\"]", "[\"a\"]"), HasSubstr("figures"));
  fit.figures.clear();
  EXPECT_THAT(refusal(to_json(fit)), HasSubstr("needs the devices' 'figures'"));
}

TEST_F(TileModelTest, RefusesWhatIsNoFit) {
  const std::string good = to_json(constant_fit("h200", "torch", 2, {TileClass::kOther}));
  ASSERT_EQ(refusal(good), "");
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return refusal(text.replace(at, from.size(), to));
  };
  EXPECT_THAT(refusal(""), HasSubstr("hostile.json:1:1"));
  EXPECT_THAT(refusal("[]"), HasSubstr("hostile.json"));
  EXPECT_THAT(refusal(good.substr(0, good.size() / 2)), HasSubstr("hostile.json:"));
  EXPECT_THAT(changed("orrery-tile-fit", "orrery-fit"), HasSubstr("schema"));
  EXPECT_THAT(changed("\"version\":2", "\"version\":99"), HasSubstr("version"));
  EXPECT_THAT(changed("\"other\":", "\"others\":"), HasSubstr("no such class of kernels"));
  EXPECT_THAT(changed("\"kind\"", "\"sort\""), HasSubstr("fit the device again"));
  EXPECT_THAT(changed("\"low\":-1", "\"low\":2"), HasSubstr("lies below 'low'"));
  EXPECT_THAT(changed("\"high\":1", "\"high\":1e300"), HasSubstr("classes.other.high"));
  EXPECT_THAT(changed("\"shared\":0", "\"shared\":-1"), HasSubstr("within 0 and 1"));
  EXPECT_THAT(changed("\"shared\":0", "\"shraed\":0"), HasSubstr("shraed"));
}

TEST_F(TileModelTest, AbsurdFitsGiveFiniteAnswers) {
  TileFit fit = constant_fit("h200", "torch", 1);
  ClassFit& absurd = *fit.classes[static_cast<size_t>(TileClass::kProduct)];
  absurd.centre = BoostedTrees(absurd.centre.features(), 1e9, 1e-4, {}, {});
  absurd.spread = BoostedTrees(absurd.spread.features(), 1e9, 1e-4, {}, {});
  absurd.low = -20;
  absurd.high = 20;
  absurd.range.assign(absurd.range.size(), {1e6f, 1e6f});
  ship("h200.torch.json", fit);
  Estimate e;
  bound()->predict({&product(), 1}, {}, {&e, 1});
  EXPECT_TRUE(std::isfinite(e.seconds.value));
  EXPECT_TRUE(std::isfinite(interval(e).high.value));
  EXPECT_GT(interval(e).low.value, 0);
}

}  // namespace
}  // namespace orrery
