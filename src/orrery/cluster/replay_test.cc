#include "orrery/cluster/replay.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "orrery/base/error.h"
#include "orrery/cluster/astra/trace_for_test.h"
#include "orrery/cluster/replay_traces.h"

namespace orrery {
namespace {

using astra::TraceMaker;
using chakra::Collective;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ReplayTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              fmt::format("orrery_replay_{}",
                          ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    // 1 byte a nanosecond; 100 ns a hop.
    request_.network = write("n.yml",
                             "topology: [Ring]\nnpus_count: [4]\n"
                             "bandwidth: [0.931322574615478515625]\nlatency: [100]\n");
    request_.system = write("s.json", R"({"preferred-dataset-splits": 1, "endpoint-delay": 0,
      "local-mem-bw": 1000000000, "all-reduce-implementation": ["ring"]})");
    request_.prefix = path("t");
    request_.congestion = false;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return path(name);
  }
  void write_traces(const std::vector<TraceMaker>& traces) const {
    for (size_t i = 0; i < traces.size(); ++i) write(fmt::format("t.{}.et", i), traces[i].bytes());
  }
  std::string refusal(ErrorKind kind) const {
    try {
      replay(request_);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), kind) << e.what();
      return e.what();
    }
    return "no error";
  }

  std::filesystem::path folder_;
  ReplayRequest request_;
};

/// To the next rank and from the one before, round a ring of `ranks`.
TraceMaker shift(int rank, int ranks) {
  return TraceMaker().send((rank + 1) % ranks, 400).receive((rank + ranks - 1) % ranks, 400);
}

TEST_F(ReplayTest, AnswersByRank) {
  write_traces(std::vector(4, TraceMaker().comp(3).collective(Collective::kAllReduce, 4000)));
  const ReplayAnswer answer = replay(request_);
  EXPECT_EQ(answer.total_ns, 6600u);  // 6 · (100 + 1000), beside 3,000 of computation
  EXPECT_TRUE(answer.folded);
  EXPECT_EQ(answer.nodes, 8u);
  ASSERT_EQ(answer.ranks.size(), 4u);
  EXPECT_EQ(answer.ranks[3].compute_ns, 3000u);
  EXPECT_EQ(answer.ranks[3].exposed_communication_ns(), 3600u);
  EXPECT_THAT(answer.notes, ElementsAre());
}

TEST_F(ReplayTest, SimulatesEveryRankWhereTheyDiffer) {
  std::vector<TraceMaker> traces(
      4, TraceMaker().comp(3).collective(Collective::kAllReduce, 4000, {0}));
  traces[2] = TraceMaker().comp(5).collective(Collective::kAllReduce, 4000, {0});
  write_traces(traces);
  const ReplayAnswer answer = replay(request_);
  EXPECT_FALSE(answer.folded);
  EXPECT_GT(answer.total_ns, 5000u + 6600u - 2 * 1100u);
}

TEST_F(ReplayTest, PlaysMoreRanksThanWereTraced) {
  write_traces(std::vector(2, TraceMaker().collective(Collective::kAllReduce, 8000)));
  EXPECT_THAT(refusal(ErrorKind::kInput), HasSubstr("t.2.et: no such file: rank 2 of 4"));
  request_.ranks = 4;
  EXPECT_EQ(replay(request_).total_ns, 6 * 2100u);
  request_.ranks = 8;
  const ReplayAnswer answer = replay(request_);
  EXPECT_EQ(answer.total_ns, 14 * 1100u);
  EXPECT_EQ(answer.traced_ranks, 2);
  EXPECT_THAT(answer.notes, ElementsAre(HasSubstr("last dimension has 8 ranks instead of 4"),
                                        HasSubstr("2 ranks were traced")));
}

TEST_F(ReplayTest, KeepsPeersAsFarAwayAsTheyWere) {
  std::vector<TraceMaker> traces;
  for (int rank = 0; rank < 4; ++rank) traces.push_back(shift(rank, 4));
  write_traces(traces);
  const ReplayAnswer four = replay(request_);
  EXPECT_EQ(four.total_ns, 500u);
  request_.ranks = 16;
  request_.write = path("grown");
  EXPECT_EQ(replay(request_).total_ns, 500u);
  // What was written plays as it is: rank 15 sends to rank 0.
  request_.write.clear();
  request_.ranks = 0;
  request_.prefix = path("grown");
  request_.network = write("n16.yml",
                           "topology: [Ring]\nnpus_count: [16]\n"
                           "bandwidth: [0.931322574615478515625]\nlatency: [100]\n");
  const ReplayAnswer sixteen = replay(request_);
  EXPECT_EQ(sixteen.total_ns, 500u);
  EXPECT_EQ(sixteen.traced_ranks, 16);
  const chakra::Trace last(Source::from_file(path("grown.15.et")));
  EXPECT_EQ(last.nodes()[0].destination, 0);
  EXPECT_EQ(last.nodes()[1].source, 14);
}

TEST_F(ReplayTest, RefusesToGrowWhatIsNotAlike) {
  // The same file for all names the same peer, which is not as far from each.
  write_traces(std::vector(4, shift(0, 4)));
  request_.ranks = 8;
  EXPECT_THAT(refusal(ErrorKind::kInput),
              HasSubstr("from node 0 'n0' on this rank does not do as rank 0 does"));
  write_traces({shift(0, 4), shift(1, 4), shift(2, 4), shift(3, 4).comp(1)});
  EXPECT_THAT(refusal(ErrorKind::kInput), HasSubstr("from node 2 'n2' on this rank"));
}

TEST_F(ReplayTest, WritesTracesByteForByte) {
  write_traces({shift(0, 4), shift(1, 4), shift(2, 4), shift(3, 4)});
  request_.write = path("again");
  replay(request_);
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(Source::from_file(path(fmt::format("again.{}.et", rank))).text(),
              shift(rank, 4).bytes());
}

TEST_F(ReplayTest, RunsCustomCollectives) {
  // An all-reduce of two that a trace describes: send, receive, and 2 us of reduction.
  for (int rank = 0; rank < 2; ++rank)
    write(fmt::format("custom.{}.et", rank),
          TraceMaker().send(1 - rank, 700).receive(1 - rank, 700).comp(2, {1}).bytes());
  write_traces(std::vector(2, TraceMaker().collective(Collective::kAllReduce, 8000)));
  request_.network = write("n2.yml",
                           "topology: [Ring]\nnpus_count: [2]\n"
                           "bandwidth: [0.931322574615478515625]\nlatency: [100]\n");
  // Found beside the JSON although the path is that of another machine.
  request_.system = write("c.json", R"({"preferred-dataset-splits": 1,
      "all-reduce-implementation-custom": ["examples/of/others/custom"]})");
  const ReplayAnswer answer = replay(request_);
  EXPECT_EQ(answer.total_ns, 800u + 2000u);
  EXPECT_FALSE(answer.folded);
}

TEST_F(ReplayTest, TakesProcessGroupsFromMetadata) {
  chakra::Node metadata;
  metadata.id = 7;
  metadata.name = "## process_group:init ##";
  metadata.type = chakra::NodeType::kMetadata;
  metadata.has_inputs = true;
  metadata.inputs.values =
      R"(['[{"pg_name": "0", "ranks": []}, {"pg_name": "3", "ranks": [0, 2]}, )"
      R"({"pg_name": "4", "ranks": [1, 3]}]'])";
  for (int rank = 0; rank < 4; ++rank)
    write(fmt::format("t.{}.et", rank),
          TraceMaker()
                  .collective(Collective::kAllReduce, 2000, {}, rank % 2 == 0 ? "3" : "4")
                  .bytes() +
              encoded(metadata));
  // Two messages over two hops and the 10 ns of a group's endpoint three times.
  EXPECT_EQ(replay(request_).total_ns, 2 * (200 + 1000) + 3 * 10u);
  metadata.inputs.values = R"(['[{"pg_name": "3", "ranks": [0, 1]}]'])";
  write("t.3.et", TraceMaker().bytes() + encoded(metadata));
  EXPECT_THAT(refusal(ErrorKind::kInput),
              HasSubstr("t.3.et: byte 8: node 7 '## process_group:init ##': process group '3' has "
                        "other ranks elsewhere"));
}

TEST_F(ReplayTest, RefusesWhatWouldTakeForEver) {
  write_traces(std::vector(4, TraceMaker().collective(Collective::kAllReduce, 1 << 30)));
  request_.ranks = 1 << 18;
  EXPECT_EQ(replay(request_).ranks.size(), 1u << 18);
  request_.exact = true;
  EXPECT_THAT(refusal(ErrorKind::kInfeasible), HasSubstr("more than 5000000000 messages"));
}

TEST_F(ReplayTest, TellsWhenNodesRan) {
  write_traces(std::vector(4, TraceMaker().comp(3).collective(Collective::kAllReduce, 4000, {0})));
  request_.timeline = true;
  const ReplayAnswer answer = replay(request_);
  ASSERT_EQ(answer.timeline.size(), 2u);
  EXPECT_EQ(answer.timeline[1].kind, "all-reduce");
  EXPECT_EQ(answer.timeline[1].start_ns, 3000u);
  EXPECT_EQ(answer.timeline[1].end_ns, 9600u);
  request_.exact = true;
  EXPECT_EQ(replay(request_).timeline.size(), 8u);
}

TEST_F(ReplayTest, NamesWhatIsWrongInTheInputs) {
  write_traces(std::vector(4, TraceMaker().collective(Collective::kAllReduce, 4000)));
  const std::string network = request_.network;
  const std::string system = request_.system;
  const auto with_network = [&](const char* yaml) {
    request_.network = write("bad.yml", yaml);
    request_.system = system;
    return refusal(ErrorKind::kInput);
  };
  EXPECT_THAT(with_network("topology: [Mesh]\nnpus_count: [4]\nbandwidth: [1]\nlatency: [1]\n"),
              HasSubstr("bad.yml:1:12: topology: 'Mesh' is none of"));
  EXPECT_THAT(with_network("topology: [Ring]\nnpus_count: [4, 2]\nbandwidth: [1]\nlatency: [1]\n"),
              HasSubstr("bad.yml:2:13: npus_count: 2 elements, but topology has 1"));
  EXPECT_THAT(with_network("topology: [Ring]\nnpus_count: [1]\nbandwidth: [1]\nlatency: [1]\n"),
              HasSubstr("npus_count: '1' is not a number of at least 2"));
  EXPECT_THAT(with_network("topology: [Ring]\nnpus_count: [4]\nbandwidth: [1]\n"),
              HasSubstr("'latency' is missing"));
  EXPECT_THAT(with_network("topology: [Ring]\nnpus_count: [4]\nbandwidth: [1]\nlatency: [1]\nx: 1"),
              HasSubstr("bad.yml:5:1: 'x' is not a key"));
  const auto with_system = [&](const char* json) {
    request_.network = network;
    request_.system = write("bad.json", json);
    return refusal(ErrorKind::kInput);
  };
  EXPECT_THAT(with_system(R"({"all-reduce-implementation": ["rings"]})"),
              HasSubstr("all-reduce-implementation[0]: 'rings' is none of"));
  EXPECT_THAT(with_system(R"({"model-shared-bus": 1})"), HasSubstr("is not modelled"));
  EXPECT_THAT(with_system(R"({"preferred-dataset-splits": 1})"),
              HasSubstr("the system JSON has no all-reduce-implementation"));
  EXPECT_THAT(with_system(R"({"all-reduce-implementation": ["ring"]})"),
              HasSubstr("must say preferred-dataset-splits"));
  EXPECT_THAT(
      with_system(R"({"all-reduce-implementation": ["ring"], "preferred-dataset-splits": 1})"),
      HasSubstr("must say local-mem-bw"));
  EXPECT_THAT(with_system(R"({"roofline-enabled": 1})"), HasSubstr("needs peak-perf"));
  request_.system = system;
  request_.groups = write("g.json", R"({"1": [0, 7]})");
  EXPECT_THAT(refusal(ErrorKind::kInput), HasSubstr("g.json"));
  request_.groups = write("g.json", R"({"1": [1, 1]})");
  EXPECT_THAT(refusal(ErrorKind::kInput), HasSubstr("rank 1 twice in one group"));
}

}  // namespace
}  // namespace orrery
