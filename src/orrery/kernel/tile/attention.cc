#include <algorithm>
#include <array>
#include <cmath>

#include "orrery/kernel/tile/builder.h"

namespace orrery {
namespace {

/// Rows and columns of the tiles that fused attention walks through.
constexpr double kTile = 128;
/// SM clocks that a block of a few queries takes beside its keys, and for each key of 128
/// bytes: what the smallest and the longest contexts show in aiconfigurator's tables.
constexpr double kClocksPerBlock = 8000;
constexpr double kBytesPerClock = 16;

/// Tiles of keys that the queries' tiles of one head see, and the most of one of them.
struct KeyTiles {
  double all = 0;
  double longest = 0;
};
KeyTiles key_tiles(const AttentionShape& a) {
  const double rows = std::ceil(static_cast<double>(a.queries) / kTile);
  const double keys = std::ceil(static_cast<double>(a.keys) / kTile);
  const double cap =
      a.window > 0 ? std::min(keys, std::floor(static_cast<double>(a.window) / kTile) + 2) : keys;
  if (!a.causal) return {rows * cap, cap};
  // The first row of tiles sees one more than the keys before the queries, each later one more.
  const double before = std::max(0.0, keys - rows);
  const double rising = std::clamp(cap - before, 0.0, rows);
  return {rising * before + rising * (rising + 1) / 2 + (rows - rising) * cap, cap};
}

}  // namespace

using namespace tile;

void TileGpu::Builder::attention(const AttentionShape& a) {
  const bool decode = d.tile_class == TileClass::kDecode;
  const Cost& c = kernel.cost;
  add_common(attention_seconds(a), c.bytes() / gpu.bandwidth_);
  const auto b = static_cast<double>(a.batch), h = static_cast<double>(a.heads),
             kv = static_cast<double>(a.kv_heads), s = static_cast<double>(a.queries),
             t = static_cast<double>(a.keys), head = static_cast<double>(a.head);
  const double seen = a.window > 0 ? std::min(t, static_cast<double>(a.window)) : t;
  const auto blocks_seconds = [&](double blocks, double splits) {
    const double clocks =
        kClocksPerBlock + seen / splits * 2 * head * bytes_of(a.kv) / kBytesPerClock;
    return std::max(1.0, blocks * splits / gpu.sms_) * clocks / clock;
  };
  // Heads that share keys may be packed into one block, and its keys split among blocks.
  const double key_blocks = std::ceil(seen / kTile);
  const double splits = std::clamp(std::floor(gpu.sms_ / (b * kv)), 1.0, key_blocks);
  const double blocks = blocks_seconds(b * kv, splits);
  add("lg_batch", lg(b));
  add("lg_heads", lg(h));
  add("lg_share", lg(h / kv));
  add("lg_queries", lg(s));
  add("lg_keys", lg(t));
  add("head", head);
  add("causal", a.causal ? 1 : 0);
  add("lg_window", a.window > 0 ? lg(static_cast<double>(std::min(a.window, a.keys))) : 20);
  add("paged", a.paged ? 1 : 0);
  add("kv_bytes", bytes_of(a.kv));
  add("narrow_keys", bit_width(a.kv) >= 16 ? 0 : gpu.warp_groups_ ? 1 : -1);
  add("lhs_bytes", bytes_of(kernel.tensors[0].element));
  add("lg_heads_per_sm", lg(b * h / gpu.sms_));
  add("lg_kv_heads_per_sm", lg(b * kv / gpu.sms_));
  const double waves = b * kv / gpu.sms_;
  add("wave_kv", filled(waves));
  const double of_64 = b * h * static_cast<double>(up(a.queries, 64)) / gpu.sms_;
  const double of_128 = b * h * static_cast<double>(up(a.queries, 128)) / gpu.sms_;
  add("wave_64", filled(of_64));
  add("lg_tiles_64", lg(of_64));
  add("wave_128", filled(of_128));
  add("lg_tiles_128", lg(of_128));
  const double packed = b * kv * std::ceil(s * h / kv / 128) / gpu.sms_;
  add("wave_packed", filled(packed));
  add("lg_tiles_packed", lg(packed));
  // The longest tile bounds the time.
  const double longest = matrix_seconds(4 * 128 * seen * head * gpu.sms_, c.matrix_type);
  add("ln_longest", ln(longest / d.seconds));
  add("ln_packed_loss", ln(std::ceil(packed) * longest / d.seconds));
  add("queries_mod_128", static_cast<double>(a.queries % 128));
  add("align_keys", alignment(a.keys, 128));
  if (!decode) {
    const KeyTiles tiles = key_tiles(a);
    const double work =
        4 * kTile * kTile * head * std::max(b * h * tiles.all, tiles.longest * gpu.sms_);
    add("ln_padded", ln(matrix_seconds(work, c.matrix_type) / d.seconds));
    return;
  }
  // Some kernels pack and split only where there is no window.
  const bool packs = h > kv && a.window == 0;
  const double alone = b * (packs ? kv : h);
  const double own_splits =
      packs ? std::clamp(std::floor(2 * gpu.sms_ / alone), 1.0, key_blocks) : 1;
  add("lg_blocks", lg(alone / gpu.sms_));
  add("wave_blocks", filled(alone * own_splits / gpu.sms_));
  add("lg_splits", lg(own_splits));
  add("ln_blocks", ln(blocks_seconds(alone, own_splits) / d.seconds));
  add("lg_kv_splits", lg(splits));
  add("ln_kv_blocks", ln(blocks / d.seconds));
}

}  // namespace orrery
