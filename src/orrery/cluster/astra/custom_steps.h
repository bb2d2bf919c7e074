#pragma once

#include <vector>

#include "orrery/cluster/astra/streams.h"

namespace orrery::astra {

/// A collective that a Chakra trace describes: its sends, receives and reductions run as
/// soon as what they depend on is done. The trace's own sizes count, and a reduction takes
/// the time that is written there, 1 ns where none is.
class CustomSteps final : public StepAlgorithm {
 public:
  CustomSteps(Machine& machine, Agenda& agenda, int rank, uint32_t stream,
              const chakra::Trace& trace, StepPort& port);

  void start() override;
  void released() override;
  void received() override;
  void node_done(uint32_t node);

 private:
  void issue(uint32_t node);
  void issue_all(const std::vector<uint32_t>& nodes);

  Machine* machine_;
  Agenda* agenda_;
  int rank_;
  uint32_t stream_;
  const chakra::Trace* trace_;
  StepPort& port_;
  std::vector<uint32_t> waits_;
  size_t left_;
};

}  // namespace orrery::astra
