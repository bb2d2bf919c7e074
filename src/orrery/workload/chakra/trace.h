#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "orrery/base/source.h"
#include "orrery/workload/chakra/node.h"

namespace orrery::chakra {

/// What a simulation needs of a node, in a fixed number of bytes.
struct TraceNode {
  uint64_t id = 0;
  uint64_t duration_us = 0;
  uint64_t operations = 0;      ///< num_ops
  uint64_t tensor_bytes = 0;    ///< tensor_size
  uint64_t comm_bytes = 0;      ///< comm_size
  uint32_t tag = 0;             ///< comm_tag
  uint32_t priority = 0;        ///< comm_priority
  int32_t source = -1;          ///< comm_src; -1: not said.
  int32_t destination = -1;     ///< comm_dst; -1: not said.
  uint32_t group = 0;           ///< pg_name, by index in `Trace::groups`; 0: all ranks.
  uint32_t dimensions = 0;      ///< involved_dim, one bit a dimension.
  uint8_t dimension_count = 0;  ///< How many it speaks of; 0: not said, all take part.
  NodeType type = NodeType::kInvalid;
  Collective collective = Collective::kAllReduce;  ///< comm_type
  bool cpu = false;                                ///< is_cpu_op
  bool has_comm_type = false;
  bool has_comm_bytes = false;

  bool operator==(const TraceNode&) const = default;
};

/// The nodes of one rank by rising id, with their dependencies, data and control alike.
/// The file stays mapped for names; the table takes about 100 bytes a node and 4 a
/// dependency, whatever else the nodes carry. At most 10,000,000 nodes and 50,000,000
/// dependencies are taken, so that no trace needs much over a gigabyte.
class Trace {
 public:
  enum class Dependencies : uint8_t { kChecked, kIgnored };

  /// Throws `kInput` for a malformed file and, unless dependencies are ignored, for two nodes
  /// of one id, for a dependency on a node that is not there and for nodes that depend on
  /// each other in a circle, which it names. With them ignored no node has any.
  explicit Trace(const Source& source, Dependencies dependencies = Dependencies::kChecked);

  const std::string& file() const { return source_.name(); }
  std::span<const TraceNode> nodes() const { return nodes_; }
  /// Nodes that depend on this one, by rising id.
  std::span<const uint32_t> children(uint32_t node) const;
  uint32_t dependencies(uint32_t node) const { return dependencies_[node]; }
  /// Names of process groups; the first is "", all ranks.
  const std::vector<std::string>& groups() const { return groups_; }

  /// The whole node, read from the file again.
  Node whole(uint32_t node) const;
  /// "node 12 'all_reduce'", for messages.
  std::string named(uint32_t node) const;
  /// Throws `kInput` at the node's byte in the file.
  [[noreturn]] void fail(uint32_t node, const std::string& message) const;

 private:
  void read_nodes(std::vector<std::pair<uint32_t, uint64_t>>& edges);
  void link(std::vector<std::pair<uint32_t, uint64_t>>& edges);
  void check_acyclic() const;

  Source source_;
  std::vector<TraceNode> nodes_;
  std::vector<uint64_t> offsets_;  ///< Of each node in the file.
  std::vector<uint32_t> dependencies_;
  std::vector<uint64_t> first_child_;  ///< One more than nodes.
  std::vector<uint32_t> children_;
  std::vector<std::string> groups_ = {""};
};

}  // namespace orrery::chakra
