// Runs of vLLM 0.19 that were measured, 300 requests each, against a simulation whose step times
// come from tables measured on the same GPUs (LLMServingSim's). Bounds are what was reached, with
// little to spare:
//
//   RTX 4090       in seconds without prompts the run's steps take 0.96 of what the tables say;
//   RTX PRO 6000   unqueued requests wait some 15 ms longer for their first token, about a step:
//                  likely the one that vLLM has scheduled ahead already when they arrive;
//   two of them    collectives over PCIe without peer links were not measured, and experts are
//                  taken to be chosen evenly, which fits this run better than the usual skew. Few
//                  requests queue, so that a small error of steps is a large one of the mean TTFT.

#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "orrery/api/session.h"
#include "orrery/base/csv.h"
#include "orrery/base/shared_data_for_test.h"

namespace orrery {
namespace {

struct Figure {
  double mean = 0, p99 = 0;
};

Figure figure(std::vector<double> values) {
  std::ranges::sort(values);
  double sum = 0;
  for (const double v : values) sum += v;
  const auto count = static_cast<double>(values.size());
  return {sum / count, values[static_cast<size_t>(0.99 * count)]};
}

struct MeasuredRun {
  Figure ttft, tpot, e2e;
};

MeasuredRun measured_run(const std::string& path) {
  const CsvTable table = CsvTable::parse(Source::from_file(path));
  const auto number = [&](size_t row, const char* column) {
    const std::string_view text = table.at(row, table.required_column(column));
    double value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  };
  std::vector<double> ttft, tpot, e2e;
  for (size_t r = 0; r < table.rows(); ++r) {
    ttft.push_back(number(r, "ttft_s"));
    e2e.push_back(number(r, "e2e_s"));
    if (const double tokens = number(r, "output_tokens"); tokens > 1)
      tpot.push_back((e2e.back() - ttft.back()) / (tokens - 1));
  }
  return {figure(ttft), figure(tpot), figure(e2e)};
}

/// How far ours may be from the measured figures, as shares of those.
struct Bounds {
  double ttft, tpot, e2e, p99;
};

class StepProfileAccuracy : public testing::Test {
 protected:
  static void check(const std::string& name, const std::string& folder, ServingRequest request,
                    const Bounds& bounds) {
    request.engine.step_profile = {folder + "/serving/vllm_profiles/" + name + "_tp1"};
    request.engine.max_batched_tokens = 2048;
    request.traffic.requests = folder + "/serving/vllm_runs/" + name + "/requests.csv";
    request.engine.model = folder + "/model_configs/" + request.engine.model + "_config.json";
    const MeasuredRun truth = measured_run(request.traffic.requests);
    const Session session(ORRERY_SOURCE_DIR "/hardware", ORRERY_SOURCE_DIR "/data");
    const ServingMetrics m = session.serving(request).run.metrics;
    const auto near = [&](const char* what, const Distribution& ours, const Figure& theirs,
                          double bound) {
      const double mean = ours.mean.value / theirs.mean - 1, p99 = ours.p99.value / theirs.p99 - 1;
      std::printf("%s %s: mean %+.1f %%, p99 %+.1f %%\n", name.c_str(), what, 100 * mean,
                  100 * p99);
      EXPECT_LE(std::abs(mean), bound) << name << " " << what;
      return p99;
    };
    EXPECT_LE(std::abs(near("TTFT", m.ttft, truth.ttft, bounds.ttft)), bounds.p99);
    EXPECT_LE(std::abs(near("TPOT", m.tpot, truth.tpot, bounds.tpot)), bounds.p99);
    EXPECT_LE(std::abs(near("end to end", m.e2e, truth.e2e, bounds.e2e)), bounds.p99);
  }
};

TEST_F(StepProfileAccuracy, Rtx4090) {
  ORRERY_SHARED_DATA_OR_SKIP(folder, "");
  ServingRequest r;
  r.engine.device = "rtx-4090";
  r.engine.model = "meta-llama--Meta-Llama-3.1-8B";
  r.engine.max_seqs = 256;
  r.engine.kv_blocks = 2588;
  check("RTX4090_Llama-3.1-8B", folder, r, {0.03, 0.03, 0.03, 0.15});
}

TEST_F(StepProfileAccuracy, RtxPro6000) {
  ORRERY_SHARED_DATA_OR_SKIP(folder, "");
  ServingRequest r;
  r.engine.device = "rtx-pro-6000";
  r.engine.model = "meta-llama--Meta-Llama-3.1-8B";
  r.engine.max_seqs = 128;
  check("RTXPRO6000_Llama-3.1-8B", folder, r, {0.03, 0.03, 0.03, 0.15});
}

TEST_F(StepProfileAccuracy, TwoRtxPro6000WithExperts) {
  ORRERY_SHARED_DATA_OR_SKIP(folder, "");
  ServingRequest r;
  r.engine.device = "rtx-pro-6000-node";
  r.engine.model = "Qwen--Qwen3-30B-A3B";
  r.engine.max_seqs = 128;
  r.engine.layout.attention_data = r.engine.layout.expert = 2;
  r.engine.routing_skew = 0;
  check("RTXPRO6000_Qwen3-30B-A3B-Instruct-2507", folder, r, {0.2, 0.03, 0.03, 0.15});
}

}  // namespace
}  // namespace orrery
