#include "orrery/workload/readers/hlo/replica_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace orrery::hlo {
namespace {

constexpr size_t kMaxAxes = 64;  // As many as a tensor may have dimensions.

/// The product of sizes, each at least 1; fails at the cursor beyond kMaxDevices.
int64_t device_count(const Cursor& cursor, const std::vector<int64_t>& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) {
    if (size < 1) cursor.fail(fmt::format("{} devices along a dimension", size));
    if (size > kMaxDevices / count) cursor.fail(fmt::format("more than {} devices", kMaxDevices));
    count *= size;
  }
  return count;
}

/// The numbers 0, 1, … of an array of `sizes` read in the order of dimensions
/// `order`, the last one fastest.
std::vector<int64_t> transposed_iota(const std::vector<int64_t>& sizes,
                                     const std::vector<size_t>& order) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  std::vector<int64_t> numbers = {0};
  for (const size_t dim : order) {
    std::vector<int64_t> wider;
    wider.reserve(numbers.size() * static_cast<size_t>(sizes[dim]));
    for (const int64_t base : numbers)
      for (int64_t i = 0; i < sizes[dim]; ++i) wider.push_back(base + i * strides[dim]);
    numbers = std::move(wider);
  }
  return numbers;
}

std::vector<int64_t> read_sizes(Cursor& cursor) {
  std::vector<int64_t> sizes;
  cursor.expect('[', "before sizes");
  do {
    if (sizes.size() == kMaxAxes) cursor.fail("more than 64 sizes");
    sizes.push_back(cursor.integer("a size"));
  } while (cursor.accept(','));
  cursor.expect(']', "or ',' between sizes");
  return sizes;
}

/// `{{0,1},{2,3}}`
ReplicaGroups read_lists(Cursor& cursor) {
  ReplicaGroups groups;
  cursor.expect('{', "before replica groups");
  if (cursor.accept('}')) return groups;
  do {
    const size_t first = groups.ranks.size();
    cursor.expect('{', "before a replica group");
    if (!cursor.accept('}')) {
      do {
        const int64_t rank = cursor.integer("a rank");
        if (rank < 0) cursor.fail("a rank cannot be negative");
        groups.ranks.push_back(rank);
      } while (cursor.accept(','));
      cursor.expect('}', "or ',' in a replica group");
    }
    if (groups.ranks.size() > first)
      groups.sizes.push_back(static_cast<int64_t>(groups.ranks.size() - first));
  } while (cursor.accept(','));
  cursor.expect('}', "or ',' between replica groups");
  return groups;
}

/// `[2,4]<=[4,2]T(1,0)`
ReplicaGroups read_iota(Cursor& cursor) {
  const std::vector<int64_t> shape = read_sizes(cursor);
  if (shape.size() != 2) cursor.fail("replica groups of this form are [groups,ranks]");
  const int64_t count = device_count(cursor, shape);
  cursor.expect("<=", "after the shape of the replica groups");
  const std::vector<int64_t> sizes = read_sizes(cursor);
  if (device_count(cursor, sizes) != count)
    cursor.fail(fmt::format("the groups hold {} ranks, the devices are {}", count,
                            device_count(cursor, sizes)));
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (cursor.accept('T')) {
    std::vector<bool> seen(sizes.size());
    cursor.expect('(', "before a permutation");
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0) cursor.expect(',', "in a permutation of every dimension");
      const int64_t dim = cursor.integer("a dimension's number");
      if (dim < 0 || dim >= static_cast<int64_t>(sizes.size()) || seen[static_cast<size_t>(dim)])
        cursor.fail("this is not a permutation of the dimensions");
      seen[static_cast<size_t>(dim)] = true;
      order[i] = static_cast<size_t>(dim);
    }
    cursor.expect(')', "after a permutation");
  }
  ReplicaGroups groups;
  groups.ranks = transposed_iota(sizes, order);
  groups.sizes.assign(static_cast<size_t>(shape[0]), shape[1]);
  return groups;
}

/// `'d'`, `"d"` or `d`
std::string_view read_axis_name(Cursor& cursor) {
  if (cursor.next_is('"')) return cursor.quoted("an axis");
  const bool quoted = cursor.accept('\'');
  const std::string_view name = cursor.word();
  if (name.empty()) cursor.fail_expected("the name of an axis");
  if (quoted) cursor.expect('\'', "after the name of an axis");
  return name;
}

/// One axis, or the part of it that has `before` above it.
struct AxisPart {
  size_t axis = 0;
  int64_t before = 1;
  int64_t size = 1;
};

AxisPart read_axis_part(Cursor& cursor, const Mesh& mesh) {
  const std::string_view name = read_axis_name(cursor);
  AxisPart part;
  while (part.axis < mesh.axes.size() && mesh.axes[part.axis].name != name) ++part.axis;
  if (part.axis == mesh.axes.size()) cursor.fail(fmt::format("the mesh has no axis '{}'", name));
  const int64_t whole = mesh.axes[part.axis].size;
  part.size = whole;
  if (cursor.accept(':')) {
    cursor.expect('(', "before the size before a part of an axis");
    part.before = cursor.integer("a size");
    cursor.expect(')', "after the size before a part of an axis");
    part.size = cursor.integer("a size");
    if (part.before < 1 || part.size < 1 || part.before > whole || part.size > whole ||
        whole % (part.before * part.size) != 0)
      cursor.fail(fmt::format("this is no part of an axis of {}", whole));
  }
  return part;
}

/// `mesh['x'=2,'y'=4] {'y'}`
ReplicaGroups read_mesh_axes(Cursor& cursor) {
  const Mesh mesh = read_mesh(cursor);
  std::vector<AxisPart> parts;
  cursor.expect('{', "before the axes of the replica groups");
  if (!cursor.accept('}')) {
    do {
      if (parts.size() == kMaxAxes) cursor.fail("more than 64 axes");
      parts.push_back(read_axis_part(cursor, mesh));
    } while (cursor.accept(','));
    cursor.expect('}', "or ',' between axes");
  }
  // Cut each axis where a part begins or ends: then a part is one dimension.
  std::vector<int64_t> sizes;
  std::vector<size_t> grouped(parts.size(), SIZE_MAX);
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    std::vector<int64_t> cuts = {1, mesh.axes[axis].size};
    for (const AxisPart& part : parts) {
      if (part.axis != axis) continue;
      cuts.push_back(part.before);
      cuts.push_back(part.before * part.size);
    }
    std::ranges::sort(cuts);
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      if (cuts[i + 1] % cuts[i] != 0) cursor.fail("these parts of an axis do not fit together");
      for (size_t p = 0; p < parts.size(); ++p) {
        if (parts[p].axis == axis && parts[p].before == cuts[i] &&
            parts[p].before * parts[p].size == cuts[i + 1])
          grouped[p] = sizes.size();
      }
      sizes.push_back(cuts[i + 1] / cuts[i]);
    }
  }
  std::vector<bool> used(sizes.size());
  std::vector<size_t> last;
  int64_t group_size = 1;
  for (size_t p = 0; p < parts.size(); ++p) {
    if (parts[p].size == 1) continue;
    if (grouped[p] == SIZE_MAX || used[grouped[p]]) cursor.fail("these axes overlap");
    used[grouped[p]] = true;
    last.push_back(grouped[p]);
    group_size *= parts[p].size;
  }
  std::vector<size_t> order;
  for (size_t dim = 0; dim < sizes.size(); ++dim)
    if (!used[dim]) order.push_back(dim);
  order.insert(order.end(), last.begin(), last.end());
  ReplicaGroups groups;
  groups.ranks = transposed_iota(sizes, order);
  if (!mesh.device_ids.empty()) {
    for (int64_t& rank : groups.ranks) rank = mesh.device_ids[static_cast<size_t>(rank)];
  }
  groups.sizes.assign(groups.ranks.size() / static_cast<size_t>(group_size), group_size);
  return groups;
}

}  // namespace

int64_t ReplicaGroups::group_size() const {
  return sizes.empty() ? 0 : *std::ranges::max_element(sizes);
}

bool ReplicaGroups::ragged() const {
  return std::ranges::any_of(sizes, [&](int64_t size) { return size != sizes.front(); });
}

Mesh read_mesh(Cursor& cursor) {
  Mesh mesh;
  std::vector<int64_t> sizes;
  cursor.expect("mesh", "before its axes");
  cursor.expect('[', "before the axes of a mesh");
  if (!cursor.accept(']')) {
    do {
      const std::string_view name = read_axis_name(cursor);
      if (std::ranges::any_of(mesh.axes, [&](const MeshAxis& axis) { return axis.name == name; }))
        cursor.fail(fmt::format("a second axis '{}'", name));
      cursor.expect('=', "after the name of an axis");
      sizes.push_back(cursor.integer("the size of an axis"));
      mesh.axes.push_back({std::string(name), sizes.back()});
      if (mesh.axes.size() > kMaxAxes) cursor.fail("more than 64 axes");
    } while (cursor.accept(','));
    cursor.expect(']', "or ',' between the axes of a mesh");
  }
  const int64_t count = device_count(cursor, sizes);
  const size_t offset = cursor.offset();
  if (!cursor.accept(',') || !cursor.accept("device_ids")) {
    cursor.rewind(offset);
    return mesh;
  }
  cursor.expect('=', "after device_ids");
  cursor.expect('(', "before device ids");
  do {
    const int64_t device = cursor.integer("a device's number");
    if (device < 0) cursor.fail("a device's number cannot be negative");
    mesh.device_ids.push_back(device);
  } while (cursor.accept(','));
  cursor.expect(')', "or ',' between device ids");
  if (static_cast<int64_t>(mesh.device_ids.size()) != count)
    cursor.fail(
        fmt::format("the mesh has {} devices but {} device ids", count, mesh.device_ids.size()));
  return mesh;
}

ReplicaGroups read_replica_groups(Cursor cursor) {
  ReplicaGroups groups = cursor.next_is('{')   ? read_lists(cursor)
                         : cursor.next_is('[') ? read_iota(cursor)
                                               : read_mesh_axes(cursor);
  cursor.expect_end("of the replica groups");
  return groups;
}

}  // namespace orrery::hlo
