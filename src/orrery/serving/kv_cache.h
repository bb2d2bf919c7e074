#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "orrery/serving/step_times.h"

namespace orrery {

struct KvCacheOptions {
  bool prefix_caching = true;
  /// What is free is used in the order it became free, cached or not, as vLLM does; otherwise
  /// cached blocks go only when no others are left, as in SGLang's radix tree.
  bool evict_in_order = true;
};

/// What a sequence shares: the first blocks with all who name its prefix, those behind it with its
/// conversation.
struct KvKeys {
  uint64_t prefix = 0;  ///< 0: none.
  uint64_t conversation = 0;
  int32_t prefix_tokens = 0;
};

/// Blocks that a sequence holds.
struct KvHolding {
  int32_t own = 0;           ///< Shared with nobody, …
  int32_t prefix = 0;        ///< … of its prefix, …
  int32_t conversation = 0;  ///< … and of its conversation.
  int32_t tokens = 0;        ///< That fit in them.

  int32_t blocks() const { return own + prefix + conversation; }
};

/// Room for keys and values, given out in blocks. Full blocks of a prefix or a conversation can be
/// found again by who continues it, also after their sequence has ended, until they are evicted:
/// the end of the least recently used first. A block is free when no sequence holds it.
class KvCache {
 public:
  /// Throws `kInfeasible` where there is no block.
  KvCache(const KvRoom& room, const KvCacheOptions& options);

  const KvRoom& room() const { return room_; }
  int64_t free() const { return blank_ + queued_; }
  int64_t used() const { return room_.blocks - free(); }

  /// Tokens of `keys`, at most `limit`, that are in the cache.
  int64_t cached(const KvKeys& keys, int64_t limit) const;
  /// Whether a sequence that holds nothing could attach to them and grow to `tokens`, with
  /// `spare` blocks still free.
  bool can_start(const KvKeys& keys, int64_t limit, int64_t tokens, int64_t spare) const;
  /// Takes hold of them for a sequence that holds nothing. Gives their number.
  int64_t attach(KvHolding& holding, const KvKeys& keys, int64_t limit);
  /// Makes room for `tokens` in all; false, and nothing has changed, where fewer than `spare`
  /// blocks would stay free.
  bool grow(KvHolding& holding, int64_t tokens, int64_t spare = 0) {
    return tokens <= holding.tokens || grow_more(holding, tokens, spare);
  }
  /// Blocks that `grow` would take.
  int64_t growth(const KvHolding& holding, int64_t tokens) const;
  /// Lets others find blocks of the prefix that are full with `tokens`.
  void share_prefix(KvHolding& holding, const KvKeys& keys, int64_t tokens);
  /// Gives all blocks back. Others can find the full ones among `tokens` that belong to a
  /// conversation.
  void release(KvHolding& holding, const KvKeys& keys, int64_t tokens);

 private:
  struct Pin {
    int32_t depth = 0;
    int32_t sequences = 0;
  };
  /// Blocks that follow each other; the first `pinned` are held by sequences.
  struct Chain {
    int32_t blocks = 0;
    int32_t pinned = 0;
    uint64_t stamp = 0;  ///< Segments of another one are out of date.
    std::vector<Pin> pins;
  };
  /// Blocks that became free together: of a chain's end, or of none (0).
  struct Segment {
    uint64_t chain = 0;
    uint64_t stamp = 0;
    int32_t blocks = 0;
  };

  static uint64_t prefix_chain(uint64_t key) { return 2 * key; }
  static uint64_t conversation_chain(uint64_t key) { return 2 * key + 1; }
  int32_t prefix_blocks(const KvKeys& keys) const;
  bool grow_more(KvHolding& holding, int64_t tokens, int64_t spare);
  void allocate(int64_t blocks);
  void queue(uint64_t chain, int32_t blocks, uint64_t stamp);
  bool outdated(const Segment& segment) const;
  void drop_outdated();
  void hold(uint64_t key, int32_t depth);
  Chain& chain_of(uint64_t key);
  static void add_pin(Chain& chain, int32_t depth);
  static void remove_pin(Chain& chain, int32_t depth);
  /// Puts what is no longer pinned into the queue, and takes out what is.
  void settle(uint64_t key, Chain& chain);
  const Chain* find(uint64_t key) const;
  /// Of a chain's first `depth` blocks, those that are free.
  int64_t free_of(uint64_t key, int64_t depth) const;

  KvRoom room_;
  KvCacheOptions options_;
  int64_t blank_ = 0;   ///< Free, and nothing to be found in them.
  int64_t queued_ = 0;  ///< Free blocks of the segments that are up to date.
  std::deque<Segment> segments_;
  std::unordered_map<uint64_t, Chain> chains_;
  uint64_t stamps_ = 0;
  size_t outdated_limit_ = 1024;
};

}  // namespace orrery
