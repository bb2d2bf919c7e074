#include "orrery/workload/workload.h"

#include <gtest/gtest.h>

#include "orrery/workload/workload_builder.h"

namespace orrery {
namespace {

TEST(WorkloadBuilder, KeepsOperationsInPreOrderWithTheirRegions) {
  WorkloadBuilder b("test", "m");
  b.begin_function(b.declare_function("main"));
  const TypeId t = b.tensor_type(ElementType::kF32, {4, 8});
  const ValueId x = b.add_argument(t, {});
  const OpId loop = b.begin_op(Opcode::k_while, {{x}}, 1);
  b.begin_region();
  const ValueId c = b.add_region_argument(t);
  b.emit_return({{c}});
  b.end_region();
  b.begin_region();
  const ValueId y = b.add_region_argument(t);
  const ValueId z = b.emit(Opcode::k_tanh, {y}, t);
  b.emit_return({{z}});
  b.end_region();
  b.set_result_type(0, t);
  b.end_op();
  b.emit_return({{b.result(loop)}});
  b.end_function();
  const Workload w = b.finish();

  ASSERT_EQ(w.ops().size(), 5u);
  EXPECT_EQ(w.op(loop).end, 4u);
  std::vector<Opcode> top;
  for_each_op(w, w.region(w.function(w.entry()).body),
              [&](OpId id) { top.push_back(w.op(id).code); });
  EXPECT_EQ(top, (std::vector<Opcode>{Opcode::k_while, Opcode::k_return}));
  const auto bodies = w.view(loop).bodies();
  ASSERT_EQ(bodies.size(), 2u);
  EXPECT_EQ(w.region(bodies[1]).first_op, 2u);
}

TEST(WorkloadBuilder, TypesAreUniqueAndSized) {
  WorkloadBuilder b("test", "m");
  EXPECT_EQ(b.tensor_type(ElementType::kBF16, {2, 3}), b.tensor_type(ElementType::kBF16, {2, 3}));
  EXPECT_NE(b.tensor_type(ElementType::kBF16, {2, 3}), b.tensor_type(ElementType::kBF16, {3, 2}));
  EXPECT_EQ(b.type(b.tensor_type(ElementType::kS4, {3})).bytes, 2);    // 12 bits
  EXPECT_EQ(b.type(b.tensor_type(ElementType::kBool, {3})).bytes, 3);  // a byte each
  EXPECT_EQ(b.type(b.tensor_type(ElementType::kF32, {0, 1LL << 40})).elements, 0);
  EXPECT_THROW(b.tensor_type(ElementType::kF32, {1LL << 40, 1LL << 40}), std::invalid_argument);
}

}  // namespace
}  // namespace orrery
