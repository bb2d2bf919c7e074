#include "orrery/cluster/astra/transport.h"

namespace orrery::astra {
namespace {

/// Adds to a pool of slots that are used again.
template <class T>
uint32_t stored(std::vector<T>& pool, std::vector<uint32_t>& free, const T& value) {
  if (free.empty()) {
    pool.push_back(value);
    return static_cast<uint32_t>(pool.size() - 1);
  }
  const uint32_t slot = free.back();
  free.pop_back();
  pool[slot] = value;
  return slot;
}

/// The first of a queue in a vector; the space is used again when it runs empty.
template <class T>
T pop_first(std::vector<T>& queue, size_t& first) {
  const T value = queue[first++];
  if (first == queue.size()) {
    queue.clear();
    first = 0;
  }
  return value;
}

}  // namespace

size_t Transport::KeyHash::operator()(const Key& key) const {
  uint64_t h = (static_cast<uint64_t>(key.from) << 32 | key.to) * 0x9e3779b97f4a7c15ULL;
  h ^= (key.tag + 0x7f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;
  h ^= key.bytes * 0x94d049bb133111ebULL;
  return h ^ (h >> 29);
}

Transport::Transport(const Network& network, EventQueue<Event>& events, HandlerTarget& target,
                     bool congestion, bool folded)
    : network_(network),
      events_(events),
      target_(target),
      congestion_(congestion),
      folded_(folded) {}

void Transport::send(int from, int to, uint64_t tag, uint64_t bytes, const Handler& sent) {
  Message m;
  m.key = {static_cast<uint32_t>(from), static_cast<uint32_t>(to), tag, bytes};
  m.sent = sent;
  launch(m);
}

void Transport::receive(int from, int to, uint64_t tag, uint64_t bytes, const Handler& received) {
  const Key key = {static_cast<uint32_t>(from), static_cast<uint32_t>(to), tag, bytes};
  const auto at = mailboxes_.try_emplace(key).first;
  Mailbox& box = at->second;
  if (box.arrived == 0) {
    box.waiting.push_back(received);
    return;
  }
  if (--box.arrived == 0) mailboxes_.erase(at);
  events_.schedule(events_.now(),
                   {Event::Kind::kCompleted, stored(deferred_, free_deferred_, received), 0});
}

void Transport::exchange(int rank, int to, int from, uint64_t tag, uint64_t bytes,
                         const Handler& received) {
  if (!folded_) {
    send(rank, to, tag, bytes, {});
    receive(from, rank, tag, bytes, received);
    return;
  }
  Message m;
  m.key = {static_cast<uint32_t>(rank), static_cast<uint32_t>(to), tag, bytes};
  m.to_self = true;
  m.received = received;
  launch(m);
}

void Transport::launch(const Message& message) {
  ++messages_sent_;
  const uint32_t slot = stored(messages_, free_messages_, message);
  if (congestion_) {
    messages_[slot].at = message.key.from;
    forward(slot);
    return;
  }
  const uint64_t delay = network_.delay_ns(static_cast<int>(message.key.from),
                                           static_cast<int>(message.key.to), message.key.bytes);
  events_.schedule(events_.now() + delay, {Event::Kind::kDelivery, slot, 0});
}

uint32_t Transport::link_of(size_t dimension, uint64_t which) {
  const auto [at, added] = link_index_.try_emplace(static_cast<uint64_t>(dimension) << 56 | which,
                                                   static_cast<uint32_t>(links_.size()));
  if (added) {
    links_.emplace_back();
    links_.back().dimension = static_cast<uint32_t>(dimension);
  }
  return at->second;
}

/// Into the next link on the way, or to the end of it.
void Transport::forward(uint32_t slot) {
  Message& m = messages_[slot];
  if (m.at == m.key.to) return deliver(slot);
  const auto ranks = static_cast<uint64_t>(network_.ranks());
  uint32_t stride = 1;
  for (size_t d = 0; d < network_.dimensions.size(); ++d) {
    const Dimension& dimension = network_.dimensions[d];
    const auto size = static_cast<uint32_t>(dimension.ranks);
    const uint32_t here = m.at / stride % size;
    const uint32_t there = m.key.to / stride % size;
    if (here == there) {
      stride *= size;
      continue;
    }
    // Folded, all links of a kind are one; a full connection keeps one for each distance.
    const uint64_t owner = folded_ ? 0 : m.at;
    uint64_t link = 0;
    uint32_t next = there;
    switch (dimension.block) {
      case Block::kSwitch:
        if (!m.in_switch) {
          m.in_switch = true;
          const uint32_t up = link_of(d, owner);
          return transmit(up, slot);
        }
        m.in_switch = false;
        link = ranks + (folded_ ? 0 : m.at - here * stride + there * stride);
        break;
      case Block::kRing: {
        const uint32_t clockwise = (there + size - here) % size;
        const bool backwards = size - clockwise < clockwise;
        next = (here + (backwards ? size - 1 : 1)) % size;
        link = owner + (backwards ? ranks : 0);
        break;
      }
      case Block::kFullyConnected:
        link = owner * size + (folded_ ? (there + size - here) % size : there);
        break;
    }
    m.at = m.at - here * stride + next * stride;
    return transmit(link_of(d, link), slot);
  }
}

void Transport::transmit(uint32_t index, uint32_t message) {
  Link& link = links_[index];
  if (link.busy) {
    link.waiting.push_back(message);
    return;
  }
  link.busy = true;
  const Dimension& d = network_.dimensions[link.dimension];
  const double serialisation = static_cast<double>(messages_[message].key.bytes) / d.bytes_per_ns;
  const uint64_t now = events_.now();
  events_.schedule(now + whole_ns(d.latency_ns + serialisation), {Event::Kind::kHop, message, 0});
  events_.schedule(now + whole_ns(serialisation), {Event::Kind::kLinkFree, index, 0});
}

void Transport::deliver(uint32_t slot) {
  const Message m = messages_[slot];
  free_messages_.push_back(slot);
  if (m.to_self) return target_.completed(m.received);
  const auto at = mailboxes_.try_emplace(m.key).first;
  Mailbox& box = at->second;
  Handler received;
  if (box.first == box.waiting.size()) {
    ++box.arrived;
  } else {
    received = pop_first(box.waiting, box.first);
    if (box.waiting.empty()) mailboxes_.erase(at);
  }
  if (m.sent.kind != Handler::Kind::kNobody) target_.completed(m.sent);
  if (received.kind != Handler::Kind::kNobody) target_.completed(received);
}

void Transport::handle(const Event& event) {
  switch (event.kind) {
    case Event::Kind::kDelivery:
      return deliver(event.a);
    case Event::Kind::kHop:
      return forward(event.a);
    case Event::Kind::kLinkFree: {
      Link& link = links_[event.a];
      link.busy = false;
      if (!link.waiting.empty()) transmit(event.a, pop_first(link.waiting, link.first));
      return;
    }
    case Event::Kind::kCompleted: {
      const Handler handler = deferred_[event.a];
      free_deferred_.push_back(event.a);
      return target_.completed(handler);
    }
    case Event::Kind::kRank:
      break;
  }
}

Transport::Unclaimed Transport::unclaimed() const {
  Unclaimed u;
  for (const auto& [key, box] : mailboxes_) {
    if (box.arrived == 0 || key.tag >= kCollectiveTag) continue;
    const bool first =
        u.count == 0 || std::pair(key.to, key.from) <
                            std::pair(static_cast<uint32_t>(u.to), static_cast<uint32_t>(u.from));
    u.count += box.arrived;
    if (!first) continue;
    u.from = static_cast<int>(key.from);
    u.to = static_cast<int>(key.to);
    u.tag = key.tag;
    u.bytes = key.bytes;
  }
  return u;
}

}  // namespace orrery::astra
