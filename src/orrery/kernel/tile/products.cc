#include <algorithm>
#include <array>
#include <bit>
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

/// What the kernels beside a block's products take at least, which sort rows by expert,
/// activate and sum them: of the order of one token's block in aiconfigurator's tables.
constexpr double kBlockSeconds = 20e-6;

/// Rows and columns of an output tile.
struct TileSize {
  int64_t m = 1, n = 1;
};

/// The tile that vLLM's CUTLASS kernels for products of 8-bit types take on SMs that do not
/// multiply by warp groups (csrc/quantization, scaled_mm_c2x_sm89_fp8_dispatch.cuh).
TileSize byte_tile(int64_t m, int64_t n) {
  const bool wide = n > 8192 && n <= 16384;
  if (m <= 16) return {n > 16384 ? 32 : 16, wide ? 128 : 64};
  if (m <= 64) return {m <= 32 ? 32 : 64, wide ? 128 : 64};
  if (m <= 128) return n <= 8192 ? TileSize{64, 128} : TileSize{128, wide ? 128 : 64};
  if (m <= 256) return {n <= 4096 ? 64 : 128, 128};
  return {n > 4096 && n <= 8192 ? 256 : 128, 128};
}

/// An SM holds a single tile of so many rows, and multiplies nothing while it writes its 16-bit
/// results out: products of up to 4,096 terms are a tenth to a third slower with 5,120 to 8,192
/// columns than with 4,096 in aiconfigurator's L40S table.
constexpr int64_t kLoneTileRows = 256;
constexpr double kResultBytes = 2;

/// The same where SMs multiply by warp groups (scaled_mm_sm90_fp8_dispatch.cuh): for few rows,
/// kernels that write one tile of 64 columns out before they begin the next. SM clocks a tile, from
/// products of k = 32 in aiconfigurator's H100 and H200 tables.
constexpr int64_t kFewRows = 64, kFewRowsColumns = 64;
constexpr double kClocksPerFewRowsTile = 3400;

/// What the host takes to launch a block-scaled product where aiconfigurator measures vLLM, who
/// does so without a graph: kernels of FlashInfer for few rows, of DeepGEMM and, where those
/// do not take the sizes, CUTLASS; all of SMs that multiply by warp groups.
double host_seconds(const ProductShape& p) {
  if (p.n % 64 != 0 || p.k % 128 != 0) return 172e-6;
  return p.m < 32 ? 58e-6 : 82e-6;
}

/// Matrix units take so many rows and more: of a product of fewer, XLA makes the longer side the
/// rows.
constexpr int64_t kFewestRows = 64;

/// How much longer products take under XLA whose operands' rows do not begin at multiples of eight
/// bytes, so that no kernel of warp groups can load them: at four bytes 1.95 times, and 3.05 where
/// it is the depth that lies side by side; at two bytes 2.9 and 4.9; where it is the output
/// alone, 1.55 (vocabularies of 30,522, 50,257 and 50,265 in
/// data/measured/h200_xla_kernels.csv.gz). Columns that one tile holds lose nothing.
double misalignment(const ProductShape& p, double element_bytes) {
  constexpr int64_t kOneTile = 256;
  const auto row_bytes = [&](int64_t size) {
    return static_cast<double>(size & -size) * element_bytes;
  };
  if (p.aligned < 8) {
    const bool along_depth = row_bytes(p.k) <= p.aligned;
    if (p.aligned >= 4) return along_depth ? 3.05 : 1.95;
    return along_depth ? 4.9 : 2.9;
  }
  return p.n > kOneTile && row_bytes(p.n) < 8 ? 1.55 : 1.0;
}

/// Elements of 16 bits in the 16 bytes that libraries load at once.
constexpr int64_t kAlignedElements = 8;

/// Of fp32 products whose rows do not all begin at a vector of four elements, which are loaded one
/// by one: 1 to 3.6 % longer in NeuSight's tables of five GPUs. Their sizes are random, so that
/// few of them tell of the round ones that models have.
constexpr double kUnaligned = 1.03;

/// Σ i^-s for i up to n, by the first terms of Euler and Maclaurin.
double harmonic(double n, double s) {
  const double integral = std::abs(s - 1) < 1e-3 ? std::log(n) : (std::pow(n, 1 - s) - 1) / (1 - s);
  return integral + 0.5 * (1 + std::pow(n, -s));
}

/// The rows of one rank's experts, told by quantiles: `each` experts stand for every load.
struct Loads {
  static constexpr size_t kMost = 16;
  std::array<float, kMost> load{};
  size_t count = 0;
  double each = 0;
  double rows = 0;     // of the rank
  double touched = 0;  // experts with any rows
  double busiest = 0;
  double single = 0;  // further experts, of one row

  /// Row tiles of so many rows: each expert's last one is padded.
  double tiles(double tile) const {
    float sum = 0;
    const auto inverse = static_cast<float>(1 / tile);
    for (size_t i = 0; i < count; ++i) sum += std::ceil(load[i] * inverse);
    return std::max(1.0, each * static_cast<double>(sum) + single);
  }
};

/// Loads that fall as (i+1)^-skew.
Loads ranked_loads(const ProductShape& p) {
  const auto groups = static_cast<double>(p.groups), m = static_cast<double>(p.m);
  Loads l;
  l.rows = m;
  l.busiest = p.skew == 0 ? m / groups : m / harmonic(groups, p.skew);
  l.count = static_cast<size_t>(std::min<int64_t>(p.groups, Loads::kMost));
  l.each = groups / static_cast<double>(l.count);
  float sum = 0;
  for (size_t i = 0; i < l.count; ++i) {
    const double place = (static_cast<double>(i) + 0.5) * l.each + 0.5;
    l.load[i] = p.skew == 0 ? 1 : std::exp2(-p.skew * std::log2(static_cast<float>(place)));
    sum += l.load[i];
  }
  const auto scale = static_cast<float>(m / (static_cast<double>(sum) * l.each));
  for (size_t i = 0; i < l.count; ++i) l.load[i] *= scale;
  l.touched = groups * (1 - std::exp(-m / groups));
  return l;
}

/// Loads of the busiest rank, where each expert's share is drawn from a density that falls
/// as share^-skew from 1 to 0.8 · tokens, from 0.01 to 2 where there are no more choices
/// than experts (aiconfigurator, collector/helper.py). The rank's own draw is that of all, scaled
/// by the expected largest of `ranks` sums.
Loads sampled_loads(const ProductShape& p, double all_rows, double tokens) {
  const auto groups = static_cast<double>(p.groups);
  const double experts = groups * p.ranks;
  Loads l;
  l.count = static_cast<size_t>(std::min<int64_t>(p.groups, Loads::kMost));
  l.each = groups / static_cast<double>(l.count);
  const auto mean = static_cast<float>(all_rows / experts);
  if (p.skew == 0) {
    l.rows = std::max(1.0, all_rows / p.ranks);
    l.touched = std::min(groups, std::ceil(l.rows));
    l.busiest = std::max(1.0f, mean);
    l.count = 1;
    l.each = l.touched;
    l.load[0] = std::max(1.0f, mean);
    return l;
  }
  constexpr size_t kPoints = Loads::kMost;
  const bool many = all_rows > experts;
  const float low = many ? 1.0f : 0.01f;
  const float high = many ? std::max(1.5f, static_cast<float>(0.8 * tokens)) : 2.0f;
  float a = 1 - p.skew;
  if (std::abs(a) < 1e-3f) a = a < 0 ? -1e-3f : 1e-3f;
  const float from = std::exp2(a * std::log2(low)), to = std::exp2(a * std::log2(high));
  std::array<float, kPoints> all;
  float sum = 0, squares = 0;
  for (size_t i = 0; i < kPoints; ++i) {
    const float u = (static_cast<float>(i) + 0.5f) / kPoints;
    all[i] = std::exp2(std::log2(from + (to - from) * u) / a);
    sum += all[i];
    squares += all[i] * all[i];
  }
  const float average = sum / kPoints;
  const float variance = std::max(0.0f, squares / kPoints / (average * average) - 1);
  const float deviation = std::sqrt(variance / static_cast<float>(groups));
  const float lg_ranks = std::log2(static_cast<float>(p.ranks));
  const float largest = 0.62f * std::pow(lg_ranks, 0.72f);  // of so many normal deviates
  const float top = std::min(high / average, static_cast<float>(p.ranks));
  const float factor = std::min(1 + deviation * largest, std::max(1.0f, top));
  float whole = 0;
  for (const float x : all) whole += std::round(x / average * mean);
  // Rows lost to rounding go, a rank at a time, to experts that have the fewest.
  const double missing = all_rows - static_cast<double>(whole) * experts / kPoints;
  const double given = missing > 0 ? std::ceil(missing / p.ranks - 1e-6) : 0;
  float own = 0;
  for (size_t i = 0; i < l.count; ++i) {
    l.load[i] = all[l.count == kPoints ? i : (2 * i + 1) * kPoints / (2 * l.count)];
    own += l.load[i];
  }
  const float scale = factor * mean * static_cast<float>(l.count) / own;
  float touched = 0, taken = 0;
  for (size_t i = 0; i < l.count; ++i) {
    l.load[i] = std::round(std::min(static_cast<float>(tokens), l.load[i] * scale));
    touched += l.load[i] > 0 ? 1.0f : 0.0f;
    taken += l.load[i];
  }
  l.single = std::min(given, groups - static_cast<double>(touched) * l.each);
  l.rows = std::max(1.0, static_cast<double>(taken) * l.each + given);
  l.touched = std::max(1.0, static_cast<double>(touched) * l.each + l.single);
  l.busiest = std::clamp<double>(high / average * mean, 1, std::max(1.0, tokens));
  return l;
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

void TileGpu::Builder::product(const ProductShape& given) {
  ProductShape p = given;
  // No table has single 16-bit products whose rows begin elsewhere than at 16 bytes; what those
  // take beyond their neighbours is the stack's to say (torch_launches.cc).
  if (d.tile_class == TileClass::kProduct && p.batch == 1) {
    p.n = up(p.n, kAlignedElements) * kAlignedElements;
    p.k = up(p.k, kAlignedElements) * kAlignedElements;
  }
  if (d.tile_class == TileClass::kCompiledProduct && p.m < kFewestRows && p.n >= kFewestRows)
    std::swap(p.m, p.n);
  const Cost& c = kernel.cost;
  before_seconds = quantization_seconds(p);
  const auto b = static_cast<double>(p.batch), m = static_cast<double>(p.m),
             n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  const double rate = gpu.matrix_per_clock_[static_cast<size_t>(c.matrix_type)];
  const bool by_bytes = d.tile_class == TileClass::kByteProduct && gpu.protocol_.quantizes;
  if (by_bytes && gpu.warp_groups_ && p.m <= kFewRows) {
    const double waves = std::ceil(b * static_cast<double>(up(p.n, kFewRowsColumns)) / gpu.sms_);
    before_seconds += waves * kClocksPerFewRowsTile / clock;
  }
  const bool known_tile = by_bytes && !gpu.warp_groups_;
  const TileSize tile = known_tile ? byte_tile(p.m, p.n) : TileSize{};
  if (tile.m >= kLoneTileRows) before_seconds += b * m * n * kResultBytes / gpu.bandwidth_;
  const double quantization = before_seconds;
  const bool scalar_loads = gpu.protocol_.eager && d.tile_class == TileClass::kVectorProduct &&
                            (p.k % 4 != 0 || p.n % 4 != 0);
  const double misaligned = d.tile_class == TileClass::kCompiledProduct
                                ? misalignment(p, bytes_of(p.weight))
                            : scalar_loads ? kUnaligned
                                           : 1;
  const double compute = misaligned * matrix_seconds(c.matrix_flops, c.matrix_type);
  const double memory = c.bytes() / gpu.bandwidth_;
  const double alone =
      before_seconds + floor_of(d.tile_class) + std::max(compute, memory * warmth());
  const bool launched =
      d.tile_class == TileClass::kScaledProduct && gpu.protocol_.quantizes && gpu.warp_groups_;
  const double host = launched ? host_seconds(p) : 0;
  before_seconds += std::max(0.0, host - alone);
  add_common(compute, memory);
  if (d.tile_class == TileClass::kScaledProduct) add("ln_host", launched ? ln(host / alone) : 0);
  if (d.tile_class == TileClass::kByteProduct) {
    const double waves =
        static_cast<double>(p.batch * up(p.m, tile.m) * up(p.n, tile.n)) / gpu.sms_;
    const double work = 2 * std::ceil(waves) * gpu.sms_ * static_cast<double>(tile.m * tile.n) * k;
    add("own_rows", known_tile ? static_cast<double>(tile.m) : 0);
    add("own_columns", known_tile ? static_cast<double>(tile.n) : 0);
    add("lg_own_tiles", known_tile ? lg(waves) : 0);
    add("wave_own", known_tile ? filled(waves) : 0);
    add("loss_own", known_tile ? ln(matrix_seconds(work, c.matrix_type) / d.seconds) : 0);
  }
  add("ln_quantization", ln(quantization / d.seconds));
  const double lhs = bytes_of(kernel.tensors[0].element), rhs = bytes_of(p.weight);
  add("lg_m", lg(m));
  add("lg_n", lg(n));
  add("lg_k", lg(k));
  add("lg_batch", lg(b));
  add("lhs_bytes", lhs);
  add("rhs_bytes", rhs);
  add("lg_rate", lg(rate));
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
  if (d.tile_class == TileClass::kCompiledProduct) {
    const double plain = b * (m * k * lhs + n * k * rhs + m * n * lhs);
    add("ln_misaligned", ln(misaligned));
    add("ln_fused_read", ln(c.bytes_read / (b * (m * k * lhs + n * k * rhs))));
    add("ln_fused_written", ln(c.bytes_written / (b * m * n * lhs)));
    add("ln_fused_seconds", ln((c.bytes() - plain) / gpu.bandwidth_ / d.seconds));
    add("flops_per_output", c.vector_flops / (b * m * n));
    add("special_per_output", c.transcendental_flops / (b * m * n));
    // Rows are the shorter side for such kernels, which multiply from either side.
    add("lg_shorter", lg(std::min(m, n)));
    add("lg_longer", lg(std::max(m, n)));
    for (const int64_t columns : {16, 32, 64, 128}) {
      static constexpr std::array<std::string_view, 4> kNames = {
          "loss_64x16", "loss_64x32", "loss_128x64_any", "loss_128x128_any"};
      const int64_t rows = columns < 64 ? 64 : 128;
      const double tiles = b * static_cast<double>(up(std::max(p.m, p.n), rows)) *
                           static_cast<double>(up(std::min(p.m, p.n), columns));
      const double loss = std::ceil(tiles / gpu.sms_) * gpu.sms_ *
                          static_cast<double>(rows * columns) / (b * m * n);
      add(kNames[static_cast<size_t>(std::countr_zero(static_cast<uint64_t>(columns)) - 4)],
          ln(loss * d.compute_seconds / d.seconds));
    }
  }
}

void TileGpu::Builder::grouped(const ProductShape& p) {
  const Cost& c = kernel.cost;
  const bool block = p.choices > 0;
  const auto groups = static_cast<double>(p.groups), m = static_cast<double>(p.m),
             n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  const double tokens = block ? static_cast<double>(p.tokens) : m;
  const double all_rows = block ? tokens * p.choices : m;
  const Loads loads = block ? sampled_loads(p, all_rows, tokens) : ranked_loads(p);
  const double weight_bytes = bytes_of(p.weight), value_bytes = bytes_of(kernel.tensors[0].element);
  // A block's first product has twice the columns that its second one reduces.
  const double inner = block ? n / 3 : n;
  const double weights = loads.touched * n * k * weight_bytes / gpu.bandwidth_;
  const double moved = loads.rows * (block ? 2 * k + 3 * inner : k + n) * value_bytes;
  // The rows of all ranks' experts pass through the activation and the sum over a token's
  // experts, 16 bits each.
  const double beside = block ? 2 * (all_rows * (k + 3 * inner) + tokens * k) / gpu.bandwidth_ : 0;
  before_seconds = beside + (block ? kBlockSeconds : 0);
  // vLLM's fused kernels take tiles of more rows the more tokens there are (fused_moe.py).
  const double row_tile = tokens <= 32 ? 16 : tokens <= 96 ? 32 : tokens <= 512 ? 64 : 128;
  const double padded = std::max(1.0, loads.tiles(row_tile) * row_tile / loads.rows);
  add_common(matrix_seconds(c.matrix_flops * loads.rows / m * padded, c.matrix_type),
             weights + moved / gpu.bandwidth_);
  add("ln_padded", ln(padded));
  add("ln_beside", ln(beside / d.seconds));
  add("lg_rows", lg(m));
  add("lg_rank_rows", lg(loads.rows));
  add("lg_tokens", lg(tokens));
  add("lg_groups", lg(groups));
  add("lg_experts", lg(groups * p.ranks));
  add("lg_ranks", lg(p.ranks));
  add("choices", p.choices);
  add("lg_rows_per_group", lg(m / groups));
  add("lg_busiest", lg(loads.busiest));
  add("lg_touched", lg(loads.touched));
  add("lg_n", lg(n));
  add("lg_k", lg(k));
  add("align_n", alignment(p.n, 256));
  add("align_k", alignment(p.k, 256));
  add("skew", p.skew);
  add("rhs_bytes", weight_bytes);
  add("lg_rate", lg(gpu.matrix_per_clock_[static_cast<size_t>(c.matrix_type)]));
  add("lg_weights_l2", lg(loads.touched * n * k * weight_bytes / gpu.l2_bytes_));
  add("ln_weights", ln(weights / d.seconds));
  static constexpr std::array<std::pair<double, std::array<std::string_view, 2>>, 4> kRows = {
      {{16, {"lg_tiles_16", "loss_16"}},
       {32, {"lg_tiles_32", "loss_32"}},
       {64, {"lg_tiles_64", "loss_64"}},
       {128, {"lg_tiles_128", "loss_128"}}}};
  for (const auto& [rows, names] : kRows) {
    const double row_tiles = loads.tiles(rows);
    const double first = row_tiles * std::ceil((block ? 2 * inner : n) / 128) / gpu.sms_;
    const double second = block ? row_tiles * std::ceil(k / 128) / gpu.sms_ : 0;
    add(names[0], lg(first));
    const double work =
        (std::ceil(first) * k + std::ceil(second) * inner) * gpu.sms_ * rows * 128 * 2;
    add(names[1], ln(matrix_seconds(work, c.matrix_type) / d.seconds));
  }
}

}  // namespace orrery
