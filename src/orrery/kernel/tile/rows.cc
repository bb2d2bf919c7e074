#include <algorithm>
#include <array>
#include <cmath>

#include "orrery/kernel/tile/builder.h"

namespace orrery {

using namespace tile;

void TileGpu::Builder::rows(const RowShape& r) {
  const Cost& c = kernel.cost;
  // A block walks along its row (the clocks an element are those of short tables of long
  // rows in data/measured); so many blocks run on an SM at a time. Reductions part
  // long rows among blocks.
  constexpr double kClocksPerElement = 1.6, kBlocksPerSm = 16;
  const double waves_of_blocks =
      std::max(1.0, static_cast<double>(r.rows) / (gpu.sms_ * kBlocksPerSm));
  const double walk = waves_of_blocks * static_cast<double>(r.columns) * kClocksPerElement / clock;
  const double alone = d.tile_class == TileClass::kReduction ? 0 : walk;
  add_common(std::max(vector_seconds(), alone), c.bytes() / gpu.bandwidth_);
  add("ln_walk_us", ln(walk * 1e6));
  const auto rows = static_cast<double>(r.rows), columns = static_cast<double>(r.columns),
             inner = static_cast<double>(r.inner);
  const double element = bytes_of(kernel.tensors[0].element);
  add("kind", kind_of(kernel.code));
  add("lg_rows", lg(rows));
  add("lg_columns", lg(columns));
  add("lg_inner", lg(inner));
  add("element_bytes", element);
  add("lg_row_bytes", lg(columns * element));
  add("aligned", static_cast<int64_t>(columns * element) % 16 == 0 ? 1 : 0);
  add("lg_rows_per_sm", lg(rows / gpu.sms_));
  const double waves = rows / gpu.sms_;
  add("wave", filled(waves));
  add("columns_mod_1024", static_cast<double>(r.columns % 1024));
  add("lg_elements", lg(rows * columns));
  // PyTorch's blocks take four elements a thread and the largest power of two of threads
  // below a row's need, 512 at most; rows in flight that L2 cannot hold are read again.
  const double threads = std::exp2(std::clamp(std::ceil(lg(columns / 4)) - 1, 5.0f, 9.0f));
  add("lanes_filled", filled(columns / (4 * threads)));
  add("lg_flight_l2",
      lg(std::min(rows, gpu.sms_ * 2048 / threads) * columns * element / gpu.l2_bytes_));
}

}  // namespace orrery
