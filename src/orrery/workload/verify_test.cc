#include "orrery/workload/verify.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "orrery/workload/workload_builder.h"

namespace orrery {
namespace {

/// The message of finishing a function that `build` fills; "" when it passes. The
/// operation is given the byte offset of the 'b' of "a\nb".
std::string fault(const std::function<void(WorkloadBuilder&)>& build) {
  const Source source = Source::from_memory("m", "a\nb");
  WorkloadBuilder b("test", "m");
  b.begin_function(b.declare_function("main"));
  build(b);
  b.emit_return({});
  b.end_function();
  try {
    b.finish(source);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

ValueId tensor(WorkloadBuilder& b, std::initializer_list<int64_t> dims) {
  return b.add_argument(b.tensor_type(ElementType::kF32, dims), {});
}

/// An operation of `operands` with one result of the given sizes, settings by `set`.
void add(
    WorkloadBuilder& b, Opcode code, std::vector<ValueId> operands,
    std::initializer_list<int64_t> result, const std::function<void()>& set = [] {}) {
  b.begin_op(code, operands, 1, 2);
  set();
  b.set_result_type(0, b.tensor_type(ElementType::kF32, result));
  b.end_op();
}

TEST(Verify, OperandCounts) {
  EXPECT_EQ(fault([](WorkloadBuilder& b) { add(b, Opcode::k_add, {}, {4}); }),
            "m:2:1: add: 0 operands, at least 1 expected");
  EXPECT_EQ(fault([](WorkloadBuilder& b) {
              const ValueId x = tensor(b, {4});
              add(b, Opcode::k_scatter, {x, x}, {4});
            }),
            "m:2:1: scatter: 2 operands, at least 3 expected");
  EXPECT_EQ(fault([](WorkloadBuilder& b) { add(b, Opcode::k_dot, {tensor(b, {4})}, {}); }),
            "m:2:1: dot: 1 operands, at least 2 expected");
  EXPECT_EQ(fault([](WorkloadBuilder& b) {
              const ValueId x = tensor(b, {4});
              b.begin_op(Opcode::k_tanh, {{x}}, 0, 2);
              b.end_op();
            }),
            "m:2:1: tanh: 0 results, at least 1 expected");
}

TEST(Verify, DotGeneral) {
  const auto dot = [](std::vector<int64_t> lc, std::vector<int64_t> rc, std::vector<int64_t> lb,
                      std::vector<int64_t> rb) {
    return fault([&](WorkloadBuilder& b) {
      add(b, Opcode::k_dot_general, {tensor(b, {4, 8}), tensor(b, {8, 4})}, {4, 4}, [&] {
        b.set_ints(Attr::kLhsContracting, lc);
        b.set_ints(Attr::kRhsContracting, rc);
        b.set_ints(Attr::kLhsBatching, lb);
        b.set_ints(Attr::kRhsBatching, rb);
      });
    });
  };
  EXPECT_EQ(dot({1}, {0}, {}, {}), "");
  EXPECT_EQ(dot({2}, {0}, {}, {}),
            "m:2:1: dot_general: contracting dimension 2 is outside the 2 dimensions");
  EXPECT_EQ(dot({-1}, {0}, {}, {}),
            "m:2:1: dot_general: contracting dimension -1 is outside the 2 dimensions");
  EXPECT_EQ(dot({1}, {1}, {}, {}), "m:2:1: dot_general: contracting sizes 8 and 4 differ");
  EXPECT_EQ(dot({1}, {}, {}, {}),
            "m:2:1: dot_general: dimension lists of both sides must be of one length");
  EXPECT_EQ(dot({1, 1}, {0, 0}, {}, {}),
            "m:2:1: dot_general: contracting dimension 1 is named twice");
  EXPECT_EQ(dot({1}, {0}, {1}, {0}), "m:2:1: dot_general: batching dimension 1 is named twice");
  EXPECT_EQ(dot({}, {}, {0}, {0}), "m:2:1: dot_general: batching sizes 4 and 8 differ");
  EXPECT_EQ(dot({}, {}, {0}, {9}),
            "m:2:1: dot_general: batching dimension 9 is outside the 2 dimensions");
}

TEST(Verify, OpenSizesMatchAnything) {
  EXPECT_EQ(fault([](WorkloadBuilder& b) {
              add(b, Opcode::k_dot_general, {tensor(b, {4, kDynamic}), tensor(b, {8, 4})}, {4, 4},
                  [&] {
                    b.set_ints(Attr::kLhsContracting, {1});
                    b.set_ints(Attr::kRhsContracting, {0});
                  });
            }),
            "");
}

TEST(Verify, Convolution) {
  const auto convolution = [](Attr key, int64_t dimension) {
    return fault([&](WorkloadBuilder& b) {
      add(b, Opcode::k_convolution, {tensor(b, {1, 8, 8, 3}), tensor(b, {3, 3, 3, 4})},
          {1, 6, 6, 4}, [&] {
            b.set_ints(Attr::kKernelSpatial, {0, 1});
            b.set_int(key, dimension);
          });
    });
  };
  EXPECT_EQ(convolution(Attr::kKernelInput, 2), "");
  EXPECT_EQ(convolution(Attr::kKernelInput, 4),
            "m:2:1: convolution: kernel input dimension 4 is outside the 4 dimensions");
  EXPECT_EQ(convolution(Attr::kInputBatch, -2),
            "m:2:1: convolution: input batch dimension -2 is outside the 4 dimensions");
  EXPECT_EQ(convolution(Attr::kFeatureGroups, 0), "m:2:1: convolution: 0 is no number of groups");
  const auto window = [](Attr key, int64_t number) {
    return fault([&](WorkloadBuilder& b) {
      add(b, Opcode::k_convolution, {tensor(b, {1, 8, 8, 3}), tensor(b, {3, 3, 3, 4})},
          {1, 6, 6, 4}, [&] {
            b.set_ints(Attr::kKernelSpatial, {0, 1});
            b.set_ints(key, {1, number});
          });
    });
  };
  EXPECT_EQ(window(Attr::kPaddingHigh, -3), "");
  EXPECT_EQ(window(Attr::kPaddingHigh, std::numeric_limits<int64_t>::max()),
            "m:2:1: convolution: 9223372036854775807 is no padding");
  EXPECT_EQ(window(Attr::kBaseDilation, std::numeric_limits<int64_t>::max()),
            "m:2:1: convolution: 9223372036854775807 is no stride or dilation");
  EXPECT_EQ(window(Attr::kWindowStrides, 0), "m:2:1: convolution: 0 is no stride or dilation");
  EXPECT_EQ(fault([](WorkloadBuilder& b) {
              add(b, Opcode::k_convolution, {tensor(b, {1, 8, 8, 3}), tensor(b, {3, 3, 3, 4})},
                  {1, 6, 6, 4});
            }),
            "m:2:1: convolution: no dimension numbers");
}

TEST(Verify, AttentionTakesFourDimensions) {
  EXPECT_EQ(fault([](WorkloadBuilder& b) {
              const ValueId q = tensor(b, {1, 2, 3, 4});
              add(b, Opcode::k_attention, {q, q, tensor(b, {1, 2, 3})}, {1, 2, 3, 4});
            }),
            "m:2:1: attention: operand 2 has 3 dimensions, 4 expected");
}

TEST(Verify, Reductions) {
  EXPECT_EQ(fault([](WorkloadBuilder& b) {
              add(b, Opcode::k_reduce, {tensor(b, {4, 8})}, {4},
                  [&] { b.set_ints(Attr::kDimensions, {2}); });
            }),
            "m:2:1: reduce: dimension 2 is outside the 2 dimensions");
  EXPECT_EQ(fault([](WorkloadBuilder& b) {
              const ValueId t = b.add_argument(b.token_type(), {});
              add(b, Opcode::k_reduce, {t}, {4});
            }),
            "m:2:1: reduce: operand 0 must be a tensor");
}

TEST(Verify, Loops) {
  EXPECT_EQ(fault([](WorkloadBuilder& b) { add(b, Opcode::k_while, {tensor(b, {4})}, {4}); }),
            "m:2:1: while: a condition and a body are expected");
  EXPECT_EQ(fault([](WorkloadBuilder& b) {
              const ValueId x = tensor(b, {4});
              const TypeId t = b.value_type(x);
              b.begin_op(Opcode::k_while, {{x}}, 1, 2);
              for (int i = 0; i < 2; ++i) {
                b.begin_region();
                b.emit_return({});
                b.end_region();
              }
              b.set_result_type(0, t);
              b.end_op();
            }),
            "m:2:1: while: the bodies' arguments do not match the operands");
}

/// The fault of a chain of `functions`, each calling the next from within `regions`.
std::string chain_fault(int functions, int regions) {
  WorkloadBuilder b("test", "m");
  for (int i = 0; i < functions; ++i) {
    b.begin_function(b.declare_function("f" + std::to_string(i)), i == 0);
    if (i + 1 < functions) {
      for (int r = 0; r < regions; ++r) {
        b.begin_op(Opcode::k_case, {}, 0);
        b.begin_region();
      }
      b.begin_op(Opcode::k_call, {}, 0);
      b.set_function(Attr::kCallee, b.declare_function("f" + std::to_string(i + 1)));
      b.end_op();
      for (int r = 0; r < regions; ++r) {
        b.emit_return({});
        b.end_region();
        b.end_op();
      }
    }
    b.emit_return({});
    b.end_function();
  }
  try {
    b.finish(Source::from_memory("m", ""));
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(Verify, CallsAndRegionsTogetherNestSoFar) {
  EXPECT_EQ(chain_fault(501, 0), "");
  EXPECT_EQ(chain_fault(600, 0), "calls and regions nest deeper than 500 levels");
  EXPECT_EQ(chain_fault(50, 9), "");  // 49 calls within 9 regions each: 490
  EXPECT_EQ(chain_fault(60, 9), "calls and regions nest deeper than 500 levels");
}

TEST(Verify, AWorkloadWithoutAFunctionIsRefused) {
  WorkloadBuilder b("test", "m");
  try {
    b.finish(Source::from_memory("m.mlir", ""));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "m.mlir: there is no function with a body in this file");
  }
}

}  // namespace
}  // namespace orrery
