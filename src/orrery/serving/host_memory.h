#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <unordered_map>

#include "orrery/base/units.h"
#include "orrery/serving/kv_cache.h"

namespace orrery {

/// What a rank has beside its devices' own memory.
struct HostOptions {
  int64_t blocks = 0;        ///< Of keys and values that the host keeps for this rank; 0: none.
  Bytes block_bytes;         ///< Of one block on one device, which its link carries.
  BytesPerSecond bandwidth;  ///< Of one device's link to its host, each way; 0: there is no use.
};

/// One way of a link, first come first served.
class LinkWay {
 public:
  /// When `bytes` that can go from `ready` on have arrived, after all that were asked for before.
  Seconds carry(Seconds ready, Bytes bytes, BytesPerSecond bandwidth) {
    const Seconds time = bytes / bandwidth;
    free_ = std::max(free_, ready) + time;
    busy_ += time;
    bytes_ += bytes;
    return free_;
  }
  Seconds busy() const { return busy_; }
  Bytes bytes() const { return bytes_; }

 private:
  Seconds free_, busy_;
  Bytes bytes_;
};

/// The link between the devices of a rank and their host. Each device has its own and all carry
/// their share at the same time, so that one stands for all; the two ways do not hinder each other,
/// as those of PCIe and NVLink-C2C do not.
class HostLink {
 public:
  explicit HostLink(BytesPerSecond bandwidth) : bandwidth_(bandwidth) {}

  Seconds to_device(Seconds ready, Bytes bytes) { return in_.carry(ready, bytes, bandwidth_); }
  Seconds to_host(Seconds ready, Bytes bytes) { return out_.carry(ready, bytes, bandwidth_); }
  const LinkWay& in() const { return in_; }
  const LinkWay& out() const { return out_; }

 private:
  BytesPerSecond bandwidth_;
  LinkWay in_, out_;
};

/// Copies of full blocks of keys and values in the host's memory. As in vLLM's offloading connector
/// and SGLang's HiCache with write_through, a block is copied once it is full, whether or not the
/// device will evict it, and stays when it is read; without room what was used longest ago goes,
/// its end first. Copying takes the link but delays no step: engines do it on a stream of their
/// own. Blocks are found by prefix and conversation as in `KvCache`, those that are still under way
/// to the host when they have arrived.
class HostMemory {
 public:
  /// `room`: of the device, for the size of a block.
  HostMemory(const HostOptions& options, const KvRoom& room)
      : options_(options), tokens_per_block_(room.tokens) {}

  int64_t blocks() const { return options_.blocks; }
  int64_t used() const { return used_; }
  int64_t peak() const { return peak_; }
  int64_t hit_tokens() const { return hit_tokens_; }

  /// Tokens of `keys`, at most `limit`, that are known when those of the host follow the first
  /// `on_device`: `on_device` itself where the host adds nothing.
  int64_t reach(const KvKeys& keys, int64_t limit, int64_t on_device) const;
  /// Keeps all full blocks of the first `tokens`.
  void store(const KvKeys& keys, int64_t tokens, Seconds now, HostLink& link);
  /// When the tokens from `on_device` to `reach` have come to the device.
  Seconds load(const KvKeys& keys, int64_t on_device, int64_t reach, Seconds now, HostLink& link);

 private:
  struct Chain {
    uint64_t key = 0;
    int64_t blocks = 0;
    Seconds arrived;  ///< The last of them.
  };
  using Chains = std::list<Chain>;

  static uint64_t prefix_chain(const KvKeys& keys) { return 2 * keys.prefix; }
  static uint64_t conversation_chain(const KvKeys& keys) { return 2 * keys.conversation + 1; }
  int64_t prefix_blocks(const KvKeys& keys) const {
    return keys.prefix == 0 ? 0 : keys.prefix_tokens / tokens_per_block_;
  }
  const Chain* find(uint64_t key) const;
  int64_t held(uint64_t key) const;
  Seconds use(uint64_t key);
  void extend(uint64_t key, int64_t blocks, Seconds now, HostLink& link);
  /// Lets others go until `blocks` more fit beside `keeper`. Gives how many do.
  int64_t make_room(int64_t blocks, uint64_t keeper);

  HostOptions options_;
  int64_t tokens_per_block_;
  int64_t used_ = 0, peak_ = 0;
  int64_t hit_tokens_ = 0;
  Chains chains_;  ///< Last used first.
  std::unordered_map<uint64_t, Chains::iterator> places_;
};

}  // namespace orrery
