#include "orrery/workload/trip_count.h"

#include <optional>

namespace orrery {
namespace {

/// The integer a value holds, where it is a constant (seen through conversions).
std::optional<int64_t> constant_of(const Workload& w, ValueId value) {
  for (int step = 0; step < 8; ++step) {
    const OpId id = w.value(value).definition;
    if (!id.valid()) return std::nullopt;
    const OpView op = w.view(id);
    switch (op.code()) {
      case Opcode::k_constant: {
        const auto values = op.integers(Attr::kValue);
        if (values.size() != 1) return std::nullopt;
        return values[0];
      }
      case Opcode::k_convert:
      case Opcode::k_copy:
      case Opcode::k_bitcast:
      case Opcode::k_reshape:
        if (op.operand_count() != 1) return std::nullopt;
        value = op.operand(0);
        break;
      default:
        return std::nullopt;
    }
  }
  return std::nullopt;
}

/// The last `return` of a region, or nothing.
std::optional<OpView> terminator(const Workload& w, const Region& region) {
  std::optional<OpView> last;
  for_each_op(w, region, [&](OpId id) { last = w.view(id); });
  if (!last || last->code() != Opcode::k_return) return std::nullopt;
  return last;
}

/// Which of the region's arguments `value` is; -1 if none.
int64_t argument_index(const Region& region, ValueId value) {
  if (value.index < region.first_argument ||
      value.index >= region.first_argument + region.argument_count)
    return -1;
  return value.index - region.first_argument;
}

std::optional<int64_t> trip_count(const Workload& w, const OpView& loop) {
  const auto regions = loop.raw_regions();
  if (regions.size() != 2) return std::nullopt;
  const Region& condition = w.region(regions[0]);
  const Region& body = w.region(regions[1]);

  const auto test = terminator(w, condition);
  if (!test || test->operand_count() != 1) return std::nullopt;
  const OpId compare_id = w.value(test->operand(0)).definition;
  if (!compare_id.valid() || w.op(compare_id).code != Opcode::k_compare) return std::nullopt;
  const OpView compare = w.view(compare_id);
  if (compare.operand_count() != 2) return std::nullopt;

  const auto next = terminator(w, body);
  if (!next || next->operand_count() != body.argument_count ||
      loop.operand_count() != body.argument_count ||
      condition.argument_count != body.argument_count)
    return std::nullopt;

  // A bound is a constant, or a variable that the body hands on unchanged and
  // that starts as a constant.
  const auto bound_of = [&](ValueId value) -> std::optional<int64_t> {
    const int64_t index = argument_index(condition, value);
    if (index < 0) return constant_of(w, value);
    const auto i = static_cast<uint32_t>(index);
    if (argument_index(body, next->operand(i)) != index) return std::nullopt;
    return constant_of(w, loop.operand(i));
  };

  std::string_view direction = compare.string(Attr::kCompare);
  ValueId counter = compare.operand(0);
  std::optional<int64_t> bound = bound_of(compare.operand(1));
  if (!bound) {  // limit > counter
    counter = compare.operand(1);
    bound = bound_of(compare.operand(0));
    if (direction == "LT")
      direction = "GT";
    else if (direction == "GT")
      direction = "LT";
    else if (direction == "LE")
      direction = "GE";
    else if (direction == "GE")
      direction = "LE";
  }
  const int64_t index = argument_index(condition, counter);
  if (!bound || index < 0) return std::nullopt;
  const auto i = static_cast<uint32_t>(index);
  const auto start = constant_of(w, loop.operand(i));
  if (!start) return std::nullopt;

  const OpId step_id = w.value(next->operand(i)).definition;
  if (!step_id.valid()) return std::nullopt;
  const OpView step_op = w.view(step_id);
  if (step_op.operand_count() != 2) return std::nullopt;
  std::optional<int64_t> step;
  const bool first = argument_index(body, step_op.operand(0)) == index;
  const bool second = argument_index(body, step_op.operand(1)) == index;
  if (step_op.code() == Opcode::k_add && first)
    step = constant_of(w, step_op.operand(1));
  else if (step_op.code() == Opcode::k_add && second)
    step = constant_of(w, step_op.operand(0));
  else if (step_op.code() == Opcode::k_subtract && first) {
    step = constant_of(w, step_op.operand(1));
    if (step) *step = -*step;
  }
  if (!step || *step == 0) return std::nullopt;

  // In 128 bits: the three numbers are the file's, and may be anything.
  const auto s = static_cast<__int128>(*start), e = static_cast<__int128>(*bound),
             d = static_cast<__int128>(*step);
  __int128 trips = 0;
  if (direction == "LT" && d > 0)
    trips = (e - s + d - 1) / d;
  else if (direction == "LE" && d > 0)
    trips = (e - s + d) / d;
  else if (direction == "GT" && d < 0)
    trips = (s - e - d - 1) / -d;
  else if (direction == "GE" && d < 0)
    trips = (s - e - d) / -d;
  else if (direction == "NE" && (e - s) % d == 0 && (e - s) / d >= 0)
    trips = (e - s) / d;
  else
    return std::nullopt;
  if (trips < 0) trips = 0;
  if (trips > INT64_MAX) return std::nullopt;
  return static_cast<int64_t>(trips);
}

}  // namespace

void infer_trip_counts(WorkloadBuilder& builder, int64_t otherwise) {
  const Workload& w = builder.so_far();
  for (uint32_t i = 0; i < w.ops().size(); ++i) {
    if (w.ops()[i].code != Opcode::k_while) continue;
    const OpView loop = w.view(OpId{i});
    if (loop.has(Attr::kTripCount)) continue;
    if (const auto trips = trip_count(w, loop))
      builder.annotate(OpId{i}, Attr::kTripCount, *trips);
    else if (otherwise > 0)
      builder.annotate(OpId{i}, Attr::kTripCount, otherwise);
  }
}

}  // namespace orrery
