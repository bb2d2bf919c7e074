#include "orrery/cluster/astra/simulation.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "orrery/cluster/astra/trace_for_test.h"

namespace orrery::astra {
namespace {

using chakra::Collective;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

uint64_t time_of(Collective kind, uint64_t bytes, const Network& network, const System& system,
                 bool congestion = false) {
  const auto times =
      finish_times(network, system, {TraceMaker().collective(kind, bytes)}, congestion);
  EXPECT_THAT(times, Each(times[0]));
  return times[0];
}

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInput);
    return e.what();
  }
  return "no error";
}

TEST(AstraRing, TakesTheStepsOfEachCollective) {
  // N = 4, a hop of 100 ns, 1 byte a nanosecond.
  const Network network = simple_network(Block::kRing, 4);
  const System system = simple_system(Algorithm::kRing);
  // 2(N-1) messages of S/N; N-1 of S/N; N-1 of S; N(N-1)/2 of S/N.
  EXPECT_EQ(time_of(Collective::kAllReduce, 4000, network, system), 6 * (100 + 1000u));
  EXPECT_EQ(time_of(Collective::kReduceScatter, 4000, network, system), 3 * (100 + 1000u));
  EXPECT_EQ(time_of(Collective::kAllGather, 1000, network, system), 3 * (100 + 1000u));
  EXPECT_EQ(time_of(Collective::kAllToAll, 4000, network, system), 6 * (100 + 1000u));
  // Neighbours on a ring do not disturb each other.
  EXPECT_EQ(time_of(Collective::kAllReduce, 4000, network, system, true), 6 * (100 + 1000u));
}

TEST(AstraRing, PaysTheEndpointAndMemory) {
  System system = simple_system(Algorithm::kRing);
  system.endpoint_delay_ns = 10;
  system.memory_bytes_per_s = 1e9;  // 1 byte a nanosecond
  // The endpoint once before the first message and once behind each of 6; behind each of
  // the first 3 two reads and a write of 1,000 bytes.
  EXPECT_EQ(time_of(Collective::kAllReduce, 4000, simple_network(Block::kRing, 4), system),
            6 * 1100 + 7 * 10 + 3 * 3 * 1000u);
  // A switch is two hops, and with congestion a link holds each message as long again.
  EXPECT_EQ(time_of(Collective::kAllReduce, 4000, simple_network(Block::kSwitch, 4), system),
            6 * 1200 + 7 * 10 + 3 * 3 * 1000u);
  EXPECT_EQ(time_of(Collective::kAllReduce, 4000, simple_network(Block::kSwitch, 4), system, true),
            6 * 2200 + 7 * 10 + 3 * 3 * 1000u);
}

TEST(AstraDirect, SendsToAllAtOnce) {
  const System system = simple_system(Algorithm::kDirect);
  const Network full = simple_network(Block::kFullyConnected, 4);
  EXPECT_EQ(time_of(Collective::kReduceScatter, 4000, full, system), 1100u);
  EXPECT_EQ(time_of(Collective::kAllReduce, 4000, full, system), 2200u);
  EXPECT_EQ(time_of(Collective::kAllToAll, 4000, full, system, true), 1100u);
  // Through a switch, three messages leave one after the other, at 0, 1,000 and 2,000, and
  // arrive at the switch 1,100 later; each rank is sent one at a time: 3,100 + 1,100.
  const Network through = simple_network(Block::kSwitch, 4);
  EXPECT_EQ(time_of(Collective::kReduceScatter, 4000, through, system, true), 4200u);
  // On a ring the one opposite is two hops away.
  EXPECT_EQ(time_of(Collective::kReduceScatter, 4000, simple_network(Block::kRing, 4), system),
            1200u);
  // A window of one is a message at a time, to each in turn: hops 1, 2 and 1.
  System one_by_one = system;
  for (auto& [kind, list] : one_by_one.implementations) list[0].window = 1;
  EXPECT_EQ(time_of(Collective::kReduceScatter, 4000, simple_network(Block::kRing, 4), one_by_one),
            3 * 1100 + 100u);
}

TEST(AstraHalvingDoubling, HalvesMessagesAndDoublesThemAgain) {
  const System system = simple_system(Algorithm::kHalvingDoubling);
  const Network network = simple_network(Block::kFullyConnected, 4);
  // 2,000 and 1,000 bytes out, 1,000 and 2,000 back; an all-gather 1,000 and 2,000.
  EXPECT_EQ(time_of(Collective::kAllReduce, 4000, network, system), 4 * 100 + 6000u);
  EXPECT_EQ(time_of(Collective::kReduceScatter, 4000, network, system), 2 * 100 + 3000u);
  EXPECT_EQ(time_of(Collective::kAllGather, 1000, network, system), 2 * 100 + 3000u);
  EXPECT_THAT(message_of([&] { time_of(Collective::kAllToAll, 4000, network, system); }),
              HasSubstr("halvingDoubling cannot do an all-to-all"));
  EXPECT_THAT(message_of([&] {
                time_of(Collective::kAllReduce, 4000, simple_network(Block::kRing, 6), system);
              }),
              HasSubstr("halvingDoubling needs a power of two of ranks, not 6"));
}

TEST(AstraTree, GoesUpAndDown) {
  // Rank 3 is the root, 1 its child, 0 and 2 the leaves; 1,000 bytes are 1,100 ns a hop:
  // leaves to 1, 1 to 3, back to 1, back to the leaves.
  const System system = simple_system(Algorithm::kDoubleBinaryTree);
  const Network network = simple_network(Block::kFullyConnected, 4);
  const TraceMaker trace = TraceMaker().collective(Collective::kAllReduce, 1000);
  EXPECT_THAT(finish_times(network, system, {trace}), ElementsAre(4400u, 3300u, 4400u, 2200u));
  // The second chunk takes the other tree, with the root at rank 0.
  System two = system;
  two.splits = 2;
  two.active_chunks = 2;
  EXPECT_THAT(finish_times(network, two, {TraceMaker().collective(Collective::kAllReduce, 2000)}),
              ElementsAre(4400u, 4400u, 4400u, 4400u));
}

TEST(AstraTree, PlacesAreThoseOfACompleteTree) {
  for (bool first : {false, true})
    for (int size : {2, 4, 8, 64}) {
      int roots = 0;
      for (int i = 0; i < size; ++i) {
        const TreePlace p = tree_place(size, i, first);
        if (p.parent < 0) {
          ++roots;
          EXPECT_EQ(i, first ? 0 : size - 1);
        } else {
          const TreePlace up = tree_place(size, p.parent, first);
          EXPECT_TRUE(up.left == i || up.right == i) << size << " " << i;
        }
      }
      EXPECT_EQ(roots, 1);
    }
}

TEST(AstraPlan, CutsCollectivesIntoChunks) {
  System system = simple_system(Algorithm::kRing);
  system.splits = 4;
  system.active_chunks = 2;
  const Network network = simple_network(Block::kRing, 4);
  // Chunks of 1,000: two at a time without congestion, so two turns of 3 · (100 + 250).
  EXPECT_EQ(time_of(Collective::kReduceScatter, 4000, network, system), 2 * 3 * 350u);
  // With it the links never rest: of two chunks one is always ready. 4 chunks of 3 messages
  // of 250 bytes, the last of which arrives after 100 ns more.
  EXPECT_EQ(time_of(Collective::kReduceScatter, 4000, network, system, true), 12 * 250 + 100u);
  // A chunk has at least a byte a rank: 4 bytes a chunk here, 1 a message.
  EXPECT_EQ(time_of(Collective::kReduceScatter, 3, network, system), 2 * 3 * 101u);
  EXPECT_THAT(message_of([&] { time_of(Collective::kAllGather, 3, network, system); }),
              HasSubstr("all-gather of 3 bytes: 3 bytes cannot be cut into 4 chunks"));
}

TEST(AstraPlan, GoesThroughDimensions) {
  Network network;
  network.dimensions = {{Block::kFullyConnected, 2, 1.0, 100.0}, {Block::kRing, 4, 0.5, 200.0}};
  System system = simple_system(Algorithm::kRing);
  for (auto& [kind, list] : system.implementations) list.push_back(list[0]);
  // 8,000 bytes: a reduce-scatter of two, then an all-reduce of 4,000 over four, then back.
  EXPECT_EQ(time_of(Collective::kAllReduce, 8000, network, system),
            (100 + 4000) + 6 * (200 + 2 * 1000) + (100 + 4000u));
  // baseline: an all-reduce in each.
  System baseline = system;
  baseline.bandwidth_aware = false;
  EXPECT_EQ(time_of(Collective::kAllReduce, 8000, network, baseline),
            2 * (100 + 4000) + 6 * (200 + 2 * 2000u));
  // An all-gather begins with the last dimension: 1,000 each, then 4,000.
  EXPECT_EQ(time_of(Collective::kAllGather, 1000, network, system),
            3 * (200 + 2 * 1000) + (100 + 4000u));
  // Two dimensions with congestion: nothing else is on the links.
  EXPECT_EQ(time_of(Collective::kAllGather, 1000, network, system, true),
            3 * (200 + 2 * 1000) + (100 + 4000u));
}

TEST(AstraPlan, OneRingIsOverAllRanks) {
  Network network;
  network.dimensions = {{Block::kSwitch, 2, 1.0, 100.0}, {Block::kSwitch, 2, 1.0, 100.0}};
  System system = simple_system(Algorithm::kRing);
  for (auto& [kind, list] : system.implementations) list[0].one = true;
  EXPECT_EQ(time_of(Collective::kAllReduce, 4000, network, system), 6 * (200 + 1000u));
}

TEST(AstraGroups, AreRingsOfTheirOwn) {
  // Two groups of two; their endpoint is 10 ns whatever the system says.
  const Groups groups = {{"1", {0, 2}}, {"2", {3, 1}}};
  System system = simple_system(Algorithm::kDirect);
  system.endpoint_delay_ns = 77;
  std::vector<TraceMaker> traces;
  for (int rank = 0; rank < 4; ++rank)
    traces.push_back(
        TraceMaker().collective(Collective::kAllReduce, 2000, {}, rank % 2 == 0 ? "1" : "2"));
  // Opposite on a ring of four: two hops; two messages and three endpoints.
  EXPECT_THAT(finish_times(simple_network(Block::kRing, 4), system, traces, false, groups),
              Each(2 * (200 + 1000) + 3 * 10u));
  EXPECT_THAT(message_of([&] { finish_times(simple_network(Block::kRing, 4), system, traces); }),
              HasSubstr("communicator group '1' is not in the groups JSON"));
  traces[1] = traces[0];
  EXPECT_THAT(message_of([&] {
                finish_times(simple_network(Block::kRing, 4), system, traces, false, groups);
              }),
              HasSubstr("rank 1 is not in the communicator group it asks for"));
}

TEST(AstraPlayer, OverlapsUnitsAndKeepsOneNodeOnEach) {
  const Network network = simple_network(Block::kFullyConnected, 2);
  const System system = simple_system(Algorithm::kRing);
  // Node 0 and 1 compute one after the other, 3 + 4 us; the all-reduce runs beside them,
  // 2 · 600 ns, and node 3 waits for it and for the unit; the host is on its own.
  const TraceMaker trace = TraceMaker()
                               .comp(3)
                               .comp(4)
                               .collective(Collective::kAllReduce, 1000)
                               .comp(1, {2})
                               .host(2, {3});
  const auto r = [&] {
    const auto t = trace.trace();
    Part part;
    part.trace = t.get();
    return simulate(network, system, {}, {part, part}, {.congestion = false, .record = true});
  }();
  EXPECT_EQ(r.ranks[0].finish_ns, 10'000u);
  EXPECT_EQ(r.ranks[0].compute_ns, 8'000u);
  EXPECT_EQ(r.ranks[0].host_ns, 2'000u);
  ASSERT_EQ(r.ranks[0].intervals.size(), 5u);
  EXPECT_EQ(r.ranks[0].intervals[0].node, 2u);
  EXPECT_EQ(r.ranks[0].intervals[0].end, 1'200u);
  // A node without a duration takes a nanosecond, and one without a meaning none.
  EXPECT_THAT(finish_times(network, system,
                           {TraceMaker()
                                .comp(0)
                                .node(chakra::NodeType::kMetadata, {0})
                                .node(chakra::NodeType::kInvalid, {1})
                                .comp(0, {2})}),
              Each(2u));
}

TEST(AstraPlayer, RunsOneCommunicationAtATime) {
  // Two all-reduces of two chunks each, of which one is active: 2 · (100 + 1,000) a chunk,
  // then 2 · (100 + 100). Newer first or last is all the same: the second waits for its unit.
  const Network network = simple_network(Block::kFullyConnected, 2);
  System system = simple_system(Algorithm::kRing);
  system.splits = 2;
  const TraceMaker trace =
      TraceMaker().collective(Collective::kAllReduce, 4000).collective(Collective::kAllReduce, 400);
  for (Scheduling scheduling : {Scheduling::kLifo, Scheduling::kFifo}) {
    system.scheduling = scheduling;
    EXPECT_THAT(finish_times(network, system, {trace}), Each(2 * (2 * 1100) + 2 * (2 * 200u)));
  }
}

TEST(AstraPlayer, FollowsTheRoofline) {
  System system = simple_system(Algorithm::kRing);
  system.roofline = true;
  system.peak_flops = 1e12;
  system.memory_bytes_per_s = 1e9;
  const Network network = simple_network(Block::kRing, 2);
  // 10^6 operations at 10^12/s: 1,000 ns; on 10^4 bytes, 10^11/s: 10,000 ns; on no bytes it
  // is no work at all.
  EXPECT_THAT(finish_times(network, system, {TraceMaker().work(1'000'000, 1'000)}), Each(1'000u));
  EXPECT_THAT(finish_times(network, system, {TraceMaker().work(1'000'000, 10'000)}), Each(10'000u));
  EXPECT_THAT(finish_times(network, system, {TraceMaker().work(1'000'000, 0)}), Each(0u));
}

TEST(AstraPlayer, PassesMessages) {
  const Network network = simple_network(Block::kRing, 3);
  const System system = simple_system(Algorithm::kRing);
  // 0 computes 1 us and sends; 1 receives, passes on; 2 receives late. A send ends when its
  // message arrives.
  const std::vector<TraceMaker> traces = {
      TraceMaker().comp(1).send(1, 500, {0}),
      TraceMaker().receive(0, 500).send(2, 500, {0}),
      TraceMaker().comp(5).receive(1, 500, {0}),
  };
  EXPECT_THAT(finish_times(network, system, traces), ElementsAre(1600u, 2200u, 5000u));
}

TEST(AstraPlayer, NamesWhatNeverEnds) {
  const Network network = simple_network(Block::kRing, 2);
  const System system = simple_system(Algorithm::kRing);
  EXPECT_THAT(
      message_of([&] {
        finish_times(network, system, {TraceMaker().receive(1, 500), TraceMaker().send(0, 400)});
      }),
      HasSubstr("1 of 2 ranks unfinished: rank 0: node 0 'n0' waits for 500 bytes with "
                "tag 0 from rank 1, which never sends them"));
  EXPECT_THAT(message_of([&] {
                finish_times(
                    network, system,
                    {TraceMaker().collective(Collective::kAllReduce, 800), TraceMaker().comp(1)});
              }),
              HasSubstr("rank 0: node 0 'n0', all-reduce of 800 bytes, waits for ranks"));
}

/// All ranks are one switch away: a message of S bytes takes 2 · 100 ns and S.
Network switched(int ranks) { return simple_network(Block::kSwitch, ranks); }

TEST(AstraOwnSteps, ReduceGoesUpABinomialTree) {
  const System system = simple_system(Algorithm::kRing);
  // 1 → 0 and 3 → 2 at once, then 2 → 0: two messages of 1,200 ns. Leaves are done at once.
  EXPECT_THAT(
      finish_times(switched(4), system, {TraceMaker().collective(Collective::kReduce, 1000)}),
      ElementsAre(2400, 0, 1200, 0));
  // Five ranks: 4 sends to 0 at once.
  EXPECT_THAT(
      finish_times(switched(5), system, {TraceMaker().collective(Collective::kReduce, 1000)}),
      ElementsAre(2400, 0, 1200, 0, 0));
}

TEST(AstraOwnSteps, GatherCarriesWhatIsBelow) {
  // 3 → 2 in 1,200 ns, then 2 → 0 with both parts in 2,200.
  EXPECT_THAT(finish_times(switched(4), simple_system(Algorithm::kRing),
                           {TraceMaker().collective(Collective::kGather, 1000)}),
              ElementsAre(3400, 0, 1200, 0));
}

TEST(AstraOwnSteps, ScatterGoesTheOtherWay) {
  // 0 → 2 with 2,000 of 4,000 bytes, 0 → 1 with 1,000 at the same time where links are not
  // congested, then 2 → 3 with 1,000.
  EXPECT_THAT(finish_times(switched(4), simple_system(Algorithm::kRing),
                           {TraceMaker().collective(Collective::kScatter, 4000)}),
              ElementsAre(0, 1200, 2200, 3400));
  // Else 0's link carries 1's bytes behind those for 2.
  EXPECT_THAT(finish_times(switched(4), simple_system(Algorithm::kRing),
                           {TraceMaker().collective(Collective::kScatter, 4000)}, true),
              ElementsAre(0, 4200, 4200, 6400));
}

TEST(AstraOwnSteps, BarrierTakesLog2Rounds) {
  const System system = simple_system(Algorithm::kRing);
  const TraceMaker barrier = TraceMaker().collective(Collective::kBarrier, 0);
  for (const auto& [ranks, rounds] : {std::pair(2, 1), {4, 2}, {5, 3}, {8, 3}})
    EXPECT_THAT(finish_times(switched(ranks), system, {barrier}), Each(rounds * 201)) << ranks;
  // The last to come, who computes for 10 µs, has heard of all others. Its two bytes let 0 and 3
  // go, and 3's second one 1.
  std::vector<TraceMaker> traces(4, barrier);
  traces[2] = TraceMaker().comp(10).collective(Collective::kBarrier, 0, {0});
  EXPECT_THAT(finish_times(switched(4), system, traces),
              ElementsAre(10'201, 10'402, 10'000, 10'201));
}

TEST(AstraOwnSteps, GroupsHaveTheirOwnRoot) {
  // Ranks 1 and 3, of which 1 is the root; the endpoint of a group takes 10 ns.
  std::vector<TraceMaker> traces(4);
  traces[1] = traces[3] = TraceMaker().collective(Collective::kReduce, 1000, {}, "g");
  EXPECT_THAT(
      finish_times(switched(4), simple_system(Algorithm::kRing), traces, false, {{"g", {1, 3}}}),
      ElementsAre(0, 1220, 0, 10));
}

TEST(AstraOwnSteps, AReduceScatterOfBlocksIsAReduceScatter) {
  const System system = simple_system(Algorithm::kRing);
  EXPECT_EQ(time_of(Collective::kReduceScatterBlock, 4000, switched(4), system),
            time_of(Collective::kReduceScatter, 4000, switched(4), system));
}

TEST(AstraOwnSteps, RanksThatDoNotDoTheSameAreNotFolded) {
  const System system = simple_system(Algorithm::kRing);
  const Network network = switched(4);
  const auto folds = [&](Collective kind) {
    return foldable(network, system, {}, *TraceMaker().collective(kind, 4000).trace(), false);
  };
  EXPECT_TRUE(folds(Collective::kAllReduce));
  EXPECT_TRUE(folds(Collective::kReduceScatterBlock));
  for (const Collective kind :
       {Collective::kReduce, Collective::kGather, Collective::kScatter, Collective::kBarrier})
    EXPECT_FALSE(folds(kind));
}

TEST(AstraPlayer, RefusesWhatIsNotModelled) {
  const Network network = simple_network(Block::kRing, 2);
  const System system = simple_system(Algorithm::kRing);
  const auto refusal = [&](const TraceMaker& trace) {
    return message_of([&] { finish_times(network, system, {trace}); });
  };
  EXPECT_THAT(refusal(TraceMaker().node(chakra::NodeType::kMemLoad)),
              HasSubstr("a MEM_LOAD_NODE goes to a remote memory"));
  EXPECT_THAT(refusal(TraceMaker().send(2, 8)), HasSubstr("its peer is rank 2, not another of"));
  EXPECT_THAT(refusal(TraceMaker().node(chakra::NodeType::kCommColl)),
              HasSubstr("a collective without comm_type"));
}

// Under a sanitizer every rank of 512 would take minutes.
#if defined(__SANITIZE_ADDRESS__)
#define ORRERY_SLOW_TEST 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ORRERY_SLOW_TEST 1
#endif
#endif
#ifdef ORRERY_SLOW_TEST
constexpr int kTrials = 40, kManyRanks = 48;
#else
constexpr int kTrials = 300, kManyRanks = 512;
#endif

/// Every rank simulated and one for all give the same, on networks of up to 512 ranks.
TEST(AstraFolding, TellsOfAllRanks) {
  std::mt19937 random(7);
  const auto pick = [&](auto... choices) {
    const std::common_type_t<decltype(choices)...> list[] = {choices...};
    return list[random() % sizeof...(choices)];
  };
  int folded = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    Network network;
    const int dimensions = trial < 2 ? 1 : pick(1, 1, 1, 2, 3);
    for (int d = 0; d < dimensions; ++d)
      network.dimensions.push_back({pick(Block::kRing, Block::kFullyConnected, Block::kSwitch),
                                    dimensions == 1 ? pick(2, 3, 4, 7, 8, 16) : pick(2, 3, 4),
                                    pick(0.3, 1.0, 429.5), pick(0.0, 100.0, 936.25)});
    if (trial == 0) network.dimensions = {{Block::kSwitch, kManyRanks, 429.5, 936.25}};
    if (trial == 1) network.dimensions = {{Block::kRing, kManyRanks, 1.0, 100.0}};
    System system = simple_system(Algorithm::kRing);
    system.splits = pick(1u, 2u, 4u, 5u);
    system.active_chunks = pick(1, 2, 4);
    system.endpoint_delay_ns = pick(0u, 10u, 100u);
    system.memory_bytes_per_s = pick(1e9, 3350e9);
    system.scheduling = pick(Scheduling::kLifo, Scheduling::kFifo);
    system.bandwidth_aware = pick(true, false);
    for (auto& [kind, list] : system.implementations) {
      list.clear();
      for (int d = 0; d < dimensions; ++d) {
        Implementation i;
        i.algorithm = trial < 2
                          ? Algorithm::kRing
                          : pick(Algorithm::kRing, Algorithm::kDirect, Algorithm::kHalvingDoubling);
        if (i.algorithm == Algorithm::kHalvingDoubling &&
            (network.dimensions[static_cast<size_t>(d)].ranks % 3 == 0 ||
             network.dimensions[static_cast<size_t>(d)].ranks % 7 == 0 ||
             kind == Collective::kAllToAll))
          i.algorithm = Algorithm::kRing;
        if (i.algorithm == Algorithm::kDirect) i.window = pick(-1, 1, 2, 3);
        list.push_back(i);
      }
    }
    TraceMaker trace;
    const auto kind = [&] {
      return pick(Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
                  Collective::kAllToAll);
    };
    trace.comp(pick(1u, 2u))
        .collective(kind(), pick(4000u, 100'000u, 1'048'576u), {0})
        .comp(pick(1u, 7u), {0})
        .collective(kind(), pick(4000u, 30'001u), {2});
    const bool congestion = pick(true, false);
    const auto whole = trace.trace();
    if (!foldable(network, system, {}, *whole, congestion)) continue;
    ++folded;
    const auto all = finish_times(network, system, {trace}, congestion);
    const auto one = finish_times(network, system, {trace}, congestion, {}, true);
    ASSERT_EQ(one.size(), 1u);
    EXPECT_THAT(all, Each(one[0])) << "trial " << trial << " ranks " << network.ranks();
  }
  EXPECT_GT(folded, kTrials * 2 / 3);
}

}  // namespace
}  // namespace orrery::astra
