#include "orrery/kernel/profile/kernel_place.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "orrery/learn/split.h"

namespace orrery {
namespace {

class PlaceBuilder {
 public:
  explicit PlaceBuilder(const Kernel& kernel) {
    category(kernel.family);
    category(kernel.code);
    category(kernel.shape.index());
    category(kernel.cost.matrix_type);
    category(kernel.cost.vector_type);
    if (kernel.tensor_count > 0) category(kernel.tensors[0].element);
    if (kernel.tensor_count > 1) category(kernel.tensors[kernel.tensor_count - 1].element);
    std::visit([&](const auto& shape) { add(kernel, shape); }, kernel.shape);
    place_.identity = place_.kind;
    for (size_t i = 0; i < place_.count; ++i) identify(sizes_[i]);
    for (double part :
         {kernel.cost.matrix_flops, kernel.cost.vector_flops, kernel.cost.transcendental_flops,
          kernel.cost.bytes_read, kernel.cost.bytes_written})
      identify(part);
  }
  const KernelPlace& place() const { return place_; }

 private:
  template <class Value>
  void category(Value value) {
    place_.kind = mix_bits(place_.kind ^ mix_bits(static_cast<uint64_t>(value) + 1));
  }
  void identify(double value) {
    place_.identity = mix_bits(place_.identity ^ mix_bits(std::bit_cast<uint64_t>(value) + 1));
  }
  void size(double value) {
    sizes_[place_.count] = value;
    place_.lg[place_.count++] = std::log2(static_cast<float>(std::max(value, 1e-6)));
  }
  void size(int64_t value) { size(static_cast<double>(value)); }

  void add(const Kernel& kernel, const std::monostate&) {
    // Operands broadcast or not, a fused epilogue or none: what is moved and computed per result.
    const Cost& c = kernel.cost;
    size(c.bytes_written);
    size(c.bytes_read);
    size(1 + c.flops());
  }
  void add(const Kernel&, const ProductShape& p) {
    category(p.weight);
    category(p.scale_block);
    category(p.groups > 1);
    size(p.m);
    size(p.n);
    size(p.k);
    if (p.groups > 1) {
      category(p.choices > 0);
      size(p.groups);
      size(std::exp2(static_cast<double>(p.skew)));
      if (p.choices > 0) {
        size(int64_t{p.choices});
        size(int64_t{p.ranks});
      }
    } else {
      category(p.batch > 1);
      size(p.batch);
    }
  }
  void add(const Kernel&, const ConvolutionShape& c) {
    category(c.window_height);
    category(c.window_width);
    category(c.stride);
    category(c.channels_last);
    category(c.groups == 1 ? 0 : c.groups == c.channels ? 1 : 2);
    size(c.batch);
    size(c.channels);
    size(c.features);
    size(c.out_height);
    size(c.out_width);
    if (c.groups > 1 && c.groups != c.channels) size(c.groups);
  }
  void add(const Kernel&, const AttentionShape& a) {
    category(a.head);
    category(a.value_head);
    category(a.causal);
    category(a.paged);
    category(a.kv);
    category(a.window > 0 && a.window < a.keys);
    size(a.batch);
    size(a.heads);
    size(a.kv_heads);
    size(a.queries);
    size(a.keys);
    if (a.window > 0 && a.window < a.keys) size(a.window);
  }
  void add(const Kernel&, const RowShape& r) {
    category(r.inner > 1);
    category(r.compares);
    size(r.rows);
    size(r.columns);
    size(r.inner);
  }
  void add(const Kernel&, const MoveShape& m) {
    category(m.read_run > 1);
    size(m.elements);
    size(m.read_run);
    size(m.write_run);
  }
  void add(const Kernel& kernel, const FusionShape& f) {
    category(f.does);
    category(f.columns > 1);
    category(f.run > 0);
    size(f.elements);
    size(f.columns);
    size(f.inner);
    size(kernel.cost.bytes_read);
    size(kernel.cost.bytes_written);
  }
  void add(const Kernel&, const LookupShape& l) {
    category(l.accumulate);
    size(l.count);
    size(l.width);
    size(l.table_rows);
  }

  KernelPlace place_;
  std::array<double, KernelPlace::kMostCoordinates> sizes_{};
};

}  // namespace

KernelPlace place_of(const Kernel& kernel) { return PlaceBuilder(kernel).place(); }

}  // namespace orrery
