#include "orrery/workload/partition/device_grid.h"

#include <fmt/format.h>

#include <algorithm>

#include "orrery/base/error.h"
#include "orrery/workload/mesh.h"
#include "orrery/workload/partition/sharding_text.h"

namespace orrery::partition {
namespace {

int64_t product_of(const Mesh& mesh) {
  int64_t product = 1;
  for (const MeshAxis& a : mesh.axes)
    if (a.size < 1 || __builtin_mul_overflow(product, a.size, &product) || product > kMaxDevices)
      return 0;
  return product;
}

}  // namespace

bool contains(const Axes& axes, Axis axis) { return std::ranges::find(axes, axis) != axes.end(); }

int64_t split(int64_t size, int64_t ways) { return (size + ways - 1) / ways; }

DeviceGrid::DeviceGrid(const Workload& workload) : workload_(workload) {
  devices_ = workload.partitions();
  std::vector<int64_t> cuts;  // products of sizes from the major end
  for (const Mesh& mesh : workload.meshes()) {
    const int64_t product = product_of(mesh);
    if (product == 0) refuse(fmt::format("mesh @{} has too many devices", mesh.name));
    if (product == 1) continue;
    if (devices_ == 1) devices_ = product;
    if (product != devices_)
      refuse(
          fmt::format("mesh @{} has {} devices and the module {}", mesh.name, product, devices_));
    if (!mesh.device_ids.empty()) {
      if (!device_ids_.empty() && device_ids_ != mesh.device_ids)
        refuse("its meshes number the devices in different orders");
      device_ids_ = mesh.device_ids;
    }
    int64_t cut = 1;
    for (const MeshAxis& a : mesh.axes) cuts.push_back(cut *= a.size);
  }
  for (const Sharding& s : workload.shardings()) {
    if (s.form == Sharding::Form::kShardy) {
      const auto written = written_sharding(s.text);
      if (!written || !s.mesh.valid()) continue;
      const Mesh& mesh = workload.meshes()[s.mesh.index];
      const auto cut = [&](const AxisReference& r) {
        int64_t before = 1;
        for (const MeshAxis& a : mesh.axes) {
          if (a.name == r.name && r.size > 0) {
            cuts.push_back(before * r.pre_size);
            cuts.push_back(before * r.pre_size * r.size);
          }
          before *= a.size;
        }
      };
      for (const WrittenDimension& d : written->dims)
        for (const AxisReference& r : d.axes) cut(r);
      for (const AxisReference& r : written->replicated) cut(r);
    } else if (const auto tiles = tile_assignment(s.text);
               tiles && tiles->kind == TileAssignment::Kind::kTiled) {
      int64_t before = 1;
      for (const int64_t r : tiles->reshape) cuts.push_back(before *= r);
      if (devices_ == 1) devices_ = before;
      if (before != devices_)
        refuse(fmt::format("a sharding names {} devices and the module {}", before, devices_));
    }
  }
  if (devices_ > kMaxDevices) refuse("it has too many devices");
  cuts.push_back(1);
  cuts.push_back(devices_);
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  if (cuts.back() > devices_) refuse("a sharding names a part outside its axis");
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    if (cuts[i + 1] % cuts[i] != 0)
      refuse("its shardings cut the devices in ways that share no common grid");
    int64_t rest = cuts[i + 1] / cuts[i];
    for (int64_t prime = 2; rest > 1; ++prime)
      for (; rest % prime == 0; rest /= prime) sizes_.push_back(prime);
  }
}

void DeviceGrid::refuse(std::string_view what) const {
  throw_input(workload_.name(),
              fmt::format("the module is not partitioned: {}{}", what, kExportInstead));
}

int64_t DeviceGrid::ways(std::span<const Axis> axes) const {
  int64_t product = 1;
  for (const Axis a : axes) product *= sizes_[a];
  return product;
}

Axes DeviceGrid::between(int64_t major, int64_t minor) const {
  Axes found;
  int64_t at = 1;
  for (size_t i = 0; i < sizes_.size() && at < minor; at *= sizes_[i++])
    if (at >= major) found.push_back(static_cast<Axis>(i));
  return found;
}

Axes DeviceGrid::named(std::string_view names) const {
  Axes found;
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    for (const Mesh& mesh : workload_.meshes()) {
      int64_t before = 1;
      for (const MeshAxis& a : mesh.axes) {
        if (a.name == name)
          for (const Axis axis : between(before, before * a.size))
            if (std::ranges::find(found, axis) == found.end()) found.push_back(axis);
        before *= a.size;
      }
    }
  }
  return found;
}

TensorSharding DeviceGrid::sharding(ShardingId id, int rank) const {
  const Sharding& s = workload_.shardings()[id.index];
  return s.form == Sharding::Form::kShardy ? shardy(s, rank) : gspmd(s, rank);
}

TensorSharding DeviceGrid::shardy(const Sharding& s, int rank) const {
  const auto written = written_sharding(s.text);
  if (!written || static_cast<int>(written->dims.size()) != rank || !s.mesh.valid())
    refuse(fmt::format("the sharding {} is not read", s.text));
  const Mesh& mesh = workload_.meshes()[s.mesh.index];
  const auto axes_of = [&](const std::vector<AxisReference>& references) {
    Axes axes;
    for (const AxisReference& r : references) {
      int64_t before = 1;
      bool found = false;
      for (const MeshAxis& a : mesh.axes) {
        if (a.name == r.name) {
          found = true;
          const int64_t major = r.size > 0 ? before * r.pre_size : before;
          const int64_t minor = r.size > 0 ? major * r.size : before * a.size;
          if (minor > before * a.size)
            refuse(fmt::format("{} names a part outside its axis", s.text));
          const Axes part = between(major, minor);
          axes.insert(axes.end(), part.begin(), part.end());
        }
        before *= a.size;
      }
      if (!found) refuse(fmt::format("mesh @{} has no axis \"{}\"", mesh.name, r.name));
    }
    return axes;
  };
  TensorSharding result;
  Axes used;
  for (const WrittenDimension& d : written->dims) {
    result.dims.push_back({axes_of(d.axes), d.open, d.priority});
    for (const Axis a : result.dims.back().axes) {
      if (std::ranges::find(used, a) != used.end())
        refuse(fmt::format("{} uses an axis twice", s.text));
      used.push_back(a);
    }
  }
  result.replicated = axes_of(written->replicated);
  return result;
}

TensorSharding DeviceGrid::gspmd(const Sharding& s, int rank) const {
  const auto tiles = tile_assignment(s.text);
  if (!tiles) refuse(fmt::format("the sharding {} is not read", s.text));
  TensorSharding result;
  result.dims.resize(static_cast<size_t>(rank));
  result.manual = tiles->kind == TileAssignment::Kind::kManual;
  if (tiles->kind != TileAssignment::Kind::kTiled) return result;
  const size_t expected = static_cast<size_t>(rank) + (tiles->last_replicated ? 1 : 0);
  if (tiles->tiles.size() != expected) refuse(fmt::format("{} is of another rank", s.text));
  Axes order;
  for (const int64_t p : tiles->permutation) {
    int64_t before = 1;
    for (int64_t i = 0; i < p; ++i) before *= tiles->reshape[static_cast<size_t>(i)];
    const Axes part = between(before, before * tiles->reshape[static_cast<size_t>(p)]);
    order.insert(order.end(), part.begin(), part.end());
  }
  size_t next = 0;
  for (size_t d = 0; d < static_cast<size_t>(rank); ++d) {
    int64_t got = 1;
    for (; got < tiles->tiles[d] && next < order.size(); ++next) {
      result.dims[d].axes.push_back(order[next]);
      got *= sizes_[order[next]];
    }
    if (got != tiles->tiles[d]) refuse(fmt::format("{} cuts an axis unevenly", s.text));
  }
  return result;
}

std::vector<int64_t> DeviceGrid::groups(std::span<const Axis> axes) const {
  Mesh mesh;
  mesh.device_ids = device_ids_;
  for (size_t i = 0; i < sizes_.size(); ++i) mesh.axes.push_back({std::to_string(i), sizes_[i]});
  std::vector<AxisReference> references;
  for (const Axis a : axes) references.push_back({std::to_string(a), 1, 0});
  int64_t size = 0;
  auto found = device_groups(mesh, references, &size);
  if (!found) throw_internal("device groups of a grid's own axes");
  return std::move(*found);
}

std::vector<int64_t> DeviceGrid::moves(std::span<const Axis> from, std::span<const Axis> to) const {
  // The coordinate a source has on from[i] is the one its target has on to[i]; axes neither
  // places follow in order.
  std::vector<std::pair<Axis, Axis>> places;
  for (size_t i = 0; i < from.size(); ++i) places.emplace_back(from[i], to[i]);
  Axes rest_from, rest_to;
  for (size_t i = 0; i < sizes_.size(); ++i) {
    const Axis a = static_cast<Axis>(i);
    if (std::ranges::find(from, a) == from.end()) rest_from.push_back(a);
    if (std::ranges::find(to, a) == to.end()) rest_to.push_back(a);
  }
  const auto by_size = [&](Axis a, Axis b) { return sizes_[a] < sizes_[b]; };
  std::ranges::stable_sort(rest_from, by_size);
  std::ranges::stable_sort(rest_to, by_size);
  for (size_t i = 0; i < rest_from.size(); ++i) places.emplace_back(rest_from[i], rest_to[i]);
  std::vector<int64_t> strides(sizes_.size());
  int64_t stride = 1;
  for (size_t i = sizes_.size(); i-- > 0; stride *= sizes_[i]) strides[i] = stride;
  std::vector<int64_t> pairs;
  for (int64_t source = 0; source < devices_; ++source) {
    int64_t target = 0;
    for (const auto& [a, b] : places) target += source / strides[a] % sizes_[a] * strides[b];
    const auto number = [&](int64_t device) {
      return device_ids_.empty() ? device : device_ids_[static_cast<size_t>(device)];
    };
    pairs.push_back(number(source));
    pairs.push_back(number(target));
  }
  return pairs;
}

}  // namespace orrery::partition
