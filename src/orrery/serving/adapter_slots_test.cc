#include "orrery/serving/adapter_slots.h"

#include "orrery/serving/serving_for_test.h"
#include "orrery/serving/traffic/adapters.h"

namespace orrery {
namespace {

TEST(AdapterSlots, LetGoWhatWasUsedLongestAgo) {
  AdapterSlots slots(2);
  slots.use(1);
  slots.use(2);
  slots.use(1);
  EXPECT_EQ(slots.take_loads(), 2);
  EXPECT_FALSE(slots.admits(3));
  EXPECT_TRUE(slots.admits(2));
  EXPECT_TRUE(slots.admits(0));
  slots.leave(1);
  EXPECT_FALSE(slots.admits(3));
  slots.leave(2);
  slots.leave(1);
  EXPECT_EQ(slots.active(), 0U);
  slots.use(3);  // in the place of 2, which was used before 1
  slots.leave(3);
  slots.use(1);
  EXPECT_EQ(slots.take_loads(), 1);
  slots.leave(1);
  slots.use(2);
  EXPECT_EQ(slots.take_loads(), 1);
  EXPECT_EQ(slots.loads(), 4);
  EXPECT_THROW(slots.leave(9), Error);
}

// Steps take 1 s and 0.25 s an adapter; an adapter comes in 0.5 s.
TEST(AdapterSlots, PassOverWhoFindsNone) {
  LinearTimes times;
  times.per_adapter = 0.25;
  FleetOptions options = one_replica(times, 100, 4, "vllm-v1");
  ReplicaOptions& replica = options.pool.replicas[0].options;
  replica.host.bandwidth = BytesPerSecond(20);
  std::vector<Request> requests(3, request(0, 4, 3));
  requests[0].adapter = requests[2].adapter = 1;
  requests[1].adapter = 2;
  replica.adapters = {1, Bytes(10)};
  const ServingRun one = run(requests, options);
  EXPECT_EQ(times_of(one), (Times{{1.75, 4.25}, {6, 8.5}, {1.75, 4.25}}));
  EXPECT_EQ(one.host.adapter_loads, 2);
  EXPECT_DOUBLE_EQ(one.host.to_device_busy.value, 1);
  replica.adapters.slots = 2;
  EXPECT_EQ(times_of(run(requests, options)), (Times{{2.5, 5.5}, {2.5, 5.5}, {2.5, 5.5}}));
  // The model itself needs no slot.
  replica.adapters.slots = 1;
  requests[1].adapter = 0;
  EXPECT_EQ(times_of(run(requests, options)), (Times{{1.75, 4.25}, {1.75, 4.25}, {1.75, 4.25}}));
}

// What another adapter computed of the same prefix is of no use.
TEST(AdapterSlots, KeepPrefixesApart) {
  LinearTimes times;
  FleetOptions options = one_replica(times, 100, 4, "vllm-v1");
  ReplicaOptions& replica = options.pool.replicas[0].options;
  replica.host.bandwidth = BytesPerSecond(20);
  replica.adapters = {4, Bytes(10)};
  std::vector<Request> requests;
  for (const auto& [at, adapter] : {std::pair(0, 1), std::pair(10, 2), std::pair(20, 1)}) {
    requests.push_back(request(at, 12, 1));
    requests.back().prefix = 5;
    requests.back().prefix_tokens = 8;
    requests.back().adapter = static_cast<uint32_t>(adapter);
  }
  const ServingRun r = run(requests, options);
  EXPECT_EQ(r.requests[1].cached, 0);
  EXPECT_EQ(r.requests[2].cached, 8);
}

// By weights 1 and 1/2 two thirds ask for the first; turns of a conversation for the same one.
TEST(AdapterMix, DrawsByZipf) {
  std::vector<Request> requests(30000, request(0, 1, 1));
  for (size_t i = 15000; i < requests.size(); ++i) requests[i].conversation = 1 + i / 2;
  const auto source =
      with_adapters(std::make_unique<GivenRequests>(requests), {.count = 2, .skew = 1}, 42);
  double firsts = 0;
  uint32_t before = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const uint32_t adapter = source->take().adapter;
    ASSERT_TRUE(adapter == 1 || adapter == 2);
    firsts += adapter == 1;
    if (i > 15000 && i % 2 == 1) {
      EXPECT_EQ(adapter, before);
    }
    before = adapter;
  }
  // Standard deviation √(n·p·q), 15000 single ones and 7500 pairs: 100.
  EXPECT_NEAR(firsts, 20000, 400);
  EXPECT_THROW(with_adapters(nullptr, {.count = 0, .skew = 0}, 1), Error);
  EXPECT_THROW(with_adapters(nullptr, {.count = 1, .skew = -1}, 1), Error);
}

}  // namespace
}  // namespace orrery
