// Orders worked out by hand for graphs of a few steps.

#include "orrery/model/memory_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace orrery {
namespace {

using testing::ElementsAre;

uint32_t temporary(MemoryGraph& graph, int64_t bytes) {
  return graph.add_buffer(MemoryGraph::Home::kTemporary, bytes, 0);
}

void step(MemoryGraph& graph, std::initializer_list<uint32_t> reads,
          std::initializer_list<uint32_t> writes) {
  graph.add_step(0);
  for (uint32_t b : reads) graph.reads(b);
  for (uint32_t b : writes) graph.writes(b);
}

/// Two branches, each a large buffer reduced to a small one, then joined:
/// 0: A, 1: B, 2: a = f(A), 3: b = f(B), 4: result = a + b.
MemoryGraph two_branches() {
  MemoryGraph g;
  const uint32_t large_a = temporary(g, 100), large_b = temporary(g, 100);
  const uint32_t a = temporary(g, 1), b = temporary(g, 1), result = temporary(g, 1);
  step(g, {}, {large_a});
  step(g, {}, {large_b});
  step(g, {large_a}, {a});
  step(g, {large_b}, {b});
  step(g, {a, b}, {result});
  g.set_result(result);
  return g;
}

TEST(MemoryOrder, OneBranchIsFinishedBeforeTheNextBegins) {
  const MemoryGraph g = two_branches();
  EXPECT_EQ(live_bytes(g, order_as_written(g)), 201);  // both large ones, and a
  EXPECT_THAT(post_order(g), ElementsAre(0, 2, 1, 3, 4));
  EXPECT_EQ(live_bytes(g, post_order(g)), 102);
  // Of equal steps, the one that was ready last: B; then what frees it.
  EXPECT_THAT(greedy_order(g), ElementsAre(1, 3, 0, 2, 4));
  EXPECT_EQ(live_bytes(g, order_for_memory(g)), 102);
}

TEST(MemoryOrder, DepthFirstTakesTheWiderSideFirst) {
  // 0: p (3 readers), 1: q, 2: x = f(p), 3: y = f(p), 4: z = f(p), 5: r = q + x,
  // 6: result = r + y + z. Above x, y and z: fan-out 2; above q none.
  MemoryGraph g;
  const uint32_t p = temporary(g, 4), q = temporary(g, 8);
  const uint32_t x = temporary(g, 1), y = temporary(g, 1), z = temporary(g, 1);
  const uint32_t r = temporary(g, 1), result = temporary(g, 1);
  step(g, {}, {p});
  step(g, {}, {q});
  step(g, {p}, {x});
  step(g, {p}, {y});
  step(g, {p}, {z});
  step(g, {q, x}, {r});
  step(g, {r, y, z}, {result});
  g.set_result(result);
  // r, y and z have the same fan-out above them, r the most bytes; of q and x, x is wider.
  EXPECT_THAT(depth_first_order(g), ElementsAre(0, 2, 1, 5, 3, 4, 6));
  EXPECT_THAT(post_order(g), ElementsAre(1, 0, 2, 5, 3, 4, 6));
}

TEST(MemoryOrder, ReadersOfAnOldValueComeBeforeItsUpdate) {
  // 0: a, 1: c = f(a), 2: b = update of a, 3: result = b + c, results first b's reader.
  MemoryGraph g;
  const uint32_t a = temporary(g, 10), b = temporary(g, 10), c = temporary(g, 10);
  const uint32_t result = temporary(g, 1);
  step(g, {}, {a});
  step(g, {a}, {c});
  step(g, {a}, {b});
  step(g, {b, c}, {result});
  g.share(b, a);
  g.set_result(result);
  for (const auto& order : {post_order(g), depth_first_order(g), greedy_order(g)}) {
    const auto place = [&](uint32_t s) {
      return std::find(order.begin(), order.end(), s) - order.begin();
    };
    EXPECT_LT(place(1), place(2));
  }
}

TEST(MemoryOrder, EveryStepRunsOnce) {
  // A result of which nobody knows, and a step without effect.
  MemoryGraph g = two_branches();
  step(g, {0}, {temporary(g, 5)});
  step(g, {}, {});
  for (std::vector<uint32_t> order : {post_order(g), depth_first_order(g), greedy_order(g)}) {
    std::sort(order.begin(), order.end());
    EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  }
}

}  // namespace
}  // namespace orrery
