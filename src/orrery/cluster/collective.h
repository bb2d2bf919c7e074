#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "orrery/base/element_type.h"
#include "orrery/base/units.h"
#include "orrery/hardware/cluster.h"
#include "orrery/kernel/estimate.h"

namespace orrery {

enum class CollectiveKind : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kSendReceive,  ///< Each rank to the next, as a pipeline's stages do.
  kPermute,
  kBarrier,
};

inline constexpr size_t kCollectiveKindCount = static_cast<size_t>(CollectiveKind::kBarrier) + 1;

/// "all-reduce" and so on.
std::string_view name(CollectiveKind kind);
/// "an all-reduce", "a broadcast".
std::string with_article(CollectiveKind kind);
/// The inverse of `name`; throws `kUsage` with the nearest names.
CollectiveKind collective_kind(std::string_view text);

/// Ranks first, first + stride, … `size` of them. On a cluster of nodes of 8, {8, 1} is a
/// node and {4, 8} are the first devices of four nodes.
struct RankGroup {
  int size = 1;
  int stride = 1;
  bool operator==(const RankGroup&) const = default;
};

/// One collective over one group. All groups alike that fill the cluster's nodes run it at
/// once, so that adapters of a node are shared among the groups that cross it.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  /// As nccl-tests count: of an all-gather the whole result, of a reduce-scatter the whole
  /// input, of an all-to-all what one rank sends to all, of the others one rank's buffer. Of a
  /// barrier nothing.
  Bytes bytes;
  RankGroup group;
  ElementType type = ElementType::kBF16;
  bool operator==(const CollectiveCall&) const = default;
};

struct CollectiveEstimate {
  Estimate estimate;
  std::string_view algorithm;  ///< "ring", "tree", "nvls", "direct" …
  std::string_view protocol;   ///< "ll", "ll128", "simple"; "" where there is none.
  int channels = 0;
  Bytes sent;  ///< By one rank, for energy and for contention with others.
};

/// How far this kind of answer was compared with measurements.
struct CollectiveTrust {
  std::string verdict = "untested";  ///< "validated", "extrapolated", "untested"
  std::string detail;                ///< The error seen and where, in words.
};

/// Collectives on one cluster. Thread-safe, under a microsecond a call in closed form; the
/// same question has the same answer.
class CollectivePredictor {
 public:
  virtual ~CollectivePredictor() = default;
  /// Throws as `place_group` does for a group that is not on the cluster.
  virtual CollectiveEstimate predict(const CollectiveCall& call) const = 0;
  virtual CollectiveTrust trust(const CollectiveCall& call) const = 0;
  virtual std::vector<std::string> gaps() const = 0;
  virtual std::vector<std::pair<std::string, std::string>> provenance() const = 0;
};

/// What a library is bound with beside the cluster.
struct CollectiveBinding {
  std::string data;       ///< The folder of fitted data.
  std::string algorithm;  ///< Forced, as NCCL_ALGO does; empty: the library chooses.
  std::string protocol;   ///< Forced, as NCCL_PROTO does.
};

/// A library that runs collectives, registered by name ("nccl", "vllm-custom"):
/// `Registry<CollectiveLibrary>`.
class CollectiveLibrary {
 public:
  virtual ~CollectiveLibrary() = default;
  virtual std::unique_ptr<CollectivePredictor> bind(const Cluster& cluster,
                                                    const CollectiveBinding& binding) const = 0;
  std::unique_ptr<CollectivePredictor> bind(const Cluster& cluster, const std::string& data) const {
    return bind(cluster, CollectiveBinding{data, "", ""});
  }
};

/// The library that a cluster's devices come with: "nccl" for GPUs, else "alpha-beta".
std::string_view default_library(const Cluster& cluster);

}  // namespace orrery
