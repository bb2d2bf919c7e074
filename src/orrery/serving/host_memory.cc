#include "orrery/serving/host_memory.h"

#include <algorithm>

namespace orrery {

const HostMemory::Chain* HostMemory::find(uint64_t key) const {
  const auto at = places_.find(key);
  return at == places_.end() ? nullptr : &*at->second;
}

int64_t HostMemory::held(uint64_t key) const {
  const Chain* chain = find(key);
  return chain == nullptr ? 0 : chain->blocks;
}

int64_t HostMemory::reach(const KvKeys& keys, int64_t limit, int64_t on_device) const {
  if (keys.prefix == 0 && keys.conversation == 0) return on_device;
  const int64_t most = limit / tokens_per_block_;
  const int64_t shared = prefix_blocks(keys);
  int64_t found = on_device / tokens_per_block_;
  if (found < shared) found = std::max(found, std::min(held(prefix_chain(keys)), shared));
  if (found >= shared && keys.conversation != 0)
    found = std::max(found, shared + held(conversation_chain(keys)));
  return std::max(on_device, std::min(found, most) * tokens_per_block_);
}

Seconds HostMemory::use(uint64_t key) {
  const auto at = places_.find(key);
  if (at == places_.end()) return Seconds(0);
  chains_.splice(chains_.begin(), chains_, at->second);
  return at->second->arrived;
}

Seconds HostMemory::load(const KvKeys& keys, int64_t on_device, int64_t reach, Seconds now,
                         HostLink& link) {
  const int64_t first = on_device / tokens_per_block_, end = reach / tokens_per_block_;
  const int64_t shared = prefix_blocks(keys);
  Seconds ready = now;
  // The beginning is used last, and so stays longest.
  if (end > shared) ready = std::max(ready, use(conversation_chain(keys)));
  if (first < shared) ready = std::max(ready, use(prefix_chain(keys)));
  hit_tokens_ += reach - on_device;
  return link.to_device(ready, options_.block_bytes * static_cast<double>(end - first));
}

void HostMemory::store(const KvKeys& keys, int64_t tokens, Seconds now, HostLink& link) {
  const int64_t full = tokens / tokens_per_block_;
  const int64_t shared = std::min(full, prefix_blocks(keys));
  if (shared > 0) extend(prefix_chain(keys), shared, now, link);
  if (full > shared && keys.conversation != 0) {
    extend(conversation_chain(keys), full - shared, now, link);
    use(prefix_chain(keys));
  }
}

void HostMemory::extend(uint64_t key, int64_t blocks, Seconds now, HostLink& link) {
  use(key);
  const int64_t more = make_room(blocks - held(key), key);
  if (more <= 0) return;
  const auto [at, added] = places_.try_emplace(key);
  if (added) at->second = chains_.insert(chains_.begin(), Chain{key, 0, Seconds(0)});
  Chain& chain = *at->second;
  chain.blocks += more;
  chain.arrived = link.to_host(now, options_.block_bytes * static_cast<double>(more));
  used_ += more;
  peak_ = std::max(peak_, used_);
}

int64_t HostMemory::make_room(int64_t blocks, uint64_t keeper) {
  while (used_ + blocks > options_.blocks && !chains_.empty() && chains_.back().key != keeper) {
    Chain& oldest = chains_.back();
    const int64_t gone = std::min(oldest.blocks, used_ + blocks - options_.blocks);
    oldest.blocks -= gone;
    used_ -= gone;
    if (oldest.blocks > 0) break;
    places_.erase(oldest.key);
    chains_.pop_back();
  }
  return std::min(blocks, options_.blocks - used_);
}

}  // namespace orrery
