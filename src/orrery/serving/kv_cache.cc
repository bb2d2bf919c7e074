#include "orrery/serving/kv_cache.h"

#include <algorithm>

#include "orrery/base/error.h"

namespace orrery {

KvCache::KvCache(const KvRoom& room, const KvCacheOptions& options)
    : room_(room), options_(options), blank_(room.blocks) {
  if (room.blocks < 1) throw_infeasible("no room is left for keys and values");
  if (room.blocks > INT32_MAX || room.tokens < 1)
    throw_internal("blocks of keys and values that cannot be counted");
}

int32_t KvCache::prefix_blocks(const KvKeys& keys) const {
  return keys.prefix == 0 ? 0 : static_cast<int32_t>(keys.prefix_tokens / room_.tokens);
}

const KvCache::Chain* KvCache::find(uint64_t key) const {
  const auto at = chains_.find(key);
  return at == chains_.end() ? nullptr : &at->second;
}

int64_t KvCache::cached(const KvKeys& keys, int64_t limit) const {
  if (!options_.prefix_caching || (keys.prefix == 0 && keys.conversation == 0)) return 0;
  const int64_t most = limit / room_.tokens;
  const int64_t shared = prefix_blocks(keys);
  int64_t found = 0;
  if (shared > 0) {
    if (const Chain* chain = find(prefix_chain(keys.prefix)))
      found = std::min<int64_t>({chain->blocks, shared, most});
  }
  if (found == shared && keys.conversation != 0) {
    if (const Chain* chain = find(conversation_chain(keys.conversation)))
      found += std::min<int64_t>(chain->blocks, most - shared);
  }
  return found * room_.tokens;
}

int64_t KvCache::free_of(uint64_t key, int64_t depth) const {
  const Chain* chain = find(key);
  return chain == nullptr ? 0 : std::max<int64_t>(0, depth - chain->pinned);
}

bool KvCache::can_start(const KvKeys& keys, int64_t limit, int64_t tokens, int64_t spare) const {
  const int64_t found = cached(keys, limit) / room_.tokens;
  int64_t available = free() - spare;
  if (found > 0) {
    const int64_t of_prefix = std::min<int64_t>(found, prefix_blocks(keys));
    if (of_prefix > 0) available -= free_of(prefix_chain(keys.prefix), of_prefix);
    if (found > of_prefix)
      available -= free_of(conversation_chain(keys.conversation), found - of_prefix);
  }
  return room_.needed(tokens) - found <= available;
}

int64_t KvCache::attach(KvHolding& holding, const KvKeys& keys, int64_t limit) {
  const int64_t tokens = cached(keys, limit);
  if (tokens == 0) return 0;
  const auto found = static_cast<int32_t>(tokens / room_.tokens);
  holding.prefix = std::min(found, prefix_blocks(keys));
  holding.conversation = found - holding.prefix;
  if (holding.prefix > 0) hold(prefix_chain(keys.prefix), holding.prefix);
  if (holding.conversation > 0) hold(conversation_chain(keys.conversation), holding.conversation);
  // Blocks of windowed layers and of state are its own, and still to be taken.
  holding.tokens = room_.windowed == 0 && room_.fixed == 0 ? static_cast<int32_t>(tokens) : 0;
  return tokens;
}

int64_t KvCache::growth(const KvHolding& holding, int64_t tokens) const {
  return std::max<int64_t>(0, room_.needed(tokens) - holding.blocks());
}

bool KvCache::grow_more(KvHolding& holding, int64_t tokens, int64_t spare) {
  const int64_t more = growth(holding, tokens);
  if (more + spare > free()) return false;
  allocate(more);
  holding.own += static_cast<int32_t>(more);
  holding.tokens = static_cast<int32_t>((tokens + room_.tokens - 1) / room_.tokens * room_.tokens);
  return true;
}

void KvCache::share_prefix(KvHolding& holding, const KvKeys& keys, int64_t tokens) {
  if (!options_.prefix_caching || keys.prefix == 0) return;
  const auto full =
      static_cast<int32_t>(std::min<int64_t>(tokens / room_.tokens, prefix_blocks(keys)));
  if (full <= holding.prefix) return;
  const uint64_t key = prefix_chain(keys.prefix);
  Chain& chain = chain_of(key);
  // Another sequence computed the same: these stay its own.
  if (chain.blocks > holding.prefix) return;
  const int32_t given = full - holding.prefix;
  remove_pin(chain, holding.prefix);
  chain.blocks += given;
  chain.pinned = chain.blocks;
  add_pin(chain, full);
  holding.own -= given;
  holding.prefix = full;
}

void KvCache::release(KvHolding& holding, const KvKeys& keys, int64_t tokens) {
  int32_t given = 0;
  const uint64_t key = conversation_chain(keys.conversation);
  if (options_.prefix_caching && keys.conversation != 0) {
    const Chain* chain = find(key);
    const int32_t full = static_cast<int32_t>(tokens / room_.tokens) - prefix_blocks(keys);
    given = std::clamp(full - (chain == nullptr ? 0 : chain->blocks), 0, holding.own);
  }
  // The end of a sequence goes first, so that what others may find stays longest.
  if (holding.own > given) queue(0, holding.own - given, 0);
  if (given > 0 || holding.conversation > 0) {
    Chain& chain = chain_of(key);
    remove_pin(chain, holding.conversation);
    if (given > 0) {
      // What something follows is not free meanwhile.
      const int32_t before = chain.blocks;
      add_pin(chain, before);
      settle(key, chain);
      remove_pin(chain, before);
      chain.blocks += given;
      chain.pinned = chain.blocks;
    }
    settle(key, chain);
  }
  if (holding.prefix > 0) {
    const uint64_t prefix = prefix_chain(keys.prefix);
    Chain& chain = chain_of(prefix);
    remove_pin(chain, holding.prefix);
    settle(prefix, chain);
  }
  holding = {};
}

void KvCache::hold(uint64_t key, int32_t depth) {
  Chain& chain = chain_of(key);
  add_pin(chain, depth);
  settle(key, chain);
}

KvCache::Chain& KvCache::chain_of(uint64_t key) {
  const auto [at, added] = chains_.try_emplace(key);
  if (added) at->second.stamp = ++stamps_;
  return at->second;
}

void KvCache::add_pin(Chain& chain, int32_t depth) {
  if (depth == 0) return;
  for (Pin& pin : chain.pins) {
    if (pin.depth != depth) continue;
    ++pin.sequences;
    return;
  }
  chain.pins.push_back({depth, 1});
}

void KvCache::remove_pin(Chain& chain, int32_t depth) {
  if (depth == 0) return;
  for (size_t i = 0; i < chain.pins.size(); ++i) {
    if (chain.pins[i].depth != depth) continue;
    if (--chain.pins[i].sequences == 0) {
      chain.pins[i] = chain.pins.back();
      chain.pins.pop_back();
    }
    return;
  }
  throw_internal("a cached block was given back by who does not hold it");
}

void KvCache::settle(uint64_t key, Chain& chain) {
  int32_t deepest = 0;
  for (const Pin& pin : chain.pins) deepest = std::max(deepest, pin.depth);
  if (deepest > chain.pinned) {
    queued_ -= chain.blocks - chain.pinned;
    chain.stamp = ++stamps_;
    if (chain.blocks > deepest) queue(key, chain.blocks - deepest, chain.stamp);
  } else if (deepest < chain.pinned) {
    queue(key, chain.pinned - deepest, chain.stamp);
  }
  chain.pinned = deepest;
}

void KvCache::queue(uint64_t chain, int32_t blocks, uint64_t stamp) {
  if (chain == 0 && !(options_.prefix_caching && options_.evict_in_order)) {
    blank_ += blocks;
    return;
  }
  queued_ += blocks;
  if (chain == 0 && !segments_.empty() && segments_.back().chain == 0) {
    segments_.back().blocks += blocks;
    return;
  }
  if (segments_.size() >= outdated_limit_) drop_outdated();
  segments_.push_back({chain, stamp, blocks});
}

bool KvCache::outdated(const Segment& segment) const {
  if (segment.chain == 0) return false;
  const Chain* chain = find(segment.chain);
  return chain == nullptr || chain->stamp != segment.stamp;
}

void KvCache::drop_outdated() {
  std::erase_if(segments_, [&](const Segment& segment) { return outdated(segment); });
  outdated_limit_ = 2 * segments_.size() + 1024;
}

void KvCache::allocate(int64_t blocks) {
  const int64_t blank = std::min(blank_, blocks);
  blank_ -= blank;
  blocks -= blank;
  while (blocks > 0) {
    Segment& segment = segments_.front();
    if (outdated(segment)) {
      segments_.pop_front();
      continue;
    }
    const auto taken = static_cast<int32_t>(std::min<int64_t>(segment.blocks, blocks));
    if (segment.chain != 0) {
      const auto chain = chains_.find(segment.chain);
      chain->second.blocks -= taken;
      if (chain->second.blocks == 0) chains_.erase(chain);
    }
    blocks -= taken;
    queued_ -= taken;
    segment.blocks -= taken;
    if (segment.blocks == 0) segments_.pop_front();
  }
}

}  // namespace orrery
