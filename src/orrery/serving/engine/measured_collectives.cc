#include "orrery/serving/engine/measured_collectives.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "orrery/base/error.h"

namespace orrery {
namespace {

struct Devices {
  int64_t workers, per_node;
};

Devices devices_of(const CollectiveCall& call, int node_size) {
  const auto [size, stride] = call.group;
  if (call.kind == CollectiveKind::kSendReceive)
    return {2, static_cast<int64_t>(size) * stride <= node_size ? 2 : 1};
  return {size, std::clamp(node_size / stride, 1, size)};
}

}  // namespace

MeasuredCollectives::MeasuredCollectives(std::shared_ptr<const CollectivePredictor> otherwise,
                                         std::vector<CollectiveTimes> tables, int node_size)
    : otherwise_(std::move(otherwise)), tables_(std::move(tables)), node_size_(node_size) {}

const CollectiveTimes* MeasuredCollectives::find(const CollectiveCall& call) const {
  const Devices devices = devices_of(call, node_size_);
  for (const CollectiveTimes& table : tables_)
    if (table.kind == call.kind && table.workers == devices.workers &&
        table.per_node == devices.per_node)
      return &table;
  return nullptr;
}

bool MeasuredCollectives::has(const CollectiveCall& call) const {
  if (find(call) != nullptr) return true;
  std::vector<std::string> known;
  std::string file;
  for (const CollectiveTimes& table : tables_)
    if (table.kind == call.kind) {
      known.push_back(fmt::format("{} ({} a node)", table.workers, table.per_node));
      file = table.file;
    }
  if (known.empty()) return false;
  const Devices devices = devices_of(call, node_size_);
  throw Error(
      ErrorKind::kInfeasible, {file, 1, 1},
      fmt::format("no row of {} between {} devices, {} of a node; there is {}", name(call.kind),
                  devices.workers, devices.per_node, fmt::join(known, ", ")));
}

CollectiveEstimate MeasuredCollectives::predict(const CollectiveCall& call) const {
  CollectiveEstimate estimate = otherwise_->predict(call);
  const CollectiveTimes* table = find(call);
  if (table == nullptr) return estimate;
  constexpr double kMicro = 1e-6;
  const Joules energy = estimate.estimate.joules;
  estimate.estimate = {};
  estimate.estimate.seconds = Seconds(table->bytes.at(call.bytes.value) * kMicro);
  estimate.estimate.joules = energy;
  estimate.algorithm = "measured";
  estimate.protocol = "";
  return estimate;
}

CollectiveTrust MeasuredCollectives::trust(const CollectiveCall& call) const {
  const CollectiveTimes* table = find(call);
  if (table == nullptr) return otherwise_->trust(call);
  return {"validated", "measured: " + table->file};
}

std::vector<std::pair<std::string, std::string>> MeasuredCollectives::provenance() const {
  auto items = otherwise_->provenance();
  for (const CollectiveTimes& table : tables_)
    if (std::ranges::find(items, table.file, &std::pair<std::string, std::string>::second) ==
        items.end())
      items.emplace_back(fmt::format("measured {}", name(table.kind)), table.file);
  return items;
}

}  // namespace orrery
