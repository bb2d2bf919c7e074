// If, Loop, Scan and SequenceMap: subgraphs as regions.
#include <algorithm>

#include "orrery/workload/readers/onnx/loop.h"
#include "orrery/workload/readers/onnx/translator.h"

namespace orrery::onnx {
namespace {

Scope inner_scope(NodeContext& c) {
  Scope scope;
  scope.parent = &c.scope();
  scope.depth = c.scope().depth + 1;
  return scope;
}

Value tensor_value(NodeContext& c, ValueId id) {
  Value value;
  value.id = id;
  value.element = c.element_of(id);
  value.dims = c.dims_of(id);
  return value;
}

void expect_tensors(NodeContext& c, const std::vector<Value>& values) {
  for (const Value& value : values)
    if (value.kind != Value::Kind::kTensor)
      c.fail("a sequence or optional goes through a subgraph that is not inlined");
}

// --- If ---------------------------------------------------------------------

void run_inline(NodeContext& c, const Graph& graph) {
  Scope scope = inner_scope(c);
  const auto outputs = c.translator().translate_graph(graph, scope);
  for (size_t i = 0; i < outputs.size(); ++i) c.set(i, outputs[i]);
}

void conditional(NodeContext& c) {
  const Graph& then_graph = c.graph("then_branch");
  const Graph& else_graph = c.graph("else_branch");
  if (then_graph.outputs.size() != else_graph.outputs.size() ||
      c.output_count() > then_graph.outputs.size())
    c.fail("the branches do not have the outputs the node names");
  if (const auto known = c.known_real(0))
    return run_inline(c, *known != 0 ? then_graph : else_graph);

  WorkloadBuilder& b = c.builder();
  const ValueId predicate = c.operand(0);
  const auto count = static_cast<uint32_t>(then_graph.outputs.size());
  const OpId op = b.begin_op(Opcode::k_if, {{predicate}}, count, c.node().offset);
  c.set_scope();
  std::vector<std::vector<Value>> results;
  for (const Graph* graph : {&then_graph, &else_graph}) {
    b.begin_region();
    Scope scope = inner_scope(c);
    results.push_back(c.translator().translate_graph(*graph, scope));
    expect_tensors(c, results.back());
    std::vector<ValueId> values;
    for (Value& value : results.back()) values.push_back(value.id = c.operand(value));
    b.emit_return(values);
    b.end_region();
  }
  for (uint32_t i = 0; i < count; ++i) {
    const Value &yes = results[0][i], &no = results[1][i];
    if (yes.element != no.element || yes.dims.size() != no.dims.size())
      c.fail(fmt::format("output {} has another type or rank in each branch", i));
    Dims dims = yes.dims;
    for (size_t d = 0; d < dims.size(); ++d) dims[d] = std::max(dims[d], no.dims[d]);
    if (yes.dims != no.dims)
      c.note("the branches of an If give different shapes: the larger sizes are used after it");
    b.set_result_type(i, c.type(yes.element, dims));
  }
  b.end_op();
  for (uint32_t i = 0; i < count; ++i) c.set(i, b.result(op, i));
}

// --- Loop -------------------------------------------------------------------

/// Whether a loop's condition never turns false: a known true, or the condition
/// handed on as it came in.
bool stays_true(NodeContext& c, const Value& next, ValueId came_in) {
  if (next.constant) return next.constant->size() == 1 && next.constant->real(0) != 0;
  ValueId id = next.id;
  for (int steps = 0; id.valid() && steps < 16; ++steps) {
    if (id == came_in) return true;
    const OpId definition = c.builder().definition(id);
    if (!definition.valid() || c.builder().code(definition) != Opcode::k_identity) return false;
    const Workload& workload = c.builder().so_far();
    id = workload.operands(workload.op(definition))[0];
  }
  return false;
}

std::optional<int64_t> assumed_trip_count(NodeContext& c) {
  const int64_t assumed = c.translator().options().trip_count;
  if (assumed > 0) {
    c.note(fmt::format("a {} whose trip count depends on data is taken to run {} times",
                       c.node().op_type, assumed));
    return assumed;
  }
  return std::nullopt;
}

void bind_inputs(NodeContext& c, const Graph& body, Scope& scope, std::span<const Value> values) {
  if (body.inputs.size() != values.size())
    c.fail(fmt::format("the body takes {} inputs where {} are given", body.inputs.size(),
                       values.size()));
  for (size_t i = 0; i < values.size(); ++i)
    c.translator().define(scope, body.inputs[i].name, values[i], body.inputs[i].offset);
}

/// The values a body carries on, brought back to the types they came in with.
std::vector<ValueId> carried(NodeContext& c, std::span<const Value> next,
                             std::span<const ValueId> before) {
  std::vector<ValueId> values;
  for (size_t i = 0; i < next.size(); ++i) {
    ValueId id = c.operand(next[i]);
    if (c.builder().value_type(id) != c.builder().value_type(before[i])) {
      c.note("a value that a loop carries changes its shape: that of the first iteration is used");
      id = c.emit(Opcode::k_identity, {{id}}, c.builder().value_type(before[i]));
    }
    values.push_back(id);
  }
  return values;
}

void loop(NodeContext& c) {
  const Graph& body = c.graph("body");
  if (c.input_count() < 2)
    c.fail("a trip count and a condition are expected, if only by empty names");
  const size_t states = c.input_count() - 2;
  if (body.outputs.size() < states + 1 || c.output_count() > body.outputs.size() - 1)
    c.fail("the body does not have the outputs the node names");
  const size_t scans = body.outputs.size() - 1 - states;

  std::vector<ValueId> initial;
  initial.push_back(c.has_input(1) ? c.reshape(c.operand(1), {}) : c.number(ElementType::kBool, 1));
  for (size_t i = 0; i < states; ++i) initial.push_back(c.operand(i + 2));
  std::optional<int64_t> limit;
  if (const auto known = c.known_integers(0); known && known->size() == 1)
    limit = std::max<int64_t>(0, (*known)[0]);
  if (const auto first = c.known_real(1); first && *first == 0) limit = 0;
  const bool starts_true = !c.has_input(1) || c.known_real(1).value_or(0) != 0;

  // Whether the body ever ends the loop, and what it scans out, must be known
  // before it is emitted.
  std::vector<Value> arguments(2);
  arguments[0].element = ElementType::kS64;
  arguments[1].element = ElementType::kBool;
  for (size_t i = 0; i < states; ++i) {
    arguments.push_back(c.tensor(i + 2));
    arguments.back().constant = nullptr;
  }
  bool runs_on = false;
  const auto probed = c.translator().probe(
      c, body, arguments, [&](auto& probe, const auto& results, ValueId condition) {
        runs_on = stays_true(probe, results[0], condition);
      });
  std::optional<int64_t> trips;
  if (limit && ((starts_true && runs_on) || *limit == 0)) trips = limit;
  if (!trips) trips = assumed_trip_count(c);
  if (!trips && limit) {
    c.note("a Loop with a condition of its own is taken to run to its limit");
    trips = limit;
  }
  if (!trips) c.note("a Loop's trip count depends on data");

  for (size_t i = 0; i < scans; ++i) {
    const Value& element = probed[1 + states + i];
    if (element.kind != Value::Kind::kTensor) c.fail("a sequence is scanned out of a Loop");
    std::vector<std::optional<int64_t>> open = {trips};
    open.insert(open.end(), element.dims.begin(), element.dims.end());
    initial.push_back(c.splat(element.element, c.data_dependent(states + i, open), 0));
  }

  const auto results =
      emit_loop(c, trips, initial, [&](ValueId iteration, std::span<const ValueId> values) {
        std::vector<Value> inputs = {tensor_value(c, iteration)};
        for (size_t i = 0; i <= states; ++i) inputs.push_back(tensor_value(c, values[i]));
        Scope scope = inner_scope(c);
        bind_inputs(c, body, scope, inputs);
        const auto outputs = c.translator().translate_graph(body, scope);
        expect_tensors(c, outputs);
        std::vector<ValueId> next =
            carried(c, std::span(outputs).subspan(0, states + 1), values.subspan(0, states + 1));
        for (size_t i = 0; i < scans; ++i)
          next.push_back(write_slice(c, values[1 + states + i], c.operand(outputs[1 + states + i]),
                                     iteration));
        return next;
      });
  for (size_t i = 0; i + 1 < results.size(); ++i) c.set(i, results[i + 1]);
}

// --- Scan -------------------------------------------------------------------

void scan(NodeContext& c) {
  if (c.version() < 9) c.fail("Scan of operator set 8 is not supported; convert to a later set");
  const Graph& body = c.graph("body");
  const int64_t scan_count = c.required_integer("num_scan_inputs");
  if (scan_count <= 0 || scan_count > static_cast<int64_t>(c.input_count()))
    c.fail("'num_scan_inputs' does not fit the inputs");
  const auto scans_in = static_cast<size_t>(scan_count);
  const size_t states = c.input_count() - scans_in;
  if (body.outputs.size() < states || c.output_count() > body.outputs.size())
    c.fail("the body does not have the outputs the node names");
  const size_t scans_out = body.outputs.size() - states;
  const Dims in_axes = c.integer_list("scan_input_axes").value_or(Dims(scans_in));
  const Dims out_axes = c.integer_list("scan_output_axes").value_or(Dims(scans_out));
  if (in_axes.size() != scans_in || out_axes.size() != scans_out)
    c.fail("one axis a scan is expected");

  std::vector<ValueId> initial, sources;
  std::vector<Value> arguments;
  for (size_t i = 0; i < states; ++i) {
    initial.push_back(c.operand(i));
    arguments.push_back(tensor_value(c, initial.back()));
  }
  std::optional<int64_t> trips;
  for (size_t i = 0; i < scans_in; ++i) {
    ValueId source = c.operand(states + i);
    const int64_t axis = c.axis(in_axes[i], c.dims_of(source).size());
    Dims permutation = {axis};
    for (size_t d = 0; d < c.dims_of(source).size(); ++d)
      if (static_cast<int64_t>(d) != axis) permutation.push_back(static_cast<int64_t>(d));
    source = c.transpose(source, permutation);
    const Dims dims = c.dims_of(source);
    if (trips && *trips != dims[0]) c.fail("scanned inputs differ in length");
    trips = dims[0];
    Value slice;
    slice.element = c.element_of(source);
    slice.dims.assign(dims.begin() + 1, dims.end());
    arguments.push_back(std::move(slice));
    sources.push_back(source);
  }
  const auto probed = c.translator().probe(c, body, arguments, nullptr);
  for (size_t i = 0; i < scans_out; ++i) {
    const Value& element = probed[states + i];
    if (element.kind != Value::Kind::kTensor) c.fail("a sequence is scanned out of a Scan");
    Dims dims = {*trips};
    dims.insert(dims.end(), element.dims.begin(), element.dims.end());
    initial.push_back(c.splat(element.element, dims, 0));
  }
  const auto results =
      emit_loop(c, trips, initial, [&](ValueId iteration, std::span<const ValueId> values) {
        std::vector<Value> inputs;
        for (size_t i = 0; i < states; ++i) inputs.push_back(tensor_value(c, values[i]));
        for (ValueId source : sources)
          inputs.push_back(tensor_value(c, read_slice(c, source, iteration)));
        Scope scope = inner_scope(c);
        bind_inputs(c, body, scope, inputs);
        const auto outputs = c.translator().translate_graph(body, scope);
        expect_tensors(c, outputs);
        auto next = carried(c, std::span(outputs).subspan(0, states), values.subspan(0, states));
        for (size_t i = 0; i < scans_out; ++i)
          next.push_back(
              write_slice(c, values[states + i], c.operand(outputs[states + i]), iteration));
        return next;
      });
  for (size_t i = 0; i < results.size(); ++i) {
    ValueId result = results[i];
    if (i >= states) {
      // Stacked along dimension 0; asked for along another.
      const size_t rank = c.dims_of(result).size();
      const auto axis = static_cast<size_t>(c.axis(out_axes[i - states], rank));
      Dims permutation;
      for (size_t d = 1; d < rank; ++d) permutation.push_back(static_cast<int64_t>(d));
      permutation.insert(permutation.begin() + static_cast<ptrdiff_t>(axis), 0);
      result = c.transpose(result, permutation);
    }
    c.set(i, result);
  }
}

/// One copy of the body an element: sequences are known while reading.
void sequence_map(NodeContext& c) {
  const Graph& body = c.graph("body");
  const Value& sequence = c.value(0);
  if (sequence.kind != Value::Kind::kSequence) c.fail("a sequence is expected");
  std::vector<Value> outputs(body.outputs.size());
  for (Value& output : outputs) output.kind = Value::Kind::kSequence;
  for (size_t k = 0; k < sequence.items.size(); ++k) {
    std::vector<Value> inputs = {sequence.items[k]};
    for (size_t i = 1; i < c.input_count(); ++i) {
      const Value& other = c.value(i);
      if (other.kind == Value::Kind::kSequence && k >= other.items.size())
        c.fail("sequences differ in length");
      inputs.push_back(other.kind == Value::Kind::kSequence ? other.items[k] : other);
    }
    Scope scope = inner_scope(c);
    bind_inputs(c, body, scope, inputs);
    const auto results = c.translator().translate_graph(body, scope);
    for (size_t i = 0; i < results.size(); ++i) outputs[i].items.push_back(results[i]);
  }
  for (size_t i = 0; i < outputs.size(); ++i) c.set(i, outputs[i]);
}

constexpr OperatorRule kRules[] = {
    {"If", conditional},
    {"Loop", loop},
    {"Scan", scan},
    {"SequenceMap", sequence_map},
};

}  // namespace

std::vector<ValueId> emit_loop(
    NodeContext& c, std::optional<int64_t> trip_count, std::span<const ValueId> initial,
    const std::function<std::vector<ValueId>(ValueId, std::span<const ValueId>)>& body) {
  WorkloadBuilder& b = c.builder();
  const TypeId counter = c.type(ElementType::kS64, {});
  std::vector<ValueId> operands = {c.number(ElementType::kS64, 0)};
  operands.insert(operands.end(), initial.begin(), initial.end());
  const auto count = static_cast<uint32_t>(operands.size());
  std::vector<TypeId> types;
  types.reserve(operands.size());
  for (ValueId v : operands) types.push_back(b.value_type(v));
  const OpId op = b.begin_op(Opcode::k_while, operands, count, c.node().offset);
  c.set_scope();
  if (trip_count) b.set_int(Attr::kTripCount, *trip_count);
  b.set_result_types(types);

  b.begin_region();
  std::vector<ValueId> arguments;
  arguments.reserve(types.size());
  for (TypeId type : types) arguments.push_back(b.add_region_argument(type));
  ValueId go_on;
  if (trip_count)
    go_on = c.compare("LT", arguments[0],
                      c.number(ElementType::kS64, static_cast<double>(*trip_count)));
  else
    go_on = arguments[1];
  b.emit_return({{go_on}});
  b.end_region();

  b.begin_region();
  arguments.clear();
  for (TypeId type : types) arguments.push_back(b.add_region_argument(type));
  const auto next = body(arguments[0], std::span(arguments).subspan(1));
  const ValueId one = c.number(ElementType::kS64, 1);
  std::vector<ValueId> returned = {c.emit(Opcode::k_add, {{arguments[0], one}}, counter)};
  returned.insert(returned.end(), next.begin(), next.end());
  b.emit_return(returned);
  b.end_region();
  b.end_op();
  std::vector<ValueId> results;
  for (uint32_t i = 1; i < count; ++i) results.push_back(b.result(op, i));
  return results;
}

ValueId read_slice(NodeContext& c, ValueId from, ValueId iteration) {
  Dims sizes = c.dims_of(from);
  sizes[0] = 1;
  std::vector<ValueId> operands = {from, iteration};
  for (size_t i = 1; i < sizes.size(); ++i) operands.push_back(c.number(ElementType::kS64, 0));
  const ElementType element = c.element_of(from);
  const ValueId slice = c.emit(Opcode::k_dynamic_slice, operands, c.type(element, sizes),
                               [&](WorkloadBuilder& b) { b.set_ints(Attr::kSliceSizes, sizes); });
  return c.reshape(slice, {sizes.begin() + 1, sizes.end()});
}

ValueId write_slice(NodeContext& c, ValueId buffer, ValueId value, ValueId iteration) {
  Dims dims = c.dims_of(value);
  dims.insert(dims.begin(), 1);
  std::vector<ValueId> operands = {buffer, c.reshape(value, dims), iteration};
  for (size_t i = 1; i < dims.size(); ++i) operands.push_back(c.number(ElementType::kS64, 0));
  return c.emit(Opcode::k_dynamic_update_slice, operands, c.builder().value_type(buffer),
                [&](WorkloadBuilder& b) { b.set_int(Attr::kInPlace, 1); });
}

std::span<const OperatorRule> control_rules() { return kRules; }

}  // namespace orrery::onnx
