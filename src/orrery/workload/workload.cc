#include "orrery/workload/workload.h"

namespace orrery {
namespace {

template <class T>
size_t capacity_bytes(const std::vector<T>& v) {
  return v.capacity() * sizeof(T);
}

}  // namespace

std::string_view name(Attr key) {
  static_assert(static_cast<int>(Attr::kLhsBatching) == 0);
  switch (key) {
    case Attr::kDimensions:
      return "dimensions";
    case Attr::kTripCount:
      return "trip_count";
    case Attr::kCallee:
      return "callee";
    case Attr::kTarget:
      return "target";
    default:
      return "attribute";
  }
}

size_t Workload::memory_bytes() const {
  size_t bytes = capacity_bytes(ops_) + capacity_bytes(regions_) + capacity_bytes(functions_) +
                 capacity_bytes(values_) + capacity_bytes(operands_) + capacity_bytes(attributes_) +
                 capacity_bytes(integers_) + capacity_bytes(types_) + capacity_bytes(strings_);
  for (const Type& t : types_)
    bytes += capacity_bytes(t.dims) + capacity_bytes(t.minor_to_major) + capacity_bytes(t.members);
  for (const std::string& s : strings_) bytes += s.capacity() > 15 ? s.capacity() + 1 : 0;
  for (const Function& f : functions_)
    bytes +=
        capacity_bytes(f.arguments) + capacity_bytes(f.results) + capacity_bytes(f.result_types);
  return bytes;
}

const Attribute* OpView::find(Attr key) const {
  for (const Attribute& a : workload_->attributes(raw()))
    if (a.key == key) return &a;
  return nullptr;
}

int64_t OpView::integer(Attr key, int64_t otherwise) const {
  const Attribute* a = find(key);
  return a != nullptr && a->kind == Attribute::Kind::kInt ? a->integer : otherwise;
}

double OpView::real(Attr key, double otherwise) const {
  const Attribute* a = find(key);
  if (a == nullptr) return otherwise;
  if (a->kind == Attribute::Kind::kInt) return static_cast<double>(a->integer);
  return a->kind == Attribute::Kind::kReal ? a->real : otherwise;
}

std::span<const int64_t> OpView::integers(Attr key) const {
  const Attribute* a = find(key);
  if (a == nullptr || a->kind != Attribute::Kind::kInts) return {};
  return workload_->integers(*a);
}

std::string_view OpView::string(Attr key) const {
  const Attribute* a = find(key);
  if (a == nullptr || a->kind != Attribute::Kind::kString) return {};
  return workload_->string(StringId{a->index});
}

FunctionId OpView::callee(Attr key) const {
  const Attribute* a = find(key);
  if (a == nullptr || a->kind != Attribute::Kind::kFunction) return {};
  return FunctionId{a->index};
}

std::vector<RegionId> OpView::raw_regions() const {
  std::vector<RegionId> found;
  for (RegionId r = raw().first_region; r.valid(); r = workload_->region(r).next)
    found.push_back(r);
  return found;
}

std::vector<RegionId> OpView::bodies() const {
  std::vector<RegionId> found = raw_regions();
  const auto add = [&](FunctionId f) {
    if (f.valid() && workload_->function(f).body.valid())
      found.push_back(workload_->function(f).body);
  };
  add(callee(Attr::kCondition));
  add(callee(Attr::kCallee));
  for (int64_t branch : integers(Attr::kBranches)) add(FunctionId{static_cast<uint32_t>(branch)});
  return found;
}

}  // namespace orrery
