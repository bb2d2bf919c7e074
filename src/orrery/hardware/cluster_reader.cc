#include "orrery/hardware/cluster_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <utility>

#include "orrery/hardware/description_reader.h"

namespace orrery {
namespace {

using Kind = SchemaRow::Kind;

constexpr std::array<std::string_view, 7> kShapes = {"switch",   "fully-connected", "ring", "torus",
                                                     "fat-tree", "dragonfly",       "graph"};
constexpr int kMostMembers = 1'000'000;
constexpr size_t kMostTiers = 8;

std::vector<SchemaRow> make_tier_schema() {
  std::vector<SchemaRow> rows;
  const auto add = [&](const char* key, Kind kind, Dimension dimension, bool required,
                       const char* meaning, std::vector<std::string> choices = {}) {
    rows.push_back({key, kind, dimension, required, false, std::move(choices), meaning});
  };
  add("shape", Kind::kFact, Dimension::kCount, true, "How its members are joined",
      std::vector<std::string>(kShapes.begin(), kShapes.end()));
  add("size", Kind::kQuantity, Dimension::kCount, false,
      "Members joined, of the last tier the most there can be; of a torus the product of its "
      "dimensions");
  add("dimensions", Kind::kFact, Dimension::kCount, false, "Extents of a torus, `16x16x16`");
  add("bandwidth", Kind::kQuantity, Dimension::kBandwidth, true,
      "Of one member into this tier, in one direction, all its links together");
  add("links", Kind::kQuantity, Dimension::kCount, false,
      "Links, rails or adapters of one member; 1 where not given");
  add("latency", Kind::kQuantity, Dimension::kTime, false,
      "From one member to another of the same switch");
  add("oversubscription", Kind::kQuantity, Dimension::kCount, false,
      "Of a fat tree above its leaves, 7 for 7:1; 1 where not given");
  add("group", Kind::kQuantity, Dimension::kCount, false,
      "Members of one leaf switch, or of one group of a dragonfly; all where not given");
  add("reduces", Kind::kFact, Dimension::kCount, false, "Whether the switch adds (NVLS, SHARP)",
      {"yes", "no"});
  rows.push_back({"drawn",
                  Kind::kSection,
                  Dimension::kCount,
                  false,
                  false,
                  {},
                  "Of a graph: a list of `{from, to, bandwidth, latency}`, both ways alike; "
                  "members count from 0, switches from `size` on"});
  return rows;
}

std::vector<std::string> tier_keys() {
  std::vector<std::string> keys;
  for (const SchemaRow& row : tier_schema()) keys.push_back(row.path);
  keys.emplace_back("source");
  return keys;
}

/// "16x16x16"; empty where it is something else.
std::vector<int> extents_of(std::string_view text) {
  std::vector<int> extents;
  while (!text.empty()) {
    int extent = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (fault != std::errc() || extent < 1 || extent > kMostMembers) return {};
    extents.push_back(extent);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.empty()) break;
    if (text.front() != 'x' || text.size() == 1) return {};
    text.remove_prefix(1);
  }
  return extents;
}

class Reader : private DescriptionReader {
 public:
  Reader(const Source& source, const ClusterParent& parent)
      : DescriptionReader(source), parent_(parent) {}

  ClusterTree read() {
    const YamlNode document = this->document();
    if (const YamlNode* inherits = document.find("inherits"))
      tree_ = parent_(text_of("inherits", *inherits), location(*inherits));
    sources_ = tree_.sources;
    tree_.name = std::filesystem::path(source_.name()).stem().string();
    if (const YamlNode* sources = document.find("sources")) read_sources(*sources);
    tree_.sources = sources_;
    for (size_t i = 0; i < document.keys.size(); ++i)
      read_entry(document.keys[i], document.values[i]);
    for (const char* word : {"title", "device"})
      if (!tree_.words.contains(word)) fail(1, 1, fmt::format("'{}' is missing", word));
    if (tree_.fabric.parts.empty())
      fail(1, 1, "'fabric' is missing: a cluster has a tier at least");
    return std::move(tree_);
  }

 private:
  void read_entry(const YamlNode& key, const YamlNode& value) {
    static const std::vector<std::string> allowed = {"inherits", "title",   "device",
                                                     "notes",    "sources", "fabric"};
    if (std::find(allowed.begin(), allowed.end(), key.text) == allowed.end())
      fail_unknown_key(key, "", allowed);
    if (key.text == "inherits" || key.text == "sources") return;  // read before all else
    if (key.text == "fabric") return read_fabric(value);
    const std::string& text = text_of(key.text, value);
    if (text.empty()) fail(value, fmt::format("'{}' is empty", key.text));
    tree_.words[key.text] = text;
    if (key.text == "device") tree_.device_where = location(value);
  }

  void read_fabric(const YamlNode& fabric) {
    if (fabric.kind != YamlNode::Kind::kMap)
      fail(fabric,
           "'fabric' takes a map from the names of tiers, the inner first, to their figures");
    const std::string cited = section_source(fabric, "");
    for (size_t i = 0; i < fabric.keys.size(); ++i) {
      const YamlNode& key = fabric.keys[i];
      const YamlNode& tier = fabric.values[i];
      if (key.text == "source") continue;
      if (key.text.empty() || key.text.find('.') != std::string::npos)
        fail(key, "a tier's name has no dots and is not empty");
      if (tier.kind == YamlNode::Kind::kNull) {
        if (!tree_.fabric.remove(key.text))
          fail(key, fmt::format("there is no tier '{}' to take away", shown(key.text)));
        continue;
      }
      if (tier.kind != YamlNode::Kind::kMap)
        fail(tier, fmt::format("the tier '{}' takes a map", shown(key.text)));
      tree_.fabric.make_part(key.text).where = location(key);
      read_tier(key.text, tier, section_source(tier, cited));
      if (tree_.fabric.parts.size() > kMostTiers)
        fail(key, fmt::format("more than {} tiers", kMostTiers));
    }
  }

  void read_tier(const std::string& name, const YamlNode& tier, const std::string& cited) {
    for (size_t i = 0; i < tier.keys.size(); ++i) {
      const YamlNode& key = tier.keys[i];
      const YamlNode& value = tier.values[i];
      if (key.text == "source") continue;
      const SchemaRow* known = find_tier_row(key.text);
      if (known == nullptr) fail_unknown_key(key, "fabric." + name, tier_keys());
      SchemaRow row = *known;
      row.path = fmt::format("fabric.{}.{}", name, key.text);
      if (value.kind == YamlNode::Kind::kNull) {
        if (!tree_.fabric.remove(name + "." + key.text))
          fail(key, fmt::format("'{}' has no value, and none to take away", row.path));
      } else if (key.text == "drawn") {
        read_drawn(name, row.path, value);
      } else {
        tree_.fabric.set_figure(name + "." + key.text, figure(row, value, cited));
      }
    }
  }

  void read_drawn(const std::string& name, const std::string& path, const YamlNode& list) {
    if (list.kind != YamlNode::Kind::kSequence)
      fail(list, fmt::format("'{}' takes a list of {{from, to, bandwidth, latency}}", path));
    std::vector<FabricLink>& links = tree_.drawn[name];
    links.clear();
    for (const YamlNode& item : list.values) {
      if (item.kind != YamlNode::Kind::kMap) fail(item, "a link takes a map");
      FabricLink link;
      for (const YamlNode& key : item.keys)
        if (key.text != "from" && key.text != "to" && key.text != "bandwidth" &&
            key.text != "latency")
          fail_unknown_key(key, path, {"from", "to", "bandwidth", "latency"});
      link.from = member(item, "from");
      link.to = member(item, "to");
      link.bandwidth = BytesPerSecond(quantity(item, "bandwidth", Dimension::kBandwidth));
      if (item.find("latency") != nullptr)
        link.latency = Seconds(quantity(item, "latency", Dimension::kTime));
      if (link.from == link.to) fail(item, "a link from a member to itself");
      links.push_back(link);
    }
  }

  const YamlNode& scalar(const YamlNode& item, const char* key) const {
    const YamlNode* value = item.find(key);
    if (value == nullptr) fail(item, fmt::format("the link lacks '{}'", key));
    if (value->kind != YamlNode::Kind::kScalar || value->text.size() > 60)
      fail(*value, fmt::format("'{}' takes a quantity", key));
    return *value;
  }

  double quantity(const YamlNode& item, const char* key, Dimension dimension) const {
    const YamlNode& value = scalar(item, key);
    try {
      return parse_figure(value.text, {key, Kind::kQuantity, dimension, false, false, {}, ""});
    } catch (const std::invalid_argument& e) {
      fail(value, e.what());
    }
  }

  int member(const YamlNode& item, const char* key) const {
    const YamlNode& value = scalar(item, key);
    int number = 0;
    const char* const last = value.text.data() + value.text.size();
    const auto [end, fault] = std::from_chars(value.text.data(), last, number);
    if (fault != std::errc() || end != last || number < 0 || number > kMostMembers)
      fail(value, fmt::format("'{}' is not a member or a switch by its number", shown(value.text)));
    return number;
  }

  const ClusterParent& parent_;
  ClusterTree tree_;
};

FabricTier make_tier(const Component& part, const std::vector<FabricLink>* drawn) {
  const auto fail = [&](const char* key, const std::string& message) {
    const Figure* at = part.figure(key);
    throw Error(ErrorKind::kInput, at != nullptr && at->where.line > 0 ? at->where : part.where,
                fmt::format("fabric.{}: {}", part.name, message));
  };
  for (const SchemaRow& row : tier_schema())
    if (row.required && part.figure(row.path) == nullptr)
      fail("", fmt::format("'{}' is missing ({})", row.path, row.meaning));
  FabricTier tier;
  tier.name = part.name;
  const std::string& shape = part.figure("shape")->text;
  tier.shape =
      static_cast<FabricShape>(std::find(kShapes.begin(), kShapes.end(), shape) - kShapes.begin());
  const auto count = [&](const char* key, int otherwise) {
    const Figure* given = part.figure(key);
    return given == nullptr ? otherwise : static_cast<int>(given->value);
  };
  tier.size = count("size", 0);
  if (const Figure* dimensions = part.figure("dimensions")) {
    if (tier.shape != FabricShape::kTorus) fail("dimensions", "only a torus has dimensions");
    tier.dimensions = extents_of(dimensions->text);
    double product = 1;
    for (int extent : tier.dimensions) product *= extent;
    if (tier.dimensions.empty() || tier.dimensions.size() > 6 || product > kMostMembers)
      fail("dimensions",
           fmt::format("'{}' is not the extents of a torus; write 16x16x16", dimensions->text));
    if (tier.size > 0 && tier.size != product)
      fail("size", fmt::format("{} members on a torus of {}", tier.size, dimensions->text));
    tier.size = static_cast<int>(product);
  } else if (tier.shape == FabricShape::kTorus) {
    fail("shape", "a torus gives its 'dimensions', as 16x16x16");
  }
  if (tier.size < 1) fail("", "'size' is missing (how many members it joins)");
  tier.bandwidth = BytesPerSecond(part.value("bandwidth"));
  tier.links = count("links", 1);
  tier.latency = Seconds(part.value("latency"));
  tier.oversubscription = count("oversubscription", 1);
  tier.group = count("group", 0);
  const Figure* reduces = part.figure("reduces");
  tier.reduces = reduces != nullptr && reduces->text == "yes";
  if (drawn != nullptr) tier.drawn = *drawn;
  if ((tier.shape == FabricShape::kGraph) != !tier.drawn.empty())
    fail("shape", tier.drawn.empty() ? "a graph lists its links under 'drawn'"
                                     : "only a graph has links under 'drawn'");
  return tier;
}

/// Every member of a graph must be reached.
void check_connected(const FabricTier& tier, const SourceLocation& where) {
  int vertices = tier.size;
  for (const FabricLink& link : tier.drawn)
    vertices = std::max({vertices, link.from + 1, link.to + 1});
  std::vector<int> root(static_cast<size_t>(vertices));
  for (int i = 0; i < vertices; ++i) root[static_cast<size_t>(i)] = i;
  const auto find = [&](int v) {
    while (root[static_cast<size_t>(v)] != v)
      v = root[static_cast<size_t>(v)] = root[static_cast<size_t>(root[static_cast<size_t>(v)])];
    return v;
  };
  for (const FabricLink& link : tier.drawn)
    root[static_cast<size_t>(find(link.from))] = find(link.to);
  for (int i = 1; i < tier.size; ++i)
    if (find(i) != find(0))
      throw Error(ErrorKind::kInput, where,
                  fmt::format("fabric.{}: no links join member {} to member 0", tier.name, i));
}

}  // namespace

std::span<const SchemaRow> tier_schema() {
  static const std::vector<SchemaRow> rows = make_tier_schema();
  return rows;
}

const SchemaRow* find_tier_row(std::string_view key) {
  for (const SchemaRow& row : tier_schema())
    if (row.path == key) return &row;
  return nullptr;
}

std::string tier_markdown() { return rows_markdown(tier_schema()); }

std::string_view name(FabricShape shape) { return kShapes[static_cast<size_t>(shape)]; }

ClusterTree read_cluster(const Source& source, const ClusterParent& parent) {
  return Reader(source, parent).read();
}

Cluster make_cluster(const ClusterTree& tree, Device device) {
  Cluster cluster;
  const auto word = [&](const char* key) {
    const auto at = tree.words.find(key);
    return at == tree.words.end() ? std::string() : at->second;
  };
  cluster.name = tree.name;
  cluster.title = word("title");
  cluster.notes = word("notes");
  cluster.device = std::move(device);
  for (const Component& part : tree.fabric.parts) {
    const auto drawn = tree.drawn.find(part.name);
    cluster.tiers.push_back(make_tier(part, drawn == tree.drawn.end() ? nullptr : &drawn->second));
    const FabricTier& tier = cluster.tiers.back();
    if (tier.shape == FabricShape::kGraph) check_connected(tier, part.where);
    if (tier.latency.value <= 0 && tier.shape != FabricShape::kGraph)
      cluster.gaps.push_back(fmt::format("no published figure for fabric.{}.latency", tier.name));
  }
  if (cluster.largest() > 1e8)
    throw Error(ErrorKind::kInput, tree.fabric.parts.front().where,
                "the tiers together join more than 100,000,000 devices");
  return cluster;
}

}  // namespace orrery
