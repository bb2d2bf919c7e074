// What a row of `orrery kernel --batch` pays, as a whole and by its parts.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <random>

#include "orrery/api/session.h"
#include "orrery/base/csv.h"
#include "orrery/base/number_text.h"
#include "orrery/base/output_file.h"
#include "orrery/kernel/operator_kernel.h"

namespace orrery {
namespace {

const std::string kRoot = ORRERY_SOURCE_DIR;
constexpr size_t kRows = 100000;

/// Products, attention, convolutions and the rest in about the shares of the measured
/// tables, in three types, sizes drawn at random.
const Source& table() {
  static const Source kTable = [] {
    constexpr std::array kTypes = {"bf16", "fp16", "fp32"};
    constexpr std::array kOthers = {"layernorm", "rmsnorm", "softmax", "reduce_sum", "transpose",
                                    "add",       "mul",     "relu",    "gelu",       "silu"};
    std::mt19937_64 random(1);
    const auto below = [&](size_t count) {
      return std::uniform_int_distribution<size_t>(0, count - 1)(random);
    };
    const auto size = [&](int least_log2, int most_log2) {
      return static_cast<int64_t>(
          std::exp2(std::uniform_real_distribution<double>(least_log2, most_log2)(random)));
    };
    std::string text = "op,dtype,params\n";
    for (size_t i = 0; i < kRows; ++i) {
      const size_t kind = below(100);
      std::string op = "gemm", params;
      if (kind < 37) {
        params =
            fmt::format(R"({{"m": {}, "n": {}, "k": {}}})", size(0, 14), size(6, 15), size(6, 15));
      } else if (kind < 48) {
        op = "bmm";
        params = fmt::format(R"({{"b": {}, "m": {}, "n": {}, "k": {}}})", size(1, 9), size(0, 12),
                             size(5, 12), size(4, 11));
      } else if (kind < 63) {
        op = "conv2d";
        const int64_t image = size(3, 7);
        params = fmt::format(
            R"({{"n": {}, "c": {}, "h": {}, "w": {}, "k": {}, "r": 3, "s": 3, "stride": 1, "pad": 1, "groups": 1, "layout": "nhwc"}})",
            size(0, 8), size(4, 11), image, image, size(5, 10));
      } else if (kind < 76) {
        op = "sdpa";
        params = fmt::format(
            R"({{"b": {}, "h": 32, "kv": 8, "s": {}, "t": {}, "d": 128, "causal": true}})",
            size(0, 6), below(2) == 0 ? 1 : size(6, 12), size(12, 15));
      } else {
        op = kOthers[below(kOthers.size())];
        params = fmt::format(R"({{"shape": [{}, {}]}})", size(0, 16), size(6, 14));
      }
      text += fmt::format("{},{},{}\n", op, kTypes[below(kTypes.size())], csv_field(params));
    }
    return Source::from_memory("bench.csv", std::move(text));
  }();
  return kTable;
}

std::unique_ptr<Predictor> roofline() {
  return Registry<KernelModel>::instance()
      .at("roofline", "kernel model")
      .create()
      ->bind(Catalogue(kRoot + "/hardware").device("h200"), {});
}

void count_rows(benchmark::State& state) {
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kRows));
}

/// From the text of the table to the text of the answer.
void BM_OperatorTable(benchmark::State& state) {
  const Session session(kRoot + "/hardware", kRoot + "/data");
  KernelRequest request;
  request.device = "h200";
  for (auto _ : state) {
    size_t written = 0;
    session.predict_table(request, table(), [&](std::string_view text) { written += text.size(); });
    benchmark::DoNotOptimize(written);
  }
  count_rows(state);
}
BENCHMARK(BM_OperatorTable)->Unit(benchmark::kMillisecond);

/// The same into a file.
void BM_OperatorTableToFile(benchmark::State& state) {
  const Session session(kRoot + "/hardware", kRoot + "/data");
  KernelRequest request;
  request.device = "h200";
  for (auto _ : state) {
    OutputFile out((std::filesystem::temp_directory_path() / "operator_bench.csv").string());
    session.predict_table(request, table(), [&](std::string_view text) { out.write(text); });
  }
  count_rows(state);
}
BENCHMARK(BM_OperatorTableToFile)->Unit(benchmark::kMillisecond);

void BM_ReadRows(benchmark::State& state) {
  for (auto _ : state) {
    CsvReader reader(table());
    while (reader.next()) benchmark::DoNotOptimize(reader.field(2));
  }
  count_rows(state);
}
BENCHMARK(BM_ReadRows)->Unit(benchmark::kMillisecond);

void BM_RowsToKernels(benchmark::State& state) {
  const CsvTable rows = CsvTable::parse(table());
  for (auto _ : state)
    for (size_t i = 0; i < rows.rows(); ++i)
      benchmark::DoNotOptimize(operator_kernel(rows.at(i, 0), rows.at(i, 1), rows.at(i, 2)));
  count_rows(state);
}
BENCHMARK(BM_RowsToKernels)->Unit(benchmark::kMillisecond);

void BM_PredictRows(benchmark::State& state) {
  const auto predictor = roofline();
  const CsvTable rows = CsvTable::parse(table());
  std::vector<Kernel> kernels;
  for (size_t i = 0; i < rows.rows(); ++i)
    kernels.push_back(operator_kernel(rows.at(i, 0), rows.at(i, 1), rows.at(i, 2)));
  std::vector<Estimate> estimates(kernels.size());
  for (auto _ : state) {
    predictor->predict(kernels, {}, estimates);
    benchmark::DoNotOptimize(estimates.data());
    benchmark::ClobberMemory();
  }
  count_rows(state);
}
BENCHMARK(BM_PredictRows)->Unit(benchmark::kMillisecond);

/// Interval and three numbers a row.
void BM_WriteRows(benchmark::State& state) {
  std::mt19937_64 random(1);
  std::vector<Estimate> estimates(kRows);
  for (Estimate& e : estimates) {
    e.seconds = Seconds(std::exp(std::uniform_real_distribution<double>(-14, -4)(random)));
    e.own_spread = 0.1F;
  }
  std::array<char, 3 * kLongestNumber> text;
  for (auto _ : state)
    for (const Estimate& e : estimates) {
      const TimeInterval t = interval(e);
      char* at = text.data();
      for (const Seconds s : {t.value, t.low, t.high}) at = write_number(at, s.value * 1e6);
      benchmark::DoNotOptimize(at);
    }
  count_rows(state);
}
BENCHMARK(BM_WriteRows)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace orrery
