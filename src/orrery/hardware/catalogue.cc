#include "orrery/hardware/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "orrery/base/nearest.h"
#include "orrery/hardware/cluster_reader.h"
#include "orrery/hardware/component.h"
#include "orrery/hardware/device_reader.h"
#include "orrery/hardware/schema.h"
#include "orrery/hardware/yaml_document.h"

namespace orrery {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestChain = 16;

bool is_path(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".yaml") || name.ends_with(".yml");
}

/// A file small enough to be a description; a pipe or a device would block.
Source open_description(const std::string& path) {
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (!fs::exists(status)) throw_input(path, "no such file");
  if (!fs::is_regular_file(status)) throw_input(path, "is not a regular file");
  const uintmax_t size = fs::file_size(path, code);
  if (!code && size > kLargestYamlFile)
    throw_input(path, fmt::format("is {} bytes long; a description of hardware has at most {}",
                                  size, kLargestYamlFile));
  return Source::from_file(path);
}

std::string canonical(const std::string& path) {
  std::error_code code;
  const fs::path full = fs::weakly_canonical(path, code);
  return code ? path : full.string();
}

/// Does changing `path` leave peak rates that in a real machine would follow it?
bool rates_depend_on(const std::string& path) {
  return path == "compute.units" || path.starts_with("compute.clock.") ||
         path.starts_with("compute.array.");
}

void apply(const std::vector<Override>& overrides, DeviceTree& tree) {
  for (const auto& [path, text] : overrides) {
    const SchemaRow* row = find_schema_row(path);
    if (row == nullptr || row->kind == SchemaRow::Kind::kSources) {
      const auto near = nearest(path, quantity_paths());
      throw_usage(fmt::format(
          "nothing in {} is called '{}'{}", tree.name, path,
          near.empty() ? fmt::format("; at the top there are: {}", "compute, memory, links, power")
                       : did_you_mean(near)));
    }
    if (row->kind == SchemaRow::Kind::kSection) {
      std::vector<std::string> keys = keys_of_section(path);
      keys.pop_back();  // `source` is no figure
      throw_usage(fmt::format("'{0}' is a section; set one of its keys: {0}.{1}", path,
                              fmt::join(keys, fmt::format(", {}.", path))));
    }
    if (row->kind != SchemaRow::Kind::kQuantity)
      throw_usage(fmt::format("'{}' is not a quantity; only quantities can be set", path));
    Figure figure{"", text, 0, "what-if", {}};
    try {
      figure.value = parse_figure(text, *row);
    } catch (const std::invalid_argument& e) {
      throw_usage(fmt::format("{}: {}", path, e.what()));
    }
    tree.root.set_figure(path, std::move(figure));
  }
}

/// A what-if may open a section (a link the device has not) and leave it half
/// said, which a file may not.
void check_opened_sections(const std::vector<Override>& overrides, const DeviceTree& tree) {
  for (const auto& [path, text] : overrides) {
    const std::string section = path.substr(0, path.rfind('.'));
    for (const SchemaRow& row : device_schema())
      if (row.required && row.path.starts_with(section + ".") &&
          row.path.rfind('.') == section.size() && tree.root.figure(row.path) == nullptr)
        throw_usage(
            fmt::format("{} has no '{}'; to add it, set {} too", tree.name, section, row.path));
  }
}

/// The device of a description, with figures that a what-if puts in place of its own.
Device changed(DeviceTree tree, const std::vector<Override>& overrides) {
  if (overrides.empty()) return make_device(tree);
  const auto described = std::make_shared<const Device>(make_device(tree));
  apply(overrides, tree);
  check_opened_sections(overrides, tree);
  Device device = make_device(tree);
  // A board that is held to another power is still the board whose kernels were measured.
  if (described->power_limit.value > 0) device.rated_power = described->power_limit;
  device.as_described = described;
  for (const auto& [path, text] : overrides)
    if (rates_depend_on(path))
      device.gaps.push_back(fmt::format(
          "what-if {} = {}: peak rates and caches stay as stated; set those that follow", path,
          text));
  return device;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::error_code code;
  fs::directory_iterator files(folder, code);
  if (code) throw_input(folder.string(), "cannot read the hardware catalogue: " + code.message());
  std::vector<std::string> found;
  for (const fs::directory_entry& file : files)
    if (file.path().extension() == ".yaml") found.push_back(file.path().stem().string());
  std::sort(found.begin(), found.end());
  return found;
}

/// The tree that `inherits: name` at `where` of `source` means.
template <class Tree, class PathOf, class Load>
Tree inherited(const Source& source, const std::string& name, const SourceLocation& where,
               const std::vector<std::string>& chain, const PathOf& path_of, const Load& load) {
  try {
    const std::string path =
        is_path(name) ? (fs::path(source.name()).parent_path() / name).string() : path_of();
    if (std::find(chain.begin(), chain.end(), canonical(path)) != chain.end())
      throw Error(
          ErrorKind::kInput, where,
          fmt::format("'{}' inherits from itself by way of {} file(s)", name, chain.size()));
    if (chain.size() >= kLongestChain)
      throw Error(ErrorKind::kInput, where,
                  fmt::format("inherits over more than {} files", kLongestChain));
    return load(open_description(path));
  } catch (const Error& e) {
    // A parent that is not there is a fault of the line that names it; one that is there and
    // broken has its own place already.
    if (e.where().line > 0) throw;
    throw Error(ErrorKind::kInput, where, fmt::format("cannot inherit: {}", e.what()));
  }
}

/// A what-if on the fabric: "nvlink.bandwidth" without its "fabric.".
void apply(const std::string& path, const std::string& text, ClusterTree& tree) {
  std::vector<std::string> known;
  for (const Component& tier : tree.fabric.parts)
    for (const SchemaRow& row : tier_schema())
      if (row.path != "drawn") known.push_back(fmt::format("{}.{}", tier.name, row.path));
  if (std::find(known.begin(), known.end(), path) == known.end()) {
    const auto near = nearest(path, known);
    std::string list;
    for (const Component& tier : tree.fabric.parts)
      list += fmt::format("{}fabric.{}.…", list.empty() ? "" : ", ", tier.name);
    throw_usage(fmt::format("nothing in {} is called 'fabric.{}'{}", tree.name, path,
                            near.empty() ? fmt::format("; there is {}", list)
                                         : did_you_mean({"fabric." + near.front()})));
  }
  SchemaRow row = *find_tier_row(path.substr(path.rfind('.') + 1));
  row.path = "fabric." + path;
  Figure figure{"", text, 0, "what-if", {}};
  if (row.kind == SchemaRow::Kind::kQuantity) {
    try {
      figure.value = parse_figure(text, row);
    } catch (const std::invalid_argument& e) {
      throw_usage(fmt::format("{}: {}", row.path, e.what()));
    }
  } else if (!row.choices.empty() &&
             std::find(row.choices.begin(), row.choices.end(), text) == row.choices.end()) {
    throw_usage(fmt::format("'{}' cannot be '{}'; it is one of {}", row.path, text,
                            fmt::join(row.choices, ", ")));
  }
  tree.fabric.set_figure(path, std::move(figure));
}

}  // namespace

std::vector<std::string> Catalogue::names() const { return names_in(folder_); }

std::string Catalogue::path_of(const std::string& name) const {
  std::string path = (fs::path(folder_) / (name + ".yaml")).string();
  std::error_code code;
  if (!name.empty() && fs::exists(path, code)) return path;
  const auto clusters = cluster_names();
  if (std::find(clusters.begin(), clusters.end(), name) != clusters.end())
    throw_usage(fmt::format("'{}' is a cluster; a device is wanted here, as its {}", name,
                            cluster(name).device.name));
  throw_usage(fmt::format("unknown device '{}'{}", name, suggestion(name, names())));
}

DeviceTree Catalogue::load(const Source& source, std::vector<std::string>& chain) const {
  chain.push_back(canonical(source.name()));
  return read_device(source, [&](const std::string& name, const SourceLocation& where) {
    return inherited<DeviceTree>(
        source, name, where, chain, [&] { return path_of(name); },
        [&](const Source& parent) { return load(parent, chain); });
  });
}

DeviceTree Catalogue::tree(const std::string& name_or_path,
                           const std::vector<Override>& overrides) const {
  const std::string path = is_path(name_or_path) ? name_or_path : path_of(name_or_path);
  std::vector<std::string> chain;
  DeviceTree tree = load(open_description(path), chain);
  apply(overrides, tree);
  check_opened_sections(overrides, tree);
  return tree;
}

Device Catalogue::device(const std::string& name_or_path,
                         const std::vector<Override>& overrides) const {
  return changed(tree(name_or_path), overrides);
}

Device Catalogue::device_from(const Source& source, const std::vector<Override>& overrides) const {
  std::vector<std::string> chain;
  return changed(load(source, chain), overrides);
}

std::vector<Listing> Catalogue::list() const {
  std::vector<Listing> rows;
  for (const std::string& name : names()) {
    const Device d = device(name);
    const FlopsPerSecond matrix = d.matrix[ElementType::kBF16];
    rows.push_back({d.name, d.title, d.kind, d.main_memory().capacity, d.main_memory().bandwidth,
                    matrix.value > 0 ? matrix : d.vector[ElementType::kBF16], d.power_limit});
  }
  return rows;
}

std::vector<CitedFigure> Catalogue::figures(const std::string& name_or_path,
                                            const std::vector<Override>& overrides) const {
  const DeviceTree described = tree(name_or_path, overrides);
  std::vector<CitedFigure> result;
  for (const SchemaRow& row : device_schema())
    if (const Figure* figure = described.root.figure(row.path))
      result.push_back({row.path, figure->text, figure->source});
  return result;
}

std::vector<std::string> Catalogue::cluster_names() const {
  const fs::path folder = fs::path(folder_) / "clusters";
  std::error_code code;
  return fs::exists(folder, code) ? names_in(folder) : std::vector<std::string>();
}

std::string Catalogue::cluster_path_of(const std::string& name) const {
  std::string path = (fs::path(folder_) / "clusters" / (name + ".yaml")).string();
  std::error_code code;
  if (!name.empty() && fs::exists(path, code)) return path;
  const auto devices = names();
  if (std::find(devices.begin(), devices.end(), name) == devices.end())
    throw_usage(fmt::format("unknown cluster '{}'{}", name, suggestion(name, cluster_names())));
  std::string of_it;
  for (const std::string& cluster : clusters_of(name))
    of_it += (of_it.empty() ? "" : ", ") + cluster;
  throw_usage(fmt::format(
      "'{}' is a single device; a cluster is wanted here{}", name,
      of_it.empty() ? ", by its name or as a file (see 'orrery hardware')" : ", as " + of_it));
}

ClusterTree Catalogue::load_cluster(const Source& source, std::vector<std::string>& chain) const {
  chain.push_back(canonical(source.name()));
  ClusterTree tree =
      read_cluster(source, [&](const std::string& name, const SourceLocation& where) {
        return inherited<ClusterTree>(
            source, name, where, chain, [&] { return cluster_path_of(name); },
            [&](const Source& parent) { return load_cluster(parent, chain); });
      });
  std::string& device = tree.words["device"];
  if (is_path(device) && tree.device_where.file == source.name())
    device = (fs::path(source.name()).parent_path() / device).string();
  return tree;
}

ClusterTree Catalogue::cluster_tree(const Source& source, const std::vector<Override>& overrides,
                                    std::vector<Override>& of_device) const {
  constexpr std::string_view kFabric = "fabric.";
  constexpr std::string_view kDevice = "device.";
  std::vector<std::string> chain;
  ClusterTree tree = load_cluster(source, chain);
  for (const auto& [path, text] : overrides) {
    if (path.starts_with(kDevice))
      of_device.emplace_back(path.substr(kDevice.size()), text);
    else if (path.starts_with(kFabric))
      apply(path.substr(kFabric.size()), text, tree);
    else if (find_schema_row(path) != nullptr)
      of_device.emplace_back(path, text);
    else
      throw_usage(fmt::format(
          "{} is a cluster: '{}' is no figure of its device, nor does it begin with 'fabric.' and "
          "a tier",
          tree.name, path));
  }
  return tree;
}

Cluster Catalogue::cluster_from(const Source& source,
                                const std::vector<Override>& overrides) const {
  std::vector<Override> of_device;
  const ClusterTree tree = cluster_tree(source, overrides, of_device);
  const std::string& name = tree.words.at("device");
  if (!is_path(name)) {
    const auto devices = names();
    if (std::find(devices.begin(), devices.end(), name) == devices.end())
      throw Error(ErrorKind::kInput, tree.device_where,
                  fmt::format("unknown device '{}'{}", name, suggestion(name, devices)));
  }
  return make_cluster(tree, device(name, of_device));
}

Cluster Catalogue::cluster(const std::string& name_or_path,
                           const std::vector<Override>& overrides) const {
  return cluster_from(
      open_description(is_path(name_or_path) ? name_or_path : cluster_path_of(name_or_path)),
      overrides);
}

bool Catalogue::is_cluster(const std::string& name_or_path) const {
  if (is_path(name_or_path))
    return parse_yaml(open_description(name_or_path)).find("fabric") != nullptr;
  const auto known = cluster_names();
  return std::find(known.begin(), known.end(), name_or_path) != known.end();
}

std::vector<ClusterListing> Catalogue::list_clusters() const {
  std::vector<ClusterListing> rows;
  for (const std::string& name : cluster_names()) {
    const Cluster c = cluster(name);
    ClusterListing row{c.name, c.title, c.device.name, c.largest()};
    for (const FabricTier& tier : c.tiers)
      row.tiers.push_back(fmt::format("{} by {}", tier.size, tier.name));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::string> Catalogue::clusters_of(const std::string& device) const {
  std::vector<std::string> found;
  for (const std::string& name : cluster_names()) {
    std::vector<std::string> chain;
    const ClusterTree tree = load_cluster(open_description(cluster_path_of(name)), chain);
    if (tree.words.at("device") == device) found.push_back(name);
  }
  return found;
}

std::vector<CitedFigure> Catalogue::cluster_figures(const std::string& name_or_path,
                                                    const std::vector<Override>& overrides) const {
  std::vector<Override> of_device;
  const ClusterTree tree = cluster_tree(
      open_description(is_path(name_or_path) ? name_or_path : cluster_path_of(name_or_path)),
      overrides, of_device);
  std::vector<CitedFigure> result;
  for (const Component& tier : tree.fabric.parts)
    for (const SchemaRow& row : tier_schema())
      if (const Figure* figure = tier.figure(row.path))
        result.push_back(
            {fmt::format("fabric.{}.{}", tier.name, row.path), figure->text, figure->source});
  return result;
}

}  // namespace orrery
