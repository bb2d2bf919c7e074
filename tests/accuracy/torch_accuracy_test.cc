#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <string>

#include "orrery/api/session.h"
#include "orrery/base/csv.h"
#include "orrery/base/shared_data_for_test.h"

namespace orrery {
namespace {

double number(const CsvTable& table, size_t row, const char* column) {
  return std::strtod(std::string(table.at(row, table.required_column(column))).c_str(), nullptr);
}
std::string text(const CsvTable& table, size_t row, const char* column) {
  return std::string(table.at(row, table.required_column(column)));
}

const Session& session() {
  static const Session kSession(ORRERY_SOURCE_DIR "/hardware", ORRERY_SOURCE_DIR "/data");
  return kSession;
}

struct MeanError {
  double sum = 0, worst = 0;
  int count = 0;
  void add(double predicted, double truth) {
    const double error = 100 * std::abs(predicted / truth - 1);
    sum += error;
    worst = std::max(worst, error);
    ++count;
  }
  double mean() const { return sum / count; }
};

struct TorchCase {
  const char* model;
  const char* phase;
  int64_t batch, sequence;
};
/// The models of h200/torch_models.csv as the zoo has them.
const std::map<std::string, TorchCase> kTorchCases = {
    {"resnet50_b1_infer", {"resnet-50", "forward", 1, 0}},
    {"resnet50_b32_infer", {"resnet-50", "forward", 32, 0}},
    {"resnet50_b64_train", {"resnet-50", "train", 64, 0}},
    {"bert_base_b1_s128_infer", {"bert-base", "forward", 1, 128}},
    {"bert_base_b32_s512_infer", {"bert-base", "forward", 32, 512}},
    {"gpt2_b8_s1024_infer", {"gpt2", "forward", 8, 1024}},
    {"gpt2_b8_s1024_train", {"gpt2", "train", 8, 1024}},
    {"llama2_7b_b1_s512_prefill", {"llama2-7b", "prefill", 1, 512}},
    {"llama2_7b_b1_s2048_prefill", {"llama2-7b", "prefill", 1, 2048}},
    {"llama2_7b_b4_s1024_prefill", {"llama2-7b", "prefill", 4, 1024}}};

PredictAnswer predicted(const TorchCase& c, const char* stack) {
  PredictRequest request;
  request.workload = c.model;
  request.device = "h200";
  request.stack = stack;
  request.point.regime = OperatingPoint::Regime::kSustained;
  request.read.build.phase = c.phase;
  request.read.build.batch = c.batch;
  request.read.build.sequence = c.sequence;
  return session().predict(request);
}

/// PyTorch models on an H200, profiled: how many kernels, how long they take together, how long
/// a call takes eagerly and as a CUDA graph. What was reached, and a little room; the goals
/// were 6 % for the kernels' time, 5 % for their number and 25 % for eager calls, whose
/// host is another one than the stack's constants are from.
TEST(TorchAccuracy, ModelsOnH200) {
  ORRERY_SHARED_DATA_OR_SKIP(path, "h200/torch_models.csv");
  const CsvTable table = CsvTable::parse(Source::from_file(path));
  MeanError kernels, launches, eager, graph;
  for (size_t i = 0; i < table.rows(); ++i) {
    const std::string name = text(table, i, "case");
    SCOPED_TRACE(name);
    ASSERT_TRUE(kTorchCases.contains(name));
    const PredictAnswer a = predicted(kTorchCases.at(name), "torch-eager");
    launches.add(a.launches, number(table, i, "kernels"));
    kernels.add(a.composition.kernels_s * 1e6, number(table, i, "kernel_sum_us"));
    eager.add(a.latency_s * 1e6, number(table, i, "eager_us"));
    if (!text(table, i, "graph_us").empty())
      graph.add(predicted(kTorchCases.at(name), "cuda-graph").latency_s * 1e6,
                number(table, i, "graph_us"));
  }
  fmt::print(
      "kernels' time {:.1f} %, worst {:.1f} %; their number {:.1f} %, worst {:.1f} %; "
      "eager calls {:.1f} %; graphs {:.1f} %, worst {:.1f} %\n",
      kernels.mean(), kernels.worst, launches.mean(), launches.worst, eager.mean(), graph.mean(),
      graph.worst);
  EXPECT_LE(kernels.mean(), 4.5);
  EXPECT_LE(launches.worst, 5);
  EXPECT_LE(eager.mean(), 20);
  EXPECT_LE(graph.mean(), 7);
}

struct NeusightGpu {
  const char* device;
  double limit;  ///< What was reached, and a little room, in per cent.
};
const std::map<std::string, NeusightGpu> kNeusightGpus = {
    {"Tesla_P100-PCIE-16GB", {"p100", 5}},
    {"Tesla_P4", {"p4", 32}},
    {"Tesla_T4", {"t4", 14}},
    {"Tesla_V100-PCIE-32GB", {"v100-pcie-32gb", 5}},
    {"NVIDIA_A100-PCIE-40GB", {"a100-pcie-40gb", 7}},
    {"AMD_Instinct_MI100", {"mi100", 5}},
    {"AMD_Instinct_MI210", {"mi210", 11}}};
/// The table does not tell its sizes. Those of T5-3B with four experts in every other layer have
/// the 5.3 billion parameters that NeuSight's authors count, and the work that the table's
/// roofline times leave room for, if experts take 64 tokens each as they do unless told otherwise.
constexpr const char* kSwitch = ORRERY_SOURCE_DIR "/tests/accuracy/switch_xl_4.json";
const std::map<std::string, const char*> kNeusightModels = {
    {"gpt2_large", "gpt2-large"}, {"bert_large", "bert-large"}, {"opt_13", "opt-1.3b"},
    {"gpt3_xl", "gpt3-xl"},       {"gpt3_27", "gpt3-2.7b"},     {"switchxl4", kSwitch}};

/// Whole models of NeuSight's table on one GPU: fp32 without TF32, attention written out, calls
/// timed one by one with pauses between them. Fits have seen single operators of its training
/// tables alone. Its own predictions, from the same, stand in the table.
TEST(TorchAccuracy, NeusightsModels) {
  ORRERY_SHARED_DATA_OR_SKIP(path, "gpu/neusight/models_e2e.csv");
  const CsvTable table = CsvTable::parse(Source::from_file(path));
  std::map<std::string, MeanError> ours, theirs;
  MeanError all, all_theirs;
  for (size_t i = 0; i < table.rows(); ++i) {
    const auto gpu = kNeusightGpus.find(text(table, i, "device"));
    const auto model = kNeusightModels.find(text(table, i, "model_name"));
    const std::string option = text(table, i, "option");
    if (gpu == kNeusightGpus.end() || model == kNeusightModels.end() ||
        (!option.empty() && option != "fusion"))
      continue;
    PredictRequest request;
    request.workload = model->second;
    request.device = gpu->second.device;
    request.stack = option.empty() ? "torch-eager" : "torch-compile";
    request.point.regime = OperatingPoint::Regime::kBurst;
    BuildOptions& build = request.read.build;
    build.dtype = "fp32";
    build.batch = static_cast<int64_t>(number(table, i, "batch"));
    build.sequence = static_cast<int64_t>(number(table, i, "seqlen"));
    build.choices["fused_attention"] = "no";
    build.phase = "forward";
    if (text(table, i, "mode") == "train") {
      build.phase = "train";
      build.choices["optimizer"] = "none";
    }
    const double truth = number(table, i, "label_all_e2e_latency");
    const double predicted = session().predict(request).latency_s * 1e3;
    ours[gpu->first].add(predicted, truth);
    theirs[gpu->first].add(number(table, i, "neusight_all_e2e_latency"), truth);
    all.add(predicted, truth);
    all_theirs.add(number(table, i, "neusight_all_e2e_latency"), truth);
  }
  EXPECT_EQ(all.count, 69);
  for (const auto& [name, gpu] : kNeusightGpus) {
    fmt::print("{}: {:.1f} % over {} models, NeuSight {:.1f} %\n", gpu.device, ours[name].mean(),
               ours[name].count, theirs[name].mean());
    EXPECT_LE(ours[name].mean(), gpu.limit) << gpu.device;
    // Three models ran on the P4 at the clock of its operators for training, less than half of that
    // of its operators for testing, which the fit follows.
    if (gpu.device != std::string_view("p4")) {
      EXPECT_LT(ours[name].mean(), theirs[name].mean()) << gpu.device;
    }
  }
  fmt::print("all: {:.1f} %, NeuSight {:.1f} %\n", all.mean(), all_theirs.mean());
  EXPECT_LE(all.mean(), 8);
  EXPECT_LT(all.mean(), all_theirs.mean());
}

}  // namespace
}  // namespace orrery
