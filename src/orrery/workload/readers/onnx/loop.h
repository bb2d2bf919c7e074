#pragma once

#include <functional>

#include "orrery/workload/readers/onnx/operator.h"

namespace orrery::onnx {

/// Emits a counted `while`. Its first carried value is the iteration number,
/// counted here; `body` gets that number and the other carried values and gives
/// their next ones, of the same types. Without a trip count the loop runs while
/// the first of `initial`, a bool, holds. Returns the last values of `initial`.
std::vector<ValueId> emit_loop(
    NodeContext& c, std::optional<int64_t> trip_count, std::span<const ValueId> initial,
    const std::function<std::vector<ValueId>(ValueId iteration, std::span<const ValueId>)>& body);

/// The slice at `iteration` along dimension 0, without that dimension.
ValueId read_slice(NodeContext& c, ValueId from, ValueId iteration);
/// `buffer` with `value` written at `iteration` along dimension 0.
ValueId write_slice(NodeContext& c, ValueId buffer, ValueId value, ValueId iteration);

}  // namespace orrery::onnx
