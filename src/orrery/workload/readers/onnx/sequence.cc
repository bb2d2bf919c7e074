// Sequences, optionals and strings. Sequences are followed while reading: which
// tensors they hold is known, so they cost nothing themselves.
#include <algorithm>
#include <array>

#include "orrery/workload/readers/onnx/operator.h"

namespace orrery::onnx {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

const Value& sequence(NodeContext& c, size_t i) {
  const Value& value = c.value(i);
  if (value.kind != Value::Kind::kSequence) c.fail(fmt::format("input {} must be a sequence", i));
  return value;
}

/// A position in a sequence of `size`, or one past it where `end` allows.
size_t position(NodeContext& c, size_t input, size_t size, bool end) {
  const Dims given = c.integers(input, "the position");
  const auto count = static_cast<int64_t>(size);
  if (given.size() != 1) c.fail("the position must be one number");
  const int64_t place = given[0] < 0 ? given[0] + count : given[0];
  if (place < 0 || place > count || (place == count && !end))
    c.fail(fmt::format("position {} is outside a sequence of {}", given[0], size));
  return at(place);
}

void sequence_construct(NodeContext& c) {
  Value result;
  result.kind = Value::Kind::kSequence;
  for (size_t i = 0; i < c.input_count(); ++i) result.items.push_back(c.tensor(i));
  c.set(0, std::move(result));
}

void sequence_empty(NodeContext& c) {
  Value result;
  result.kind = Value::Kind::kSequence;
  c.set(0, std::move(result));
}

void sequence_at(NodeContext& c) {
  const Value& from = sequence(c, 0);
  c.set(0, Value(from.items[position(c, 1, from.items.size(), false)]));
}

void sequence_insert(NodeContext& c) {
  Value result = sequence(c, 0);
  const size_t place =
      c.has_input(2) ? position(c, 2, result.items.size(), true) : result.items.size();
  result.items.insert(result.items.begin() + static_cast<ptrdiff_t>(place), c.tensor(1));
  c.set(0, std::move(result));
}

void sequence_erase(NodeContext& c) {
  Value result = sequence(c, 0);
  if (result.items.empty()) c.fail("an empty sequence has nothing to erase");
  const size_t place =
      c.has_input(1) ? position(c, 1, result.items.size(), false) : result.items.size() - 1;
  result.items.erase(result.items.begin() + static_cast<ptrdiff_t>(place));
  c.set(0, std::move(result));
}

void sequence_length(NodeContext& c) {
  const auto length = static_cast<int64_t>(sequence(c, 0).items.size());
  if (!c.set_constant(0, Constant::scalar(ElementType::kS64, length)))
    c.fail("too many folded constants");
}

void concat_from_sequence(NodeContext& c) {
  const Value& from = sequence(c, 0);
  const bool stack = c.integer("new_axis", 0) != 0;
  if (from.items.empty()) c.fail("an empty sequence cannot be concatenated");
  const size_t rank = from.items[0].dims.size() + (stack ? 1 : 0);
  const int64_t axis = c.axis(c.required_integer("axis"), rank);
  std::vector<ValueId> parts;
  for (const Value& item : from.items) {
    ValueId part = c.operand(item);
    if (stack) {
      if (item.dims.size() + 1 != rank) c.fail("tensors of different rank cannot be stacked");
      Dims dims = item.dims;
      dims.insert(dims.begin() + axis, 1);
      part = c.reshape(part, dims);
    }
    parts.push_back(part);
  }
  c.set(0, c.concatenate(parts, axis));
}

void split_to_sequence(NodeContext& c) {
  c.expect_rank(0, 1);
  const int64_t axis = c.axis(c.integer("axis", 0), c.rank(0));
  const int64_t size = c.dims(0)[at(axis)];
  Dims parts;
  bool keep = true;
  // A sequence costs memory while reading; real ones hold some hundreds.
  constexpr int64_t kMaxParts = 65536;
  if (c.has_input(1)) {
    const Dims given = c.integers(1, "the split");
    if (c.rank(1) == 0) {
      if (given[0] <= 0) c.fail("parts of no size");
      if (size / given[0] > kMaxParts) c.fail("a sequence of too many parts");
      for (int64_t left = size; left > 0; left -= given[0])
        parts.push_back(std::min(left, given[0]));
    } else {
      parts = given;
    }
  } else {
    if (size > kMaxParts) c.fail("a sequence of too many parts");
    parts = Dims(at(size), 1);
    keep = c.integer("keepdims", 1) != 0;
  }
  const ValueId x = c.operand(0);
  Value result;
  result.kind = Value::Kind::kSequence;
  Dims start(c.rank(0)), limit = c.dims(0);
  for (int64_t part : parts) {
    if (part < 0 || part > size - start[at(axis)]) c.fail("the parts do not fit the input");
    limit[at(axis)] = start[at(axis)] + part;
    ValueId piece = c.slice(x, start, limit, Dims(c.rank(0), 1));
    if (!keep) {
      Dims dims = c.dims_of(piece);
      dims.erase(dims.begin() + axis);
      piece = c.reshape(piece, dims);
    }
    Value item;
    item.id = piece;
    item.element = c.element(0);
    item.dims = c.dims_of(piece);
    result.items.push_back(std::move(item));
    start[at(axis)] = limit[at(axis)];
  }
  c.set(0, std::move(result));
}

// --- optionals --------------------------------------------------------------

void make_optional(NodeContext& c) {
  Value result;
  result.kind = Value::Kind::kOptional;
  if (c.input_count() > 0 && c.has_input(0)) result.items.push_back(c.value(0));
  c.set(0, std::move(result));
}

void optional_get_element(NodeContext& c) {
  const Value& value = c.value(0);
  if (value.kind != Value::Kind::kOptional) return c.set(0, Value(value));
  if (value.items.empty()) c.fail("the optional is empty");
  c.set(0, Value(value.items[0]));
}

void optional_has_element(NodeContext& c) {
  bool has = false;
  if (c.input_count() > 0 && !c.node().inputs[0].empty()) {
    const Value& value = c.value(0);
    has = value.kind != Value::Kind::kOptional || !value.items.empty();
  }
  if (!c.set_constant(0, Constant::scalar(ElementType::kBool, has ? 1 : 0)))
    c.fail("too many folded constants");
}

// --- strings and files, which run on a host -----------------------------------

void host_work(NodeContext& c, std::span<const TypeId> types) {
  c.note(fmt::format("{} works on strings or files on the host: its cost is not counted",
                     c.node().op_type));
  std::vector<ValueId> operands;
  for (size_t i = 0; i < c.input_count(); ++i)
    if (c.has_input(i)) operands.push_back(c.operand(i));
  const auto results = c.emit_many(Opcode::k_custom_call, operands, types, [&](WorkloadBuilder& b) {
    b.set_string(Attr::kTarget, fmt::format("onnx.{}", c.node().op_type));
  });
  for (size_t i = 0; i < results.size(); ++i) c.set(i, results[i]);
}

void string_concat(NodeContext& c) {
  c.expect_inputs(2);
  const TypeId type = c.type(ElementType::kString, c.broadcast(c.dims(0), c.dims(1)));
  host_work(c, {&type, 1});
}

void regex_full_match(NodeContext& c) {
  const TypeId type = c.type(ElementType::kBool, c.dims(0));
  host_work(c, {&type, 1});
}

void string_normalizer(NodeContext& c) {
  Dims dims = c.dims(0);
  // Stop words are taken out, as many as there are.
  if (c.has_attribute("stopwords") && !dims.empty()) {
    std::vector<std::optional<int64_t>> open(dims.begin(), dims.end());
    open.back() = std::nullopt;
    dims = c.data_dependent(0, open);
  }
  const TypeId type = c.type(ElementType::kString, dims);
  host_work(c, {&type, 1});
}

void string_split(NodeContext& c) {
  std::vector<std::optional<int64_t>> open(c.dims(0).begin(), c.dims(0).end());
  open.push_back(std::nullopt);
  const std::array types = {c.type(ElementType::kString, c.data_dependent(0, open)),
                            c.type(ElementType::kS64, c.dims(0))};
  host_work(c, types);
}

void tfidf_vectorizer(NodeContext& c) {
  const auto indexes = c.integer_list("ngram_indexes");
  if (!indexes || indexes->empty()) c.fail("'ngram_indexes' is missing");
  Dims dims = c.dims(0);
  if (dims.empty()) c.fail("a vector or a batch of them is expected");
  dims.back() = c.add(*std::max_element(indexes->begin(), indexes->end()), 1);
  const TypeId type = c.type(ElementType::kF32, dims);
  host_work(c, {&type, 1});
}

void image_decoder(NodeContext& c) {
  const bool grey = c.string("pixel_format", "RGB") == "Grayscale";
  const Dims dims = c.data_dependent(0, {std::nullopt, std::nullopt, grey ? 1 : 3});
  const TypeId type = c.type(ElementType::kU8, dims);
  host_work(c, {&type, 1});
}

constexpr OperatorRule kRules[] = {
    {"ConcatFromSequence", concat_from_sequence},
    {"ImageDecoder", image_decoder},
    {"Optional", make_optional},
    {"OptionalGetElement", optional_get_element},
    {"OptionalHasElement", optional_has_element},
    {"RegexFullMatch", regex_full_match},
    {"SequenceAt", sequence_at},
    {"SequenceConstruct", sequence_construct},
    {"SequenceEmpty", sequence_empty},
    {"SequenceErase", sequence_erase},
    {"SequenceInsert", sequence_insert},
    {"SequenceLength", sequence_length},
    {"SplitToSequence", split_to_sequence},
    {"StringConcat", string_concat},
    {"StringNormalizer", string_normalizer},
    {"StringSplit", string_split},
    {"TfIdfVectorizer", tfidf_vectorizer},
};

}  // namespace

std::span<const OperatorRule> sequence_rules() { return kRules; }

}  // namespace orrery::onnx
