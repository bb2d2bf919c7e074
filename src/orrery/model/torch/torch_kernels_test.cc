#include "orrery/model/torch/torch_kernels.h"

#include <gtest/gtest.h>

#include <array>

namespace orrery {
namespace {

// Dividing an element's number by the sizes takes an SM's time and is none of the operation's work.
TEST(TorchKernels, AddressesAreNoWork) {
  const std::array<int64_t, 2> dims = {64, 128}, turned = {1, 0};
  const TorchTensor rows = {ElementType::kF32, TensorLayout::contiguous(dims)};
  const std::array<int64_t, 2> other = {128, 64};
  const TorchTensor columns = {ElementType::kF32, TensorLayout::contiguous(other).permuted(turned)};
  const Kernel alike = torch_kernels::elementwise(Opcode::k_add, std::array{rows, rows}, rows);
  const Kernel indexed = torch_kernels::elementwise(Opcode::k_add, std::array{rows, columns}, rows);
  EXPECT_EQ(alike.cost.flops(), 64 * 128);
  EXPECT_EQ(indexed.cost.flops(), 64 * 128);
  EXPECT_GT(indexed.cost.vector_flops, 10 * alike.cost.vector_flops);
  EXPECT_TRUE(indexed.counted);
  const Kernel copy = torch_kernels::loop(Opcode::k_copy, KernelFamily::kDataMovement,
                                          ElementType::kF32, 64, 256, 256, 1);
  EXPECT_EQ(copy.cost.flops(), 0);
  EXPECT_EQ(copy.cost.vector_flops, 64 * 256);
}

}  // namespace
}  // namespace orrery
