#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "orrery/base/registry.h"
#include "orrery/serving/adapter_slots.h"
#include "orrery/serving/host_memory.h"
#include "orrery/serving/kv_cache.h"
#include "orrery/serving/sequence.h"
#include "orrery/serving/waiting_queue.h"

namespace orrery {

/// What an engine's scheduler may be told. 0 and less: the scheduler's own default.
struct SchedulerOptions {
  std::string name = "vllm-v1";
  int64_t max_batched_tokens = 0;      ///< Tokens that one step computes at most.
  int64_t max_seqs = 0;                ///< Sequences that run at one time at most.
  int64_t chunk_size = 0;              ///< Tokens of prompts that one step computes at most.
  double watermark = -1;               ///< Share of blocks that admission leaves free.
  int64_t max_length = 0;              ///< Tokens of a sequence at most; 0: what the cache holds.
  int32_t draft_tokens = 0;            ///< That speculation adds to each decode.
  std::optional<bool> prefix_caching;  ///< None: the scheduler's own default.
  bool by_priority = false;
  bool first_chunk = false;      ///< vllm-v1: admit who has room for a chunk, not only for all.
  bool max_utilization = false;  ///< trtllm: admit by what is needed now, and evict.
  bool mixed = false;            ///< sglang: a step with prompts decodes too.
  /// sglang: new requests are looked for after so many decodes, or a prefill.
  int64_t poll_steps = 0;
  // trtllm: prompts wait while others decode, for so many steps at most, …
  int64_t wait_steps = 0;
  double wait_share = -1;  ///< … until the step would have this share of its most tokens.

  /// Blocks that admission leaves free.
  int64_t spare(const KvRoom& room) const {
    return static_cast<int64_t>(watermark * static_cast<double>(room.blocks));
  }
};

/// Tokens of a sequence that a step computes.
struct BatchItem {
  uint32_t slot = 0;
  int32_t tokens = 0;
  uint32_t admission = 0;  ///< Of the sequence, when it was scheduled.
};

/// What a scheduler sees of its engine, and does to it: one rank with its own queue and cache.
class EngineRank {
 public:
  EngineRank(SequenceTable& sequences, const KvRoom& room, const KvCacheOptions& cache,
             bool by_priority, const HostOptions& host = {}, int adapter_slots = 0);

  /// A sequence whose blocks come from the host.
  struct Fetch {
    Seconds end;
    uint32_t slot = 0;
  };

  SequenceTable& sequences;
  KvCache kv;
  HostLink link;
  std::unique_ptr<HostMemory> host;        ///< Null: none.
  std::unique_ptr<AdapterSlots> adapters;  ///< Null: none.
  std::deque<Fetch> fetches;               ///< In the order they end.
  Seconds now;                             ///< When the step begins that is put together.
  std::vector<uint32_t> running;           ///< In the order they were admitted.
  WaitingQueue waiting;
  std::vector<BatchItem> batch;     ///< The step that is put together.
  std::vector<uint32_t> preempted;  ///< Thrown out while it was.
  bool by_priority = false;         ///< Who is thrown out, and who is admitted.
  int32_t decode_tokens = 1;        ///< Of a decode: the next one, and those speculated.

  /// Tokens that the sequence's next step can compute at most.
  int32_t wanted(const Sequence& sequence) const {
    return sequence.decoding() ? decode_tokens : sequence.pending();
  }
  /// Puts `tokens` of a running sequence into the batch; false where there is no room for them.
  bool schedule(uint32_t slot, int32_t tokens);
  /// The same at the cost of others: whoever was admitted last, or has the lowest priority, is
  /// thrown out until there is room; false when that is the sequence itself. `position` in
  /// `running` moves with the sequence.
  bool schedule_by_force(size_t& position, int32_t tokens);
  /// Tokens of a waiting sequence that must be computed before it gets its next one: all but
  /// those cached, or received from another engine. 0: some are on the host and come first.
  int32_t to_compute(const Sequence& sequence) const;
  /// Whether there is room for all tokens of the first who waits.
  bool first_fits() const;
  /// Moves the first who waits to those who run, with `tokens` of it in the batch, where at least
  /// `spare` blocks stay free then, and takes blocks for `reserve` tokens if those are more.
  /// False, and nothing has changed, where there is no room. Who has tokens on the host does not
  /// run yet but takes its blocks, for all of its tokens, and comes back to the queue's front when
  /// they have come: other steps go on meanwhile (vLLM's WAITING_FOR_REMOTE_KVS).
  bool admit_first(int32_t tokens, int64_t spare = 0, int64_t reserve = 0);
  /// Throws the sequence at `position` of `running` back among those who wait, to be computed
  /// again: to the front of the queue, or to its end. What a step in flight computes of it is lost.
  void preempt(size_t position, bool to_end = false);
  /// Copies a sequence's full blocks to the host, where there is one.
  void write_out(const Sequence& sequence, Seconds at);
  /// Back to the queue with those whose blocks have come.
  void end_fetches(Seconds at);
  /// Takes the blocks from the last one in the queue who has fetched some; false: nobody has.
  bool give_up_fetch();
  /// Schedules the next token of all that decode and are not in flight, by force.
  void decode_all();
  /// Tokens in the batch.
  int64_t batch_tokens() const;

 private:
  /// Tokens of a waiting sequence that are known on the device, and those with the host's.
  struct Known {
    int64_t on_device = 0, reach = 0;
  };
  Known known(const Sequence& sequence) const;
  bool fetch_first(const Known& known, int64_t spare, int64_t reserve);
};

/// Which sequences compute how many tokens in the next step. Registered by name in
/// `Registry<Scheduler>`; each rank has its own.
class Scheduler {
 public:
  virtual ~Scheduler() = default;

  /// Takes the options; throws `kUsage` for those it cannot work with. Gives them back with its
  /// own defaults in place.
  virtual SchedulerOptions configure(const SchedulerOptions& options) = 0;
  /// How its cache of keys and values behaves.
  virtual KvCacheOptions cache() const = 0;
  /// Whether a request of so many tokens can run where nobody else does.
  virtual bool fits(const KvRoom& room, int64_t prompt, int64_t output) const = 0;
  /// Fills `rank.batch`, which is empty.
  virtual void schedule(EngineRank& rank) = 0;
  /// After a step in which all that run decode: how many steps more are the same as long as
  /// nobody arrives or ends and every sequence finds the room to go on.
  virtual int64_t alike_steps(const EngineRank& rank) const {
    (void)rank;
    return std::numeric_limits<int64_t>::max();
  }
  /// So many of them were taken, without a call of `schedule`.
  virtual void repeated(int64_t steps) { (void)steps; }
};

/// Throws `kUsage` for an option that was given and that the scheduler's description does not list
/// among its parameters.
void refuse_unused(const SchedulerOptions& options);

/// The scheduler of that name; throws `kUsage` for one that is not there.
std::unique_ptr<Scheduler> make_scheduler(const std::string& name);

/// The options with `defaults` where they say nothing. Throws `kUsage` where a limit makes no
/// sense.
SchedulerOptions with_defaults(SchedulerOptions options, const SchedulerOptions& defaults);

}  // namespace orrery
