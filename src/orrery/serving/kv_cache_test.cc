#include "orrery/serving/kv_cache.h"

#include <gtest/gtest.h>

#include "orrery/base/error.h"
#include "orrery/base/random_stream.h"

namespace orrery {
namespace {

KvRoom room(int64_t blocks, int64_t tokens = 4) {
  KvRoom r;
  r.blocks = blocks;
  r.tokens = tokens;
  return r;
}

TEST(KvCache, GrowsByBlocksWhileThereAreSome) {
  KvCache kv(room(4), {});
  KvHolding a;
  EXPECT_TRUE(kv.grow(a, 5));
  EXPECT_EQ(a.blocks(), 2);
  EXPECT_EQ(kv.used(), 2);
  EXPECT_TRUE(kv.grow(a, 8));
  EXPECT_EQ(kv.used(), 2);
  KvHolding b;
  EXPECT_FALSE(kv.grow(b, 8, 1));
  EXPECT_TRUE(kv.grow(b, 8));
  EXPECT_FALSE(kv.grow(a, 9));
  EXPECT_EQ(kv.free(), 0);
  kv.release(b, {}, 8);
  EXPECT_TRUE(kv.grow(a, 16));
  kv.release(a, {}, 16);
  EXPECT_EQ(kv.free(), 4);
  EXPECT_THROW(KvCache(room(0), {}), Error);
}

TEST(KvCache, CountsWindowsAndState) {
  KvRoom r = room(100);
  r.windowed = 0.5;
  r.window = 8;
  r.fixed = 3;
  KvCache kv(r, {});
  KvHolding a;
  // ceil(6/4) + ceil(½ · ceil(6/4)) + 3, then ceil(20/4) + ceil(½ · ceil(8/4)) + 3.
  EXPECT_TRUE(kv.grow(a, 6));
  EXPECT_EQ(kv.used(), 2 + 1 + 3);
  EXPECT_TRUE(kv.grow(a, 20));
  EXPECT_EQ(kv.used(), 5 + 1 + 3);
}

TEST(KvCache, SharesAPrefixWhileItIsComputedAndAfter) {
  KvCache kv(room(10), {});
  const KvKeys keys{7, 0, 10};
  KvHolding a;
  EXPECT_TRUE(kv.grow(a, 12));
  kv.share_prefix(a, keys, 6);
  // Of 10 tokens two blocks are full; one is after 6 tokens.
  EXPECT_EQ(kv.cached(keys, 11), 4);
  kv.share_prefix(a, keys, 12);
  EXPECT_EQ(kv.cached(keys, 11), 8);
  EXPECT_EQ(kv.cached(keys, 7), 4);
  EXPECT_EQ(kv.cached({8, 0, 10}, 11), 0);
  KvHolding b;
  EXPECT_EQ(kv.attach(b, keys, 11), 8);
  EXPECT_TRUE(kv.grow(b, 12));
  EXPECT_EQ(kv.used(), 4);
  kv.release(a, keys, 12);
  EXPECT_EQ(kv.used(), 3);
  kv.release(b, keys, 12);
  EXPECT_EQ(kv.used(), 0);
  EXPECT_EQ(kv.cached(keys, 11), 8);
  KvHolding all;
  EXPECT_TRUE(kv.grow(all, 36));
  EXPECT_EQ(kv.cached(keys, 11), 4);
  EXPECT_TRUE(kv.grow(all, 40));
  EXPECT_EQ(kv.cached(keys, 11), 0);
}

TEST(KvCache, KeepsAConversationsTurns) {
  KvCache kv(room(10), {});
  const KvKeys keys{0, 5, 0};
  KvHolding a;
  EXPECT_TRUE(kv.grow(a, 10));
  kv.release(a, keys, 10);
  EXPECT_EQ(kv.cached(keys, 100), 8);
  EXPECT_EQ(kv.attach(a, keys, 100), 8);
  EXPECT_TRUE(kv.grow(a, 22));
  EXPECT_EQ(kv.used(), 6);
  kv.release(a, keys, 22);
  EXPECT_EQ(kv.cached(keys, 100), 20);
  EXPECT_EQ(kv.free(), 10);
}

TEST(KvCache, EvictsTheEndOfWhatWasUsedLeastRecently) {
  for (const bool in_order : {true, false}) {
    KvCache kv(room(8), {true, in_order});
    const KvKeys one{0, 1, 0};
    const KvKeys two{0, 2, 0};
    KvHolding a;
    KvHolding b;
    KvHolding c;
    EXPECT_TRUE(kv.grow(a, 8));
    EXPECT_TRUE(kv.grow(b, 8));
    EXPECT_TRUE(kv.grow(c, 16));
    kv.release(a, one, 8);
    kv.release(b, two, 8);
    kv.release(c, {}, 16);
    // Conversation one is looked at again, so that two is the least recent.
    EXPECT_EQ(kv.attach(a, one, 8), 8);
    kv.release(a, one, 8);
    EXPECT_TRUE(kv.grow(c, 4));
    // In order: two's end goes before the blank blocks that became free after it.
    EXPECT_EQ(kv.cached(two, 8), in_order ? 4 : 8);
    EXPECT_TRUE(kv.grow(c, 20));
    EXPECT_EQ(kv.cached(two, 8), in_order ? 0 : 4);
    EXPECT_EQ(kv.cached(one, 8), 8);
  }
}

TEST(KvCache, CountsCachedBlocksThatAreFreeOnlyOnce) {
  KvCache kv(room(4), {});
  const KvKeys keys{0, 1, 0};
  KvHolding a;
  EXPECT_TRUE(kv.grow(a, 8));
  kv.release(a, keys, 8);
  // Two of the four free blocks are those found: 16 tokens fit, 17 do not.
  EXPECT_TRUE(kv.can_start(keys, 100, 16, 0));
  EXPECT_FALSE(kv.can_start(keys, 100, 17, 0));
  EXPECT_FALSE(kv.can_start(keys, 100, 16, 1));
}

TEST(KvCache, NeverLosesABlock) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    RandomStream random(seed);
    KvCache kv(room(60), {random.integer(0, 3) > 0, random.integer(0, 1) == 0});
    struct Holder {
      KvHolding holding;
      KvKeys keys;
      int64_t tokens = 0;
    };
    std::vector<Holder> holders;
    for (int i = 0; i < 3000; ++i) {
      if (random.integer(0, 1) == 0) {
        Holder h;
        h.keys.prefix = static_cast<uint64_t>(random.integer(0, 3));
        h.keys.prefix_tokens = static_cast<int32_t>(random.integer(0, 30));
        h.keys.conversation = static_cast<uint64_t>(random.integer(0, 20));
        // A conversation has one prefix.
        if (h.keys.conversation > 0) {
          h.keys.prefix = h.keys.conversation % 3;
          h.keys.prefix_tokens = 18;
        }
        const int64_t length = random.integer(1, 80);
        if (kv.can_start(h.keys, length - 1, length, 0)) {
          const int64_t found = kv.cached(h.keys, length - 1);
          EXPECT_EQ(kv.attach(h.holding, h.keys, length - 1), found);
          ASSERT_TRUE(kv.grow(h.holding, length));
          kv.share_prefix(h.holding, h.keys, length);
          h.tokens = length;
          holders.push_back(h);
        }
      } else if (!holders.empty()) {
        const auto at =
            static_cast<size_t>(random.integer(0, static_cast<int64_t>(holders.size()) - 1));
        kv.release(holders[at].holding, holders[at].keys, holders[at].tokens);
        holders.erase(holders.begin() + static_cast<std::ptrdiff_t>(at));
      }
      int64_t own = 0;
      for (const Holder& h : holders) own += h.holding.own;
      ASSERT_GE(kv.used(), own);
      ASSERT_GE(kv.free(), 0);
      ASSERT_LE(kv.used(), 60);
    }
    for (Holder& h : holders) kv.release(h.holding, h.keys, h.tokens);
    EXPECT_EQ(kv.free(), 60);
    KvHolding all;
    EXPECT_TRUE(kv.grow(all, 240));
    EXPECT_EQ(kv.free(), 0);
  }
}

}  // namespace
}  // namespace orrery
