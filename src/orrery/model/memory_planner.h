#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace orrery {

/// What a program does to memory, without what it computes: steps, and the
/// buffers each reads and writes. A label is whatever its maker finds a name by.
class MemoryGraph {
 public:
  enum class Home : uint8_t {
    kTemporary,
    kArgument,  ///< The caller's, there from the first step to the last.
    kConstant,  ///< Part of the program, likewise.
  };
  struct Buffer {
    int64_t bytes = 0;
    uint32_t label = 0;
    Home home = Home::kTemporary;
    bool is_result = false;
  };
  struct Step {
    uint32_t label = 0;
    int64_t scratch = 0;  ///< Bytes it needs while it runs: a library's workspace, a loop's body.
    int64_t tables = 0;   ///< Bytes of pointer tables of its results, kept apart throughout.
    uint32_t first_use = 0;
    uint32_t end_use = 0;
  };
  struct Use {
    uint32_t buffer = 0;
    bool writes = false;
  };
  struct Overwrite {
    uint32_t result = 0;
    uint32_t operand = 0;
    bool through_view = false;
  };

  uint32_t add_buffer(Home home, int64_t bytes, uint32_t label);
  /// The program hands it back: it lives to the end.
  void set_result(uint32_t buffer) {
    buffers_[buffer].is_result = true;
    results_.push_back(buffer);
  }

  /// Opens the next step; the calls below belong to the one opened last.
  uint32_t add_step(uint32_t label);
  void reads(uint32_t buffer) { uses_.push_back({buffer, false}), close_uses(); }
  void writes(uint32_t buffer) { uses_.push_back({buffer, true}), close_uses(); }
  void needs_scratch(int64_t bytes) { steps_.back().scratch = bytes; }
  void needs_tables(int64_t bytes) { steps_.back().tables = bytes; }
  /// `result` may be written over `operand` where this step is the operand's last
  /// reader; one read through a view only within the memory of a result.
  void may_overwrite(uint32_t result, uint32_t operand, bool through_view) {
    overwrites_.push_back({result, operand, through_view});
  }

  /// Both are the same memory, whatever their lives: updates in place, what loops carry.
  void share(uint32_t one, uint32_t other) { shared_.emplace_back(one, other); }

  std::span<const Buffer> buffers() const { return buffers_; }
  std::span<const Step> steps() const { return steps_; }
  std::span<const Use> uses(const Step& step) const {
    return std::span(uses_).subspan(step.first_use, step.end_use - step.first_use);
  }
  /// In the order they were named.
  std::span<const uint32_t> results() const { return results_; }
  std::span<const Overwrite> overwrites() const { return overwrites_; }
  std::span<const std::pair<uint32_t, uint32_t>> shared() const { return shared_; }

 private:
  void close_uses() { steps_.back().end_use = static_cast<uint32_t>(uses_.size()); }

  std::vector<Buffer> buffers_;
  std::vector<Step> steps_;
  std::vector<Use> uses_;
  std::vector<uint32_t> results_;
  std::vector<Overwrite> overwrites_;
  std::vector<std::pair<uint32_t, uint32_t>> shared_;
};

/// How the runtime lays buffers out.
struct MemoryLayout {
  /// Where a buffer may begin: XLA's alignment of GPU allocations.
  int64_t alignment = 256;
  /// Results' and given-away arguments' memory holds temporaries while it is free.
  bool temporaries_in_results = true;
};

/// Something that holds memory.
struct MemoryHolder {
  uint32_t label = 0;
  MemoryGraph::Home home = MemoryGraph::Home::kTemporary;
  bool is_result = false;
  bool is_scratch = false;  ///< Label of the step that needs it.
  int64_t bytes = 0;
};

/// Where a graph's buffers fit. Sums stop at the largest integer instead of
/// overflowing.
struct BufferPlan {
  int64_t arguments = 0;
  int64_t results = 0;
  int64_t aliased = 0;  ///< Of the results: those in an argument's memory.
  int64_t constants = 0;
  int64_t temporaries = 0;                ///< The packed size, with its holes.
  int64_t live_temporaries = 0;           ///< Most that is needed at once: the size without holes.
  uint32_t peak_step = 0;                 ///< Where that is: a place in the order.
  std::vector<MemoryHolder> holders;      ///< At that step, largest first.
  std::vector<int64_t> temporaries_live;  ///< At each step of the order.
};

/// Assigns buffers as XLA does (buffer_assignment.cc, heap_simulator.cc of
/// openxla/xla): a buffer lives from the step that writes it to its last reader;
/// shared ones are one; a result may overwrite an operand that dies; what fits
/// into free time of a result's memory goes there; the rest is packed into one
/// allocation, once largest first and once longest-lived first, each into the
/// smallest gap among those alive at the same time, and the smaller packing is
/// kept. Where more than some ten million pairs of buffers live together the
/// packing is taken to be perfect, so that time stays near linear.
///
/// `order` names every step once, writers before readers.
BufferPlan plan_buffers(const MemoryGraph& graph, std::span<const uint32_t> order,
                        const MemoryLayout& layout);

/// The most bytes alive at once in this order of what is not an argument's or a
/// constant's memory, results from when they are written.
int64_t live_bytes(const MemoryGraph& graph, std::span<const uint32_t> order);

}  // namespace orrery
