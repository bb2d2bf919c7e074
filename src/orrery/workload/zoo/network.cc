#include "orrery/workload/zoo/network.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "orrery/base/error.h"
#include "orrery/workload/zoo/network_state.h"

// Arguments, structure, and the operations that are one node each; layers made
// of several are in layers.cc, experts in experts.cc, training in training.cc.

namespace orrery {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 48;  // As WorkloadBuilder::tensor_type.

int normalise(int dimension, int rank, std::string_view what) {
  const int d = dimension < 0 ? dimension + rank : dimension;
  if (d < 0 || d >= rank)
    throw_internal(fmt::format("{}: dimension {} of a tensor of rank {}", what, dimension, rank));
  return d;
}

size_t at(int64_t i) { return static_cast<size_t>(i); }

}  // namespace

int64_t Tensor::dim(int i) const { return dims_[at(normalise(i, rank(), "dim"))]; }

int64_t Tensor::elements() const {
  int64_t n = 1;
  for (int64_t d : dims_) n *= d;
  return n;
}

// --- state --------------------------------------------------------------------

std::string Network::State::scoped(std::string_view leaf) const {
  std::string name;
  for (const std::string& s : scopes) name += s + ".";
  return name + std::string(leaf);
}

Tape& Network::State::add_function(std::string function) {
  auto [at, added] = functions.emplace(function, std::make_unique<Tape>(function));
  if (!added) throw_internal(fmt::format("two functions are called '{}'", function));
  return *at->second;
}

Recording::Recording(Network::State& state, Tape& tape, std::vector<std::string> scopes)
    : state_(state), tape_(&tape), scopes_(std::move(scopes)) {
  std::swap(state_.current, tape_);
  state_.scopes.swap(scopes_);
}

Recording::~Recording() {
  std::swap(state_.current, tape_);
  state_.scopes.swap(scopes_);
}

Network::Network(std::string format, std::string name, NetworkOptions options)
    : state_(std::make_unique<State>(std::move(format), std::move(name), std::move(options))) {}
Network::~Network() = default;

const NetworkOptions& Network::options() const { return state_->options; }
void Network::add_note(std::string note) { state_->notes.push_back(std::move(note)); }

Network::Scope Network::scope(std::string_view name) {
  state_->scopes.emplace_back(name);
  return Scope(*this);
}
Network::Scope::~Scope() { network_.state_->scopes.pop_back(); }

Network::Module Network::module(std::string_view name) {
  const bool opens = state_->module.empty();
  if (opens) state_->module = fmt::format("{}#{}", name, ++state_->modules);
  return Module(*state_, opens);
}
Network::Module::~Module() {
  if (opened_) state_.module.clear();
}

Tensors Network::emit(const RawOp& op) {
  Tape::Node node;
  node.code = op.code;
  for (const Tensor& t : op.operands) node.operands.push_back(state_->current->index(t));
  for (const auto& [key, value] : op.integers) node.attributes.push_back({key, value});
  for (const auto& [key, value] : op.lists) node.attributes.push_back({key, value});
  for (const auto& [key, value] : op.reals) node.attributes.push_back({key, value});
  for (const auto& [key, value] : op.strings) node.attributes.push_back({key, value});
  if (state_->options.compute != ElementType::kNone && op_class(op.code) == OpClass::kContraction &&
      node.find(Attr::kComputeType) == nullptr)
    node.attributes.push_back({Attr::kComputeType, static_cast<int64_t>(state_->options.compute)});
  if (!state_->module.empty()) node.attributes.push_back({Attr::kModule, state_->module});
  node.region = op.region;
  if (!state_->scopes.empty()) node.scope = fmt::format("{}", fmt::join(state_->scopes, "/"));
  for (const TensorType& type : op.results) {
    int64_t elements = 1;
    for (int64_t d : type.dims) {
      if (d < 0)
        throw_internal(fmt::format("{} has a negative size: {}", name(op.code), describe(type)));
      if (__builtin_mul_overflow(elements, d, &elements) || elements > kMostElements)
        throw_usage(fmt::format(
            "these sizes make a tensor {} of more than 2^48 elements: take a smaller batch, "
            "sequence or image",
            describe(type)));
    }
  }
  return state_->current->record(std::move(node), op.results);
}

// --- arguments and results ------------------------------------------------------

namespace {

TensorType argument_type(std::string_view name, ElementType element, const Dims& dims) {
  int64_t elements = 1;
  for (int64_t d : dims)
    if (d <= 0 || __builtin_mul_overflow(elements, d, &elements) || elements > kMostElements)
      throw_usage(fmt::format("'{}' would have the sizes [{}], which no tensor has", name,
                              fmt::join(dims, ", ")));
  return {element, dims};
}

}  // namespace

Tensor Network::input(std::string_view name, ElementType element, const Dims& dims) {
  if (state_->current != &state_->main)
    throw_internal(fmt::format("input '{}' is asked for inside a layer", name));
  return state_->main.add_argument(Tape::ArgumentKind::kInput, state_->scoped(name),
                                   argument_type(name, element, dims));
}

Tensor Network::parameter(std::string_view name, const Dims& dims, ElementType element) {
  if (element == ElementType::kNone) element = state_->options.weights;
  return state_->current->add_argument(Tape::ArgumentKind::kParameter, state_->scoped(name),
                                       argument_type(name, element, dims));
}

Tensor Network::buffer(std::string_view name, const Dims& dims, ElementType element) {
  if (element == ElementType::kNone) element = state_->options.weights;
  return state_->current->add_argument(Tape::ArgumentKind::kBuffer, state_->scoped(name),
                                       argument_type(name, element, dims));
}

Tensor Network::cache(std::string_view name, const Dims& dims, ElementType element) {
  if (training()) throw_internal(fmt::format("cache '{}' is asked for in training", name));
  if (element == ElementType::kNone) element = state_->options.activations;
  return state_->current->add_argument(Tape::ArgumentKind::kCache, state_->scoped(name),
                                       argument_type(name, element, dims));
}

Tensor Network::update_cache(const Tensor& cache, const Tensor& update, const Tensor& position,
                             int dimension) {
  const int d = normalise(dimension, cache.rank(), "update_cache");
  const Tensor zero = constant(0, ElementType::kS32);
  Tensors operands = {cache, convert(update, cache.element())};
  for (int i = 0; i < cache.rank(); ++i)
    operands.push_back(i == d && position.valid() ? position : zero);
  Tensor updated = emit({.code = Opcode::k_dynamic_update_slice,
                         .operands = operands,
                         .results = {state_->type(cache)},
                         .integers = {{Attr::kInPlace, 1}}})[0];
  set_cache(cache, updated);
  return updated;
}

void Network::set_cache(const Tensor& cache, const Tensor& value) {
  Tape& tape = *state_->current;
  const Tape::Value& v = tape.values()[tape.index(cache)];
  if (v.node != Tape::kNone) throw_internal("set_cache: not an argument");
  tape.set_update(v.position, convert(value, cache.element()));
}

void Network::output(std::string_view name, const Tensor& value) {
  if (state_->current != &state_->main)
    throw_internal(fmt::format("output '{}' is given inside a layer", name));
  state_->main.add_output(std::string(name), value);
}

int64_t Network::parameter_count() const {
  int64_t count = 0;
  for (const Tape::Argument& a : state_->main.arguments()) {
    if (a.kind != Tape::ArgumentKind::kParameter) continue;
    int64_t elements = 1;
    for (int64_t d : state_->main.type(a.value).dims) elements *= d;
    count += elements;
  }
  return count;
}

// --- structure ------------------------------------------------------------------

Tensors Network::layer(std::string_view kind, std::string_view name, const Tensors& inputs,
                       const Body& body) {
  const auto found = state_->functions.find(kind);
  Tape* callee = found == state_->functions.end() ? nullptr : found->second.get();
  if (callee == nullptr) {
    callee = &state_->add_function(std::string(kind));
    std::vector<TensorType> types;
    for (const Tensor& t : inputs) types.push_back(state_->type(t));
    const Recording recording(*state_, *callee, {});
    Tensors arguments;
    for (size_t i = 0; i < types.size(); ++i)
      arguments.push_back(
          callee->add_argument(Tape::ArgumentKind::kInput, fmt::format("input.{}", i), types[i]));
    for (const Tensor& result : body(arguments)) callee->add_output("", result);
  }

  Tape& caller = *state_->current;
  Tape::Node call;
  call.code = Opcode::k_call;
  call.callee = callee;
  call.scope = state_->scoped(name);
  std::ranges::replace(call.scope, '.', '/');
  std::vector<std::pair<uint32_t, uint32_t>> states;  // Arguments of the caller and the callee.
  size_t input = 0;
  for (uint32_t i = 0; i < callee->arguments().size(); ++i) {
    const Tape::Argument& argument = callee->arguments()[i];
    if (argument.kind == Tape::ArgumentKind::kInput) {
      if (input == inputs.size() || state_->type(inputs[input]) != callee->type(argument.value))
        throw_internal(fmt::format("layer '{}' of kind '{}': input {} is not {}", name, kind, input,
                                   describe(callee->type(argument.value))));
      call.operands.push_back(caller.index(inputs[input++]));
      continue;
    }
    if (argument.update != Tape::kNone)
      states.emplace_back(static_cast<uint32_t>(caller.arguments().size()), i);
    const Tensor own = caller.add_argument(
        argument.kind, state_->scoped(fmt::format("{}.{}", name, argument.name)),
        callee->type(argument.value));
    call.operands.push_back(caller.index(own));
  }
  if (input != inputs.size())
    throw_internal(fmt::format("layer '{}' of kind '{}' takes {} inputs", name, kind, input));

  std::vector<TensorType> types;
  for (uint32_t value : callee->returned()) types.push_back(callee->type(value));
  Tensors results = caller.record(std::move(call), types);
  const std::vector<uint32_t> positions = callee->update_positions();
  for (const auto& [own, inner] : states) caller.set_update(own, results[positions[inner]]);
  results.resize(callee->outputs().size());
  return results;
}

Tensors Network::repeat(std::string_view name, int64_t count, Tensors inputs, const Body& body) {
  Tensors outputs;
  for (int64_t i = 0; i < count; ++i) {
    outputs = layer(name, fmt::format("{}.{}", name, i), inputs, body);
    if (outputs.size() > inputs.size())
      throw_internal(fmt::format("repeat '{}': more outputs than inputs", name));
    std::ranges::copy(outputs, inputs.begin());
  }
  return count > 0 ? outputs : inputs;
}

// --- elementwise ----------------------------------------------------------------

Tensor Network::unary(Opcode code, const Tensor& x) {
  return emit({.code = code, .operands = {x}, .results = {state_->type(x)}})[0];
}

Tensor Network::binary(Opcode code, const Tensor& a, const Tensor& b) {
  Dims dims(static_cast<size_t>(std::max(a.rank(), b.rank())));
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto size = [&](const Tensor& t) {
      return i < t.dims().size() ? t.dims()[t.dims().size() - 1 - i] : 1;
    };
    dims[dims.size() - 1 - i] = size(a) == 1 ? size(b) : size(a);
  }
  const ElementType element = a.element();
  if (b.element() != element)
    throw_internal(fmt::format("{} of {} and {}: convert one of them", name(code),
                               describe(state_->type(a)), describe(state_->type(b))));
  return emit({.code = code,
               .operands = {broadcast(a, dims), broadcast(b, dims)},
               .results = {{element, dims}}})[0];
}

Tensor Network::add(const Tensor& a, const Tensor& b) { return binary(Opcode::k_add, a, b); }
Tensor Network::subtract(const Tensor& a, const Tensor& b) {
  return binary(Opcode::k_subtract, a, b);
}
Tensor Network::multiply(const Tensor& a, const Tensor& b) {
  return binary(Opcode::k_multiply, a, b);
}
Tensor Network::divide(const Tensor& a, const Tensor& b) { return binary(Opcode::k_divide, a, b); }
Tensor Network::maximum(const Tensor& a, const Tensor& b) {
  return binary(Opcode::k_maximum, a, b);
}
Tensor Network::minimum(const Tensor& a, const Tensor& b) {
  return binary(Opcode::k_minimum, a, b);
}
Tensor Network::scale(const Tensor& x, double factor) {
  return multiply(x, constant(factor, x.element()));
}
Tensor Network::offset(const Tensor& x, double addend) {
  return add(x, constant(addend, x.element()));
}

Tensor Network::select(const Tensor& where, const Tensor& a, const Tensor& b) {
  const Tensor& larger = a.rank() >= b.rank() ? a : b;
  return emit({.code = Opcode::k_select,
               .operands = {broadcast(where, larger.dims()), broadcast(a, larger.dims()),
                            broadcast(b, larger.dims())},
               .results = {{a.element(), larger.dims()}}})[0];
}

Tensor Network::compare(const Tensor& a, const Tensor& b, std::string_view direction) {
  const Tensor right = broadcast(b, a.dims());
  return emit({.code = Opcode::k_compare,
               .operands = {a, right},
               .results = {{ElementType::kBool, a.dims()}},
               .strings = {{Attr::kCompare, std::string(direction)}}})[0];
}

Tensor Network::convert(const Tensor& x, ElementType element) {
  if (x.element() == element) return x;
  TensorType type = state_->type(x);
  type.element = element;
  return emit({.code = Opcode::k_convert, .operands = {x}, .results = {type}})[0];
}

Tensor Network::relu(const Tensor& x) { return unary(Opcode::k_relu, x); }

Tensor Network::relu6(const Tensor& x) {
  return emit({.code = Opcode::k_clamp,
               .operands = {constant(0, x.element()), x, constant(6, x.element())},
               .results = {state_->type(x)}})[0];
}

Tensor Network::quick_gelu(const Tensor& x) { return multiply(x, sigmoid(scale(x, 1.702))); }
Tensor Network::softplus(const Tensor& x) { return log_plus_one(exponential(x)); }
Tensor Network::gelu(const Tensor& x) { return unary(Opcode::k_gelu, x); }
Tensor Network::silu(const Tensor& x) { return unary(Opcode::k_silu, x); }
Tensor Network::tanh(const Tensor& x) { return unary(Opcode::k_tanh, x); }
Tensor Network::sigmoid(const Tensor& x) { return unary(Opcode::k_logistic, x); }
Tensor Network::exponential(const Tensor& x) { return unary(Opcode::k_exponential, x); }
Tensor Network::log(const Tensor& x) { return unary(Opcode::k_log, x); }
Tensor Network::log_plus_one(const Tensor& x) { return unary(Opcode::k_log_plus_one, x); }
Tensor Network::rsqrt(const Tensor& x) { return unary(Opcode::k_rsqrt, x); }
Tensor Network::sqrt(const Tensor& x) { return unary(Opcode::k_sqrt, x); }
Tensor Network::square(const Tensor& x) { return unary(Opcode::k_square, x); }
Tensor Network::sine(const Tensor& x) { return unary(Opcode::k_sine, x); }
Tensor Network::cosine(const Tensor& x) { return unary(Opcode::k_cosine, x); }
Tensor Network::negate(const Tensor& x) { return unary(Opcode::k_negate, x); }

// --- look-ups and shapes ----------------------------------------------------------

Tensor Network::embedding(const Tensor& table, const Tensor& ids) {
  Dims dims = ids.dims();
  dims.push_back(table.dim(-1));
  return emit({.code = Opcode::k_gather,
               .operands = {table, ids},
               .results = {{table.element(), dims}},
               .integers = {{Attr::kIndexVectorDim, ids.rank()}},
               .lists = {{Attr::kOffsetDims, {ids.rank()}},
                         {Attr::kCollapsedSliceDims, {0}},
                         {Attr::kStartIndexMap, {0}},
                         {Attr::kSliceSizes, {1, table.dim(-1)}}}})[0];
}

Tensor Network::reshape(const Tensor& x, const Dims& dims) {
  Dims full = dims;
  int64_t known = 1;
  for (int64_t d : full) known *= d == -1 ? 1 : d;
  for (int64_t& d : full)
    if (d == -1) d = known == 0 ? 0 : x.elements() / known;
  int64_t elements = 1;
  for (int64_t d : full) elements *= d;
  if (elements != x.elements())
    throw_internal(
        fmt::format("reshape of {} to [{}]", describe(state_->type(x)), fmt::join(full, ",")));
  if (full == x.dims()) return x;
  if (!state_->type(x).minor_to_major.empty())
    throw_internal(fmt::format("reshape of the permuted view {}", describe(state_->type(x))));
  return emit({.code = Opcode::k_reshape, .operands = {x}, .results = {{x.element(), full}}})[0];
}

Tensor Network::transpose(const Tensor& x, const Dims& permutation) {
  Dims dims;
  for (int64_t d : permutation) dims.push_back(x.dims().at(at(d)));
  return emit({.code = Opcode::k_transpose,
               .operands = {x},
               .results = {{x.element(), dims}},
               .lists = {{Attr::kDimensions, permutation}}})[0];
}

Tensor Network::permuted_view(const Tensor& x, const Dims& permutation) {
  const TensorType from = state_->type(x);
  const size_t rank = from.dims.size();
  Dims order = from.minor_to_major;  // Minor to major, in dimensions of x.
  if (order.empty())
    for (size_t i = 0; i < rank; ++i) order.push_back(static_cast<int64_t>(rank - 1 - i));
  Dims inverse(rank);
  TensorType to{from.element, {}, {}};
  for (size_t i = 0; i < rank; ++i) {
    inverse[at(permutation[i])] = static_cast<int64_t>(i);
    to.dims.push_back(from.dims[at(permutation[i])]);
  }
  bool row_major = true;
  for (size_t i = 0; i < rank; ++i) {
    to.minor_to_major.push_back(inverse[at(order[i])]);
    row_major = row_major && to.minor_to_major[i] == static_cast<int64_t>(rank - 1 - i);
  }
  if (row_major) to.minor_to_major.clear();
  return emit({.code = Opcode::k_bitcast,
               .operands = {x},
               .results = {to},
               .lists = {{Attr::kDimensions, permutation}}})[0];
}

Tensor Network::concatenate(const Tensors& parts, int dimension) {
  if (parts.size() == 1) return parts[0];
  const int d = normalise(dimension, parts.at(0).rank(), "concatenate");
  Dims dims = parts[0].dims();
  dims[at(d)] = 0;
  for (const Tensor& part : parts) dims[at(d)] += part.dim(d);
  return emit({.code = Opcode::k_concatenate,
               .operands = parts,
               .results = {{parts[0].element(), dims}},
               .lists = {{Attr::kDimensions, {d}}}})[0];
}

Tensor Network::slice(const Tensor& x, int dimension, int64_t start, int64_t limit) {
  const int d = normalise(dimension, x.rank(), "slice");
  if (start < 0 || limit < start || limit > x.dim(d))
    throw_internal(fmt::format("slice {}..{} of dimension {} of {}", start, limit, d,
                               describe(state_->type(x))));
  if (start == 0 && limit == x.dim(d)) return x;
  Dims starts(x.dims().size(), 0);
  Dims limits = x.dims();
  starts[at(d)] = start;
  limits[at(d)] = limit;
  Dims dims = x.dims();
  dims[at(d)] = limit - start;
  return emit({.code = Opcode::k_slice,
               .operands = {x},
               .results = {{x.element(), dims}},
               .lists = {{Attr::kStart, starts},
                         {Attr::kLimit, limits},
                         {Attr::kStride, Dims(dims.size(), 1)}}})[0];
}

Tensor Network::positions(const Tensor& table, int64_t first, int64_t count) {
  const Module as_one = module("positions");
  return slice(table, 0, first, first + count);
}

Tensors Network::split(const Tensor& x, int dimension, const Dims& sizes) {
  const Module as_one = module("split");
  Tensors parts;
  int64_t start = 0;
  for (int64_t size : sizes) {
    parts.push_back(slice(x, dimension, start, start + size));
    start += size;
  }
  if (start != x.dim(dimension))
    throw_internal(
        fmt::format("split of {} into [{}]", describe(state_->type(x)), fmt::join(sizes, ",")));
  return parts;
}

Tensor Network::pad(const Tensor& x, const Dims& low, const Dims& high) {
  Dims dims = x.dims();
  for (size_t i = 0; i < dims.size(); ++i) dims[i] += low.at(i) + high.at(i);
  return emit({.code = Opcode::k_pad,
               .operands = {x, constant(0, x.element())},
               .results = {{x.element(), dims}},
               .lists = {{Attr::kPaddingLow, low},
                         {Attr::kPaddingHigh, high},
                         {Attr::kPaddingInterior, Dims(dims.size(), 0)}}})[0];
}

Tensor Network::broadcast(const Tensor& x, const Dims& dims) {
  if (x.dims() == dims) return x;
  const size_t shift = dims.size() - x.dims().size();
  Dims map;
  for (size_t i = 0; i < x.dims().size(); ++i) {
    if (dims.size() < x.dims().size() || (x.dims()[i] != 1 && x.dims()[i] != dims[shift + i]))
      throw_internal(
          fmt::format("broadcast of {} to [{}]", describe(state_->type(x)), fmt::join(dims, ",")));
    map.push_back(static_cast<int64_t>(shift + i));
  }
  return emit({.code = Opcode::k_broadcast_in_dim,
               .operands = {x},
               .results = {{x.element(), dims}},
               .lists = {{Attr::kDimensions, map}}})[0];
}

Tensor Network::reduce(const Tensor& x, const Dims& dimensions, bool maximum) {
  Dims dims;
  for (int i = 0; i < x.rank(); ++i)
    if (std::ranges::find(dimensions, i) == dimensions.end()) dims.push_back(x.dim(i));
  return emit({.code = Opcode::k_reduce,
               .operands = {x, constant(maximum ? -std::numeric_limits<double>::infinity() : 0,
                                        x.element())},
               .results = {{x.element(), dims}},
               .lists = {{Attr::kDimensions, dimensions}},
               .region = maximum ? RawOp::Region::kMaximum : RawOp::Region::kAdd})[0];
}

Tensor Network::reduce_sum(const Tensor& x, const Dims& dimensions) {
  Dims positive;
  for (int64_t d : dimensions)
    positive.push_back(normalise(static_cast<int>(d), x.rank(), "reduce_sum"));
  std::ranges::sort(positive);
  return reduce(x, positive, false);
}

Tensor Network::reduce_mean(const Tensor& x, const Dims& dimensions) {
  const Module as_one = module("mean");
  const Tensor sum = reduce_sum(x, dimensions);
  return scale(sum, static_cast<double>(sum.elements()) / static_cast<double>(x.elements()));
}

Tensor Network::cumsum(const Tensor& x, int dimension) {
  return emit({.code = Opcode::k_cumsum,
               .operands = {x},
               .results = {state_->type(x)},
               .lists = {{Attr::kDimensions, {normalise(dimension, x.rank(), "cumsum")}}}})[0];
}

Tensor Network::constant(double value, ElementType element) {
  RawOp op{.code = Opcode::k_constant, .operands = {}, .results = {{element, {}}}};
  if (is_integer(element) || element == ElementType::kBool)
    op.lists = {{Attr::kValue, {static_cast<int64_t>(value)}}};
  else
    op.reals = {{Attr::kRealValue, value}};
  return emit(op)[0];
}

Tensor Network::iota(ElementType element, const Dims& dims, int dimension) {
  return emit({.code = Opcode::k_iota,
               .operands = {},
               .results = {{element, dims}},
               .lists = {{Attr::kDimensions,
                          {normalise(dimension, static_cast<int>(dims.size()), "iota")}}}})[0];
}

}  // namespace orrery
