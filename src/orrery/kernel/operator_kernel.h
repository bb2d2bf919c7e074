#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "orrery/kernel/kernel.h"

namespace orrery {

/// The kernel of one operator as measuring scripts name it: `op` and `dtype` as
/// in data/h200 (`gemm` `bf16` {"m": 512, "n": 4096, "k": 4096}), `params` a JSON
/// object. `fp32` keeps products on the vector units, `tf32` uses the matrix
/// units on four-byte inputs; `int4_weight`, `fp4_weight` and `fp8_block` are products with scales
/// for blocks of 128. It is the kernel that `kernel_of` gives for the operation, made
/// from the sizes alone in about 0.1 µs. Throws std::invalid_argument that says what is
/// wrong with which of the three.
Kernel operator_kernel(std::string_view op, std::string_view dtype, std::string_view params);

/// An operator that `operator_kernel` takes, with its parameters in words.
struct OperatorDescription {
  std::string op;
  std::string params;
};
const std::vector<OperatorDescription>& supported_operators();

}  // namespace orrery
