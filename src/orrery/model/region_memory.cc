#include "orrery/model/region_memory.h"

#include <algorithm>

namespace orrery {
namespace {

using Home = MemoryGraph::Home;

constexpr uint32_t kNone = UINT32_MAX;
/// A kernel with several results has a table of pointers to them.
constexpr int64_t kPointerBytes = 8;

/// Which of a loop's values its body passes on as they are.
std::vector<bool> unchanged_by_body(const Workload& w, const OpView& loop) {
  std::vector<bool> unchanged(loop.result_count(), false);
  const std::vector<RegionId> regions = loop.raw_regions();
  if (regions.empty()) return unchanged;
  const Region& body = w.region(regions.back());
  for_each_op(w, body, [&](OpId id) {
    const OpView op = w.view(id);
    if (op.code() != Opcode::k_return) return;
    for (uint32_t i = 0; i < op.operand_count() && i < unchanged.size(); ++i)
      unchanged[i] = op.operand(i).index == body.first_argument + i;
  });
  return unchanged;
}

class RegionMemory {
 public:
  RegionMemory(const Workload& w, const RegionKernels& kernels,
               std::span<const int64_t> region_bytes)
      : w_(w),
        k_(kernels),
        region_bytes_(region_bytes),
        buffer_(kernels.values.size(), kNone),
        last_read_(kernels.values.size(), 0),
        of_library_(kernels.values.size(), false) {}

  MemoryGraph run(const std::vector<int32_t>& result_of_argument) {
    for (uint32_t i = 0; i < k_.arguments.size(); ++i)
      buffer_[k_.arguments[i]] = graph_.add_buffer(Home::kArgument, bytes(k_.arguments[i]), i);
    for (uint32_t s = 0; s < k_.steps.size(); ++s)
      for (uint32_t v : k_.steps[s].reads) last_read_[v] = s;
    for (uint32_t v : k_.results) last_read_[v] = kNone;
    for (uint32_t s = 0; s < k_.steps.size(); ++s) {
      graph_.add_step(k_.steps[s].op.index);
      for (uint32_t v : k_.steps[s].reads)
        if (buffer_[v] != kNone) graph_.reads(buffer_[v]);
      if (k_.steps[s].runs_bodies)
        add_bodies(s);
      else
        add_kernel(s);
    }
    add_results(result_of_argument);
    return std::move(graph_);
  }

 private:
  int64_t bytes(uint32_t value) const { return k_.values[value].type->bytes; }
  /// Nobody else needs what is in its memory once `step` has run.
  bool is_free_after(uint32_t value, uint32_t step) const {
    return buffer_[value] != kNone && !k_.values[value].borrowed && last_read_[value] <= step;
  }
  uint32_t write(uint32_t value, OpId op) {
    const uint32_t buffer = graph_.add_buffer(Home::kTemporary, bytes(value), op.index);
    graph_.writes(buffer);
    return buffer;
  }
  void add_bodies(uint32_t s);
  void add_kernel(uint32_t s);
  void add_results(const std::vector<int32_t>& result_of_argument);

  const Workload& w_;
  const RegionKernels& k_;
  std::span<const int64_t> region_bytes_;
  MemoryGraph graph_;
  std::vector<uint32_t> buffer_;     ///< Of each value in memory.
  std::vector<uint32_t> last_read_;  ///< Step; kNone where the caller gets it.
  std::vector<bool> of_library_;
};

void RegionMemory::add_bodies(uint32_t s) {
  const RegionKernels::Step& step = k_.steps[s];
  const OpView op = w_.view(step.op);
  graph_.needs_scratch(bytes_of_bodies(op, region_bytes_));
  const bool loops = op.code() == Opcode::k_while && step.reads.size() == step.writes.size();
  std::vector<bool> unchanged;
  if (loops) unchanged = unchanged_by_body(w_, op);
  for (size_t i = 0; i < step.writes.size(); ++i) {
    const uint32_t result = step.writes[i].value;
    buffer_[result] = write(result, step.op);
    if (!loops || buffer_[step.reads[i]] == kNone) continue;
    // What the loop changes and others still need, it changes in a copy.
    const bool is_argument = graph_.buffers()[buffer_[step.reads[i]]].home == Home::kArgument;
    if (unchanged[i] || (!is_argument && is_free_after(step.reads[i], s)))
      graph_.share(buffer_[result], buffer_[step.reads[i]]);
  }
}

void RegionMemory::add_kernel(uint32_t s) {
  const RegionKernels::Step& step = k_.steps[s];
  graph_.needs_scratch(step.call.workspace);
  for (const RegionKernels::Write& write_of : step.writes) {
    const uint32_t v = write_of.value;
    buffer_[v] = write(v, write_of.op);
    of_library_[v] = step.call.is_call;
    if (write_of.updates != kNone && is_free_after(write_of.updates, s)) {
      graph_.share(buffer_[v], buffer_[write_of.updates]);
      continue;
    }
    for (uint32_t operand : write_of.may_overwrite)
      if (buffer_[operand] != kNone)
        graph_.may_overwrite(buffer_[v], buffer_[operand], of_library_[operand]);
  }
  const size_t results = step.writes.size() + (step.call.is_call ? 1 : 0);
  if (results > 1) graph_.needs_tables(kPointerBytes * static_cast<int64_t>(results));
}

void RegionMemory::add_results(const std::vector<int32_t>& result_of_argument) {
  std::vector<uint32_t> buffers;
  std::vector<bool> taken(k_.values.size(), false);
  const OpId last = k_.steps.empty() ? OpId{0} : k_.steps.back().op;
  for (uint32_t v : k_.results) {
    uint32_t buffer = buffer_[v];
    if (buffer != kNone && (k_.values[v].borrowed || taken[v])) {
      graph_.add_step(last.index);
      graph_.reads(buffer);
      buffer = write(v, last);
    }
    taken[v] = true;
    buffers.push_back(buffer);
    if (buffer != kNone) graph_.set_result(buffer);
  }
  for (size_t i = 0; i < result_of_argument.size() && i < k_.arguments.size(); ++i) {
    const int32_t result = result_of_argument[i];
    if (result < 0 || static_cast<size_t>(result) >= buffers.size()) continue;
    if (const uint32_t b = buffers[static_cast<size_t>(result)]; b != kNone)
      graph_.share(buffer_[k_.arguments[i]], b);
  }
}

}  // namespace

MemoryGraph region_memory(const Workload& w, const RegionKernels& kernels,
                          std::span<const int64_t> region_bytes,
                          const std::vector<int32_t>& result_of_argument) {
  return RegionMemory(w, kernels, region_bytes).run(result_of_argument);
}

int64_t bytes_of_bodies(const OpView& op, std::span<const int64_t> region_bytes) {
  int64_t most = 0;
  for (RegionId r : op.bodies()) most = std::max(most, region_bytes[r.index]);
  return most;
}

}  // namespace orrery
