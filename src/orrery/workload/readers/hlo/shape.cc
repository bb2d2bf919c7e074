#include "orrery/workload/readers/hlo/shape.h"

#include <fmt/format.h>

#include <stdexcept>

namespace orrery::hlo {
namespace {

// XLA nests tuples two or three deep; this keeps hostile text off the stack.
constexpr int kMaxDepth = 64;

}  // namespace

TypeId ShapeReader::read(Cursor& cursor, int depth) {
  if (cursor.next_is('(')) return read_tuple(cursor, depth);
  const size_t offset = cursor.offset();
  const std::string_view element = cursor.word();
  if (element == "b" && cursor.touches('(')) {  // A buffer: the shape it holds, in brackets.
    if (depth == kMaxDepth) cursor.fail("shapes are nested more than 64 deep");
    cursor.expect('(', "before a buffer's shape");
    const TypeId held = read(cursor, depth + 1);
    cursor.expect(')', "after a buffer's shape");
    return held;
  }
  if (element.empty() || !cursor.touches('[')) {
    cursor.rewind(offset);
    cursor.fail_expected("a shape like f32[8,128]{1,0}");
  }
  const std::string_view dims = cursor.bracketed();
  const std::string_view layout = cursor.touches('{') ? cursor.bracketed() : std::string_view();
  const std::string_view spelling = cursor.since(offset);
  if (const uint32_t* known = known_.find(spelling)) return TypeId{*known};
  const TypeId type = read_array(element, dims, layout, cursor.source(), offset);
  known_.add(spelling, type.index);
  return type;
}

TypeId ShapeReader::read_tuple(Cursor& cursor, int depth) {
  const size_t offset = cursor.offset();
  if (depth == kMaxDepth) cursor.fail("tuples are nested more than 64 deep");
  cursor.expect('(', "before a tuple's shapes");
  std::vector<TypeId> members;
  if (!cursor.accept(')')) {
    do {
      members.push_back(read(cursor, depth + 1));
    } while (cursor.accept(','));
    cursor.expect(')', "or ',' between a tuple's shapes");
  }
  try {
    return builder_->tuple_type(members);
  } catch (const std::invalid_argument& problem) {
    cursor.source().fail(offset, problem.what());
  }
}

TypeId ShapeReader::read_array(std::string_view element, std::string_view dims,
                               std::string_view layout, const Source& source, size_t offset) {
  // Values that carry order or a handle, not data.
  if (element == "token" || element == "opaque") return builder_->token_type();
  std::optional<ElementType> type = element_type_from_hlo(element);
  if (element == "s1" || element == "u1") {
    builder_->add_note("1-bit integers (s1, u1) are counted as one byte each");
    type = ElementType::kBool;
  }
  if (!type) source.fail(offset, fmt::format("unknown element type '{}'", element));
  std::vector<int64_t> sizes;
  std::vector<int64_t> minor_to_major;
  read_dims(Cursor(source, dims), sizes);
  if (!layout.empty()) {
    read_layout(Cursor(source, layout), minor_to_major);
    if (minor_to_major.size() != sizes.size())
      source.fail(offset, fmt::format("the layout orders {} dimensions, the shape has {}",
                                      minor_to_major.size(), sizes.size()));
  }
  // Row-major is written as no layout, so that equal types have equal ids.
  bool row_major = true;
  for (size_t i = 0; i < sizes.size() && row_major && !minor_to_major.empty(); ++i)
    row_major = minor_to_major[i] == static_cast<int64_t>(sizes.size() - 1 - i);
  if (row_major) minor_to_major.clear();
  try {
    return builder_->tensor_type(*type, sizes, minor_to_major);
  } catch (const std::invalid_argument& problem) {
    source.fail(offset, problem.what());
  }
}

void ShapeReader::read_dims(Cursor cursor, std::vector<int64_t>& dims) {
  cursor.expect('[', "before the dimensions");
  if (cursor.accept(']')) return;
  do {
    const size_t offset = cursor.offset();
    if (cursor.accept('?')) {
      dims.push_back(open_size_.value_or(kDynamic));
      continue;
    }
    if (cursor.accept("<="))
      builder_->add_note("dynamic dimensions with a bound (<=n) are counted at their bound");
    const int64_t size = cursor.integer("a dimension's size");
    if (size < 0) cursor.source().fail(offset, fmt::format("negative dimension {}", size));
    dims.push_back(size);
  } while (cursor.accept(','));
  cursor.expect(']', "or ',' after a dimension");
}

void ShapeReader::read_layout(Cursor cursor, std::vector<int64_t>& minor_to_major) {
  cursor.expect('{', "before the layout");
  if (cursor.next_is_digit()) {
    do {
      minor_to_major.push_back(cursor.integer("a dimension's number"));
    } while (cursor.accept(','));
  }
  if (cursor.accept(':')) {
    while (!cursor.next_is('}')) {
      const bool mark = cursor.accept('#') || cursor.accept('*');
      const std::string_view key = cursor.word();
      if (key.empty() && !mark && !cursor.next_is('(')) cursor.fail_expected("a layout property");
      if (key == "T")
        builder_->add_note("tiled layouts are counted without the padding of their tiles");
      if (key == "S") builder_->add_note("memory spaces of layouts, S(n), are not told apart");
      while (cursor.next_is('(')) cursor.bracketed();
    }
  }
  cursor.expect('}', "after the layout");
}

}  // namespace orrery::hlo
