#pragma once

#include <map>
#include <memory>
#include <string>

#include "orrery/cluster/astra/groups.h"
#include "orrery/cluster/astra/network.h"
#include "orrery/cluster/astra/system.h"
#include "orrery/cluster/astra/transport.h"
#include "orrery/workload/chakra/trace.h"

namespace orrery::astra {

/// What all ranks of a simulation share.
struct Machine {
  const Network& network;
  const System& system;
  const Groups& groups;
  int ranks = 0;
  EventQueue<Event>& events;
  Transport& transport;
  uint64_t planned_messages = 0;  ///< Of all collectives that were begun.
  /// Traces of custom collectives by file, read when first used.
  std::map<std::string, std::unique_ptr<chakra::Trace>> custom = {};

  const chakra::Trace& custom_trace(const std::string& file) {
    std::unique_ptr<chakra::Trace>& trace = custom[file];
    if (trace == nullptr) trace = std::make_unique<chakra::Trace>(Source::from_file(file));
    return *trace;
  }
};

}  // namespace orrery::astra
