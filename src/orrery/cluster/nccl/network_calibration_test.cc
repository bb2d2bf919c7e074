#include "orrery/cluster/nccl/network_calibration.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "orrery/cluster/cluster_for_test.h"

namespace orrery {
namespace {

using testing::HasSubstr;

const std::string kData = ORRERY_SOURCE_DIR "/data";

NetworkFit example() {
  NetworkFit fit;
  fit.system = "b200";
  fit.command = "orrery collective --fit dgx-b200=t.csv";
  fit.tables = {"t.csv"};
  fit.constants = {{"all-gather ring ll", {14, 1, 0.05}}, {"all-reduce tree simple", {2, 2, 0.9}}};
  fit.spread = 0.25;
  fit.held_out = {{"mean", 0.125}, {"rows", 66}};
  return fit;
}

NetworkFit read(const std::string& text) {
  return network_fit_from_json(JsonValue::parse(Source::from_memory("n.json", text)));
}

TEST(NetworkFit, IsReadAsItWasWritten) {
  const NetworkFit fit = read(to_json(example()));
  EXPECT_EQ(fit.system, "b200");
  EXPECT_EQ(fit.tables, example().tables);
  ASSERT_EQ(fit.constants.size(), 2u);
  EXPECT_EQ(fit.constants.at("all-gather ring ll").wait_us, 14);
  EXPECT_EQ(fit.constants.at("all-reduce tree simple").hop, 2);
  EXPECT_EQ(fit.constants.at("all-reduce tree simple").share, 0.9);
  EXPECT_EQ(fit.spread, 0.25);
  EXPECT_EQ(fit.held_out.at("rows"), 66);
}

TEST(NetworkFit, BorrowsFromAnotherKindOfTheSameAlgorithmBeforeNccl) {
  const NetworkFit fit = example();
  const auto of = [&](CollectiveKind kind, const char* algorithm, Protocol protocol) {
    return fit.of(kind, algorithm, protocol, 0.7);
  };
  EXPECT_EQ(of(CollectiveKind::kAllGather, "ring", Protocol::kLL).wait_us, 14);
  EXPECT_EQ(of(CollectiveKind::kReduceScatter, "ring", Protocol::kLL).wait_us, 14);
  const NetworkConstants none = of(CollectiveKind::kAllGather, "ring", Protocol::kSimple);
  EXPECT_EQ(none.wait_us, 0);
  EXPECT_EQ(none.hop, 1);
  EXPECT_EQ(none.share, 0.7);
}

TEST(NetworkFit, SaysWhatOfAFileIsWrong) {
  std::string text = to_json(example());
  text.replace(text.find("[14, 1, 0.05]"), 13, "[14, 0, 0.05]");
  try {
    read(text);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInput);
    EXPECT_THAT(e.what(), HasSubstr("expected a time, a multiple and a share"));
  }
}

TEST(NetworkFit, OfADeviceComesBeforeTheGenericOne) {
  const std::filesystem::path data =
      std::filesystem::path(testing::TempDir()) / "network_fit_of_a_device";
  std::filesystem::remove_all(data);
  std::filesystem::create_directories(data / "collectives");
  const auto write = [&](const std::string& name, const NetworkFit& fit) {
    std::ofstream(data / "collectives" / (name + ".network.json")) << to_json(fit);
  };
  Device device;
  device.name = "gb200";
  EXPECT_TRUE(load_network_fit(device, data.string()).constants.empty());
  NetworkFit generic = example();
  generic.system = "generic";
  generic.constants["all-to-all direct ll"] = {28, 1, 0.3};
  generic.constants["all-gather ring ll"] = {99, 1, 0.1};
  write("generic", generic);
  EXPECT_EQ(load_network_fit(device, data.string()).system, "generic");
  write("b200", example());
  EXPECT_EQ(load_network_fit(device, data.string()).system, "generic");
  device.kernels_like = "b200";
  const NetworkFit own = load_network_fit(device, data.string());
  EXPECT_EQ(own.system, "b200");
  EXPECT_EQ(own.constants.at("all-gather ring ll").wait_us, 14);
  EXPECT_EQ(own.constants.at("all-to-all direct ll").wait_us, 28);
}

/// Rows of all-reduces over two nodes, timed with these constants.
LinkTable made(const NetworkConstants& truth) {
  LinkTable table{catalogue_cluster("dgx-h100"), {}};
  const NcclModel model(table.cluster, load_link_fit(table.cluster, kData, "nccl"), {});
  for (const RankGroup group : {RankGroup{4, 4}, RankGroup{8, 2}, RankGroup{16, 1}})
    for (double bytes = 8; bytes < 2e9; bytes *= 2) {
      MeasuredCollective row;
      row.call = {CollectiveKind::kAllReduce, Bytes(bytes), group, ElementType::kF32};
      row.key = fmt::format("{} {}", group.size, bytes);
      const GroupPlace place = place_group(table.cluster, group);
      row.time = model.physical(model.choose(row.call, place), row.call, place, truth);
      table.rows.push_back(row);
    }
  return table;
}

TEST(NetworkCalibration, FindsTheConstantsThatMadeTheTimes) {
  const LinkTable table = made({20, 2, 0.6});
  const NetworkFit fit = fit_network(std::span(&table, 1), kData);
  EXPECT_EQ(fit.system, "h100-sxm");
  const NetworkConstants ll = fit.constants.at("all-reduce tree ll");
  EXPECT_NEAR(ll.wait_us, 20, 1.5);
  EXPECT_NEAR(ll.hop, 2, 0.3);
  EXPECT_NEAR(fit.constants.at("all-reduce tree ll128").share, 0.6, 0.03);
  EXPECT_LT(fit.held_out.at("median"), 0.03);  // what few rows ran keeps NCCL's constants
}

TEST(NetworkCalibration, RefusesRowsOfOneNode) {
  LinkTable table = made({});
  table.rows[3].call.group = {8, 1};
  table.rows[3].line = 5;
  try {
    fit_network(std::span(&table, 1), kData);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kUsage);
    EXPECT_THAT(e.what(), HasSubstr("line 5: 8 ranks are in one node of dgx-h100"));
  }
}

TEST(NetworkCalibration, ReadsTheStrideOfAGroup) {
  const auto rows = read_collectives(Source::from_memory(
      "t.csv", "kind,bytes,ranks,stride,us\nall-reduce,1024,8,2,24.7\nall-reduce,8,8,1,20\n"));
  EXPECT_EQ(rows[0].call.group, (RankGroup{8, 2}));
  EXPECT_EQ(rows[0].key, "all-reduce f32 8 1024 2");
  EXPECT_EQ(rows[1].key, "all-reduce f32 8 8");
}

}  // namespace
}  // namespace orrery
