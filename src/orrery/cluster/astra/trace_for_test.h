#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "orrery/cluster/astra/simulation.h"
#include "orrery/workload/chakra/writer.h"

namespace orrery::astra {

/// Builds traces node by node; ids count from 0.
class TraceMaker {
 public:
  TraceMaker& comp(uint64_t microseconds, std::vector<uint64_t> after = {}) {
    return add(chakra::NodeType::kComp, std::move(after), microseconds, {});
  }
  TraceMaker& work(uint64_t operations, uint64_t bytes, std::vector<uint64_t> after = {}) {
    return add(chakra::NodeType::kComp, std::move(after), 0,
               {chakra::Attribute::of_uint64("num_ops", operations),
                chakra::Attribute::of_uint64("tensor_size", bytes)});
  }
  TraceMaker& host(uint64_t microseconds, std::vector<uint64_t> after = {}) {
    return add(chakra::NodeType::kComp, std::move(after), microseconds,
               {chakra::Attribute::of_bool("is_cpu_op", true)});
  }
  TraceMaker& collective(chakra::Collective kind, uint64_t bytes, std::vector<uint64_t> after = {},
                         const std::string& group = "") {
    std::vector<chakra::Attribute> attributes = {
        chakra::Attribute::of_int64("comm_type", static_cast<int64_t>(kind)),
        chakra::Attribute::of_int64("comm_size", static_cast<int64_t>(bytes))};
    if (!group.empty()) attributes.push_back(chakra::Attribute::of_string("pg_name", group));
    return add(chakra::NodeType::kCommColl, std::move(after), 0, std::move(attributes));
  }
  TraceMaker& send(int to, uint64_t bytes, std::vector<uint64_t> after = {}) {
    return add(chakra::NodeType::kCommSend, std::move(after), 0,
               {chakra::Attribute::of_int64("comm_dst", to),
                chakra::Attribute::of_uint64("comm_size", bytes)});
  }
  TraceMaker& receive(int from, uint64_t bytes, std::vector<uint64_t> after = {}) {
    return add(chakra::NodeType::kCommRecv, std::move(after), 0,
               {chakra::Attribute::of_int64("comm_src", from),
                chakra::Attribute::of_uint64("comm_size", bytes)});
  }
  TraceMaker& node(chakra::NodeType type, std::vector<uint64_t> after = {}) {
    return add(type, std::move(after), 0, {});
  }

  std::string bytes() const { return bytes_; }
  std::unique_ptr<chakra::Trace> trace() const {
    return std::make_unique<chakra::Trace>(Source::from_memory("test.et", bytes_));
  }

 private:
  TraceMaker& add(chakra::NodeType type, std::vector<uint64_t> after, uint64_t microseconds,
                  std::vector<chakra::Attribute> attributes) {
    chakra::Node node;
    node.id = next_++;
    node.name = "n" + std::to_string(node.id);
    node.type = type;
    node.data_dependencies = std::move(after);
    node.duration_us = microseconds;
    node.attributes = std::move(attributes);
    bytes_ += encoded(node);
    return *this;
  }

  uint64_t next_ = 0;
  std::string bytes_ = encoded(chakra::Metadata{"0.0.4", {}});
};

/// One dimension of links of 1 byte a nanosecond and 100 ns.
inline Network simple_network(Block block, int ranks) {
  Network network;
  network.dimensions = {{block, ranks, 1.0, 100.0}};
  return network;
}

/// One chunk, no endpoint, memory that takes no time: what is left are the messages.
inline System simple_system(Algorithm algorithm) {
  System system;
  system.splits = 1;
  system.endpoint_delay_ns = 0;
  system.memory_bytes_per_s = 1e18;
  system.bandwidth_aware = true;
  for (chakra::Collective kind :
       {chakra::Collective::kAllReduce, chakra::Collective::kAllGather,
        chakra::Collective::kReduceScatter, chakra::Collective::kAllToAll}) {
    Implementation implementation;
    implementation.algorithm = algorithm;
    system.implementations[kind] = {implementation};
  }
  return system;
}

/// Finish times by rank of one trace a rank; one trace is everyone's.
inline std::vector<uint64_t> finish_times(const Network& network, const System& system,
                                          const std::vector<TraceMaker>& makers,
                                          bool congestion = false, const Groups& groups = {},
                                          bool folded = false) {
  std::vector<std::unique_ptr<chakra::Trace>> traces;
  for (const TraceMaker& maker : makers) traces.push_back(maker.trace());
  std::vector<Part> parts;
  for (int i = 0; i < network.ranks(); ++i) {
    Part part;
    part.trace = traces[traces.size() == 1 ? 0 : static_cast<size_t>(i)].get();
    parts.push_back(part);
  }
  SimulationOptions options;
  options.congestion = congestion;
  options.folded = folded;
  std::vector<uint64_t> times;
  for (const RankTimes& r : simulate(network, system, groups, parts, options).ranks)
    times.push_back(r.finish_ns);
  return times;
}

}  // namespace orrery::astra
