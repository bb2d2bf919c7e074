#include "orrery/workload/workload_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>

#include "orrery/workload/trip_count.h"
#include "orrery/workload/verify.h"

namespace orrery {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 48;
constexpr size_t kMaxRank = 64;
constexpr size_t kLongList =
    32;  // Shorter ones take less room than the entry that would find them.

size_t combine(size_t seed, uint64_t value) {
  return (seed ^ value) * 0x9e3779b97f4a7c15ULL + (seed >> 29);
}

/// Finds a string by a view of it, so that only new ones are copied.
struct ViewHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

}  // namespace

struct WorkloadBuilder::State {
  /// An operation whose regions or result types are still coming.
  struct Frame {
    OpId op;
    size_t first_attribute = 0;  ///< Into `pending`.
    RegionId region;             ///< The open region, if any.
    RegionId last_region;
  };

  std::unordered_multimap<size_t, TypeId> types;
  std::unordered_map<std::string, StringId, ViewHash, std::equal_to<>> strings;
  std::unordered_map<std::string, FunctionId> functions;
  std::unordered_map<std::string, ShardingId> shardings;
  std::unordered_set<std::string> notes;
  std::unordered_multimap<size_t, uint32_t> long_lists;  ///< Offsets into the integer pool.
  std::vector<Frame> frames;
  std::vector<Attribute> pending;
  FunctionId current;
  std::vector<TypeId> return_types;

  /// Where `values` stand in `pool`. Long lists are stored once: every collective
  /// of a module on a thousand devices tends to repeat the same groups.
  uint32_t place(std::vector<int64_t>& pool, std::span<const int64_t> values) {
    const auto end = static_cast<uint32_t>(pool.size());
    if (values.size() >= kLongList) {
      size_t hash = values.size();
      for (int64_t v : values) hash = combine(hash, static_cast<uint64_t>(v));
      const auto [first, last] = long_lists.equal_range(hash);
      for (auto it = first; it != last; ++it) {
        if (pool.size() - it->second >= values.size() &&
            std::equal(values.begin(), values.end(), pool.begin() + it->second))
          return it->second;
      }
      long_lists.emplace(hash, end);
    }
    pool.insert(pool.end(), values.begin(), values.end());
    return end;
  }
};

WorkloadBuilder::WorkloadBuilder(std::string format, std::string name)
    : workload_(std::make_unique<Workload>()), state_(std::make_unique<State>()) {
  workload_->format_ = std::move(format);
  workload_->name_ = std::move(name);
}

WorkloadBuilder::~WorkloadBuilder() = default;
WorkloadBuilder::WorkloadBuilder(WorkloadBuilder&&) noexcept = default;
WorkloadBuilder& WorkloadBuilder::operator=(WorkloadBuilder&&) noexcept = default;

// --- module -----------------------------------------------------------------

void WorkloadBuilder::set_name(std::string name) { workload_->name_ = std::move(name); }

void WorkloadBuilder::set_library(std::string library) { workload_->library_ = std::move(library); }

void WorkloadBuilder::set_partitions(int64_t partitions, int64_t replicas) {
  if (partitions > 0) workload_->partitions_ = partitions;
  if (replicas > 0) workload_->replicas_ = replicas;
}

void WorkloadBuilder::add_note(std::string note) {
  if (state_->notes.insert(note).second) workload_->notes_.push_back(std::move(note));
}

MeshId WorkloadBuilder::add_mesh(Mesh mesh) {
  workload_->meshes_.push_back(std::move(mesh));
  return MeshId{static_cast<uint32_t>(workload_->meshes_.size() - 1)};
}

MeshId WorkloadBuilder::find_mesh(std::string_view name) const {
  for (auto i = static_cast<uint32_t>(workload_->meshes_.size()); i-- > 0;)
    if (workload_->meshes_[i].name == name) return MeshId{i};
  return {};
}

const Mesh& WorkloadBuilder::mesh(MeshId id) const { return workload_->meshes_[id.index]; }

ShardingId WorkloadBuilder::add_sharding(Sharding sharding) {
  std::string key =
      fmt::format("{}/{}/{}", static_cast<int>(sharding.form), sharding.mesh.index, sharding.text);
  const auto [at, added] = state_->shardings.emplace(
      std::move(key), ShardingId{static_cast<uint32_t>(workload_->shardings_.size())});
  if (added) workload_->shardings_.push_back(std::move(sharding));
  return at->second;
}

StringId WorkloadBuilder::intern(std::string_view text) {
  if (const auto known = state_->strings.find(text); known != state_->strings.end())
    return known->second;
  const StringId id{static_cast<uint32_t>(workload_->strings_.size())};
  state_->strings.emplace(text, id);
  workload_->strings_.emplace_back(text);
  return id;
}

std::string_view WorkloadBuilder::string(StringId id) const { return workload_->string(id); }

// --- types ------------------------------------------------------------------

TypeId WorkloadBuilder::tensor_type(ElementType element, std::span<const int64_t> dims,
                                    std::span<const int64_t> minor_to_major,
                                    ElementType expressed) {
  size_t hash = combine(static_cast<size_t>(element), static_cast<uint64_t>(expressed));
  for (int64_t d : dims) hash = combine(hash, static_cast<uint64_t>(d));
  hash = combine(hash, 0x1dULL + dims.size());
  for (int64_t d : minor_to_major) hash = combine(hash, static_cast<uint64_t>(d));
  const auto [first, last] = state_->types.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const Type& t = workload_->types_[it->second.index];
    if (t.kind == Type::Kind::kTensor && t.element == element && t.expressed == expressed &&
        std::ranges::equal(t.dims, dims) && std::ranges::equal(t.minor_to_major, minor_to_major))
      return it->second;
  }

  Type type;
  type.kind = Type::Kind::kTensor;
  type.element = element;
  type.expressed = expressed;
  type.dims.assign(dims.begin(), dims.end());
  type.minor_to_major.assign(minor_to_major.begin(), minor_to_major.end());
  if (dims.size() > kMaxRank) throw std::invalid_argument("more than 64 dimensions");
  if (!minor_to_major.empty()) {
    std::vector<bool> seen(dims.size());
    for (int64_t d : minor_to_major) {
      if (d < 0 || d >= static_cast<int64_t>(dims.size()) || seen[static_cast<size_t>(d)])
        throw std::invalid_argument("the layout is not a permutation of the dimensions");
      seen[static_cast<size_t>(d)] = true;
    }
  }
  // Zero-sized dimensions make the tensor empty however large the others are.
  int64_t elements = 1;
  bool empty = false;
  for (int64_t d : dims) {
    if (d == kDynamic) {
      type.dynamic = true;
    } else if (d < 0) {
      throw std::invalid_argument(fmt::format("negative dimension {}", d));
    } else if (d == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(elements, d, &elements) || elements > kMaxElements) {
      throw std::invalid_argument("a tensor of more than 2^48 elements");
    }
  }
  type.elements = empty ? 0 : elements;
  type.bytes = (type.elements * bit_width(element) + 7) / 8;
  const TypeId id{static_cast<uint32_t>(workload_->types_.size())};
  workload_->types_.push_back(std::move(type));
  state_->types.emplace(hash, id);
  return id;
}

TypeId WorkloadBuilder::tuple_type(std::span<const TypeId> members) {
  size_t hash = combine(0x7007, members.size());
  for (TypeId m : members) hash = combine(hash, m.index);
  const auto [first, last] = state_->types.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const Type& t = workload_->types_[it->second.index];
    if (t.kind == Type::Kind::kTuple && std::ranges::equal(t.members, members)) return it->second;
  }
  Type type;
  type.kind = Type::Kind::kTuple;
  type.members.assign(members.begin(), members.end());
  for (TypeId m : members) {
    const Type& member = workload_->types_[m.index];
    if (__builtin_add_overflow(type.bytes, member.bytes, &type.bytes) ||
        type.bytes > kMaxElements * 16)
      throw std::invalid_argument("a tuple of more than 2^52 bytes");
    type.dynamic |= member.dynamic;
  }
  const TypeId id{static_cast<uint32_t>(workload_->types_.size())};
  workload_->types_.push_back(std::move(type));
  state_->types.emplace(hash, id);
  return id;
}

TypeId WorkloadBuilder::token_type() {
  constexpr size_t kHash = 0x70ce;
  const auto found = state_->types.find(kHash);
  if (found != state_->types.end()) return found->second;
  const TypeId id{static_cast<uint32_t>(workload_->types_.size())};
  workload_->types_.emplace_back();
  state_->types.emplace(kHash, id);
  return id;
}

const Type& WorkloadBuilder::type(TypeId id) const { return workload_->types_[id.index]; }
TypeId WorkloadBuilder::value_type(ValueId id) const { return workload_->values_[id.index].type; }

// --- functions --------------------------------------------------------------

FunctionId WorkloadBuilder::declare_function(std::string_view name) {
  const auto [at, added] = state_->functions.emplace(
      std::string(name), FunctionId{static_cast<uint32_t>(workload_->functions_.size())});
  if (added) {
    workload_->functions_.emplace_back();
    workload_->functions_.back().name = intern(name);
  }
  return at->second;
}

bool WorkloadBuilder::has_body(FunctionId id) const {
  return workload_->functions_[id.index].body.valid();
}
Function& WorkloadBuilder::function(FunctionId id) { return workload_->functions_[id.index]; }
void WorkloadBuilder::set_entry(FunctionId id) { workload_->entry_ = id; }

void WorkloadBuilder::begin_function(FunctionId id, bool is_public) {
  Function& f = workload_->functions_[id.index];
  f.is_public = is_public;
  f.body = RegionId{static_cast<uint32_t>(workload_->regions_.size())};
  Region region;
  region.first_op = static_cast<uint32_t>(workload_->ops_.size());
  region.first_argument = static_cast<uint32_t>(workload_->values_.size());
  workload_->regions_.push_back(region);
  state_->current = id;
  state_->return_types.clear();
}

ValueId WorkloadBuilder::add_argument(TypeId type, ArgumentInfo info) {
  Function& f = workload_->functions_[state_->current.index];
  f.arguments.push_back(info);
  ++workload_->regions_[f.body.index].argument_count;
  workload_->values_.push_back({type, {}});
  return ValueId{static_cast<uint32_t>(workload_->values_.size() - 1)};
}

void WorkloadBuilder::set_result_infos(std::vector<ResultInfo> infos) {
  workload_->functions_[state_->current.index].results = std::move(infos);
}

void WorkloadBuilder::end_function() {
  Function& f = workload_->functions_[state_->current.index];
  workload_->regions_[f.body.index].end_op = static_cast<uint32_t>(workload_->ops_.size());
  f.result_types = state_->return_types;
  f.results.resize(f.result_types.size());
  state_->current = {};
}

void WorkloadBuilder::declare_external(FunctionId id, std::span<const TypeId> results) {
  Function& f = workload_->functions_[id.index];
  f.is_public = false;
  f.result_types.assign(results.begin(), results.end());
  f.results.resize(results.size());
}

// --- operations -------------------------------------------------------------

OpId WorkloadBuilder::begin_op(Opcode code, std::span<const ValueId> operands,
                               uint32_t result_count, size_t offset) {
  const OpId id{static_cast<uint32_t>(workload_->ops_.size())};
  Op op;
  op.code = code;
  op.first_operand = static_cast<uint32_t>(workload_->operands_.size());
  op.operand_count = static_cast<uint32_t>(operands.size());
  workload_->operands_.insert(workload_->operands_.end(), operands.begin(), operands.end());
  op.first_result = static_cast<uint32_t>(workload_->values_.size());
  op.result_count = result_count;
  for (uint32_t i = 0; i < result_count; ++i) workload_->values_.push_back({{}, id});
  op.offset = static_cast<uint32_t>(std::min<size_t>(offset, UINT32_MAX));
  workload_->ops_.push_back(op);
  state_->frames.push_back({id, state_->pending.size(), {}, {}});
  return id;
}

bool WorkloadBuilder::in_operation() const { return !state_->frames.empty(); }

bool WorkloadBuilder::open_has(Attr key) const {
  for (size_t i = state_->frames.back().first_attribute; i < state_->pending.size(); ++i)
    if (state_->pending[i].key == key) return true;
  return false;
}

std::string_view WorkloadBuilder::open_string(Attr key) const {
  for (size_t i = state_->frames.back().first_attribute; i < state_->pending.size(); ++i) {
    const Attribute& a = state_->pending[i];
    if (a.key == key && a.kind == Attribute::Kind::kString)
      return workload_->string(StringId{a.index});
  }
  return {};
}

std::span<const ValueId> WorkloadBuilder::open_operands() const {
  return workload_->operands(workload_->ops_[state_->frames.back().op.index]);
}

void WorkloadBuilder::set_open_code(Opcode code) {
  workload_->ops_[state_->frames.back().op.index].code = code;
}

void WorkloadBuilder::add_operand(ValueId value) {
  workload_->operands_.push_back(value);
  ++workload_->ops_[state_->frames.back().op.index].operand_count;
}

void WorkloadBuilder::set_int(Attr key, int64_t value) {
  Attribute a;
  a.key = key;
  a.kind = Attribute::Kind::kInt;
  a.integer = value;
  state_->pending.push_back(a);
}

void WorkloadBuilder::set_real(Attr key, double value) {
  Attribute a;
  a.key = key;
  a.kind = Attribute::Kind::kReal;
  a.real = value;
  state_->pending.push_back(a);
}

void WorkloadBuilder::set_ints(Attr key, std::span<const int64_t> values) {
  Attribute a;
  a.key = key;
  a.kind = Attribute::Kind::kInts;
  a.count = static_cast<uint32_t>(values.size());
  a.offset = state_->place(workload_->integers_, values);
  state_->pending.push_back(a);
}

void WorkloadBuilder::set_string(Attr key, std::string_view value) {
  Attribute a;
  a.key = key;
  a.kind = Attribute::Kind::kString;
  a.index = intern(value).index;
  state_->pending.push_back(a);
}

void WorkloadBuilder::set_function(Attr key, FunctionId id) {
  Attribute a;
  a.key = key;
  a.kind = Attribute::Kind::kFunction;
  a.index = id.index;
  state_->pending.push_back(a);
}

void WorkloadBuilder::set_sharding(Attr key, ShardingId id) {
  Attribute a;
  a.key = key;
  a.kind = Attribute::Kind::kSharding;
  a.index = id.index;
  state_->pending.push_back(a);
}

void WorkloadBuilder::set_name(StringId name) {
  workload_->ops_[state_->frames.back().op.index].name = name;
}

void WorkloadBuilder::set_op_name(OpId id, StringId name) { workload_->ops_[id.index].name = name; }

void WorkloadBuilder::set_result_type(uint32_t i, TypeId type) {
  const Op& op = workload_->ops_[state_->frames.back().op.index];
  workload_->values_[op.first_result + i].type = type;
}

void WorkloadBuilder::set_result_types(std::span<const TypeId> types) {
  const OpId id = state_->frames.back().op;
  Op& op = workload_->ops_[id.index];
  if (op.result_count == 0 && !types.empty()) {
    op.first_result = static_cast<uint32_t>(workload_->values_.size());
    op.result_count = static_cast<uint32_t>(types.size());
    for (TypeId t : types) workload_->values_.push_back({t, id});
    return;
  }
  for (uint32_t i = 0; i < types.size(); ++i) set_result_type(i, types[i]);
}

RegionId WorkloadBuilder::begin_region() {
  State::Frame& frame = state_->frames.back();
  const RegionId id{static_cast<uint32_t>(workload_->regions_.size())};
  Region region;
  region.first_op = static_cast<uint32_t>(workload_->ops_.size());
  region.first_argument = static_cast<uint32_t>(workload_->values_.size());
  workload_->regions_.push_back(region);
  if (frame.last_region.valid())
    workload_->regions_[frame.last_region.index].next = id;
  else
    workload_->ops_[frame.op.index].first_region = id;
  frame.region = frame.last_region = id;
  return id;
}

ValueId WorkloadBuilder::add_region_argument(TypeId type) {
  ++workload_->regions_[state_->frames.back().region.index].argument_count;
  workload_->values_.push_back({type, {}});
  return ValueId{static_cast<uint32_t>(workload_->values_.size() - 1)};
}

void WorkloadBuilder::end_region() {
  State::Frame& frame = state_->frames.back();
  workload_->regions_[frame.region.index].end_op = static_cast<uint32_t>(workload_->ops_.size());
  frame.region = {};
}

OpId WorkloadBuilder::end_op() {
  const State::Frame frame = state_->frames.back();
  state_->frames.pop_back();
  Op& op = workload_->ops_[frame.op.index];
  op.end = static_cast<uint32_t>(workload_->ops_.size());
  op.first_attribute = static_cast<uint32_t>(workload_->attributes_.size());
  op.attribute_count = static_cast<uint16_t>(
      std::min<size_t>(state_->pending.size() - frame.first_attribute, UINT16_MAX));
  const auto first = state_->pending.begin() + static_cast<ptrdiff_t>(frame.first_attribute);
  workload_->attributes_.insert(workload_->attributes_.end(), first, first + op.attribute_count);
  state_->pending.erase(first, state_->pending.end());
  return frame.op;
}

ValueId WorkloadBuilder::result(OpId id, uint32_t i) const {
  return ValueId{workload_->ops_[id.index].first_result + i};
}

const Op& WorkloadBuilder::op(OpId id) const { return workload_->ops_[id.index]; }
OpId WorkloadBuilder::definition(ValueId id) const {
  return workload_->values_[id.index].definition;
}

void WorkloadBuilder::annotate(OpId id, Attr key, int64_t value) {
  Op& op = workload_->ops_[id.index];
  const std::vector<Attribute> old(
      workload_->attributes_.begin() + op.first_attribute,
      workload_->attributes_.begin() + op.first_attribute + op.attribute_count);
  op.first_attribute = static_cast<uint32_t>(workload_->attributes_.size());
  workload_->attributes_.insert(workload_->attributes_.end(), old.begin(), old.end());
  Attribute a;
  a.key = key;
  a.kind = Attribute::Kind::kInt;
  a.integer = value;
  workload_->attributes_.push_back(a);
  ++op.attribute_count;
}

ValueId WorkloadBuilder::emit(Opcode code, std::span<const ValueId> operands, TypeId result) {
  const OpId id = begin_op(code, operands, 1);
  set_result_type(0, result);
  end_op();
  return ValueId{workload_->ops_[id.index].first_result};
}

void WorkloadBuilder::emit_return(std::span<const ValueId> values, size_t offset) {
  begin_op(Opcode::k_return, values, 0, offset);
  end_op();
  if (!state_->frames.empty()) return;
  state_->return_types.clear();
  for (ValueId v : values) state_->return_types.push_back(value_type(v));
}

// --- the end ----------------------------------------------------------------

Workload WorkloadBuilder::finish(const Source& source, int64_t trip_count_otherwise) {
  Workload& w = *workload_;
  if (!w.entry_.valid()) {
    FunctionId first, only_public;
    int publics = 0;
    for (uint32_t i = 0; i < w.functions_.size(); ++i) {
      const Function& f = w.functions_[i];
      if (!f.body.valid()) continue;
      if (!first.valid()) first = FunctionId{i};
      if (f.is_public) {
        ++publics;
        only_public = FunctionId{i};
      }
      if (w.string(f.name) == "main") w.entry_ = FunctionId{i};
    }
    if (!w.entry_.valid()) w.entry_ = publics == 1 ? only_public : first;
  }
  verify(w, source);
  infer_trip_counts(*this, trip_count_otherwise);
  w.ops_.shrink_to_fit();
  w.values_.shrink_to_fit();
  w.operands_.shrink_to_fit();
  w.attributes_.shrink_to_fit();
  w.integers_.shrink_to_fit();
  return std::move(w);
}

Workload WorkloadBuilder::finish() {
  const Source source = Source::from_memory(workload_->name_, "");
  try {
    return finish(source);
  } catch (const Error& e) {
    throw_internal(fmt::format("a workload built here is not valid: {}", e.what()));
  }
}

}  // namespace orrery
