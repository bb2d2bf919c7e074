#include <algorithm>
#include <array>
#include <stdexcept>
#include <unordered_map>

#include "orrery/base/protobuf_wire.h"
#include "orrery/workload/readers/onnx/operator.h"
#include "orrery/workload/readers/onnx/translator.h"

namespace orrery::onnx {
namespace {

std::string list(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims, "x")); }

}  // namespace

WorkloadBuilder& NodeContext::builder() { return translator_.builder(); }
const Source& NodeContext::source() const { return translator_.source(); }

void NodeContext::fail(const std::string& message) const {
  const std::string_view called =
      !node_.name.empty() ? node_.name
                          : (node_.outputs.empty() ? std::string_view("") : node_.outputs[0]);
  fail_at_byte(translator_.source(), node_.offset,
               fmt::format("node '{}' ({}): {}", called, node_.op_type, message));
}

void NodeContext::note(std::string message) { builder().add_note(std::move(message)); }

// --- inputs -----------------------------------------------------------------

bool NodeContext::has_input(size_t i) const {
  if (i >= node_.inputs.size() || node_.inputs[i].empty()) return false;
  const Value* value = scope_.find(node_.inputs[i]);
  // An optional parameter that a function's caller left out.
  return value != nullptr && !(value->kind == Value::Kind::kOptional && value->items.empty() &&
                               node_.op_type != "OptionalHasElement");
}

const Value& NodeContext::value(size_t i) const {
  if (i >= node_.inputs.size() || node_.inputs[i].empty())
    fail(fmt::format("input {} is missing", i));
  return *scope_.find(node_.inputs[i]);
}

const Value& NodeContext::tensor(size_t i) const {
  const Value& found = value(i);
  if (found.kind != Value::Kind::kTensor)
    fail(fmt::format("input {} is a sequence or optional where a tensor is expected", i));
  return found;
}

void NodeContext::expect_rank(size_t i, size_t least) const {
  if (rank(i) < least)
    fail(fmt::format("input {} has {} dimensions where at least {} are expected", i, rank(i),
                     least));
}

void NodeContext::expect_inputs(size_t least) const {
  for (size_t i = 0; i < least; ++i) tensor(i);
}

const Constant* NodeContext::constant(size_t i) const {
  return has_input(i) ? value(i).constant.get() : nullptr;
}

std::optional<Dims> NodeContext::known_integers(size_t i) const {
  const Constant* known = constant(i);
  if (known == nullptr) return std::nullopt;
  Dims result(known->size());
  for (size_t k = 0; k < result.size(); ++k) result[k] = known->integer(k);
  return result;
}

Dims NodeContext::integers(size_t i, std::string_view what) const {
  tensor(i);
  if (auto known = known_integers(i)) return std::move(*known);
  fail(fmt::format("{} ('{}') depends on data, so shapes after it cannot be known", what,
                   node_.inputs[i]));
}

std::optional<double> NodeContext::known_real(size_t i) const {
  const Constant* known = constant(i);
  if (known == nullptr || known->size() != 1) return std::nullopt;
  return known->real(0);
}

// --- attributes -------------------------------------------------------------

const NodeAttribute* NodeContext::find(std::string_view name) const {
  for (const NodeAttribute& attribute : node_.attributes) {
    if (attribute.name != name) continue;
    if (attribute.reference.empty()) return &attribute;
    for (const Scope* scope = &scope_; scope != nullptr; scope = scope->parent) {
      if (scope->attributes == nullptr) continue;
      const auto found = scope->attributes->find(attribute.reference);
      return found == scope->attributes->end() ? nullptr : found->second;
    }
    fail(fmt::format("attribute '{}' refers to '{}' of a calling node, but there is none", name,
                     attribute.reference));
  }
  return nullptr;
}

int64_t NodeContext::integer(std::string_view name, int64_t otherwise) const {
  const NodeAttribute* attribute = find(name);
  if (attribute == nullptr) return otherwise;
  if (attribute->kind != NodeAttribute::Kind::kInt)
    fail(fmt::format("attribute '{}' must be an integer", name));
  return attribute->integer;
}

int64_t NodeContext::required_integer(std::string_view name) const {
  if (!has_attribute(name)) fail(fmt::format("attribute '{}' is missing", name));
  return integer(name, 0);
}

double NodeContext::real(std::string_view name, double otherwise) const {
  const NodeAttribute* attribute = find(name);
  if (attribute == nullptr) return otherwise;
  if (attribute->kind != NodeAttribute::Kind::kFloat)
    fail(fmt::format("attribute '{}' must be a float", name));
  return attribute->real;
}

std::string_view NodeContext::string(std::string_view name, std::string_view otherwise) const {
  const NodeAttribute* attribute = find(name);
  if (attribute == nullptr) return otherwise;
  if (attribute->kind != NodeAttribute::Kind::kString)
    fail(fmt::format("attribute '{}' must be a string", name));
  return attribute->string;
}

std::optional<Dims> NodeContext::integer_list(std::string_view name) const {
  const NodeAttribute* attribute = find(name);
  if (attribute == nullptr) return std::nullopt;
  if (attribute->kind != NodeAttribute::Kind::kInts)
    fail(fmt::format("attribute '{}' must be a list of integers", name));
  return attribute->integers;
}

std::vector<float> NodeContext::real_list(std::string_view name) const {
  const NodeAttribute* attribute = find(name);
  if (attribute == nullptr) return {};
  if (attribute->kind != NodeAttribute::Kind::kFloats)
    fail(fmt::format("attribute '{}' must be a list of floats", name));
  return attribute->reals;
}

const Graph& NodeContext::graph(std::string_view name) const {
  const NodeAttribute* attribute = find(name);
  if (attribute == nullptr || attribute->kind != NodeAttribute::Kind::kGraph)
    fail(fmt::format("attribute '{}' must be a graph", name));
  return *attribute->graph;
}

int64_t NodeContext::axis(int64_t axis, size_t rank) const {
  const auto r = static_cast<int64_t>(rank);
  if (axis < -r || axis >= r)
    fail(fmt::format("axis {} is outside a tensor of {} dimensions", axis, rank));
  return axis < 0 ? axis + r : axis;
}

Dims NodeContext::axes(const Dims& axes, size_t rank) const {
  Dims result;
  for (int64_t a : axes) {
    const int64_t normal = axis(a, rank);
    if (std::find(result.begin(), result.end(), normal) != result.end())
      fail(fmt::format("axis {} is given twice", a));
    result.push_back(normal);
  }
  return result;
}

ElementType NodeContext::data_type(int64_t number) const {
  const auto element = element_type(number);
  if (!element) fail(fmt::format("tensor data type {} is not known", number));
  return *element;
}

// --- sizes ------------------------------------------------------------------

int64_t NodeContext::multiply(int64_t a, int64_t b) const {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) fail("a size overflows");
  return result;
}

int64_t NodeContext::add(int64_t a, int64_t b) const {
  int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) fail("a size overflows");
  return result;
}

int64_t NodeContext::product(std::span<const int64_t> dims) const {
  int64_t result = 1;
  for (int64_t d : dims) result = multiply(result, d);
  return result;
}

Dims NodeContext::broadcast(const Dims& a, const Dims& b) const {
  Dims result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      fail(fmt::format("shapes {} and {} do not broadcast together", list(a), list(b)));
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

// --- emission ---------------------------------------------------------------

ValueId NodeContext::operand(size_t i) { return operand(tensor(i)); }

ValueId NodeContext::operand(const Value& value) {
  if (value.kind != Value::Kind::kTensor) fail("a sequence or optional where a tensor is expected");
  if (value.id.valid()) return value.id;
  const Constant& constant = *value.constant;
  return emit(Opcode::k_constant, {}, constant.element, constant.dims, [&](WorkloadBuilder& b) {
    constexpr size_t kMaxListed = 64;  // Attr::kValue
    const size_t count = constant.size();
    if (constant.is_real()) {
      if (count > 0 && std::all_of(constant.reals.begin(), constant.reals.end(),
                                   [&](double x) { return x == constant.reals[0]; }))
        b.set_real(Attr::kRealValue, constant.reals[0]);
      return;
    }
    if (count > 0 && std::all_of(constant.integers.begin(), constant.integers.end(),
                                 [&](int64_t x) { return x == constant.integers[0]; }))
      b.set_ints(Attr::kValue, {constant.integers[0]});
    else if (count <= kMaxListed)
      b.set_ints(Attr::kValue, constant.integers);
  });
}

TypeId NodeContext::type(ElementType element, const Dims& dims, const Dims& minor_to_major) {
  for (int64_t d : dims)
    if (d < 0) fail(fmt::format("a result would have the negative dimension {}", d));
  try {
    return builder().tensor_type(element, dims, minor_to_major);
  } catch (const std::invalid_argument& e) {
    fail(e.what());
  }
}

void NodeContext::set_scope() {
  WorkloadBuilder& b = builder();
  if (!node_.name.empty()) {
    b.set_name(b.intern(node_.name));
    b.set_string(Attr::kScope, node_.name);
  } else if (!node_.outputs.empty()) {
    b.set_name(b.intern(node_.outputs[0]));
  }
}

std::vector<ValueId> NodeContext::emit_many(Opcode code, std::span<const ValueId> operands,
                                            std::span<const TypeId> results,
                                            const Attributes& attributes) {
  WorkloadBuilder& b = builder();
  const OpId op = b.begin_op(code, operands, static_cast<uint32_t>(results.size()), node_.offset);
  set_scope();
  if (attributes) attributes(b);
  b.set_result_types(results);
  b.end_op();
  std::vector<ValueId> values;
  for (uint32_t i = 0; i < results.size(); ++i) values.push_back(b.result(op, i));
  return values;
}

ValueId NodeContext::emit(Opcode code, std::span<const ValueId> operands, TypeId result,
                          const Attributes& attributes) {
  return emit_many(code, operands, {&result, 1}, attributes)[0];
}

ValueId NodeContext::emit(Opcode code, std::initializer_list<ValueId> operands, ElementType element,
                          const Dims& dims, const Attributes& attributes) {
  return emit(code, std::span(operands.begin(), operands.size()), type(element, dims), attributes);
}

ValueId NodeContext::elementwise(Opcode code, std::initializer_list<ValueId> operands) {
  Dims dims;
  for (ValueId v : operands) dims = broadcast(dims, dims_of(v));
  return emit(code, operands, element_of(*operands.begin()), dims);
}

ValueId NodeContext::compare(std::string_view how, ValueId a, ValueId b) {
  return emit(Opcode::k_compare, {a, b}, ElementType::kBool, broadcast(dims_of(a), dims_of(b)),
              [&](WorkloadBuilder& builder) { builder.set_string(Attr::kCompare, how); });
}

ValueId NodeContext::convert(ValueId value, ElementType to) {
  if (element_of(value) == to) return value;
  return emit(Opcode::k_convert, {value}, to, dims_of(value));
}

ValueId NodeContext::number(ElementType element, double value) { return splat(element, {}, value); }

ValueId NodeContext::splat(ElementType element, const Dims& dims, double value) {
  return emit(Opcode::k_constant, {}, element, dims, [&](WorkloadBuilder& b) {
    if (is_float(element) || is_complex(element))
      b.set_real(Attr::kRealValue, value);
    else if (element != ElementType::kString)
      b.set_ints(Attr::kValue, {static_cast<int64_t>(value)});
  });
}

ValueId NodeContext::reshape(ValueId value, const Dims& dims) {
  const Dims from = dims_of(value);
  if (from == dims) return value;
  if (product(from) != product(dims))
    fail(fmt::format("{} cannot be reshaped to {}", list(from), list(dims)));
  return emit(Opcode::k_reshape, {value}, element_of(value), dims);
}

ValueId NodeContext::transpose(ValueId value, const Dims& permutation) {
  const Dims from = dims_of(value);
  Dims dims;
  bool moves = false;
  for (size_t i = 0; i < permutation.size(); ++i) {
    dims.push_back(from[static_cast<size_t>(permutation[i])]);
    moves |= permutation[i] != static_cast<int64_t>(i);
  }
  if (!moves) return value;
  return emit(Opcode::k_transpose, {value}, element_of(value), dims,
              [&](WorkloadBuilder& b) { b.set_ints(Attr::kDimensions, permutation); });
}

ValueId NodeContext::iota(ElementType element, const Dims& dims, int64_t dimension) {
  return emit(Opcode::k_iota, {}, element, dims,
              [&](WorkloadBuilder& b) { b.set_ints(Attr::kDimensions, {dimension}); });
}

void NodeContext::reduction_body(Opcode combine, ElementType element) {
  WorkloadBuilder& b = builder();
  const TypeId scalar = type(element, {});
  b.begin_region();
  const ValueId left = b.add_region_argument(scalar);
  const ValueId right = b.add_region_argument(scalar);
  const ValueId combined = b.emit(combine, {left, right}, scalar);
  b.emit_return({{combined}});
  b.end_region();
}

ValueId NodeContext::reduce(Opcode combine, ValueId value, const Dims& axes, bool keep) {
  const Dims from = dims_of(value);
  const ElementType element = element_of(value);
  Dims kept, dropped;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool gone = std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
    if (!gone) dropped.push_back(from[i]);
    kept.push_back(gone ? 1 : from[i]);
  }
  ValueId result = value;
  if (!axes.empty()) {
    const auto set_axes = [&](WorkloadBuilder& b) { b.set_ints(Attr::kDimensions, axes); };
    if (combine == Opcode::k_add) {
      result = emit(Opcode::k_reduce, {value}, element, dropped, set_axes);
    } else {
      const double start = combine == Opcode::k_multiply ? 1 : 0;
      const ValueId initial = number(element, start);
      result = emit(Opcode::k_reduce, {value, initial}, element, dropped, [&](WorkloadBuilder& b) {
        set_axes(b);
        reduction_body(combine, element);
      });
    }
  }
  return keep ? reshape(result, kept) : result;
}

ValueId NodeContext::concatenate(std::span<const ValueId> values, int64_t axis) {
  if (values.empty()) fail("nothing to concatenate");
  if (values.size() == 1) return values[0];
  Dims dims = dims_of(values[0]);
  const auto at = static_cast<size_t>(axis);
  for (size_t i = 1; i < values.size(); ++i) {
    Dims other = dims_of(values[i]);
    if (other.size() != dims.size()) fail("tensors of different rank cannot be concatenated");
    const int64_t size = other[at];
    other[at] = dims[at];
    if (other != dims) fail("tensors concatenated differ beside the axis");
    dims[at] = add(dims[at], size);
  }
  return emit(Opcode::k_concatenate, values, type(element_of(values[0]), dims),
              [&](WorkloadBuilder& b) { b.set_ints(Attr::kDimensions, {axis}); });
}

ValueId NodeContext::slice(ValueId value, const Dims& start, const Dims& limit,
                           const Dims& stride) {
  Dims dims;
  for (size_t i = 0; i < start.size(); ++i)
    dims.push_back(limit[i] <= start[i] ? 0 : (limit[i] - start[i] - 1) / stride[i] + 1);
  if (dims == dims_of(value)) return value;
  return emit(Opcode::k_slice, {value}, element_of(value), dims, [&](WorkloadBuilder& b) {
    b.set_ints(Attr::kStart, start);
    b.set_ints(Attr::kLimit, limit);
    b.set_ints(Attr::kStride, stride);
  });
}

Dims NodeContext::dims_of(ValueId value) { return builder().type_of(value).dims; }
ElementType NodeContext::element_of(ValueId value) { return builder().type_of(value).element; }

// --- outputs ----------------------------------------------------------------

bool NodeContext::has_output(size_t i) const {
  return i < node_.outputs.size() && !node_.outputs[i].empty();
}

void NodeContext::set(size_t i, ValueId id) {
  if (!has_output(i)) return;
  Value value;
  value.id = id;
  value.element = element_of(id);
  value.dims = dims_of(id);
  set(i, std::move(value));
}

void NodeContext::set(size_t i, Value value) {
  if (has_output(i)) translator_.define(scope_, node_.outputs[i], std::move(value), node_.offset);
}

bool NodeContext::set_constant(size_t i, Constant constant) {
  if (!has_output(i)) return true;
  if (static_cast<int64_t>(constant.size()) > kMaxConstantElements ||
      !translator_.take_fold_budget(constant.size()))
    return false;
  Value value;
  value.element = constant.element;
  value.dims = constant.dims;
  value.constant = std::make_shared<Constant>(std::move(constant));
  set(i, std::move(value));
  return true;
}

Dims NodeContext::data_dependent(size_t i, const std::vector<std::optional<int64_t>>& dims) const {
  const std::string_view output = has_output(i) ? node_.outputs[i] : std::string_view("?");
  const TypeInfo* declared = scope_.find_declared(output);
  const auto& bindings = translator_.options().bindings;
  Dims result;
  for (size_t d = 0; d < dims.size(); ++d) {
    std::optional<int64_t> size = dims[d];
    if (!size && declared != nullptr && declared->dims.size() == dims.size())
      size = translator_.bound(declared->dims[d]);
    const std::string name = fmt::format("{}.{}", output, d);
    translator_.note_open_size(name);
    translator_.note_open_size("?");
    for (const std::string& key : {name, std::string("?")})
      if (const auto found = bindings.find(key); !size && found != bindings.end())
        size = found->second;
    if (!size)
      fail(
          fmt::format("dimension {} of its result '{}' depends on data; give its size with "
                      "--bind {}=VALUE",
                      d, output, name));
    result.push_back(*size);
  }
  return result;
}

std::optional<Dims> NodeContext::declared_dims(size_t i) const {
  const TypeInfo* declared = has_output(i) ? scope_.find_declared(node_.outputs[i]) : nullptr;
  if (declared == nullptr || !declared->has_shape) return std::nullopt;
  Dims dims;
  for (const Dimension& dimension : declared->dims) {
    const auto size = translator_.bound(dimension);
    if (!size) return std::nullopt;
    dims.push_back(*size);
  }
  return dims;
}

// --- the table --------------------------------------------------------------

const OperatorRule* find_rule(std::string_view domain, std::string_view name) {
  using Table = std::unordered_map<std::string_view, const OperatorRule*>;
  static const Table kStandard = [] {
    Table table;
    const std::array families = {elementwise_rules(),   shape_rules(),      indexing_rules(),
                                 contraction_rules(),   window_rules(),     reduction_rules(),
                                 normalization_rules(), attention_rules(),  recurrent_rules(),
                                 quantization_rules(),  generation_rules(), signal_rules(),
                                 sequence_rules(),      control_rules()};
    for (const auto family : families)
      for (const OperatorRule& rule : family) table.emplace(rule.name, &rule);
    return table;
  }();
  static const Table kContrib = [] {
    Table table;
    for (const OperatorRule& rule : contrib_rules()) table.emplace(rule.name, &rule);
    return table;
  }();
  if (!domain.empty() && domain != "com.microsoft") return nullptr;
  const Table& table = domain.empty() ? kStandard : kContrib;
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace orrery::onnx
