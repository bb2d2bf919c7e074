#include "orrery/cluster/training/pipeline_order.h"

#include <gtest/gtest.h>

#include <string>

namespace orrery {
namespace {

/// "F0 B0 W0"; of several chunks "F0a F0b".
std::string words(const std::vector<PipelinePass>& order, bool chunks) {
  std::string text;
  for (const PipelinePass& pass : order) {
    if (!text.empty()) text += ' ';
    text += "FBW"[static_cast<int>(pass.kind)];
    text += std::to_string(pass.micro_batch);
    if (chunks) text += static_cast<char>('a' + pass.chunk);
  }
  return text;
}

constexpr auto k1F1B = PipelineSchedule::kOneForwardOneBackward;

TEST(PipelineOrder, OneForwardOneBackward) {
  EXPECT_EQ(words(pipeline_order(k1F1B, 3, 1, 0, 4), false), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(words(pipeline_order(k1F1B, 3, 1, 1, 4), false), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(words(pipeline_order(k1F1B, 3, 1, 2, 4), false), "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(words(pipeline_order(k1F1B, 3, 1, 0, 1), false), "F0 B0");
}

TEST(PipelineOrder, GpipeGoesForwardFirst) {
  EXPECT_EQ(words(pipeline_order(PipelineSchedule::kGpipe, 2, 1, 1, 2), false), "F0 F1 B0 B1");
}

TEST(PipelineOrder, InterleavedAsMegatronDoes) {
  // Narayanan et al. 2021, figure 4, with 2 devices of 2 chunks: 2·(p − s − 1) + (v − 1)·p
  // passes ahead.
  EXPECT_EQ(words(pipeline_order(k1F1B, 2, 2, 0, 4), true),
            "F0a F1a F0b F1b F2a B0b F3a B1b F2b B0a F3b B1a B2b B3b B2a B3a");
  EXPECT_EQ(words(pipeline_order(k1F1B, 2, 2, 1, 4), true),
            "F0a F1a F0b B0b F1b B1b F2a B0a F3a B1a F2b B2b F3b B3b B2a B3a");
}

TEST(PipelineOrder, ZeroBubbleRunsWeightGradientsLate) {
  EXPECT_EQ(words(pipeline_order(PipelineSchedule::kZeroBubble, 2, 1, 0, 2), false),
            "F0 F1 B0 W0 B1 W1");
  EXPECT_EQ(words(pipeline_order(PipelineSchedule::kZeroBubble, 2, 1, 1, 2), false),
            "F0 B0 F1 B1 W0 W1");
}

/// All stages alike.
double end_of(PipelineSchedule schedule, int stages, int chunks, int64_t micro_batches,
              double forward, double backward, double weights, double between) {
  const auto of = [&](double seconds) {
    return std::vector(static_cast<size_t>(stages),
                       std::vector(static_cast<size_t>(chunks), Seconds(seconds)));
  };
  std::vector<std::vector<PipelinePass>> orders;
  orders.reserve(static_cast<size_t>(stages));
  for (int stage = 0; stage < stages; ++stage)
    orders.push_back(pipeline_order(schedule, stages, chunks, stage, micro_batches));
  double last = 0;
  for (const auto& stage : place_passes(orders, {of(forward), of(backward), of(weights)}, chunks,
                                        micro_batches, Seconds(between)))
    last = std::max(last, stage.back().end.value);
  return last;
}

TEST(PipelinePlaces, EqualStagesTakeTheClosedForms) {
  // (m + p − 1)·(f + b); with v chunks m·v·(f + b) + (p − 1)·(f + b) of a chunk; and twice the way
  // to the other end.
  EXPECT_DOUBLE_EQ(end_of(k1F1B, 4, 1, 8, 1, 2, 0, 0), 11 * 3);
  EXPECT_DOUBLE_EQ(end_of(k1F1B, 4, 1, 2, 1, 2, 0, 0), 5 * 3);
  EXPECT_DOUBLE_EQ(end_of(PipelineSchedule::kGpipe, 4, 1, 8, 1, 2, 0, 0), 11 * 3);
  EXPECT_DOUBLE_EQ(end_of(k1F1B, 4, 2, 8, 1, 2, 0, 0), 16 * 3 + 3 * 3);
  EXPECT_DOUBLE_EQ(end_of(k1F1B, 4, 2, 8, 1, 2, 0, 0.25), 16 * 3 + 3 * 3 + 6 * 0.25);
  // ZB-H1: m·(f + b + w) + (p − 1)·(f + b − w) (Qi et al. 2024, table 2).
  EXPECT_DOUBLE_EQ(end_of(PipelineSchedule::kZeroBubble, 4, 1, 8, 1, 1, 1, 0), 8 * 3 + 3);
}

}  // namespace
}  // namespace orrery
