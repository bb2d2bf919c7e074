#include "orrery/workload/cost.h"

#include <algorithm>
#include <cmath>

#include "orrery/workload/cost_formula.h"

namespace orrery {
namespace {

/// Threefry-2x32, the generator JAX and XLA default to: 20 rounds of an add, a
/// rotation (two shifts and an or) and an xor make two words (Salmon et al., SC'11).
constexpr double kOpsPerRandomWord = 20 * 5 / 2.0;

constexpr double kForwardOfBackwardAttention =
    2.5;  // five products instead of two (FlashAttention-2, §3.1)

double elements(const Type& type) { return static_cast<double>(type.elements); }
double bytes(const Type& type) { return static_cast<double>(type.bytes); }

class Costing {
 public:
  Costing(const Workload& workload, OpId id) : w_(workload), op_(workload.view(id)) {}

  Cost run() {
    if (op_.result_count() > 0) cost_.vector_type = op_.result_type(0).element;
    switch (op_class(op_.code())) {
      case OpClass::kView:
      case OpClass::kConstant:
      case OpClass::kControl:
      case OpClass::kUnknown:
        return {};
      case OpClass::kVector:
      case OpClass::kTranscendental:
        elementwise();
        break;
      case OpClass::kGenerate:
        generate();
        break;
      case OpClass::kMove:
        move();
        break;
      case OpClass::kIndexed:
        indexed();
        break;
      case OpClass::kContraction:
        contraction();
        break;
      case OpClass::kReduction:
        reduction();
        break;
      case OpClass::kLibrary:
        library();
        break;
      case OpClass::kCollective:
        collective();
        break;
    }
    drop_unused_types(cost_);
    return cost_;
  }

 private:
  void read_operand(uint32_t i, double fraction = 1) {
    if (i < op_.operand_count()) cost_.bytes_read += fraction * bytes(op_.operand_type(i));
  }
  /// Every operand once, however often it is named.
  void read_operands(uint32_t first = 0) {
    for (uint32_t i = first; i < op_.operand_count(); ++i) {
      bool repeated = false;
      for (uint32_t j = first; j < i && i < first + 16; ++j)
        repeated |= op_.operand(j) == op_.operand(i);
      if (!repeated) read_operand(i);
    }
  }
  void write_results() {
    for (uint32_t i = 0; i < op_.result_count(); ++i)
      cost_.bytes_written += bytes(op_.result_type(i));
  }
  /// Behind what a library's call gives may stand the workspace it asks for, as a row of bytes.
  void write_results_of_library() {
    if (op_.result_count() != 1 || op_.result_type(0).kind != Type::Kind::kTuple)
      return write_results();
    bool first = true;
    for (TypeId member : op_.result_type(0).members) {
      const Type& type = w_.type(member);
      const bool workspace = !first && type.rank() == 1 && bit_width(type.element) == 8;
      if (!workspace) cost_.bytes_written += bytes(type);
      first = false;
    }
  }
  void compute(double count, PerElement per_element) { add_work(cost_, count, per_element); }
  /// What one execution of the operation's scalar body takes; `otherwise` without one.
  PerElement body(PerElement otherwise) {
    const auto bodies = op_.bodies();
    if (bodies.empty()) return otherwise;
    PerElement sum;
    for (RegionId r : bodies) {
      for_each_op(w_, w_.region(r), [&](OpId id) {
        const OpClass c = op_class(w_.op(id).code);
        if (c == OpClass::kVector) sum.vector += 1;
        if (c == OpClass::kTranscendental) sum.transcendental += 1;
      });
    }
    return sum;
  }
  ElementType matrix_type(ElementType lhs, ElementType rhs) const {
    const int64_t asked = op_.integer(Attr::kComputeType, -1);
    return asked >= 0 && asked < kElementTypeCount ? static_cast<ElementType>(asked)
                                                   : wider_type(lhs, rhs);
  }
  void matrix(double products, ElementType lhs, ElementType rhs) {
    add_products(cost_, products, matrix_type(lhs, rhs));
  }

  void elementwise() {
    const Type& result = op_.result_type(0);
    const double n = elements(result);
    if (op_.code() == Opcode::k_convert && op_.operand_type(0).element == result.element) return;
    // The work is in the type that is computed on: compare's operands, not its booleans.
    if (op_.operand_count() > 0)
      cost_.vector_type = op_.operand_type(op_.operand_count() - 1).element;
    compute(n, op_.code() == Opcode::k_map ? body({1, 0})
                                           : elementwise_work(op_.code(), result.element));
    read_operands();
    write_results();
  }

  void generate() {
    const double n = op_.result_count() > 0 ? elements(op_.result_type(op_.result_count() - 1)) : 0;
    const bool iota = op_.code() == Opcode::k_iota || op_.code() == Opcode::k_dynamic_iota;
    compute(n, {iota ? 1 : kOpsPerRandomWord, 0});
    read_operands();
    write_results();
  }

  void move() {
    if (op_.code() == Opcode::k_transpose &&
        moves_unit_dimensions_only(op_.operand_type(0).dims, op_.integers(Attr::kDimensions)))
      return;
    if (op_.code() == Opcode::k_dynamic_reshape) return;
    read_operands();
    write_results();
  }

  void indexed() {
    switch (op_.code()) {
      case Opcode::k_dynamic_update_slice:
        read_operand(1);
        cost_.bytes_written += bytes(op_.operand_type(1));
        return;
      case Opcode::k_scatter: {
        // Inputs, then indices, then as many updates as inputs.
        const uint32_t inputs = std::max(1u, op_.operand_count() / 2);
        read_operand(inputs);
        for (uint32_t i = inputs + 1; i < op_.operand_count(); ++i) {
          compute(elements(op_.operand_type(i)), body({1, 0}));
          read_operand(i, 2);  // the update, and what it is combined with
          cost_.bytes_written += bytes(op_.operand_type(i));
        }
        return;
      }
      case Opcode::k_gather:
      case Opcode::k_dynamic_gather:
      case Opcode::k_torch_index_select:
        read_operand(1);
        break;
      case Opcode::k_resize:
        compute(elements(op_.result_type(0)), {7, 0});
        break;  // bilinear: 4 products, 3 sums
      default:
        break;
    }
    for (uint32_t i = 0; i < op_.result_count(); ++i) cost_.bytes_read += bytes(op_.result_type(i));
    write_results();
  }

  void contraction() {
    switch (op_.code()) {
      case Opcode::k_attention:
        attention(1);
        break;
      case Opcode::k_attention_backward:
        attention(kForwardOfBackwardAttention);
        break;
      case Opcode::k_linear_attention:
        linear_attention(1);
        break;
      case Opcode::k_linear_attention_backward:
        linear_attention(2);
        break;
      case Opcode::k_convolution:
      case Opcode::k_dynamic_conv:
        convolution(0, 1, op_.result_type(0));
        break;
      case Opcode::k_grouped_dot:
        grouped_dot();
        return;
      default:
        dot(0, 1, op_.result_type(0));
        break;
    }
    read_operands();
    write_results();
  }

  /// FLOPs = 2 · |result| · Π contracted sizes.
  void dot(uint32_t lhs, uint32_t rhs, const Type& result) {
    const Type& l = op_.operand_type(lhs);
    double depth = 1;
    if (op_.code() == Opcode::k_einsum) {
      depth = einsum_depth();
    } else if (const auto contracting = op_.integers(Attr::kLhsContracting); !contracting.empty()) {
      for (int64_t d : contracting)
        depth *= static_cast<double>(std::max<int64_t>(1, l.dims[static_cast<size_t>(d)]));
    } else if (op_.code() == Opcode::k_dot && l.rank() > 0) {
      depth = static_cast<double>(std::max<int64_t>(1, l.dims.back()));
    }
    matrix(elements(result) * depth, l.element, op_.operand_type(rhs).element);
  }
  /// Of "ab,bc->ac": the product of the sizes of letters that the result lacks.
  double einsum_depth() const {
    const std::string_view config = op_.string(Attr::kConfig);
    const size_t arrow = config.find("->");
    if (arrow == std::string_view::npos) return 1;
    double depth = 1;
    std::string seen;
    uint32_t operand = 0;
    size_t dim = 0;
    for (char c : config.substr(0, arrow)) {
      if (c == ',') {
        ++operand;
        dim = 0;
        continue;
      }
      if (operand >= op_.operand_count()) break;
      const Type& type = op_.operand_type(operand);
      if (dim >= type.dims.size()) continue;
      const int64_t size = type.dims[dim++];
      if (config.find(c, arrow) != std::string_view::npos || seen.find(c) != std::string::npos)
        continue;
      seen += c;
      depth *= static_cast<double>(std::max<int64_t>(1, size));
    }
    return depth;
  }

  /// FLOPs = 2 · |output| · Π kernel window · input features of a group, less the
  /// products with zeros that a dilated input (the gradient of a stride) inserts.
  /// Padding counts: libraries multiply it.
  void convolution(uint32_t input, uint32_t kernel, const Type& output) {
    const Type& k = op_.operand_type(kernel);
    double per_output =
        static_cast<double>(k.dims[static_cast<size_t>(op_.integer(Attr::kKernelInput, 0))]);
    for (int64_t d : op_.integers(Attr::kKernelSpatial))
      per_output *= static_cast<double>(k.dims[static_cast<size_t>(d)]);
    for (int64_t d : op_.integers(Attr::kBaseDilation))
      per_output /= static_cast<double>(std::max<int64_t>(1, d));
    matrix(elements(output) * per_output, op_.operand_type(input).element, k.element);
  }

  void grouped_dot() {
    const Type& x = op_.operand_type(0);
    const Type& w = op_.operand_type(1);
    const Type& result = op_.result_type(0);
    if (w.rank() >= 3) {
      const auto groups = static_cast<double>(std::max<int64_t>(1, w.dims[0]));
      const double depth =
          x.rank() > 0 ? static_cast<double>(std::max<int64_t>(1, x.dims.back())) : 1;
      matrix(elements(result) * depth, x.element, w.element);
      const double rows = elements(x) / depth;
      const auto active = static_cast<double>(op_.integer(Attr::kActiveGroups, -1));
      read_operand(0);
      read_operand(1, active_share(groups, rows, active));
      for (uint32_t i = 2; i < op_.operand_count(); ++i) read_operand(i);
    } else {  // the gradient of the weights: rows of x meet rows of dy
      const double columns =
          w.rank() > 0 ? static_cast<double>(std::max<int64_t>(1, w.dims.back())) : 1;
      matrix(elements(x) * columns, x.element, w.element);
      read_operands();
    }
    write_results();
  }

  /// Two products of s·t·d a head, over the pairs that the mask leaves, and a
  /// softmax of each score.
  void attention(double factor) {
    const uint32_t q_at = op_.code() == Opcode::k_attention_backward ? 1 : 0;
    const Type& q = op_.operand_type(q_at);
    const Type& k = op_.operand_type(q_at + 1);
    const Type& v = op_.operand_type(q_at + 2);
    const double heads = static_cast<double>(q.dims[0]) * static_cast<double>(q.dims[1]);
    const auto s = static_cast<double>(q.dims[2]);
    const auto t = static_cast<double>(k.dims[2]);
    const AttentionMask mask = attention_mask(s, t, op_.integer(Attr::kCausal, 0) != 0,
                                              static_cast<double>(op_.integer(Attr::kWindow, 0)));
    // Keys and values that no query sees are not read.
    cost_.bytes_read -= mask.unseen * bytes(k);
    if (op_.operand(q_at + 1) != op_.operand(q_at + 2)) cost_.bytes_read -= mask.unseen * bytes(v);
    // Where values are the first columns of the keys (MLA), the result is narrower than both.
    const Type& values = q_at == 0 && op_.result_type(0).rank() == 4 ? op_.result_type(0) : v;
    const double depth = static_cast<double>(q.dims[3]) + static_cast<double>(values.dims[3]);
    add_attention(cost_, heads, mask.pairs, depth, matrix_type(q.element, k.element), factor);
  }

  /// State-space scan or gated delta rule with a d×dv state a head. Chunked form
  /// of length c: within chunks c·(d + dv) products a token (whole squares are computed),
  /// between them 2·d·dv.
  void linear_attention(double factor) {
    const uint32_t q_at = op_.code() == Opcode::k_linear_attention_backward ? 1 : 0;
    const Type& q = op_.operand_type(q_at);
    const Type& v = op_.operand_type(q_at + 2);
    const double tokens = static_cast<double>(v.dims[0]) * static_cast<double>(v.dims[1]);
    const auto heads = static_cast<double>(v.dims[2]);
    const auto d = static_cast<double>(q.dims[3]);
    const auto dv = static_cast<double>(v.dims[3]);
    const auto chunk =
        std::min(static_cast<double>(std::max<int64_t>(1, op_.integer(Attr::kWindow, 1))),
                 static_cast<double>(std::max<int64_t>(1, v.dims[1])));
    const double within = chunk > 1 ? chunk * (d + dv) : 0;
    matrix(factor * tokens * heads * (within + 2 * d * dv), q.element, v.element);
    compute(factor * tokens * heads * (d + dv), {2, 0});
  }

  void reduction() {
    const Type& input = op_.operand_type(0);
    const double n = elements(input);
    const double out = op_.result_count() > 0 ? elements(op_.result_type(0)) : 0;
    cost_.vector_type = input.element;
    switch (op_.code()) {
      case Opcode::k_reduce:
        compute(std::max(0.0, n - out), body({1, 0}));
        break;
      case Opcode::k_reduce_window: {
        double window = 1;
        for (int64_t d : op_.integers(Attr::kWindowSize)) window *= static_cast<double>(d);
        compute(out * window, body({1, 0}));
        break;
      }
      case Opcode::k_select_and_scatter: {
        double window = 1;
        for (int64_t d : op_.integers(Attr::kWindowSize)) window *= static_cast<double>(d);
        compute(elements(op_.operand_type(1)) * window, {1, 0});
        break;
      }
      case Opcode::k_sort: {
        const auto dims = op_.integers(Attr::kDimensions);
        const int64_t at = dims.empty() ? input.rank() - 1 : dims[0];
        const double length = at >= 0 && at < input.rank()
                                  ? static_cast<double>(input.dims[static_cast<size_t>(at)])
                                  : 1;
        const double comparisons = row_work(Opcode::k_sort, length).vector;
        compute(n * comparisons, body({1, 0}));
        break;
      }
      case Opcode::k_scan:
        scan(input, n);
        break;
      case Opcode::k_top_k:
        compute(n, row_work(Opcode::k_top_k, static_cast<double>(op_.integer(Attr::kK, 1))));
        break;
      default:
        compute(n, row_work(op_.code(), 0));
        break;
    }
    read_operands();
    write_results();
  }

  /// Each step runs the body on a slice of the inputs; without a body it adds. Scans inside the
  /// body are not followed: functions that scan by one another would be walked exponentially often.
  void scan(const Type& input, double n) {
    const auto bodies = op_.bodies();
    if (bodies.empty()) return compute(n, row_work(Opcode::k_scan, 0));
    double steps = 1;
    for (int64_t d : op_.integers(Attr::kDimensions))
      steps *= static_cast<double>(std::max<int64_t>(0, input.dims[static_cast<size_t>(d)]));
    for (RegionId r : bodies) {
      for_each_op(w_, w_.region(r), [&](OpId id) {
        if (w_.op(id).code == Opcode::k_scan) return;
        const Cost step = orrery::cost(w_, id);
        if (step.matrix_flops > 0) cost_.matrix_type = step.matrix_type;
        cost_.matrix_flops += steps * step.matrix_flops;
        cost_.vector_flops += steps * step.vector_flops;
        cost_.transcendental_flops += steps * step.transcendental_flops;
      });
    }
  }

  void library() {
    const Type& a = op_.operand_count() > 0 ? op_.operand_type(0) : kNoType;
    switch (op_.code()) {
      case Opcode::k_fft: {
        // 5·N·log2 N for each transform of N points (the convention of the FFTW benchmark).
        double points = 1;
        for (int64_t d : op_.integers(Attr::kLength))
          points *= static_cast<double>(std::max<int64_t>(1, d));
        compute(elements(a) * 5 * std::log2(std::max(2.0, points)), {1, 0});
        break;
      }
      case Opcode::k_cholesky:  // n³/3 a matrix
        if (a.rank() >= 2) compute(elements(a) * static_cast<double>(a.dims.back()) / 3, {1, 0});
        break;
      case Opcode::k_triangular_solve:  // n² for each right-hand side
        if (op_.operand_count() > 1 && a.rank() >= 1)
          compute(elements(op_.operand_type(1)) * static_cast<double>(a.dims.back()), {1, 0});
        break;
      case Opcode::k_custom_call: {
        // Library calls that a reader could describe: GEMM, convolution, attention.
        if (op_.operand_count() < 2 || op_.result_count() == 0) break;
        const Type& result = first_tensor(op_.result_type(0));
        if (op_.integers(Attr::kScores).size() == 4)
          library_attention(a, result);
        else if (!op_.integers(Attr::kLhsContracting).empty())
          dot(0, 1, result);
        else if (!op_.integers(Attr::kKernelSpatial).empty())
          convolution(0, 1, result);
        break;
      }
      default:
        break;
    }
    read_operands();
    write_results_of_library();
  }
  /// An attention call whose scores are [batch, heads, queries, keys]: head sizes
  /// follow from the elements of the query and of the result.
  void library_attention(const Type& query, const Type& result) {
    const auto scores = op_.integers(Attr::kScores);
    double rows = 1;
    for (size_t i = 0; i < 3; ++i) rows *= static_cast<double>(std::max<int64_t>(1, scores[i]));
    const auto s = static_cast<double>(scores[2]), t = static_cast<double>(scores[3]);
    double keys = t;
    if (op_.integer(Attr::kCausal, 0) != 0 && s > 0) keys = t - s + (s + 1) / 2;
    if (const auto window = static_cast<double>(op_.integer(Attr::kWindow, 0)); window > 0)
      keys = std::min(keys, window);
    const bool backward = op_.string(Attr::kTarget).find("Backward") != std::string_view::npos;
    const double factor = backward ? kForwardOfBackwardAttention : 1;
    matrix(factor * std::max(0.0, keys) * (elements(query) + elements(result)), query.element,
           query.element);
    cost_.vector_type = ElementType::kF32;
    compute(factor * rows * std::max(0.0, keys), row_work(Opcode::k_softmax, 0));
  }
  const Type& first_tensor(const Type& type) const {
    return type.kind == Type::Kind::kTuple && !type.members.empty() ? w_.type(type.members[0])
                                                                    : type;
  }

  void collective() {
    if (op_.integer(Attr::kAsync, 0) == 2) return;  // the wait for what a start did
    if (op_.code() == Opcode::k_all_reduce || op_.code() == Opcode::k_reduce_scatter ||
        op_.code() == Opcode::k_collective_reduce || op_.code() == Opcode::k_cross_replica_sum) {
      for (uint32_t i = 0; i < op_.operand_count(); ++i)
        compute(elements(op_.operand_type(i)), {1, 0});
      if (op_.operand_count() > 0) cost_.vector_type = op_.operand_type(0).element;
    }
    read_operands();
    write_results();
    // A -start's results name its operands again beside what it makes.
    if (op_.integer(Attr::kAsync, 0) == 1 && cost_.bytes_written > cost_.bytes_read)
      cost_.bytes_written -= cost_.bytes_read;
  }

  inline static const Type kNoType;
  const Workload& w_;
  OpView op_;
  Cost cost_;
};

void pick(const TotalCost& candidate, double& most, TotalCost& costliest) {
  if (candidate.weight() <= most) return;
  most = candidate.weight();
  costliest = candidate;
}

}  // namespace

Cost cost(const Workload& workload, OpId op) { return Costing(workload, op).run(); }

double TotalCost::flops(Unit unit) const {
  double sum = 0;
  for (double f : flops_by_unit_and_type[static_cast<size_t>(unit)]) sum += f;
  return sum;
}

double TotalCost::flops() const {
  return flops(Unit::kMatrix) + flops(Unit::kVector) + flops(Unit::kTranscendental);
}

void TotalCost::add(const Cost& cost, double times) {
  const auto at = [&](Unit unit, ElementType type) -> double& {
    return flops_by_unit_and_type[static_cast<size_t>(unit)][static_cast<size_t>(type)];
  };
  at(Unit::kMatrix, cost.matrix_type) += times * cost.matrix_flops;
  at(Unit::kVector, cost.vector_type) += times * cost.vector_flops;
  at(Unit::kTranscendental, cost.vector_type) += times * cost.transcendental_flops;
  bytes_read += times * cost.bytes_read;
  bytes_written += times * cost.bytes_written;
}

void TotalCost::add(const TotalCost& other, double times) {
  for (size_t unit = 0; unit < flops_by_unit_and_type.size(); ++unit)
    for (size_t type = 0; type < kElementTypeCount; ++type)
      flops_by_unit_and_type[unit][type] += times * other.flops_by_unit_and_type[unit][type];
  bytes_read += times * other.bytes_read;
  bytes_written += times * other.bytes_written;
  operations += times * other.operations;
  unknown_trip_counts += other.unknown_trip_counts;
}

CostTotals::CostTotals(const Workload& workload)
    : w_(workload), known_(workload.functions().size()), functions_(workload.functions().size()) {}

const TotalCost& CostTotals::function(FunctionId id) {
  if (!known_[id.index]) {
    known_[id.index] = true;  // verify() refuses recursion; this guards against it all the same
    const Function& f = w_.function(id);
    if (f.body.valid()) functions_[id.index] = region(f.body);
  }
  return functions_[id.index];
}

TotalCost CostTotals::region(RegionId id) {
  TotalCost total;
  for_each_op(w_, w_.region(id), [&](OpId op) { add(op, total); });
  return total;
}

void CostTotals::add(OpId id, TotalCost& total) {
  const OpView op = w_.view(id);
  switch (op.code()) {
    case Opcode::k_while: {
      const int64_t trips = op.integer(Attr::kTripCount, -1);
      if (trips < 0) total.unknown_trip_counts += 1;
      add_bodies(op, total, trips < 0 ? 1 : static_cast<double>(trips));
      return;
    }
    case Opcode::k_if:
    case Opcode::k_case: {
      TotalCost costliest;
      double most = -1;
      for (RegionId r : op.raw_regions()) pick(region(r), most, costliest);
      for (int64_t f : op.integers(Attr::kBranches))
        pick(function(FunctionId{static_cast<uint32_t>(f)}), most, costliest);
      total.add(costliest, 1);
      return;
    }
    case Opcode::k_call:
    case Opcode::k_composite:
    case Opcode::k_fusion:
    case Opcode::k_async_start:
    case Opcode::k_manual_computation:
      add_bodies(op, total, 1);
      return;
    default: {
      const OpClass c = op_class(op.code());
      if (c == OpClass::kView || c == OpClass::kConstant || c == OpClass::kControl) return;
      total.add(cost(w_, id), 1);
      total.operations += 1;
    }
  }
}

void CostTotals::add_bodies(const OpView& op, TotalCost& total, double times) {
  for (RegionId r : op.raw_regions()) total.add(region(r), times);
  for (Attr key : {Attr::kCondition, Attr::kCallee})
    if (const FunctionId f = op.callee(key); f.valid()) total.add(function(f), times);
}

TotalCost total_cost(const Workload& workload, FunctionId function) {
  return CostTotals(workload).function(function);
}

}  // namespace orrery
