#include "orrery/serving/fleet.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <queue>

#include "orrery/base/error.h"
#include "orrery/serving/event_times.h"
#include "orrery/serving/router.h"

namespace orrery {
namespace {

/// Keys and values under way to a decode engine.
struct Delivery {
  Seconds at;
  uint64_t order = 0;
  uint32_t id = 0;
  Request request;
  int32_t received = 0;
  uint16_t from = 0;
  uint32_t slot = 0;
  Replica* to = nullptr;

  bool operator>(const Delivery& other) const {
    return std::pair(at.value, order) > std::pair(other.at.value, other.order);
  }
};

class Pool {
 public:
  Pool(const ReplicaPool& spec, Recorder& recorder, const StepLog& log, uint16_t first,
       uint64_t seed, bool prefill_only)
      : router_(make_router(spec.router)), scaling_(spec.autoscaling) {
    router_->seed(seed);
    for (const ReplicaSpec& replica : spec.replicas) {
      if (replica.times == nullptr) throw_internal("a replica without step times");
      ReplicaOptions options = replica.options;
      options.prefill_only = prefill_only;
      replicas_.push_back(
          std::make_unique<Replica>(*replica.times, replica.room, options, recorder, log,
                                    static_cast<uint16_t>(first + replicas_.size())));
    }
    wanted_ = scales() ? std::min(static_cast<size_t>(scaling_.least), replicas_.size())
                       : replicas_.size();
    ready_.assign(replicas_.size(), kNever);
    std::fill(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(wanted_), Seconds(0));
  }

  bool can_serve(const Request& request) const {
    return std::any_of(replicas_.begin(), replicas_.end(),
                       [&](const auto& replica) { return replica->fits(request); });
  }
  /// The replica for the request, of those that could ever serve it and run, or with `surely` of
  /// all when none does; null where there is none.
  Replica* route(const Request& request, Seconds now, bool surely = false) {
    able_.clear();
    for (size_t i = 0; i < wanted_; ++i)
      if (ready_[i] <= now && replicas_[i]->fits(request)) able_.push_back(replicas_[i].get());
    for (size_t i = 0; able_.empty() && surely && i < replicas_.size(); ++i)
      if (replicas_[i]->fits(request)) able_.push_back(replicas_[i].get());
    if (able_.empty()) return nullptr;
    return able_[router_->choose(request, able_, now)];
  }

  Seconds next_review() const { return scales() ? next_review_ : kNever; }
  void review(Seconds now) {
    pay(now);
    next_review_ = now + scaling_.interval;
    size_t outstanding = 0;
    for (const auto& replica : replicas_) outstanding += replica->outstanding();
    const double wanted = std::ceil(static_cast<double>(outstanding) / scaling_.target);
    const auto most = static_cast<double>(replicas_.size());
    const auto least = std::min(static_cast<double>(scaling_.least), most);
    const auto count = static_cast<size_t>(std::clamp(wanted, least, most));
    for (; wanted_ < count; ++wanted_)
      if (ready_[wanted_] == kNever) ready_[wanted_] = now + scaling_.start_up;
    if (count == wanted_) fewer_since_ = kNever;
    if (count < wanted_) {
      fewer_since_ = std::min(fewer_since_, now);
      if (now - fewer_since_ >= scaling_.patience) wanted_ = count;
    }
    for (size_t i = wanted_; i < replicas_.size(); ++i)
      if (replicas_[i]->outstanding() == 0) ready_[i] = kNever;
  }
  /// Counts the time since it did so last.
  void pay(Seconds now) {
    const auto running =
        std::count_if(ready_.begin(), ready_.end(), [](Seconds ready) { return ready != kNever; });
    replica_seconds_ += static_cast<double>(running) * (now - paid_until_).value;
    paid_until_ = now;
  }
  double replica_seconds() const { return replica_seconds_; }
  const std::vector<std::unique_ptr<Replica>>& replicas() const { return replicas_; }

 private:
  bool scales() const { return scaling_.target > 0; }

  std::unique_ptr<Router> router_;
  Autoscaling scaling_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<Seconds> ready_;  ///< `kNever`: stopped.
  size_t wanted_ = 0;           ///< The first so many take requests.
  Seconds next_review_;
  Seconds fewer_since_ = kNever;
  Seconds paid_until_;
  double replica_seconds_ = 0;
  std::vector<Replica*> able_;
};

/// Counts who surely broke a promise.
class BrokenPromises {
 public:
  explicit BrokenPromises(const std::optional<GivingUp>& giving_up) : giving_up_(giving_up) {}

  void ended(uint32_t id, const RequestRecord& r) {
    if (!giving_up_ || id < giving_up_->first || r.state != RequestRecord::State::kDone) return;
    const ServiceLevel& level = giving_up_->level;
    if (level.tpot.value > 0 && r.output > 1 && r.tpot() > level.tpot) ++slow_tokens_;
    if (level.e2e.value > 0 && r.e2e() > level.e2e) ++slow_answers_;
  }
  /// Requests came in the order of their records: whoever came so long ago and has no first token
  /// yet will not get it in time.
  bool too_many(Seconds now, const std::vector<RequestRecord>& records) {
    if (!giving_up_) return false;
    const Seconds ttft = giving_up_->level.ttft;
    while (ttft.value > 0 && next_ < records.size() && records[next_].arrival + ttft < now) {
      const RequestRecord& r = records[next_];
      const bool late = r.first_token.value <= 0 || r.ttft() > ttft;
      if (next_ >= giving_up_->first && late) ++late_;
      ++next_;
    }
    return std::max({late_, slow_tokens_, slow_answers_}) > giving_up_->tolerated;
  }

 private:
  const std::optional<GivingUp>& giving_up_;
  size_t next_ = 0;
  size_t late_ = 0, slow_tokens_ = 0, slow_answers_ = 0;
};

class Fleet {
 public:
  Fleet(RequestSource& source, const FleetOptions& options)
      : source_(source),
        options_(options),
        recorder_(options.after_engine),
        log_(options.series_points, options.events, options.measured),
        broken_(options.giving_up),
        disaggregated_(!options.decode_pool.replicas.empty()),
        pool_(options.pool, recorder_, log_, 0, options.seed, disaggregated_),
        decode_pool_(options.decode_pool, recorder_, log_,
                     static_cast<uint16_t>(options.pool.replicas.size()), options.seed + 1, false) {
    for (const auto& replica : pool_.replicas()) replicas_.push_back(replica.get());
    links_.resize(options.pool.replicas.size() + options.decode_pool.replicas.size());
    for (const auto& replica : decode_pool_.replicas()) replicas_.push_back(replica.get());
    events_ = EventTimes(replicas_.size());
  }

  ServingRun run() {
    while (true) {
      const Seconds next = next_time();
      if (next == kNever) break;
      now_ = std::min({next, pool_.next_review(), decode_pool_.next_review()});
      if (now_ < last_) throw_internal("simulated time ran back");
      last_ = now_;
      touched_.clear();
      events_.add_due(now_, touched_);
      const size_t due = touched_.size();
      for (size_t i = 0; i < due; ++i) end_steps(touched_[i]);
      gave_up_ = broken_.too_many(now_, recorder_.records());
      if (gave_up_) break;
      if (pool_.next_review() <= now_) pool_.review(now_);
      if (decode_pool_.next_review() <= now_) decode_pool_.review(now_);
      deliver();
      arrivals();
      std::ranges::sort(touched_);
      touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
      for (const size_t i : touched_) {
        replicas_[i]->start_steps(now_, quiet_until(*replicas_[i]));
        events_.set(i, replicas_[i]->next_event());
      }
    }
    return result();
  }

 private:
  /// To be looked at when what is due now was: something came to the replica, or left it.
  void touch(const Replica* replica) {
    touched_.push_back(
        static_cast<size_t>(std::ranges::find(replicas_, replica) - replicas_.begin()));
  }

  /// When the next request comes to its engine.
  Seconds next_arrival() const { return source_.next_arrival() + options_.before_engine; }

  Seconds next_time() const {
    const Seconds next = std::min(next_arrival(), events_.earliest());
    return deliveries_.empty() ? next : std::min(next, deliveries_.top().at);
  }

  /// Each engine gets a share of the requests that come: until its own, at the pace so far. Of runs
  /// that are measured step times are sampled as they are asked for, so that nothing is asked there
  /// that the next request may make void.
  Seconds quiet_until(const Replica& replica) const {
    const Seconds entry = replica.next_entry(next_arrival());
    if (disaggregated_ || options_.measured)
      return std::min(entry, deliveries_.empty() ? kNever : deliveries_.top().at);
    const auto others = static_cast<double>(replicas_.size() - 1);
    const auto came = static_cast<double>(recorder_.records().size());
    return came > 0 ? entry + (now_ - first_arrival_) * (others / came) : entry;
  }

  void end_steps(size_t index) {
    ended_.clear();
    replicas_[index]->end_steps(now_, ended_);
    for (const EndedSequence& e : ended_) {
      if (e.handed_over) {
        hand_over(index, e);
        continue;
      }
      broken_.ended(e.id, recorder_.record(e.id));
      source_.ended(e.tag, recorder_.record(e.id).end);
      if (++done_ % 16384 == 0 && options_.progress) options_.progress(done_);
    }
  }

  void hand_over(size_t index, const EndedSequence& e) {
    Delivery d;
    d.order = deliveries_made_++;
    d.id = e.id;
    d.received = e.computed;
    d.from = static_cast<uint16_t>(index);
    d.slot = e.slot;
    const RequestRecord& record = recorder_.record(e.id);
    d.request.prompt = record.prompt;
    d.request.output = record.output;
    d.request.tag = e.tag;
    d.request.priority = e.priority;
    d.request.adapter = e.adapter;
    d.to = decode_pool_.route(d.request, now_, true);
    d.to->expect();
    const size_t first = options_.pool.replicas.size();
    const KvTransfer& out = options_.pool.replicas[index].transfer;
    const KvTransfer& in = options_.decode_pool.replicas[d.to->index() - first].transfer;
    const Bytes bytes = out.bytes_per_token * e.computed;
    const Seconds sent = links_[index].carry(now_, bytes, out.bandwidth);
    const Seconds received = links_[d.to->index()].carry(now_, bytes, in.bandwidth);
    d.at = std::max(sent, received) + std::max(out.latency, in.latency);
    deliveries_.push(d);
    replicas_[index]->log().transfer(
        {ServingEvent::Kind::kTransfer, d.from, sent - bytes / out.bandwidth, d.at, 0, e.computed});
  }

  void deliver() {
    while (!deliveries_.empty() && deliveries_.top().at <= now_) {
      const Delivery d = deliveries_.top();
      deliveries_.pop();
      replicas_[d.from]->release(d.slot);
      touched_.push_back(d.from);
      d.to->arrive(d.id, d.request, now_, d.received);
      touch(d.to);
    }
  }

  void arrivals() {
    while (next_arrival() <= now_) {
      if (recorder_.records().empty()) first_arrival_ = next_arrival();
      const Request request = source_.take();
      const uint32_t id = recorder_.arrive(request.arrival, request.prompt, request.output);
      Replica* replica = pool_.route(request, now_);
      if (replica == nullptr || (disaggregated_ && !decode_pool_.can_serve(request))) {
        recorder_.reject(id);
        source_.ended(request.tag, now_);
        continue;
      }
      replica->arrive(id, request, now_);
      touch(replica);
    }
  }

  ServingRun result() {
    ServingRun run;
    run.gave_up = gave_up_;
    pool_.pay(now_);
    decode_pool_.pay(now_);
    run.replica_seconds = pool_.replica_seconds() + decode_pool_.replica_seconds();
    for (Replica* replica : replicas_) {
      if (!gave_up_ && (replica->outstanding() > 0 || replica->used_blocks(now_) > 0))
        throw_internal("requests or blocks were left behind");
      run.kv_blocks += replica->blocks();
      run.kv_peak_blocks += replica->peak_blocks();
      run.host += replica->host_use();
      run.replicas.push_back(replica->use());
      log_.add(std::move(replica->log()));
    }
    run.steps = log_.steps();
    if (options_.measured)
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
  BrokenPromises broken_;
  bool gave_up_ = false;
  bool disaggregated_;
  Pool pool_;
  Pool decode_pool_;
  std::vector<Replica*> replicas_;
  std::vector<LinkWay> links_;   ///< Out of each prefill engine, into each decode engine.
  EventTimes events_{0};         ///< Of the replicas.
  std::vector<size_t> touched_;  ///< Replicas whose steps may end or begin now.
  std::priority_queue<Delivery, std::vector<Delivery>, std::greater<>> deliveries_;
  uint64_t deliveries_made_ = 0;
  std::vector<EndedSequence> ended_;
  Seconds now_;
  Seconds first_arrival_;
  Seconds last_;
  int64_t done_ = 0;
};

}  // namespace

namespace {

void check(const ReplicaPool& pool) {
  const Autoscaling& scaling = pool.autoscaling;
  if (!(scaling.target >= 0)) throw_usage("requests a replica must be 0 or more");
  if (scaling.target == 0) return;
  if (scaling.least < 1) throw_usage("one replica at least must run");
  if (!(scaling.interval.value > 0)) throw_usage("replicas must be counted after more than 0 s");
  if (!(scaling.start_up.value >= 0 && scaling.patience.value >= 0))
    throw_usage("replicas start and stop after 0 s or more");
}

}  // namespace

ServingRun run_fleet(RequestSource& source, const FleetOptions& options) {
  if (options.pool.replicas.empty()) throw_usage("a fleet has one replica at least");
  if (options.pool.replicas.size() + options.decode_pool.replicas.size() > 10000)
    throw_usage("a fleet has 10000 replicas at most");
  check(options.pool);
  check(options.decode_pool);
  const auto ships = [](const ReplicaSpec& replica) {
    const KvTransfer& t = replica.transfer;
    return t.bandwidth.value > 0 && t.bytes_per_token.value >= 0 && t.latency.value >= 0;
  };
  if (!options.decode_pool.replicas.empty() &&
      !(std::ranges::all_of(options.pool.replicas, ships) &&
        std::ranges::all_of(options.decode_pool.replicas, ships)))
    throw_usage("keys and values need a bandwidth above 0 to go from prefill to decode engines");
  if (!(options.before_engine.value >= 0 && options.after_engine.value >= 0))
    throw_usage("times before and after the engine are 0 or more");
  if (source.next_arrival() == kNever) throw_usage("there are no requests");
  return Fleet(source, options).run();
}

}  // namespace orrery
