#include "orrery/kernel/tile/features.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "orrery/kernel/operator_kernel.h"
#include "orrery/kernel/peak_rate.h"

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

/// A launch, a first round trip to memory, the drain of the last wave: what the
/// smallest kernels of each class take on an H200, of the order of which it is on others.
constexpr std::array<double, kTileClassCount> kFloorSeconds = {
    2.3e-6, 2.3e-6, 2.3e-6, 2.3e-6, 2.3e-6, 2.3e-6, 6e-6, 6e-6, 6e-6,   6e-6, 3e-6,
    3e-6,   4e-6,   4e-6,   1.6e-6, 2.2e-6, 2.0e-6, 2e-6, 4e-6, 1.8e-6, 2e-6, 2e-6};

/// Attention of at most this many queries a head is a walk through the context.
constexpr int64_t kMostDecodeQueries = 8;

int64_t up(int64_t n, int64_t d) { return (n + d - 1) / d; }
float lg(double x) { return std::log2(static_cast<float>(std::max(x, 1e-6))); }
float ln(double x) { return std::log(static_cast<float>(std::max(x, 1e-12))); }

/// lg of the largest power of two up to `most` that divides n.
float alignment(int64_t n, int64_t most) {
  return static_cast<float>(std::countr_zero(static_cast<uint64_t>(n | most)));
}

/// The share of whole waves that so many waves fill.
double filled(double waves) { return waves > 0 ? waves / std::ceil(waves) : 1; }

double bytes_of(ElementType type) { return bit_width(type) / 8.0; }

/// Σ i^-s for i up to n, by the first terms of Euler and Maclaurin.
double harmonic(double n, double s) {
  const double integral = std::abs(s - 1) < 1e-3 ? std::log(n) : (std::pow(n, 1 - s) - 1) / (1 - s);
  return integral + 0.5 * (1 + std::pow(n, -s));
}

/// A stable number for operations that share a class: position in a fixed list.
float kind_of(Opcode code) {
  static constexpr std::array kKinds = {
      Opcode::k_add,     Opcode::k_multiply,   Opcode::k_relu,        Opcode::k_gelu,
      Opcode::k_silu,    Opcode::k_tanh,       Opcode::k_exponential, Opcode::k_copy,
      Opcode::k_softmax, Opcode::k_layer_norm, Opcode::k_rms_norm,    Opcode::k_reduce,
      Opcode::k_cumsum,  Opcode::k_top_k,      Opcode::k_sort,        Opcode::k_transpose,
      Opcode::k_gather,  Opcode::k_scatter};
  const auto* found = std::find(kKinds.begin(), kKinds.end(), code);
  return static_cast<float>(found - kKinds.begin());
}

}  // namespace

std::string_view name(TileClass tile_class) {
  static constexpr std::array<std::string_view, kTileClassCount> kNames = {
      "product",
      "single_product",
      "byte_product",
      "scaled_product",
      "weight_only_product",
      "vector_product",
      "grouped_product",
      "grouped_byte_product",
      "grouped_scaled_product",
      "grouped_weight_only_product",
      "convolution",
      "depthwise",
      "attention",
      "decode",
      "elementwise",
      "normalization",
      "softmax",
      "reduction",
      "scan",
      "move",
      "lookup",
      "other"};
  return kNames[static_cast<size_t>(tile_class)];
}

bool is_shared_by_stacks(TileClass tile_class) { return tile_class <= TileClass::kElementwise; }

TileGpu::TileGpu(const Device& device, TileProtocol protocol) : protocol_(protocol) {
  sms_ = std::max(1, device.compute_units);
  clock_ = device.clock.value > 0 ? device.clock.value : 1e9;
  const double matrix_clock = device.matrix_clock.value > 0 ? device.matrix_clock.value : clock_;
  bandwidth_ = std::max(1.0, device.main_memory().bandwidth.value);
  const MemoryLevel* l2 = device.level("l2");
  l2_bytes_ = l2 != nullptr ? std::max(1.0, l2->capacity.value) : 4e6;
  for (int i = 0; i < kElementTypeCount; ++i) {
    const auto type = static_cast<ElementType>(i);
    const auto at = static_cast<size_t>(i);
    const Rate product = product_rate(device, type);
    const Rate vector = find_rate(device.vector, type);
    on_matrix_[at] = product.flops_per_second > 0 && device.matrix[product.used].value > 0 &&
                     product.flops_per_second == device.matrix[product.used].value;
    matrix_per_clock_[at] =
        product.flops_per_second / (sms_ * (on_matrix_[at] ? matrix_clock : clock_));
    vector_per_clock_[at] = vector.flops_per_second / (sms_ * clock_);
  }
  const double special =
      device.special.value > 0 ? device.special.value : device.vector[ElementType::kF32].value / 4;
  special_per_clock_ = special / (sms_ * clock_);
}

double TileGpu::products_per_second(ElementType type, double clock) const {
  return matrix_per_clock_[static_cast<size_t>(type)] * sms_ * clock;
}

TileClass TileGpu::class_of(const Kernel& kernel) const {
  if (const auto* p = std::get_if<ProductShape>(&kernel.shape)) {
    const bool grouped = kernel.code == Opcode::k_grouped_dot;
    const ElementType type = kernel.cost.matrix_type;
    if (!grouped && !on_matrix_[static_cast<size_t>(type)]) return TileClass::kVectorProduct;
    if (p->weight != ElementType::kNone && bit_width(p->weight) < bit_width(type))
      return grouped ? TileClass::kGroupedWeightOnlyProduct : TileClass::kWeightOnlyProduct;
    if (p->scale_block > 0)
      return grouped ? TileClass::kGroupedScaledProduct : TileClass::kScaledProduct;
    const int bits = bit_width(type);
    if (grouped) return bits < 16 ? TileClass::kGroupedByteProduct : TileClass::kGroupedProduct;
    return bits == 16  ? TileClass::kProduct
           : bits < 16 ? TileClass::kByteProduct
                       : TileClass::kSingleProduct;
  }
  if (const auto* c = std::get_if<ConvolutionShape>(&kernel.shape))
    return c->groups > 1 && c->groups == c->channels ? TileClass::kDepthwise
                                                     : TileClass::kConvolution;
  if (const auto* a = std::get_if<AttentionShape>(&kernel.shape))
    return a->queries <= kMostDecodeQueries ? TileClass::kDecode : TileClass::kAttention;
  if (std::holds_alternative<MoveShape>(kernel.shape))
    return kernel.code == Opcode::k_copy ? TileClass::kElementwise : TileClass::kMove;
  if (std::holds_alternative<LookupShape>(kernel.shape)) return TileClass::kLookup;
  if (std::holds_alternative<RowShape>(kernel.shape)) {
    if (kernel.code == Opcode::k_softmax) return TileClass::kSoftmax;
    if (kernel.family == KernelFamily::kNormalization) return TileClass::kNormalization;
    if (kernel.family == KernelFamily::kSort || kernel.code == Opcode::k_cumsum)
      return TileClass::kScan;
    return TileClass::kReduction;
  }
  return kernel.family == KernelFamily::kElementwise ? TileClass::kElementwise : TileClass::kOther;
}

/// Fills a description, and the features' names where they are asked for.
struct TileGpu::Builder {
  const TileGpu& gpu;
  const Kernel& kernel;
  double clock;
  TileDescription& d;
  std::vector<std::string_view>* names = nullptr;
  double before_seconds = 0;  // of a kernel that must run first

  void add(std::string_view feature, double value) {
    if (d.count == TileDescription::kMostFeatures) return;
    d.features[d.count++] = static_cast<float>(value);
    if (names != nullptr) names->push_back(feature);
  }

  double matrix_seconds(double flops, ElementType type) const {
    const double rate = gpu.products_per_second(type, clock);
    return rate > 0 ? flops / rate : 0;
  }
  double vector_seconds() const {
    const Cost& c = kernel.cost;
    const double rate =
        gpu.vector_per_clock_[static_cast<size_t>(c.vector_type)] * gpu.sms_ * clock;
    const double plain = rate > 0 ? c.vector_flops / rate : 0;
    return std::max(plain, c.transcendental_flops / (gpu.special_per_clock_ * gpu.sms_ * clock));
  }

  void finish(double compute, double memory) {
    d.compute_seconds = compute;
    d.memory_seconds = memory;
    d.floor_seconds = kFloorSeconds[static_cast<size_t>(d.tile_class)];
    d.seconds = before_seconds + d.floor_seconds + std::max(compute, memory);
  }

  /// What every class says of its arithmetic, its traffic and its device.
  void add_common(double compute, double memory) {
    finish(compute, memory);
    add("ln_physical_us", ln(d.seconds * 1e6));
    add("ln_compute_us", ln(compute * 1e6));
    add("ln_memory_us", ln(memory * 1e6));
    add("ln_balance", std::clamp(ln(compute) - ln(memory), -12.0f, 12.0f));
    add("clock", clock / gpu.clock_);
    add("lg_bytes_l2", lg(kernel.cost.bytes() / gpu.l2_bytes_));
    add("lg_sms", lg(gpu.sms_));
    add("lg_machine_balance",
        lg(gpu.products_per_second(ElementType::kF16, gpu.clock_) / gpu.bandwidth_));
  }

  void add_tiles(int64_t batch, int64_t m, int64_t n) {
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
  double quantization_seconds(const ProductShape& p) const {
    constexpr double kBytes = 5;
    if (!gpu.protocol_.quantizes || bit_width(kernel.cost.matrix_type) >= 16) return 0;
    const bool by_block = p.scale_block > 0;
    const double clocks_per_element = by_block ? 0.62 : 1.3, clocks_per_row = by_block ? 1900 : 0;
    const double rows = static_cast<double>(p.batch) * static_cast<double>(p.m);
    const auto k = static_cast<double>(p.k);
    return kFloorSeconds[static_cast<size_t>(d.tile_class)] +
           std::max(rows * k * kBytes / gpu.bandwidth_,
                    rows * std::max(k * clocks_per_element, clocks_per_row) / (gpu.sms_ * clock));
  }

  void product(const ProductShape& p) {
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

  void grouped(const ProductShape& p) {
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

  void convolution(const ConvolutionShape& s) {
    const Cost& c = kernel.cost;
    const int64_t pixels = s.batch * s.out_height * s.out_width;
    const int64_t n = s.features / s.groups;
    const int64_t depth = s.channels / s.groups * s.window_height * s.window_width;
    const bool depthwise = d.tile_class == TileClass::kDepthwise;
    const double rate =
        depthwise ? gpu.vector_per_clock_[static_cast<size_t>(ElementType::kF32)] * gpu.sms_ * clock
                  : gpu.products_per_second(c.matrix_type, clock);
    add_common(rate > 0 ? c.matrix_flops / rate : 0, c.bytes() / gpu.bandwidth_);
    add("lg_pixels", lg(static_cast<double>(pixels)));
    add("lg_depth", lg(static_cast<double>(depth)));
    add("lg_features", lg(static_cast<double>(s.features)));
    add("lg_channels", lg(static_cast<double>(s.channels)));
    add("lg_batch", lg(static_cast<double>(s.batch)));
    add("lg_height", lg(static_cast<double>(s.height)));
    add("window", static_cast<double>(s.window_height));
    add("stride", static_cast<double>(s.stride));
    add("lg_groups", lg(static_cast<double>(s.groups)));
    add("channels_last", s.channels_last ? 1 : 0);
    add("lhs_bytes", bytes_of(kernel.tensors[0].element));
    add("lg_rate", lg(gpu.matrix_per_clock_[static_cast<size_t>(c.matrix_type)]));
    add("half", c.matrix_type == ElementType::kF16 ? 1 : 0);
    add("align_channels", alignment(s.channels, 64));
    add("lg_outputs_per_sm",
        lg(static_cast<double>(pixels) * static_cast<double>(s.features) / gpu.sms_));
    if (!depthwise) add_tiles(s.groups, pixels, n);
  }

  void attention(const AttentionShape& a) {
    const Cost& c = kernel.cost;
    add_common(matrix_seconds(c.matrix_flops, c.matrix_type), c.bytes() / gpu.bandwidth_);
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

  void elementwise() {
    const Cost& c = kernel.cost;
    add_common(vector_seconds(), c.bytes() / gpu.bandwidth_);
    const double elements =
        c.bytes_written /
        std::max(0.5,
                 bytes_of(kernel.tensors[std::max<size_t>(1, kernel.tensor_count) - 1].element));
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

  void rows(const RowShape& r) {
    const Cost& c = kernel.cost;
    // A block walks along its row (the clocks an element are those of short tables of long
    // rows in data/measured); so many blocks run on an SM at a time. Reductions part
    // long rows among blocks.
    constexpr double kClocksPerElement = 1.6, kBlocksPerSm = 16;
    const double waves_of_blocks =
        std::max(1.0, static_cast<double>(r.rows) / (gpu.sms_ * kBlocksPerSm));
    const double walk =
        waves_of_blocks * static_cast<double>(r.columns) * kClocksPerElement / clock;
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
  }

  void move(const MoveShape& m) {
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

  void lookup(const LookupShape& l) {
    const Cost& c = kernel.cost;
    add_common(vector_seconds(), c.bytes() / gpu.bandwidth_);
    const double element = bytes_of(kernel.tensors[0].element);
    add("kind", kind_of(kernel.code));
    add("lg_count", lg(static_cast<double>(l.count)));
    add("lg_width", lg(static_cast<double>(l.width)));
    add("lg_row_bytes", lg(static_cast<double>(l.width) * element));
    add("lg_table_l2", lg(static_cast<double>(l.table_rows) * static_cast<double>(l.width) *
                          element / gpu.l2_bytes_));
    add("accumulate", l.accumulate ? 1 : 0);
    add("lg_count_per_sm", lg(static_cast<double>(l.count) / gpu.sms_));
    add("element_bytes", element);
  }

  void other() {
    const Cost& c = kernel.cost;
    add_common(std::max(matrix_seconds(c.matrix_flops, c.matrix_type), vector_seconds()),
               c.bytes() / gpu.bandwidth_);
    add("kind", kind_of(kernel.code));
  }

  void build() {
    d.count = 0;
    d.tile_class = gpu.class_of(kernel);
    switch (d.tile_class) {
      case TileClass::kProduct:
      case TileClass::kSingleProduct:
      case TileClass::kByteProduct:
      case TileClass::kScaledProduct:
      case TileClass::kWeightOnlyProduct:
      case TileClass::kVectorProduct:
        return product(std::get<ProductShape>(kernel.shape));
      case TileClass::kGroupedProduct:
      case TileClass::kGroupedByteProduct:
      case TileClass::kGroupedScaledProduct:
      case TileClass::kGroupedWeightOnlyProduct:
        return grouped(std::get<ProductShape>(kernel.shape));
      case TileClass::kConvolution:
      case TileClass::kDepthwise:
        return convolution(std::get<ConvolutionShape>(kernel.shape));
      case TileClass::kAttention:
      case TileClass::kDecode:
        return attention(std::get<AttentionShape>(kernel.shape));
      case TileClass::kElementwise:
        return elementwise();
      case TileClass::kNormalization:
      case TileClass::kSoftmax:
      case TileClass::kReduction:
      case TileClass::kScan:
        return rows(std::get<RowShape>(kernel.shape));
      case TileClass::kMove:
        return move(std::get<MoveShape>(kernel.shape));
      case TileClass::kLookup:
        return lookup(std::get<LookupShape>(kernel.shape));
      case TileClass::kOther:
        return other();
    }
  }
};

void TileGpu::describe(const Kernel& kernel, Hertz clock, TileDescription& description) const {
  Builder{*this, kernel, clock.value > 0 ? clock.value : clock_, description, nullptr}.build();
}

std::span<const std::string_view> TileGpu::feature_names(TileClass tile_class) {
  static const auto kNames = [] {
    // Any device and any kernel of the class: names depend on neither.
    Device device;
    device.compute_units = 1;
    device.clock = Hertz(1e9);
    device.memory.push_back({"memory", Bytes(1e9), BytesPerSecond(1e9), 1});
    for (ElementType type : {ElementType::kBF16, ElementType::kTF32, ElementType::kF8E4M3FN})
      device.matrix.set(type, FlopsPerSecond(1e12));
    device.vector.set(ElementType::kF32, FlopsPerSecond(1e11));
    const TileGpu gpu(device);
    std::array<std::vector<std::string_view>, kTileClassCount> names;
    const auto record = [&](const Kernel& kernel) {
      TileDescription description;
      Builder builder{gpu, kernel, 1e9, description};
      std::vector<std::string_view> found;
      builder.names = &found;
      builder.build();
      names[static_cast<size_t>(description.tile_class)] = std::move(found);
    };
    constexpr std::string_view kConvolution =
        R"({"n": 1, "c": 8, "h": 8, "w": 8, "k": 8, "r": 3, "s": 3, "stride": 1, "pad": 1, )";
    constexpr std::string_view kAttention = R"({"b": 1, "h": 8, "kv": 8, "t": 64, "d": 64, )";
    for (const char* dtype : {"bf16", "tf32", "fp8", "fp8_block", "int4_weight", "fp32"})
      record(operator_kernel("gemm", dtype, R"({"m": 8, "n": 8, "k": 128})"));
    for (const char* dtype : {"bf16", "fp8", "fp8_block", "int4_weight"})
      record(operator_kernel("grouped_gemm", dtype,
                             R"({"experts": 4, "tokens": 8, "n": 8, "k": 128, "skew": 0})"));
    record(operator_kernel("conv2d", "bf16", std::string(kConvolution) + R"("groups": 1})"));
    record(operator_kernel("conv2d", "bf16", std::string(kConvolution) + R"("groups": 8})"));
    record(operator_kernel("sdpa", "bf16", std::string(kAttention) + R"("s": 64})"));
    record(operator_kernel("sdpa", "bf16", std::string(kAttention) + R"("s": 1})"));
    for (const char* op : {"add", "layernorm", "softmax", "reduce_sum", "sort", "transpose"})
      record(operator_kernel(op, "bf16", R"({"shape": [8, 8]})"));
    record(operator_kernel("embedding", "bf16", R"({"vocab": 8, "shape": [8, 8]})"));
    Kernel other;
    other.family = KernelFamily::kLibrary;
    record(other);
    return names;
  }();
  return kNames[static_cast<size_t>(tile_class)];
}

}  // namespace orrery
