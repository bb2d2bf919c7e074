#include "orrery/workload/readers/hlo/values.h"

#include <fmt/format.h>

namespace orrery::hlo {
namespace {

// Single digits name spatial dimensions in dim_labels.
constexpr size_t kMaxSpatial = 10;

/// `3x3`
void read_product(Cursor& cursor, std::vector<int64_t>& into) {
  do {
    into.push_back(cursor.integer("a number"));
  } while (cursor.accept('x'));
}

/// `1_1x0_2_1`
void read_padding_list(Cursor& cursor, Padding& into) {
  do {
    into.low.push_back(cursor.integer("padding before a dimension"));
    cursor.expect('_', "between the paddings of a dimension");
    into.high.push_back(cursor.integer("padding after a dimension"));
    into.interior.push_back(cursor.accept('_') ? cursor.integer("interior padding") : 0);
  } while (cursor.accept('x'));
}

/// `{0,1}`, the index of a value inside nested tuples.
int64_t read_tuple_index(Cursor& cursor, bool& nested, size_t plain_depth) {
  int64_t first = 0;
  size_t depth = 0;
  cursor.expect('{', "before an index");
  if (!cursor.accept('}')) {
    do {
      const int64_t index = cursor.integer("an index");
      if (index < 0) cursor.fail("an index cannot be negative");
      if (depth++ == 0) first = index;
    } while (cursor.accept(','));
    cursor.expect('}', "after an index");
  }
  nested |= depth > plain_depth;
  return first;
}

/// `(1, {}, may-alias)`
void read_aliased_operand(Cursor& cursor, Alias& into) {
  cursor.expect('(', "before an aliased operand");
  into.operand = cursor.integer("an operand's number");
  if (into.operand < 0) cursor.fail("an operand's number cannot be negative");
  if (cursor.accept(',')) {
    read_tuple_index(cursor, into.nested, 0);
    if (cursor.accept(',') && cursor.word().empty()) cursor.fail_expected("a kind of alias");
  }
  cursor.expect(')', "after an aliased operand");
}

/// Reads `label`s up to `end`; `first` and `second` stand for the two dimensions
/// that are not spatial.
ConvolutionDimensions::Operand read_labels(Cursor& cursor, std::string_view labels, char first,
                                           char second) {
  ConvolutionDimensions::Operand dims;
  dims.batch = dims.feature = -1;
  std::vector<int64_t> spatial(kMaxSpatial, -1);
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto position = static_cast<int64_t>(i);
    int64_t* place = nullptr;
    if (labels[i] == first) place = &dims.batch;
    if (labels[i] == second) place = &dims.feature;
    if (labels[i] >= '0' && labels[i] <= '9')
      place = &spatial[static_cast<size_t>(labels[i] - '0')];
    if (labels[i] == '?') continue;  // A dimension XLA knows to be of size 1.
    if (place == nullptr || *place >= 0)
      cursor.fail_expected(
          fmt::format("'{}', '{}' and digits once each in '{}'", first, second, labels));
    *place = position;
  }
  if (dims.batch < 0 || dims.feature < 0)
    cursor.fail_expected(fmt::format("both '{}' and '{}' in '{}'", first, second, labels));
  size_t count = 0;
  while (count < kMaxSpatial && spatial[count] >= 0) ++count;
  for (size_t i = count; i < kMaxSpatial; ++i) {
    if (spatial[i] >= 0)
      cursor.fail(fmt::format("spatial dimension {} without {} in '{}'", i, count, labels));
  }
  dims.spatial.assign(spatial.begin(), spatial.begin() + static_cast<ptrdiff_t>(count));
  return dims;
}

}  // namespace

void read_integers(Cursor cursor, std::vector<int64_t>& into) {
  cursor.expect('{', "before a list of numbers");
  if (!cursor.accept('}')) {
    do {
      into.push_back(cursor.integer("a number"));
    } while (cursor.accept(','));
    cursor.expect('}', "or ',' in a list of numbers");
  }
  cursor.expect_end("of a list of numbers");
}

bool read_flag(Cursor cursor) {
  if (cursor.accept("true")) return true;
  if (!cursor.accept("false")) cursor.fail_expected("true or false");
  return false;
}

void read_pairs(Cursor cursor, std::vector<int64_t>& into) {
  cursor.expect('{', "before a list of pairs");
  if (!cursor.accept('}')) {
    do {
      cursor.expect('{', "before a pair");
      into.push_back(cursor.integer("the first of a pair"));
      cursor.expect(',', "inside a pair");
      into.push_back(cursor.integer("the second of a pair"));
      cursor.expect('}', "after a pair");
    } while (cursor.accept(','));
    cursor.expect('}', "or ',' between pairs");
  }
  cursor.expect_end("of a list of pairs");
}

void read_slices(Cursor cursor, Slices& into) {
  cursor.expect('{', "before slices");
  if (!cursor.accept('}')) {
    do {
      cursor.expect('[', "before a slice");
      into.start.push_back(cursor.integer("the start of a slice"));
      cursor.expect(':', "inside a slice");
      into.limit.push_back(cursor.integer("the end of a slice"));
      into.stride.push_back(cursor.accept(':') ? cursor.integer("the stride of a slice") : 1);
      cursor.expect(']', "after a slice");
    } while (cursor.accept(','));
    cursor.expect('}', "or ',' between slices");
  }
  cursor.expect_end("of the slices");
}

void read_padding(Cursor cursor, Padding& into) {
  read_padding_list(cursor, into);
  cursor.expect_end("of the padding");
}

void read_window(Cursor cursor, Window& into) {
  std::vector<int64_t> reversal;
  const size_t start = cursor.offset();
  cursor.expect('{', "before a window");
  while (!cursor.accept('}')) {
    cursor.at_end();
    const size_t offset = cursor.offset();
    const std::string_view key = cursor.word();
    cursor.expect('=', "in a window");
    if (key == "size") {
      read_product(cursor, into.size);
    } else if (key == "stride") {
      read_product(cursor, into.strides);
    } else if (key == "pad") {
      read_padding_list(cursor, into.padding);
    } else if (key == "lhs_dilate") {
      read_product(cursor, into.base_dilation);
    } else if (key == "rhs_dilate") {
      read_product(cursor, into.window_dilation);
    } else if (key == "rhs_reversal") {
      read_product(cursor, reversal);
    } else {
      cursor.rewind(offset);
      cursor.fail_expected("size, stride, pad, lhs_dilate, rhs_dilate or rhs_reversal");
    }
  }
  const auto check = [&](const std::vector<int64_t>& list, std::string_view what) {
    if (!list.empty() && list.size() != into.size.size())
      cursor.source().fail(start, fmt::format("the window has {} sizes but {} of {}",
                                              into.size.size(), list.size(), what));
  };
  check(into.strides, "stride");
  check(into.padding.low, "pad");
  check(into.base_dilation, "lhs_dilate");
  check(into.window_dilation, "rhs_dilate");
  check(reversal, "rhs_reversal");
}

ConvolutionDimensions read_dim_labels(Cursor cursor) {
  const std::string_view text = cursor.value();
  const size_t underscore = text.find('_');
  const size_t arrow = text.find("->");
  cursor.rewind(cursor.offset() - text.size());
  if (underscore == std::string_view::npos || arrow == std::string_view::npos || arrow < underscore)
    cursor.fail_expected("dimension labels like b01f_01io->b01f");
  ConvolutionDimensions dims;
  dims.input = read_labels(cursor, text.substr(0, underscore), 'b', 'f');
  dims.kernel = read_labels(cursor, text.substr(underscore + 1, arrow - underscore - 1), 'i', 'o');
  dims.output = read_labels(cursor, text.substr(arrow + 2), 'b', 'f');
  if (dims.input.spatial.size() != dims.kernel.spatial.size() ||
      dims.input.spatial.size() != dims.output.spatial.size())
    cursor.fail(fmt::format("the parts of '{}' differ in spatial dimensions", text));
  return dims;
}

std::vector<Alias> read_aliases(Cursor cursor) {
  std::vector<Alias> aliases;
  cursor.expect('{', "before aliases");
  if (!cursor.accept('}')) {
    do {
      Alias alias;
      alias.output = read_tuple_index(cursor, alias.nested, 1);
      cursor.expect(':', "between an output and its alias");
      read_aliased_operand(cursor, alias);
      aliases.push_back(alias);
    } while (cursor.accept(','));
    cursor.expect('}', "or ',' between aliases");
  }
  return aliases;
}

std::vector<Alias> read_donors(Cursor cursor) {
  std::vector<Alias> donors;
  cursor.expect('{', "before donated buffers");
  if (!cursor.accept('}')) {
    do {
      Alias donor;
      read_aliased_operand(cursor, donor);
      donors.push_back(donor);
    } while (cursor.accept(','));
    cursor.expect('}', "or ',' between donated buffers");
  }
  return donors;
}

std::string_view read_op_name(Cursor cursor) {
  std::string_view op_name;
  cursor.expect('{', "before metadata");
  while (!cursor.accept('}')) {
    const std::string_view key = cursor.word();
    cursor.expect('=', "in metadata");
    if (key == "op_name")
      op_name = cursor.quoted("a string");
    else
      cursor.value();
    cursor.accept(',');
  }
  return op_name;
}

}  // namespace orrery::hlo
