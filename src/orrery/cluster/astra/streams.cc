#include "orrery/cluster/astra/streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "orrery/base/error.h"
#include "orrery/cluster/astra/custom_steps.h"

namespace orrery::astra {
namespace {

/// About a quarter of an hour's worth.
constexpr uint64_t kMostMessages = 5'000'000'000;
/// The endpoint of a communicator group, which ASTRA-sim takes for a local ring.
constexpr uint64_t kLocalDelay = 10;

}  // namespace

Streams::Streams(Machine& machine, Agenda& agenda, int rank, std::function<void(uint32_t)> done)
    : machine_(&machine),
      agenda_(&agenda),
      rank_(rank),
      done_(std::move(done)),
      planner_(machine, rank),
      queues_(machine.network.dimensions.size()) {}

Streams::~Streams() = default;

void Streams::begin(const CollectiveRequest& request, uint32_t index, uint32_t group,
                    uint32_t priority) {
  const auto [chunk, count] = planner_.chunks(request);
  int64_t rank_of_chunks = priority;
  if (machine_->system.scheduling == Scheduling::kLifo) rank_of_chunks = priority_++;
  if (machine_->system.scheduling == Scheduling::kFifo) rank_of_chunks = priority_--;
  uint32_t slot = static_cast<uint32_t>(collectives_.size());
  if (free_collectives_.empty()) {
    collectives_.emplace_back();
  } else {
    slot = free_collectives_.back();
    free_collectives_.pop_back();
  }
  collectives_[slot] = {index, count};
  for (uint64_t i = 0; i < count; ++i) {
    Stream& stream = streams_[take_stream()];
    stream.phases = planner_.phases(request, chunk);
    if (stream.phases.empty())
      throw std::invalid_argument("no dimension of more than one rank takes part in it");
    for (const Phase& phase : stream.phases) machine_->planned_messages += phase.messages();
    if (machine_->planned_messages > kMostMessages)
      throw_infeasible(
          "more than 5000000000 messages to simulate: ranks that all do the same need only one "
          "simulated, others fewer ranks or chunks");
    stream.tag = kCollectiveTag | static_cast<uint64_t>(group) << 40 | begun_[group]++;
    stream.priority = rank_of_chunks;
    stream.collective = slot;
    stream.phase = 0;
    enter_queue(stream);
    fill(stream.phases[0].queue);
  }
}

uint32_t Streams::take_stream() {
  if (!free_streams_.empty()) {
    const uint32_t slot = free_streams_.back();
    free_streams_.pop_back();
    return slot;
  }
  const auto slot = static_cast<uint32_t>(streams_.size());
  streams_.emplace_back();
  streams_.back().owner = this;
  streams_.back().index = slot;
  return slot;
}

void Streams::enter_queue(Stream& stream) {
  stream.running = false;
  std::vector<uint32_t>& queue = queues_[stream.phases[stream.phase].queue].streams;
  auto at = queue.begin();
  while (at != queue.end() && (streams_[*at].running || streams_[*at].priority >= stream.priority))
    ++at;
  queue.insert(at, stream.index);
}

/// Starts what may run.
void Streams::fill(size_t index) {
  Queue& queue = queues_[index];
  const auto most = static_cast<size_t>(machine_->system.active_chunks);
  while (queue.running < queue.streams.size() && queue.running < most) {
    Stream& stream = streams_[queue.streams[queue.running]];
    stream.running = true;
    ++queue.running;
    const Phase& phase = stream.phases[stream.phase];
    if (phase.implementation.algorithm == Algorithm::kCustom)
      stream.algorithm = std::make_unique<CustomSteps>(
          *machine_, *agenda_, rank_, stream.index,
          machine_->custom_trace(fmt::format("{}.{}.et", phase.implementation.custom, rank_)),
          stream);
    else
      stream.algorithm = make_steps(phase, stream);
    stream.algorithm->start();
  }
}

/// From one phase to the next, or out. The order is ASTRA-sim's: whoever waits for the
/// collective hears of its end while the last chunk still holds its place in the queue.
void Streams::advance(Stream& stream) {
  const size_t left = stream.phases[stream.phase].queue;
  ended_.push_back(std::move(stream.algorithm));
  const bool last = ++stream.phase == stream.phases.size();
  if (last) {
    Collective& collective = collectives_[stream.collective];
    if (--collective.chunks_left == 0) {
      const uint32_t node = collective.node;
      free_collectives_.push_back(stream.collective);
      done_(node);
    }
  }
  Queue& queue = queues_[left];
  queue.streams.erase(std::find(queue.streams.begin(), queue.streams.end(), stream.index));
  if (!last) enter_queue(stream);
  --queue.running;
  fill(left);
  if (last)
    free_streams_.push_back(stream.index);
  else
    fill(stream.phases[stream.phase].queue);
}

void Streams::endpoint_passed(const RankEvent& event) {
  ended_.clear();
  if (event.kind == RankEvent::Kind::kArrivedAtEndpoint) {
    const uint64_t access =
        whole_ns(static_cast<double>(event.bytes) / machine_->system.memory_bytes_per_s * 1e9);
    RankEvent after = event;
    after.kind = RankEvent::Kind::kReleased;
    agenda_->schedule(3 * access, after);
    return;
  }
  streams_[event.a].algorithm->released();
}

void Streams::received(uint32_t stream) {
  ended_.clear();
  streams_[stream].algorithm->received();
}

void Streams::custom_done(uint32_t stream, uint32_t node) {
  ended_.clear();
  // Only the traces of custom collectives name their own nodes.
  static_cast<CustomSteps&>(*streams_[stream].algorithm).node_done(node);
}

Handler Streams::Stream::handler() const {
  return {Handler::Kind::kStream, static_cast<uint32_t>(owner->rank_), index, 0};
}

void Streams::Stream::hand_over(uint64_t bytes, bool reduce) {
  const uint64_t delay =
      phases[phase].local ? kLocalDelay : owner->machine_->system.endpoint_delay_ns;
  owner->agenda_->schedule(
      delay,
      {reduce ? RankEvent::Kind::kArrivedAtEndpoint : RankEvent::Kind::kReleased, index, 0, bytes});
}

void Streams::Stream::exchange(int to, int from, uint64_t bytes) {
  owner->machine_->transport.exchange(owner->rank_, to, from, tag, bytes, handler());
}

void Streams::Stream::send(int to, uint64_t bytes) {
  owner->machine_->transport.send(owner->rank_, to, tag, bytes, {});
}

void Streams::Stream::receive(int from, uint64_t bytes) {
  owner->machine_->transport.receive(from, owner->rank_, tag, bytes, handler());
}

void Streams::Stream::finish() { owner->advance(*this); }

}  // namespace orrery::astra
