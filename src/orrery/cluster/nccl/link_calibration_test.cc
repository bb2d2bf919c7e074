#include "orrery/cluster/nccl/link_calibration.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "orrery/base/csv.h"
#include "orrery/base/shared_data_for_test.h"
#include "orrery/cluster/cluster_for_test.h"
#include "orrery/cluster/vllm/custom_all_reduce.h"
#include "orrery/learn/statistics.h"

namespace orrery {
namespace {

TEST(MeasuredCollectives, CountElementsOfTheirType) {
  const auto rows = read_collectives(Source::from_memory(
      "nccl.csv",
      "version,op_name,kernel_source,nccl_dtype,num_gpus,message_size,latency\n"
      "2.27.3,all_gather,NCCL,half,2,256,0.00898\n2.27.3,alltoall,NCCL,int8,8,512,0.5\n"));
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0].call.kind, CollectiveKind::kAllGather);
  EXPECT_EQ(rows[0].call.bytes.value, 512);
  EXPECT_EQ(rows[0].call.group.size, 2);
  EXPECT_DOUBLE_EQ(rows[0].time.value, 8.98e-6);
  EXPECT_EQ(rows[1].call.bytes.value, 512);
  EXPECT_EQ(rows[1].key, "all-to-all i8 8 512");
}

TEST(MeasuredCollectives, SayWhereATableIsWrong) {
  const auto where = [](const char* text) {
    try {
      read_collectives(Source::from_memory("t.csv", text));
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("read");
  };
  EXPECT_EQ(where("kind,bytes,ranks,us\nall-reduce,8,2,x\n").substr(0, 11), "t.csv:2:16:");
  EXPECT_EQ(where("kind,bytes,ranks,us\nall-red,8,2,1\n").substr(0, 10), "t.csv:2:1:");
  EXPECT_EQ(where("kind,bytes,ranks,us\nall-reduce,8,2.5,1\n").substr(0, 11), "t.csv:2:14:");
  EXPECT_NE(where("kind,bytes,us\n").find("ranks"), std::string::npos);
}

/// Times made from round constants come back.
TEST(LinkCalibration, FindsTheConstantsThatMadeTheTimes) {
  LinkTable table{catalogue_cluster("dgx-a100"), {}};
  LinkFit truth;
  truth.constants["all-gather ring ll"] = {4, 0.7, 0.3};
  truth.constants["all-gather ring ll128"] = {7, 1.5, 0.6};
  truth.constants["all-gather ring simple"] = {20, 3, 0.75};
  const NcclModel model(table.cluster, truth, {});
  for (const int ranks : {2, 4, 8})
    for (double bytes = 512; bytes < 6e8; bytes *= 2) {
      MeasuredCollective row;
      row.call = {CollectiveKind::kAllGather, Bytes(bytes), {ranks, 1}, ElementType::kF16};
      row.key = fmt::format("{} {}", ranks, bytes);
      const GroupPlace place = place_group(table.cluster, row.call.group);
      row.time = model.time(model.choose(row.call, place), row.call, place);
      table.rows.push_back(row);
    }
  const LinkFit fit = fit_links(std::span(&table, 1));
  const LinkConstants ll = fit.constants.at("all-gather ring ll");
  EXPECT_NEAR(ll.launch_us, 4, 0.1);
  EXPECT_NEAR(ll.hop_us, 0.7, 0.02);
  EXPECT_NEAR(ll.share, 0.3, 0.01);
  EXPECT_NEAR(fit.constants.at("all-gather ring simple").share, 0.75, 0.01);
  for (const auto& [name, value] : fit.held_out)
    if (name == "p90") {
      EXPECT_LT(value, 0.02);
    }
}

struct Errors {
  std::vector<double> all;
  double inside = 0;
  double mean() const {
    double sum = 0;
    for (const double e : all) sum += e;
    return sum / static_cast<double>(all.size());
  }
  void add(const CollectivePredictor& predictor, const MeasuredCollective& row) {
    const TimeInterval t = interval(predictor.predict(row.call).estimate);
    all.push_back(std::abs(t.value / row.time - 1));
    inside += t.low <= row.time && row.time <= t.high;
  }
  void add(const Errors& more) {
    all.insert(all.end(), more.all.begin(), more.all.end());
    inside += more.inside;
  }
};

Errors held_out(const std::string& library, const std::string& cluster, const std::string& table,
                bool eager = false) {
  const auto predictor = bound(library, catalogue_cluster(cluster));
  Errors errors;
  for (const MeasuredCollective& row : read_collectives(Source::from_file(table)))
    if (is_held_out(row) && row.eager == eager) errors.add(*predictor, row);
  return errors;
}

constexpr std::array<std::pair<const char*, const char*>, 4> kSystems = {{{"dgx-a100", "a100_sxm"},
                                                                          {"dgx-h100", "h100_sxm"},
                                                                          {"dgx-h200", "h200_sxm"},
                                                                          {"l40s-node", "l40s"}}};

TEST(CollectiveAccuracy, NcclTablesThatWereHeldOut) {
  Errors pooled;
  for (const auto& [cluster, table] : kSystems) {
    ORRERY_SHARED_DATA_OR_SKIP(path, std::string("comm/nccl_") + table + ".csv");
    const Errors errors = held_out("nccl", cluster, path);
    EXPECT_GE(errors.all.size(), 150) << table;
    EXPECT_LE(errors.mean(), std::string(table) == "l40s" ? 0.075 : 0.055) << table;
    EXPECT_LE(median(errors.all), 0.035) << table;
    pooled.add(errors);
  }
  EXPECT_LE(pooled.mean(), 0.06);
  EXPECT_LE(quantile(pooled.all, 0.9), 0.15);
  const double coverage = pooled.inside / static_cast<double>(pooled.all.size());
  EXPECT_GE(coverage, 0.88);
}

TEST(CollectiveAccuracy, CustomAllReduceThatWasHeldOut) {
  Errors pooled;
  for (const auto& [cluster, table] : kSystems) {
    ORRERY_SHARED_DATA_OR_SKIP(path, std::string("comm/custom_allreduce_vllm_") + table + ".csv");
    const Errors graph = held_out("vllm-custom", cluster, path);
    EXPECT_LE(graph.mean(), 0.08) << table;
    pooled.add(graph);
    const Errors eager = held_out("vllm-eager", cluster, path, true);
    // The host of the L40S slowed from 40 to 90 µs while it was measured.
    EXPECT_LE(eager.mean(), std::string(table) == "l40s" ? 0.25 : 0.1) << table;
  }
  EXPECT_LE(pooled.mean(), 0.05);
}

/// Rows of an nccl-tests log with size_B and time_us; a first line is a comment.
Errors log_errors(const std::string& path, const CollectivePredictor& predictor, RankGroup group) {
  std::string text(Source::from_file(path).text());
  text.erase(0, text.find('\n') + 1);
  CsvReader reader(Source::from_memory(path, text));
  const size_t size = reader.required_column("size_B");
  const size_t time = reader.required_column("time_us");
  Errors errors;
  while (reader.next()) {
    MeasuredCollective row;
    row.call = {CollectiveKind::kAllReduce, Bytes(std::stod(std::string(reader.field(size)))),
                group, ElementType::kF32};
    row.time = Seconds(std::stod(std::string(reader.field(time))) * 1e-6);
    errors.add(predictor, row);
  }
  return errors;
}

TEST(CollectiveAccuracy, NcclTestsOfADgxH100) {
  ORRERY_SHARED_DATA_OR_SKIP(path, "comm/nccltests_DGX_H100_8gpu_allreduce.csv");
  const auto predictor = bound("nccl", catalogue_cluster("dgx-h100"));
  const Errors errors = log_errors(path, *predictor, {8, 1});
  EXPECT_EQ(errors.all.size(), 32);
  EXPECT_LE(median(errors.all), 0.08);
}

/// No constant was fitted to it; it is slower than the logs that were.
TEST(CollectiveAccuracy, TwoNodesOfFourH100) {
  ORRERY_SHARED_DATA_OR_SKIP(path, "comm/nccltests_H100_2node_4gpu_each_allreduce.csv");
  const auto predictor = bound("nccl", catalogue_cluster("h100-quad-node"));
  const Errors errors = log_errors(path, *predictor, {8, 1});
  ASSERT_EQ(errors.all.size(), 13);
  EXPECT_LE(errors.mean(), 0.36);
}

/// Logs of other hosts than those that were fitted, of other GPUs; before any was, errors were 53
/// and 40 %.
TEST(CollectiveAccuracy, HostsThatWereNotFitted) {
  const auto errors_of = [](const char* cluster, const char* log) {
    const auto predictor = bound("nccl", catalogue_cluster(cluster));
    Errors errors;
    for (const MeasuredCollective& row : read_collectives(
             Source::from_file(std::string(ORRERY_SOURCE_DIR "/data/collectives/logs/") + log)))
      errors.add(*predictor, row);
    return errors;
  };
  EXPECT_LE(errors_of("dgx-h200", "h200_one_gpu_a_node.csv").mean(), 0.3);
  EXPECT_LE(errors_of("dgx-a100", "a100_two_nodes.csv").mean(), 0.2);
}

/// Of what was fitted, the third that was held out.
TEST(CollectiveAccuracy, LogsOfTwoNodes) {
  const std::string logs = ORRERY_SOURCE_DIR "/data/collectives/logs/";
  EXPECT_LE(held_out("nccl", "dgx-h100", logs + "h100_two_nodes.csv").mean(), 0.22);
  EXPECT_LE(held_out("nccl", "dgx-b200", logs + "b200_two_nodes.csv").mean(), 0.1);
  EXPECT_LE(held_out("nccl", "dgx-b200", logs + "b200_one_node.csv").mean(), 0.1);
  EXPECT_LE(
      held_out("nccl", "rtx-pro-6000-server-node", logs + "rtx_pro_6000_behind_root.csv").mean(),
      0.03);
}

// Of its own where there are some, then of what is most alike: of links of the same kind.
TEST(LinkFit, IsThatOfTheClosestSystemMeasured) {
  const std::string data = ORRERY_SOURCE_DIR "/data";
  for (const auto& [cluster, system, fabric] :
       {std::array<const char*, 3>{"l40s-node", "l40s", "pcie"},
        {"rtx-pro-6000-server-node", "rtx-pro-6000-server", "pcie"},
        {"rtx-pro-6000-node", "rtx-pro-6000-server", "pcie"},
        {"dgx-b300", "b200", "nvlink"},
        {"dgx-a100-40gb", "a100-sxm-80gb", "nvlink"}}) {
    const LinkFit fit = load_link_fit(catalogue_cluster(cluster), data, "nccl");
    EXPECT_EQ(fit.system, system) << cluster;
    EXPECT_EQ(fit.fabric, fabric) << cluster;
  }
}

}  // namespace
}  // namespace orrery
