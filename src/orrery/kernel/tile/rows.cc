#include <algorithm>
#include <bit>
#include <cmath>

#include "orrery/kernel/tile/builder.h"

namespace orrery {
namespace {

using tile::up;

/// How rows are dealt out to threads. Blocks run in waves of as many as an SM's threads allow.
struct RowLaunch {
  double threads = 1;            ///< of a block
  double blocks = 1;             ///< of the grid
  double values_per_thread = 1;  ///< that one thread walks through
  double blocks_per_row = 1;     ///< above 1: partial results meet in memory
  double waste = 1;              ///< elements walked through over elements there
  /// A thread alone takes so long over a value: passes times the time of a load, over how many
  /// are under way at once; of the order of what single rows take in data/measured.
  double clocks_per_value = 100;
};

constexpr int64_t kThreadsPerSm = 2048;
constexpr int64_t kWarp = 32;

int64_t power_of_two_below(int64_t n, int64_t most) {
  return n >= most ? most : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n)));
}

/// lg n, rounded up.
int lg_up(int64_t n) { return static_cast<int>(std::bit_width(static_cast<uint64_t>(n - 1))); }

/// PyTorch's reductions (aten/src/ATen/native/cuda/Reduce.cuh): x runs along the fastest axis,
/// whether that is reduced or not. A row is shared out among the warps of a block only once each
/// thread would have 16 values from it for each of them, or 256; and among blocks if it has 256
/// even then and the grid does not fill the device.
RowLaunch reduction_launch(const RowShape& r, double sms) {
  constexpr int64_t kMostThreads = 512, kVector = 4, kShortestVectorized = 128;
  constexpr int64_t kFewestValues = 16, kMostValues = 256;
  const bool along_fastest = r.inner == 1;
  int64_t x = along_fastest ? r.columns : r.inner;
  const int64_t y = along_fastest ? r.rows : r.columns;
  int64_t outputs_together = 1;
  if (along_fastest && x > kShortestVectorized) {
    x /= kVector;
  } else if (!along_fastest) {
    outputs_together = x % 4 == 0 ? 4 : x % 2 == 0 ? 2 : 1;
    x /= outputs_together;
  }
  const int64_t most = kMostThreads / outputs_together;
  const int64_t x_power = power_of_two_below(x, most), y_power = power_of_two_below(y, most);
  int64_t width = std::min(x_power, kWarp);
  const int64_t height = std::min(y_power, most / width);
  width = std::min(x_power, most / height);

  int64_t inputs_step = along_fastest ? width : 1;
  int64_t outputs_step = along_fastest ? 1 : width;
  int64_t values = up(r.columns, inputs_step);
  const bool warps_share = values >= height * kFewestValues || values >= kMostValues;
  (warps_share ? inputs_step : outputs_step) *= height;
  values = up(r.columns, inputs_step);

  RowLaunch launch;
  launch.threads = static_cast<double>(width * height);
  launch.blocks = static_cast<double>(up(r.rows / outputs_together, outputs_step));
  const int64_t blocks_of_sm = kThreadsPerSm / (width * height);
  const double full = sms * static_cast<double>(blocks_of_sm);
  if (warps_share && values >= kMostValues && launch.blocks <= full) {
    const double to_fill = std::ceil(full / launch.blocks);
    const auto by_fewest = static_cast<double>(up(values, kFewestValues));
    const auto by_most = static_cast<double>(up(values, kMostValues));
    launch.blocks_per_row = std::max(std::min(to_fill, by_fewest), by_most);
  }
  launch.values_per_thread = std::ceil(static_cast<double>(values) / launch.blocks_per_row) *
                             static_cast<double>(outputs_together);
  launch.blocks *= launch.blocks_per_row;
  return launch;
}

/// PyTorch's softmax (PersistentSoftmax.cuh, SoftMax.cu): up to 1,024 elements stay in the
/// registers of one warp, two rows to a warp up to 128, padded to a power of two; longer rows get
/// a block each.
RowLaunch softmax_launch(const RowShape& r, double element_bytes) {
  constexpr int64_t kMostInWarp = 1024, kMostBytesInWarp = 4096, kMostThreads = 1024;
  constexpr int64_t kWarpsThreads = 128;
  RowLaunch launch;
  if (r.columns <= kMostInWarp &&
      static_cast<double>(r.columns) * element_bytes <= kMostBytesInWarp) {
    const auto padded = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(r.columns)));
    const int64_t lanes = std::min(padded, kWarp);
    const int64_t rows_together = padded <= 128 ? 2 : 1;
    launch.threads = static_cast<double>(kWarpsThreads);
    launch.blocks = static_cast<double>(up(r.rows, kWarpsThreads / lanes * rows_together));
    const int64_t values = padded / lanes * rows_together;
    launch.values_per_thread = static_cast<double>(values);
    launch.waste = static_cast<double>(padded) / static_cast<double>(r.columns);
    launch.clocks_per_value = 30;
    return launch;
  }
  const auto threads =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::min(r.columns, kMostThreads))));
  launch.threads = static_cast<double>(threads);
  launch.blocks = static_cast<double>(r.rows);
  launch.values_per_thread = static_cast<double>(up(r.columns, threads));
  launch.clocks_per_value = 500;
  return launch;
}

/// PyTorch's norms (layer_norm_kernel.cu): a block of four warps a row, vectors of four.
RowLaunch norm_launch(const RowShape& r) {
  constexpr int64_t kThreads = 128;
  RowLaunch launch;
  launch.threads = static_cast<double>(kThreads);
  launch.blocks = static_cast<double>(r.rows);
  launch.values_per_thread = static_cast<double>(up(r.columns, kThreads));
  return launch;
}

/// PyTorch's scans (ScanUtils.cuh): a single row is shared out among all SMs (CUB); rows of a
/// table get 16 to 512 threads of a block of 512, by how long they are against how many.
RowLaunch scan_launch(const RowShape& r) {
  constexpr int64_t kThreads = 512, kFewestAlong = 16, kValuesOfOne = 15, kThreadsOfOne = 128;
  RowLaunch launch;
  if (r.rows == 1) {
    launch.threads = static_cast<double>(kThreadsOfOne);
    launch.blocks = static_cast<double>(up(r.columns, kThreadsOfOne * kValuesOfOne));
    launch.values_per_thread = static_cast<double>(kValuesOfOne);
    return launch;
  }
  const int lg_columns = lg_up(r.columns);
  const int lg_rows = lg_up(r.rows);
  const int lg_threads = lg_up(kThreads);
  // The rest of the threads, once both axes have what they need, is parted evenly.
  const int excess = (lg_columns + lg_rows - lg_threads) / 2;
  const int lg_along =
      std::clamp(lg_columns - std::max(0, excess), lg_up(kFewestAlong), lg_threads);
  const int64_t along = int64_t{1} << lg_along;
  launch.threads = static_cast<double>(kThreads);
  launch.blocks = static_cast<double>(up(r.rows, kThreads / along));
  launch.values_per_thread = static_cast<double>(up(r.columns, along));
  const auto steps = static_cast<double>(up(r.columns, 2 * along));
  launch.waste = steps * 2 * static_cast<double>(along) / static_cast<double>(r.columns);
  return launch;
}

RowLaunch launch_of(const Kernel& kernel, TileClass tile_class, const RowShape& r,
                    double element_bytes, double sms) {
  if (kernel.code == Opcode::k_cumsum || kernel.code == Opcode::k_scan) return scan_launch(r);
  switch (tile_class) {
    case TileClass::kReduction:
      return reduction_launch(r, sms);
    case TileClass::kSoftmax:
      return softmax_launch(r, element_bytes);
    default:
      return norm_launch(r);
  }
}

}  // namespace

using namespace tile;

void TileGpu::Builder::rows(const RowShape& r) {
  const Cost& c = kernel.cost;
  const double element = bytes_of(kernel.tensors[0].element);
  const RowLaunch launch = launch_of(kernel, d.tile_class, r, element, gpu.sms_);
  const double waves =
      launch.blocks * launch.threads / (gpu.sms_ * static_cast<double>(kThreadsPerSm));
  const double walk = launch.values_per_thread * launch.clocks_per_value / clock;
  add_common(std::max(vector_seconds(), walk), c.bytes() / gpu.bandwidth_);
  add("ln_walk_us", ln(walk * 1e6));
  const auto rows = static_cast<double>(r.rows), columns = static_cast<double>(r.columns),
             inner = static_cast<double>(r.inner);
  add("lg_values_per_thread", lg(launch.values_per_thread));
  add("lg_threads", lg(launch.threads));
  add("lg_waves", lg(waves));
  add("wave_of_blocks", filled(waves));
  add("lg_blocks_per_sm", lg(launch.blocks / gpu.sms_));
  add("lg_blocks_per_row", lg(launch.blocks_per_row));
  add("waste", launch.waste);
  add("kind", kind_of(kernel.code));
  add("compares", r.compares ? 1 : 0);
  add("lg_rows", lg(rows));
  add("lg_columns", lg(columns));
  add("lg_inner", lg(inner));
  add("element_bytes", element);
  add("lg_row_bytes", lg(columns * element));
  add("aligned", static_cast<int64_t>(columns * element) % 16 == 0 ? 1 : 0);
  add("lg_rows_per_sm", lg(rows / gpu.sms_));
  add("wave", filled(rows / gpu.sms_));
  add("columns_mod_1024", static_cast<double>(r.columns % 1024));
  add("lg_elements", lg(rows * columns));
  // Rows in flight that L2 cannot hold are read again from memory.
  const double flying =
      std::min(rows, gpu.sms_ * static_cast<double>(kThreadsPerSm) / launch.threads);
  add("lg_flight_l2", lg(flying * columns * element / gpu.l2_bytes_));
}

}  // namespace orrery
