#include "orrery/workload/zoo/tape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>

namespace orrery {
namespace {

// Main's arguments are one a weight a layer; this is some ten times the
// largest model known, and bounds what a description's layer count can ask for.
constexpr size_t kMostArguments = 250'000;

Role role(Tape::ArgumentKind kind) {
  switch (kind) {
    case Tape::ArgumentKind::kInput:
      return Role::kInput;
    case Tape::ArgumentKind::kParameter:
    case Tape::ArgumentKind::kScale:
      return Role::kParameter;
    case Tape::ArgumentKind::kBuffer:
      return Role::kBuffer;
    case Tape::ArgumentKind::kCache:
      return Role::kCache;
    case Tape::ArgumentKind::kOptimizerState:
      return Role::kOptimizerState;
  }
  return Role::kUnknown;
}

}  // namespace

std::string describe(const TensorType& type) {
  return fmt::format("{}[{}]", mlir_name(type.element), fmt::join(type.dims, ","));
}

const Tape::Attribute* Tape::Node::find(Attr key) const {
  for (const Attribute& a : attributes)
    if (a.key == key) return &a;
  return nullptr;
}

int64_t Tape::Node::integer(Attr key, int64_t otherwise) const {
  const Attribute* a = find(key);
  const auto* value = a == nullptr ? nullptr : std::get_if<int64_t>(&a->value);
  return value == nullptr ? otherwise : *value;
}

const Dims& Tape::Node::list(Attr key) const {
  static const Dims none;
  const Attribute* a = find(key);
  const auto* value = a == nullptr ? nullptr : std::get_if<Dims>(&a->value);
  return value == nullptr ? none : *value;
}

Tensor Tape::add_argument(ArgumentKind kind, std::string name, TensorType type) {
  if (arguments_.size() >= kMostArguments)
    throw_usage(fmt::format("the model has more than {} weights and inputs", kMostArguments));
  const auto value = static_cast<uint32_t>(values_.size());
  values_.push_back({std::move(type), kNone, static_cast<uint32_t>(arguments_.size())});
  arguments_.push_back({kind, std::move(name), value, kNone});
  return tensor(value);
}

Tensors Tape::record(Node node, const std::vector<TensorType>& results) {
  Tensors made;
  for (uint32_t i = 0; i < results.size(); ++i) {
    const auto value = static_cast<uint32_t>(values_.size());
    values_.push_back({results[i], static_cast<uint32_t>(nodes_.size()), i});
    node.results.push_back(value);
    made.push_back(tensor(value));
  }
  nodes_.push_back(std::move(node));
  return made;
}

void Tape::add_output(std::string name, const Tensor& value) {
  outputs_.push_back(index(value));
  output_names_.push_back(std::move(name));
}

void Tape::set_update(uint32_t argument, const Tensor& value) {
  Argument& a = arguments_[argument];
  const uint32_t update = index(value);
  if (a.update != kNone) throw_internal(fmt::format("'{}' is updated twice", a.name));
  if (type(update) != type(a.value))
    throw_internal(fmt::format("'{}' of type {} is updated by a value of type {}", a.name,
                               describe(type(a.value)), describe(type(update))));
  a.update = update;
}

Tensor Tape::tensor(uint32_t value) {
  Tensor t;
  t.tape_ = this;
  t.value_ = value;
  t.element_ = values_[value].type.element;
  t.dims_ = values_[value].type.dims;
  return t;
}

uint32_t Tape::index(const Tensor& tensor) const {
  if (!tensor.valid()) throw_internal("an operation was given no tensor");
  if (tensor.tape_ != this)
    throw_internal(fmt::format("a tensor of '{}' is used in '{}': pass it as an input of the layer",
                               tensor.tape_->name(), name_));
  return tensor.value_;
}

uint32_t Tape::keep(uint32_t value) {
  size_t fixed = outputs_.size();
  for (const Argument& a : arguments_) fixed += a.update != kNone ? 1 : 0;
  const auto output = std::ranges::find(outputs_, value);
  if (output != outputs_.end()) return static_cast<uint32_t>(output - outputs_.begin());
  auto at = std::ranges::find(kept_, value);
  if (at == kept_.end()) at = kept_.insert(kept_.end(), value);
  return static_cast<uint32_t>(fixed + static_cast<size_t>(at - kept_.begin()));
}

Tensor Tape::call_result(uint32_t call, uint32_t position) {
  const std::vector<uint32_t> returned = nodes_[call].callee->returned();
  for (auto i = static_cast<uint32_t>(nodes_[call].results.size()); i < returned.size(); ++i) {
    nodes_[call].results.push_back(static_cast<uint32_t>(values_.size()));
    values_.push_back({nodes_[call].callee->type(returned[i]), call, i});
  }
  return tensor(nodes_[call].results.at(position));
}

std::vector<uint32_t> Tape::returned() const {
  std::vector<uint32_t> values = outputs_;
  for (const Argument& a : arguments_)
    if (a.update != kNone) values.push_back(a.update);
  values.insert(values.end(), kept_.begin(), kept_.end());
  return values;
}

std::vector<uint32_t> Tape::update_positions() const {
  std::vector<uint32_t> positions(arguments_.size(), kNone);
  auto next = static_cast<uint32_t>(outputs_.size());
  for (size_t i = 0; i < arguments_.size(); ++i)
    if (arguments_[i].update != kNone) positions[i] = next++;
  return positions;
}

// --- emission -----------------------------------------------------------------

class Emitter {
 public:
  explicit Emitter(WorkloadBuilder& builder) : builder_(builder) {}

  FunctionId function(const Tape& tape, bool is_entry) {
    if (const auto found = functions_.find(&tape); found != functions_.end()) return found->second;
    for (const Tape::Node& node : tape.nodes_)
      if (node.callee != nullptr) function(*node.callee, false);

    const FunctionId id = builder_.declare_function(tape.name_);
    if (builder_.has_body(id))
      throw_internal(fmt::format("two functions are called '{}'", tape.name_));
    functions_.emplace(&tape, id);
    builder_.begin_function(id, is_entry);
    const std::vector<uint32_t> updates = tape.update_positions();
    std::vector<ValueId> values(tape.values_.size());
    for (uint32_t i = 0; i < tape.arguments_.size(); ++i) {
      const Tape::Argument& a = tape.arguments_[i];
      ArgumentInfo info;
      info.name = builder_.intern(a.name);
      if (is_entry) {
        info.role = role(a.kind);
        info.donated = updates[i] != Tape::kNone;
        info.aliased_output = info.donated ? static_cast<int32_t>(updates[i]) : -1;
      }
      values[a.value] = builder_.add_argument(type(tape.type(a.value)), info);
    }
    for (const Tape::Node& node : tape.nodes_) emit(tape, node, values);

    std::vector<ValueId> returned;
    for (uint32_t value : tape.returned()) returned.push_back(values[value]);
    builder_.emit_return(returned);
    if (is_entry) {
      std::vector<ResultInfo> infos(returned.size());
      for (size_t i = 0; i < tape.output_names_.size(); ++i)
        infos[i].name = builder_.intern(tape.output_names_[i]);
      for (uint32_t i = 0; i < tape.arguments_.size(); ++i)
        if (updates[i] != Tape::kNone)
          infos[updates[i]].name = builder_.intern(tape.arguments_[i].name);
      builder_.set_result_infos(std::move(infos));
    }
    builder_.end_function();
    return id;
  }

 private:
  TypeId type(const TensorType& t) {
    return builder_.tensor_type(t.element, t.dims, t.minor_to_major);
  }

  void emit(const Tape& tape, const Tape::Node& node, std::vector<ValueId>& values) {
    std::vector<ValueId> operands;
    operands.reserve(node.operands.size());
    for (uint32_t operand : node.operands) operands.push_back(values[operand]);

    std::vector<TypeId> types;
    if (node.callee != nullptr) {
      for (uint32_t value : node.callee->returned())
        types.push_back(type(node.callee->type(value)));
    } else {
      for (uint32_t value : node.results) types.push_back(type(tape.type(value)));
    }
    const OpId op = builder_.begin_op(node.code, operands, static_cast<uint32_t>(types.size()));
    if (node.callee != nullptr) builder_.set_function(Attr::kCallee, functions_.at(node.callee));
    for (const Tape::Attribute& a : node.attributes) attribute(a);
    if (!node.scope.empty()) builder_.set_string(Attr::kScope, node.scope);
    region(tape, node);
    builder_.set_result_types(types);
    builder_.end_op();
    for (uint32_t i = 0; i < node.results.size(); ++i)
      values[node.results[i]] = builder_.result(op, i);
  }

  void attribute(const Tape::Attribute& a) {
    if (const auto* integer = std::get_if<int64_t>(&a.value))
      builder_.set_int(a.key, *integer);
    else if (const auto* real = std::get_if<double>(&a.value))
      builder_.set_real(a.key, *real);
    else if (const auto* list = std::get_if<Dims>(&a.value))
      builder_.set_ints(a.key, *list);
    else
      builder_.set_string(a.key, std::get<std::string>(a.value));
  }

  void binary_region(Opcode code, ElementType element, std::string_view direction = {}) {
    builder_.begin_region();
    const TypeId scalar = builder_.tensor_type(element, {});
    const ValueId a = builder_.add_region_argument(scalar);
    const ValueId b = builder_.add_region_argument(scalar);
    region_result(code, a, b, element, direction);
  }

  void region_result(Opcode code, ValueId a, ValueId b, ElementType element,
                     std::string_view direction) {
    const ValueId operands[] = {a, b};
    const OpId op = builder_.begin_op(code, operands, 1);
    if (!direction.empty()) builder_.set_string(Attr::kCompare, direction);
    builder_.set_result_type(
        0, builder_.tensor_type(code == Opcode::k_compare ? ElementType::kBool : element, {}));
    builder_.end_op();
    const ValueId results[] = {builder_.result(op)};
    builder_.emit_return(results);
    builder_.end_region();
  }

  void region(const Tape& tape, const Tape::Node& node) {
    const ElementType element =
        node.operands.empty() ? ElementType::kNone : tape.type(node.operands[0]).element;
    switch (node.region) {
      case Tape::Region::kNone:
        return;
      case Tape::Region::kAdd:
        binary_region(Opcode::k_add, element);
        return;
      case Tape::Region::kMaximum:
        binary_region(Opcode::k_maximum, element);
        return;
      case Tape::Region::kSelectGreaterAndAdd:
        binary_region(Opcode::k_compare, element, "GE");
        binary_region(Opcode::k_add, element);
        return;
      case Tape::Region::kLess: {
        builder_.begin_region();
        std::vector<ValueId> arguments;
        for (uint32_t operand : node.operands)
          for (int side = 0; side < 2; ++side)
            arguments.push_back(
                builder_.add_region_argument(builder_.tensor_type(tape.type(operand).element, {})));
        region_result(Opcode::k_compare, arguments[0], arguments[1], element, "LT");
        return;
      }
    }
  }

  WorkloadBuilder& builder_;
  std::unordered_map<const Tape*, FunctionId> functions_;
};

void emit_tapes(WorkloadBuilder& builder, const Tape& main) {
  Emitter emitter(builder);
  builder.set_entry(emitter.function(main, true));
}

}  // namespace orrery
