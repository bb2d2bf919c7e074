#include "orrery/workload/readers/onnx/translator.h"

#include <algorithm>

#include "orrery/base/nearest.h"
#include "orrery/base/protobuf_wire.h"
#include "orrery/workload/readers/onnx/roles.h"

namespace orrery::onnx {
namespace {

// Function bodies are inlined at every call: this bounds what nested calls can
// multiply to. The largest exported graphs have some ten thousand nodes.
constexpr size_t kMaxTranslatedNodes = 250'000;
constexpr int kMaxScopeDepth = 64;
// 32 MB of folded numbers; a real model folds a few kB.
constexpr size_t kMaxFoldedElements = size_t{1} << 22;
// Integer initializers up to this size are shapes, axes and indices, kept in the
// program (Attr::kValue holds as many); larger ones are tables a caller loads.
constexpr int64_t kMaxInlineElements = 64;

/// Whether an initializer is a number of the program and no weight.
bool is_inline(const Tensor& tensor, const Constant& constant) {
  if (constant.size() <= 1) return true;
  const bool shape_type = tensor.element == ElementType::kS64 ||
                          tensor.element == ElementType::kS32 ||
                          tensor.element == ElementType::kBool;
  return shape_type && static_cast<int64_t>(constant.size()) <= kMaxInlineElements;
}

using Names = std::unordered_set<std::string_view>;

void collect_uses(const std::vector<Node>& nodes, Names& uses);

void collect_uses(const Graph& graph, Names& uses) {
  collect_uses(graph.nodes, uses);
  for (const ValueInfo& output : graph.outputs) uses.insert(output.name);
}

void collect_uses(const std::vector<Node>& nodes, Names& uses) {
  for (const Node& node : nodes) {
    uses.insert(node.inputs.begin(), node.inputs.end());
    for (const NodeAttribute& attribute : node.attributes)
      if (attribute.graph) collect_uses(*attribute.graph, uses);
  }
}

std::string describe(const TypeInfo& type) {
  std::string text;
  for (const Dimension& dim : type.dims) {
    text += text.empty() ? "" : "x";
    text += dim.value ? std::to_string(*dim.value)
                      : (dim.parameter.empty() ? "?" : std::string(dim.parameter));
  }
  return "[" + text + "]";
}

}  // namespace

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent)
    if (const auto found = scope->values.find(name); found != scope->values.end())
      return &found->second;
  return nullptr;
}

const TypeInfo* Scope::find_declared(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent)
    if (const auto found = scope->declared.find(name); found != scope->declared.end())
      return found->second;
  return nullptr;
}

Translator::Translator(const Source& source, const ReadOptions& options, const Model& model)
    : source_(source),
      options_(options),
      model_(model),
      builder_("onnx", model.graph.name.empty() ? source.name() : std::string(model.graph.name)) {
  Functions functions;
  Names uses;
  collect_uses(model.graph, uses);
  for (const FunctionDefinition& function : model.functions) {
    const auto key = std::tuple(function.domain, function.name, function.overload);
    if (!functions.emplace(key, &function).second)
      fail_at_byte(source_, function.offset,
                   fmt::format("function '{}' is defined twice", function.name));
    collect_uses(function.nodes, uses);
  }
  functions_ = std::make_shared<const Functions>(std::move(functions));
  uses_ = std::make_shared<const Names>(std::move(uses));
}

Translator::Translator(const Translator& other)
    : source_(other.source_),
      options_(other.options_),
      model_(other.model_),
      builder_("onnx", ""),
      functions_(other.functions_),
      uses_(other.uses_),
      call_stack_(other.call_stack_),
      folded_elements_(other.folded_elements_),
      translated_nodes_(other.translated_nodes_) {}

Workload Translator::run() {
  const Graph& graph = model_.graph;
  if (model_.training_infos > 0)
    builder_.add_note("the model's training graphs (training_info) are not read");

  builder_.begin_function(builder_.declare_function("main"));
  Scope scope;
  scope.opsets = &model_.opsets;
  declare(scope, graph.values);
  declare(scope, graph.outputs);

  std::unordered_map<std::string_view, const Tensor*> initializers;
  for (const Tensor& tensor : graph.initializers) initializers[tensor.name] = &tensor;
  const auto roles = input_roles(graph);
  for (const ValueInfo& input : graph.inputs)
    if (!initializers.contains(input.name)) add_input(input, roles.at(input.name), scope);
  add_parameters(graph);
  for (const FunctionDefinition& function : model_.functions) add_parameters(function.nodes);
  if (unused_initializers_ > 0)
    builder_.add_note(
        fmt::format("initializers that no node uses, left out: {}", unused_initializers_));

  const std::vector<Value> outputs = translate_graph(graph, scope);
  std::vector<ValueId> values;
  std::vector<ResultInfo> infos;
  // Any node gives a context for what a folded output needs.
  Node end;
  end.offset = graph.offset;
  end.name = end.op_type = "outputs";
  NodeContext context(*this, scope, end, 0);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto add = [&](const Value& tensor) {
      values.push_back(context.operand(tensor));
      infos.push_back({builder_.intern(graph.outputs[i].name), {}});
    };
    if (outputs[i].kind == Value::Kind::kTensor)
      add(outputs[i]);
    else
      for (const Value& item : outputs[i].items) add(item);
  }
  builder_.emit_return(values);
  builder_.set_result_infos(std::move(infos));
  builder_.end_function();
  for (const auto& [name, size] : options_.bindings)
    if (!known_sizes_.contains(name))
      throw_usage(fmt::format("--bind {}: the model has no open size of that name{}", name,
                              suggestion(name, {known_sizes_.begin(), known_sizes_.end()})));
  return builder_.finish(source_, options_.trip_count);
}

void Translator::declare(Scope& scope, const std::vector<ValueInfo>& infos) {
  for (const ValueInfo& info : infos)
    if (info.type.kind != TypeInfo::Kind::kAbsent) scope.declared[info.name] = &info.type;
}

std::optional<int64_t> Translator::bound(const Dimension& dimension) const {
  if (dimension.value) return dimension.value;
  const std::string name(dimension.parameter.empty() ? std::string_view("?") : dimension.parameter);
  known_sizes_.insert(name);
  const auto found = options_.bindings.find(name);
  if (found == options_.bindings.end() || found->second < 0) return std::nullopt;
  return found->second;
}

Dims Translator::input_dims(const ValueInfo& input) const {
  if (input.type.kind != TypeInfo::Kind::kTensor || input.type.element == ElementType::kNone)
    fail_at_byte(source_, input.offset,
                 fmt::format("input '{}' is not a tensor of a known type", input.name));
  if (!input.type.has_shape)
    fail_at_byte(source_, input.offset,
                 fmt::format("input '{}' has no shape, not even its rank", input.name));
  Dims dims;
  for (size_t i = 0; i < input.type.dims.size(); ++i) {
    const Dimension& dim = input.type.dims[i];
    const auto size = bound(dim);
    if (!size) {
      const std::string name(dim.parameter.empty() ? std::string_view("?") : dim.parameter);
      fail_at_byte(
          source_, input.offset,
          fmt::format("dimension {} of input '{}' is open{}; give its size with "
                      "--bind {}=VALUE",
                      i, input.name,
                      dim.parameter.empty() ? " and unnamed" : fmt::format(" ('{}')", name),
                      dim.parameter.empty() ? "'?'" : name));
    }
    dims.push_back(*size);
  }
  return dims;
}

void Translator::add_input(const ValueInfo& input, Role role, Scope& scope) {
  Value value;
  value.dims = input_dims(input);
  value.element = input.type.element;
  ArgumentInfo info;
  info.name = builder_.intern(input.name);
  info.role = role;
  try {
    value.id = builder_.add_argument(builder_.tensor_type(value.element, value.dims), info);
  } catch (const std::invalid_argument& e) {
    fail_at_byte(source_, input.offset, fmt::format("input '{}': {}", input.name, e.what()));
  }
  define(scope, input.name, std::move(value), input.offset);
}

// Arguments come before operations, so the weights of control flow's bodies are
// collected with the outer ones.
void Translator::add_parameters(const Graph& graph) {
  for (const Tensor& tensor : graph.initializers) {
    if (!is_used(tensor.name)) {
      ++unused_initializers_;
      continue;
    }
    const auto constant = decode(source_, tensor);
    if (constant && is_inline(tensor, *constant)) continue;
    ArgumentInfo info;
    info.name = builder_.intern(tensor.name);
    info.role = Role::kParameter;
    if (tensor.sparse)
      builder_.add_note(fmt::format("sparse initializer '{}' is counted as dense", tensor.name));
    parameters_[&tensor] =
        builder_.add_argument(builder_.tensor_type(tensor.element, tensor.dims), info);
  }
  add_parameters(graph.nodes);
}

void Translator::add_parameters(const std::vector<Node>& nodes) {
  for (const Node& node : nodes)
    for (const NodeAttribute& attribute : node.attributes)
      if (attribute.graph) add_parameters(*attribute.graph);
}

Value Translator::as_argument(const Value& value) {
  Value copy = value;
  if (value.kind == Value::Kind::kTensor) {
    copy.id = {};
    if (!value.constant)
      copy.id = builder_.add_argument(builder_.tensor_type(value.element, value.dims), {});
  }
  for (Value& item : copy.items) item = as_argument(item);
  return copy;
}

std::vector<Value> Translator::probe(NodeContext& context, const Graph& body,
                                     const std::vector<Value>& arguments,
                                     const ProbeVisitor& visit) {
  Translator scratch(*this);
  scratch.builder_.begin_function(scratch.builder_.declare_function("probe"));
  Scope scope;
  scope.depth = context.scope().depth + 1;
  for (const Scope* s = &context.scope(); s != nullptr; s = s->parent) {
    if (scope.opsets == nullptr) scope.opsets = s->opsets;
    if (scope.attributes == nullptr) scope.attributes = s->attributes;
  }
  Names captured;
  collect_uses(body, captured);
  for (const ValueInfo& input : body.inputs) captured.erase(input.name);
  if (body.inputs.size() != arguments.size())
    context.fail(fmt::format("the body takes {} inputs where {} are given", body.inputs.size(),
                             arguments.size()));
  Scope outer = scope;
  for (std::string_view name : captured)
    if (const Value* value = context.scope().find(name))
      outer.values[name] = scratch.as_argument(*value);
  scope.parent = &outer;
  ValueId second;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Value value = scratch.as_argument(arguments[i]);
    if (i == 1) second = value.id;
    scratch.define(scope, body.inputs[i].name, value, body.inputs[i].offset);
  }
  scratch.add_parameters(body);
  std::vector<Value> results = scratch.translate_graph(body, scope);
  NodeContext inside(scratch, scope, context.node(), context.version());
  if (visit) visit(inside, results, second);
  translated_nodes_ = scratch.translated_nodes_;
  folded_elements_ = scratch.folded_elements_;
  for (Value& value : results) {
    value.id = {};
    value.constant = nullptr;
  }
  return results;
}

void Translator::define_initializers(const Graph& graph, Scope& scope) {
  for (const Tensor& tensor : graph.initializers) {
    if (!is_used(tensor.name)) continue;
    Value value;
    value.element = tensor.element;
    value.dims = tensor.dims;
    if (const auto found = parameters_.find(&tensor); found != parameters_.end())
      value.id = found->second;
    if (auto constant = decode(source_, tensor))
      value.constant = std::make_shared<Constant>(std::move(*constant));
    if (!value.id.valid() && !value.constant)
      fail_at_byte(
          source_, tensor.offset,
          fmt::format("initializer '{}' in a function's subgraph is not supported", tensor.name));
    define(scope, tensor.name, std::move(value), tensor.offset);
  }
}

std::vector<Value> Translator::translate_graph(const Graph& graph, Scope& scope) {
  declare(scope, graph.values);
  define_initializers(graph, scope);
  translate_nodes(graph.nodes, scope);
  std::vector<Value> outputs;
  for (const ValueInfo& output : graph.outputs) {
    const Value* value = scope.find(output.name);
    if (value == nullptr)
      fail_at_byte(source_, output.offset,
                   fmt::format("output '{}' is defined by no node", output.name));
    outputs.push_back(*value);
  }
  return outputs;
}

void Translator::translate_nodes(const std::vector<Node>& nodes, Scope& scope) {
  if (scope.depth > kMaxScopeDepth)
    fail_at_byte(source_, nodes.empty() ? 0 : nodes[0].offset,
                 fmt::format("functions and subgraphs nested more than {} deep", kMaxScopeDepth));
  for (const Node& node : nodes) translate_node(node, scope);
}

void Translator::define(Scope& scope, std::string_view name, Value value, size_t offset) {
  if (!scope.values.emplace(name, std::move(value)).second)
    fail_at_byte(source_, offset, fmt::format("'{}' is defined twice", name));
}

bool Translator::take_fold_budget(size_t elements) {
  if (folded_elements_ + elements > kMaxFoldedElements) return false;
  folded_elements_ += elements;
  return true;
}

int64_t Translator::version_of(std::string_view domain, const Scope& scope) const {
  for (const Scope* s = &scope; s != nullptr; s = s->parent) {
    if (s->opsets == nullptr) continue;
    const auto found = s->opsets->find(domain);
    if (found != s->opsets->end()) return found->second;
  }
  // Functions may leave the import to the model.
  const auto found = model_.opsets.find(domain);
  return found == model_.opsets.end() ? 1 : found->second;
}

void Translator::translate_node(const Node& node, Scope& scope) {
  if (++translated_nodes_ > kMaxTranslatedNodes)
    fail_at_byte(source_, node.offset,
                 fmt::format("more than {} nodes with functions inlined", kMaxTranslatedNodes));
  NodeContext context(*this, scope, node, version_of(node.domain, scope));
  for (std::string_view name : node.inputs)
    if (!name.empty() && scope.find(name) == nullptr)
      context.fail(
          fmt::format("its input '{}' is not defined before it (nodes must stand in "
                      "order and form no cycle)",
                      name));

  const OperatorRule* rule = find_rule(node.domain, node.op_type);
  const auto function = functions_->find(std::tuple(node.domain, node.op_type, node.overload));
  // A standard operator keeps its rule even where the file brings its definition.
  if (function != functions_->end() && (rule == nullptr || !node.domain.empty())) {
    call_function(node, *function->second, scope);
    return;
  }
  if (rule == nullptr) {
    translate_unknown(context);
  } else {
    const bool known = rule->fold != nullptr && !node.inputs.empty() && !node.inputs[0].empty() &&
                       std::all_of(node.inputs.begin(), node.inputs.end(), [&](auto name) {
                         return name.empty() || scope.find(name)->constant != nullptr;
                       });
    if (!known || !rule->fold(context)) rule->translate(context);
  }
  for (std::string_view name : node.outputs) {
    if (name.empty()) continue;
    if (!scope.values.contains(name))
      context.fail(fmt::format("output '{}' is not one that {} has", name, node.op_type));
    check_declared(name, scope);
  }
}

void Translator::call_function(const Node& node, const FunctionDefinition& function, Scope& scope) {
  NodeContext context(*this, scope, node, 1);
  if (std::find(call_stack_.begin(), call_stack_.end(), &function) != call_stack_.end())
    context.fail(fmt::format("function '{}' calls itself", function.name));
  if (node.inputs.size() > function.inputs.size() || node.outputs.size() > function.outputs.size())
    context.fail(
        fmt::format("function '{}' has fewer inputs or outputs than this call", function.name));
  std::map<std::string_view, const NodeAttribute*> attributes;
  for (const NodeAttribute& attribute : function.defaults) attributes[attribute.name] = &attribute;
  for (const NodeAttribute& attribute : node.attributes) {
    const NodeAttribute* given = context.find(attribute.name);
    if (given != nullptr) attributes[attribute.name] = given;
  }
  Scope inner;
  inner.opsets = &function.opsets;
  inner.attributes = &attributes;
  inner.depth = scope.depth + 1;
  declare(inner, function.values);
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    Value absent;
    absent.kind = Value::Kind::kOptional;
    const bool given = i < node.inputs.size() && !node.inputs[i].empty();
    define(inner, function.inputs[i], given ? *scope.find(node.inputs[i]) : absent,
           function.offset);
  }
  call_stack_.push_back(&function);
  translate_nodes(function.nodes, inner);
  call_stack_.pop_back();
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    const Value* value = inner.find(function.outputs[i]);
    if (value == nullptr)
      context.fail(fmt::format("function '{}' does not define its output '{}'", function.name,
                               function.outputs[i]));
    define(scope, node.outputs[i], *value, node.offset);
  }
}

void Translator::translate_unknown(NodeContext& context) {
  const Node& node = context.node();
  const std::string full =
      fmt::format("{}.{}", node.domain.empty() ? "ai.onnx" : node.domain, node.op_type);
  std::vector<TypeId> types;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    const TypeInfo* declared = context.scope().find_declared(node.outputs[i]);
    if (declared == nullptr || declared->kind != TypeInfo::Kind::kTensor || !declared->has_shape ||
        declared->element == ElementType::kNone)
      context.fail(fmt::format(
          "operator {} is not known here, and the file does not declare the type and shape of its "
          "output '{}' (value_info)",
          full, node.outputs[i]));
    std::vector<std::optional<int64_t>> open(declared->dims.size());
    types.push_back(context.type(declared->element, context.data_dependent(i, open)));
  }
  std::vector<ValueId> operands;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (context.has_input(i) && context.value(i).kind == Value::Kind::kTensor)
      operands.push_back(context.operand(i));
  context.note(fmt::format("operator {} is not known: its cost is not counted", full));
  const auto results =
      context.emit_many(Opcode::k_unknown, operands, types,
                        [&](WorkloadBuilder& b) { b.set_string(Attr::kTarget, full); });
  size_t next = 0;
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (context.has_output(i)) context.set(i, results[next++]);
}

void Translator::check_declared(std::string_view name, const Scope& scope) {
  // Told once a few times; a file that is wrong everywhere is told often enough.
  constexpr int kMaxTold = 8;
  const auto declared = scope.declared.find(name);
  if (declared == scope.declared.end() || contradictions_ == kMaxTold) return;
  const TypeInfo& type = *declared->second;
  const Value& value = scope.values.at(name);
  if (type.kind != TypeInfo::Kind::kTensor || !type.has_shape || value.kind != Value::Kind::kTensor)
    return;
  bool agrees = value.dims.size() == type.dims.size() &&
                (type.element == ElementType::kNone || type.element == value.element);
  for (size_t d = 0; agrees && d < value.dims.size(); ++d) {
    const auto size = bound(type.dims[d]);
    agrees = !size || *size == value.dims[d];
  }
  if (agrees) return;
  ++contradictions_;
  builder_.add_note(fmt::format("'{}' is declared {} {} but comes out as {} [{}]", name,
                                mlir_name(type.element), describe(type), mlir_name(value.element),
                                fmt::join(value.dims, "x")));
}

}  // namespace orrery::onnx
