#include "orrery/model/library_workspace.h"

#include <algorithm>
#include <variant>

#include "orrery/model/fusion_passes.h"

namespace orrery {
namespace {

constexpr int64_t kCublasWorkspace = int64_t{32} << 20;
/// Products that XLA gave to cuBLAS on an H200 have at least this many FLOPs where they sum over a
/// long dimension and where over a short one; a shorter one never.
constexpr double kLargeProduct = 4.5e9;
constexpr double kLargeShallowProduct = 12e9;
constexpr int64_t kDeepSum = 1024;
constexpr int64_t kFewestRows = 128;
/// Tiles of a generated kernel that just fill the device once.
constexpr double kFullWave = 0.9;
/// … of a batch: scores of attention, which sum over a head's size, and products of large matrices.
constexpr double kLargeBatch = 3.4e9;
constexpr int64_t kSmallestHead = 40, kLargestHead = 128;
constexpr int64_t kLargeSide = 512, kLongSide = 1024;
constexpr double kMostBytes = 0x1p60;

bool is_cublas(const ProductShape& p, ElementType type, const Device& device) {
  if (p.groups > 1) return false;
  const double flops = 2.0 * static_cast<double>(p.batch) * static_cast<double>(p.m) *
                       static_cast<double>(p.n) * static_cast<double>(p.k);
  const int64_t rows = std::min(p.m, p.n);
  if (p.batch > 1) {
    if (flops < kLargeBatch || p.k < kSmallestHead) return false;
    return p.k <= kLargestHead || (rows >= kLargeSide && p.k >= kLargeSide) || rows >= kLongSide;
  }
  if (rows < kFewestRows || p.k < kLibraryProductDepth ||
      flops < (p.k >= kDeepSum ? kLargeProduct : kLargeShallowProduct))
    return false;
  if (type == ElementType::kF32 || type == ElementType::kTF32) return true;
  return !fills_device_once(p, device);
}

/// cuDNN's matrix kernels want channels in multiples of this; others are copied with more.
constexpr int64_t kChannelStep = 8;
/// Outputs from which on, and bytes of the copied input from which on, they are worth the copy.
constexpr int64_t kFewestFeatures = 64;
constexpr double kLeastCopy = 1e6;
/// Windows of one position have a small table where they step over features, or are many.
constexpr double kTableBytes = 131;
constexpr double kManyPositions = 1e6;
/// Parts that each image's share of a depthwise filter's gradient is summed in.
constexpr double kDepthwiseParts = 8;
constexpr double kHalfBytes = 2, kPartBytes = 4;

double convolution_workspace(const ConvolutionShape& c, ElementType type) {
  if (type != ElementType::kBF16 && type != ElementType::kF16) return 0;
  const auto padded = [](int64_t channels) {
    const int64_t steps = (channels + kChannelStep - 1) / kChannelStep;
    return static_cast<double>(steps * kChannelStep);
  };
  // As far as windows reach: XLA pads the input beforehand where they step.
  const auto reach = [&](int64_t size, int64_t out, int64_t window) {
    return static_cast<double>(c.stride > 1 ? std::max(size, (out - 1) * c.stride + window) : size);
  };
  const double window = static_cast<double>(c.window_height) * static_cast<double>(c.window_width);
  const auto batch = static_cast<double>(c.batch);
  const auto features = static_cast<double>(c.features);
  const bool filter = c.computes == ConvolutionShape::Computes::kFilterGradient;
  if (c.groups > 1) return filter ? kDepthwiseParts * batch * window * features * kPartBytes : 0;
  if (c.computes == ConvolutionShape::Computes::kInputGradient) return 0;
  double copies = 0;
  const double input = batch * reach(c.height, c.out_height, c.window_height) *
                       reach(c.width, c.out_width, c.window_width) * padded(c.channels) *
                       kHalfBytes;
  if (c.channels % kChannelStep != 0 &&
      (filter || (c.features >= kFewestFeatures && input >= kLeastCopy)))
    copies += input;
  if (c.features % kChannelStep != 0)
    copies += batch * static_cast<double>(c.out_height) * static_cast<double>(c.out_width) *
              padded(c.features) * kHalfBytes;
  const bool is_product = window == 1 && !filter;
  const double positions =
      batch * static_cast<double>(c.out_height) * static_cast<double>(c.out_width);
  if (copies == 0)
    return is_product &&
                   (c.stride > 1 ? c.channels >= kFewestFeatures : positions >= kManyPositions)
               ? kTableBytes
               : 0;
  return copies + window * padded(c.features) * padded(c.channels) * kHalfBytes;
}

}  // namespace

bool fills_device_once(const ProductShape& p, const Device& device) {
  const double tiles = static_cast<double>(p.m) / 128 * (static_cast<double>(p.n) / 256);
  const double waves = tiles / std::max(1, device.compute_units);
  return waves > kFullWave && waves <= 1;
}

LibraryCall library_call(const Kernel& kernel, const Device& device, bool aligned) {
  if (device.vendor != "NVIDIA") return {};
  if (const auto* convolution = std::get_if<ConvolutionShape>(&kernel.shape)) {
    const double bytes = convolution_workspace(*convolution, kernel.cost.matrix_type);
    return {true, static_cast<int64_t>(std::min(bytes, kMostBytes))};
  }
  const auto* product = std::get_if<ProductShape>(&kernel.shape);
  if (product != nullptr && product->groups > 1) {
    const double rows = static_cast<double>(kernel.tensors[0].bytes);
    const double expanded = std::min(rows * static_cast<double>(product->groups), kMostBytes);
    return {true, static_cast<int64_t>(expanded) + kCublasWorkspace};
  }
  if (product == nullptr || !aligned || !is_cublas(*product, kernel.cost.matrix_type, device))
    return {};
  return {true, kCublasWorkspace};
}

}  // namespace orrery
