#include "orrery/sim/event_queue.h"

#include <gtest/gtest.h>

#include <string>

namespace orrery {
namespace {

std::string drained(EventQueue<char>& queue) {
  std::string order;
  char event = 0;
  while (queue.next(event)) order += event;
  return order;
}

TEST(EventQueue, GivesTimesInOrderAndTiesAsTheyWereScheduled) {
  EventQueue<char> queue;
  queue.schedule(30, 'd');
  queue.schedule(10, 'a');
  queue.schedule(30, 'e');
  queue.schedule(20, 'c');
  queue.schedule(10, 'b');
  EXPECT_EQ(queue.size(), 5u);
  EXPECT_EQ(drained(queue), "abcde");
  EXPECT_EQ(queue.now(), 30u);
  EXPECT_EQ(queue.size(), 0u);
}

TEST(EventQueue, TakesEventsForNowBehindThoseThatWait) {
  EventQueue<char> queue;
  queue.schedule(5, 'a');
  queue.schedule(5, 'b');
  char event = 0;
  ASSERT_TRUE(queue.next(event));
  queue.schedule(5, 'c');
  queue.schedule(6, 'd');
  EXPECT_EQ(drained(queue), "bcd");
  // A time that was finished may be used again while it is still now.
  queue.schedule(6, 'e');
  EXPECT_EQ(drained(queue), "e");
}

TEST(EventQueue, RefusesThePast) {
  EventQueue<char> queue;
  queue.schedule(5, 'a');
  char event = 0;
  ASSERT_TRUE(queue.next(event));
  EXPECT_THROW(queue.schedule(4, 'b'), Error);
}

}  // namespace
}  // namespace orrery
