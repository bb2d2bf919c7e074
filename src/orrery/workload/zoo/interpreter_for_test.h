#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "orrery/base/error.h"
#include "orrery/workload/workload.h"

// Runs small workloads on doubles, by StableHLO's definitions, so that tests can
// compare derived gradients with finite differences. Layouts do not matter here.

namespace orrery {

struct Array {
  std::vector<int64_t> dims;
  std::vector<double> values;

  static Array filled(std::vector<int64_t> dims, double value) {
    Array a{std::move(dims), {}};
    a.values.assign(a.size(), value);
    return a;
  }
  size_t size() const {
    size_t n = 1;
    for (int64_t d : dims) n *= static_cast<size_t>(d);
    return n;
  }
  size_t offset(const std::vector<int64_t>& index) const {
    size_t o = 0;
    for (size_t i = 0; i < dims.size(); ++i)
      o = o * static_cast<size_t>(dims[i]) + static_cast<size_t>(index[i]);
    return o;
  }
  double at(const std::vector<int64_t>& index) const { return values[offset(index)]; }
  double& at(const std::vector<int64_t>& index) { return values[offset(index)]; }
  bool contains(const std::vector<int64_t>& index) const {
    for (size_t i = 0; i < dims.size(); ++i)
      if (index[i] < 0 || index[i] >= dims[i]) return false;
    return true;
  }
};

inline void for_each_index(const std::vector<int64_t>& dims,
                           const std::function<void(const std::vector<int64_t>&)>& visit) {
  std::vector<int64_t> index(dims.size(), 0);
  for (int64_t d : dims)
    if (d == 0) return;
  while (true) {
    visit(index);
    size_t i = dims.size();
    while (i > 0 && ++index[i - 1] == dims[i - 1]) index[--i] = 0;
    if (i == 0) return;
  }
}

class Interpreter {
 public:
  explicit Interpreter(const Workload& workload) : w_(workload) {}

  std::vector<Array> run(const std::vector<Array>& arguments) { return run(w_.entry(), arguments); }

 private:
  using Index = std::vector<int64_t>;

  std::vector<Array> run(FunctionId id, const std::vector<Array>& arguments) {
    const Region& body = w_.region(w_.function(id).body);
    std::map<uint32_t, Array> values;
    for (uint32_t i = 0; i < body.argument_count; ++i)
      values[body.first_argument + i] = arguments.at(i);
    std::vector<Array> returned;
    for_each_op(w_, body, [&](OpId op_id) {
      const OpView op = w_.view(op_id);
      std::vector<Array> in;
      for (uint32_t i = 0; i < op.operand_count(); ++i)
        in.push_back(values.at(op.operand(i).index));
      if (op.code() == Opcode::k_return) {
        returned = in;
        return;
      }
      const std::vector<Array> out =
          op.code() == Opcode::k_call ? run(op.callee(), in) : evaluate(op, in);
      for (uint32_t i = 0; i < op.result_count(); ++i) values[op.result(i).index] = out.at(i);
    });
    return returned;
  }

  static Index list(const OpView& op, Attr key) {
    const auto values = op.integers(key);
    return {values.begin(), values.end()};
  }
  static bool has(const Index& list, int64_t d) {
    return std::find(list.begin(), list.end(), d) != list.end();
  }
  static size_t n(int64_t i) { return static_cast<size_t>(i); }

  template <class F>
  static Array map(const std::vector<Array>& in, F f) {
    Array y = in[0];
    for (size_t i = 0; i < y.values.size(); ++i) y.values[i] = f(i);
    return y;
  }

  std::vector<Array> evaluate(const OpView& op, const std::vector<Array>& in) {
    Array out = Array::filled(op.result_type(0).dims, 0);
    const auto unary = [&](auto f) {
      return std::vector<Array>{map(in, [&](size_t i) { return f(in[0].values[i]); })};
    };
    const auto binary = [&](auto f) {
      return std::vector<Array>{
          map(in, [&](size_t i) { return f(in[0].values[i], in[1].values[i]); })};
    };
    switch (op.code()) {
      case Opcode::k_constant:
        out.values[0] = op.has(Attr::kRealValue)
                            ? op.real(Attr::kRealValue, 0)
                            : static_cast<double>(op.integers(Attr::kValue)[0]);
        return {out};
      case Opcode::k_iota:
        for_each_index(out.dims, [&](const Index& i) {
          out.at(i) = static_cast<double>(i[n(op.integers(Attr::kDimensions)[0])]);
        });
        return {out};
      case Opcode::k_convert:
        return unary(
            [&](double x) { return is_integer(op.result_type(0).element) ? std::trunc(x) : x; });
      case Opcode::k_relu:
        return unary([](double x) { return x > 0 ? x : 0; });
      case Opcode::k_gelu:
        return unary([](double x) { return x * 0.5 * (1 + std::erf(x * M_SQRT1_2)); });
      case Opcode::k_silu:
        return unary([](double x) { return x / (1 + std::exp(-x)); });
      case Opcode::k_tanh:
        return unary([](double x) { return std::tanh(x); });
      case Opcode::k_logistic:
        return unary([](double x) { return 1 / (1 + std::exp(-x)); });
      case Opcode::k_exponential:
        return unary([](double x) { return std::exp(x); });
      case Opcode::k_log:
        return unary([](double x) { return std::log(x); });
      case Opcode::k_log_plus_one:
        return unary([](double x) { return std::log1p(x); });
      case Opcode::k_sqrt:
        return unary([](double x) { return std::sqrt(x); });
      case Opcode::k_rsqrt:
        return unary([](double x) { return 1 / std::sqrt(x); });
      case Opcode::k_square:
        return unary([](double x) { return x * x; });
      case Opcode::k_sine:
        return unary([](double x) { return std::sin(x); });
      case Opcode::k_cosine:
        return unary([](double x) { return std::cos(x); });
      case Opcode::k_negate:
        return unary([](double x) { return -x; });
      case Opcode::k_erf:
        return unary([](double x) { return std::erf(x); });
      case Opcode::k_add:
        return binary([](double a, double b) { return a + b; });
      case Opcode::k_subtract:
        return binary([](double a, double b) { return a - b; });
      case Opcode::k_multiply:
        return binary([](double a, double b) { return a * b; });
      case Opcode::k_divide:
        return binary([&](double a, double b) {
          return is_integer(op.result_type(0).element) ? std::trunc(a / b) : a / b;
        });
      case Opcode::k_maximum:
        return binary([](double a, double b) { return std::max(a, b); });
      case Opcode::k_minimum:
        return binary([](double a, double b) { return std::min(a, b); });
      case Opcode::k_and:
        return binary([](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; });
      case Opcode::k_compare:
        return binary([&](double a, double b) {
          const std::string_view d = op.string(Attr::kCompare);
          const bool is = d == "GT"   ? a > b
                          : d == "GE" ? a >= b
                          : d == "LT" ? a < b
                          : d == "LE" ? a <= b
                                      : a == b;
          return is ? 1.0 : 0.0;
        });
      case Opcode::k_select:
        return {map({in[1]}, [&](size_t i) {
          return in[0].values[i] != 0 ? in[1].values[i] : in[2].values[i];
        })};
      case Opcode::k_clamp:
        return {map({in[1]}, [&](size_t i) {
          return std::min(std::max(in[1].values[i], in[0].values[0]), in[2].values[0]);
        })};
      case Opcode::k_reshape:
        out.values = in[0].values;
        return {out};
      case Opcode::k_bitcast:
      case Opcode::k_transpose: {
        const Index permutation = list(op, Attr::kDimensions);
        for_each_index(out.dims, [&](const Index& i) {
          Index from(i.size());
          for (size_t d = 0; d < i.size(); ++d) from[n(permutation[d])] = i[d];
          out.at(i) = in[0].at(from);
        });
        return {out};
      }
      case Opcode::k_broadcast_in_dim: {
        const Index dims = list(op, Attr::kDimensions);
        for_each_index(out.dims, [&](const Index& i) {
          Index from;
          for (size_t d = 0; d < dims.size(); ++d)
            from.push_back(in[0].dims[d] == 1 ? 0 : i[n(dims[d])]);
          out.at(i) = in[0].at(from);
        });
        return {out};
      }
      case Opcode::k_reverse: {
        const Index dims = list(op, Attr::kDimensions);
        for_each_index(out.dims, [&](const Index& i) {
          Index from = i;
          for (int64_t d : dims) from[n(d)] = out.dims[n(d)] - 1 - i[n(d)];
          out.at(i) = in[0].at(from);
        });
        return {out};
      }
      case Opcode::k_concatenate: {
        const size_t d = n(op.integers(Attr::kDimensions)[0]);
        int64_t start = 0;
        for (const Array& part : in) {
          for_each_index(part.dims, [&](const Index& i) {
            Index to = i;
            to[d] += start;
            out.at(to) = part.at(i);
          });
          start += part.dims[d];
        }
        return {out};
      }
      case Opcode::k_slice: {
        const Index start = list(op, Attr::kStart);
        for_each_index(out.dims, [&](const Index& i) {
          Index from = i;
          for (size_t d = 0; d < i.size(); ++d) from[d] += start[d];
          out.at(i) = in[0].at(from);
        });
        return {out};
      }
      case Opcode::k_pad: {
        const Index low = list(op, Attr::kPaddingLow);
        const Index interior = list(op, Attr::kPaddingInterior);
        out = Array::filled(out.dims, in[1].values[0]);
        for_each_index(in[0].dims, [&](const Index& i) {
          Index to(i.size());
          for (size_t d = 0; d < i.size(); ++d) to[d] = low[d] + i[d] * (interior[d] + 1);
          if (out.contains(to)) out.at(to) = in[0].at(i);
        });
        return {out};
      }
      case Opcode::k_cumsum: {
        const size_t d = n(op.integers(Attr::kDimensions)[0]);
        for_each_index(out.dims, [&](const Index& i) {
          Index before = i;
          --before[d];
          out.at(i) = in[0].at(i) + (i[d] > 0 ? out.at(before) : 0);
        });
        return {out};
      }
      case Opcode::k_resize:
        for_each_index(out.dims, [&](const Index& i) {
          Index from = i;
          for (size_t d = 0; d < i.size(); ++d) from[d] = i[d] * in[0].dims[d] / out.dims[d];
          out.at(i) = in[0].at(from);
        });
        return {out};
      case Opcode::k_reduce: {
        const Index dims = list(op, Attr::kDimensions);
        for_each_index(in[0].dims, [&](const Index& i) {
          Index to;
          for (size_t d = 0; d < i.size(); ++d)
            if (!has(dims, static_cast<int64_t>(d))) to.push_back(i[d]);
          out.at(to) += in[0].at(i);
        });
        return {out};
      }
      case Opcode::k_reduce_window:
        return {reduce_window(op, in)};
      case Opcode::k_select_and_scatter:
        return {select_and_scatter(op, in)};
      case Opcode::k_softmax:
      case Opcode::k_normalization_backward:
        return {softmax(op, in)};
      case Opcode::k_dot_general:
        return {dot_general(op, in)};
      case Opcode::k_convolution:
        return {convolution(op, in)};
      case Opcode::k_gather:
        return {gather_or_scatter(op, in)};
      case Opcode::k_scatter:
        return {gather_or_scatter(op, in)};
      case Opcode::k_top_k:
        return top_k(op, in);
      case Opcode::k_sort:
        return sort(in);
      default:
        throw_internal("the interpreter has no '" + std::string(name(op.code())) + "'");
    }
  }

  /// Visits (output index, input index) of every window position inside the input.
  static void windows(const OpView& op, const Array& input, const std::vector<int64_t>& out_dims,
                      const std::function<void(const Index&, const Index&)>& visit) {
    const Index size = list(op, Attr::kWindowSize);
    const Index stride = list(op, Attr::kWindowStrides);
    const Index low = list(op, Attr::kPaddingLow);
    for_each_index(out_dims, [&](const Index& o) {
      for_each_index(size, [&](const Index& k) {
        Index i(o.size());
        for (size_t d = 0; d < o.size(); ++d) i[d] = o[d] * stride[d] + k[d] - low[d];
        if (input.contains(i)) visit(o, i);
      });
    });
  }

  Array reduce_window(const OpView& op, const std::vector<Array>& in) {
    Array out = Array::filled(op.result_type(0).dims, in[1].values[0]);
    const Region& body = w_.region(op.raw().first_region);
    const bool maximum = w_.ops()[body.first_op].code == Opcode::k_maximum;
    windows(op, in[0], out.dims, [&](const Index& o, const Index& i) {
      out.at(o) = maximum ? std::max(out.at(o), in[0].at(i)) : out.at(o) + in[0].at(i);
    });
    return out;
  }

  Array select_and_scatter(const OpView& op, const std::vector<Array>& in) {
    Array out = Array::filled(op.result_type(0).dims, 0);
    std::map<Index, Index> chosen;
    windows(op, in[0], in[1].dims, [&](const Index& o, const Index& i) {
      const auto found = chosen.find(o);
      if (found == chosen.end() || in[0].at(i) > in[0].at(found->second)) chosen[o] = i;
    });
    for (const auto& [o, i] : chosen) out.at(i) += in[1].at(o);
    return out;
  }

  /// Softmax; or its gradient (dy, p), which is the normalization_backward without an epsilon.
  static Array softmax(const OpView& op, const std::vector<Array>& in) {
    const bool backward = op.code() == Opcode::k_normalization_backward;
    if (backward && op.has(Attr::kEpsilon)) throw_internal("the interpreter has no norms");
    const size_t d = n(op.integers(Attr::kDimensions)[0]);
    Array out = Array::filled(op.result_type(0).dims, 0);
    Index rows = out.dims;
    const int64_t width = rows[d];
    rows[d] = 1;
    for_each_index(rows, [&](const Index& row) {
      Index i = row;
      double sum = 0;
      for (i[d] = 0; i[d] < width; ++i[d])
        sum += backward ? in[0].at(i) * in[1].at(i) : std::exp(in[0].at(i));
      for (i[d] = 0; i[d] < width; ++i[d])
        out.at(i) = backward ? in[1].at(i) * (in[0].at(i) - sum) : std::exp(in[0].at(i)) / sum;
    });
    return out;
  }

  static Array dot_general(const OpView& op, const std::vector<Array>& in) {
    Array out = Array::filled(op.result_type(0).dims, 0);
    const Index lb = list(op, Attr::kLhsBatching);
    const Index rb = list(op, Attr::kRhsBatching);
    const Index lc = list(op, Attr::kLhsContracting);
    const Index rc = list(op, Attr::kRhsContracting);
    Index contracted;
    for (int64_t d : lc) contracted.push_back(in[0].dims[n(d)]);
    for_each_index(out.dims, [&](const Index& o) {
      Index l(in[0].dims.size());
      Index r(in[1].dims.size());
      size_t next = 0;
      for (; next < lb.size(); ++next) l[n(lb[next])] = r[n(rb[next])] = o[next];
      for (size_t d = 0; d < l.size(); ++d)
        if (!has(lb, static_cast<int64_t>(d)) && !has(lc, static_cast<int64_t>(d)))
          l[d] = o[next++];
      for (size_t d = 0; d < r.size(); ++d)
        if (!has(rb, static_cast<int64_t>(d)) && !has(rc, static_cast<int64_t>(d)))
          r[d] = o[next++];
      for_each_index(contracted, [&](const Index& c) {
        for (size_t i = 0; i < c.size(); ++i) {
          l[n(lc[i])] = c[i];
          r[n(rc[i])] = c[i];
        }
        out.at(o) += in[0].at(l) * in[1].at(r);
      });
    });
    return out;
  }

  static Array convolution(const OpView& op, const std::vector<Array>& in) {
    const auto dim = [&](Attr key) { return n(op.integer(key, 0)); };
    const Index xs = list(op, Attr::kInputSpatial);
    const Index ks = list(op, Attr::kKernelSpatial);
    const Index ys = list(op, Attr::kOutputSpatial);
    const Index stride = list(op, Attr::kWindowStrides);
    const Index low = list(op, Attr::kPaddingLow);
    const Index base = list(op, Attr::kBaseDilation);
    const Index dilation = list(op, Attr::kWindowDilation);
    Array out = Array::filled(op.result_type(0).dims, 0);
    const int64_t outputs = out.dims[dim(Attr::kOutputFeature)];
    const int64_t inputs = in[1].dims[dim(Attr::kKernelInput)];
    const int64_t batches = out.dims[dim(Attr::kOutputBatch)];
    const int64_t features_a_group = outputs / op.integer(Attr::kFeatureGroups, 1);
    const int64_t features_a_batch_group = outputs / op.integer(Attr::kBatchGroups, 1);
    for_each_index(out.dims, [&](const Index& o) {
      const int64_t feature = o[dim(Attr::kOutputFeature)];
      Index kernel_dims = in[1].dims;
      kernel_dims[dim(Attr::kKernelOutput)] = 1;
      for_each_index(kernel_dims, [&](const Index& at) {
        Index k = at;
        k[dim(Attr::kKernelOutput)] = feature;
        Index x(in[0].dims.size());
        x[dim(Attr::kInputBatch)] =
            o[dim(Attr::kOutputBatch)] + feature / features_a_batch_group * batches;
        x[dim(Attr::kInputFeature)] =
            k[dim(Attr::kKernelInput)] + feature / features_a_group * inputs;
        for (size_t d = 0; d < xs.size(); ++d) {
          const int64_t place = o[n(ys[d])] * stride[d] + k[n(ks[d])] * dilation[d] - low[d];
          if (place < 0 || place % base[d] != 0) return;
          x[n(xs[d])] = place / base[d];
        }
        if (in[0].contains(x)) out.at(o) += in[0].at(x) * in[1].at(k);
      });
    });
    return out;
  }

  /// gather(operand, indices) or scatter(operand, indices, updates) that adds.
  static Array gather_or_scatter(const OpView& op, const std::vector<Array>& in) {
    const bool scatters = op.code() == Opcode::k_scatter;
    const Index window = list(op, scatters ? Attr::kUpdateWindowDims : Attr::kOffsetDims);
    const Index dropped =
        list(op, scatters ? Attr::kInsertedWindowDims : Attr::kCollapsedSliceDims);
    const Index map = list(op, Attr::kStartIndexMap);
    const Index operand_batching = list(op, Attr::kOperandBatchingDims);
    const Index index_batching = list(op, Attr::kStartIndicesBatchingDims);
    const int64_t vector_dim = op.integer(Attr::kIndexVectorDim, 0);
    if (vector_dim != static_cast<int64_t>(in[1].dims.size()))
      throw_internal("index vectors of one, at the end");
    Array out = scatters ? in[0] : Array::filled(op.result_type(0).dims, 0);
    for_each_index(scatters ? in[2].dims : out.dims, [&](const Index& u) {
      Index batch;
      for (size_t d = 0; d < u.size(); ++d)
        if (!has(window, static_cast<int64_t>(d))) batch.push_back(u[d]);
      Index place(in[0].dims.size(), 0);
      place[n(map[0])] = static_cast<int64_t>(in[1].at(batch));
      for (size_t i = 0; i < operand_batching.size(); ++i)
        place[n(operand_batching[i])] = batch[n(index_batching[i])];
      size_t next = 0;
      for (size_t d = 0; d < place.size(); ++d)
        if (!has(dropped, static_cast<int64_t>(d)) &&
            !has(operand_batching, static_cast<int64_t>(d)))
          place[d] += u[n(window[next++])];
      if (scatters)
        out.at(place) += in[2].at(u);
      else
        out.at(u) = in[0].at(place);
    });
    return out;
  }

  static std::vector<Array> top_k(const OpView& op, const std::vector<Array>& in) {
    Array values = Array::filled(op.result_type(0).dims, 0);
    Array indices = values;
    for (int64_t row = 0; row < in[0].dims[0]; ++row) {
      std::vector<int64_t> order(n(in[0].dims[1]));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return in[0].at({row, a}) > in[0].at({row, b});
      });
      for (int64_t i = 0; i < values.dims[1]; ++i) {
        values.at({row, i}) = in[0].at({row, order[n(i)]});
        indices.at({row, i}) = static_cast<double>(order[n(i)]);
      }
    }
    return {values, indices};
  }

  static std::vector<Array> sort(const std::vector<Array>& in) {
    std::vector<size_t> order(in[0].values.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return in[0].values[a] < in[0].values[b]; });
    std::vector<Array> out = in;
    for (size_t k = 0; k < in.size(); ++k)
      for (size_t i = 0; i < order.size(); ++i) out[k].values[i] = in[k].values[order[i]];
    return out;
  }

  const Workload& w_;
};

}  // namespace orrery
