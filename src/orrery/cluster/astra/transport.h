#pragma once

#include <cstdint>
#include <memory_resource>
#include <unordered_map>
#include <vector>

#include "orrery/cluster/astra/network.h"
#include "orrery/sim/event_queue.h"

namespace orrery::astra {

/// What happens in a simulation.
struct Event {
  enum class Kind : uint8_t {
    kDelivery,   ///< Message a is there.
    kHop,        ///< Message a is through a link.
    kLinkFree,   ///< Link a may take the next message.
    kCompleted,  ///< The receive that was posted after its message, deferred as a.
    kRank,       ///< Batch b of rank a's own events.
  };
  Kind kind = Kind::kRank;
  uint32_t a = 0;
  uint32_t b = 0;
};

/// Who is told that a message was sent or received.
struct Handler {
  enum class Kind : uint8_t {
    kNobody,
    kStream,  ///< The step of a collective: stream a.
    kNode,    ///< Node a of the trace.
    kCustom,  ///< Node b of the custom collective that stream a runs.
  };
  Kind kind = Kind::kNobody;
  uint32_t rank = 0;
  uint32_t a = 0;
  uint32_t b = 0;
};

class HandlerTarget {
 public:
  virtual ~HandlerTarget() = default;
  virtual void completed(const Handler& handler) = 0;
};

/// Tags of collectives lie above those that nodes may have.
inline constexpr uint64_t kCollectiveTag = uint64_t{1} << 63;

/// Messages between ranks. A send completes when its message arrives, a receive when both
/// have happened; the n-th send from one rank to another with a tag and a size meets the
/// n-th such receive.
///
/// Without congestion a message takes `Network::delay_ns`. With it, each link carries one
/// message after the other: a link is busy for bytes / bandwidth and hands the message on
/// after latency + bytes / bandwidth, both in whole nanoseconds; what crosses several
/// dimensions takes them in order.
///
/// Folded, one rank stands for all: by symmetry what it sends to others comes to itself from
/// those that are to it what it is to them.
class Transport {
 public:
  Transport(const Network& network, EventQueue<Event>& events, HandlerTarget& target,
            bool congestion, bool folded);

  void send(int from, int to, uint64_t tag, uint64_t bytes, const Handler& sent);
  void receive(int from, int to, uint64_t tag, uint64_t bytes, const Handler& received);
  /// A step of a symmetric collective: `rank` sends to `to` and awaits the same from `from`.
  void exchange(int rank, int to, int from, uint64_t tag, uint64_t bytes, const Handler& received);

  void handle(const Event& event);

  uint64_t messages() const { return messages_sent_; }
  /// Messages of nodes that arrived and that nobody received, and one of them.
  struct Unclaimed {
    uint64_t count = 0;
    int from = 0, to = 0;
    uint64_t tag = 0, bytes = 0;
  };
  Unclaimed unclaimed() const;

 private:
  struct Key {
    uint32_t from, to;
    uint64_t tag, bytes;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  /// Of one key: receives that wait, or how many messages do.
  struct Mailbox {
    uint32_t arrived = 0;
    std::vector<Handler> waiting;
    size_t first = 0;
  };
  struct Message {
    Key key{};
    uint32_t at = 0;  ///< The rank it left last.
    bool in_switch = false;
    bool to_self = false;  ///< Folded: `received` is told, nothing is matched.
    Handler sent, received;
  };
  struct Link {
    bool busy = false;
    uint32_t dimension = 0;
    std::vector<uint32_t> waiting;
    size_t first = 0;
  };

  void launch(const Message& message);
  void forward(uint32_t message);
  void transmit(uint32_t link, uint32_t message);
  uint32_t link_of(size_t dimension, uint64_t which);
  void deliver(uint32_t message);

  const Network& network_;
  EventQueue<Event>& events_;
  HandlerTarget& target_;
  bool congestion_;
  bool folded_;
  uint64_t messages_sent_ = 0;
  std::pmr::unsynchronized_pool_resource pool_;
  std::pmr::unordered_map<Key, Mailbox, KeyHash> mailboxes_{&pool_};
  std::vector<Message> messages_;
  std::vector<uint32_t> free_messages_;
  std::vector<Link> links_;
  std::unordered_map<uint64_t, uint32_t> link_index_;
  std::vector<Handler> deferred_;
  std::vector<uint32_t> free_deferred_;
};

}  // namespace orrery::astra
