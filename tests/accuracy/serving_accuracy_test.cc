#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "measured_rows_for_test.h"
#include "orrery/api/session.h"
#include "orrery/base/csv.h"
#include "orrery/base/shared_data_for_test.h"

namespace orrery {
namespace {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// VIDUR's own answers for Llama-2-7B on an A100, 2 requests a second, seed 42: mean end to end, its
// 99th percentile, first token, time per token. No profile of VIDUR's is read.
TEST(ServingAccuracy, AgreesWithVidurWhereItCountsTheSame) {
  struct Run {
    const char* scheduler;
    int count;
    double e2e, p99, ttft, tpot;
  };
  for (const Run& run : {Run{"vllm-v0", 200, 0.177, 0.314, 0.027, 0.0093},
                         Run{"sarathi", 50, 0.158, 0.262, 0.025, 0.0090}}) {
    ServingRequest request;
    request.engine.model = "llama2-7b";
    request.engine.device = "a100-sxm-80gb";
    request.engine.engine = "vidur";
    request.scheduler.name = run.scheduler;
    request.traffic.rate = 2;
    request.traffic.count = run.count;
    request.traffic.lengths = "vidur:128-512:20";
    const ServingMetrics m = session().serving(request).run.metrics;
    EXPECT_NEAR(m.e2e.mean.value, run.e2e, 0.10 * run.e2e) << run.scheduler;
    EXPECT_NEAR(m.e2e.p99.value, run.p99, 0.10 * run.p99) << run.scheduler;
    EXPECT_NEAR(m.ttft.mean.value, run.ttft, 0.10 * run.ttft) << run.scheduler;
    EXPECT_NEAR(m.vidur_tpot.mean.value, run.tpot, 0.10 * run.tpot) << run.scheduler;
  }
}

// Prompts that a scheduler puts before everything else make those wait who have begun: their
// tokens' longest gaps are those of whole prompts, with Sarathi those of its chunks.
TEST(ServingAccuracy, ChunksShortenTheLongestGaps) {
  ServingRequest request;
  request.engine.model = "llama2-7b";
  request.engine.device = "a100-sxm-80gb";
  request.engine.engine = "vidur";
  request.traffic.rate = 1.5;
  request.traffic.count = 400;
  request.traffic.isl = "uniform:1024-4096";
  request.traffic.osl = "100";
  request.scheduler.name = "vllm-v0";
  const ServingMetrics prompts_first = session().serving(request).run.metrics;
  request.scheduler.name = "sarathi";
  const ServingMetrics chunked = session().serving(request).run.metrics;
  EXPECT_LT(chunked.itl_p99.value, 0.5 * prompts_first.itl_p99.value);
  EXPECT_GT(chunked.ttft.mean.value, prompts_first.ttft.mean.value);
}

// What the runtime holds was set by this very run: the test keeps it so, it validates nothing.
TEST(ServingAccuracy, LeavesTheBlocksThatVllmFound) {
  EngineRequest request;
  request.model = "llama3-8b";
  request.device = "rtx-4090";
  request.max_batched_tokens = 2048;
  request.max_seqs = 256;
  const ServingEngine engine = session().serving_engine(request);
  EXPECT_NEAR(static_cast<double>(engine.room.blocks), 2588, 0.03 * 2588);
}

// Deployments that vLLM ran, of the half of the table that nothing was fitted to
// (tools/validation/serving.py; docs/validation.md says what was chosen with all of it in view).
TEST(ServingAccuracy, PredictsDeploymentsOfVllm) {
  ORRERY_SHARED_DATA_OR_SKIP(table, "serving/silicon_points.csv");
  ORRERY_SHARED_DATA_OR_SKIP(configs, "model_configs");
  const Rows rows(table);
  std::vector<double> tpot, ttft;
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string id = rows.text(i, "id");
    uint64_t hash = 1469598103934665603ULL;
    for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    if ((hash >> 17U & 1U) == 0 || rows.text(i, "backend") != "vllm" ||
        !id.starts_with("2026_04_06_"))
      continue;
    const bool experts = id.find("gpt_oss") != std::string::npos;
    ServingRequest request;
    EngineRequest& engine = request.engine;
    engine.model = configs + "/" + rows.text(i, "config");
    engine.device = rows.text(i, "system") == "h100_sxm" ? "h100-sxm" : "h200";
    engine.layout.tensor = rows.whole(i, "tp_size");
    if (!experts) engine.precision.linear = "fp8";
    const int isl = rows.whole(i, "isl"), osl = rows.whole(i, "osl");
    request.traffic.concurrency = rows.whole(i, "concurrency");
    request.traffic.count = 10 * request.traffic.concurrency;
    request.traffic.isl = fmt::format("uniform:{}-{}", isl * 8 / 10, isl);
    request.traffic.osl = fmt::format("uniform:{}-{}", osl * 8 / 10, osl);
    if (request.traffic.concurrency > 64) continue;
    const ServingMetrics m = session().serving(request).run.metrics;
    tpot.push_back(std::abs(1e3 * m.tpot.mean.value / rows.number(i, "silicon_tpot_ms") - 1));
    ttft.push_back(std::abs(1e3 * m.ttft.mean.value / rows.number(i, "silicon_ttft_ms") - 1));
  }
  ASSERT_GE(tpot.size(), 50U);
  RecordProperty("median_tpot_error", fmt::format("{:.3f}", median(tpot)));
  RecordProperty("median_ttft_error", fmt::format("{:.3f}", median(ttft)));
  EXPECT_LT(median(tpot), 0.05);
  EXPECT_LT(median(ttft), 0.09);
}

}  // namespace
}  // namespace orrery
