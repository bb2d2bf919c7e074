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

}  // namespace

std::optional<ModuleCall> collective_call(const Workload& workload, OpId id) {
  const OpView op = workload.view(id);
  if (op_class(op.code()) != OpClass::kCollective || op.integer(Attr::kAsync, 0) == 2)
    return std::nullopt;
  ModuleCall found;
  CollectiveCall& call = found.call;
  if (op.operand_count() > 0) call.type = op.operand_type(0).element;
  call.bytes = Bytes(operand_bytes(op));
  switch (op.code()) {
    case Opcode::k_all_reduce:
    case Opcode::k_cross_replica_sum:
      call.kind = CollectiveKind::kAllReduce;
      break;
    case Opcode::k_all_gather:
      call.kind = CollectiveKind::kAllGather;
      call.bytes = Bytes(result_bytes(op));
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
  const int64_t all = std::max<int64_t>(1, workload.partitions() * workload.replicas());
  const Spacing spacing =
      spacing_of(op.integers(Attr::kReplicaGroups), op.integer(Attr::kReplicaGroupSize, all));
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
  std::map<std::tuple<CollectiveKind, int, int, ElementType, double>, Together> groups;
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
    // What a loop runs many times is not put together with what runs once.
    Together& t = groups[{c.kind, c.group.size, c.group.stride, c.type,
                          alone ? -static_cast<double>(i) - 1 : launch.count}];
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
  gaps_ = library.gaps();
  gaps_.emplace_back(
      "collectives wait for what is before them and are waited for: none runs "
      "beside compute");
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
}

}  // namespace orrery
