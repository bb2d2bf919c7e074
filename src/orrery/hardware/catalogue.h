#pragma once

#include <string>
#include <utility>
#include <vector>

#include "orrery/base/source.h"
#include "orrery/hardware/cluster.h"
#include "orrery/hardware/device.h"

namespace orrery {

struct ClusterTree;
struct DeviceTree;

/// A what-if: {"memory.bandwidth", "6 TB/s"}.
using Override = std::pair<std::string, std::string>;

/// A line of the catalogue's list.
struct Listing {
  std::string name;
  std::string title;
  std::string kind;
  Bytes memory;
  BytesPerSecond bandwidth;
  FlopsPerSecond bf16;  ///< On matrix units, else on vector units; 0 where it takes none.
  Watts power;          ///< 0 where not published.
};

/// A figure with the place it stands for and where it was taken from.
struct CitedFigure {
  std::string path;    ///< "memory.l2.capacity"
  std::string text;    ///< As written: "50 MiB".
  std::string source;  ///< The citation in full; "what-if" for an override.
};

/// A line of the catalogue's list of clusters.
struct ClusterListing {
  std::string name;
  std::string title;
  std::string device;
  double largest = 0;                   ///< Devices.
  std::vector<std::string> tiers = {};  ///< "8 by nvlink", inside first.
};

/// The hardware the project knows: one YAML file a device under `folder`, one a cluster under
/// `folder`/clusters. The format is described in docs/hardware.md.
class Catalogue {
 public:
  explicit Catalogue(std::string folder) : folder_(std::move(folder)) {}

  /// Names, sorted.
  std::vector<std::string> names() const;

  /// A device by catalogue name, or by the path of a user's own YAML file (what
  /// holds a slash or ends in .yaml or .yml), with `overrides` applied. Unknown
  /// names and faulty overrides are `kUsage` with the nearest names; faults in a
  /// file are `kInput` with line and column.
  Device device(const std::string& name_or_path, const std::vector<Override>& overrides = {}) const;

  /// A device from YAML text, which may inherit from this catalogue; paths in it
  /// are relative to the folder of `source.name()`.
  Device device_from(const Source& source, const std::vector<Override>& overrides = {}) const;

  /// Names of clusters, sorted.
  std::vector<std::string> cluster_names() const;

  /// A cluster as `device` gives devices. Overrides begin with "fabric." and the tier
  /// ("fabric.nvlink.bandwidth") or with "device." ("device.memory.bandwidth").
  Cluster cluster(const std::string& name_or_path,
                  const std::vector<Override>& overrides = {}) const;
  /// A cluster from YAML text.
  Cluster cluster_from(const Source& source, const std::vector<Override>& overrides = {}) const;

  /// Whether `name_or_path` is a cluster of the catalogue or a file that has a fabric.
  bool is_cluster(const std::string& name_or_path) const;

  /// One line a cluster, sorted by name.
  std::vector<ClusterListing> list_clusters() const;

  /// Names of the clusters that are made of a device of the catalogue, sorted.
  std::vector<std::string> clusters_of(const std::string& device) const;

  /// The figures of a cluster's fabric with their sources, inside first.
  std::vector<CitedFigure> cluster_figures(const std::string& name_or_path,
                                           const std::vector<Override>& overrides = {}) const;

  /// One line a device, sorted by name.
  std::vector<Listing> list() const;

  /// All figures of a device with their sources, in the order of the schema.
  std::vector<CitedFigure> figures(const std::string& name_or_path,
                                   const std::vector<Override>& overrides = {}) const;

  /// The component tree that `device` and `figures` are views of.
  DeviceTree tree(const std::string& name_or_path,
                  const std::vector<Override>& overrides = {}) const;

 private:
  std::string path_of(const std::string& name) const;
  std::string cluster_path_of(const std::string& name) const;
  DeviceTree load(const Source& source, std::vector<std::string>& chain) const;
  ClusterTree load_cluster(const Source& source, std::vector<std::string>& chain) const;
  ClusterTree cluster_tree(const Source& source, const std::vector<Override>& overrides,
                           std::vector<Override>& of_device) const;

  std::string folder_;
};

}  // namespace orrery
