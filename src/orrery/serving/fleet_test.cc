#include "orrery/serving/fleet.h"

#include "orrery/serving/router.h"
#include "orrery/serving/serving_for_test.h"
#include "orrery/serving/traffic/users.h"

namespace orrery {
namespace {

FleetOptions two_replicas(const StepTimes& times, const std::string& router) {
  FleetOptions options = one_replica(times, 100, 4, "vllm-v1");
  options.pool.replicas.push_back(options.pool.replicas[0]);
  options.pool.router = router;
  return options;
}

std::vector<int> replicas_of(const ServingRun& run) {
  std::vector<int> replicas;
  for (const RequestRecord& r : run.requests) replicas.push_back(r.replica);
  return replicas;
}

TEST(Fleet, SendsRequestsWhereTheRouterSays) {
  const LinearTimes times;
  const std::vector<Request> requests{request(0, 4, 9), request(1, 40, 2), request(5, 4, 1),
                                      request(6, 4, 1)};
  EXPECT_EQ(replicas_of(run(requests, two_replicas(times, "round-robin"))),
            (std::vector<int>{0, 1, 0, 1}));
  // The second replica is idle again at 3 s.
  EXPECT_EQ(replicas_of(run(requests, two_replicas(times, "least-outstanding"))),
            (std::vector<int>{0, 1, 1, 1}));
  EXPECT_EQ(replicas_of(run(requests, two_replicas(times, "kv-aware"))),
            (std::vector<int>{0, 1, 1, 1}));
  EXPECT_THROW(run(requests, two_replicas(times, "nearest")), Error);
}

TEST(Fleet, SendsAConversationWhereItIsCached) {
  const LinearTimes times;
  std::vector<Request> requests{request(0, 8, 4), request(0, 8, 4), request(20, 20, 4),
                                request(21, 20, 4)};
  requests[0].conversation = requests[3].conversation = 1;
  requests[1].conversation = requests[2].conversation = 2;
  const ServingRun r = run(requests, two_replicas(times, "prefix-aware"));
  EXPECT_EQ(replicas_of(r), (std::vector<int>{0, 1, 1, 0}));
  // 8 + 4 − 1 tokens were computed: two full blocks of four.
  EXPECT_EQ(r.requests[2].cached, 8);
  EXPECT_EQ(r.requests[3].cached, 8);
  EXPECT_DOUBLE_EQ(r.metrics.cached_share, 16.0 / 56);
}

TEST(Fleet, TakesReplicasOfDifferentKinds) {
  const LinearTimes fast;
  LinearTimes slow;
  slow.base = 3;
  FleetOptions options = two_replicas(fast, "round-robin");
  options.pool.replicas[1].times = &slow;
  options.pool.replicas[1].room.blocks = 2;
  // The third would be the slow one's turn, but has no room there.
  const ServingRun r = run({request(0, 4, 2), request(0, 4, 2), request(10, 9, 2)}, options);
  EXPECT_EQ(times_of(r), (Times{{1, 2}, {3, 6}, {11, 12}}));
}

TEST(Fleet, TheSlowerReplicaGetsFewerRequestsWhereOutstandingOnesCount) {
  const LinearTimes fast;
  LinearTimes slow;
  slow.base = 2;
  FleetOptions options = two_replicas(fast, "least-outstanding");
  options.pool.replicas[1].times = &slow;
  std::vector<Request> requests;
  for (int i = 0; i < 8; ++i) requests.push_back(request(0.5 * i, 4, 1));
  // At 0.5 and 2.5 s the slow one alone has nothing to do; a tie goes to the first.
  const ServingRun r = run(requests, options);
  EXPECT_EQ(replicas_of(r), (std::vector<int>{0, 1, 0, 0, 0, 1, 0, 0}));
  ASSERT_EQ(r.replicas.size(), 2U);
  EXPECT_EQ(r.replicas[0].requests, 6);
  EXPECT_EQ(r.replicas[1].requests, 2);
  EXPECT_EQ(r.replicas[0].prompt_tokens, 24);
  EXPECT_EQ(r.replicas[0].output_tokens, 6);
  EXPECT_DOUBLE_EQ(r.replicas[0].busy.value, 5);
  EXPECT_DOUBLE_EQ(r.replicas[1].busy.value, 4);
}

TEST(Fleet, ShipsKeysAndValuesFromPrefillToDecode) {
  const LinearTimes times;
  FleetOptions options = one_replica(times, 100, 4, "vllm-v1");
  options.pool.replicas[0].transfer = {Bytes(1), BytesPerSecond(8), Seconds(0.5)};
  options.decode_pool = options.pool;
  // 1 s for the prompt, 0.5 + 8/8 s under way, when the first token is handed out, two tokens more.
  // One token needs no decode engine.
  const ServingRun r = run({request(0, 8, 3), request(10, 8, 1)}, options);
  EXPECT_EQ(times_of(r), (Times{{2.5, 4.5}, {11, 11}}));
  EXPECT_DOUBLE_EQ(r.metrics.itl_mean.value, 1);
  EXPECT_EQ(r.kv_blocks, 200);
  EXPECT_EQ(r.kv_peak_blocks, 2 + 3);
  EXPECT_EQ(r.replicas[0].prompt_tokens, 16);
  EXPECT_EQ(r.replicas[0].output_tokens, 2);
  EXPECT_EQ(r.replicas[1].requests, 1);
  EXPECT_EQ(r.replicas[1].output_tokens, 2);
  options.pool.replicas[0].transfer.bandwidth = BytesPerSecond(0);
  EXPECT_THROW(run({request(0, 8, 3)}, options), Error);
}

TEST(Fleet, HoldsThePromptsBlocksWhileTheyAreShipped) {
  const LinearTimes times;
  FleetOptions options = one_replica(times, 2, 4, "vllm-v1");
  options.pool.replicas[0].transfer = {Bytes(1), BytesPerSecond(1), Seconds(0)};
  options.decode_pool = options.pool;
  options.decode_pool.replicas[0].room.blocks = 100;
  // 8 tokens take 8 s to leave, and both blocks with them.
  const ServingRun r = run({request(0, 8, 2), request(0, 8, 2)}, options);
  EXPECT_EQ(times_of(r), (Times{{9, 10}, {18, 19}}));
}

TEST(Fleet, KeysAndValuesWaitForTheLinksOfBothEngines) {
  const LinearTimes times;
  FleetOptions options = one_replica(times, 100, 4, "vllm-v1");
  options.pool.replicas[0].transfer = {Bytes(1), BytesPerSecond(1), Seconds(0)};
  options.decode_pool = options.pool;
  // Prompts are computed together until 1 s; 8 s of one leave after 8 s of the other.
  const std::vector<Request> two = {request(0, 8, 2), request(0, 8, 2)};
  EXPECT_EQ(times_of(run(two, options)), (Times{{9, 10}, {17, 18}}));
  // From two engines at the same time, but into one.
  options.pool.replicas.push_back(options.pool.replicas[0]);
  EXPECT_EQ(times_of(run(two, options)), (Times{{9, 10}, {17, 18}}));
  options.decode_pool.replicas[0].transfer.bandwidth = BytesPerSecond(2);
  EXPECT_EQ(times_of(run(two, options)), (Times{{9, 10}, {9, 10}}));
  options.decode_pool.replicas[0].transfer.bandwidth = BytesPerSecond(1);
  options.decode_pool.replicas.push_back(options.decode_pool.replicas[0]);
  EXPECT_EQ(times_of(run(two, options)), (Times{{9, 10}, {9, 10}}));
}

TEST(Fleet, StartsReplicasWhenTooManyRequestsAreThere) {
  const LinearTimes times;
  FleetOptions options = two_replicas(times, "least-outstanding");
  for (ReplicaSpec& replica : options.pool.replicas) replica.options.scheduler.max_seqs = 1;
  options.pool.autoscaling.target = 2;
  options.pool.autoscaling.interval = Seconds(10);
  options.pool.autoscaling.start_up = Seconds(5);
  // Each takes 10 s. At 10 s three are left, so two replicas are wanted, the second from 15 s on.
  std::vector<Request> requests(4, request(0, 4, 10));
  requests.push_back(request(14, 4, 10));
  requests.push_back(request(16, 4, 10));
  const ServingRun r = run(requests, options);
  EXPECT_EQ(replicas_of(r), (std::vector<int>{0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(r.requests[5].end.value, 26);
  // The first replica ends at 50 s; the second was started at 10 s and is kept for 300 s.
  EXPECT_DOUBLE_EQ(r.replica_seconds, 50 + 40);
}

TEST(Fleet, AddsWhatComesBeforeAndAfterTheEngine) {
  const LinearTimes times;
  FleetOptions options = one_replica(times, 100, 4, "vllm-v1");
  options.before_engine = Seconds(0.25);
  options.after_engine = Seconds(0.5);
  const ServingRun r = run({request(1, 8, 3)}, options);
  EXPECT_EQ(r.requests[0].scheduled.value, 1.25);
  EXPECT_EQ(times_of(r), (Times{{2.75, 4.75}}));
}

TEST(Fleet, EachReplicaHasAFrontEndOfItsOwn) {
  const LinearTimes times;
  FleetOptions options = one_replica(times, 100, 4, "vllm-v1");
  options.before_engine = Seconds(0.5);
  options.pool.replicas[0].options.front_end = Seconds(2);
  const std::vector<Request> requests(4, request(0, 4, 1));
  EXPECT_EQ(times_of(run(requests, options)),
            (Times{{1.5, 1.5}, {3.5, 3.5}, {5.5, 5.5}, {7.5, 7.5}}));
  options.pool.replicas.push_back(options.pool.replicas[0]);
  // Who is on the way to an engine counts as outstanding there.
  for (const char* router : {"round-robin", "least-outstanding"}) {
    options.pool.router = router;
    EXPECT_EQ(times_of(run(requests, options)),
              (Times{{1.5, 1.5}, {1.5, 1.5}, {3.5, 3.5}, {3.5, 3.5}}));
  }
}

TEST(Fleet, KeepsAClosedLoopFull) {
  const LinearTimes times;
  LengthLaw output;
  output.mean = 5;
  const auto source = make_closed_loop({3, 12, {}}, {{}, output}, 1);
  const ServingRun r = run_fleet(*source, one_replica(times, 100, 4, "vllm-v1"));
  ASSERT_EQ(r.requests.size(), 12U);
  for (size_t i = 0; i < 12; ++i) {
    const size_t round = i / 3;
    EXPECT_EQ(r.requests[i].arrival.value, 5.0 * static_cast<double>(round));
    EXPECT_EQ(r.requests[i].end.value, 5.0 * static_cast<double>(round + 1));
  }
}

TEST(Fleet, RefusesWhatMakesNoSense) {
  const LinearTimes times;
  EXPECT_THROW(run({}, one_replica(times, 100, 4, "vllm-v1")), Error);
  EXPECT_THROW(run({request(0, 1, 1)}, {}), Error);
  FleetOptions options = one_replica(times, 100, 4, "vllm-v1");
  options.trimming = {0.5, 0.5};
  EXPECT_THROW(run({request(0, 1, 1)}, options), Error);
  options = one_replica(times, 100, 4, "vllm-v1");
  options.pool.autoscaling.target = 1;
  options.pool.autoscaling.interval = Seconds(0);
  EXPECT_THROW(run({request(0, 1, 1)}, options), Error);
}

}  // namespace
}  // namespace orrery
