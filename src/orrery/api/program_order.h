#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "orrery/model/stack.h"
#include "orrery/workload/workload.h"

namespace orrery {

/// A tree of names: the parts of a model. Part 0 is the whole; parents come before
/// their children.
class PartTree {
 public:
  struct Part {
    std::string name;
    uint32_t parent = 0;  ///< Its own of the whole.
  };
  explicit PartTree(std::string whole) { parts_.push_back({std::move(whole), 0}); }

  /// The part `name` of `parent`, added where it is new.
  uint32_t child(uint32_t parent, std::string_view name);
  const std::vector<Part>& parts() const { return parts_; }

 private:
  std::vector<Part> parts_;
  std::map<std::pair<uint32_t, std::string>, uint32_t> known_;
};

/// A launch where the program runs it.
struct OrderedLaunch {
  uint32_t launch = 0;  ///< Which of the program's.
  uint32_t part = 0;    ///< Of the model that it belongs to.
  double count = 1;     ///< How often in a row; 1 unless the order is folded.
  OpId step;            ///< The operation directly in the entry's body that runs it.
};

struct ProgramOrder {
  std::vector<OrderedLaunch> launches;
  PartTree parts;
  bool folded = false;  ///< What repeats stands once, with its count.
};

/// The order in which a step runs `launches`, which a `Program` lists function by
/// function: calls are followed and loops are unrolled, up to `most` launches; a longer
/// step is folded, every launch where it is run first.
///
/// Parts come from what the file says: the scopes or locations of operations (HLO op_name,
/// StableHLO loc, ONNX node names, the zoo's layers), below the calls that lead to them;
/// without, from functions and loops.
ProgramOrder order_program(const Workload& workload, std::span<const Launch> launches, double most);

/// The parts in an operation's scope or location: "encoder/layer/3/query" is "encoder",
/// "layer.3", "query"; "/home/me/model.py:12" is "model.py:12". `names_operation`: the
/// last one is the operation itself and left out.
std::vector<std::string> split_scope(std::string_view scope, bool names_operation);

}  // namespace orrery
