#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>
#include <vector>

#include "orrery/kernel/tile/features.h"

namespace orrery {

/// The arithmetic that descriptions of all classes are written in.
namespace tile {

/// A launch, a first round trip to memory, the drain of the last wave: what the
/// smallest kernels of each class take on an H200, of the order of which it is on others.
inline constexpr std::array<double, kTileClassCount> kFloorSeconds = {
    2.3e-6, 2.3e-6, 2.3e-6, 2.3e-6, 2.3e-6, 2.3e-6, 6e-6,   6e-6,   6e-6,
    6e-6,   3e-6,   3e-6,   4e-6,   4e-6,   1.6e-6, 2.2e-6, 2.0e-6, 2e-6,
    4e-6,   1.8e-6, 2e-6,   4e-6,   2.0e-6, 1.2e-6, 1.4e-6, 2e-6};

inline int64_t up(int64_t n, int64_t d) { return (n + d - 1) / d; }
inline float lg(double x) { return std::log2(static_cast<float>(std::max(x, 1e-6))); }
inline float ln(double x) { return std::log(static_cast<float>(std::max(x, 1e-12))); }

/// lg of the largest power of two up to `most` that divides n.
inline float alignment(int64_t n, int64_t most) {
  return static_cast<float>(std::countr_zero(static_cast<uint64_t>(n | most)));
}

/// The share of whole waves that so many waves fill.
inline double filled(double waves) { return waves > 0 ? waves / std::ceil(waves) : 1; }

inline double bytes_of(ElementType type) { return bit_width(type) / 8.0; }

/// A stable number for operations that share a class: position in a fixed list.
float kind_of(Opcode code);

}  // namespace tile

/// Fills a description, and the features' names where they are asked for. What a class
/// of kernels depends on stands in the file of its kind: products.cc, convolution.cc,
/// attention.cc, rows.cc, moves.cc.
struct TileGpu::Builder {
  const TileGpu& gpu;
  const Kernel& kernel;
  double clock;
  TileDescription& d;
  std::vector<std::string_view>* names = nullptr;
  double before_seconds = 0;  // of a kernel that must run first

  void build();

  void product(const ProductShape& given);
  void grouped(const ProductShape& p);
  void convolution(const ConvolutionShape& s);
  void attention(const AttentionShape& a);
  void rows(const RowShape& r);
  void elementwise();
  void move(const MoveShape& m);
  void lookup(const LookupShape& l);
  void fusion(const FusionShape& f);
  void other();

  void add(std::string_view feature, double value) {
    if (d.count == TileDescription::kMostFeatures) return;
    d.features[d.count++] = static_cast<float>(value);
    if (names != nullptr) names->push_back(feature);
  }
  /// What every class says of its arithmetic, its traffic and its device.
  void add_common(double compute, double memory);
  void add_tiles(int64_t batch, int64_t m, int64_t n);

  double matrix_seconds(double flops, ElementType type) const {
    const double rate = gpu.products_per_second(type, clock);
    return rate > 0 ? throttled(flops / rate) : 0;
  }
  /// Seconds of arithmetic at the boost clock, once the board's power has its say.
  double throttled(double seconds) const;
  double vector_seconds() const;
  /// Of the arithmetic; adds what runs beside it to `before_seconds`.
  double attention_seconds(const AttentionShape& a);
  double floor_of(TileClass tile_class) const;
  double least_seconds() const;
  /// The share of the operands that is still in L2 from the last launch …
  double kept_in_l2() const;
  /// … and what that makes of the time to read them from memory.
  double warmth() const;
  double quantization_seconds(const ProductShape& p) const;
};

}  // namespace orrery
