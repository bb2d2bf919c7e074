// Buffers placed by hand: lives, sharing, overwriting, packing, and sizes that cannot be.

#include "orrery/model/memory_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "orrery/model/memory_order.h"

namespace orrery {
namespace {

using testing::ElementsAre;
using Home = MemoryGraph::Home;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

uint32_t temporary(MemoryGraph& graph, int64_t bytes) {
  return graph.add_buffer(Home::kTemporary, bytes, static_cast<uint32_t>(graph.buffers().size()));
}

/// A step that reads and writes these.
void step(MemoryGraph& graph, std::initializer_list<uint32_t> reads,
          std::initializer_list<uint32_t> writes) {
  graph.add_step(100 + static_cast<uint32_t>(graph.steps().size()));
  for (uint32_t b : reads) graph.reads(b);
  for (uint32_t b : writes) graph.writes(b);
}

BufferPlan plan(const MemoryGraph& graph, MemoryLayout layout = {.alignment = 1}) {
  return plan_buffers(graph, order_as_written(graph), layout);
}

TEST(MemoryPlanner, NothingNeedsNothing) {
  const BufferPlan p = plan({});
  EXPECT_EQ(p.temporaries, 0);
  EXPECT_TRUE(p.temporaries_live.empty());
  EXPECT_TRUE(p.holders.empty());
}

TEST(MemoryPlanner, ABufferLivesFromItsWriterToItsLastReader) {
  // a: steps 0–1, b: 1–3, c: 2–3, result: 3.
  MemoryGraph g;
  const uint32_t in = g.add_buffer(Home::kArgument, 7, 0);
  const uint32_t a = temporary(g, 10), b = temporary(g, 20), c = temporary(g, 5);
  const uint32_t out = temporary(g, 3);
  step(g, {in}, {a});
  step(g, {a}, {b});
  step(g, {in}, {c});
  step(g, {b, c}, {out});
  g.set_result(out);
  const BufferPlan p = plan(g);
  EXPECT_EQ(p.arguments, 7);
  EXPECT_EQ(p.results, 3);
  EXPECT_EQ(p.aliased, 0);
  EXPECT_THAT(p.temporaries_live, ElementsAre(10, 30, 25, 25));
  EXPECT_EQ(p.temporaries, 30);  // c takes a's place
  EXPECT_EQ(p.peak_step, 1u);
  ASSERT_EQ(p.holders.size(), 4u);  // b, a, the argument, the result
  EXPECT_EQ(p.holders[0].bytes, 20);
  EXPECT_EQ(p.holders[0].label, b);
  EXPECT_EQ(p.holders[1].label, a);
  EXPECT_EQ(p.holders[2].home, Home::kArgument);
  EXPECT_TRUE(p.holders[3].is_result);
}

TEST(MemoryPlanner, LaterBuffersFillTheGapsOfEarlierOnes) {
  // a 0–2, b 1–4, c 3–4. In the order they come, c would not fit into a's place
  // below b; largest first, c lies at 0, b above it, and a below b.
  MemoryGraph g;
  const uint32_t a = temporary(g, 10), b = temporary(g, 10), c = temporary(g, 15);
  step(g, {}, {a});
  step(g, {}, {b});
  step(g, {a, b}, {});
  step(g, {}, {c});
  step(g, {b, c}, {});
  EXPECT_EQ(plan(g).live_temporaries, 25);
  EXPECT_EQ(plan(g).temporaries, 25);
}

// As in mobilenet_b256_infer on an H200: equal buffers a → b → c → d, each read by the step that
// makes the next; the first, the third and the last step have a small filter. Between taking and
// giving back each, memory is taken and given back four times. Where the first and the last step
// also have a table, it is five times for a and d: they are placed first, both at 0, then b above
// a, and c, which overlaps b and d, finds no room below 200.
TEST(MemoryPlanner, OfEqualBuffersThoseComeFirstDuringWhichMoreIsTaken) {
  const auto temporaries = [](int64_t table) {
    MemoryGraph g;
    const uint32_t image = temporary(g, 1), filter = temporary(g, 1), second = temporary(g, 1),
                   third = temporary(g, 1), result = temporary(g, 1);
    const uint32_t a = temporary(g, 100), b = temporary(g, 100), c = temporary(g, 100),
                   d = temporary(g, 100);
    step(g, {}, {image});
    step(g, {}, {filter});
    step(g, {image, filter}, {a});
    g.needs_scratch(table);
    step(g, {a}, {b});
    step(g, {}, {second});
    step(g, {b, second}, {c});
    step(g, {c}, {d});
    step(g, {}, {third});
    step(g, {d, third}, {result});
    g.needs_scratch(table);
    step(g, {result}, {});
    EXPECT_EQ(plan(g).live_temporaries, 201);
    return plan(g).temporaries;
  };
  EXPECT_EQ(temporaries(0), 201);
  EXPECT_EQ(temporaries(1), 300);
}

TEST(MemoryPlanner, BuffersBeginAtMultiplesOfTheAlignment) {
  MemoryGraph g;
  const uint32_t a = temporary(g, 100), b = temporary(g, 50);
  step(g, {}, {a, b});
  step(g, {a, b}, {});
  EXPECT_EQ(plan(g, {.alignment = 256}).temporaries, 256 + 50);
  EXPECT_EQ(plan(g, {.alignment = 64}).temporaries, 128 + 50);
}

TEST(MemoryPlanner, SharedBuffersAreOneOfTheLargestSize) {
  // An update in place of a, and of that again.
  MemoryGraph g;
  const uint32_t a = temporary(g, 10), b = temporary(g, 12), c = temporary(g, 10);
  step(g, {}, {a});
  step(g, {a}, {b});
  step(g, {b}, {c});
  g.share(b, a);
  g.share(c, b);
  EXPECT_EQ(plan(g).temporaries, 12);
}

TEST(MemoryPlanner, AResultInAnArgumentsMemoryIsCountedOnce) {
  MemoryGraph g;
  const uint32_t state = g.add_buffer(Home::kArgument, 10, 0);
  const uint32_t table = g.add_buffer(Home::kConstant, 4, 0);
  const uint32_t next = temporary(g, 10);
  step(g, {state, table}, {next});
  g.set_result(next);
  g.share(state, next);
  const BufferPlan p = plan(g);
  EXPECT_EQ(p.arguments, 10);
  EXPECT_EQ(p.results, 10);
  EXPECT_EQ(p.aliased, 10);
  EXPECT_EQ(p.constants, 4);
  EXPECT_EQ(p.temporaries, 0);
}

TEST(MemoryPlanner, AResultMayOverwriteAnOperandThatDies) {
  const auto temporaries = [](bool may, bool read_later, bool through_view) {
    MemoryGraph g;
    const uint32_t a = temporary(g, 10), b = temporary(g, 10);
    step(g, {}, {a});
    step(g, {a}, {b});
    if (may) g.may_overwrite(b, a, through_view);
    if (read_later) step(g, {a}, {});
    step(g, {b}, {});
    return plan(g).temporaries;
  };
  EXPECT_EQ(temporaries(true, false, false), 10);
  EXPECT_EQ(temporaries(false, false, false), 20);
  EXPECT_EQ(temporaries(true, true, false), 20);  // somebody still needs it
  EXPECT_EQ(temporaries(true, false, true), 20);  // XLA does so in a result's memory only
}

TEST(MemoryPlanner, AnOperandIsOverwrittenOnce) {
  MemoryGraph g;
  const uint32_t a = temporary(g, 10), b = temporary(g, 10), c = temporary(g, 10);
  step(g, {}, {a});
  step(g, {a}, {b, c});
  g.may_overwrite(b, a, false);
  g.may_overwrite(c, a, false);
  step(g, {b, c}, {});
  EXPECT_EQ(plan(g).temporaries, 20);
}

TEST(MemoryPlanner, TemporariesUseAResultsMemoryBeforeItIsWritten) {
  // a: 0–1, b: 1–2, result: 2–end. a is over before the result begins, b is not.
  MemoryGraph g;
  const uint32_t a = temporary(g, 8), b = temporary(g, 8), out = temporary(g, 9);
  step(g, {}, {a});
  step(g, {a}, {b});
  step(g, {b}, {out});
  g.set_result(out);
  EXPECT_EQ(plan(g).temporaries, 8);
  EXPECT_EQ(plan(g, {.alignment = 1, .temporaries_in_results = false}).temporaries, 16);
  // Where the result may overwrite b, b has its place too, and a goes elsewhere.
  g.may_overwrite(out, b, true);
  EXPECT_EQ(plan(g).temporaries, 8);
  // A larger one does not fit.
  MemoryGraph large;
  const uint32_t big = temporary(large, 10), small = temporary(large, 1);
  const uint32_t result = temporary(large, 9);
  step(large, {}, {big});
  step(large, {big}, {small});
  step(large, {small}, {result});
  large.set_result(result);
  EXPECT_EQ(plan(large).temporaries, 11);
}

TEST(MemoryPlanner, AGivenAwayArgumentsMemoryIsFreeUntilItsResultIsWritten) {
  // The argument is read in step 0 only; its result comes in step 3.
  MemoryGraph g;
  const uint32_t state = g.add_buffer(Home::kArgument, 10, 0);
  const uint32_t a = temporary(g, 6), b = temporary(g, 10), next = temporary(g, 10);
  step(g, {state}, {a});
  step(g, {a}, {b});
  step(g, {b}, {a});
  step(g, {a}, {next});
  g.set_result(next);
  g.share(state, next);
  EXPECT_EQ(plan(g).temporaries, 6);  // b lies in the argument's memory
}

TEST(MemoryPlanner, ScratchIsNeededWhileItsStepRunsAndTablesAlways) {
  MemoryGraph g;
  const uint32_t a = temporary(g, 10), b = temporary(g, 10);
  step(g, {}, {a});
  g.needs_scratch(1000);
  step(g, {a}, {b});
  g.needs_tables(16);
  step(g, {b}, {});
  const BufferPlan p = plan(g, {.alignment = 256});
  EXPECT_THAT(p.temporaries_live, ElementsAre(1010, 20, 10));
  // a at 1024 behind the scratch, b at 0; a table of its own.
  EXPECT_EQ(p.temporaries, 1024 + 10 + 256);
  EXPECT_EQ(p.peak_step, 0u);
  ASSERT_FALSE(p.holders.empty());
  EXPECT_TRUE(p.holders[0].is_scratch);
  EXPECT_EQ(p.holders[0].label, 100u);
}

TEST(MemoryPlanner, SumsStopAtTheLargestInteger) {
  MemoryGraph g;
  const uint32_t in = g.add_buffer(Home::kArgument, kMost - 1, 0);
  g.add_buffer(Home::kArgument, kMost - 1, 1);
  const uint32_t a = temporary(g, kMost - 3), b = temporary(g, kMost), out = temporary(g, kMost);
  step(g, {in}, {a, b});
  g.needs_scratch(kMost);
  step(g, {a, b}, {out});
  g.set_result(out);
  const BufferPlan p = plan(g, {});
  EXPECT_EQ(p.arguments, kMost);
  EXPECT_EQ(p.results, kMost);
  EXPECT_EQ(p.temporaries, kMost);
  EXPECT_EQ(p.live_temporaries, kMost);
}

TEST(MemoryPlanner, ManyBuffersAliveTogetherTakeTheSumOfTheirBytes) {
  // A hundred thousand written, then all read: five thousand million pairs.
  MemoryGraph g;
  constexpr uint32_t kCount = 100'000;
  for (uint32_t i = 0; i < kCount; ++i) step(g, {}, {temporary(g, 256)});
  g.add_step(0);
  for (uint32_t i = 0; i < kCount; ++i) g.reads(i);
  EXPECT_EQ(plan(g, {}).temporaries, int64_t{256} * kCount);
  EXPECT_EQ(live_bytes(g, order_for_memory(g)), int64_t{256} * kCount);
}

TEST(MemoryPlanner, ALongChainTakesTwoBuffers) {
  MemoryGraph g;
  uint32_t last = temporary(g, 1 << 20);
  step(g, {}, {last});
  for (int i = 0; i < 30'000; ++i) {
    const uint32_t next = temporary(g, 1 << 20);
    step(g, {last}, {next});
    last = next;
  }
  EXPECT_EQ(plan(g, {}).temporaries, 2 << 20);
}

}  // namespace
}  // namespace orrery
