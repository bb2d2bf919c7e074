#include "orrery/serving/replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "orrery/base/error.h"
#include "orrery/base/random_stream.h"

namespace orrery {
namespace {

constexpr size_t kLongestPlan = 1024;
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

/// What a request may find cached: with an adapter, what the same one computed.
KvKeys keys_of(const Request& request) {
  constexpr uint64_t kKeys = (uint64_t{1} << 62) - 1;
  uint64_t prefix = request.prefix;
  if (prefix != 0 && request.adapter != 0)
    prefix = std::max<uint64_t>(1, mixed_bits(prefix, request.adapter) & kKeys);
  return {prefix, request.conversation, std::min(request.prefix_tokens, request.prompt)};
}

void check(const HostOptions& host, const AdapterOptions& adapters) {
  if (host.blocks < 0 || !(host.block_bytes.value >= 0 && host.bandwidth.value >= 0))
    throw_usage("blocks on the host, their size and the link to it must be 0 or more");
  if (adapters.slots < 0 || adapters.slots > 65536 || !(adapters.bytes.value >= 0))
    throw_usage(
        fmt::format("slots for adapters must lie between 0 and 65536, not {}", adapters.slots));
  if ((host.blocks > 0 || adapters.slots > 0) && host.bandwidth.value == 0)
    throw_usage("what the host keeps needs a link with a bandwidth above 0");
}

}  // namespace

Replica::Replica(const StepTimes& times, const KvRoom& room, const ReplicaOptions& options,
                 Recorder& recorder, const StepLog& log, uint16_t index)
    : times_(times),
      room_(room),
      options_(options),
      recorder_(recorder),
      log_(log),
      index_(index),
      stages_(static_cast<size_t>(std::max(1, times.pipeline()))),
      stage_free_(stages_, Seconds(0)) {
  if (options.ranks < 1 || options.ranks > 65535)
    throw_usage(fmt::format("ranks of an engine must be 1 or more, not {}", options.ranks));
  const Speculation& speculation = options.speculation;
  if (speculation.draft_tokens < 0 || speculation.draft_tokens > 1024)
    throw_usage(
        fmt::format("draft tokens must lie between 0 and 1024, not {}", speculation.draft_tokens));
  if (!(speculation.acceptance >= 0 && speculation.acceptance <= 1))
    throw_usage(fmt::format("acceptance of draft tokens must lie between 0 and 1, not {}",
                            speculation.acceptance));
  if (!(options.stream.value >= 0)) throw_usage("time to hand out a token must be 0 or more");
  if (!(options.front_end.value >= 0)) throw_usage("time of the front end must be 0 or more");
  check(options.host, options.adapters);
  SchedulerOptions wanted = options.scheduler;
  wanted.draft_tokens = speculation.draft_tokens;
  for (int r = 0; r < options.ranks; ++r) {
    policies_.push_back(make_scheduler(options.scheduler.name));
    scheduler_options_ = policies_.back()->configure(wanted);
    ranks_.push_back(std::make_unique<EngineRank>(sequences_, room, policies_.back()->cache(),
                                                  scheduler_options_.by_priority, options.host,
                                                  options.adapters.slots));
    ranks_.back()->decode_tokens = 1 + speculation.draft_tokens;
  }
  if (options.host.blocks > 0 && !policies_.front()->cache().prefix_caching)
    throw_usage(fmt::format(
        "keys and values on the host are found by their prefix, and the scheduler {} "
        "{}",
        options.scheduler.name,
        options.scheduler.prefix_caching ? "was told not to look for any" : "looks for none"));
  shapes_.resize(ranks_.size());
  chunks_.resize(ranks_.size());
  stretches_.resize(ranks_.size());
}

bool Replica::fits(const Request& request) const {
  const int64_t total = int64_t{request.prompt} + request.output;
  const int64_t told = scheduler_options_.max_length;
  const int64_t longest = told > 0 ? told : options_.positions;
  if (longest > 0 && total > longest) return false;
  return policies_.front()->fits(room_, request.prompt, options_.prefill_only ? 1 : request.output);
}

size_t Replica::waiting() const { return entering_.size() + arrivals_.size() + queued(); }

size_t Replica::queued() const {
  size_t sum = 0;
  for (const auto& rank : ranks_) sum += rank->waiting.size();
  return sum;
}

int64_t Replica::used_now() const {
  int64_t sum = 0;
  for (const auto& rank : ranks_) sum += rank->kv.used();
  return sum;
}

int64_t Replica::used_blocks(Seconds now) const {
  if (flights_.size() != 1 || flights_.front().ends.size() < 2) return used_now();
  const Flight& flight = flights_.front();
  return flight.used[steps_begun(flight, now) - 1];
}

int64_t Replica::cached_tokens(const Request& request, Seconds now) {
  if (!flights_.empty()) take_room(flights_.back(), steps_begun(flights_.back(), now));
  const KvKeys keys = keys_of(request);
  int64_t most = 0;
  for (const auto& rank : ranks_) most = std::max(most, rank->kv.cached(keys, request.prompt - 1));
  return most;
}

uint16_t Replica::rank_for(const Request& request, Seconds now) {
  if (!flights_.empty()) take_room(flights_.back(), steps_begun(flights_.back(), now));
  const KvKeys keys = keys_of(request);
  // As vLLM balances its data-parallel engines: who waits counts four times. Where a conversation
  // is cached it goes on.
  uint16_t best = 0;
  std::pair<int64_t, size_t> best_score;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    const EngineRank& rank = *ranks_[r];
    const int64_t cached = request.conversation == 0 ? 0 : rank.kv.cached(keys, request.prompt - 1);
    const auto coming = static_cast<size_t>(std::ranges::count(
        arrivals_, r, [&](const Arrival& a) { return size_t{sequences_[a.slot].rank}; }));
    const std::pair score(-cached, 4 * (rank.waiting.size() + coming) + rank.running.size());
    if (r > 0 && score >= best_score) continue;
    best = static_cast<uint16_t>(r);
    best_score = score;
  }
  return best;
}

void Replica::arrive(uint32_t id, const Request& request, Seconds now, int32_t received) {
  ++use_.requests;
  if (received > 0) --expected_;
  last_entry_ = std::max(now, last_entry_ + options_.front_end);
  if (received == 0 && last_entry_ > now)
    entering_.push_back({last_entry_, id, request});
  else
    enter(id, request, now, received);
}

Seconds Replica::next_entry(Seconds next_arrival) const {
  return entering_.empty() ? std::max(next_arrival, last_entry_ + options_.front_end)
                           : entering_.front().at;
}

void Replica::enter(uint32_t id, const Request& request, Seconds now, int32_t received) {
  cut_plan(now);
  Sequence s;
  s.id = id;
  s.tag = request.tag;
  s.prompt = request.prompt;
  s.output = request.output;
  s.priority = request.priority;
  s.adapter = request.adapter;
  s.keys = keys_of(request);
  s.prefill_only = options_.prefill_only && request.output > 1;
  if (s.prefill_only) s.output = 1;
  if (received > 0) {
    s.generated = 1;
    s.received = received;
  }
  if (ranks_.size() > 1) s.rank = rank_for(request, now);
  arrivals_.push_back({sequences_.add(s), now});
  may_start_ = true;
}

void Replica::receive(bool idle) {
  if (arrivals_.empty() || (!idle && since_poll_ != 0)) return;
  const bool late = options_.ahead && stages_ == 1 && !idle;
  std::erase_if(arrivals_, [&](const Arrival& arrival) {
    if (late && arrival.since > last_begin_) return false;
    const Sequence& s = sequences_[arrival.slot];
    ranks_[s.rank]->waiting.arrive(arrival.slot, s);
    return true;
  });
}

Seconds Replica::next_event() const {
  Seconds end = flights_.empty() ? kNever : flights_.front().ends.back();
  if (options_.host.blocks > 0)
    for (const auto& rank : ranks_)
      if (!rank->fetches.empty()) end = std::min(end, rank->fetches.front().end);
  if (!entering_.empty()) end = std::min(end, entering_.front().at);
  if (!may_start_ || flights_.size() >= stages_) return end;
  return std::min(end, stage_free_.front());
}

Seconds Replica::shape_and_time(Flight& flight, Seconds& device) {
  const int64_t window = times_.window();
  int64_t group_tokens = 0, fullest_rank = 0;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    StepShape& shape = shapes_[r];
    std::vector<PrefillChunk>& chunks = chunks_[r];
    shape = {};
    chunks.clear();
    shape.tokens_per_decode = 1 + options_.speculation.draft_tokens;
    for (const BatchItem& item : flight.batches[r]) {
      Sequence& s = sequences_[item.slot];
      s.in_flight = true;
      if (!s.scheduled) {
        s.scheduled = true;
        if (s.generated > 0) {
          // What another engine has begun reaches the user through this one.
          streamed_ = std::max(streamed_, flight.begin) + options_.stream;
          recorder_.first_token(s.id, streamed_);
          s.last_token = streamed_;
        } else {
          RequestRecord& record = recorder_.record(s.id);
          record.scheduled = flight.begin;
          record.cached = s.computed;
          record.replica = index_;
        }
      }
      if (!s.decoding()) {
        chunks.push_back({item.tokens, s.computed, item.tokens == s.pending()});
        flight.prefill_tokens += item.tokens;
        if (chunks.back().last && !s.prefill_only) ++flight.answers;
        continue;
      }
      const int64_t context = s.computed + item.tokens;
      ++shape.decodes;
      shape.decode_context += context;
      if (window > 0) shape.windowed_context += std::min(context, window);
      shape.longest_decode = std::max(shape.longest_decode, context);
    }
    shape.prefills = chunks;
    if (ranks_[r]->adapters != nullptr) shape.adapters = count_adapters(flight.batches[r]);
    flight.decodes += static_cast<int32_t>(shape.decodes);
    flight.answers += static_cast<int32_t>(shape.decodes);
    group_tokens += shape.tokens();
    fullest_rank = std::max(fullest_rank, shape.tokens());
  }
  StepTime slowest;
  for (StepShape& shape : shapes_) {
    if (ranks_.size() > 1) {
      shape.group_tokens = group_tokens;
      shape.fullest_rank = fullest_rank;
    }
    if (shape.decodes == 0 && shape.prefills.empty()) continue;
    const StepTime time = times_.of(shape);
    slowest.device = std::max(slowest.device, time.device);
    slowest.launch = std::max(slowest.launch, time.launch);
    slowest.host = std::max(slowest.host, time.host);
  }
  device = slowest.device;
  return slowest.duration(options_.asynchronous);
}

int64_t Replica::count_adapters(const std::vector<BatchItem>& batch) {
  seen_adapters_.clear();
  for (const BatchItem& item : batch)
    if (const uint32_t adapter = sequences_[item.slot].adapter; adapter != 0)
      seen_adapters_.push_back(adapter);
  std::ranges::sort(seen_adapters_);
  // Not of std::ranges, whose subranges clang 14 cannot read in this library.
  return std::unique(seen_adapters_.begin(), seen_adapters_.end()) - seen_adapters_.begin();
}

Seconds Replica::load_adapters(Seconds now) {
  Seconds longest;
  for (const auto& rank : ranks_) {
    const auto loads = static_cast<double>(rank->adapters->take_loads());
    if (loads > 0)
      longest = std::max(longest, rank->link.to_device(now, options_.adapters.bytes * loads) - now);
  }
  return longest;
}

size_t Replica::fetching() const {
  size_t sum = 0;
  for (const auto& rank : ranks_) sum += rank->fetches.size();
  return sum;
}

HostUse Replica::host_use() const {
  HostUse use;
  if (options_.host.bandwidth.value == 0) return use;
  for (const auto& rank : ranks_) {
    ++use.links;
    use.to_device += rank->link.in().bytes();
    use.to_host += rank->link.out().bytes();
    use.to_device_busy += rank->link.in().busy();
    use.to_host_busy += rank->link.out().busy();
    if (rank->adapters != nullptr) use.adapter_loads += rank->adapters->loads();
    if (rank->host == nullptr) continue;
    use.blocks += rank->host->blocks();
    use.peak_blocks += rank->host->peak();
    use.hit_tokens += rank->host->hit_tokens();
  }
  return use;
}

HostUse& HostUse::operator+=(const HostUse& other) {
  blocks += other.blocks;
  peak_blocks += other.peak_blocks;
  hit_tokens += other.hit_tokens;
  links += other.links;
  to_device += other.to_device;
  to_host += other.to_host;
  to_device_busy += other.to_device_busy;
  to_host_busy += other.to_host_busy;
  adapter_loads += other.adapter_loads;
  return *this;
}

void Replica::start_steps(Seconds now, Seconds quiet_until) {
  for (; !entering_.empty() && entering_.front().at <= now; entering_.pop_front())
    enter(entering_.front().id, entering_.front().request, now, 0);
  if (!may_start_ || flights_.size() >= stages_ || stage_free_.front() > now) return;
  if (unused_flights_.empty()) {
    unused_flights_.emplace_back();
    unused_flights_.back().batches.resize(ranks_.size());
  }
  receive(std::ranges::all_of(ranks_, [](const auto& rank) { return rank->running.empty(); }));
  bool any = schedule_ranks(now);
  if (!any && !arrivals_.empty()) {
    receive(true);
    any = schedule_ranks(now);
  }
  if (!any) {
    may_start_ = false;
    if (flights_.empty() && handed_over_ == 0 && queued() > 0 && fetching() == 0)
      throw_internal(
          fmt::format("scheduler '{}' admits nobody to an idle engine", scheduler_options_.name));
    return;
  }
  flights_.push_back(std::move(unused_flights_.back()));
  unused_flights_.pop_back();
  Flight& flight = flights_.back();
  for (size_t r = 0; r < ranks_.size(); ++r) std::swap(flight.batches[r], ranks_[r]->batch);
  flight.begin = now;
  flight.decodes = 0;
  flight.prefill_tokens = 0;
  flight.answers = 0;
  flight.waiting = queued();
  Seconds device;
  Seconds end = now + shape_and_time(flight, device);
  if (options_.adapters.slots > 0) end += load_adapters(now);
  stage_free_.front() = end;
  for (size_t stage = 1; stage < stages_; ++stage) {
    end = std::max(end, stage_free_[stage]) + device;
    stage_free_[stage] = end;
  }
  flight.ends.assign(1, end);
  flight.used.assign(1, used_now());
  if (alike(flight)) plan_more(flight, quiet_until);
}

bool Replica::schedule_ranks(Seconds now) {
  // Who throws out itself leaves room for others.
  bool any = false;
  bool again = true;
  while (!any && again) {
    again = false;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      EngineRank& rank = *ranks_[r];
      rank.preempted.clear();
      rank.batch.clear();
      rank.now = now;
      policies_[r]->schedule(rank);
      any = any || !rank.batch.empty();
      again = again || !rank.preempted.empty();
      for (const uint32_t slot : rank.preempted)
        ++recorder_.record(sequences_[slot].id).preemptions;
    }
    // Who waits with blocks gives them back where nobody could go on otherwise.
    if (!any && !again && flights_.empty() && options_.host.blocks > 0)
      for (const auto& rank : ranks_) again = rank->give_up_fetch() || again;
  }
  return any;
}

bool Replica::alike(const Flight& flight) const {
  if (options_.step_by_step || stages_ > 1 || flight.prefill_tokens > 0 ||
      options_.speculation.draft_tokens > 0)
    return false;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    const EngineRank& rank = *ranks_[r];
    if (!rank.preempted.empty() || flight.batches[r].size() != rank.running.size()) return false;
    // What the device evicts may then have to come from the host, of those passed over too.
    const size_t waiting = rank.waiting.size();
    if (rank.host != nullptr && waiting > 0) return false;
  }
  return true;
}

int64_t Replica::plan_rank(EngineRank& rank, const std::vector<BatchItem>& batch,
                           Stretch& stretch) {
  const int64_t window = times_.window();
  int64_t horizon = kNoLimit;
  stretch.growing = 0;
  stretch.free = rank.kv.free();
  stretch.growth.assign(static_cast<size_t>(room_.tokens), 0);
  for (const BatchItem& item : batch) {
    const Sequence& s = sequences_[item.slot];
    const int64_t tokens = s.tokens();
    const int64_t left = s.output - s.generated;
    horizon = std::min(horizon, left - 1);
    if (window > 0 && tokens < window) {
      ++stretch.growing;
      horizon = std::min(horizon, window - tokens);
    }
    const int64_t spare = s.holding.tokens - tokens;
    if (spare >= left) continue;
    if (spare >= room_.tokens) {
      horizon = std::min(horizon, spare);
      continue;
    }
    int64_t blocks = 1;
    if (room_.windowed > 0 && tokens <= room_.window) {
      blocks = rank.kv.growth(s.holding, s.holding.tokens + 1);
      horizon = std::min(horizon, room_.tokens);
    }
    stretch.growth[static_cast<size_t>(spare)] += blocks;
  }
  return horizon;
}

void Replica::plan_more(Flight& flight, Seconds quiet_until) {
  int64_t horizon = kLongestPlan - 1;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    horizon = std::min({horizon, plan_rank(*ranks_[r], flight.batches[r], stretches_[r]),
                        policies_[r]->alike_steps(*ranks_[r])});
    stretches_[r].shape = shapes_[r];
    stretches_[r].taken = stretches_[r].line.steps;  // none is left
    if (!ranks_[r]->fetches.empty())
      quiet_until = std::min(quiet_until, ranks_[r]->fetches.front().end);
  }
  if (!arrivals_.empty()) horizon = std::min(horizon, poll_steps() - since_poll_ - 1);
  int64_t used = flight.used.front();
  size_t phase = 0;
  for (int64_t step = 1; step <= horizon; ++step) {
    const Seconds begin = flight.ends.back();
    if (begin >= quiet_until) break;
    bool room = true;
    for (const Stretch& stretch : stretches_) room = room && stretch.growth[phase] <= stretch.free;
    if (!room) break;
    StepTime slowest;
    for (Stretch& stretch : stretches_) {
      stretch.free -= stretch.growth[phase];
      used += stretch.growth[phase];
      StepShape& shape = stretch.shape;
      if (shape.decodes == 0) continue;
      shape.decode_context += shape.decodes;
      shape.windowed_context += stretch.growing;
      ++shape.longest_decode;
      StepLine& line = stretch.line;
      if (stretch.taken == line.steps) {
        // Who counts what is asked could not tell ranks apart that are asked ahead in turn.
        line = stretches_.size() == 1 ? times_.ahead(shape, stretch.growing)
                                      : StepLine{times_.of(shape)};
        stretch.taken = 0;
      }
      const auto further = static_cast<double>(stretch.taken++);
      slowest.device = std::max(slowest.device, line.first.device + line.slope * further);
      slowest.launch = std::max(slowest.launch, line.first.launch);
      slowest.host = std::max(slowest.host, line.first.host);
    }
    flight.ends.push_back(begin + slowest.duration(options_.asynchronous));
    flight.used.push_back(used);
    if (++phase == static_cast<size_t>(room_.tokens)) phase = 0;
  }
  if (stretches_.size() == 1)
    times_.not_taken(stretches_.front().line.steps - stretches_.front().taken);
  stage_free_.front() = flight.ends.back();
}

void Replica::cut_plan(Seconds now) {
  if (flights_.empty() || flights_.back().ends.size() < 2) return;
  Flight& flight = flights_.back();
  // The host looks for arrivals every so many steps, when one ends or begins.
  const auto seen = [&](size_t steps) {
    if ((since_poll_ + static_cast<int64_t>(steps)) % poll_steps() != 0) return false;
    return (options_.ahead ? begin_of(flight, steps - 1) : flight.ends[steps - 1]) >= now;
  };
  size_t kept = 1;
  while (kept < flight.ends.size() && !seen(kept)) ++kept;
  flight.ends.resize(kept);
  flight.used.resize(kept);
  stage_free_.front() = flight.ends.back();
}

void Replica::take_room(const Flight& flight, size_t steps) {
  if (steps < 2) return;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    for (const BatchItem& item : flight.batches[r]) {
      Sequence& s = sequences_[item.slot];
      if (!ranks_[r]->kv.grow(s.holding, s.tokens() + static_cast<int64_t>(steps) - 1))
        throw_internal("steps were planned without room for them");
    }
  }
}

size_t Replica::steps_begun(const Flight& flight, Seconds now) {
  const auto at = std::lower_bound(flight.ends.begin(), flight.ends.end(), now);
  return std::min(static_cast<size_t>(at - flight.ends.begin()) + 1, flight.ends.size());
}

void Replica::end_steps(Seconds now, std::vector<EndedSequence>& ended) {
  for (const auto& rank : ranks_) {
    if (rank->fetches.empty() || rank->fetches.front().end > now) continue;
    rank->end_fetches(now);
    may_start_ = true;
  }
  while (!flights_.empty() && flights_.front().ends.back() <= now) {
    const Flight& flight = flights_.front();
    last_begin_ = begin_of(flight, flight.ends.size() - 1);
    since_poll_ = flight.prefill_tokens > 0
                      ? 0
                      : (since_poll_ + static_cast<int64_t>(flight.ends.size())) % poll_steps();
    end_flight(flights_.front(), ended);
    unused_flights_.push_back(std::move(flights_.front()));
    flights_.pop_front();
    may_start_ = true;
  }
}

void Replica::end_flight(Flight& flight, std::vector<EndedSequence>& ended) {
  ServingEvent event;
  event.replica = index_;
  event.end = flight.begin;
  event.decodes = flight.decodes;
  event.prefill_tokens = flight.prefill_tokens;
  for (size_t step = 0; step < flight.ends.size(); ++step) {
    event.begin = event.end;
    event.end = flight.ends[step];
    log_.step(event, flight.used[step], blocks(), flight.waiting);
    peak_ = std::max(peak_, flight.used[step]);
  }
  use_.prompt_tokens += flight.prefill_tokens;
  use_.busy += flight.ends.back() - std::max(flight.begin, busy_until_);
  busy_until_ = flight.ends.back();
  const Seconds streamed_before = streamed_;
  stream(flight);
  take_room(flight, flight.ends.size());
  // Tokens that follow the last ones handed out: one interval for them all.
  int64_t on_time = 0;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    EngineRank& rank = *ranks_[r];
    if (flight.ends.size() > 1)
      policies_[r]->repeated(static_cast<int64_t>(flight.ends.size()) - 1);
    const size_t before = ended.size();
    for (const BatchItem& item : flight.batches[r])
      end_item(rank, item, flight, streamed_before, ended, on_time);
    if (ended.size() == before) continue;
    std::erase_if(rank.running,
                  [&](uint32_t slot) { return sequences_[slot].state == Sequence::State::kEnded; });
    for (size_t i = before; i < ended.size(); ++i)
      if (!ended[i].handed_over) sequences_.remove(ended[i].slot);
  }
  if (on_time > 0) log_.between_tokens(handed_out_.front() - streamed_before, on_time);
  for (size_t step = 1; log_.kept() && step < handed_out_.size(); ++step)
    log_.between_tokens(handed_out_[step] - handed_out_[step - 1], flight.decodes);
}

void Replica::stream(const Flight& flight) {
  const Seconds each = options_.stream * static_cast<double>(flight.answers);
  handed_out_.resize(flight.ends.size());
  for (size_t i = 0; i < flight.ends.size(); ++i) {
    streamed_ = std::max(streamed_, flight.ends[i]) + each;
    handed_out_[i] = streamed_;
  }
}

void Replica::end_item(EngineRank& rank, const BatchItem& item, const Flight& flight,
                       Seconds streamed_before, std::vector<EndedSequence>& ended,
                       int64_t& on_time) {
  Sequence& s = sequences_[item.slot];
  if (s.admission != item.admission) return;
  const auto steps = static_cast<int32_t>(flight.ends.size());
  s.in_flight = false;
  const bool first = s.generated == 0;
  int32_t tokens = steps;
  if (s.decoding()) {
    if (item.tokens > 1) tokens = std::min(accepted(s, item.tokens - 1), s.output - s.generated);
    s.computed += tokens;
  } else {
    s.computed += item.tokens;
    rank.write_out(s, flight.ends.back());
    if (s.computed < s.tokens()) return;
  }
  s.generated += tokens;
  use_.output_tokens += tokens;
  const Seconds end = flight.ends.back();
  if (first) {
    if (!s.prefill_only) recorder_.first_token(s.id, streamed_);
  } else if (s.last_token == streamed_before) {
    ++on_time;
  } else {
    log_.between_tokens(handed_out_.front() - s.last_token, 1);
  }
  s.last_token = streamed_;
  if (s.generated < s.output) return;
  EndedSequence e;
  e.id = s.id;
  e.tag = s.tag;
  e.slot = item.slot;
  e.priority = s.priority;
  e.adapter = s.adapter;
  e.handed_over = s.prefill_only;
  s.state = Sequence::State::kEnded;
  rank.write_out(s, end);
  if (rank.adapters != nullptr) rank.adapters->leave(s.adapter);
  if (e.handed_over) {
    e.computed = s.computed;
    ++handed_over_;
  } else {
    recorder_.end(s.id, streamed_);
    rank.kv.release(s.holding, s.keys, s.computed);
  }
  ended.push_back(e);
}

int32_t Replica::accepted(const Sequence& s, int32_t draft_tokens) const {
  const Speculation& speculation = options_.speculation;
  RandomStream random(mixed_bits(speculation.seed, s.id), static_cast<uint64_t>(s.generated));
  int32_t tokens = 1;
  while (tokens <= draft_tokens && random.uniform() < speculation.acceptance) ++tokens;
  return tokens;
}

void Replica::release(uint32_t slot) {
  Sequence& s = sequences_[slot];
  ranks_[s.rank]->kv.release(s.holding, s.keys, s.computed);
  sequences_.remove(slot);
  --handed_over_;
  may_start_ = true;
}

}  // namespace orrery
