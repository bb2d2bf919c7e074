#include "orrery/api/module_collectives.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace orrery {
namespace {

/// XLA's default of xla_gpu_all_reduce_combine_threshold_bytes and its like.
constexpr double kCombined = 30.0 * 1024 * 1024;

double operand_bytes(const OpView& op) {
  double bytes = 0;
  for (uint32_t i = 0; i < op.operand_count(); ++i)
    bytes += static_cast<double>(op.operand_type(i).bytes);
  return bytes;
}

double result_bytes(const OpView& op) {
  double bytes = 0;
  for (uint32_t i = 0; i < op.result_count(); ++i)
    bytes += static_cast<double>(op.result_type(i).bytes);
  return bytes;
}

/// The first group's ranks, `first` + i · stride.
struct Spacing {
  RankGroup group;
  bool uneven = false;
};
Spacing spacing_of(std::span<const int64_t> ranks, int64_t size) {
  Spacing s;
  s.group.size = static_cast<int>(size);
  if (size < 2 || static_cast<int64_t>(ranks.size()) < size) return s;
  std::vector<int64_t> group(ranks.begin(), ranks.begin() + size);
  std::ranges::sort(group);
  const int64_t stride = (group.back() - group.front()) / (size - 1);
  s.group.stride = static_cast<int>(std::max<int64_t>(1, stride));
  for (int64_t i = 1; i < size; ++i)
    s.uneven |= group[static_cast<size_t>(i)] - group[static_cast<size_t>(i - 1)] != stride;
  return s;
}

/// For every operation, the collectives on the longest way to it inside its function: those that
/// wait for one another differ, so that equal ones may go together. What a call or a loop holds
/// lies on the way through it.
class Chains {
 public:
  explicit Chains(const Workload& workload)
      : w_(workload),
        of_op_(workload.ops().size()),
        of_value_(workload.values().size()),
        longest_(workload.functions().size(), -1) {
    for (uint32_t f = 0; f < longest_.size(); ++f) function(FunctionId{f});
  }
  int before(OpId id) const { return of_op_[id.index]; }

 private:
  int function(FunctionId id) {
    int& longest = longest_[id.index];
    if (longest >= 0) return longest;
    longest = 0;
    const RegionId body = w_.function(id).body;
    return longest = body.valid() ? region(body, 0) : 0;
  }
  /// The longest chain in it, where its arguments have `entered` behind them.
  int region(RegionId id, int entered) {
    const Region& r = w_.region(id);
    for (uint32_t i = 0; i < r.argument_count; ++i) of_value_[r.first_argument + i] = entered;
    int longest = entered;
    for_each_op(w_, r, [&](OpId op) { longest = std::max(longest, through(w_.view(op))); });
    return longest;
  }
  int through(const OpView& op) {
    int chain = 0;
    for (uint32_t i = 0; i < op.operand_count(); ++i)
      chain = std::max(chain, of_value_[op.operand(i).index]);
    of_op_[op.id().index] = chain;
    int after = chain;
    if (op_class(op.code()) == OpClass::kCollective) {
      if (op.integer(Attr::kAsync, 0) != 2) ++after;
    } else {
      for (const RegionId r : op.raw_regions()) after = std::max(after, region(r, chain));
      for (const Attr key : {Attr::kCondition, Attr::kCallee})
        if (const FunctionId f = op.callee(key); f.valid())
          after = std::max(after, chain + function(f));
      for (const int64_t branch : op.integers(Attr::kBranches))
        after = std::max(after, chain + function(FunctionId{static_cast<uint32_t>(branch)}));
    }
    for (uint32_t i = 0; i < op.result_count(); ++i) of_value_[op.result(i).index] = after;
    return after;
  }

  const Workload& w_;
  std::vector<int> of_op_;
  std::vector<int> of_value_;
  std::vector<int> longest_;  ///< Of functions.
};

}  // namespace

std::optional<ModuleCall> collective_call(const Workload& workload, OpId id) {
  const OpView op = workload.view(id);
  if (op_class(op.code()) != OpClass::kCollective || op.integer(Attr::kAsync, 0) == 2)
    return std::nullopt;
  ModuleCall found;
  CollectiveCall& call = found.call;
  if (op.operand_count() > 0) call.type = op.operand_type(0).element;
  call.bytes = Bytes(operand_bytes(op));
  const int64_t all = std::max<int64_t>(1, workload.partitions() * workload.replicas());
  const int64_t ranks = op.integer(Attr::kReplicaGroupSize, all);
  switch (op.code()) {
    case Opcode::k_all_reduce:
    case Opcode::k_cross_replica_sum:
      call.kind = CollectiveKind::kAllReduce;
      break;
    case Opcode::k_all_gather:
      call.kind = CollectiveKind::kAllGather;
      // A start's result holds its operand too.
      call.bytes =
          Bytes(op.integer(Attr::kAsync, 0) == 1 ? operand_bytes(op) * static_cast<double>(ranks)
                                                 : result_bytes(op));
      break;
    case Opcode::k_reduce_scatter:
      call.kind = CollectiveKind::kReduceScatter;
      break;
    case Opcode::k_all_to_all:
    case Opcode::k_ragged_all_to_all:
      call.kind = CollectiveKind::kAllToAll;
      break;
    case Opcode::k_collective_broadcast:
      call.kind = CollectiveKind::kBroadcast;
      break;
    case Opcode::k_collective_reduce:
      call.kind = CollectiveKind::kReduce;
      break;
    case Opcode::k_collective_permute:
    case Opcode::k_send:
      call.kind = CollectiveKind::kSendReceive;
      break;
    default:
      return std::nullopt;
  }
  if (call.kind == CollectiveKind::kSendReceive) {
    call.group = {2, 1};
    const auto pairs = op.integers(Attr::kSourceTargetPairs);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2)
      call.group.stride =
          std::max(call.group.stride, static_cast<int>(std::abs(pairs[i + 1] - pairs[i])));
    return found;
  }
  const Spacing spacing = spacing_of(op.integers(Attr::kReplicaGroups), ranks);
  call.group = spacing.group;
  found.uneven = spacing.uneven;
  return found;
}

ModuleCollectives::ModuleCollectives(const Workload& workload, const Program& program,
                                     const CollectivePredictor& library, bool combines)
    : times_(program.launches.size()) {
  struct Together {
    CollectiveCall call;
    double bytes = 0;
    std::vector<size_t> launches;
  };
  const Chains chains(workload);
  std::map<std::tuple<CollectiveKind, int, int, ElementType, double, int>, Together> groups;
  bool uneven = false;
  for (size_t i = 0; i < program.launches.size(); ++i) {
    const Launch& launch = program.launches[i];
    if (launch.kernel.family != KernelFamily::kCollective) continue;
    const auto found = collective_call(workload, launch.op);
    if (!found) continue;
    uneven |= found->uneven;
    const CollectiveCall& c = found->call;
    const bool alone =
        !combines || c.kind == CollectiveKind::kSendReceive || c.kind == CollectiveKind::kAllToAll;
    // What a loop runs many times is not put together with what runs once, and what waits
    // for another not with it.
    Together& t =
        groups[{c.kind, c.group.size, c.group.stride, c.type,
                alone ? -static_cast<double>(i) - 1 : launch.count, chains.before(launch.op)}];
    t.call = c;
    t.bytes += c.bytes.value;
    t.launches.push_back(i);
  }
  for (auto& [key, t] : groups) {
    const double pieces = std::max(1.0, std::ceil(t.bytes / kCombined));
    const bool together = t.launches.size() > 1;
    CollectiveCall piece = t.call;
    piece.bytes = Bytes(together ? t.bytes / pieces : t.bytes);
    const Estimate whole = library.predict(piece).estimate;
    const double times = together ? pieces : 1;
    for (const size_t i : t.launches) {
      const auto own = collective_call(workload, program.launches[i].op);
      const double share = t.bytes > 0 ? own->call.bytes.value / t.bytes
                                       : 1.0 / static_cast<double>(t.launches.size());
      Estimate e = whole;
      e.seconds = whole.seconds * (times * share);
      times_[i] = e;
    }
  }
  if (groups.empty()) return;
  std::vector<bool> held;
  for (const auto& time : times_) held.push_back(time.has_value());
  asynchronous_.emplace(workload, program, held);
  gaps_ = library.gaps();
  if (asynchronous_->size() < static_cast<size_t>(std::ranges::count(held, true)))
    gaps_.emplace_back(
        "collectives wait for what is before them and are waited for: none runs "
        "beside compute");
  if (asynchronous_->size() > 0)
    gaps_.emplace_back(
        "collectives between their start and their end do not slow the kernels beside them; each "
        "is listed with what the program waits for it");
  if (uneven)
    gaps_.emplace_back("replica groups that are not evenly spaced are taken as if they were");
}

void ModuleCollectives::put(std::span<Estimate> estimates) const {
  for (size_t i = 0; i < times_.size(); ++i)
    if (times_[i]) {
      const Joules joules = estimates[i].joules;
      estimates[i] = *times_[i];
      estimates[i].joules = joules;
    }
  if (asynchronous_) asynchronous_->hide(estimates);
}

}  // namespace orrery
