#include "orrery/cluster/astra/player.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "orrery/base/protobuf_wire.h"

namespace orrery::astra {

using chakra::Collective;
using chakra::NodeType;
using chakra::TraceNode;

namespace {

/// Longer than any run, so that sums of times stay far below 2^64.
constexpr uint64_t kLongestUs = 1'000'000'000'000;

}  // namespace

int moved_peer(const Part& part, int written, int rank, int ranks) {
  int distance = (written - part.traced_as) % part.traced_ranks;
  if (distance < 0) distance += part.traced_ranks;
  if (distance > part.traced_ranks / 2) distance -= part.traced_ranks;  // the shorter way
  return ((rank + distance) % ranks + ranks) % ranks;
}

Player::Player(Machine& machine, int rank, const Part& part, bool record)
    : machine_(&machine),
      rank_(rank),
      part_(part),
      record_(record),
      agenda_(machine.events, static_cast<uint32_t>(rank)),
      streams_(machine, agenda_, rank, [this](uint32_t node) { node_done(node); }) {
  const size_t count = part.trace->nodes().size();
  waits_.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    waits_.push_back(part.trace->dependencies(i));
    if (waits_.back() == 0) freed_.push_back(i);
  }
  if (record) started_.assign(count, 0);
}

void Player::fail(uint32_t node, const std::string& message) const {
  part_.trace->fail(node, fmt::format("{}: {}", part_.trace->named(node), message));
}

Player::Unit Player::unit(const TraceNode& node) const {
  if (node.cpu) return kHost;
  if (node.type == NodeType::kComp) return kCompute;
  return node.type == NodeType::kCommRecv ? kReceive : kCommunication;
}

void Player::start() {
  issue_ready();
  finish_if_done();
}

void Player::run(uint32_t batch) {
  agenda_.run(batch, [this](const RankEvent& event) {
    switch (event.kind) {
      case RankEvent::Kind::kArrivedAtEndpoint:
      case RankEvent::Kind::kReleased:
        return streams_.endpoint_passed(event);
      case RankEvent::Kind::kNodeDone:
        return node_done(event.a);
      case RankEvent::Kind::kCustomDone:
        return streams_.custom_done(event.a, event.b);
    }
  });
}

void Player::node_done(uint32_t node) {
  release(node);
  issue_ready();
  finish_if_done();
}

void Player::release(uint32_t node) {
  const TraceNode& n = part_.trace->nodes()[node];
  --in_flight_[unit(n)];
  running_.erase(node);
  if (record_) intervals_.push_back({node, started_[node], machine_->events.now()});
  for (uint32_t child : part_.trace->children(node))
    if (--waits_[child] == 0) freed_.push_back(child);
}

void Player::finish_if_done() {
  const bool idle =
      std::all_of(in_flight_.begin(), in_flight_.end(), [](uint32_t count) { return count == 0; });
  if (!idle || finished_) return;
  finished_ = true;
  finish_ns_ = machine_->events.now();
}

/// One round over what is ready, lowest id first. What a node without duration frees waits
/// for the next round, which comes at once only when nothing else would bring it.
void Player::issue_ready() {
  while (true) {
    for (uint32_t node : freed_) ready_[unit(part_.trace->nodes()[node])].insert(node);
    freed_.clear();
    uint32_t from = 0;
    while (true) {
      uint32_t next = UINT32_MAX;
      for (uint8_t u = 0; u < kUnits; ++u) {
        if (!available(static_cast<Unit>(u))) continue;
        const auto at = ready_[u].lower_bound(from);
        if (at != ready_[u].end()) next = std::min(next, *at);
      }
      if (next == UINT32_MAX) break;
      ready_[unit(part_.trace->nodes()[next])].erase(next);
      issue(next);
      from = next + 1;
    }
    if (freed_.empty() || !running_.empty()) return;
  }
}

void Player::issue(uint32_t index) {
  const TraceNode& node = part_.trace->nodes()[index];
  ++in_flight_[unit(node)];
  running_.insert(index);
  if (record_) started_[index] = machine_->events.now();
  if (machine_->system.replay_only) return compute(index);
  switch (node.type) {
    case NodeType::kComp:
      return compute(index);
    case NodeType::kCommColl:
      return begin_collective(index);
    case NodeType::kCommSend:
    case NodeType::kCommRecv:
      return begin_message(index);
    case NodeType::kInvalid:
    case NodeType::kMetadata:
      return release(index);
    case NodeType::kMemLoad:
    case NodeType::kMemStore:
      fail(index,
           fmt::format("a {} goes to a remote memory, which is not modelled", name(node.type)));
  }
}

void Player::compute(uint32_t index) {
  const TraceNode& node = part_.trace->nodes()[index];
  const System& system = machine_->system;
  uint64_t delay = 0;
  if (system.roofline && !node.cpu && !system.replay_only) {
    if (node.tensor_bytes == 0) return release(index);
    const auto operations = static_cast<double>(node.operations);
    const double intensity = operations / static_cast<double>(node.tensor_bytes);
    const double rate = std::min(system.memory_bytes_per_s * intensity, system.peak_flops);
    const double nanoseconds = operations == 0 ? 0 : operations / rate * 1e9;
    if (nanoseconds > 1e15) fail(index, "takes more than 10^15 ns");
    delay = static_cast<uint64_t>(nanoseconds);
  } else {
    if (node.duration_us > kLongestUs) fail(index, "takes more than 10^15 ns");
    delay = node.duration_us == 0 ? 1 : node.duration_us * 1000;
  }
  (node.cpu ? host_ns_ : compute_ns_) += delay;
  agenda_.schedule(delay, {RankEvent::Kind::kNodeDone, index, 0, 0});
}

void Player::begin_collective(uint32_t index) {
  const TraceNode& node = part_.trace->nodes()[index];
  if (node.cpu) fail(index, "a communication marked is_cpu_op");
  if (!node.has_comm_type) fail(index, "a collective without comm_type");
  if (node.collective == Collective::kBroadcast) {
    if (node.duration_us > kLongestUs) fail(index, "takes more than 10^15 ns");
    agenda_.schedule(node.duration_us == 0 ? 1 : node.duration_us * 1000,
                     {RankEvent::Kind::kNodeDone, index, 0, 0});
    return;
  }
  if (!node.has_comm_bytes && node.collective != Collective::kBarrier)
    fail(index, "a collective without comm_size");
  // An all-gather grows to as many times its size as there are ranks.
  constexpr uint64_t kMostBytes = uint64_t{1} << 60;
  if (node.comm_bytes > kMostBytes / static_cast<uint64_t>(machine_->ranks))
    fail(index, "over 2^60 bytes on all ranks");
  CollectiveRequest request;
  request.kind = played_as(node.collective);
  request.bytes = node.comm_bytes;
  request.node = node.id;
  const size_t dimensions = machine_->network.dimensions.size();
  if (node.dimension_count != 0) {
    if (node.dimension_count < dimensions)
      fail(index, fmt::format("involved_dim speaks of {} dimensions, the network has {}",
                              node.dimension_count, dimensions));
    request.dimensions = node.dimensions;
  }
  const std::string& group = part_.trace->groups()[node.group];
  uint32_t number = 0;
  if (!group.empty()) {
    const auto at = machine_->groups.find(group);
    if (at == machine_->groups.end())
      fail(index, fmt::format("communicator group '{}' is not in the groups JSON", group));
    request.group = &at->second;
    if (at->second.size() == static_cast<size_t>(machine_->ranks)) request.dimensions = UINT32_MAX;
    number = 1 + static_cast<uint32_t>(std::distance(machine_->groups.begin(), at));
  }
  try {
    streams_.begin(request, index, number, node.priority);
  } catch (const std::invalid_argument& e) {
    fail(index,
         fmt::format("{} of {} bytes: {}", name(node.collective), node.comm_bytes, e.what()));
  }
}

int Player::peer(uint32_t node, int written) const {
  const int rank = part_.traced_ranks == 0 || written < 0
                       ? written
                       : moved_peer(part_, written, rank_, machine_->ranks);
  if (rank < 0 || rank >= machine_->ranks || rank == rank_)
    fail(node, fmt::format("its peer is rank {}, not another of the {}", written, machine_->ranks));
  return rank;
}

void Player::begin_message(uint32_t index) {
  const TraceNode& node = part_.trace->nodes()[index];
  if (node.cpu) fail(index, "a communication marked is_cpu_op");
  if (!node.has_comm_bytes) fail(index, "a message without comm_size");
  const bool sends = node.type == NodeType::kCommSend;
  const int own = sends ? node.source : node.destination;
  const int as = part_.traced_ranks != 0 ? part_.traced_as : rank_;
  if (own >= 0 && own != as)
    fail(index, fmt::format("{} {}, but it is in the trace of rank {}",
                            sends ? "sent by rank" : "received by rank", own, as));
  const int other = peer(index, sends ? node.destination : node.source);
  const Handler handler = {Handler::Kind::kNode, static_cast<uint32_t>(rank_), index, 0};
  if (sends)
    machine_->transport.send(rank_, other, node.tag, node.comm_bytes, handler);
  else
    machine_->transport.receive(other, rank_, node.tag, node.comm_bytes, handler);
}

bool Player::in_collective() const {
  return std::ranges::any_of(running_, [this](uint32_t node) {
    return part_.trace->nodes()[node].type == NodeType::kCommColl;
  });
}

std::string Player::stuck() const {
  if (running_.empty()) return fmt::format("rank {} waits", rank_);
  // A message that never comes explains more than the collective behind it.
  uint32_t index = *running_.begin();
  for (uint32_t node : running_)
    if (part_.trace->nodes()[node].type == NodeType::kCommRecv) {
      index = node;
      break;
    }
  const TraceNode& node = part_.trace->nodes()[index];
  if (node.type == NodeType::kCommRecv)
    return fmt::format(
        "rank {}: {} waits for {} bytes with tag {} from rank {}, which never sends them", rank_,
        part_.trace->named(index), node.comm_bytes, node.tag, peer(index, node.source));
  return fmt::format(
      "rank {}: {}, {} of {} bytes, waits for ranks that do not take part in it, or "
      "with another size",
      rank_, part_.trace->named(index), name(node.collective), node.comm_bytes);
}

}  // namespace orrery::astra
