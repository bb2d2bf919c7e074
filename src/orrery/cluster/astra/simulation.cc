#include "orrery/cluster/astra/simulation.h"

#include <fmt/format.h>

#include <deque>

namespace orrery::astra {
namespace {

using chakra::Collective;
using chakra::NodeType;
using chakra::TraceNode;

class Simulation final : public HandlerTarget {
 public:
  Simulation(const Network& network, const System& system, const Groups& groups,
             const std::vector<Part>& parts, const SimulationOptions& options)
      : transport_(network, events_, *this, options.congestion, options.folded),
        machine_{.network = network,
                 .system = system,
                 .groups = groups,
                 .ranks = network.ranks(),
                 .events = events_,
                 .transport = transport_} {
    const size_t count = options.folded ? 1 : parts.size();
    for (size_t i = 0; i < count; ++i)
      players_.emplace_back(machine_, static_cast<int>(i), parts[i], options.record);
  }

  SimulationResult run() {
    for (Player& player : players_) player.start();
    for (Event event; events_.next(event);) {
      if (event.kind == Event::Kind::kRank)
        players_[event.a].run(event.b);
      else
        transport_.handle(event);
    }
    check_finished();
    SimulationResult result;
    result.messages = transport_.messages();
    for (Player& player : players_)
      result.ranks.push_back(
          {player.finish_ns(), player.compute_ns(), player.host_ns(), player.intervals()});
    if (const Transport::Unclaimed u = transport_.unclaimed(); u.count > 0)
      result.notes.push_back(
          fmt::format("{} messages were sent that no node receives, the first of {} bytes with "
                      "tag {} from rank {} to rank {}",
                      u.count, u.bytes, u.tag, u.from, u.to));
    return result;
  }

  void completed(const Handler& handler) override {
    Player& player = players_[handler.rank];
    switch (handler.kind) {
      case Handler::Kind::kStream:
        return player.streams().received(handler.a);
      case Handler::Kind::kNode:
        return player.node_done(handler.a);
      case Handler::Kind::kCustom:
        return player.streams().custom_done(handler.a, handler.b);
      case Handler::Kind::kNobody:
        return;
    }
  }

 private:
  void check_finished() const {
    size_t unfinished = 0;
    size_t in_collectives = 0;
    const Player* first = nullptr;
    for (const Player& player : players_) {
      if (player.finished()) continue;
      ++unfinished;
      if (player.in_collective()) ++in_collectives;
      if (first == nullptr) first = &player;
    }
    if (first == nullptr) return;
    throw Error(ErrorKind::kInput,
                fmt::format("the replay stops at {} ns with {} of {} ranks unfinished: {}",
                            events_.now(), unfinished, players_.size(), first->stuck()) +
                    (in_collectives == players_.size()
                         ? "; every rank is in a collective: where they are the same, chunks of "
                           "different ranks block each other, which as many "
                           "active-chunks-per-dimension as preferred-dataset-splits avoid"
                         : ""));
  }

  EventQueue<Event> events_;
  Transport transport_;
  Machine machine_;
  std::deque<Player> players_;
};

bool symmetric(const Network& network, const Implementation& implementation, bool congestion) {
  if (implementation.one && network.dimensions.size() > 1) return false;
  switch (implementation.algorithm) {
    case Algorithm::kRing:
    case Algorithm::kDirect:
      return true;
    case Algorithm::kHalvingDoubling:
      // Partners differ in one bit: on a ring some send forwards and some backwards.
      for (const Dimension& d : network.dimensions)
        if (congestion && d.block == Block::kRing) return false;
      return true;
    case Algorithm::kDoubleBinaryTree:
    case Algorithm::kCustom:
      return false;
  }
  return false;
}

}  // namespace

SimulationResult simulate(const Network& network, const System& system, const Groups& groups,
                          const std::vector<Part>& parts, const SimulationOptions& options) {
  return Simulation(network, system, groups, parts, options).run();
}

bool foldable(const Network& network, const System& system, const Groups& groups,
              const chakra::Trace& trace, bool congestion) {
  if (system.replay_only) return true;
  if (!system.of_node.empty()) return false;
  for (const auto& group : trace.groups())
    if (!group.empty()) {
      const auto at = groups.find(group);
      if (at == groups.end() || at->second.size() != static_cast<size_t>(network.ranks()))
        return false;
    }
  for (const TraceNode& node : trace.nodes()) {
    if (node.type == NodeType::kCommSend || node.type == NodeType::kCommRecv) return false;
    if (node.type != NodeType::kCommColl) continue;
    const auto at = system.implementations.find(node.collective);
    if (at == system.implementations.end()) continue;
    for (const Implementation& implementation : at->second)
      if (!symmetric(network, implementation, congestion)) return false;
  }
  return true;
}

}  // namespace orrery::astra
