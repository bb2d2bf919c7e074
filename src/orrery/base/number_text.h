#pragma once

#include <cstddef>

namespace orrery {

/// Characters that `write_number` may write.
inline constexpr size_t kLongestNumber = 24;

/// Six significant digits, as printf's %.6g writes them, several times as fast: a
/// table of a million rows has millions of numbers. Digits are rounded from one
/// product in double precision, so that of numbers that lie within some 10^-16 of
/// a tie the last digit may be the other neighbour. Gives the end of the text.
char* write_number(char* out, double value);

}  // namespace orrery
