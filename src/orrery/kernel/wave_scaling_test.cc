#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <unordered_set>

#include "orrery/base/error.h"
#include "orrery/base/shared_data_for_test.h"
#include "orrery/kernel/kernel_model.h"
#include "orrery/kernel/measured_table.h"
#include "orrery/kernel/operator_kernel.h"
#include "orrery/kernel/profile/profile_for_test.h"

namespace orrery {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Pair;

std::unique_ptr<Predictor> bound(const std::string& device, const std::string& origin,
                                 const std::string& table, bool habitat = false) {
  Binding binding;
  binding.profile = table;
  if (!origin.empty()) binding.origin = catalogue_device(origin);
  if (habitat) binding.set["habitat"] = 1;
  return Registry<KernelModel>::instance()
      .at("wave-scaling", "kernel model")
      .create()
      ->bind(catalogue_device(device), binding);
}

double microseconds(const Predictor& predictor, const Kernel& kernel) {
  Estimate e;
  predictor.predict({&kernel, 1}, {}, {&e, 1});
  return e.seconds.value * 1e6;
}

// From an A100 SXM 80 GB to an H100 SXM: bandwidth 2,039 to 3,350 GB/s, 108 SMs at 1,410 to
// 132 at 1,980 MHz, bf16 products 312 to 989.4 TFLOP/s (the latter at 1,830 MHz).

/// Five floors of elementwise kernels in µs: 1.6 at 1,980 MHz, three fifths of which follow the
/// A100's clock.
constexpr double kWaiting = 5 * 1.6 * (0.4 + 0.6 * 1980 / 1410);

TEST(WaveScaling, HabitatsForm) {
  const auto h100 = bound("h100-sxm", "a100-sxm-80gb",
                          written("t.csv",
                                  "op,dtype,params,us\n"
                                  "add,bf16,{\"shape\": [67108864]},260\n"
                                  "gemm,bf16,\"{\"\"m\"\": 8192, \"\"n\"\": 8192, "
                                  "\"\"k\"\": 8192}\",4400\n"),
                          true);
  const double memory = 2039.0 / 3350, compute = 1410.0 * 108 / (1980 * 132);
  // One operation for six bytes: γ = 1 − 0.5 · (1/6) / ridge.
  const double ridge_fp32 = 66.9e12 / 3.35e12;
  const double g = 1 - 0.5 / 6 / ridge_fp32;
  EXPECT_NEAR(microseconds(*h100, operator_kernel("add", "bf16", R"({"shape": [67108864]})")),
              260 * std::pow(memory, g) * std::pow(compute, 1 - g), 0.01);
  // 2·8192³ operations for 6·8192² bytes: γ = 0.5 · ridge / intensity.
  const double gemm = 0.5 * (989.4e12 / 3.35e12) / (8192.0 / 3);
  EXPECT_NEAR(
      microseconds(*h100, operator_kernel("gemm", "bf16", R"({"m": 8192, "n": 8192, "k": 8192})")),
      4400 * std::pow(memory, gemm) * std::pow(compute, 1 - gemm), 0.1);
}

TEST(WaveScaling, HabitatsFormFollowsAFixedClock) {
  const auto h100 = bound("h100-sxm", "a100-sxm-80gb",
                          written("t.csv",
                                  "op,dtype,params,us\n"
                                  "gemm,bf16,\"{\"\"m\"\": 8192, \"\"n\"\": 8192, "
                                  "\"\"k\"\": 8192}\",4400\n"),
                          true);
  const Kernel kernel = operator_kernel("gemm", "bf16", R"({"m": 8192, "n": 8192, "k": 8192})");
  OperatingPoint half;
  half.clock = Hertz(990e6);
  Estimate e;
  h100->predict({&kernel, 1}, half, {&e, 1});
  const double gamma = 0.5 * (989.4e12 / 2 / 3.35e12) / (8192.0 / 3);
  EXPECT_NEAR(
      e.seconds.value * 1e6,
      4400 * std::pow(2039.0 / 3350, gamma) * std::pow(1410.0 * 108 / (990 * 132), 1 - gamma), 0.1);
}

TEST(WaveScaling, LargeKernelsScaleWithWhatTheyUse) {
  // A table of one large copy at 90 % of the bandwidth: the tenth is taken for waiting, of
  // which five floors shorten with the clock.
  const double bytes = 3 * 2 * 268435456.0;
  const double work = bytes / 2.039e6, measured = work / 0.9;
  const auto h100 = bound("h100-sxm", "a100-sxm-80gb",
                          written("t.csv", fmt::format("op,dtype,params,us\nadd,bf16,{{\"shape\": "
                                                       "[268435456]}},{}\n",
                                                       measured)));
  const double waiting = measured - work;
  EXPECT_NEAR(microseconds(*h100, operator_kernel("add", "bf16", R"({"shape": [268435456]})")),
              work * 2039 / 3350 + (waiting - kWaiting) + kWaiting * 1410.0 / 1980, 1e-3 * work);
}

TEST(WaveScaling, WaitingForTheHostDoesNotScale) {
  // Eager launches of 40 µs, whatever the size.
  std::string text = "op,dtype,params,us\n";
  for (int n = 1024; n <= 65536; n *= 2)
    text += fmt::format("add,bf16,{{\"shape\": [{}]}},40\n", n);
  const auto h100 = bound("h100-sxm", "a100-sxm-80gb", written("t.csv", text));
  EXPECT_NEAR(microseconds(*h100, operator_kernel("add", "bf16", R"({"shape": [4096]})")),
              (40 - kWaiting) + kWaiting * 1410.0 / 1980, 0.05);
}

TEST(WaveScaling, SaysWhereItComesFrom) {
  const auto h200 =
      bound("h200", "h100-sxm",
            written("t.csv", "op,dtype,params,us\nadd,bf16,{\"shape\": [67108864]},140\n"));
  EXPECT_THAT(h200->provenance(), Contains(Pair("origin", "h100-sxm")));
  EXPECT_THAT(h200->gaps(OperatingPoint{}), Contains(HasSubstr("taken to be those of h100-sxm")));
  EXPECT_THAT(h200->gaps(operator_kernel("add", "fp32", R"({"shape": [8]})")),
              Contains(HasSubstr("predicted by tile")));
}

TEST(WaveScaling, NeedsATableAndTwoGpus) {
  const std::string table =
      written("t.csv", "op,dtype,params,us\nadd,bf16,{\"shape\": [67108864]},140\n");
  EXPECT_THROW(bound("h200", "", table), Error);
  EXPECT_THROW(bound("h200", "h100-sxm", ""), Error);
  EXPECT_THROW(bound("tpu-v4", "h100-sxm", table), Error);
  EXPECT_THROW(bound("h200", "tpu-v4", table), Error);
}

struct Errors {
  double ours = 0, habitat = 0, inside = 0;
  size_t rows = 0;
};

/// Kernels that both GPUs ran, the second's from the first's.
void compare(const std::string& from, const std::string& to, const std::string& origin_file,
             const std::string& file, Errors& errors) {
  const auto ours = bound(to, from, origin_file), habitat = bound(to, from, origin_file, true);
  std::unordered_set<uint64_t> measured;
  for (const MeasuredRow& row :
       rows_on_device(read_measured_table(std::filesystem::path(origin_file)), from).rows)
    measured.insert(row.key);
  for (const MeasuredRow& row :
       rows_on_device(read_measured_table(std::filesystem::path(file)), to).rows) {
    if (!measured.contains(row.key)) continue;
    Estimate a, b;
    ours->predict({&row.kernel, 1}, {}, {&a, 1});
    habitat->predict({&row.kernel, 1}, {}, {&b, 1});
    errors.ours += std::abs(a.seconds.value / row.seconds - 1);
    errors.habitat += std::abs(b.seconds.value / row.seconds - 1);
    const TimeInterval t = interval(a);
    errors.inside += t.low.value <= row.seconds && row.seconds <= t.high.value ? 1 : 0;
    ++errors.rows;
  }
}

struct Case {
  const char* from;
  const char* to;
  size_t rows;
  double ours, habitat;  ///< Mean error in per cent.
};

void expect(const Case& c, const Errors& errors) {
  const auto n = static_cast<double>(errors.rows);
  fmt::print("{} to {}: {} kernels, {:.1f} % (Habitat's form {:.1f} %), {:.3f} inside\n", c.from,
             c.to, errors.rows, 100 * errors.ours / n, 100 * errors.habitat / n, errors.inside / n);
  EXPECT_EQ(errors.rows, c.rows) << c.from << " to " << c.to;
  EXPECT_NEAR(100 * errors.ours / n, c.ours, 0.5) << c.from << " to " << c.to;
  EXPECT_NEAR(100 * errors.habitat / n, c.habitat, 0.5) << c.from << " to " << c.to;
}

/// Products, attention and experts of vLLM. From and to an L40S most of the error is in
/// libraries that have another kernel there (block-scaled fp8, experts in fp8).
TEST(WaveScaling, AiconfiguratorsTables) {
  ORRERY_SHARED_DATA_OR_SKIP(folder, "gpu/silicon");
  const auto table = [&](const std::string& device, const char* kind) {
    const std::string name = device == "a100-sxm-80gb" ? "a100_sxm"
                             : device == "h100-sxm"    ? "h100_sxm"
                             : device == "h200"        ? "h200_sxm"
                                                       : "l40s";
    return fmt::format("{}/{}_{}.csv", folder, name, kind);
  };
  double inside = 0, rows = 0;
  for (const Case& c : {Case{"a100-sxm-80gb", "h100-sxm", 2573, 20.4, 39.7},
                        {"h100-sxm", "a100-sxm-80gb", 2614, 21.2, 28.7},
                        {"h100-sxm", "h200", 3404, 6.6, 19.4},
                        {"h200", "h100-sxm", 3404, 7.3, 27.4},
                        {"l40s", "h100-sxm", 3323, 64.6, 86.6},
                        {"h100-sxm", "l40s", 3323, 48.0, 162.8}}) {
    Errors errors;
    for (const char* kind : {"gemm", "context_attention", "generation_attention", "moe"})
      compare(c.from, c.to, table(c.from, kind), table(c.to, kind), errors);
    expect(c, errors);
    inside += errors.inside;
    rows += static_cast<double>(errors.rows);
  }
  EXPECT_NEAR(inside / rows, 0.905, 0.02);
}

/// fp32 operators of eager PyTorch, with 20 to 60 µs of the host in every row.
TEST(WaveScaling, NeuSightsTables) {
  ORRERY_SHARED_DATA_OR_SKIP(folder, "gpu/neusight");
  for (const Case& c : {Case{"t4", "v100-pcie-32gb", 10897, 38.3, 52.4},
                        {"v100-pcie-32gb", "a100-pcie-40gb", 10979, 16.9, 20.5},
                        {"a100-pcie-40gb", "t4", 10934, 32.7, 135.5},
                        {"p100", "v100-pcie-32gb", 10964, 37.9, 31.5}}) {
    Errors errors;
    for (const char* kind : {"bmm", "linear", "add", "gelu", "ln", "softmax"}) {
      const std::string file = fmt::format("{}/train_{}.csv", folder, kind);
      compare(c.from, c.to, file, file, errors);
    }
    expect(c, errors);
  }
}

}  // namespace
}  // namespace orrery
