#include "orrery/serving/scheduler.h"

#include <fmt/format.h>

#include <algorithm>

namespace orrery {
namespace {

/// What a preempted sequence that belongs to no conversation may find again itself.
uint64_t own_conversation(uint32_t id) { return (uint64_t{1} << 62) | id; }

}  // namespace

EngineRank::EngineRank(SequenceTable& sequences, const KvRoom& room, const KvCacheOptions& cache,
                       bool by_priority, const HostOptions& host, int adapter_slots)
    : sequences(sequences),
      kv(room, cache),
      link(host.bandwidth),
      host(host.blocks > 0 ? std::make_unique<HostMemory>(host, room) : nullptr),
      adapters(adapter_slots > 0 ? std::make_unique<AdapterSlots>(adapter_slots) : nullptr),
      waiting(by_priority, adapters.get()),
      by_priority(by_priority) {}

bool EngineRank::schedule(uint32_t slot, int32_t tokens) {
  Sequence& s = sequences[slot];
  const int32_t end = s.computed + tokens;
  if (!kv.grow(s.holding, end)) return false;
  if (s.computed < s.keys.prefix_tokens) kv.share_prefix(s.holding, s.keys, end);
  batch.push_back({slot, tokens, s.admission});
  return true;
}

bool EngineRank::schedule_by_force(size_t& position, int32_t tokens) {
  const uint32_t slot = running[position];
  while (!schedule(slot, tokens)) {
    size_t victim = running.size() - 1;
    for (size_t i = victim; by_priority && i-- > 0;) {
      const Sequence& s = sequences[running[i]];
      const Sequence& worst = sequences[running[victim]];
      if (std::pair(s.priority, s.id) > std::pair(worst.priority, worst.id)) victim = i;
    }
    const bool itself = victim == position;
    preempt(victim);
    if (itself) return false;
    if (victim < position) --position;
  }
  return true;
}

int32_t EngineRank::to_compute(const Sequence& s) const {
  if (s.received > 0) return s.tokens() - s.received;
  if (host == nullptr) return s.tokens() - static_cast<int32_t>(kv.cached(s.keys, s.tokens() - 1));
  const Known found = known(s);
  return found.reach > found.on_device ? 0 : s.tokens() - static_cast<int32_t>(found.on_device);
}

EngineRank::Known EngineRank::known(const Sequence& s) const {
  const int64_t on_device = kv.cached(s.keys, s.tokens() - 1);
  return {on_device, host->reach(s.keys, s.tokens() - 1, on_device)};
}

bool EngineRank::fetch_first(const Known& known, int64_t spare, int64_t reserve) {
  const uint32_t slot = waiting.front();
  Sequence& s = sequences[slot];
  // With room for all its tokens it will not wait for blocks again.
  const int64_t end = std::max<int64_t>(reserve, s.tokens());
  if (!kv.can_start(s.keys, s.tokens() - 1, end, spare)) return false;
  waiting.pop_front();
  kv.attach(s.holding, s.keys, s.tokens() - 1);
  if (!kv.grow(s.holding, end)) throw_internal("room for keys and values went missing");
  s.received = static_cast<int32_t>(known.reach);
  fetches.push_back({host->load(s.keys, known.on_device, known.reach, now, link), slot});
  return true;
}

void EngineRank::end_fetches(Seconds at) {
  while (!fetches.empty() && fetches.front().end <= at) {
    const uint32_t slot = fetches.front().slot;
    Sequence& s = sequences[slot];
    kv.share_prefix(s.holding, s.keys, s.received);
    waiting.come_back(slot, s);
    fetches.pop_front();
  }
}

bool EngineRank::give_up_fetch() {
  Sequence* last = nullptr;
  waiting.for_each([&](uint32_t slot) {
    if (sequences[slot].holding.blocks() > 0) last = &sequences[slot];
    return true;
  });
  if (last == nullptr) return false;
  kv.release(last->holding, last->keys, last->received);
  last->received = 0;
  return true;
}

void EngineRank::write_out(const Sequence& s, Seconds at) {
  if (host == nullptr) return;
  KvKeys keys = s.keys;
  if (keys.conversation == 0) keys.conversation = own_conversation(s.id);
  host->store(keys, s.computed, at, link);
}

bool EngineRank::first_fits() const {
  const Sequence& s = sequences[waiting.front()];
  return s.received > 0 || kv.can_start(s.keys, s.tokens() - 1, s.tokens(), 0);
}

bool EngineRank::admit_first(int32_t tokens, int64_t spare, int64_t reserve) {
  const uint32_t slot = waiting.front();
  Sequence& s = sequences[slot];
  if (host != nullptr && s.received == 0) {
    const Known found = known(s);
    if (found.reach > found.on_device) return fetch_first(found, spare, reserve);
  }
  const int64_t end = std::max<int64_t>(reserve, s.tokens() - to_compute(s) + tokens);
  const KvKeys none;
  const KvKeys& keys = s.received > 0 ? none : s.keys;
  const bool held = s.holding.blocks() > 0 && kv.growth(s.holding, end) == 0;
  if (!held && !kv.can_start(keys, s.tokens() - 1, end, spare)) return false;
  waiting.pop_front();
  if (adapters != nullptr) adapters->use(s.adapter);
  running.push_back(slot);
  s.computed = s.received > 0 ? s.received
                              : static_cast<int32_t>(kv.attach(s.holding, keys, s.tokens() - 1));
  if (!kv.grow(s.holding, end) || !schedule(slot, tokens))
    throw_internal("room for keys and values went missing");
  return true;
}

void EngineRank::preempt(size_t position, bool to_end) {
  const uint32_t slot = running[position];
  running.erase(running.begin() + static_cast<std::ptrdiff_t>(position));
  std::erase_if(batch, [&](const BatchItem& item) { return item.slot == slot; });
  Sequence& s = sequences[slot];
  write_out(s, now);
  if (adapters != nullptr) adapters->leave(s.adapter);
  if (s.keys.conversation == 0) s.keys.conversation = own_conversation(s.id);
  kv.release(s.holding, s.keys, s.computed);
  s.computed = 0;
  s.received = 0;
  s.in_flight = false;
  ++s.admission;
  preempted.push_back(slot);
  if (to_end)
    waiting.arrive(slot, s);
  else
    waiting.come_back(slot, s);
}

void EngineRank::decode_all() {
  for (size_t i = 0; i < running.size(); ++i) {
    const Sequence& s = sequences[running[i]];
    if (s.in_flight || !s.decoding()) continue;
    if (!schedule(running[i], decode_tokens) && !schedule_by_force(i, decode_tokens)) return;
  }
}

int64_t EngineRank::batch_tokens() const {
  int64_t sum = 0;
  for (const BatchItem& item : batch) sum += item.tokens;
  return sum;
}

std::unique_ptr<Scheduler> make_scheduler(const std::string& name) {
  return Registry<Scheduler>::instance().at(name, "scheduler").create();
}

void refuse_unused(const SchedulerOptions& options) {
  const auto& parameters =
      Registry<Scheduler>::instance().at(options.name, "scheduler").description.parameters;
  const auto check = [&](bool given, std::string_view name) {
    if (given && std::ranges::find(parameters, name, &Parameter::name) == parameters.end())
      throw_usage(fmt::format("the scheduler {} has no use for {}", options.name, name));
  };
  check(options.max_batched_tokens > 0, "max_batched_tokens");
  check(options.chunk_size > 0, "chunk_size");
  check(options.watermark >= 0, "watermark");
  check(options.first_chunk, "first_chunk");
  check(options.max_utilization, "max_utilization");
  check(options.mixed, "mixed");
  check(options.poll_steps > 0, "poll_steps");
  check(options.wait_steps > 0, "wait_steps");
  check(options.wait_share >= 0, "wait_share");
}

SchedulerOptions with_defaults(SchedulerOptions options, const SchedulerOptions& defaults) {
  const auto limit = [](int64_t& value, int64_t own, std::string_view what) {
    if (value < 0) throw_usage(fmt::format("{} must be 1 or more, not {}", what, value));
    if (value == 0) value = own;
  };
  limit(options.max_batched_tokens, defaults.max_batched_tokens, "tokens of a step");
  limit(options.max_seqs, defaults.max_seqs, "sequences that run at one time");
  limit(options.chunk_size, defaults.chunk_size, "tokens of prompts in a step");
  limit(options.max_length, 0, "tokens of a sequence");
  limit(options.poll_steps, defaults.poll_steps, "decodes between looks for requests");
  limit(options.wait_steps, defaults.wait_steps, "steps that prompts wait");
  if (options.wait_share < 0) options.wait_share = defaults.wait_share;
  if (options.watermark < 0) options.watermark = defaults.watermark;
  if (!(options.watermark >= 0 && options.watermark < 1))
    throw_usage(fmt::format("the watermark must lie between 0 and 1, not {}", options.watermark));
  if (!options.prefix_caching) options.prefix_caching = defaults.prefix_caching;
  return options;
}

}  // namespace orrery
