#pragma once

#include <cstdint>
#include <span>

#include "orrery/workload/cost.h"
#include "orrery/workload/opcode.h"

namespace orrery {

/// The formulas of `cost()`, on sizes alone: for it, and for kernels that are made
/// without a workload (kernel/operator_kernel.h).

/// Vector operations and special functions an element takes.
struct PerElement {
  double vector = 0;
  double transcendental = 0;
};

/// Of an elementwise operation without a body, for each result element of type `element`.
PerElement elementwise_work(Opcode code, ElementType element);

/// Of an operation over rows (norms, softmax, scans, sort, top_k), for each input
/// element. `length`: of a row to sort, log2 of it a comparison tree deep; of
/// top_k the k, a heap of it. 1 for what has no rule of its own.
PerElement row_work(Opcode code, double length);

/// Work of `count` elements, added.
void add_work(Cost& cost, double count, PerElement work);

/// Multiply-adds on the matrix unit in `type`, added: two FLOPs each, four times
/// that for complex numbers.
void add_products(Cost& cost, double products, ElementType type);

/// The wider of two operand types: what a product of both is computed in.
ElementType wider_type(ElementType lhs, ElementType rhs);

/// Which scores of attention are computed, and which keys no query sees.
struct AttentionMask {
  double pairs = 0;   ///< Of queries and keys, for each head.
  double unseen = 0;  ///< Share of the keys and values.
};
/// `queries` are the last of `keys` tokens; causal ones see no later key, with a
/// `window` (0: none) only so many keys.
AttentionMask attention_mask(double queries, double keys, bool causal, double window);

/// Two products a scored pair and head, of depth d and dv, and a softmax of each
/// score, carried in single precision; `factor` times all of it.
void add_attention(Cost& cost, double heads, double pairs, double depths, ElementType type,
                   double factor = 1);

/// Share of a grouped product's weights that `rows` rows read; `active` groups are
/// touched, min(groups, rows) where it is negative.
double active_share(double groups, double rows, double active = -1);

/// Whether a transposition leaves all elements where they are: only dimensions of
/// size one change their order.
bool moves_unit_dimensions_only(std::span<const int64_t> dims, std::span<const int64_t> order);

/// Takes the types of units that do nothing out.
void drop_unused_types(Cost& cost);

}  // namespace orrery
