#include "orrery/serving/host_memory.h"

#include "orrery/serving/serving_for_test.h"

namespace orrery {
namespace {

constexpr double kBlock = 10;  // bytes
KvRoom blocks_of_four() {
  KvRoom room;
  room.blocks = 1;
  room.tokens = 4;
  return room;
}
KvKeys conversation(uint64_t key) { return {0, key, 0}; }

// Blocks of 4 tokens and 10 bytes over 100 bytes/s: 0.1 s each.
TEST(HostMemory, KeepsFullBlocksAndLetsTheOldestGo) {
  HostLink link(BytesPerSecond(100));
  HostMemory host({5, Bytes(kBlock), BytesPerSecond(100)}, blocks_of_four());
  host.store(conversation(1), 13, Seconds(1), link);
  EXPECT_EQ(host.used(), 3);
  EXPECT_EQ(host.reach(conversation(1), 12, 0), 12);
  EXPECT_EQ(host.reach(conversation(1), 11, 0), 8);
  EXPECT_EQ(host.reach(conversation(1), 20, 16), 16);
  EXPECT_EQ(host.reach(conversation(2), 12, 4), 4);
  // What is known already is not written again.
  host.store(conversation(1), 15, Seconds(1), link);
  EXPECT_DOUBLE_EQ(link.out().bytes().value, 30);
  // The copies arrive at 1.3; two blocks come back after that.
  EXPECT_DOUBLE_EQ(host.load(conversation(1), 4, 12, Seconds(1.1), link).value, 1.5);
  EXPECT_EQ(host.hit_tokens(), 8);
  EXPECT_DOUBLE_EQ(link.in().busy().value, 0.2);

  host.store(conversation(2), 12, Seconds(2), link);
  EXPECT_EQ(host.used(), 5);
  EXPECT_EQ(host.reach(conversation(1), 12, 0), 8);
  EXPECT_EQ(host.reach(conversation(2), 12, 0), 12);
  // More than there is room for: its beginning.
  host.store(conversation(3), 100, Seconds(3), link);
  EXPECT_EQ(host.used(), 5);
  EXPECT_EQ(host.peak(), 5);
  EXPECT_EQ(host.reach(conversation(3), 100, 0), 20);
  EXPECT_EQ(host.reach(conversation(1), 12, 0), 0);
  EXPECT_DOUBLE_EQ(link.out().bytes().value, 30 + 30 + 50);
}

// A prefix of 8 tokens, of which a conversation follows.
TEST(HostMemory, FollowsWhatTheDeviceHas) {
  HostLink link(BytesPerSecond(100));
  HostMemory host({4, Bytes(kBlock), BytesPerSecond(100)}, blocks_of_four());
  const KvKeys keys{7, 1, 8};
  host.store(keys, 16, Seconds(0), link);
  EXPECT_EQ(host.used(), 4);
  EXPECT_EQ(host.reach(keys, 100, 0), 16);
  EXPECT_EQ(host.reach({7, 0, 8}, 100, 0), 8);
  EXPECT_EQ(host.reach({7, 2, 8}, 100, 4), 8);
  // Without its prefix a conversation is of no use, unless the device has that.
  host.store(conversation(5), 8, Seconds(1), link);
  EXPECT_EQ(host.reach(keys, 100, 0), 8);
  host.store(conversation(6), 8, Seconds(2), link);
  EXPECT_EQ(host.reach(keys, 100, 0), 0);
  EXPECT_EQ(host.reach(keys, 100, 12), 12);
}

// Steps take 1 s and 0.5 s for each prompt token; blocks of 4 tokens take 1 s over the link.
TEST(HostMemory, GivesBackWhatTheDeviceEvicted) {
  LinearTimes times;
  times.per_prefill = 0.5;
  FleetOptions options = one_replica(times, 8, 4, "vllm-v1");
  std::vector<Request> requests = {request(0, 16, 1), request(9, 32, 1), request(30, 20, 1),
                                   request(30.5, 4, 1)};
  requests[0].conversation = requests[2].conversation = 1;
  // The second takes all 8 blocks, so that the third finds nothing: 1 + 10 s.
  EXPECT_EQ(times_of(run(requests, options)), (Times{{9, 9}, {26, 26}, {41, 41}, {44, 44}}));
  options.pool.replicas[0].options.host = {100, Bytes(kBlock), BytesPerSecond(kBlock)};
  // Its 16 tokens come from 30 to 34 while the fourth runs, then 1 + 2 s for four tokens.
  const ServingRun r = run(requests, options);
  EXPECT_EQ(times_of(r), (Times{{9, 9}, {26, 26}, {37, 37}, {33.5, 33.5}}));
  EXPECT_EQ(r.requests[2].cached, 16);
  EXPECT_EQ(r.host.hit_tokens, 16);
  EXPECT_DOUBLE_EQ(r.host.to_device.value, 4 * kBlock);
  EXPECT_DOUBLE_EQ(r.host.to_device_busy.value, 4);
  // 4 + 8 + 1 full blocks, and one more of the third's.
  EXPECT_DOUBLE_EQ(r.host.to_host.value, 14 * kBlock);
  EXPECT_EQ(r.host.peak_blocks, 14);
}

// Two answers of 8 tokens after 4 need 3 blocks each of the 4 there are. The second is thrown out
// at 13 with 8 tokens computed, of which the device keeps 4 until the first ends at 16.
TEST(HostMemory, BringsBackWhoWasPreempted) {
  LinearTimes times;
  times.per_prefill = 1;
  FleetOptions options = one_replica(times, 4, 4, "vllm-v1");
  const std::vector<Request> requests = {request(0, 4, 8), request(0, 4, 8)};
  // 5 tokens are computed again: 16 + 6, and two more.
  EXPECT_EQ(times_of(run(requests, options)), (Times{{9, 16}, {9, 24}}));
  options.pool.replicas[0].options.host = {100, Bytes(kBlock), BytesPerSecond(kBlock)};
  // One block comes in 1 s; the next token is the ninth's.
  const ServingRun r = run(requests, options);
  EXPECT_EQ(times_of(r), (Times{{9, 16}, {9, 20}}));
  EXPECT_EQ(r.host.hit_tokens, 4);
  EXPECT_EQ(r.metrics.preemptions, 1);
}

TEST(HostMemory, IsRefusedWhereNothingIsLookedFor) {
  LinearTimes times;
  FleetOptions options = one_replica(times, 8, 4, "vllm-v0");
  options.pool.replicas[0].options.host = {1, Bytes(1), BytesPerSecond(1)};
  EXPECT_THROW(run({request(0, 4, 1)}, options), Error);
  options.pool.replicas[0].options.scheduler.prefix_caching = true;
  EXPECT_NO_THROW(run({request(0, 4, 1)}, options));
  options.pool.replicas[0].options.host.bandwidth = BytesPerSecond(0);
  EXPECT_THROW(run({request(0, 4, 1)}, options), Error);
}

}  // namespace
}  // namespace orrery
