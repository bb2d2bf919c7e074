#include "orrery/cluster/nccl/nccl_library.h"

#include <gtest/gtest.h>

#include "orrery/cluster/cluster_for_test.h"

namespace orrery {
namespace {

std::string chosen(const CollectivePredictor& predictor, CollectiveKind kind, double bytes,
                   RankGroup group, ElementType type = ElementType::kF16) {
  const CollectiveEstimate e = predictor.predict({kind, Bytes(bytes), group, type});
  return std::string(e.algorithm) + " " + std::string(e.protocol);
}

constexpr double kMebi = 1 << 20;

/// Where the measured tables bend: LL to Simple between 1 and 2 MiB for two A100, to LL128 and on
/// for eight.
TEST(Nccl, ChangesProtocolWhereNcclDoes) {
  const auto a100 = bound("nccl", catalogue_cluster("dgx-a100"));
  EXPECT_EQ(chosen(*a100, CollectiveKind::kAllGather, 1 * kMebi, {2, 1}), "ring ll");
  EXPECT_EQ(chosen(*a100, CollectiveKind::kAllGather, 2 * kMebi, {2, 1}), "ring simple");
  EXPECT_EQ(chosen(*a100, CollectiveKind::kAllGather, 2 * kMebi, {8, 1}), "ring ll");
  EXPECT_EQ(chosen(*a100, CollectiveKind::kAllGather, 4 * kMebi, {8, 1}), "ring ll128");
  EXPECT_EQ(chosen(*a100, CollectiveKind::kAllGather, 16 * kMebi, {8, 1}), "ring simple");
  EXPECT_EQ(chosen(*a100, CollectiveKind::kAllReduce, 0.5 * kMebi, {2, 1}), "ring ll");
  EXPECT_EQ(chosen(*a100, CollectiveKind::kAllReduce, 1 * kMebi, {2, 1}), "ring simple");
  EXPECT_EQ(chosen(*a100, CollectiveKind::kAllToAll, 32768, {8, 1}), "direct ll");
  EXPECT_EQ(chosen(*a100, CollectiveKind::kAllToAll, 16 * kMebi, {8, 1}), "direct simple");
}

TEST(Nccl, LetsTheSwitchAddWhatItCan) {
  const auto h100 = bound("nccl", catalogue_cluster("dgx-h100"));
  EXPECT_EQ(chosen(*h100, CollectiveKind::kAllReduce, 64 * kMebi, {8, 1}), "nvls simple");
  EXPECT_EQ(chosen(*h100, CollectiveKind::kAllReduce, 64 * kMebi, {8, 1}, ElementType::kS8),
            "ring simple");
  EXPECT_EQ(chosen(*h100, CollectiveKind::kAllReduce, 64 * kMebi, {4, 1}), "ring simple");
  EXPECT_EQ(chosen(*h100, CollectiveKind::kAllReduce, 1024 * kMebi, {16, 1}), "nvls-tree simple");
  const auto a100 = bound("nccl", catalogue_cluster("dgx-a100"));
  EXPECT_EQ(chosen(*a100, CollectiveKind::kAllReduce, 64 * kMebi, {8, 1}), "ring simple");
  EXPECT_EQ(chosen(*a100, CollectiveKind::kAllReduce, 1024 * kMebi, {16, 1}), "tree simple");
  EXPECT_EQ(chosen(*a100, CollectiveKind::kAllReduce, 4096 * kMebi, {64, 1}), "ring simple");
  EXPECT_EQ(chosen(*a100, CollectiveKind::kAllReduce, 8, {64, 1}), "tree ll");
}

TEST(Nccl, UsesNoLL128OverPcie) {
  const auto l40s = bound("nccl", catalogue_cluster("l40s-node"));
  for (double bytes = 8; bytes < 1e9; bytes *= 2)
    EXPECT_EQ(chosen(*l40s, CollectiveKind::kAllReduce, bytes, {8, 1}).find("ll128"),
              std::string::npos);
}

TEST(Nccl, CanBeForced) {
  const Cluster cluster = catalogue_cluster("dgx-h100");
  EXPECT_EQ(
      chosen(*bound("nccl", cluster, "tree", "ll"), CollectiveKind::kAllReduce, 64 * kMebi, {8, 1}),
      "tree ll");
  EXPECT_THROW(bound("nccl", cluster, "halving-doubling"), Error);
  EXPECT_THROW(bound("nccl", cluster, "", "ll64"), Error);
  const auto tree = bound("nccl", cluster, "tree");
  EXPECT_THROW(tree->predict({CollectiveKind::kAllGather, Bytes(8), {8, 1}, ElementType::kF16}),
               Error);
}

TEST(Nccl, SaysThatItHasNothingForATorus) {
  Cluster cluster = plain_cluster(8, 1);
  cluster.tiers[0].shape = FabricShape::kTorus;
  cluster.tiers[0].dimensions = {2, 2, 2};
  const NcclModel model(cluster, LinkFit(), {});
  const CollectiveCall call{CollectiveKind::kAllReduce, Bytes(8000), {8, 1}, ElementType::kF16};
  try {
    model.choose(call, place_group(cluster, call.group));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_STREQ(error.what(),
                 "nccl has no algorithm for a torus, which 'nvlink' of plain is; --library "
                 "alpha-beta runs an all-reduce there");
  }
}

/// Physics by hand: a fit with round constants, no corrections.
TEST(Nccl, TimeIsLaunchHopsAndBytes) {
  Cluster cluster = plain_cluster(8, 4);
  cluster.device.architecture = "hopper";
  LinkFit fit;
  fit.constants["all-reduce ring ll"] = {5, 0.5, 0.25};
  fit.constants["all-reduce ring simple"] = {10, 2, 0.8};
  const NcclModel ll(cluster, fit, {"", "ring", "ll"});
  const CollectiveCall small{CollectiveKind::kAllReduce, Bytes(8000), {8, 1}, ElementType::kF16};
  GroupPlace place = place_group(cluster, small.group);
  // 5 + 14 · 0.5 µs, and 14,000 bytes at 25 GB/s: 0.56 µs.
  EXPECT_NEAR(ll.time(ll.choose(small, place), small, place).value * 1e6, 12.56, 1e-9);

  const NcclModel simple(cluster, fit, {"", "ring", "simple"});
  const CollectiveCall large{CollectiveKind::kAllReduce, Bytes(1e9), {16, 1}, ElementType::kF16};
  place = place_group(cluster, large.group);
  // 30 steps, 3.75 of them over the network at 14 µs; 1.875 GB at 0.95 · 10 GB/s.
  EXPECT_NEAR(simple.time(simple.choose(large, place), large, place).value * 1e6,
              10 + 26.25 * 2 + 3.75 * 14 + 1.875e9 / 9.5e9 * 1e6, 1e-6);
}

TEST(Nccl, TreesOverNodesFillTheirPipelineFirst) {
  Cluster cluster = plain_cluster(4, 2);  // four adapters of 2.5 GB/s
  cluster.device.architecture = "hopper";
  LinkFit fit;
  fit.constants["all-reduce ring simple"] = {10, 2, 0.8};
  const NcclModel tree(cluster, fit, {"", "tree", "simple"});
  const CollectiveCall call{CollectiveKind::kAllReduce, Bytes(1e9), {8, 1}, ElementType::kF16};
  const GroupPlace place = place_group(cluster, call.group);
  // 6 hops inside and 2 outside; chunks of 512 KiB on 16 channels; the buffer at 0.77 · 10 GB/s.
  const double chunks = 16.0 * 512 * 1024;
  EXPECT_NEAR(tree.time(tree.choose(call, place), call, place).value * 1e6,
              10 + 6 * 2 + 2 * 14 + chunks * (6 / 80e9 + 2 / 7.7e9) * 1e6 + 1e9 / 7.7e9 * 1e6,
              1e-6);
}

TEST(Nccl, SaysHowFarItWasChecked) {
  const auto h100 = bound("nccl", catalogue_cluster("dgx-h100"));
  CollectiveCall call{CollectiveKind::kAllReduce, Bytes(1e6), {8, 1}, ElementType::kF16};
  EXPECT_EQ(h100->trust(call).verdict, "validated");
  call.group = {16, 1};
  EXPECT_EQ(h100->trust(call).verdict, "extrapolated");
  EXPECT_EQ(bound("nccl", catalogue_cluster("dgx-b200"))->trust(call).verdict, "extrapolated");
  call.group = {8, 1};
  const TimeInterval own = interval(h100->predict(call).estimate);
  const TimeInterval other =
      interval(bound("nccl", catalogue_cluster("dgx-b200"))->predict(call).estimate);
  EXPECT_GT(other.high / other.low, own.high / own.low);
}

TEST(LinkFit, ReadsBackWhatItWrote) {
  LinkFit fit;
  fit.system = "toy";
  fit.fabric = "nvlink";
  fit.bandwidth = 1e11;
  fit.command = "orrery collective";
  fit.ranks = {2, 8};
  fit.constants["all-reduce ring ll"] = {5, 0.5, 0.25};
  for (auto& curves : fit.corrections) curves.resize(2);
  for (auto& rows : fit.one_byte) rows.resize(2);
  fit.corrections[0][0][3] = 0.1;
  fit.corrections[0][1][3] = 0.3;
  fit.one_byte[0][1][2] = 0.04;
  fit.spreads[1][2] = {0.01, 0.05};
  fit.eager_host_us["other"] = 20;
  fit.held_out = {{"rows", 10}, {"mean", 0.02}};
  const std::string text = to_json(fit);
  const LinkFit read = link_fit_from_json(JsonValue::parse(Source::from_memory("fit.json", text)));
  EXPECT_EQ(to_json(read), text);
  // Octave 3 is 4 KiB; four ranks lie half way from 2 to 8 in the logarithm.
  EXPECT_NEAR(read.correction(MeasuredKind::kAllReduce, 4, 4096), 0.2, 1e-12);
  EXPECT_NEAR(read.correction(MeasuredKind::kAllReduce, 64, 4096), 0.3, 1e-12);
  EXPECT_NEAR(read.correction(MeasuredKind::kAllReduce, 2, 4096 * std::sqrt(2.0)), 0.05, 1e-12);
  EXPECT_NEAR(read.byte_correction(MeasuredKind::kAllReduce, 4, Protocol::kSimple), 0.02, 1e-12);
}

TEST(LinkFit, RefusesWhatIsNoFit) {
  for (const char* text : {"{}", "[]", R"({"system": "x", "surprise": 1})"})
    EXPECT_THROW(link_fit_from_json(JsonValue::parse(Source::from_memory("f.json", text))), Error);
}

}  // namespace
}  // namespace orrery
