#include "orrery/workload/trip_count.h"

#include <gtest/gtest.h>

namespace orrery {
namespace {

/// A loop over a counter that starts at `start` and, while it compares with `bound` by
/// `direction`, has `step` added; -1 when no trip count was found.
int64_t trips(int64_t start, const char* direction, int64_t bound, int64_t step,
              bool convert_bound = false) {
  WorkloadBuilder b("test", "m");
  const TypeId t = b.tensor_type(ElementType::kS64, {});
  const auto constant = [&](int64_t value) {
    const OpId op = b.begin_op(Opcode::k_constant, {}, 1);
    b.set_ints(Attr::kValue, {value});
    b.set_result_type(0, t);
    b.end_op();
    return b.result(op);
  };
  b.begin_function(b.declare_function("main"));
  const ValueId first = constant(start);
  const OpId loop = b.begin_op(Opcode::k_while, {{first}}, 1);
  b.begin_region();
  const ValueId i = b.add_region_argument(t);
  ValueId limit = constant(bound);
  if (convert_bound) limit = b.emit(Opcode::k_convert, {limit}, t);
  const OpId compare = b.begin_op(Opcode::k_compare, {{i, limit}}, 1);
  b.set_string(Attr::kCompare, direction);
  b.set_result_type(0, b.tensor_type(ElementType::kBool, {}));
  b.end_op();
  b.emit_return({{b.result(compare)}});
  b.end_region();
  b.begin_region();
  const ValueId j = b.add_region_argument(t);
  const ValueId next = b.emit(Opcode::k_add, {j, constant(step)}, t);
  b.emit_return({{next}});
  b.end_region();
  b.set_result_type(0, t);
  b.end_op();
  b.emit_return({});
  b.end_function();
  const Workload w = b.finish();
  return w.view(loop).integer(Attr::kTripCount, -1);
}

/// The same by running it, for loops that end soon.
int64_t run(int64_t start, const std::string& direction, int64_t bound, int64_t step) {
  int64_t count = 0;
  for (int64_t i = start; count <= 1000; i += step, ++count) {
    const bool goes_on = direction == "LT"   ? i < bound
                         : direction == "LE" ? i <= bound
                         : direction == "GT" ? i > bound
                         : direction == "GE" ? i >= bound
                                             : i != bound;
    if (!goes_on) return count;
  }
  return -1;
}

TEST(TripCount, EqualsRunningTheLoop) {
  for (const char* direction : {"LT", "LE", "GT", "GE", "NE"})
    for (int64_t start = -3; start <= 3; ++start)
      for (int64_t bound = -9; bound <= 9; ++bound)
        for (const int64_t step : {-4, -3, -1, 1, 2, 5}) {
          const int64_t found = trips(start, direction, bound, step);
          const int64_t truth = run(start, direction, bound, step);
          // A loop that would run away has no count; one the test ends at once may have none.
          if (truth == -1)
            EXPECT_EQ(found, -1) << start << direction << bound << " by " << step;
          else if (truth > 0)
            EXPECT_EQ(found, truth) << start << direction << bound << " by " << step;
          else
            EXPECT_LE(found, 0) << start << direction << bound << " by " << step;
        }
}

TEST(TripCount, ExtremesDoNotOverflow) {
  EXPECT_EQ(trips(INT64_MIN, "LT", INT64_MAX, INT64_MAX), 3);  // -2^63, -1, 2^63 - 2
  EXPECT_EQ(trips(0, "LT", INT64_MAX, 1), INT64_MAX);
  EXPECT_EQ(trips(INT64_MIN, "LE", INT64_MAX, 1), -1);  // 2^64 trips are no count
  EXPECT_EQ(trips(0, "LT", 10, 0), -1);
}

TEST(TripCount, SeesThroughConversions) { EXPECT_EQ(trips(0, "LT", 12, 5, true), 3); }

}  // namespace
}  // namespace orrery
