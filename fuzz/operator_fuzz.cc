// Any three texts must give an operator's kernel or std::invalid_argument, and a
// kernel's figures must be numbers that are not negative.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "orrery/kernel/operator_kernel.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace orrery;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t first = text.find('\n');
  const size_t second = first == std::string_view::npos ? first : text.find('\n', first + 1);
  if (second == std::string_view::npos) return 0;
  try {
    const Kernel kernel = operator_kernel(
        text.substr(0, first), text.substr(first + 1, second - first - 1), text.substr(second + 1));
    const Cost& c = kernel.cost;
    for (double figure :
         {c.matrix_flops, c.vector_flops, c.transcendental_flops, c.bytes_read, c.bytes_written})
      if (!std::isfinite(figure) || figure < 0) std::abort();
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
