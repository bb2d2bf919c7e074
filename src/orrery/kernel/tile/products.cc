#include <algorithm>
#include <array>
#include <cmath>

#include "orrery/kernel/tile/builder.h"

namespace orrery {
namespace {

/// Output tiles that libraries build products from. What a product would lose to the
/// last wave and to padding with each of them tells which one it gets.
struct Tile {
  int64_t m, n;
  std::string_view wave, tiles, loss;
};
constexpr std::array<Tile, 5> kTiles = {{
    {256, 128, "wave_256x128", "lg_tiles_256x128", "loss_256x128"},
    {128, 256, "wave_128x256", "lg_tiles_128x256", "loss_128x256"},
    {128, 128, "wave_128x128", "lg_tiles_128x128", "loss_128x128"},
    {128, 64, "wave_128x64", "lg_tiles_128x64", "loss_128x64"},
    {64, 64, "wave_64x64", "lg_tiles_64x64", "loss_64x64"},
}};

/// Σ i^-s for i up to n, by the first terms of Euler and Maclaurin.
double harmonic(double n, double s) {
  const double integral = std::abs(s - 1) < 1e-3 ? std::log(n) : (std::pow(n, 1 - s) - 1) / (1 - s);
  return integral + 0.5 * (1 + std::pow(n, -s));
}

}  // namespace

using namespace tile;

void TileGpu::Builder::add_tiles(int64_t batch, int64_t m, int64_t n) {
  float best = 1e9f;
  for (const Tile& tile : kTiles) {
    const int64_t rows = up(m, tile.m), columns = up(n, tile.n);
    const double tiles = static_cast<double>(batch) * static_cast<double>(rows * columns);
    const double per_sm = tiles / gpu.sms_;
    add(tile.wave, filled(per_sm));
    add(tile.tiles, lg(per_sm));
    // Time of whole waves of whole tiles, over that of the arithmetic alone.
    const double useful =
        static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n);
    const double loss =
        std::ceil(per_sm) * gpu.sms_ * static_cast<double>(tile.m * tile.n) / useful;
    const float rel = ln(loss * d.compute_seconds / d.seconds);
    best = std::min(best, rel);
    add(tile.loss, rel);
  }
  add("least_loss", best);
}

/// The passes that find the largest activations and scale them, where the protocol
/// has them: five bytes an element through memory, or the SM clocks an element and, at
/// least, a row that products of few columns show in aiconfigurator's H100 and H200
/// tables.
double TileGpu::Builder::quantization_seconds(const ProductShape& p) const {
  constexpr double kBytes = 5;
  if (!gpu.protocol_.quantizes || bit_width(kernel.cost.matrix_type) >= 16) return 0;
  const bool by_block = p.scale_block > 0;
  const double clocks_per_element = by_block ? 0.62 : 1.3, clocks_per_row = by_block ? 1900 : 0;
  const double rows = static_cast<double>(p.batch) * static_cast<double>(p.m);
  const auto k = static_cast<double>(p.k);
  return floor_of(d.tile_class) +
         std::max(rows * k * kBytes / gpu.bandwidth_,
                  rows * std::max(k * clocks_per_element, clocks_per_row) / (gpu.sms_ * clock));
}

void TileGpu::Builder::product(const ProductShape& p) {
  const Cost& c = kernel.cost;
  before_seconds = quantization_seconds(p);
  add_common(matrix_seconds(c.matrix_flops, c.matrix_type), c.bytes() / gpu.bandwidth_);
  add("ln_quantization", ln(before_seconds / d.seconds));
  const double lhs = bytes_of(kernel.tensors[0].element), rhs = bytes_of(p.weight);
  const auto b = static_cast<double>(p.batch), m = static_cast<double>(p.m),
             n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  add("lg_m", lg(m));
  add("lg_n", lg(n));
  add("lg_k", lg(k));
  add("lg_batch", lg(b));
  add("lhs_bytes", lhs);
  add("rhs_bytes", rhs);
  add("lg_rate", lg(gpu.matrix_per_clock_[static_cast<size_t>(c.matrix_type)]));
  add("half", c.matrix_type == ElementType::kF16 ? 1 : 0);
  add("scaled", p.scale_block > 0 ? 1 : 0);
  add("lg_outputs_per_sm", lg(b * m * n / gpu.sms_));
  add("lg_inputs_l2", lg(b * (m * lhs + n * rhs) * k / gpu.l2_bytes_));
  add("ln_lhs_share", ln(b * m * k * lhs / gpu.bandwidth_ / d.seconds));
  add("ln_rhs_share", ln(b * n * k * rhs / gpu.bandwidth_ / d.seconds));
  add("ln_output_share", ln(b * m * n * lhs / gpu.bandwidth_ / d.seconds));
  add("lg_aspect", lg(m / n));
  add("align_k", alignment(p.k, 64));
  add("align_n", alignment(p.n, 256));
  add("align_m", alignment(p.m, 256));
  add_tiles(p.batch, p.m, p.n);
}

void TileGpu::Builder::grouped(const ProductShape& p) {
  const Cost& c = kernel.cost;
  add_common(matrix_seconds(c.matrix_flops, c.matrix_type), c.bytes() / gpu.bandwidth_);
  const auto groups = static_cast<double>(p.groups), m = static_cast<double>(p.m),
             n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  const double s = p.skew;
  const double all_groups = groups * p.ranks;
  const double all_rows = m * p.ranks;
  // The ranks' experts as they come, in falling order of their load: the first rank's share.
  const double first = harmonic(groups, s) / harmonic(all_groups, s);
  const double busiest = all_rows / harmonic(all_groups, s);
  const double tokens = p.choices > 0 ? all_rows / p.choices : all_rows;
  add("lg_rows", lg(m));
  add("lg_first_rank_rows", lg(all_rows * first));
  add("lg_tokens", lg(tokens));
  add("lg_groups", lg(groups));
  add("lg_ranks", lg(p.ranks));
  add("choices", p.choices);
  add("lg_rows_per_group", lg(m / groups));
  add("lg_busiest", lg(busiest));
  add("lg_n", lg(n));
  add("lg_k", lg(k));
  add("skew", s);
  add("rhs_bytes", bytes_of(p.weight));
  add("lg_rate", lg(gpu.matrix_per_clock_[static_cast<size_t>(c.matrix_type)]));
  const double touched = groups * (1 - std::exp(-m / groups));
  add("lg_weights_l2", lg(touched * n * k * bytes_of(p.weight) / gpu.l2_bytes_));
  add("ln_weights", ln(touched * n * k * bytes_of(p.weight) / gpu.bandwidth_ / d.seconds));
  static constexpr std::array<std::pair<double, std::array<std::string_view, 2>>, 3> kRows = {
      {{16, {"lg_tiles_16", "loss_16"}},
       {64, {"lg_tiles_64", "loss_64"}},
       {128, {"lg_tiles_128", "loss_128"}}}};
  for (const auto& [rows, names] : kRows) {
    const double per_group = std::max(1.0, m / std::max(1.0, touched));
    const double row_tiles = touched * std::ceil(per_group / rows);
    const double per_sm = row_tiles * std::ceil(n / 128) / gpu.sms_;
    add(names[0], lg(per_sm));
    add(names[1],
        ln(std::ceil(per_sm) * gpu.sms_ * rows * 128 / (m * n) * d.compute_seconds / d.seconds));
  }
}

}  // namespace orrery
