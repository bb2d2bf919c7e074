#include "orrery/hardware/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "orrery/base/nearest.h"
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

Device view(const DeviceTree& tree, const std::vector<Override>& overrides) {
  Device device = make_device(tree);
  for (const auto& [path, text] : overrides)
    if (rates_depend_on(path))
      device.gaps.push_back(fmt::format(
          "what-if {} = {}: peak rates and caches stay as stated; set those that follow", path,
          text));
  return device;
}

}  // namespace

std::vector<std::string> Catalogue::names() const {
  std::error_code code;
  fs::directory_iterator files(folder_, code);
  if (code) throw_input(folder_, "cannot read the hardware catalogue: " + code.message());
  std::vector<std::string> found;
  for (const fs::directory_entry& file : files)
    if (file.path().extension() == ".yaml") found.push_back(file.path().stem().string());
  std::sort(found.begin(), found.end());
  return found;
}

std::string Catalogue::path_of(const std::string& name) const {
  std::string path = (fs::path(folder_) / (name + ".yaml")).string();
  std::error_code code;
  if (!name.empty() && fs::exists(path, code)) return path;
  throw_usage(fmt::format("unknown device '{}'{}", name, suggestion(name, names())));
}

DeviceTree Catalogue::load(const Source& source, std::vector<std::string>& chain) const {
  chain.push_back(canonical(source.name()));
  return read_device(source, [&](const std::string& name, const SourceLocation& where) {
    try {
      const std::string path =
          is_path(name) ? (fs::path(source.name()).parent_path() / name).string() : path_of(name);
      if (std::find(chain.begin(), chain.end(), canonical(path)) != chain.end())
        throw Error(
            ErrorKind::kInput, where,
            fmt::format("'{}' inherits from itself by way of {} file(s)", name, chain.size()));
      if (chain.size() >= kLongestChain)
        throw Error(ErrorKind::kInput, where,
                    fmt::format("inherits over more than {} files", kLongestChain));
      return load(open_description(path), chain);
    } catch (const Error& e) {
      // A parent that is not there is a fault of the line that names it; one that
      // is there and broken has its own place already.
      if (e.where().line > 0) throw;
      throw Error(ErrorKind::kInput, where, fmt::format("cannot inherit: {}", e.what()));
    }
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
  return view(tree(name_or_path, overrides), overrides);
}

Device Catalogue::device_from(const Source& source, const std::vector<Override>& overrides) const {
  std::vector<std::string> chain;
  DeviceTree tree = load(source, chain);
  apply(overrides, tree);
  check_opened_sections(overrides, tree);
  return view(tree, overrides);
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

}  // namespace orrery
