// Operators that work element by element, with NumPy's broadcasting.
#include <array>
#include <cmath>

#include "orrery/workload/readers/onnx/fold.h"
#include "orrery/workload/readers/onnx/operator.h"

namespace orrery::onnx {
namespace {

// --- folding ----------------------------------------------------------------

enum class Arithmetic {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kModulo,
  kMaximum,
  kMinimum,
  kPower,
  kEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kAnd,
  kOr,
  kXor,
};

constexpr bool gives_bool(Arithmetic a) { return a >= Arithmetic::kEqual; }

std::optional<int64_t> combine(NodeContext& c, Arithmetic a, int64_t x, int64_t y) {
  const auto wrap = [](uint64_t v) { return static_cast<int64_t>(v); };
  const auto ux = static_cast<uint64_t>(x);
  const auto uy = static_cast<uint64_t>(y);
  switch (a) {
    case Arithmetic::kAdd:
      return wrap(ux + uy);
    case Arithmetic::kSubtract:
      return wrap(ux - uy);
    case Arithmetic::kMultiply:
      return wrap(ux * uy);
    case Arithmetic::kDivide:
      if (y == 0) return std::nullopt;
      return y == -1 ? wrap(-ux) : x / y;
    case Arithmetic::kModulo: {
      if (y == 0) return std::nullopt;
      if (y == -1) return 0;
      const int64_t remainder = x % y;
      // Python's sign (of the divisor) unless fmod asks for C's.
      const bool adjust = c.integer("fmod", 0) == 0 && remainder != 0 && (remainder < 0) != (y < 0);
      return adjust ? remainder + y : remainder;
    }
    case Arithmetic::kMaximum:
      return std::max(x, y);
    case Arithmetic::kMinimum:
      return std::min(x, y);
    case Arithmetic::kPower: {
      const double power = std::pow(static_cast<double>(x), static_cast<double>(y));
      if (!(std::abs(power) < 9e15)) return std::nullopt;
      return static_cast<int64_t>(power);
    }
    case Arithmetic::kEqual:
      return x == y;
    case Arithmetic::kLess:
      return x < y;
    case Arithmetic::kLessEqual:
      return x <= y;
    case Arithmetic::kGreater:
      return x > y;
    case Arithmetic::kGreaterEqual:
      return x >= y;
    case Arithmetic::kAnd:
      return x & y;
    case Arithmetic::kOr:
      return x | y;
    case Arithmetic::kXor:
      return x ^ y;
  }
  return std::nullopt;
}

std::optional<double> combine(NodeContext& c, Arithmetic a, double x, double y) {
  switch (a) {
    case Arithmetic::kAdd:
      return x + y;
    case Arithmetic::kSubtract:
      return x - y;
    case Arithmetic::kMultiply:
      return x * y;
    case Arithmetic::kDivide:
      return y == 0 ? std::nullopt : std::optional(x / y);
    case Arithmetic::kModulo:
      if (y == 0) return std::nullopt;
      return c.integer("fmod", 0) != 0 ? std::fmod(x, y) : x - std::floor(x / y) * y;
    case Arithmetic::kMaximum:
      return std::max(x, y);
    case Arithmetic::kMinimum:
      return std::min(x, y);
    case Arithmetic::kPower:
      return std::pow(x, y);
    case Arithmetic::kEqual:
      return x == y;
    case Arithmetic::kLess:
      return x < y;
    case Arithmetic::kLessEqual:
      return x <= y;
    case Arithmetic::kGreater:
      return x > y;
    case Arithmetic::kGreaterEqual:
      return x >= y;
    default:
      return std::nullopt;
  }
}

template <Arithmetic kHow>
bool fold_binary(NodeContext& c) {
  if (c.version() < 7 && c.has_attribute("axis")) return false;
  const Constant* first = c.constant(0);
  if (first == nullptr) return false;
  Constant total = *first;
  for (size_t i = 1; i < c.input_count(); ++i) {
    const Constant* next = c.constant(i);
    if (next == nullptr) return false;
    const Dims dims = c.broadcast(total.dims, next->dims);
    if (!foldable_elements(dims)) return false;
    Constant result = Constant::zeros(gives_bool(kHow) ? ElementType::kBool : total.element, dims);
    const bool real = total.is_real() || next->is_real();
    for (size_t k = 0; k < result.size(); ++k) {
      const size_t a = broadcast_position(dims, total.dims, k);
      const size_t b = broadcast_position(dims, next->dims, k);
      if (real) {
        const auto value = combine(c, kHow, total.real(a), next->real(b));
        if (!value) return false;
        result.set(k, *value);
      } else {
        const auto value = combine(c, kHow, total.integer(a), next->integer(b));
        if (!value) return false;
        result.set(k, *value);
      }
    }
    total = std::move(result);
  }
  return c.set_constant(0, std::move(total));
}

using RealFunction = double (*)(double);

double reciprocal(double x) { return 1 / x; }
double sign_of(double x) { return x > 0 ? 1 : (x < 0 ? -1 : 0); }
double negated(double x) { return -x; }
double logical_not(double x) { return x == 0 ? 1 : 0; }
double absolute(double x) { return std::abs(x); }
double floor_of(double x) { return std::floor(x); }
double ceil_of(double x) { return std::ceil(x); }
double rounded(double x) { return std::nearbyint(x); }
double square_root(double x) { return std::sqrt(x); }

template <RealFunction kFunction>
bool fold_unary(NodeContext& c) {
  const Constant* input = c.constant(0);
  if (input == nullptr || c.input_count() != 1) return false;
  Constant result = *input;
  for (size_t i = 0; i < result.size(); ++i) {
    // Integers past 2^53 would lose bits on the way through a double.
    if (!result.is_real() && std::abs(static_cast<double>(result.integers[i])) > 9e15) return false;
    result.set(i, kFunction(result.real(i)));
  }
  return c.set_constant(0, std::move(result));
}

bool fold_cast_to(NodeContext& c, ElementType to) {
  const Constant* input = c.constant(0);
  if (input == nullptr || !is_foldable(to)) return false;
  Constant result = Constant::zeros(to, input->dims);
  for (size_t i = 0; i < result.size(); ++i) {
    if (input->is_real())
      result.set(i, input->reals[i]);
    else
      result.set(i, input->integers[i]);
  }
  return c.set_constant(0, std::move(result));
}

bool fold_cast(NodeContext& c) {
  return c.find("to") != nullptr && fold_cast_to(c, c.data_type(c.required_integer("to")));
}
bool fold_cast_like(NodeContext& c) { return fold_cast_to(c, c.element(1)); }

bool fold_where(NodeContext& c) {
  const Constant *which = c.constant(0), *yes = c.constant(1), *no = c.constant(2);
  if (which == nullptr || yes == nullptr || no == nullptr || yes->element != no->element)
    return false;
  const Dims dims = c.broadcast(c.broadcast(which->dims, yes->dims), no->dims);
  if (!foldable_elements(dims)) return false;
  Constant result = Constant::zeros(yes->element, dims);
  for (size_t i = 0; i < result.size(); ++i) {
    const bool take = which->integer(broadcast_position(dims, which->dims, i)) != 0;
    const Constant& from = take ? *yes : *no;
    result.copy(i, from, broadcast_position(dims, from.dims, i));
  }
  return c.set_constant(0, std::move(result));
}

bool fold_clip(NodeContext& c) {
  const Constant* input = c.constant(0);
  if (input == nullptr || c.version() < 11) return false;
  Constant result = *input;
  const auto low = c.known_real(1), high = c.known_real(2);
  for (size_t i = 0; i < result.size(); ++i) {
    if (low && result.real(i) < *low) result.set(i, *low);
    if (high && result.real(i) > *high) result.set(i, *high);
  }
  return c.set_constant(0, std::move(result));
}

bool fold_identity(NodeContext& c) {
  c.set(0, Value(c.value(0)));
  return true;
}

// --- rules ------------------------------------------------------------------

/// Also passes sequences and optionals on.
void identity(NodeContext& c) {
  if (c.value(0).kind != Value::Kind::kTensor) return c.set(0, Value(c.value(0)));
  c.set(0, c.emit(Opcode::k_identity, {c.operand(0)}, c.element(0), c.dims(0)));
}

template <Opcode kCode>
void unary(NodeContext& c) {
  c.set(0, c.emit(kCode, {c.operand(0)}, c.element(0), c.dims(0)));
}

/// The second operand of the old broadcast form, where `axis` says which of the
/// first one's dimensions it starts at (operator sets before 7).
ValueId aligned_second(NodeContext& c) {
  const ValueId second = c.operand(1);
  if (c.version() >= 7 || !c.has_attribute("axis") || c.integer("broadcast", 0) == 0) return second;
  const int64_t axis = c.axis(c.integer("axis", 0), c.rank(0));
  Dims dims = c.dims(1);
  if (static_cast<size_t>(axis) + dims.size() > c.rank(0)) c.fail("'axis' leaves no room");
  dims.resize(c.rank(0) - static_cast<size_t>(axis), 1);
  return c.reshape(second, dims);
}

template <Opcode kCode>
void binary(NodeContext& c) {
  c.expect_inputs(2);
  c.set(0, c.elementwise(kCode, {c.operand(0), aligned_second(c)}));
}

template <Opcode kCode>
void variadic(NodeContext& c) {
  ValueId total = c.operand(0);
  for (size_t i = 1; i < c.input_count(); ++i) total = c.elementwise(kCode, {total, c.operand(i)});
  c.set(0, total);
}

void mean(NodeContext& c) {
  ValueId total = c.operand(0);
  for (size_t i = 1; i < c.input_count(); ++i)
    total = c.elementwise(Opcode::k_add, {total, c.operand(i)});
  if (c.input_count() > 1)
    total =
        c.elementwise(Opcode::k_multiply,
                      {total, c.number(c.element(0), 1.0 / static_cast<double>(c.input_count()))});
  c.set(0, total);
}

enum class Comparison { kEqual, kLess, kLessEqual, kGreater, kGreaterEqual };

template <Comparison kHow>
void comparison(NodeContext& c) {
  static constexpr std::array<std::string_view, 5> kNames = {"EQ", "LT", "LE", "GT", "GE"};
  c.expect_inputs(2);
  const ValueId second = aligned_second(c);
  c.set(0, c.compare(kNames[static_cast<size_t>(kHow)], c.operand(0), second));
}

void bit_shift(NodeContext& c) {
  const std::string_view direction = c.string("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") c.fail("'direction' must be LEFT or RIGHT");
  const Opcode code = direction == "LEFT" ? Opcode::k_shift_left : Opcode::k_shift_right_logical;
  c.expect_inputs(2);
  c.set(0, c.elementwise(code, {c.operand(0), c.operand(1)}));
}

void power(NodeContext& c) {
  c.expect_inputs(2);
  // Runtimes special-case the two exponents that normalisations use.
  if (const auto exponent = c.known_real(1);
      exponent && c.product(c.dims(1)) == 1 && c.rank(1) <= c.rank(0)) {
    if (*exponent == 2) return unary<Opcode::k_square>(c);
    if (*exponent == 0.5) return unary<Opcode::k_sqrt>(c);
  }
  binary<Opcode::k_power>(c);
}

void where(NodeContext& c) {
  c.expect_inputs(3);
  const Dims dims = c.broadcast(c.broadcast(c.dims(0), c.dims(1)), c.dims(2));
  const ValueId which = c.operand(0), yes = c.operand(1), no = c.operand(2);
  c.set(0, c.emit(Opcode::k_select, {which, yes, no}, c.element(1), dims));
}

void cast_to(NodeContext& c, ElementType to) {
  if (to == ElementType::kString || c.element(0) == ElementType::kString)
    c.note("casts to and from strings are counted as plain conversions");
  if (c.element(0) == to) {
    c.set(0, c.emit(Opcode::k_identity, {c.operand(0)}, to, c.dims(0)));
    return;
  }
  c.set(0, c.convert(c.operand(0), to));
}

void cast(NodeContext& c) {
  // Before operator set 6 the type was written out.
  if (const NodeAttribute* to = c.find("to");
      to != nullptr && to->kind == NodeAttribute::Kind::kString) {
    static constexpr std::array<std::string_view, 17> kNames = {
        "",       "FLOAT",  "UINT8",     "INT8",       "UINT16",  "INT16",
        "INT32",  "INT64",  "STRING",    "BOOL",       "FLOAT16", "DOUBLE",
        "UINT32", "UINT64", "COMPLEX64", "COMPLEX128", "BFLOAT16"};
    for (size_t i = 1; i < kNames.size(); ++i)
      if (kNames[i] == to->string) return cast_to(c, c.data_type(static_cast<int64_t>(i)));
    c.fail(fmt::format("'{}' is no tensor data type", to->string));
  }
  cast_to(c, c.data_type(c.required_integer("to")));
}

void cast_like(NodeContext& c) { cast_to(c, c.element(1)); }

void bit_cast(NodeContext& c) {
  const ElementType to = c.data_type(c.required_integer("to"));
  if (bit_width(to) != bit_width(c.element(0)))
    c.fail("types of different width cannot be bit-cast");
  c.set(0, c.emit(Opcode::k_bitcast_convert, {c.operand(0)}, to, c.dims(0)));
}

void clip(NodeContext& c) {
  const ElementType element = c.element(0);
  ValueId low, high;
  if (c.version() < 11) {
    if (c.has_attribute("min")) low = c.number(element, c.real("min", 0));
    if (c.has_attribute("max")) high = c.number(element, c.real("max", 0));
  } else {
    if (c.has_input(1)) low = c.operand(1);
    if (c.has_input(2)) high = c.operand(2);
  }
  const ValueId x = c.operand(0);
  if (low.valid() && high.valid())
    c.set(0, c.emit(Opcode::k_clamp, {low, x, high}, element, c.dims(0)));
  else if (low.valid())
    c.set(0, c.emit(Opcode::k_maximum, {x, low}, element, c.dims(0)));
  else if (high.valid())
    c.set(0, c.emit(Opcode::k_minimum, {x, high}, element, c.dims(0)));
  else
    c.set(0, c.emit(Opcode::k_identity, {x}, element, c.dims(0)));
}

// Activations without an operation of their own, from their definitions.

/// Short names for the formulas below.
struct Formula {
  explicit Formula(NodeContext& context) : c(context), x(c.operand(0)), element(c.element(0)) {}
  ValueId number(double v) { return c.number(element, v); }
  ValueId add(ValueId a, ValueId b) { return c.elementwise(Opcode::k_add, {a, b}); }
  ValueId multiply(ValueId a, ValueId b) { return c.elementwise(Opcode::k_multiply, {a, b}); }
  ValueId divide(ValueId a, ValueId b) { return c.elementwise(Opcode::k_divide, {a, b}); }
  ValueId apply(Opcode code, ValueId a) { return c.elementwise(code, {a}); }
  ValueId choose(ValueId which, ValueId yes, ValueId no) {
    const Dims dims = c.broadcast(c.broadcast(c.dims_of(which), c.dims_of(yes)), c.dims_of(no));
    return c.emit(Opcode::k_select, {which, yes, no}, element, dims);
  }
  ValueId positive() { return c.compare("GT", x, number(0)); }
  NodeContext& c;
  ValueId x;
  ElementType element;
};

void leaky_relu(NodeContext& c) {
  Formula f(c);
  c.set(0, f.choose(f.positive(), f.x, f.multiply(f.x, f.number(c.real("alpha", 0.01)))));
}

void parametric_relu(NodeContext& c) {
  c.expect_inputs(2);
  Formula f(c);
  ValueId slope = c.operand(1);
  // Before operator set 7 a vector of slopes belongs to the channels.
  if (c.version() < 7 && c.rank(1) == 1 && c.rank(0) > 2) {
    Dims dims(c.rank(0) - 1, 1);
    dims[0] = c.dims(1)[0];
    slope = c.reshape(slope, dims);
  }
  c.set(0, f.choose(f.positive(), f.x, f.multiply(f.x, slope)));
}

/// alpha·(exp(x/divisor) − 1) below zero, gamma·x above.
void exponential_unit(NodeContext& c, double alpha, double gamma, double divisor) {
  Formula f(c);
  const ValueId scaled = divisor == 1 ? f.x : f.divide(f.x, f.number(divisor));
  ValueId low = f.apply(Opcode::k_exponential_minus_one, scaled);
  if (alpha * gamma != 1) low = f.multiply(low, f.number(alpha * gamma));
  const ValueId high = gamma == 1 ? f.x : f.multiply(f.x, f.number(gamma));
  c.set(0, f.choose(f.positive(), high, low));
}

void elu(NodeContext& c) { exponential_unit(c, c.real("alpha", 1), 1, 1); }
void celu(NodeContext& c) {
  const double alpha = c.real("alpha", 1);
  exponential_unit(c, alpha, 1, alpha);
}
void selu(NodeContext& c) {
  // Defaults of the specification (Klambauer et al. 2017).
  exponential_unit(c, c.real("alpha", 1.67326319217681884765625),
                   c.real("gamma", 1.05070102214813232421875), 1);
}

ValueId hard_sigmoid_of(Formula& f, double alpha, double beta) {
  const ValueId line = f.add(f.multiply(f.x, f.number(alpha)), f.number(beta));
  const ValueId zero = f.number(0), one = f.number(1);
  return f.c.emit(Opcode::k_clamp, {zero, line, one}, f.element, f.c.dims(0));
}

void hard_sigmoid(NodeContext& c) {
  Formula f(c);
  c.set(0, hard_sigmoid_of(f, c.real("alpha", 0.2), c.real("beta", 0.5)));
}

void hard_swish(NodeContext& c) {
  Formula f(c);
  c.set(0, f.multiply(f.x, hard_sigmoid_of(f, 1.0 / 6, 0.5)));
}

ValueId softplus_of(Formula& f) {
  return f.apply(Opcode::k_log_plus_one, f.apply(Opcode::k_exponential, f.x));
}
void softplus(NodeContext& c) {
  Formula f(c);
  c.set(0, softplus_of(f));
}
void mish(NodeContext& c) {
  Formula f(c);
  c.set(0, f.multiply(f.x, f.apply(Opcode::k_tanh, softplus_of(f))));
}
void softsign(NodeContext& c) {
  Formula f(c);
  c.set(0, f.divide(f.x, f.add(f.apply(Opcode::k_abs, f.x), f.number(1))));
}
void thresholded_relu(NodeContext& c) {
  Formula f(c);
  c.set(0, f.choose(c.compare("GT", f.x, f.number(c.real("alpha", 1))), f.x, f.number(0)));
}
void shrink(NodeContext& c) {
  Formula f(c);
  const double lambda = c.real("lambd", 0.5), bias = c.real("bias", 0);
  ValueId high = f.x, low = f.x;
  if (bias != 0) {
    high = f.add(f.x, f.number(-bias));
    low = f.add(f.x, f.number(bias));
  }
  const ValueId rest = f.choose(c.compare("LT", f.x, f.number(-lambda)), low, f.number(0));
  c.set(0, f.choose(c.compare("GT", f.x, f.number(lambda)), high, rest));
}
void swish(NodeContext& c) {
  const double alpha = c.real("alpha", 1);
  if (alpha == 1) return unary<Opcode::k_silu>(c);
  Formula f(c);
  c.set(0, f.multiply(f.x, f.apply(Opcode::k_logistic, f.multiply(f.x, f.number(alpha)))));
}
void reciprocal_rule(NodeContext& c) {
  Formula f(c);
  const ValueId one = f.number(1);
  c.set(0, c.emit(Opcode::k_divide, {one, f.x}, f.element, c.dims(0)));
}
void is_nan(NodeContext& c) {
  const ValueId x = c.operand(0);
  c.set(0, c.compare("NE", x, x));
}
void is_inf(NodeContext& c) {
  const ValueId x = c.operand(0);
  const ValueId magnitude = c.elementwise(Opcode::k_abs, {x});
  c.set(0, c.compare("EQ", magnitude, c.number(c.element(0), HUGE_VAL)));
}
void scaled_tanh(NodeContext& c) {
  Formula f(c);
  const ValueId inner = f.apply(Opcode::k_tanh, f.multiply(f.x, f.number(c.real("beta", 1))));
  c.set(0, f.multiply(inner, f.number(c.real("alpha", 1))));
}
void affine(NodeContext& c) {
  Formula f(c);
  c.set(0, f.add(f.multiply(f.x, f.number(c.real("alpha", 1))), f.number(c.real("beta", 0))));
}

using A = Arithmetic;
using C = Comparison;

constexpr OperatorRule kRules[] = {
    {"Abs", unary<Opcode::k_abs>, fold_unary<absolute>},
    {"Acos", unary<Opcode::k_acos>},
    {"Acosh", unary<Opcode::k_acosh>},
    {"Add", binary<Opcode::k_add>, fold_binary<A::kAdd>},
    {"Affine", affine},
    {"And", binary<Opcode::k_and>, fold_binary<A::kAnd>},
    {"Asin", unary<Opcode::k_asin>},
    {"Asinh", unary<Opcode::k_asinh>},
    {"Atan", unary<Opcode::k_atan>},
    {"Atanh", unary<Opcode::k_atanh>},
    {"BitCast", bit_cast},
    {"BitShift", bit_shift},
    {"BitwiseAnd", binary<Opcode::k_and>, fold_binary<A::kAnd>},
    {"BitwiseNot", unary<Opcode::k_not>},
    {"BitwiseOr", binary<Opcode::k_or>, fold_binary<A::kOr>},
    {"BitwiseXor", binary<Opcode::k_xor>, fold_binary<A::kXor>},
    {"Cast", cast, fold_cast},
    {"CastLike", cast_like, fold_cast_like},
    {"Ceil", unary<Opcode::k_ceil>, fold_unary<ceil_of>},
    {"Celu", celu},
    {"Clip", clip, fold_clip},
    {"Cos", unary<Opcode::k_cosine>},
    {"Cosh", unary<Opcode::k_cosh>},
    {"Div", binary<Opcode::k_divide>, fold_binary<A::kDivide>},
    {"Elu", elu},
    {"Equal", comparison<C::kEqual>, fold_binary<A::kEqual>},
    {"Erf", unary<Opcode::k_erf>},
    {"Exp", unary<Opcode::k_exponential>},
    {"Floor", unary<Opcode::k_floor>, fold_unary<floor_of>},
    {"Gelu", unary<Opcode::k_gelu>},
    {"Greater", comparison<C::kGreater>, fold_binary<A::kGreater>},
    {"GreaterOrEqual", comparison<C::kGreaterEqual>, fold_binary<A::kGreaterEqual>},
    {"HardSigmoid", hard_sigmoid},
    {"HardSwish", hard_swish},
    {"Identity", identity, fold_identity},
    {"IsInf", is_inf},
    {"IsNaN", is_nan},
    {"LeakyRelu", leaky_relu},
    {"Less", comparison<C::kLess>, fold_binary<A::kLess>},
    {"LessOrEqual", comparison<C::kLessEqual>, fold_binary<A::kLessEqual>},
    {"Log", unary<Opcode::k_log>},
    {"Max", variadic<Opcode::k_maximum>, fold_binary<A::kMaximum>},
    {"Mean", mean},
    {"Min", variadic<Opcode::k_minimum>, fold_binary<A::kMinimum>},
    {"Mish", mish},
    {"Mod", binary<Opcode::k_remainder>, fold_binary<A::kModulo>},
    {"Mul", binary<Opcode::k_multiply>, fold_binary<A::kMultiply>},
    {"Neg", unary<Opcode::k_negate>, fold_unary<negated>},
    {"Not", unary<Opcode::k_not>, fold_unary<logical_not>},
    {"Or", binary<Opcode::k_or>, fold_binary<A::kOr>},
    {"PRelu", parametric_relu},
    {"Pow", power, fold_binary<A::kPower>},
    {"Reciprocal", reciprocal_rule, fold_unary<reciprocal>},
    {"Relu", unary<Opcode::k_relu>},
    {"Round", unary<Opcode::k_round_nearest_even>, fold_unary<rounded>},
    {"ScaledTanh", scaled_tanh},
    {"Selu", selu},
    {"Shrink", shrink},
    {"Sigmoid", unary<Opcode::k_logistic>},
    {"Sign", unary<Opcode::k_sign>, fold_unary<sign_of>},
    {"Sin", unary<Opcode::k_sine>},
    {"Sinh", unary<Opcode::k_sinh>},
    {"Softplus", softplus},
    {"Softsign", softsign},
    {"Sqrt", unary<Opcode::k_sqrt>, fold_unary<square_root>},
    {"Sub", binary<Opcode::k_subtract>, fold_binary<A::kSubtract>},
    {"Sum", variadic<Opcode::k_add>, fold_binary<A::kAdd>},
    {"Swish", swish},
    {"Tan", unary<Opcode::k_tan>},
    {"Tanh", unary<Opcode::k_tanh>},
    {"ThresholdedRelu", thresholded_relu},
    {"Where", where, fold_where},
    {"Xor", binary<Opcode::k_xor>, fold_binary<A::kXor>},
};

}  // namespace

std::span<const OperatorRule> elementwise_rules() { return kRules; }

}  // namespace orrery::onnx
