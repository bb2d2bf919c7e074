#include "orrery/cluster/astra/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "orrery/cluster/astra/rooted_steps.h"

namespace orrery::astra {
namespace {

using chakra::NodeType;
using chakra::TraceNode;

std::string unclaimed_text(const Transport::Unclaimed& u) {
  return fmt::format(
      "{} {} that no node receives, {}of {} bytes with tag {} from rank {} to rank {}", u.count,
      u.count == 1 ? "message was sent" : "messages were sent", u.count == 1 ? "" : "the first ",
      u.bytes, u.tag, u.from, u.to);
}

/// No single delay is longer than a thousandth of it: times stay far below 2^64.
constexpr uint64_t kLongestRun = 1'000'000'000'000'000'000;

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
      if (events_.now() > kLongestRun)
        throw Error(ErrorKind::kInput, "the replay takes more than 10^18 ns, some thirty years");
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
      result.notes.push_back(unclaimed_text(u));
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
    std::string message =
        fmt::format("the replay stops at {} ns with {} of {} ranks unfinished: {}", events_.now(),
                    unfinished, players_.size(), first->stuck());
    if (const Transport::Unclaimed u = transport_.unclaimed(); u.count > 0)
      message += fmt::format("; {}", unclaimed_text(u));
    if (in_collectives == players_.size())
      message +=
          "; every rank is in a collective: where they are the same, chunks of different ranks "
          "block each other, which as many active-chunks-per-dimension as "
          "preferred-dataset-splits avoid";
    throw_input(first->file(), std::move(message));
  }

  EventQueue<Event> events_;
  Transport transport_;
  Machine machine_;
  std::deque<Player> players_;
};

/// Whether all ranks see the same of the collective's part in this dimension.
bool symmetric(const Network& network, size_t dimension, const Implementation& implementation,
               bool congestion) {
  if (implementation.one && network.dimensions.size() > 1) return false;
  if (implementation.algorithm == Algorithm::kDoubleBinaryTree ||
      implementation.algorithm == Algorithm::kCustom)
    return false;
  // Round a ring, messages to ranks further away pass through others, and which of two that
  // come to a link at one time goes first depends on who they are.
  const Dimension& d = network.dimensions[std::min(dimension, network.dimensions.size() - 1)];
  const bool passes_through = d.block == Block::kRing && d.ranks > 3;
  return !(congestion && passes_through) || implementation.algorithm == Algorithm::kRing;
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
    if (has_steps_of_its_own(node.collective)) return false;
    const auto at = system.implementations.find(played_as(node.collective));
    if (at == system.implementations.end()) continue;
    for (size_t d = 0; d < at->second.size(); ++d)
      if (!symmetric(network, d, at->second[d], congestion)) return false;
  }
  return true;
}

}  // namespace orrery::astra
