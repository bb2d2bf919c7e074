#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "orrery/workload/readers/hlo/cursor.h"

namespace orrery::hlo {

// The forms attributes' values take. Each reads one value from a cursor that
// walks over that value alone, and throws `kInput` at the place otherwise.

/// `{0,2,3}`
void read_integers(Cursor cursor, std::vector<int64_t>& into);

/// `true` or `false`.
bool read_flag(Cursor cursor);

/// `{{0,1},{1,2}}`, flat.
void read_pairs(Cursor cursor, std::vector<int64_t>& into);

/// `{[0:4], [2:8:2]}`
struct Slices {
  std::vector<int64_t> start, limit, stride;
};
void read_slices(Cursor cursor, Slices& into);

/// `0_1x2_3_1`: low, high and, where given, interior padding of each dimension.
struct Padding {
  std::vector<int64_t> low, high, interior;
};
void read_padding(Cursor cursor, Padding& into);

/// `{size=3x3 stride=2x2 pad=1_1x1_1 lhs_dilate=1x1 rhs_dilate=2x2 rhs_reversal=1x1}`;
/// what is not given stays empty. Reversal changes neither work nor traffic and
/// is left out.
struct Window {
  std::vector<int64_t> size, strides, base_dilation, window_dilation;
  Padding padding;
};
void read_window(Cursor cursor, Window& into);

/// `b01f_01io->b01f`: which dimension of input, kernel and output is what.
struct ConvolutionDimensions {
  struct Operand {
    int64_t batch = 0;    ///< Of the kernel: its input features.
    int64_t feature = 0;  ///< Of the kernel: its output features.
    std::vector<int64_t> spatial;
  };
  Operand input, kernel, output;
};
ConvolutionDimensions read_dim_labels(Cursor cursor);

/// `{{0}: (1, {}), {1}: (2, {}, may-alias)}` of a module or an instruction.
struct Alias {
  int64_t output = 0;   ///< Member of the result tuple; 0 when it is no tuple.
  int64_t operand = 0;  ///< Operand or parameter.
  bool nested = false;  ///< One side is inside a tuple inside.
};
std::vector<Alias> read_aliases(Cursor cursor);

/// `{ (0, {}), (2, {1}) }`: parameters whose buffers the caller gives away.
std::vector<Alias> read_donors(Cursor cursor);

/// The string `op_name` of `{op_type="dot" op_name="jit(f)/dot" source_line=3}`,
/// escapes kept; empty when there is none.
std::string_view read_op_name(Cursor cursor);

}  // namespace orrery::hlo
