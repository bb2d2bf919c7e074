#include <algorithm>
#include <array>
#include <cmath>

#include "orrery/kernel/tile/builder.h"

namespace orrery {

using namespace tile;

void TileGpu::Builder::attention(const AttentionShape& a) {
  const Cost& c = kernel.cost;
  add_common(attention_seconds(a), c.bytes() / gpu.bandwidth_);
  const auto b = static_cast<double>(a.batch), h = static_cast<double>(a.heads),
             kv = static_cast<double>(a.kv_heads), s = static_cast<double>(a.queries),
             t = static_cast<double>(a.keys);
  add("lg_batch", lg(b));
  add("lg_heads", lg(h));
  add("lg_share", lg(h / kv));
  add("lg_queries", lg(s));
  add("lg_keys", lg(t));
  add("head", static_cast<double>(a.head));
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
  // Query heads that share keys may be packed into one tile; the longest tile bounds the time.
  const double packed = b * kv * std::ceil(s * h / kv / 128) / gpu.sms_;
  add("wave_packed", filled(packed));
  add("lg_tiles_packed", lg(packed));
  const double seen = a.window > 0 ? std::min(t, static_cast<double>(a.window)) : t;
  const double longest =
      matrix_seconds(4 * 128 * seen * static_cast<double>(a.head) * gpu.sms_, c.matrix_type);
  add("ln_longest", ln(longest / d.seconds));
  add("ln_packed_loss", ln(std::ceil(packed) * longest / d.seconds));
  add("queries_mod_128", static_cast<double>(a.queries % 128));
  add("align_keys", alignment(a.keys, 128));
}

}  // namespace orrery
