#include "orrery/model/library_workspace.h"

#include <algorithm>
#include <variant>

namespace orrery {
namespace {

constexpr int64_t kCublasWorkspace = int64_t{32} << 20;
/// Smallest products that XLA gave to cuBLAS on an H200, in FLOPs: of one matrix,
/// and of a batch that sums over a head's size (scores of attention).
constexpr double kLargeProduct = 12e9;
constexpr double kLargeBatch = 2e9;
constexpr int64_t kLargestHead = 128;
constexpr int64_t kFewestRows = 384;
/// Shares of the device that tiles of a generated kernel fill in one wave where it wins.
constexpr double kFullWave = 0.7;
constexpr double kMostBytes = 0x1p60;

bool is_cublas(const ProductShape& p, ElementType type, const Device& device) {
  if (p.groups > 1 || p.m % 8 != 0 || p.n % 8 != 0 || p.k % 8 != 0) return false;
  const double flops = 2.0 * static_cast<double>(p.batch) * static_cast<double>(p.m) *
                       static_cast<double>(p.n) * static_cast<double>(p.k);
  if (p.batch > 1) return p.k <= kLargestHead && flops >= kLargeBatch;
  if (std::min(p.m, p.n) < kFewestRows || flops < kLargeProduct) return false;
  if (type == ElementType::kF32 || type == ElementType::kTF32) return true;
  const double tiles = static_cast<double>(p.m) / 128 * (static_cast<double>(p.n) / 256);
  const double waves = tiles / std::max(1, device.compute_units);
  return waves <= kFullWave || waves > 1;
}

}  // namespace

LibraryCall library_call(const Kernel& kernel, const Device& device) {
  if (device.vendor != "NVIDIA") return {};
  if (std::holds_alternative<ConvolutionShape>(kernel.shape)) return {true, 0};
  const auto* product = std::get_if<ProductShape>(&kernel.shape);
  if (product != nullptr && product->groups > 1) {
    const double rows = static_cast<double>(kernel.tensors[0].bytes);
    const double expanded = std::min(rows * static_cast<double>(product->groups), kMostBytes);
    return {true, static_cast<int64_t>(expanded) + kCublasWorkspace};
  }
  if (product == nullptr || !is_cublas(*product, kernel.cost.matrix_type, device)) return {};
  return {true, kCublasWorkspace};
}

}  // namespace orrery
