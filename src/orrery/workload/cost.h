#pragma once

#include <array>
#include <vector>

#include "orrery/workload/workload.h"

namespace orrery {

/// What one execution of an operation must do, however it is implemented.
/// FLOPs count a multiply-add as two. Bytes are those of a kernel that runs
/// alone: operands read once, results written once; fused kernels drop what
/// stays inside (model/), those of a library add what its loops spend on addresses
/// (`index_flops`). Views and metadata cost nothing.
struct Cost {
  double matrix_flops = 0;
  double vector_flops = 0;          ///< Adds, compares, selects, conversions …
  double index_flops = 0;           ///< Of these, addressing: time of the unit but no work.
  double transcendental_flops = 0;  ///< Special functions, one each.
  double bytes_read = 0;
  double bytes_written = 0;
  ElementType matrix_type = ElementType::kNone;  ///< Operand type on the matrix unit.
  ElementType vector_type = ElementType::kNone;  ///< Also of the special functions.

  double flops() const { return matrix_flops + vector_flops - index_flops + transcendental_flops; }
  double bytes() const { return bytes_read + bytes_written; }
  bool operator==(const Cost&) const = default;
};

/// The cost of `op` itself. The body of reduce, map, sort and the like is
/// counted; control flow (call, while, if, fusion) costs nothing here, its
/// bodies do in `total_cost`.
Cost cost(const Workload& workload, OpId op);

enum class Unit : uint8_t { kMatrix, kVector, kTranscendental };

/// Sums over a function with calls followed and loops multiplied by their trip
/// count. Of the branches of an if or case, the costliest is counted.
struct TotalCost {
  std::array<std::array<double, kElementTypeCount>, 3> flops_by_unit_and_type{};
  double bytes_read = 0;
  double bytes_written = 0;
  double operations = 0;           ///< Executed, views and constants left out.
  double unknown_trip_counts = 0;  ///< Loops counted once for want of a count.

  double flops(Unit unit) const;
  double flops() const;
  /// FLOPs and bytes together: what branches are compared by.
  double weight() const { return flops() + bytes_read + bytes_written; }
  void add(const Cost& cost, double times);
  void add(const TotalCost& other, double times);
};

TotalCost total_cost(const Workload& workload, FunctionId function);

/// Totals of several functions and regions of a workload: each function is summed once.
class CostTotals {
 public:
  explicit CostTotals(const Workload& workload);

  const TotalCost& function(FunctionId id);
  TotalCost region(RegionId id);

 private:
  void add(OpId id, TotalCost& total);
  void add_bodies(const OpView& op, TotalCost& total, double times);

  const Workload& w_;
  std::vector<bool> known_;
  std::vector<TotalCost> functions_;
};

}  // namespace orrery
