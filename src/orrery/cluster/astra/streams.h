#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "orrery/cluster/astra/agenda.h"
#include "orrery/cluster/astra/collective_plan.h"
#include "orrery/cluster/astra/machine.h"

namespace orrery::astra {

class CustomSteps;

/// The collectives of one rank. Each chunk is a stream that goes through its phases; each
/// dimension has a queue of which the first `active-chunks-per-dimension` run. A chunk that
/// comes into a queue stands behind all of at least its priority: newer collectives before
/// older ones (LIFO), the other way (FIFO), or as their nodes say (EXPLICIT).
class Streams {
 public:
  /// `done` is called with a collective's node when all its chunks are through.
  Streams(Machine& machine, Agenda& agenda, int rank, std::function<void(uint32_t)> done);
  ~Streams();

  /// Throws `std::invalid_argument` for what cannot be done. `index` is the node's place in
  /// its trace, `group` the number of its communicator.
  void begin(const CollectiveRequest& request, uint32_t index, uint32_t group, uint32_t priority);

  void endpoint_passed(const RankEvent& event);  ///< kArrivedAtEndpoint or kReleased
  void received(uint32_t stream);
  void custom_done(uint32_t stream, uint32_t node);

 private:
  struct Collective {
    uint32_t node = 0;
    uint64_t chunks_left = 0;
  };
  /// A stream is the port of the algorithm it runs.
  struct Stream final : StepPort {
    Streams* owner = nullptr;
    uint32_t index = 0;  ///< Its slot.
    uint64_t tag = 0;
    int64_t priority = 0;
    uint32_t collective = 0;
    std::vector<Phase> phases;
    size_t phase = 0;  ///< Of `phases`, the current one.
    bool running = false;
    std::unique_ptr<StepAlgorithm> algorithm;

    void hand_over(uint64_t bytes, bool reduce) override;
    void exchange(int to, int from, uint64_t bytes) override;
    void send(int to, uint64_t bytes) override;
    void receive(int from, uint64_t bytes) override;
    void finish() override;
    Handler handler() const;
  };
  struct Queue {
    std::vector<uint32_t> streams;  ///< Those that run come first.
    size_t running = 0;
  };

  friend class CustomSteps;

  uint32_t take_stream();
  void enter_queue(Stream& stream);
  void fill(size_t queue);
  void advance(Stream& stream);

  Machine* machine_;
  Agenda* agenda_;
  int rank_;
  std::function<void(uint32_t)> done_;
  CollectivePlanner planner_;
  int64_t priority_ = 0;
  std::map<uint32_t, uint64_t> begun_;  ///< Chunks by group.
  std::vector<Queue> queues_;
  std::deque<Stream> streams_;  ///< Places do not move: algorithms hold them.
  std::vector<uint32_t> free_streams_;
  std::vector<Collective> collectives_;
  std::vector<uint32_t> free_collectives_;
  /// Algorithms that have asked to be ended, until none of their functions runs.
  std::vector<std::unique_ptr<StepAlgorithm>> ended_;
};

}  // namespace orrery::astra
