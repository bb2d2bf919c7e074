#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "orrery/workload/workload.h"

// What tests of built workloads ask of any of them. FLOPs are counted here from
// shapes and attributes alone, apart from the library's own rules.

namespace orrery {

inline double product(const std::vector<int64_t>& sizes) {
  double p = 1;
  for (int64_t s : sizes) p *= static_cast<double>(s);
  return p;
}

inline double matrix_flops(const OpView& op) {
  const auto elements = [&](const Type& t) { return static_cast<double>(t.elements); };
  switch (op.code()) {
    case Opcode::k_dot_general:
    case Opcode::k_scaled_dot: {
      double contracted = 1;
      for (int64_t d : op.integers(Attr::kLhsContracting))
        contracted *= static_cast<double>(op.operand_type(0).dims[static_cast<size_t>(d)]);
      return 2 * elements(op.result_type(0)) * contracted;
    }
    case Opcode::k_convolution: {
      // A dilated input is zero but for one place in `dilation`.
      double taps = static_cast<double>(
          op.operand_type(1).dims[static_cast<size_t>(op.integer(Attr::kKernelInput, 0))]);
      for (int64_t w : op.integers(Attr::kWindowSize)) taps *= static_cast<double>(w);
      for (int64_t d : op.integers(Attr::kBaseDilation)) taps /= static_cast<double>(d);
      return 2 * elements(op.result_type(0)) * taps;
    }
    case Opcode::k_grouped_dot:
      // Every row meets one k×n matrix, in all three of its uses.
      if (op.result_type(0).rank() == 3)
        return 2 * elements(op.operand_type(0)) * static_cast<double>(op.operand_type(1).dims[1]);
      return 2 * elements(op.operand_type(0)) * static_cast<double>(op.result_type(0).dims[1]);
    case Opcode::k_attention: {
      const auto& q = op.operand_type(0).dims;
      const auto& v = op.operand_type(2).dims;
      return 2.0 * static_cast<double>(q[0] * q[1] * q[2] * v[2]) *
             static_cast<double>(q[3] + v[3]);
    }
    case Opcode::k_attention_backward: {  // Four products for the forward's two, none recomputed.
      const auto& q = op.operand_type(1).dims;
      const auto& v = op.operand_type(3).dims;
      return 4.0 * static_cast<double>(q[0] * q[1] * q[2] * v[2]) *
             static_cast<double>(q[3] + v[3]);
    }
    default:
      return 0;
  }
}

/// Matrix FLOPs of a function with its calls followed.
inline double matrix_flops(const Workload& w, FunctionId function,
                           std::map<uint32_t, double>& known) {
  if (const auto found = known.find(function.index); found != known.end()) return found->second;
  double sum = 0;
  for_each_op(w, w.region(w.function(function).body), [&](OpId id) {
    const OpView op = w.view(id);
    sum += op.code() == Opcode::k_call ? matrix_flops(w, op.callee(), known) : matrix_flops(op);
  });
  return known[function.index] = sum;
}

inline double matrix_flops(const Workload& w) {
  std::map<uint32_t, double> known;
  return matrix_flops(w, w.entry(), known);
}

inline int64_t count_parameters(const Workload& w) {
  const Function& f = w.function(w.entry());
  int64_t count = 0;
  for (uint32_t i = 0; i < f.arguments.size(); ++i)
    if (f.arguments[i].role == Role::kParameter)
      count += w.type(ValueId{w.region(f.body).first_argument + i}).elements;
  return count;
}

inline std::map<std::string, int> count_ops(const Workload& w) {
  std::map<std::string, int> counts;
  for (const Op& op : w.ops()) ++counts[std::string(name(op.code))];
  return counts;
}

inline void expect_convolution_well_typed(const OpView& op) {
  const auto at = [](std::span<const int64_t> list, size_t i) {
    return static_cast<size_t>(list[i]);
  };
  const auto size = [&](const Type& t, Attr key) {
    return t.dims[static_cast<size_t>(op.integer(key, 0))];
  };
  const Type& x = op.operand_type(0);
  const Type& k = op.operand_type(1);
  const Type& y = op.result_type(0);
  const int64_t feature_groups = op.integer(Attr::kFeatureGroups, 1);
  const int64_t batch_groups = op.integer(Attr::kBatchGroups, 1);
  EXPECT_EQ(size(k, Attr::kKernelInput) * feature_groups, size(x, Attr::kInputFeature));
  EXPECT_EQ(size(k, Attr::kKernelOutput), size(y, Attr::kOutputFeature));
  EXPECT_EQ(size(x, Attr::kInputBatch), size(y, Attr::kOutputBatch) * batch_groups);
  EXPECT_EQ(size(k, Attr::kKernelOutput) % (feature_groups * batch_groups), 0);
  const auto strides = op.integers(Attr::kWindowStrides);
  for (size_t i = 0; i < strides.size(); ++i) {
    const int64_t window = k.dims[at(op.integers(Attr::kKernelSpatial), i)];
    EXPECT_EQ(window, op.integers(Attr::kWindowSize)[i]);
    const int64_t base = (x.dims[at(op.integers(Attr::kInputSpatial), i)] - 1) *
                             op.integers(Attr::kBaseDilation)[i] +
                         1;
    const int64_t reach = (window - 1) * op.integers(Attr::kWindowDilation)[i] + 1;
    const int64_t padded =
        base + op.integers(Attr::kPaddingLow)[i] + op.integers(Attr::kPaddingHigh)[i];
    EXPECT_EQ((padded - reach) / strides[i] + 1, y.dims[at(op.integers(Attr::kOutputSpatial), i)]);
  }
}

/// Types that every reader of the workload relies on: calls match their callees,
/// contractions their shapes, aliased results their arguments.
inline void expect_well_formed(const Workload& w) {
  for (uint32_t i = 0; i < w.ops().size(); ++i) {
    const OpView op = w.view(OpId{i});
    if (op.code() == Opcode::k_call) {
      const Function& callee = w.function(op.callee());
      ASSERT_EQ(op.operand_count(), callee.arguments.size()) << w.string(callee.name);
      for (uint32_t a = 0; a < op.operand_count(); ++a)
        EXPECT_EQ(w.value(op.operand(a)).type,
                  w.value(ValueId{w.region(callee.body).first_argument + a}).type)
            << w.string(callee.name) << " argument " << a;
      ASSERT_EQ(op.result_count(), callee.result_types.size());
      for (uint32_t r = 0; r < op.result_count(); ++r)
        EXPECT_EQ(w.value(op.result(r)).type, callee.result_types[r]) << w.string(callee.name);
    }
    if (op.code() == Opcode::k_convolution) expect_convolution_well_typed(op);
  }

  const Function& main = w.function(w.entry());
  std::set<int32_t> aliased;
  for (uint32_t i = 0; i < main.arguments.size(); ++i) {
    const ArgumentInfo& a = main.arguments[i];
    EXPECT_EQ(a.donated, a.aliased_output >= 0);
    if (a.aliased_output < 0) continue;
    ASSERT_LT(static_cast<size_t>(a.aliased_output), main.result_types.size());
    EXPECT_TRUE(aliased.insert(a.aliased_output).second) << w.string(a.name);
    EXPECT_EQ(w.value(ValueId{w.region(main.body).first_argument + i}).type,
              main.result_types[static_cast<size_t>(a.aliased_output)])
        << w.string(a.name);
  }
}

/// A training step updates every parameter and every state of the optimiser once.
inline void expect_updates_every_parameter(const Workload& w) {
  const Function& main = w.function(w.entry());
  std::set<std::string_view> names;
  for (const ArgumentInfo& a : main.arguments) {
    EXPECT_TRUE(names.insert(w.string(a.name)).second)
        << "two arguments are called " << w.string(a.name);
    const bool trained = a.role == Role::kParameter || a.role == Role::kOptimizerState;
    if (trained || a.role == Role::kInput) {
      EXPECT_EQ(a.donated, trained) << w.string(a.name);
    }
  }
}

}  // namespace orrery
