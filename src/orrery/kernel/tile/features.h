#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "orrery/hardware/device.h"
#include "orrery/kernel/kernel.h"

namespace orrery {

/// Kernels that a GPU's libraries implement alike, and that are fitted together.
enum class TileClass : uint8_t {
  kProduct,            ///< on the matrix units, batched or not: types of 16 bits …
  kSingleProduct,      ///< … of 32 (tf32) or 64
  kByteProduct,        ///< … of 8 or fewer
  kScaledProduct,      ///< … with a scale for each block
  kWeightOnlyProduct,  ///< … with weights narrower than what they multiply
  kVectorProduct,      ///< of fp32, on the vector units or AMD's matrix units, and others there
  kGroupedProduct,     ///< experts, by type as products
  kGroupedByteProduct,
  kGroupedScaledProduct,
  kGroupedWeightOnlyProduct,
  kConvolution,  ///< as implicit GEMM
  kDepthwise,    ///< one input channel a group
  kAttention,
  kDecode,  ///< attention of a few queries over a long context
  kElementwise,
  kNormalization,
  kSoftmax,
  kReduction,
  kScan,  ///< cumulative sums, sorts, top-k
  kMove,
  kLookup,
  kGradientConvolution,
  kCompiledProduct,  ///< of 16 bits, by a compiler's choice of kernel
  kCompiledLoop,     ///< fusions without reductions …
  kCompiledRows,     ///< … and with them
  kOther,
};
inline constexpr size_t kTileClassCount = static_cast<size_t>(TileClass::kOther) + 1;

std::string_view name(TileClass tile_class);

/// A kernel as a GPU meets it: a physical estimate of its time, and the numbers its
/// libraries' choices depend on.
///
///   seconds = floor + max(FLOPs / rate at the clock, bytes / bandwidth)
///
/// where the floor is a launch, a first access to memory and the drain of the last
/// wave, a part of which follows the clock; attention's FLOPs are those of whole tiles
/// (attention_tiles.cc), and bytes that a warm protocol finds in L2 take its bandwidth. A fit
/// (fit.h) multiplies it by exp(f(features)). Features are logarithms, ratios and per-SM counts, so
/// that what is learned on one GPU says something of another.
struct TileDescription {
  static constexpr size_t kMostFeatures = 64;

  TileClass tile_class = TileClass::kOther;
  double seconds = 0;
  double compute_seconds = 0;
  double memory_seconds = 0;
  double floor_seconds = 0;
  double least_seconds = 0;  ///< What the data sheet allows at best, of operands that outgrow L2.
  size_t count = 0;
  std::array<float, kMostFeatures> features{};

  std::span<const float> values() const { return {features.data(), count}; }
};

/// What the smallest kernels take where each is timed by itself, the host's part: 26 to 60 us
/// on five GPUs in NeuSight's tables.
inline constexpr double kEagerSeconds = 30e-6;

/// Whether stacks share the class's kernels: those of vendors' libraries, and elementwise
/// ones, which all reach the memory's bandwidth. Each stack has its own of the rest.
bool is_shared_by_stacks(TileClass tile_class);

/// What a stack, or whoever measured under it, does beside the kernel itself.
struct TileProtocol {
  /// Products of 8-bit types take 16-bit activations and quantise them first (vLLM).
  bool quantizes = false;
  /// Each kernel runs again and again on the same operands, products on so many copies of
  /// their weights in turn, at the clock that the board's power leaves: what fits into L2
  /// is read from there. Otherwise operands come from memory.
  bool warm = false;
  /// Each launch is timed by itself from Python, with what that takes on the host (NeuSight).
  bool eager = false;
  bool operator==(const TileProtocol&) const = default;

  /// All of them, numbered.
  static constexpr size_t kCount = 8;
  static constexpr TileProtocol of(size_t number) {
    return {(number & 1) != 0, (number & 2) != 0, (number & 4) != 0};
  }
  constexpr size_t number() const {
    return (quantizes ? 1u : 0u) + (warm ? 2u : 0u) + (eager ? 4u : 0u);
  }
};

/// What GPUs are told apart by, in powers of two: SMs, clock, the memory's bandwidth, L2, for an
/// SM and clock what it multiplies in 16 bits and what its vector units do in 32; and whose
/// libraries run there, makers being as far apart as one generation of a maker from the next
/// (Pascal, Volta, Turing, Ampere, Hopper by the figures before: 1.7 to 3), a stated prior, set
/// with NeuSight's AMD tables in view.
using GpuFigures = std::array<double, 7>;
/// How far two of them lie from each other, as points.
double octaves_apart(const GpuFigures& a, const GpuFigures& b);

/// A GPU's figures per SM and clock, as the description needs them.
class TileGpu {
 public:
  explicit TileGpu(const Device& device, TileProtocol protocol = {});

  TileClass class_of(const Kernel& kernel) const;
  /// `clock` 0: the boost clock.
  void describe(const Kernel& kernel, Hertz clock, TileDescription& description) const;

  /// The features of a class by name, in the order of TileDescription::features.
  static std::span<const std::string_view> feature_names(TileClass tile_class);

  double boost_clock() const { return clock_; }
  GpuFigures figures() const;
  /// The rate of matrix products of `type` on the whole device at `clock`; that of the
  /// vector units where they are what runs them.
  double products_per_second(ElementType type, double clock) const;

 private:
  struct Builder;

  TileProtocol protocol_;
  double sms_ = 1;
  double clock_ = 1;
  double bandwidth_ = 1;
  double l2_bytes_ = 1;
  double l2_bandwidth_ = 1;
  double throttle_ = 1;       // of the boost clock, what the board's power leaves to long products
  bool warp_groups_ = false;  // products of warp groups, fed by copies beside them (Hopper)
  double maker_ = 0;          // as figures() has it
  double special_per_clock_ = 1;  // all per SM
  std::array<double, kElementTypeCount> matrix_per_clock_{};
  std::array<double, kElementTypeCount> vector_per_clock_{};
  std::array<bool, kElementTypeCount> on_matrix_{};
  bool rates_are_peaks_ = true;  // or what public runs reach of them
};

}  // namespace orrery
