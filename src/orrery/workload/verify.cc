#include "orrery/workload/verify.h"

#include <fmt/format.h>

#include <algorithm>

namespace orrery {
namespace {

/// Rules downstream follow calls and regions by recursion: the longest chain of both.
constexpr size_t kMaxNesting = 500;

uint32_t least_indexed_operands(Opcode code) {
  switch (code) {
    case Opcode::k_scatter:
      return 3;
    case Opcode::k_slice:
    case Opcode::k_resize:
    case Opcode::k_gather:  // of a diagonal, the places are known
    case Opcode::k_dynamic_slice:
      return 1;  // of a scalar, there are no indices
    default:
      return 2;
  }
}

class Verifier {
 public:
  Verifier(const Workload& workload, const Source& source) : w_(workload), source_(source) {}

  void run() {
    if (!w_.entry().valid())
      throw_input(source_.name(), "there is no function with a body in this file");
    for (uint32_t i = 0; i < w_.ops().size(); ++i) check(OpId{i});
    check_calls();
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    source_.fail(op_->raw().offset, fmt::format("{}: {}", name(op_->code()), message));
  }
  /// The message is put together only when it is needed: this runs for every operand.
  template <class... Args>
  void require(bool condition, fmt::format_string<Args...> message, Args&&... args) const {
    if (!condition) fail(fmt::format(message, std::forward<Args>(args)...));
  }
  void operands(uint32_t least) const {
    if (op_->operand_count() < least)
      fail(fmt::format("{} operands, at least {} expected", op_->operand_count(), least));
  }
  void results(uint32_t least) const {
    if (op_->result_count() < least)
      fail(fmt::format("{} results, at least {} expected", op_->result_count(), least));
  }
  void tensor_operand(uint32_t i) const {
    require(op_->operand_type(i).kind == Type::Kind::kTensor, "operand {} must be a tensor", i);
  }
  void rank(uint32_t operand, int expected) const {
    tensor_operand(operand);
    if (op_->operand_type(operand).rank() != expected)
      fail(fmt::format("operand {} has {} dimensions, {} expected", operand,
                       op_->operand_type(operand).rank(), expected));
  }
  /// Each within `rank` and named once; `seen` has those that other lists named.
  void dimensions_of(Attr key, int rank, std::string_view what, uint64_t* seen = nullptr) const {
    uint64_t own = 0;  // at most 64 dimensions
    uint64_t& named = seen == nullptr ? own : *seen;
    for (int64_t d : op_->integers(key)) {
      if (d < 0 || d >= rank)
        fail(fmt::format("{} {} is outside the {} dimensions", what, d, rank));
      const uint64_t bit = uint64_t{1} << d;
      if ((named & bit) != 0) fail(fmt::format("{} {} is named twice", what, d));
      named |= bit;
    }
  }
  void dimension_of(Attr key, int rank, std::string_view what) const {
    const int64_t d = op_->integer(key, 0);
    if (d < 0 || d >= rank) fail(fmt::format("{} {} is outside the {} dimensions", what, d, rank));
  }

  void check(OpId id) {
    const OpView view = w_.view(id);
    op_ = &view;
    for (uint32_t i = 0; i < view.operand_count(); ++i) {
      const ValueId v = view.operand(i);
      require(v.index < w_.values().size() && w_.value(v).type.valid(), "operand {} is not defined",
              i);
      const OpId definition = w_.value(v).definition;
      require(!definition.valid() || definition < id, "operand {} is used before its definition",
              i);
    }
    for (uint32_t i = 0; i < view.result_count(); ++i)
      require(w_.value(view.result(i)).type.valid(), "result {} has no type", i);

    switch (op_class(view.code())) {
      case OpClass::kVector:
      case OpClass::kTranscendental:
        operands(1);
        results(1);
        break;
      case OpClass::kContraction:
        check_contraction();
        break;
      case OpClass::kReduction:
        check_reduction();
        break;
      case OpClass::kMove:
        operands(1);
        results(1);
        if (view.code() == Opcode::k_transpose) {
          tensor_operand(0);
          dimensions_of(Attr::kDimensions, view.operand_type(0).rank(), "dimension");
        }
        break;
      case OpClass::kIndexed:
        operands(least_indexed_operands(view.code()));
        results(1);
        break;
      case OpClass::kLibrary:
        if (view.code() == Opcode::k_custom_call) check_custom_call();
        break;
      case OpClass::kControl:
        check_control();
        break;
      case OpClass::kCollective:
      case OpClass::kView:
      case OpClass::kConstant:
      case OpClass::kGenerate:
      case OpClass::kUnknown:
        break;
    }
    op_ = nullptr;
  }

  void check_dot(const Type& lhs, const Type& rhs) const {
    const auto lc = op_->integers(Attr::kLhsContracting), rc = op_->integers(Attr::kRhsContracting);
    const auto lb = op_->integers(Attr::kLhsBatching), rb = op_->integers(Attr::kRhsBatching);
    require(lc.size() == rc.size() && lb.size() == rb.size(),
            "dimension lists of both sides must be of one length");
    uint64_t of_lhs = 0, of_rhs = 0;
    dimensions_of(Attr::kLhsContracting, lhs.rank(), "contracting dimension", &of_lhs);
    dimensions_of(Attr::kRhsContracting, rhs.rank(), "contracting dimension", &of_rhs);
    dimensions_of(Attr::kLhsBatching, lhs.rank(), "batching dimension", &of_lhs);
    dimensions_of(Attr::kRhsBatching, rhs.rank(), "batching dimension", &of_rhs);
    const auto match = [&](std::span<const int64_t> l, std::span<const int64_t> r,
                           std::string_view what) {
      for (size_t i = 0; i < l.size(); ++i) {
        const int64_t a = lhs.dims[static_cast<size_t>(l[i])],
                      b = rhs.dims[static_cast<size_t>(r[i])];
        if (a != b && a != kDynamic && b != kDynamic)
          fail(fmt::format("{} sizes {} and {} differ", what, a, b));
      }
    };
    match(lc, rc, "contracting");
    match(lb, rb, "batching");
  }
  void check_convolution(const Type& input, const Type& kernel) const {
    require(!op_->integers(Attr::kKernelSpatial).empty() || kernel.rank() == 2,
            "no dimension numbers");
    dimension_of(Attr::kInputBatch, input.rank(), "input batch dimension");
    dimension_of(Attr::kInputFeature, input.rank(), "input feature dimension");
    dimensions_of(Attr::kInputSpatial, input.rank(), "input spatial dimension");
    dimension_of(Attr::kKernelInput, kernel.rank(), "kernel input dimension");
    dimension_of(Attr::kKernelOutput, kernel.rank(), "kernel output dimension");
    dimensions_of(Attr::kKernelSpatial, kernel.rank(), "kernel spatial dimension");
    for (Attr key : {Attr::kFeatureGroups, Attr::kBatchGroups})
      within(op_->integer(key, 1), 1, "number of groups");
    for (Attr key : {Attr::kWindowStrides, Attr::kBaseDilation, Attr::kWindowDilation})
      for (int64_t d : op_->integers(key)) within(d, 1, "stride or dilation");
    for (Attr key : {Attr::kPaddingLow, Attr::kPaddingHigh})
      for (int64_t d : op_->integers(key)) within(d, -kFarthest, "padding");
  }
  /// No window reaches farther, and sums of sizes stay far from overflow.
  static constexpr int64_t kFarthest = int64_t{1} << 40;
  void within(int64_t number, int64_t least, std::string_view what) const {
    if (number < least || number > kFarthest) fail(fmt::format("{} is no {}", number, what));
  }

  void check_contraction() const {
    operands(2);
    results(1);
    for (uint32_t i = 0; i < 2; ++i) tensor_operand(i);
    switch (op_->code()) {
      case Opcode::k_dot_general:
      case Opcode::k_scaled_dot:
        check_dot(op_->operand_type(0), op_->operand_type(1));
        break;
      case Opcode::k_convolution:
      case Opcode::k_dynamic_conv:
        check_convolution(op_->operand_type(0), op_->operand_type(1));
        break;
      case Opcode::k_attention:
      case Opcode::k_linear_attention:
        operands(3);
        for (uint32_t i = 0; i < 3; ++i) rank(i, 4);
        break;
      case Opcode::k_attention_backward:
      case Opcode::k_linear_attention_backward:
        operands(4);
        for (uint32_t i = 1; i < 4; ++i) rank(i, 4);
        break;
      default:
        break;
    }
  }
  void check_reduction() const {
    operands(1);
    tensor_operand(0);
    results(1);
    if (op_->code() == Opcode::k_select_and_scatter) operands(2);
    if (op_->code() != Opcode::k_batch_norm_grad && op_->code() != Opcode::k_batch_norm_training &&
        op_->code() != Opcode::k_batch_norm_inference)
      dimensions_of(Attr::kDimensions, op_->operand_type(0).rank(), "dimension");
    if (op_->code() == Opcode::k_scan) check_scan();
  }
  /// Its body takes a slice of each operand and returns one of each result.
  void check_scan() const {
    for (RegionId r : op_->raw_regions()) {
      const uint32_t taken = w_.region(r).argument_count;
      require(taken == op_->operand_count(), "the body takes {} values, {} operands given", taken,
              op_->operand_count());
      for_each_op(w_, w_.region(r), [&](OpId id) {
        const OpView end = w_.view(id);
        require(end.code() != Opcode::k_return || end.operand_count() == op_->result_count(),
                "the body returns {} values, {} results named", end.operand_count(),
                op_->result_count());
      });
    }
  }
  void check_custom_call() const {
    if (op_->operand_count() < 2) return;
    const Type& a = op_->operand_type(0);
    const Type& b = op_->operand_type(1);
    if (a.kind != Type::Kind::kTensor || b.kind != Type::Kind::kTensor) {
      require(op_->integers(Attr::kLhsContracting).empty() &&
                  op_->integers(Attr::kKernelSpatial).empty(),
              "a library product needs two tensors");
      return;
    }
    if (!op_->integers(Attr::kLhsContracting).empty()) check_dot(a, b);
    if (!op_->integers(Attr::kKernelSpatial).empty()) check_convolution(a, b);
  }
  void check_function(FunctionId f) const {
    require(f.index < w_.functions().size(), "its callee does not exist");
  }
  void check_control() const {
    for (Attr key : {Attr::kCallee, Attr::kCondition})
      if (op_->has(key)) check_function(op_->callee(key));
    for (int64_t branch : op_->integers(Attr::kBranches))
      require(branch >= 0 && branch < static_cast<int64_t>(w_.functions().size()),
              "its branch does not exist");
    switch (op_->code()) {
      case Opcode::k_call: {
        const FunctionId f = op_->callee();
        require(f.valid(), "no function is named");
        const Function& callee = w_.function(f);
        if (!callee.body.valid()) {
          require(callee.result_types.size() == op_->result_count(),
                  "function '@{}' is not defined in this file", w_.string(callee.name));
          break;
        }
        const uint32_t expected = w_.region(callee.body).argument_count;
        if (expected != op_->operand_count())
          fail(fmt::format("'@{}' takes {} arguments, {} given", w_.string(callee.name), expected,
                           op_->operand_count()));
        break;
      }
      case Opcode::k_while: {
        const size_t regions = op_->raw_regions().size();
        require(regions == 2 ||
                    (op_->callee(Attr::kCallee).valid() && op_->callee(Attr::kCondition).valid()),
                "a condition and a body are expected");
        for (RegionId r : op_->raw_regions())
          require(w_.region(r).argument_count == op_->operand_count(),
                  "the bodies' arguments do not match the operands");
        break;
      }
      default:
        break;
    }
  }
  /// Functions that (in)directly call themselves have no finite cost.
  void check_calls() {
    const size_t count = w_.functions().size();
    struct Call {
      uint32_t callee;
      uint32_t op;
      size_t depth;  ///< Regions around it.
    };
    std::vector<std::vector<Call>> calls(count);
    for (uint32_t f = 0; f < count; ++f) {
      const Function& function = w_.functions()[f];
      if (!function.body.valid()) continue;
      const Region& body = w_.region(function.body);
      std::vector<uint32_t> around;  // ends of the operations around this one
      for (uint32_t i = body.first_op; i < body.end_op; ++i) {
        while (!around.empty() && around.back() <= i) around.pop_back();
        const OpView op = w_.view(OpId{i});
        const auto add = [&](uint32_t callee) { calls[f].push_back({callee, i, around.size()}); };
        for (Attr key : {Attr::kCallee, Attr::kCondition})
          if (const FunctionId c = op.callee(key); c.valid() && c.index < count) add(c.index);
        for (int64_t branch : op.integers(Attr::kBranches))
          if (branch >= 0 && branch < static_cast<int64_t>(count))
            add(static_cast<uint32_t>(branch));
        if (op.raw().end > i + 1) around.push_back(op.raw().end);
      }
    }
    enum class Mark : uint8_t { kNew, kOpen, kDone };
    std::vector<Mark> marks(count, Mark::kNew);
    std::vector<size_t> nesting(count);              // of calls and regions below
    std::vector<std::pair<uint32_t, size_t>> stack;  // function, next call
    for (uint32_t root = 0; root < count; ++root) {
      if (marks[root] != Mark::kNew) continue;
      stack.emplace_back(root, 0);
      marks[root] = Mark::kOpen;
      while (!stack.empty()) {
        auto& [f, next] = stack.back();
        if (next == calls[f].size()) {
          marks[f] = Mark::kDone;
          for (const Call& call : calls[f]) {
            nesting[f] = std::max(nesting[f], call.depth + 1 + nesting[call.callee]);
            if (nesting[f] > kMaxNesting)
              source_.fail(
                  w_.ops()[call.op].offset,
                  fmt::format("calls and regions nest deeper than {} levels", kMaxNesting));
          }
          stack.pop_back();
          continue;
        }
        const Call call = calls[f][next++];
        if (marks[call.callee] == Mark::kOpen)
          source_.fail(w_.ops()[call.op].offset,
                       fmt::format("function '@{}' calls itself",
                                   w_.string(w_.functions()[call.callee].name)));
        if (marks[call.callee] == Mark::kNew) {
          marks[call.callee] = Mark::kOpen;
          stack.emplace_back(call.callee, 0);
        }
      }
    }
  }

  const Workload& w_;
  const Source& source_;
  const OpView* op_ = nullptr;
};

}  // namespace

void verify(const Workload& workload, const Source& source) { Verifier(workload, source).run(); }

}  // namespace orrery
