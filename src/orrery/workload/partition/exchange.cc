#include "orrery/workload/partition/exchange.h"

#include <fmt/format.h>

#include <algorithm>

#include "orrery/base/error.h"

namespace orrery::partition {
namespace {

bool starts_with(const Axes& axes, const Axes& with) {
  return with.size() <= axes.size() && std::equal(with.begin(), with.end(), axes.begin());
}

}  // namespace

Layout layout_of(const TensorSharding& sharding) {
  Layout layout;
  layout.reserve(sharding.dims.size());
  for (const DimensionSharding& d : sharding.dims) layout.push_back(d.axes);
  return layout;
}

void Exchange::refuse(std::string_view what) const {
  throw_input(w_.name(), fmt::format("the module is not partitioned: {}{}", what, kExportInstead));
}

TypeId Exchange::local_type(const Type& type, const Layout& layout) {
  if (type.kind == Type::Kind::kToken) return builder_.token_type();
  if (type.kind == Type::Kind::kTuple) {
    std::vector<TypeId> members;
    members.reserve(type.members.size());
    for (const TypeId m : type.members) members.push_back(local_type(w_.type(m), {}));
    return builder_.tuple_type(members);
  }
  std::vector<int64_t> dims = type.dims;
  for (size_t d = 0; d < layout.size(); ++d) {
    if (layout[d].empty()) continue;
    if (dims[d] == kDynamic) refuse("a dimension of open size is shared out");
    dims[d] = split(dims[d], grid_.ways(layout[d]));
  }
  return builder_.tensor_type(type.element, dims, type.minor_to_major, type.expressed);
}

ValueId Exchange::collective(Opcode code, ValueId value, const Axes& axes, TypeId type,
                             size_t offset, int64_t dim, int64_t concatenated) {
  const OpId id = builder_.begin_op(code, {{value}}, 1, offset);
  builder_.set_ints(Attr::kReplicaGroups, grid_.groups(axes));
  builder_.set_int(Attr::kReplicaGroupSize, grid_.ways(axes));
  builder_.set_int(Attr::kUseGlobalIds, 1);
  if (code == Opcode::k_all_to_all) {
    builder_.set_int(Attr::kSplitDimension, dim);
    builder_.set_int(Attr::kConcatDimension, concatenated);
    builder_.set_int(Attr::kSplitCount, grid_.ways(axes));
  } else if (dim >= 0) {
    builder_.set_ints(Attr::kDimensions, {dim});
  }
  builder_.set_result_type(0, type);
  builder_.end_op();
  return builder_.result(id);
}

bool Exchange::same_pieces(const Layout& a, const Layout& b) const {
  const auto same_sizes = [&](const Axes& x, const Axes& y) {
    return std::ranges::equal(x, y, [&](Axis i, Axis j) { return grid_.size(i) == grid_.size(j); });
  };
  return std::ranges::equal(a, b, same_sizes);
}

ValueId Exchange::permute(ValueId value, const Layout& from, const Layout& to, size_t offset) {
  Axes all_from, all_to;
  for (const Axes& axes : from) all_from.insert(all_from.end(), axes.begin(), axes.end());
  for (const Axes& axes : to) all_to.insert(all_to.end(), axes.begin(), axes.end());
  const OpId id = builder_.begin_op(Opcode::k_collective_permute, {{value}}, 1, offset);
  builder_.set_ints(Attr::kSourceTargetPairs, grid_.moves(all_from, all_to));
  builder_.set_result_type(0, builder_.value_type(value));
  builder_.end_op();
  return builder_.result(id);
}

ValueId Exchange::reshard(Held from, const Type& type, const Layout& to, size_t offset) {
  Layout& now = from.layout;
  ValueId value = from.value;
  if (now == to) return value;
  if (same_pieces(now, to)) return permute(value, now, to, offset);
  const auto used = [&](Axis a) {
    return std::ranges::any_of(now, [&](const Axes& axes) { return contains(axes, a); });
  };
  // What a device has already of a smaller part costs no communication and makes the rest
  // smaller.
  const auto slice = [&] {
    bool any = false;
    for (size_t d = 0; d < to.size(); ++d) {
      if (!starts_with(to[d], now[d])) continue;
      for (size_t k = now[d].size(); k < to[d].size() && !used(to[d][k]); ++k) {
        now[d].push_back(to[d][k]);
        any = true;
      }
    }
    if (!any) return;
    const TypeId part = local_type(type, now);
    const OpId id = builder_.begin_op(Opcode::k_dynamic_slice, {{value}}, 1, offset);
    builder_.set_ints(Attr::kSliceSizes, std::vector<int64_t>(builder_.type(part).dims));
    builder_.set_result_type(0, part);
    builder_.end_op();
    value = builder_.result(id);
  };
  slice();
  for (size_t d = 0; d < to.size(); ++d) {
    while (!starts_with(to[d], now[d])) {
      // Axes at the end of this dimension that another waits for trade places with it.
      size_t other = to.size();
      size_t keep = now[d].size();
      for (size_t e = 0; e < to.size() && other == to.size(); ++e) {
        if (e == d || !starts_with(to[e], now[e]) || to[e].size() == now[e].size()) continue;
        const auto at = std::ranges::find(now[d], to[e][now[e].size()]);
        if (at == now[d].end()) continue;
        const auto run = static_cast<size_t>(now[d].end() - at);
        if (now[e].size() + run > to[e].size() ||
            !std::equal(at, now[d].end(), to[e].begin() + static_cast<ptrdiff_t>(now[e].size())))
          continue;
        other = e;
        keep = static_cast<size_t>(at - now[d].begin());
      }
      if (other < to.size()) {
        const Axes traded(now[d].begin() + static_cast<ptrdiff_t>(keep), now[d].end());
        now[d].resize(keep);
        now[other].insert(now[other].end(), traded.begin(), traded.end());
        value = collective(Opcode::k_all_to_all, value, traded, local_type(type, now), offset,
                           static_cast<int64_t>(other), static_cast<int64_t>(d));
        continue;
      }
      size_t same = 0;
      while (same < now[d].size() && same < to[d].size() && now[d][same] == to[d][same]) ++same;
      const Axes gathered(now[d].begin() + static_cast<ptrdiff_t>(same), now[d].end());
      now[d].resize(same);
      value = collective(Opcode::k_all_gather, value, gathered, local_type(type, now), offset,
                         static_cast<int64_t>(d));
    }
  }
  slice();
  return value;
}

Held Exchange::complete(Held part, const Type& type, Axes partial, const Layout& to,
                        size_t offset) {
  for (size_t d = 0; d < to.size() && !partial.empty(); ++d) {
    if (!starts_with(to[d], part.layout[d]) || to[d].size() == part.layout[d].size()) continue;
    Axes scattered;
    for (size_t k = part.layout[d].size(); k < to[d].size() && contains(partial, to[d][k]); ++k)
      scattered.push_back(to[d][k]);
    if (scattered.empty()) continue;
    part.layout[d].insert(part.layout[d].end(), scattered.begin(), scattered.end());
    part.value = collective(Opcode::k_reduce_scatter, part.value, scattered,
                            local_type(type, part.layout), offset, static_cast<int64_t>(d));
    std::erase_if(partial, [&](Axis a) { return contains(scattered, a); });
  }
  if (!partial.empty())
    part.value = collective(Opcode::k_all_reduce, part.value, partial,
                            builder_.value_type(part.value), offset);
  return part;
}

}  // namespace orrery::partition
