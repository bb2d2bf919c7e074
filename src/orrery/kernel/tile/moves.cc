#include <algorithm>
#include <array>
#include <cmath>

#include "orrery/kernel/tile/builder.h"

namespace orrery {

using namespace tile;

void TileGpu::Builder::elementwise() {
  const Cost& c = kernel.cost;
  add_common(vector_seconds(), c.bytes() / gpu.bandwidth_);
  const double elements =
      c.bytes_written /
      std::max(0.5, bytes_of(kernel.tensors[std::max<size_t>(1, kernel.tensor_count) - 1].element));
  add("kind", kind_of(kernel.code));
  add("lg_elements", lg(elements));
  add("element_bytes", bytes_of(kernel.tensors[0].element));
  add("reads", c.bytes_read / std::max(1.0, c.bytes_written));
  add("special_per_element", c.transcendental_flops / std::max(1.0, elements));
  add("flops_per_element", c.vector_flops / std::max(1.0, elements));
  add("lg_elements_per_sm", lg(elements / gpu.sms_));
  const double blocks = elements * bytes_of(kernel.tensors[0].element) / (128 * 16) / gpu.sms_;
  add("wave", filled(blocks));
}

void TileGpu::Builder::move(const MoveShape& m) {
  const Cost& c = kernel.cost;
  add_common(vector_seconds(), c.bytes() / gpu.bandwidth_);
  const double element = bytes_of(kernel.tensors[0].element);
  add("lg_elements", lg(static_cast<double>(m.elements)));
  add("element_bytes", element);
  add("lg_read_run", lg(static_cast<double>(m.read_run) * element));
  add("lg_write_run", lg(static_cast<double>(m.write_run) * element));
  for (size_t back = 1; back <= 3; ++back) {
    const size_t count = kernel.loop_count;
    const double extent =
        count >= back ? static_cast<double>(kernel.loops[count - back].extent) : 1;
    static constexpr std::array<std::string_view, 3> kNames = {"lg_last", "lg_before_last",
                                                               "lg_third_last"};
    add(kNames[back - 1], lg(extent));
  }
  const size_t count = kernel.loop_count;
  add("align_last", count > 0 ? alignment(kernel.loops[count - 1].extent, 64) : 0);
  add("align_before_last", count > 1 ? alignment(kernel.loops[count - 2].extent, 64) : 0);
  add("lg_elements_per_sm", lg(static_cast<double>(m.elements) / gpu.sms_));
}

void TileGpu::Builder::lookup(const LookupShape& l) {
  const Cost& c = kernel.cost;
  add_common(vector_seconds(), c.bytes() / gpu.bandwidth_);
  const double element = bytes_of(kernel.tensors[0].element);
  add("kind", kind_of(kernel.code));
  add("lg_count", lg(static_cast<double>(l.count)));
  add("lg_width", lg(static_cast<double>(l.width)));
  add("lg_row_bytes", lg(static_cast<double>(l.width) * element));
  add("lg_table_l2", lg(static_cast<double>(l.table_rows) * static_cast<double>(l.width) * element /
                        gpu.l2_bytes_));
  add("accumulate", l.accumulate ? 1 : 0);
  add("lg_count_per_sm", lg(static_cast<double>(l.count) / gpu.sms_));
  add("element_bytes", element);
}

void TileGpu::Builder::other() {
  const Cost& c = kernel.cost;
  add_common(std::max(matrix_seconds(c.matrix_flops, c.matrix_type), vector_seconds()),
             c.bytes() / gpu.bandwidth_);
  add("kind", kind_of(kernel.code));
}

}  // namespace orrery
