#include <algorithm>
#include <cmath>

#include "orrery/kernel/tile/builder.h"

namespace orrery {
namespace {

/// What a block waits for between two tiles of keys when it is alone on its SM: FlashAttention
/// 2 walks through 8,192 keys of 128 in 193 us on an A100 and 156 us on an L40S
/// (aiconfigurator's tables), 2,050 clocks a tile beyond its arithmetic on both.
constexpr double kClocksBetweenTiles = 2050;

/// What a block takes to begin and to end: 2,048 sequences of one key take an A100 4,200, an
/// H100 3,900 and an L40S 6,200 clocks a block beyond their tiles; less where blocks are long.
constexpr double kClocksPerBlock = 3000;

}  // namespace

using namespace tile;

/// FlashAttention gives a block `rows` rows of queries (github.com/Dao-AILab/flash-attention:
/// csrc/flash_attn/src/flash_fwd_launch_template.h, hopper/tile_size.h), of one head or packed
/// from the heads that share keys, and walks through the keys they may see in whole tiles,
/// masked or not: what is padding costs as much as the rest.
double TileGpu::Builder::attention_seconds(const AttentionShape& a) {
  const bool warp_groups = gpu.warp_groups_;
  // FlashAttention 2 reads keys of 16 bits alone: FlashInfer takes over, which packs as 3 does.
  const bool packs = warp_groups || bit_width(a.kv) < 16;
  const double share =
      static_cast<double>(a.heads) / static_cast<double>(std::max<int64_t>(1, a.kv_heads));
  const bool packed = packs || (a.queries == 1 && a.window == 0);
  const bool splits = d.tile_class == TileClass::kDecode && (packs || (share > 1 && a.window == 0));
  const auto queries = static_cast<double>(a.queries), keys = static_cast<double>(a.keys);
  const double rows = warp_groups || !a.paged ? 128
                      : !packs                ? 64
                      : queries * share > 64  ? 128
                      : queries * share > 16  ? 64
                                              : 16;
  const double columns = warp_groups || (a.head > 64 && a.head <= 128) ? 128
                         : a.head <= 64                                ? 256
                                                                       : 64;
  const double positions = packed ? std::max(1.0, rows / share) : rows;
  const double tiles_of_head = std::ceil(queries / positions);
  const double heads = packed ? static_cast<double>(a.kv_heads) * std::ceil(share / rows)
                              : static_cast<double>(a.heads);
  const double blocks = static_cast<double>(a.batch) * heads * tiles_of_head;
  double longest = keys, mean = keys;
  if (a.causal)
    mean = std::min(keys, std::max(0.0, keys - queries) +
                              std::min(queries, positions * (tiles_of_head + 1) / 2));
  if (a.window > 0) {
    const double seen = static_cast<double>(a.window) + std::min(queries, positions) - 1;
    mean = std::min(mean, seen);
    longest = std::min(longest, seen);
  }
  const double longest_tiles = std::max(1.0, std::ceil(longest / columns));
  const double mean_tiles =
      tiles_of_head > 1 ? std::max(1.0, mean / columns + 0.5) : std::ceil(mean / columns);

  const double products = gpu.matrix_per_clock_[static_cast<size_t>(kernel.cost.matrix_type)];
  const double size = static_cast<double>(a.head) + static_cast<double>(a.value_head);
  const double special = gpu.special_per_clock_;
  const double clocks_of_tile =
      rows * columns * ((products > 0 ? 2 * size / products : 0) + (special > 0 ? 1 / special : 0));
  const double parts = splits ? std::clamp(gpu.sms_ / blocks, 1.0, longest_tiles) : 1;
  const double together = blocks * (mean_tiles * clocks_of_tile + kClocksPerBlock) / gpu.sms_;
  const double alone = longest_tiles / parts * (clocks_of_tile + kClocksBetweenTiles);

  // New keys are written into their pages before, and parts are put together after.
  const double launch = floor_of(TileClass::kMove);
  if (a.paged && gpu.protocol_.warm)
    before_seconds += launch + 2 * static_cast<double>(a.batch) * std::min(queries, keys) *
                                   static_cast<double>(a.kv_heads) * size * bytes_of(a.kv) /
                                   gpu.bandwidth_ * warmth();
  if (splits) before_seconds += launch;
  return throttled(std::max(together, alone) / clock);
}

}  // namespace orrery
