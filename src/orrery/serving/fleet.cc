#include "orrery/serving/fleet.h"

#include <algorithm>
#include <memory>
#include <queue>

#include "orrery/base/error.h"
#include "orrery/serving/router.h"

namespace orrery {
namespace {

/// Keys and values under way to a decode engine.
struct Delivery {
  Seconds at;
  uint64_t order = 0;
  uint32_t id = 0;
  Request request;
  int32_t computed = 0;
  uint16_t from = 0;
  uint32_t slot = 0;

  bool operator>(const Delivery& other) const {
    return std::pair(at.value, order) > std::pair(other.at.value, other.order);
  }
};

class Pool {
 public:
  Pool(const ReplicaPool& spec, Recorder& recorder, const StepLog& log, uint16_t first,
       uint64_t seed, bool prefill_only)
      : router_(make_router(spec.router)) {
    router_->seed(seed);
    for (const ReplicaSpec& replica : spec.replicas) {
      if (replica.times == nullptr) throw_internal("a replica without step times");
      ReplicaOptions options = replica.options;
      options.prefill_only = prefill_only;
      replicas_.push_back(
          std::make_unique<Replica>(*replica.times, replica.room, options, recorder, log,
                                    static_cast<uint16_t>(first + replicas_.size())));
      all_.push_back(replicas_.back().get());
    }
  }

  bool can_serve(const Request& request) const {
    return std::any_of(all_.begin(), all_.end(),
                       [&](const Replica* replica) { return replica->fits(request); });
  }
  /// The replica for the request, of those that could ever serve it; null where there is none.
  Replica* route(const Request& request, Seconds now) {
    able_.clear();
    for (Replica* replica : all_)
      if (replica->fits(request)) able_.push_back(replica);
    if (able_.empty()) return nullptr;
    return able_[router_->choose(request, able_, now)];
  }
  const std::vector<Replica*>& replicas() const { return all_; }

 private:
  std::unique_ptr<Router> router_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<Replica*> all_;
  std::vector<Replica*> able_;
};

class Fleet {
 public:
  Fleet(RequestSource& source, const FleetOptions& options)
      : source_(source),
        options_(options),
        recorder_(options.after_engine),
        log_(options.series_points, options.events),
        disaggregated_(!options.decode_pool.replicas.empty()),
        pool_(options.pool, recorder_, log_, 0, options.seed, disaggregated_),
        decode_pool_(options.decode_pool, recorder_, log_,
                     static_cast<uint16_t>(options.pool.replicas.size()), options.seed + 1, false) {
    for (Replica* replica : pool_.replicas()) replicas_.push_back(replica);
    for (Replica* replica : decode_pool_.replicas()) replicas_.push_back(replica);
  }

  ServingRun run() {
    while (true) {
      const Seconds now = next_time();
      if (now == kNever) break;
      if (now < now_) throw_internal("simulated time ran back");
      now_ = now;
      for (size_t i = 0; i < replicas_.size(); ++i) end_steps(i);
      deliver();
      arrivals();
      const Seconds until = std::min(source_.next_arrival() + options_.before_engine,
                                     deliveries_.empty() ? kNever : deliveries_.top().at);
      for (Replica* replica : replicas_) replica->start_steps(now_, until);
    }
    return result();
  }

 private:
  Seconds next_time() const {
    Seconds next = source_.next_arrival() + options_.before_engine;
    if (!deliveries_.empty()) next = std::min(next, deliveries_.top().at);
    for (const Replica* replica : replicas_) next = std::min(next, replica->next_event());
    return next;
  }

  void end_steps(size_t index) {
    ended_.clear();
    replicas_[index]->end_steps(now_, ended_);
    for (const EndedSequence& e : ended_) {
      if (e.handed_over) {
        hand_over(index, e);
        continue;
      }
      source_.ended(e.tag, now_ + options_.after_engine);
      if (++done_ % 16384 == 0 && options_.progress) options_.progress(done_);
    }
  }

  void hand_over(size_t index, const EndedSequence& e) {
    Delivery d;
    const KvTransfer& t = options_.transfer;
    const Bytes bytes = t.bytes_per_token * e.computed;
    d.at = now_ + t.latency + bytes / t.bandwidth;
    d.order = deliveries_made_++;
    d.id = e.id;
    d.computed = e.computed;
    d.from = static_cast<uint16_t>(index);
    d.slot = e.slot;
    const RequestRecord& record = recorder_.record(e.id);
    d.request.prompt = record.prompt;
    d.request.output = record.output;
    d.request.tag = e.tag;
    deliveries_.push(d);
    replicas_[index]->log().transfer(
        {ServingEvent::Kind::kTransfer, d.from, now_, d.at, 0, e.computed});
  }

  void deliver() {
    while (!deliveries_.empty() && deliveries_.top().at <= now_) {
      const Delivery d = deliveries_.top();
      deliveries_.pop();
      replicas_[d.from]->release(d.slot);
      decode_pool_.route(d.request, now_)->arrive(d.id, d.request, now_, d.computed);
    }
  }

  void arrivals() {
    while (source_.next_arrival() + options_.before_engine <= now_) {
      const Request request = source_.take();
      const uint32_t id = recorder_.arrive(request.arrival, request.prompt, request.output);
      Replica* replica = pool_.route(request, now_);
      if (replica == nullptr || (disaggregated_ && !decode_pool_.can_serve(request))) {
        recorder_.reject(id);
        source_.ended(request.tag, now_);
        continue;
      }
      replica->arrive(id, request, now_);
    }
  }

  ServingRun result() {
    ServingRun run;
    for (Replica* replica : replicas_) {
      if (replica->outstanding() > 0 || replica->used_blocks(now_) > 0)
        throw_internal("requests or blocks were left behind");
      run.kv_blocks += replica->blocks();
      run.kv_peak_blocks += replica->peak_blocks();
      log_.add(std::move(replica->log()));
    }
    run.steps = log_.steps();
    run.metrics =
        measure(recorder_.records(), log_.intervals(), options_.promise, options_.trimming);
    if (log_.busy().value > 0) run.kv_mean_use = log_.full_seconds() / log_.busy().value;
    run.series = log_.series();
    run.events = log_.events();
    run.requests = recorder_.take_records();
    return run;
  }

  RequestSource& source_;
  const FleetOptions& options_;
  Recorder recorder_;
  StepLog log_;
  bool disaggregated_;
  Pool pool_;
  Pool decode_pool_;
  std::vector<Replica*> replicas_;
  std::priority_queue<Delivery, std::vector<Delivery>, std::greater<>> deliveries_;
  uint64_t deliveries_made_ = 0;
  std::vector<EndedSequence> ended_;
  Seconds now_;
  int64_t done_ = 0;
};

}  // namespace

ServingRun run_fleet(RequestSource& source, const FleetOptions& options) {
  if (options.pool.replicas.empty()) throw_usage("a fleet has one replica at least");
  if (options.pool.replicas.size() + options.decode_pool.replicas.size() > 10000)
    throw_usage("a fleet has 10000 replicas at most");
  if (!options.decode_pool.replicas.empty() &&
      !(options.transfer.bandwidth.value > 0 && options.transfer.bytes_per_token.value >= 0 &&
        options.transfer.latency.value >= 0))
    throw_usage("keys and values need a bandwidth above 0 to go from prefill to decode engines");
  if (!(options.before_engine.value >= 0 && options.after_engine.value >= 0))
    throw_usage("times before and after the engine are 0 or more");
  if (source.next_arrival() == kNever) throw_usage("there are no requests");
  return Fleet(source, options).run();
}

}  // namespace orrery
