#include "orrery/cluster/astra/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "orrery/hardware/yaml_document.h"

namespace orrery::astra {
namespace {

constexpr size_t kMostDimensions = 16;
constexpr int kMostRanks = 1 << 20;

[[noreturn]] void fail(const Source& file, const YamlNode& at, std::string message) {
  throw Error(ErrorKind::kInput, {file.name(), at.line, at.column}, std::move(message));
}

const YamlNode& sequence(const Source& file, const YamlNode& root, const char* key, size_t count) {
  const YamlNode* node = root.find(key);
  if (node == nullptr) fail(file, root, fmt::format("'{}' is missing", key));
  if (node->kind != YamlNode::Kind::kSequence || node->values.empty() ||
      node->values.size() > kMostDimensions)
    fail(file, *node, fmt::format("{}: expected a list of 1 to {} elements", key, kMostDimensions));
  if (count != 0 && node->values.size() != count)
    fail(file, *node,
         fmt::format("{}: {} elements, but topology has {}", key, node->values.size(), count));
  return *node;
}

double number(const Source& file, const YamlNode& node, const char* key, double least) {
  double value = 0;
  const char* end = node.text.data() + node.text.size();
  const auto [at, error] = std::from_chars(node.text.data(), end, value);
  if (node.kind != YamlNode::Kind::kScalar || error != std::errc() || at != end ||
      !std::isfinite(value) || value < least)
    fail(file, node, fmt::format("{}: '{}' is not a number of at least {}", key, node.text, least));
  return value;
}

Block block(const Source& file, const YamlNode& node) {
  if (node.text == "Ring") return Block::kRing;
  if (node.text == "FullyConnected") return Block::kFullyConnected;
  if (node.text == "Switch") return Block::kSwitch;
  fail(file, node,
       fmt::format("topology: '{}' is none of Ring, FullyConnected, Switch", node.text));
}

}  // namespace

uint64_t whole_ns(double nanoseconds) {
  constexpr double kLongest = 1e15;
  if (!(nanoseconds <= kLongest))
    throw Error(ErrorKind::kInput, "a message or an access to memory takes more than 10^15 ns");
  return static_cast<uint64_t>(nanoseconds);
}

int Network::ranks() const {
  int product = 1;
  for (const Dimension& d : dimensions) product *= d.ranks;
  return product;
}

int Network::place(int rank, size_t dimension) const {
  for (size_t i = 0; i < dimension; ++i) rank /= dimensions[i].ranks;
  return rank % dimensions[dimension].ranks;
}

int Network::hops(const Dimension& dimension, int from, int to) {
  switch (dimension.block) {
    case Block::kFullyConnected:
      return 1;
    case Block::kSwitch:
      return 2;
    case Block::kRing:
      break;
  }
  const int clockwise = (to - from + dimension.ranks) % dimension.ranks;
  return std::min(clockwise, dimension.ranks - clockwise);
}

uint64_t Network::delay_ns(int from, int to, uint64_t bytes) const {
  for (const Dimension& d : dimensions) {
    const int a = from % d.ranks;
    const int b = to % d.ranks;
    if (a != b)
      return whole_ns(hops(d, a, b) * d.latency_ns + static_cast<double>(bytes) / d.bytes_per_ns);
    from /= d.ranks;
    to /= d.ranks;
  }
  return 0;
}

Network read_network(const Source& yaml) {
  const YamlNode root = parse_yaml(yaml);
  if (root.kind != YamlNode::Kind::kMap)
    fail(yaml, root, "expected the keys topology, npus_count, bandwidth and latency");
  for (const YamlNode& key : root.keys)
    if (key.text != "topology" && key.text != "npus_count" && key.text != "bandwidth" &&
        key.text != "latency")
      fail(yaml, key,
           fmt::format("'{}' is not a key of ASTRA-sim's analytical networks", key.text));
  const YamlNode& topology = sequence(yaml, root, "topology", 0);
  const size_t count = topology.values.size();
  const YamlNode& ranks = sequence(yaml, root, "npus_count", count);
  const YamlNode& bandwidth = sequence(yaml, root, "bandwidth", count);
  const YamlNode& latency = sequence(yaml, root, "latency", count);
  Network network;
  double product = 1;
  for (size_t i = 0; i < count; ++i) {
    Dimension d;
    d.block = block(yaml, topology.values[i]);
    const double size = number(yaml, ranks.values[i], "npus_count", 2);
    product *= size;
    if (size != std::floor(size) || product > kMostRanks)
      fail(yaml, ranks.values[i],
           fmt::format("npus_count: expected whole numbers whose product is at most {}",
                       kMostRanks));
    d.ranks = static_cast<int>(size);
    const double gigabytes = number(yaml, bandwidth.values[i], "bandwidth", 0);
    if (gigabytes <= 0) fail(yaml, bandwidth.values[i], "bandwidth: expected more than 0");
    d.bytes_per_ns = gigabytes * (1 << 30) / 1'000'000'000;
    d.latency_ns = number(yaml, latency.values[i], "latency", 0);
    if (d.latency_ns > 1e15) fail(yaml, latency.values[i], "latency: over 10^15 ns");
    network.dimensions.push_back(d);
  }
  return network;
}

Network resized(Network network, int ranks) {
  Dimension& last = network.dimensions.back();
  const int others = network.ranks() / last.ranks;
  if (ranks <= 0 || ranks % others != 0 || ranks / others < 2 || ranks > kMostRanks)
    throw_usage(fmt::format(
        "{} ranks do not fill this network: its other dimensions have {}, and the last must have "
        "at least 2",
        ranks, others));
  last.ranks = ranks / others;
  return network;
}

}  // namespace orrery::astra
