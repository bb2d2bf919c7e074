#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "orrery/cluster/astra/agenda.h"
#include "orrery/cluster/astra/machine.h"
#include "orrery/cluster/astra/streams.h"

namespace orrery::astra {

/// The trace that a rank plays. Where more ranks play than were traced, `traced_as` and
/// `traced_ranks` say what the peers of its sends and receives were counted from: who is two
/// ranks on stays two ranks on, round the end.
struct Part {
  const chakra::Trace* trace = nullptr;
  int traced_as = 0;
  int traced_ranks = 0;  ///< 0: peers are as written.
};

/// The rank that stands to `rank` of `ranks` as `written` stood to the one that was traced.
int moved_peer(const Part& part, int written, int rank, int ranks);

/// When a node ran, in nanoseconds.
struct Interval {
  uint32_t node = 0;
  uint64_t start = 0, end = 0;
};

/// Plays one rank's trace. A node is issued when all it depends on is done and its unit is
/// free: one node at a time on the host, one on the compute units and one communication;
/// receives wait beside all others. Of several the lowest id goes first.
///
/// Computation takes the time that was traced (1 ns where none was), or with a roofline
/// operations / min(peak, bandwidth · operations / bytes).
class Player {
 public:
  Player(Machine& machine, int rank, const Part& part, bool record);

  void start();
  void run(uint32_t batch);
  void node_done(uint32_t node);
  Streams& streams() { return streams_; }

  bool finished() const { return finished_; }
  uint64_t finish_ns() const { return finish_ns_; }
  uint64_t compute_ns() const { return compute_ns_; }
  uint64_t host_ns() const { return host_ns_; }
  const std::vector<Interval>& intervals() const { return intervals_; }
  /// What an unfinished rank waits for, in words.
  std::string stuck() const;
  bool in_collective() const;
  const std::string& file() const { return part_.trace->file(); }

 private:
  enum Unit : uint8_t { kHost, kCompute, kCommunication, kReceive, kUnits };

  Unit unit(const chakra::TraceNode& node) const;
  bool available(Unit unit) const { return unit == kReceive || in_flight_[unit] == 0; }
  void issue_ready();
  void issue(uint32_t node);
  void compute(uint32_t node);
  void begin_collective(uint32_t node);
  void begin_message(uint32_t node);
  int peer(uint32_t node, int written) const;
  void release(uint32_t node);
  void finish_if_done();
  [[noreturn]] void fail(uint32_t node, const std::string& message) const;

  Machine* machine_;
  int rank_;
  Part part_;
  bool record_;
  Agenda agenda_;
  Streams streams_;
  std::vector<uint32_t> waits_;
  std::array<std::set<uint32_t>, kUnits> ready_;
  std::vector<uint32_t> freed_;  ///< Ready, but only from the next round of issuing on.
  std::array<uint32_t, kUnits> in_flight_ = {};
  std::set<uint32_t> running_;
  std::vector<Interval> intervals_;
  std::vector<uint64_t> started_;  ///< By node, where intervals are wanted.
  uint64_t compute_ns_ = 0, host_ns_ = 0, finish_ns_ = 0;
  bool finished_ = false;
};

}  // namespace orrery::astra
