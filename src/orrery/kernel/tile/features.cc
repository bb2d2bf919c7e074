#include "orrery/kernel/tile/features.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "orrery/kernel/operator_kernel.h"
#include "orrery/kernel/peak_rate.h"
#include "orrery/kernel/tile/builder.h"

namespace orrery {
namespace {

/// Attention of at most this many queries a head is a walk through the context.
constexpr int64_t kMostDecodeQueries = 8;

/// Floors were seen at this clock; so much of them does not follow the clock (the smallest
/// kernels of A100 and L40S, at 1.41 and 2.52 GHz, in aiconfigurator's tables).
constexpr double kFloorClock = 1.98e9;
constexpr double kFloorWithoutClock = 0.4;
/// How long a kernel must be for the board to meet its power limit while it is measured
/// under a warm protocol: the L40S's products slow down between 0.1 and 1 ms.
constexpr double kThrottleSeconds = 300e-6;
/// Of its reference power, what a chip draws whose matrix units are all busy (shares of
/// data/kernels/power.json).
constexpr double kMostDraw = 1.78;
/// What an SM gets from L2 in a clock where no source gives the whole's bandwidth: a stated
/// prior, of which kernels on warm operands reach a half (A100, L40S) or more (H100, H200).
constexpr double kL2BytesPerClock = 11;
/// Copies of a product's weights that a warm protocol takes in turn (aiconfigurator's
/// collector/vllm/collect_gemm.py).
constexpr double kCopiesOfWeights = 6;

/// The share of a working set of so many times L2's size that is still there when it is
/// wanted again; the L40S loses it between three quarters of the size and five.
double share_kept(double working_set) { return std::clamp((1.25 - working_set) * 2, 0.0, 1.0); }

}  // namespace

using namespace tile;

float tile::kind_of(Opcode code) {
  static constexpr std::array kKinds = {
      Opcode::k_add,     Opcode::k_multiply,   Opcode::k_relu,        Opcode::k_gelu,
      Opcode::k_silu,    Opcode::k_tanh,       Opcode::k_exponential, Opcode::k_copy,
      Opcode::k_softmax, Opcode::k_layer_norm, Opcode::k_rms_norm,    Opcode::k_reduce,
      Opcode::k_cumsum,  Opcode::k_top_k,      Opcode::k_sort,        Opcode::k_transpose,
      Opcode::k_gather,  Opcode::k_scatter};
  const auto* found =
      std::find(kKinds.begin(), kKinds.end(), code == Opcode::k_scan ? Opcode::k_cumsum : code);
  return static_cast<float>(found - kKinds.begin());
}

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
      "gradient_convolution",
      "compiled_product",
      "compiled_loop",
      "compiled_rows",
      "other"};
  return kNames[static_cast<size_t>(tile_class)];
}

bool is_shared_by_stacks(TileClass tile_class) {
  return tile_class <= TileClass::kElementwise || tile_class == TileClass::kGradientConvolution;
}

TileGpu::TileGpu(const Device& device, TileProtocol protocol) : protocol_(protocol) {
  sms_ = std::max(1, device.compute_units);
  clock_ = device.clock.value > 0 ? device.clock.value : 1e9;
  const double matrix_clock = device.matrix_clock.value > 0 ? device.matrix_clock.value : clock_;
  bandwidth_ = std::max(1.0, device.main_memory().bandwidth.value);
  const MemoryLevel* l2 = device.level("l2");
  l2_bytes_ = l2 != nullptr ? std::max(1.0, l2->capacity.value) : 4e6;
  l2_bandwidth_ = std::max(bandwidth_, l2 != nullptr && l2->bandwidth.value > 0
                                           ? l2->bandwidth.value
                                           : kL2BytesPerClock * sms_ * clock_);
  // A board is sold to keep its base clock under any load and its boost clock under none:
  // long products are taken to run half-way between, a stated prior, unless the limit is above
  // what the chip can draw for products of 16 bits.
  const double draw = kMostDraw * device.reference_power.value;
  const Watts rated = device.rated_power.value > 0 ? device.rated_power : device.power_limit;
  const bool spared = draw > 0 && draw < rated.value;
  if (protocol.warm && !spared && device.base_clock.value > 0 && device.base_clock.value < clock_)
    throttle_ = std::sqrt(device.base_clock.value / clock_);
  constexpr double kMakersApart = 2;
  maker_ = device.vendor == "NVIDIA" ? 0 : device.vendor == "AMD" ? kMakersApart : 2 * kMakersApart;
  warp_groups_ = device.architecture == "hopper" || device.architecture == "blackwell";
  for (int i = 0; i < kElementTypeCount; ++i) {
    const auto type = static_cast<ElementType>(i);
    const auto at = static_cast<size_t>(i);
    const Rate product = product_rate(device, type);
    const Rate vector = find_rate(device.vector, type);
    on_matrix_[at] = product.flops_per_second > 0 && device.matrix[product.used].value > 0 &&
                     product.flops_per_second == device.matrix[product.used].value;
    matrix_per_clock_[at] =
        product.flops_per_second / (sms_ * (on_matrix_[at] ? matrix_clock : clock_));
    if (on_matrix_[at] && device.products_clock.value > 0) {
      matrix_per_clock_[at] *= device.products_clock.value / matrix_clock;
      rates_are_peaks_ = false;
    }
    vector_per_clock_[at] = vector.flops_per_second / (sms_ * clock_);
  }
  const double special =
      device.special.value > 0 ? device.special.value : device.vector[ElementType::kF32].value / 4;
  special_per_clock_ = special / (sms_ * clock_);
}

double octaves_apart(const GpuFigures& a, const GpuFigures& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(squares);
}

GpuFigures TileGpu::figures() const {
  const auto of = [](const std::array<double, kElementTypeCount>& rates, ElementType type) {
    return lg(rates[static_cast<size_t>(type)]);
  };
  return {lg(sms_),
          lg(clock_),
          lg(bandwidth_),
          lg(l2_bytes_),
          of(matrix_per_clock_, ElementType::kF16),
          of(vector_per_clock_, ElementType::kF32),
          maker_};
}

double TileGpu::products_per_second(ElementType type, double clock) const {
  return matrix_per_clock_[static_cast<size_t>(type)] * sms_ * clock;
}

TileClass TileGpu::class_of(const Kernel& kernel) const {
  if (const auto* p = std::get_if<ProductShape>(&kernel.shape)) {
    const bool grouped = kernel.code == Opcode::k_grouped_dot;
    const ElementType type = kernel.cost.matrix_type;
    if (!grouped && (!on_matrix_[static_cast<size_t>(type)] || type == ElementType::kF32))
      return TileClass::kVectorProduct;
    if (p->weight != ElementType::kNone && bit_width(p->weight) < bit_width(type))
      return grouped ? TileClass::kGroupedWeightOnlyProduct : TileClass::kWeightOnlyProduct;
    // Experts in four bits have scales for blocks, as their formats say.
    if (p->scale_block > 0 || (grouped && bit_width(type) == 4))
      return grouped ? TileClass::kGroupedScaledProduct : TileClass::kScaledProduct;
    const int bits = bit_width(type);
    if (p->compiled && !grouped && bits == 16) return TileClass::kCompiledProduct;
    if (grouped) return bits < 16 ? TileClass::kGroupedByteProduct : TileClass::kGroupedProduct;
    return bits == 16  ? TileClass::kProduct
           : bits < 16 ? TileClass::kByteProduct
                       : TileClass::kSingleProduct;
  }
  if (const auto* c = std::get_if<ConvolutionShape>(&kernel.shape))
    return c->computes != ConvolutionShape::Computes::kOutput ? TileClass::kGradientConvolution
           : c->groups > 1 && c->groups == c->channels        ? TileClass::kDepthwise
                                                              : TileClass::kConvolution;
  if (const auto* a = std::get_if<AttentionShape>(&kernel.shape))
    return a->queries <= kMostDecodeQueries ? TileClass::kDecode : TileClass::kAttention;
  if (std::holds_alternative<MoveShape>(kernel.shape))
    return kernel.code == Opcode::k_copy ? TileClass::kElementwise : TileClass::kMove;
  if (std::holds_alternative<LookupShape>(kernel.shape)) return TileClass::kLookup;
  if (const auto* f = std::get_if<FusionShape>(&kernel.shape))
    return f->columns > 1 ? TileClass::kCompiledRows : TileClass::kCompiledLoop;
  if (std::holds_alternative<RowShape>(kernel.shape)) {
    if (kernel.code == Opcode::k_softmax) return TileClass::kSoftmax;
    if (kernel.family == KernelFamily::kNormalization) return TileClass::kNormalization;
    if (kernel.family == KernelFamily::kSort || kernel.code == Opcode::k_cumsum ||
        kernel.code == Opcode::k_scan)
      return TileClass::kScan;
    return TileClass::kReduction;
  }
  return kernel.family == KernelFamily::kElementwise ? TileClass::kElementwise : TileClass::kOther;
}

double TileGpu::Builder::vector_seconds() const {
  const Cost& c = kernel.cost;
  const double rate = gpu.vector_per_clock_[static_cast<size_t>(c.vector_type)] * gpu.sms_ * clock;
  const double plain = rate > 0 ? c.vector_flops / rate : 0;
  return std::max(plain, c.transcendental_flops / (gpu.special_per_clock_ * gpu.sms_ * clock));
}

double TileGpu::Builder::floor_of(TileClass tile_class) const {
  return tile::kFloorSeconds[static_cast<size_t>(tile_class)] *
             (kFloorWithoutClock + (1 - kFloorWithoutClock) * kFloorClock / clock) +
         (gpu.protocol_.eager ? kEagerSeconds : 0);
}

double TileGpu::Builder::least_seconds() const {
  const Cost& c = kernel.cost;
  const double outgrown = std::max(0.0, c.bytes() - gpu.l2_bytes_) / gpu.bandwidth_;
  switch (d.tile_class) {
    case TileClass::kProduct:
    case TileClass::kSingleProduct:
    case TileClass::kByteProduct:
    case TileClass::kScaledProduct:
    case TileClass::kWeightOnlyProduct:
    case TileClass::kVectorProduct: {
      const double rate = gpu.rates_are_peaks_ ? gpu.products_per_second(c.matrix_type, clock) : 0;
      return std::max(outgrown, rate > 0 ? c.matrix_flops / rate : 0);
    }
    // Of convolutions libraries find ways with less arithmetic.
    case TileClass::kConvolution:
    case TileClass::kAttention:
    case TileClass::kDecode:
    case TileClass::kElementwise:
    case TileClass::kNormalization:
    case TileClass::kSoftmax:
    case TileClass::kReduction:
    case TileClass::kMove:
      return outgrown;
    // What others read and write is not all told by their shapes.
    default:
      return 0;
  }
}

double TileGpu::Builder::throttled(double seconds) const {
  // At a clock that is lower anyway, the board does not slow down again.
  const double boosted = seconds * clock / gpu.clock_;
  return std::max(seconds,
                  boosted * (1 + (1 / gpu.throttle_ - 1) * boosted / (boosted + kThrottleSeconds)));
}

double TileGpu::Builder::kept_in_l2() const {
  if (!gpu.protocol_.warm) return 0;
  double working_set = kernel.cost.bytes();
  const auto* p = std::get_if<ProductShape>(&kernel.shape);
  if (p != nullptr && kernel.code != Opcode::k_grouped_dot && p->scale_block == 0)
    working_set += (kCopiesOfWeights - 1) * static_cast<double>(p->batch) *
                   static_cast<double>(p->n) * static_cast<double>(p->k) *
                   tile::bytes_of(p->weight);
  return share_kept(working_set / gpu.l2_bytes_);
}

double TileGpu::Builder::warmth() const {
  const double kept = kept_in_l2();
  return 1 - kept + kept * gpu.bandwidth_ / gpu.l2_bandwidth_;
}

void TileGpu::Builder::add_common(double compute, double memory) {
  memory *= warmth();
  d.compute_seconds = compute;
  d.memory_seconds = memory;
  d.floor_seconds = floor_of(d.tile_class);
  d.least_seconds = least_seconds();
  d.seconds = before_seconds + d.floor_seconds + std::max(compute, memory);
  add("ln_physical_floors", ln(d.seconds / d.floor_seconds));
  add("ln_compute_floors", ln(compute / d.floor_seconds));
  add("ln_memory_floors", ln(memory / d.floor_seconds));
  add("ln_balance", std::clamp(ln(compute) - ln(memory), -12.0f, 12.0f));
  add("clock", clock / gpu.clock_);
  add("kept_in_l2", kept_in_l2());
  add("warp_groups", gpu.warp_groups_ ? 1 : 0);
  add("lg_bytes_l2", lg(kernel.cost.bytes() / gpu.l2_bytes_));
  add("lg_sms", lg(gpu.sms_));
  add("lg_machine_balance",
      lg(gpu.products_per_second(ElementType::kF16, gpu.clock_) / gpu.bandwidth_));
}

void TileGpu::Builder::build() {
  d.count = 0;
  d.tile_class = gpu.class_of(kernel);
  switch (d.tile_class) {
    case TileClass::kProduct:
    case TileClass::kSingleProduct:
    case TileClass::kByteProduct:
    case TileClass::kScaledProduct:
    case TileClass::kWeightOnlyProduct:
    case TileClass::kVectorProduct:
    case TileClass::kCompiledProduct:
      return product(std::get<ProductShape>(kernel.shape));
    case TileClass::kGroupedProduct:
    case TileClass::kGroupedByteProduct:
    case TileClass::kGroupedScaledProduct:
    case TileClass::kGroupedWeightOnlyProduct:
      return grouped(std::get<ProductShape>(kernel.shape));
    case TileClass::kConvolution:
    case TileClass::kDepthwise:
    case TileClass::kGradientConvolution:
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
    case TileClass::kCompiledLoop:
    case TileClass::kCompiledRows:
      return fusion(std::get<FusionShape>(kernel.shape));
    case TileClass::kOther:
      return other();
  }
}

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
    record(operator_kernel("conv2d", "bf16",
                           std::string(kConvolution) + R"("groups": 1, "gradient": "input"})"));
    record(operator_kernel("sdpa", "bf16", std::string(kAttention) + R"("s": 64})"));
    record(operator_kernel("sdpa", "bf16", std::string(kAttention) + R"("s": 1})"));
    for (const char* op : {"add", "layernorm", "softmax", "reduce_sum", "sort", "transpose"})
      record(operator_kernel(op, "bf16", R"({"shape": [8, 8]})"));
    record(operator_kernel("fused_gemm", "bf16", R"({"m": 8, "n": 8, "k": 128})"));
    record(operator_kernel("fusion", "bf16", R"({"elements": 64, "read": 128, "written": 128})"));
    record(operator_kernel(
        "fusion", "bf16",
        R"({"elements": 64, "read": 128, "written": 16, "rows": 8, "columns": 8})"));
    record(operator_kernel("embedding", "bf16", R"({"vocab": 8, "shape": [8, 8]})"));
    Kernel other;
    other.family = KernelFamily::kLibrary;
    record(other);
    return names;
  }();
  return kNames[static_cast<size_t>(tile_class)];
}

}  // namespace orrery
