#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/source.h"
#include "orrery/hardware/cluster.h"
#include "orrery/hardware/component.h"
#include "orrery/hardware/schema.h"

namespace orrery {

/// A cluster's file with all it inherits.
struct ClusterTree {
  std::string name;                                      ///< The file's name without ".yaml".
  std::map<std::string, std::string> words;              ///< "title", "device", "notes"
  SourceLocation device_where;                           ///< Where its device is named.
  std::map<std::string, std::string> sources;            ///< Citations by key.
  Component fabric;                                      ///< Its parts are the tiers, inside first.
  std::map<std::string, std::vector<FabricLink>> drawn;  ///< Of tiers that are graphs.
};

/// Gives the tree that `inherits: NAME` means; `where` is the place of NAME.
using ClusterParent =
    std::function<ClusterTree(const std::string& name, const SourceLocation& where)>;

/// Reads one cluster's file: the parent's tree, changed where this file states something, tiers
/// of the same name key by key. Throws `kInput` with line and column.
ClusterTree read_cluster(const Source& source, const ClusterParent& parent);

/// The cluster that `tree` describes, of such devices. Throws `kInput` at a tier that does not
/// hold together: a torus whose extents are not given, a drawn link to nowhere.
Cluster make_cluster(const ClusterTree& tree, Device device);

/// The keys of a tier; their paths are plain ("bandwidth").
std::span<const SchemaRow> tier_schema();
/// The tier's key, or null.
const SchemaRow* find_tier_row(std::string_view key);
/// The table of tier_schema() as Markdown.
std::string tier_markdown();

/// "switch", "fat-tree" …
std::string_view name(FabricShape shape);

}  // namespace orrery
