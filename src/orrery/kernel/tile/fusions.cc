#include <algorithm>
#include <array>
#include <cmath>

#include "orrery/kernel/tile/builder.h"

namespace orrery {
namespace {

/// What finding an element's piece takes for each piece of a concatenation: 28 pieces give
/// 2.3e11 elements a second on an H200 (dlrm_b2048_infer in data/measured).
constexpr double kFlopsPerPiece = 10;

/// What reductions take at least, whatever they read: SM clocks a row that lies side by side, whose
/// lanes must put their sums together (in proportion, where several rows share them), and as many
/// for each piece of a concatenation that rows are taken from; elements an SM takes in a clock
/// where rows lie across; and those it takes where rows share a mask, whose tiles of many rows do
/// not fit the registers. From attention of decoders whose keys serve several queries, in
/// data/measured/h200_xla_kernels.csv.gz.
constexpr double kClocksPerRow = 11;
constexpr double kLanes = 64;
constexpr double kElementsPerClockAcross = 9;
constexpr double kElementsPerClockMasked = 2;

}  // namespace

using namespace tile;

void TileGpu::Builder::fusion(const FusionShape& f) {
  const Cost& c = kernel.cost;
  const auto elements = static_cast<double>(f.elements);
  const double element = bytes_of(kernel.tensors[0].element);
  const double rate =
      gpu.vector_per_clock_[static_cast<size_t>(ElementType::kF32)] * gpu.sms_ * clock;
  const double finding = rate > 0 ? kFlopsPerPiece * f.pieces * elements / rate : 0;
  double reducing = 0;
  if (f.columns > 1) {
    const auto rows = static_cast<double>(f.rows);
    const bool masked = (f.does & FusionShape::kMasks) != 0;
    const double clocks = f.inner > 1 ? elements / kElementsPerClockAcross
                          : masked    ? elements / kElementsPerClockMasked
                                      : rows * kClocksPerRow * (1 + f.pieces) *
                                         std::min(1.0, static_cast<double>(f.columns) / kLanes);
    reducing = clocks / (gpu.sms_ * clock);
  }
  add_common(std::max({vector_seconds(), finding, reducing}), c.bytes() / gpu.bandwidth_);
  add("pieces", f.pieces);
  add("lg_elements", lg(elements));
  add("lg_elements_per_sm", lg(elements / gpu.sms_));
  add("element_bytes", element);
  add("lg_read", lg(c.bytes_read));
  add("lg_written", lg(c.bytes_written));
  add("bytes_per_element", c.bytes() / elements);
  add("reads", std::min(100.0, c.bytes_read / std::max(1.0, c.bytes_written)));
  add("lg_read_l2", lg(c.bytes_read / gpu.l2_bytes_));
  add("lg_written_l2", lg(c.bytes_written / gpu.l2_bytes_));
  add("operations", f.operations);
  add("inputs", f.inputs);
  add("outputs", f.outputs);
  add("flops_per_element", c.vector_flops / elements);
  add("special_per_element", c.transcendental_flops / elements);
  add("lg_run", f.run == 0 ? 20 : lg(static_cast<double>(f.run)));
  static constexpr std::array<std::pair<FusionShape::Does, std::string_view>, 7> kDoes = {
      {{FusionShape::kNormalizes, "normalizes"},
       {FusionShape::kUpdates, "updates"},
       {FusionShape::kGathers, "gathers"},
       {FusionShape::kScatters, "scatters"},
       {FusionShape::kWindows, "windows"},
       {FusionShape::kSlices, "slices"},
       {FusionShape::kMasks, "masks"}}};
  for (const auto& [bit, feature] : kDoes) add(feature, (f.does & bit) != 0 ? 1 : 0);
  if (d.tile_class != TileClass::kCompiledRows) return;
  const auto rows = static_cast<double>(f.rows), columns = static_cast<double>(f.columns),
             inner = static_cast<double>(f.inner);
  add("lg_rows", lg(rows));
  add("lg_columns", lg(columns));
  add("lg_inner", lg(inner));
  add("lg_rows_per_sm", lg(rows / gpu.sms_));
  add("wave", filled(rows / gpu.sms_));
  add("lg_row_bytes", lg(columns * element));
  add("padding", static_cast<double>(
                     std::bit_ceil(static_cast<uint64_t>(std::min(f.columns, int64_t{1} << 40)))) /
                     columns);
  add("reductions", f.reductions);
  add("lg_reduced", lg(rows * columns));
}

}  // namespace orrery
