// What XLA's fusion says of operations when it compiles for an H200: of each operation of 4096 ×
// 4096 elements alone, its time less that of its traffic (xla_dump_hlo_pass_re=priority-fusion).

#include "orrery/model/priority_fusion.h"

#include <gtest/gtest.h>

namespace orrery {
namespace {

TEST(XlaWork, IsThatOfItsTable) {
  struct Row {
    Opcode code;
    double single, half, brief;
  };
  // bf16 has exponentials and logarithms of its own; other special functions and quotients are
  // fp32's between two conversions of 3.
  for (const Row& row :
       {Row{Opcode::k_add, 7, 7, 3}, Row{Opcode::k_subtract, 7, 7, 3},
        Row{Opcode::k_multiply, 3, 7, 3}, Row{Opcode::k_divide, 19, 43, 25},
        Row{Opcode::k_maximum, 3, 3, 3}, Row{Opcode::k_exponential, 79, 102, 3},
        Row{Opcode::k_log, 166, 182, 3}, Row{Opcode::k_log_plus_one, 229, 245, 235},
        Row{Opcode::k_exponential_minus_one, 190, 217, 196}, Row{Opcode::k_rsqrt, 75, 95, 81},
        Row{Opcode::k_sqrt, 75, 95, 81}, Row{Opcode::k_cbrt, 178, 201, 184},
        Row{Opcode::k_tanh, 467, 502, 473}, Row{Opcode::k_power, 510, 526, 516},
        Row{Opcode::k_atan2, 431, 451, 437}, Row{Opcode::k_sine, 958, 993, 964},
        Row{Opcode::k_cosine, 978, 997, 984}, Row{Opcode::k_logistic, 108, 155, 34},
        Row{Opcode::k_negate, 3, 3, 3}}) {
    EXPECT_EQ(xla_work(row.code, ElementType::kF32), row.single) << name(row.code);
    EXPECT_EQ(xla_work(row.code, ElementType::kF16), row.half) << name(row.code);
    EXPECT_EQ(xla_work(row.code, ElementType::kBF16), row.brief) << name(row.code);
  }
  EXPECT_EQ(xla_work(Opcode::k_divide, ElementType::kS32), 297);
  EXPECT_EQ(xla_work(Opcode::k_add, ElementType::kS32), 3);
}

}  // namespace
}  // namespace orrery
