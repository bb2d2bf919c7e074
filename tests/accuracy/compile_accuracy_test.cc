#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <string>

#include "orrery/api/session.h"
#include "orrery/base/csv.h"
#include "validation_record.h"

namespace orrery {
namespace {

double number(const CsvTable& table, size_t row, const char* column) {
  return std::strtod(std::string(table.at(row, table.required_column(column))).c_str(), nullptr);
}
std::string text(const CsvTable& table, size_t row, const char* column) {
  return std::string(table.at(row, table.required_column(column)));
}

struct MeanError {
  double sum = 0;
  int count = 0;
  void add(double predicted, double truth) {
    sum += 100 * std::abs(predicted / truth - 1);
    ++count;
  }
  double mean() const { return sum / count; }
};

struct CompiledCase {
  std::string model;
  const char* phase;
  int64_t batch, length;
  bool fitted;  ///< Constants were taken from it: the half whose name's SHA-256 is even.
  const char* dtype = "";
};
const std::string kConfigs = ORRERY_SOURCE_DIR "/tests/accuracy/configs";
/// The models of the table as the zoo has them; ConvNeXt is not there.
const std::map<std::string, CompiledCase> kCases = {
    {"resnet18_b64_infer", {"resnet-18", "forward", 64, 0, true}},
    {"resnet50_b8_infer", {"resnet-50", "forward", 8, 0, false}},
    {"resnet50_b128_infer", {"resnet-50", "forward", 128, 0, false}},
    {"resnet50_b64_train", {"resnet-50", "train", 64, 0, true}},
    {"mobilenet_v2_b32_infer", {"mobilenet-v2", "forward", 32, 0, false}},
    {"vit_b_16_b32_infer", {"vit-b-16", "forward", 32, 0, false}},
    {"bert_base_b8_s128_infer", {"bert-base", "forward", 8, 128, false}},
    {"bert_large_b16_s256_infer", {"bert-large", "forward", 16, 256, true}},
    {"gpt2_b1_s128_infer", {"gpt2", "forward", 1, 128, true}},
    {"gpt2_b8_s1024_infer", {"gpt2", "forward", 8, 1024, true}},
    {"llama3_8b_4l_b1_s128_prefill", {kConfigs + "/llama3_8b_4l.json", "prefill", 1, 128, false}},
    {"llama3_8b_4l_b2_s1024_prefill", {kConfigs + "/llama3_8b_4l.json", "prefill", 2, 1024, false}},
    {"llama3_8b_4l_b8_c512_decode", {kConfigs + "/llama3_8b_4l.json", "decode", 8, 513, false}},
    {"opt_6l_b2_s512_infer", {kConfigs + "/opt_6l.json", "forward", 2, 512, true}},
    {"bert_base_b8_s128_fp32_infer", {"bert-base", "forward", 8, 128, true, "fp32"}}};

/// What torch.compile made of PyTorch models on an H200: kernels' number and time, and steps.
/// Limits are what was reached on the half that no constant was taken from, and a little room;
/// what attention becomes was read from all profiles. Steps of the default mode wait for the host,
/// whose time a kernel varied from 18 to 37 us.
TEST(CompileAccuracy, ModelsOnH200) {
  const CsvTable table =
      CsvTable::parse(Source::from_file(ORRERY_SOURCE_DIR "/data/measured/h200_torch_compile.csv"));
  const Session session(ORRERY_SOURCE_DIR "/hardware", ORRERY_SOURCE_DIR "/data");
  struct Means {
    MeanError kernels, sum, step, replayed;
  } fitted, checked;
  Errors record;
  for (size_t i = 0; i < table.rows(); ++i) {
    const auto found = kCases.find(text(table, i, "case"));
    if (found == kCases.end()) continue;
    const CompiledCase& c = found->second;
    PredictRequest request;
    request.workload = c.model;
    request.device = "h200";
    request.stack = "torch-compile";
    request.overrides.emplace_back("stack.mode", text(table, i, "mode"));
    request.point.regime = OperatingPoint::Regime::kSustained;
    BuildOptions& build = request.read.build;
    build.phase = c.phase;
    build.batch = c.batch;
    build.dtype = c.dtype;
    (std::string_view(c.phase) == "decode" ? build.context : build.sequence) = c.length;
    const PredictAnswer a = session.predict(request);
    Means& errors = c.fitted ? fitted : checked;
    if (text(table, i, "mode") != "default") {
      errors.replayed.add(a.latency_s * 1e6, number(table, i, "step_us"));
      continue;
    }
    errors.kernels.add(a.launches, number(table, i, "kernels"));
    errors.sum.add(a.composition.kernels_s * 1e6, number(table, i, "kernel_sum_us"));
    errors.step.add(a.latency_s * 1e6, number(table, i, "step_us"));
    if (!c.fitted)
      record.add(a.latency_s * 1e6, a.latency_low_s * 1e6, a.latency_high_s * 1e6,
                 number(table, i, "step_us"));
  }
  for (const auto& [name, e] : {std::pair("fitted", &fitted), std::pair("checked", &checked)})
    fmt::print(
        "{}: kernels {:.1f} %, their time {:.1f} %, steps {:.1f} % over {} models; replayed "
        "{:.1f} % over {}\n",
        name, e->kernels.mean(), e->sum.mean(), e->step.mean(), e->step.count, e->replayed.mean(),
        e->replayed.count);
  record.check("data/measured/h200_torch_compile.csv", "tile");
  EXPECT_LE(checked.kernels.mean(), 7);
  EXPECT_LE(checked.sum.mean(), 9);
  EXPECT_LE(checked.step.mean(), 16);
  EXPECT_LE(checked.replayed.mean(), 16);
}

}  // namespace
}  // namespace orrery
