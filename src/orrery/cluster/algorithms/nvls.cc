#include <algorithm>
#include <bit>

#include "orrery/cluster/nccl/tuning.h"

namespace orrery {
namespace {

/// The switch adds what it can add: not bytes.
bool switch_adds(const GroupPlace& place, ElementType type) {
  return place.inside->reduces && bit_width(type) >= 16 && !is_complex(type);
}

class Nvls final : public CollectiveAlgorithm {
 public:
  bool takes(CollectiveKind kind, const GroupPlace& place, ElementType type) const override {
    return kind == CollectiveKind::kAllReduce && place.nodes == 1 && place.ranks > 2 &&
           switch_adds(place, type);
  }
  CollectiveWork work(CollectiveKind kind, Bytes bytes, const GroupPlace& place,
                      Protocol protocol) const override {
    (void)protocol;
    (void)kind;
    return {2, 0, bytes * (1 + 1.0 / place.ranks), Bytes()};
  }
  bool in_nccl(Protocol protocol) const override { return protocol == Protocol::kSimple; }
  double nccl_cost(CollectiveKind, Bytes bytes, const GroupPlace&, Protocol,
                   const NcclTopology& topology) const override {
    return nccl::kNvlsLatency + bytes.value / (1e3 * topology.nvls_bandwidth);
  }
};

class NvlsTree final : public CollectiveAlgorithm {
 public:
  bool takes(CollectiveKind kind, const GroupPlace& place, ElementType type) const override {
    return kind == CollectiveKind::kAllReduce && place.nodes > 1 && place.per_node > 2 &&
           switch_adds(place, type);
  }
  CollectiveWork work(CollectiveKind kind, Bytes bytes, const GroupPlace& place,
                      Protocol protocol) const override {
    (void)protocol;
    (void)kind;
    return {2, 2.0 * (std::bit_width(static_cast<unsigned>(place.nodes)) - 1),
            bytes * (1 + 1.0 / place.per_node), bytes * (place.nodes == 2 ? 1.0 : 2.0)};
  }
  bool in_nccl(Protocol protocol) const override { return protocol == Protocol::kSimple; }
  double nccl_cost(CollectiveKind, Bytes bytes, const GroupPlace& place, Protocol,
                   const NcclTopology& topology) const override {
    const double network = topology.net_bandwidth / (place.nodes == 2 ? 1 : 2);
    const double bandwidth = std::min(topology.nvls_bandwidth, network * 5.0 / 6);
    return nccl::kNvlsLatency +
           2 * (std::bit_width(static_cast<unsigned>(place.nodes)) - 1) * nccl::kNvlsTreeNetHop +
           bytes.value / (1e3 * bandwidth);
  }
  double net_hop(Protocol) const override { return nccl::kNvlsTreeNetHop; }
  /// NCCL's largest for NVLS.
  Bytes chunk(Protocol) const override { return Bytes(128 * 1024); }
  /// 161 GB/s of bus bandwidth, 86 of buffer, over two nodes of 8 H800 with adapters for 100
  /// (github.com/NVIDIA/nccl-tests/issues/153).
  double net_share(Protocol) const override { return 0.86; }
};

const Registration<CollectiveAlgorithm> kNvls(
    {.name = "nvls",
     .summary = "The NVSwitch adds and multicasts, within one node and of elements of 16 bits or "
                "more: launch + 2 λ + (1 + 1/n) S / B",
     .source = "Klenk et al., An in-network architecture for accelerating shared-memory "
               "multiprocessor collectives, ISCA 2020; NCCL 2.27",
     .parameters = {}},
    [] { return std::make_unique<Nvls>(); });
const Registration<CollectiveAlgorithm> kNvlsTree(
    {.name = "nvls-tree",
     .summary = "The NVSwitch adds inside each of k nodes, a double binary tree joins them: launch "
                "+ 2 λ + 2 log2(k) λnet + the slower of (1 + 1/p) S / B and 2 S / Bnet (S / Bnet "
                "of two nodes)",
     .source = "NCCL 2.27",
     .parameters = {}},
    [] { return std::make_unique<NvlsTree>(); });

}  // namespace
}  // namespace orrery
