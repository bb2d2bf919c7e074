#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "orrery/api/session.h"
#include "orrery/base/csv.h"
#include "orrery/base/shared_data_for_test.h"
#include "validation_record.h"

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

struct SignedError {
  double sum = 0, absolute = 0, worst = 0;
  int count = 0;
  void add(double predicted, double truth) {
    const double error = 100 * (predicted / truth - 1);
    sum += error;
    absolute += std::abs(error);
    if (std::abs(error) > std::abs(worst)) worst = error;
    ++count;
  }
  double mean() const { return sum / count; }
  double mean_absolute() const { return absolute / count; }
};

PredictAnswer predicted(const std::string& model, const std::string& device, const char* phase,
                        int64_t batch, int64_t length, const std::string& dtype = "") {
  PredictRequest request;
  request.workload = model;
  request.device = device;
  request.stack = "vllm";
  request.point.regime = OperatingPoint::Regime::kSustained;
  BuildOptions& build = request.read.build;
  build.phase = phase;
  build.batch = batch;
  build.dtype = dtype;
  (std::string_view(phase) == "decode" ? build.context : build.sequence) = length;
  return session().predict(request);
}

struct Gpu {
  const char* device;
  double limit;  ///< What was reached, and a little room, in per cent.
};

/// Seconds of vLLM 0.19's runs in which no prompt was read: requests that run, by their own
/// arrivals and ends, over the tokens of that second is a decode step. Neither GPU was fitted;
/// the RTX 4090's products are told by the fit of the L40S and come out 1 to 20 % long.
TEST(VllmAccuracy, DecodingSecondsOfRuns) {
  ORRERY_SHARED_DATA_OR_SKIP(folder, "serving/vllm_runs");
  const std::map<std::string, Gpu> gpus = {{"RTX4090_Llama-3.1-8B", {"rtx-4090", 10}},
                                           {"RTXPRO6000_Llama-3.1-8B", {"rtx-pro-6000-server", 7}}};
  for (const auto& [run, gpu] : gpus) {
    const CsvTable requests =
        CsvTable::parse(Source::from_file(fmt::format("{}/{}/requests.csv", folder, run)));
    const CsvTable seconds =
        CsvTable::parse(Source::from_file(fmt::format("{}/{}/timeseries.csv", folder, run)));
    SignedError error;
    Errors record;
    for (size_t i = 1; i < seconds.rows(); ++i) {
      const double tokens = number(seconds, i, "gen_throughput");
      if (number(seconds, i, "prompt_throughput") != 0 || number(seconds, i, "waiting") != 0 ||
          number(seconds, i - 1, "prompt_throughput") != 0 || tokens <= 0)
        continue;
      constexpr int kSamples = 10;
      double running = 0, context = 0;
      for (int s = 0; s < kSamples; ++s) {
        const double now = number(seconds, i, "t") - 1 + static_cast<double>(s) / kSamples;
        for (size_t r = 0; r < requests.rows(); ++r) {
          const double arrived = number(requests, r, "arrival_s");
          const double begin = arrived + number(requests, r, "ttft_s");
          const double end = arrived + number(requests, r, "e2e_s");
          if (now < begin || now >= end) continue;
          running += 1.0 / kSamples;
          context += (number(requests, r, "input_tokens") +
                      number(requests, r, "output_tokens") * (now - begin) / (end - begin)) /
                     kSamples;
        }
      }
      if (running < 2) continue;  // the run's end falls into that second
      const PredictAnswer step = predicted("llama3-8b", gpu.device, "decode", std::llround(running),
                                           std::llround(context / running));
      error.add(step.latency_s, running / tokens);
      record.add(step.latency_s, step.latency_low_s, step.latency_high_s, running / tokens);
    }
    fmt::print("{}: {:+.1f} % in the mean, {:.1f} % either way over {} seconds, worst {:+.1f} %\n",
               gpu.device, error.mean(), error.mean_absolute(), error.count, error.worst);
    record.check("serving/vllm_runs/" + run, "tile");
    EXPECT_LE(error.mean_absolute(), gpu.limit) << gpu.device;
  }
}

double at(const std::map<int64_t, double>& points, double x) {
  const auto above = points.lower_bound(static_cast<int64_t>(std::ceil(x)));
  if (above == points.begin()) return above->second;
  if (above == points.end()) return points.rbegin()->second;
  const auto below = std::prev(above);
  const double share =
      (x - static_cast<double>(below->first)) / static_cast<double>(above->first - below->first);
  return below->second + share * (above->second - below->second);
}

/// A decode step's kernels together against the profiled times of vLLM's operators on that GPU.
TEST(VllmAccuracy, KernelsOfProfiles) {
  ORRERY_SHARED_DATA_OR_SKIP(folder, "serving/vllm_profiles");
  const std::map<std::string, Gpu> gpus = {
      {"RTX4090_Llama-3.1-8B_tp1", {"rtx-4090", 10}},
      {"RTXPRO6000_Llama-3.1-8B_tp1", {"rtx-pro-6000-server", 8}}};
  constexpr int kLayers = 32;
  constexpr int64_t kContext = 1024;
  for (const auto& [profile, gpu] : gpus) {
    const auto read = [&, &name = profile](const char* part) {
      return CsvTable::parse(Source::from_file(fmt::format("{}/{}_{}.csv", folder, name, part)));
    };
    std::map<std::string, std::map<int64_t, double>> times;
    const CsvTable dense = read("dense"), last = read("per_sequence"),
                   attention = read("attention");
    for (size_t i = 0; i < dense.rows(); ++i)
      times[text(dense, i, "layer")][std::llround(number(dense, i, "tokens"))] =
          number(dense, i, "time_us");
    for (size_t i = 0; i < last.rows(); ++i)
      times[text(last, i, "layer")][std::llround(number(last, i, "sequences"))] =
          number(last, i, "time_us");
    for (size_t i = 0; i < attention.rows(); ++i)
      if (number(attention, i, "prefill_chunk") == 0 &&
          number(attention, i, "kv_decode") == kContext)
        times["attention"][std::llround(number(attention, i, "n_decode"))] =
            number(attention, i, "time_us");
    SignedError error;
    for (const int64_t batch : {1, 4, 16, 64, 128}) {
      const auto n = static_cast<double>(batch);
      double layer = at(times.at("layernorm"), n) * 2;
      for (const char* part :
           {"qkv_proj", "o_proj", "gate_up_proj", "down_proj", "rotary_emb", "act_fn", "attention"})
        layer += at(times.at(part), n);
      double step = kLayers * layer;
      for (const char* part : {"embedding", "final_layernorm", "lm_head", "sampler"})
        step += at(times.at(part), n);
      error.add(
          predicted("llama3-8b", gpu.device, "decode", batch, kContext).composition.kernels_s * 1e6,
          step);
    }
    fmt::print("{}: {:+.1f} % in the mean, worst {:+.1f} %\n", gpu.device, error.mean(),
               error.worst);
    EXPECT_LE(error.mean_absolute(), gpu.limit) << gpu.device;
  }
}

struct Deployment {
  const char* dtype;
  double limit;
};

/// Closed loops of `concurrency` requests on one GPU: while a request's `osl` tokens are made, each
/// of the others is read once, so that TPOT = decode + (concurrency - 1) · prefill / osl.
/// Left out: Llama-3.1-8B (their prompts alone would take three quarters of the GPU's peak: several
/// replicas), weights in four bits of MiniMax-M2.5 (its file describes eight), what waited for
/// memory (TTFT of 40 s).
TEST(VllmAccuracy, DeploymentsOnOneGpu) {
  ORRERY_SHARED_DATA_OR_SKIP(path, "serving/silicon_points.csv");
  ORRERY_SHARED_DATA_OR_SKIP(configs, "model_configs");
  const std::map<std::string, const char*> devices = {{"h200_sxm", "h200"}, {"b300_sxm", "b300"}};
  // Experts of gpt-oss ran in another kernel than the tables time: 116 us for 4 tokens agree, those
  // for 32 and more do not.
  const std::map<std::string, Deployment> models = {{"meta-llama/Llama-3.1-70B", {"fp8", 11}},
                                                    {"openai/gpt-oss-120b", {"", 38}},
                                                    {"MiniMaxAI/MiniMax-M2.5", {"", 32}}};
  const CsvTable table = CsvTable::parse(Source::from_file(path));
  std::map<std::string, SignedError> errors;
  Errors record;
  for (size_t i = 0; i < table.rows(); ++i) {
    const std::string name = text(table, i, "model_path"), precision = text(table, i, "precision");
    const auto one = [&](const char* column) {
      const std::string value = text(table, i, column);
      return value.empty() || value == "1";
    };
    const bool is_one_gpu = one("tp_size") && one("pp_size") && one("attention_dp_size") &&
                            one("moe_tp_size") && one("moe_ep_size");
    constexpr double kLongestWait = 20e3;
    if (text(table, i, "backend") != "vllm" || text(table, i, "mode") != "agg" || !is_one_gpu ||
        !models.contains(name) || number(table, i, "silicon_ttft_ms") > kLongestWait ||
        (name.starts_with("MiniMax") && precision != "fp8"))
      continue;
    const std::string model = fmt::format("{}/{}", configs, text(table, i, "config"));
    const char* device = devices.at(text(table, i, "system"));
    const Deployment& deployment = models.at(name);
    const double isl = number(table, i, "isl"), osl = number(table, i, "osl"),
                 concurrency = number(table, i, "concurrency");
    const PredictAnswer decode = predicted(model, device, "decode", std::llround(concurrency),
                                           std::llround(isl + osl / 2), deployment.dtype);
    const PredictAnswer prefill =
        predicted(model, device, "prefill", 1, std::llround(isl), deployment.dtype);
    const auto tpot = [&](double PredictAnswer::*of) {
      return 1e3 * (decode.*of + (concurrency - 1) * prefill.*of / osl);
    };
    const double truth = number(table, i, "silicon_tpot_ms");
    errors[name].add(tpot(&PredictAnswer::latency_s), truth);
    if (std::string_view(device) == "h200")
      record.add(tpot(&PredictAnswer::latency_s), tpot(&PredictAnswer::latency_low_s),
                 tpot(&PredictAnswer::latency_high_s), truth);
  }
  record.check("serving/silicon_points.csv", "tile");
  for (const auto& [name, deployment] : models) {
    ASSERT_TRUE(errors.contains(name)) << name;
    const SignedError& error = errors.at(name);
    fmt::print("{}: {:+.1f} % in the mean, {:.1f} % either way over {} rows, worst {:+.1f} %\n",
               name, error.mean(), error.mean_absolute(), error.count, error.worst);
    EXPECT_LE(error.mean_absolute(), deployment.limit) << name;
  }
}

}  // namespace
}  // namespace orrery
