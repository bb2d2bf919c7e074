#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "orrery/serving/metrics.h"
#include "orrery/serving/scheduler.h"
#include "orrery/serving/step_times.h"
#include "orrery/serving/traffic/source.h"

namespace orrery {

/// Draft tokens that each decode checks beside the next one; the i-th is right with probability
/// `acceptance` if those before it were.
struct Speculation {
  int32_t draft_tokens = 0;  ///< 0: none.
  double acceptance = 0;
  uint64_t seed = 0;
};

struct ReplicaOptions {
  SchedulerOptions scheduler;
  /// Tokens of a sequence at most that the model takes, unless the scheduler's max_length says
  /// another number; 0: any.
  int64_t positions = 0;
  int ranks = 1;  ///< Of data-parallel attention, that step together, each with queue and cache.
  /// The host prepares a step while the device computes the one before: a step lasts as long as
  /// the longer of the two, not both.
  bool asynchronous = true;
  /// A step is put together when the one before it begins: who comes later waits for the next but
  /// one. Not with pipelines, whose stages have steps enough to take.
  bool ahead = false;
  /// Of a process beside the engine that hands tokens out, for each sequence that a step gives some
  /// to, one after the other: text, and a message to the user.
  Seconds stream;
  /// Of a process before the engine that takes one request after the other: those that come
  /// together enter the engine this far apart.
  Seconds front_end;
  Speculation speculation;
  HostOptions host;           ///< Of each rank.
  AdapterOptions adapters;    ///< That requests ask for; needs `host.bandwidth`.
  bool prefill_only = false;  ///< Hands a sequence over after its first token.
  bool step_by_step = false;  ///< Never takes steps that are alike together. For tests.
};

/// What a replica's hosts and their links did.
struct HostUse {
  int64_t blocks = 0;        ///< Of keys and values there is room for, …
  int64_t peak_blocks = 0;   ///< … the most that were there, …
  int64_t hit_tokens = 0;    ///< … tokens that came from there instead of being computed.
  int64_t links = 0;         ///< Ranks, each with the links of its devices.
  Bytes to_device, to_host;  ///< Over the link of one device of each rank, summed.
  Seconds to_device_busy, to_host_busy;
  int64_t adapter_loads = 0;

  HostUse& operator+=(const HostUse& other);
};

/// A sequence that a replica has finished with.
struct EndedSequence {
  uint32_t id = 0;
  uint32_t tag = 0;
  uint32_t slot = 0;
  int32_t priority = 0;
  uint32_t adapter = 0;
  int32_t computed = 0;      ///< Tokens whose keys and values go elsewhere, …
  bool handed_over = false;  ///< … and stay here until `release`.
};

/// What an engine has done.
struct ReplicaUse {
  int64_t requests = 0;       ///< That came to it, …
  int64_t prompt_tokens = 0;  ///< … tokens of prompts that it computed, again where it had to, …
  int64_t output_tokens = 0;  ///< … and those it gave out.
  Seconds busy;               ///< While one step at least ran.
};

/// One engine. A step of it lasts as long as its slowest rank's; with a pipeline of p stages up to
/// p batches are under way, of which each sequence is in one.
///
/// Steps in which the same sequences decode, and nothing arrives, ends or lacks room, are planned
/// together: each step's time is asked for, but sequences are touched once. An arrival cuts the
/// plan after the step that is under way.
class Replica {
 public:
  /// `times` and `recorder` outlive it; `log` is an empty one. Throws `kUsage` or `kInfeasible` for
  /// options that cannot work.
  Replica(const StepTimes& times, const KvRoom& room, const ReplicaOptions& options,
          Recorder& recorder, const StepLog& log, uint16_t index);

  /// Whether the request could ever be served.
  bool fits(const Request& request) const;
  /// `received`: tokens whose keys and values come with it from the engine that computed its
  /// prompt; 0: it is new.
  void arrive(uint32_t id, const Request& request, Seconds now, int32_t received = 0);
  /// Keys and values of somebody who will arrive with them are under way.
  void expect() { ++expected_; }
  /// When who comes at `next_arrival`, or somebody before, will be through the front end.
  Seconds next_entry(Seconds next_arrival) const;
  /// When something happens of itself next, or `kNever`.
  Seconds next_event() const;
  /// Ends the steps that are over.
  void end_steps(Seconds now, std::vector<EndedSequence>& ended);
  /// Lets in who is through the front end and starts what can be started. Nothing is likely to
  /// arrive before `quiet_until`, up to which steps are planned: what becomes of requests does not
  /// depend on it.
  void start_steps(Seconds now, Seconds quiet_until);
  /// Gives back the blocks of a sequence handed over.
  void release(uint32_t slot);

  size_t outstanding() const { return expected_ + entering_.size() + sequences_.size(); }
  size_t waiting() const;
  int64_t blocks() const { return static_cast<int64_t>(ranks_.size()) * room_.blocks; }
  int64_t used_blocks(Seconds now) const;
  /// Tokens of the request's prompt that are in the cache of one of its ranks.
  int64_t cached_tokens(const Request& request, Seconds now);
  int64_t peak_blocks() const { return peak_; }
  HostUse host_use() const;
  StepLog& log() { return log_; }
  const ReplicaUse& use() const { return use_; }
  uint16_t index() const { return index_; }
  const SchedulerOptions& scheduler() const { return scheduler_options_; }

 private:
  /// A step, or several alike, of one batch a rank.
  struct Flight {
    std::vector<std::vector<BatchItem>> batches;
    Seconds begin;
    std::vector<Seconds> ends;  ///< Of each step.
    std::vector<int64_t> used;  ///< Blocks in each.
    int32_t decodes = 0;
    int32_t prefill_tokens = 0;
    int32_t answers = 0;  ///< Sequences that get tokens which go to a user.
    size_t waiting = 0;
  };
  /// One rank's part of steps that are alike.
  struct Stretch {
    StepShape shape;
    StepLine line;                ///< Of the steps at hand, …
    int64_t taken = 0;            ///< … of which so many were.
    int64_t growing = 0;          ///< Decodes that look at less than the window.
    int64_t free = 0;             ///< Blocks.
    std::vector<int64_t> growth;  ///< Blocks taken in the step of this number modulo its size.
  };

  /// Is on its way through the front end.
  struct Entry {
    Seconds at;
    uint32_t id = 0;
    Request request;
  };
  /// Has come, and the scheduler has not seen it.
  struct Arrival {
    uint32_t slot = 0;
    Seconds since;
  };

  void enter(uint32_t id, const Request& request, Seconds now, int32_t received);
  /// Sequences that the schedulers know and do not run.
  size_t queued() const;
  uint16_t rank_for(const Request& request, Seconds now);
  /// Shows the schedulers who has come, where the host looks now; all of them if `idle`.
  void receive(bool idle);
  /// Puts the next step together; whether there is anything to do.
  bool schedule_ranks(Seconds now);
  int64_t poll_steps() const { return std::max<int64_t>(1, scheduler_options_.poll_steps); }
  /// When step `number` begins.
  static Seconds begin_of(const Flight& flight, size_t number) {
    return number == 0 ? flight.begin : flight.ends[number - 1];
  }
  Seconds shape_and_time(Flight& flight, Seconds& device);
  /// Different adapters of a batch.
  int64_t count_adapters(const std::vector<BatchItem>& batch);
  /// Until the adapters that the step needs have come from the host. As in vLLM, whose workers copy
  /// them before they run it, the step waits.
  Seconds load_adapters(Seconds now);
  size_t fetching() const;
  bool alike(const Flight& flight) const;
  void plan_more(Flight& flight, Seconds quiet_until);
  /// Steps for which the stretch's increments hold.
  int64_t plan_rank(EngineRank& rank, const std::vector<BatchItem>& batch, Stretch& stretch);
  void cut_plan(Seconds now);
  /// Takes the blocks of the first `steps` that are planned.
  void take_room(const Flight& flight, size_t steps);
  static size_t steps_begun(const Flight& flight, Seconds now);
  /// Hands out what the flight's steps gave.
  void stream(const Flight& flight);
  void end_flight(Flight& flight, std::vector<EndedSequence>& ended);
  void end_item(EngineRank& rank, const BatchItem& item, const Flight& flight,
                Seconds streamed_before, std::vector<EndedSequence>& ended, int64_t& on_time);
  /// Tokens that a step gives which checks so many drafts.
  int32_t accepted(const Sequence& sequence, int32_t draft_tokens) const;
  int64_t used_now() const;

  const StepTimes& times_;
  KvRoom room_;
  ReplicaOptions options_;
  Recorder& recorder_;
  StepLog log_;
  uint16_t index_;
  std::vector<std::unique_ptr<Scheduler>> policies_;  ///< One a rank.
  SchedulerOptions scheduler_options_;
  SequenceTable sequences_;
  std::vector<std::unique_ptr<EngineRank>> ranks_;
  size_t stages_ = 1;
  std::vector<Seconds> stage_free_;
  std::deque<Flight> flights_;
  size_t expected_ = 0;
  std::deque<Entry> entering_;
  Seconds last_entry_{-kNever.value};
  std::vector<Arrival> arrivals_;
  Seconds last_begin_;      ///< Of the last step that has ended.
  int64_t since_poll_ = 0;  ///< Decodes since the host last looked for arrivals.
  std::vector<Flight> unused_flights_;
  bool may_start_ = false;
  int64_t handed_over_ = 0;
  int64_t peak_ = 0;
  ReplicaUse use_;
  Seconds busy_until_;
  std::vector<Seconds> handed_out_;  ///< When the tokens of a flight's steps reached users.
  Seconds streamed_;                 ///< When the last token that was handed out reached its user.
  std::vector<StepShape> shapes_;
  std::vector<std::vector<PrefillChunk>> chunks_;
  std::vector<Stretch> stretches_;
  std::vector<uint32_t> seen_adapters_;
};

}  // namespace orrery
