#include <algorithm>
#include <array>
#include <cmath>

#include "orrery/kernel/tile/builder.h"

namespace orrery {

namespace {

/// Channels that no vector load can take, as the three of pictures, are convolved on the vector
/// units whatever their type, in tiles of so many output channels: 35 to 40 TFLOP/s on an H200 in
/// data/measured, for 32 output channels a half of it.
constexpr int64_t kLoadBytes = 16;
constexpr int64_t kVectorTile = 64;

}  // namespace

using namespace tile;

void TileGpu::Builder::convolution(const ConvolutionShape& s) {
  const Cost& c = kernel.cost;
  const int64_t pixels = s.batch * s.out_height * s.out_width;
  const int64_t n = s.features / s.groups;
  const int64_t depth = s.channels / s.groups * s.window_height * s.window_width;
  const bool depthwise = s.groups > 1 && s.groups == s.channels;
  const double element = bytes_of(kernel.tensors[0].element);
  const bool unaligned = d.tile_class == TileClass::kConvolution && s.groups == 1 &&
                         std::fmod(static_cast<double>(s.channels) * element, kLoadBytes) != 0;
  const double rate =
      depthwise || unaligned
          ? gpu.vector_per_clock_[static_cast<size_t>(ElementType::kF32)] * gpu.sms_ * clock
          : gpu.products_per_second(c.matrix_type, clock);
  const double padded =
      unaligned ? static_cast<double>(up(n, kVectorTile) * kVectorTile) / static_cast<double>(n)
                : 1;
  // A stride that steps over pixels does not read them.
  const auto touched = [](int64_t window, int64_t stride) {
    return std::min(1.0, static_cast<double>(window) / static_cast<double>(stride));
  };
  const double input = static_cast<double>(s.batch) * static_cast<double>(s.channels) *
                       static_cast<double>(s.height) * static_cast<double>(s.width) * element *
                       touched(s.window_height, s.stride) * touched(s.window_width, s.stride);
  const double filter = static_cast<double>(s.features) * static_cast<double>(depth) * element;
  const double output = static_cast<double>(pixels) * static_cast<double>(s.features) * element;
  add_common(rate > 0 ? padded * c.matrix_flops / rate : 0,
             (input + filter + output) / gpu.bandwidth_);
  add("ln_input_share", ln(input / gpu.bandwidth_ / d.seconds));
  add("ln_filter_share", ln(filter / gpu.bandwidth_ / d.seconds));
  add("ln_output_share", ln(output / gpu.bandwidth_ / d.seconds));
  add("align_features", alignment(s.features, 256));
  add("lg_aspect", lg(static_cast<double>(pixels) / static_cast<double>(n)));
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
  if (d.tile_class == TileClass::kDepthwise) return;
  if (d.tile_class == TileClass::kGradientConvolution) {
    const bool of_filter = s.computes == ConvolutionShape::Computes::kFilterGradient;
    add("of_filter", of_filter ? 1 : 0);
    add("depthwise", depthwise ? 1 : 0);
    if (of_filter)
      add_tiles(s.groups, n, depth);
    else
      add_tiles(s.groups, s.batch * s.height * s.width, s.channels / s.groups);
    return;
  }
  add_tiles(s.groups, pixels, n);
}

}  // namespace orrery
