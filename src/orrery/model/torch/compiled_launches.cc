#include "orrery/model/torch/compiled_launches.h"

#include <fmt/format.h>

#include "orrery/kernel/operator_kernel.h"
#include "orrery/model/torch/foreach.h"
#include "orrery/model/torch/pattern_launches.h"
#include "orrery/model/torch/torch_kernels.h"

namespace orrery {
namespace {

namespace kernels = torch_kernels;
using enum Opcode;

/// Clocks that an SM takes for an element of a copy between orders of dimensions, from the profile
/// of BERT large (6 us for 4.2 M elements on an H200), and of a batch norm's loops, from that of
/// ResNet-50's training.
constexpr double kIndexedClocks = 0.25, kBatchNormClocks = 0.2;

class CompiledLaunches final : public PatternLaunches {
 public:
  explicit CompiledLaunches(const Workload& w)
      : PatternLaunches(w), hugging_face_(w.library() == "transformers") {
    for (uint32_t f = 0; f < w.functions().size(); ++f) {
      if (!w.functions()[f].body.valid()) continue;
      if (!is_optimizer(w, w.functions()[f])) {
        function(FunctionId{f});
        continue;
      }
      for (const OpView& op : operations(FunctionId{f}))
        if (op_class(op.code()) != OpClass::kControl) absorb(op.id());
    }
    const TrainedParameters trained = trained_parameters(w);
    if (!trained.updated) return;
    const OpId last = operations(w.entry()).back().id();
    for (const Kernel& kernel : optimizer_kernels(trained.tensors, trained.adam, false))
      add_at_the_end(last, kernel);
  }

 private:
  void function(FunctionId id) {
    const std::vector<OpView> ops = operations(id);
    for (const OpView& op : ops) {
      switch (op.code()) {
        case k_dot_general:
          if (absorb_bias(op)) add(op.id(), kernel_of(w_, op.id()));
          break;
        case k_attention:
          if (hugging_face_) attention(op);
          break;
        case k_batch_norm_training:
          batch_norm(op, 1);
          break;
        case k_batch_norm_grad:
          batch_norm(op, 2);
          break;
        default:
          break;
      }
    }
    join_sums_with_norms(id, ops);
    drop_numbers(ops);
  }

  /// Elements are read, converted or repeated, and written one by one.
  void copy(OpId at, ElementType from, int64_t read, ElementType to, int64_t written) {
    add(at, kernels::loop(k_copy, KernelFamily::kDataMovement, to, written, bytes(from, read),
                          bytes(to, written), kIndexedClocks));
  }
  static double bytes(ElementType type, int64_t elements) {
    return static_cast<double>(elements) * bit_width(type) / 8;
  }

  void attention(const OpView& op) {
    const Kernel described = kernel_of(w_, op.id());
    const auto* shape = std::get_if<AttentionShape>(&described.shape);
    if (shape == nullptr) return;
    const AttentionShape& a = *shape;
    const ElementType element = op.operand_type(0).element;
    const int64_t keys = a.batch * a.kv_heads * a.keys * a.head;
    // Parts of one projection are read where they lie.
    for (uint32_t i = 0; i < 3; ++i)
      if (const auto part = maker(origin(op.operand(i))); part && part->code() == k_slice)
        absorb(part->id());
    bool cached = false;
    for (uint32_t i = 1; i < 3; ++i) {
      const auto update = maker(origin(op.operand(i)));
      if (!update || update->code() != k_dynamic_update_slice) continue;
      cached = true;
      absorb(update->id());
      copy(op.id(), element, keys, element, keys);
    }
    if (!a.causal && !cached) return written_out(op.id(), a, element);
    for (int i = 0; i < 2 && a.kv_heads != a.heads; ++i)
      copy(op.id(), element, keys, element, keys / a.kv_heads * a.heads);
    Kernel kernel =
        operator_kernel("sdpa",
                        element == ElementType::kF32   ? "fp32"
                        : element == ElementType::kF16 ? "fp16"
                                                       : "bf16",
                        fmt::format(R"({{"b":{},"h":{},"s":{},"t":{},"d":{},"dv":{}}})", a.batch,
                                    a.heads, a.queries, a.keys, a.head, a.value_head));
    kernel.cost.bytes_read += bytes(element, a.batch * a.queries * a.keys);  // the mask
    add(op.id(), kernel);
  }

  /// Queries, keys and values in single precision, their product, softmax, the product with the
  /// values and the result's conversion back.
  void written_out(OpId at, const AttentionShape& a, ElementType element) {
    constexpr ElementType kWide = ElementType::kF32;
    const int64_t heads = a.batch * a.heads;
    const int64_t queries = heads * a.queries * a.head, keys = heads * a.keys * a.head;
    copy(at, element, queries, kWide, queries);
    copy(at, element, keys, kWide, keys);
    add(at, kernels::product(kWide, heads, a.queries, a.keys, a.head));
    add(at, kernels::over_rows(k_softmax, kWide, heads * a.queries, a.keys));
    copy(at, element, keys, kWide, keys);
    add(at, kernels::product(kWide, heads, a.queries, a.value_head, a.keys));
    copy(at, kWide, queries, element, queries);
  }

  /// Sums over all but the channels in two steps, then a loop; `tensors` are read by each.
  void batch_norm(const OpView& op, int tensors) {
    const Type& x = op.operand_type(0);
    if (x.elements <= 0) return;
    const double read = tensors * static_cast<double>(x.bytes);
    const double beside = absorb_activation(op) ? static_cast<double>(x.bytes) : 0;
    add(op.id(), kernels::loop(k_reduce, KernelFamily::kReduction, x.element, x.elements, read, 0,
                               kBatchNormClocks));
    constexpr int64_t kPartsOfSum = 256;
    add(op.id(),
        kernels::reduction(ElementType::kF32, op.operand_type(1).elements, kPartsOfSum, 1));
    add(op.id(), kernels::loop(op.code(), KernelFamily::kElementwise, x.element, x.elements,
                               read + beside, static_cast<double>(x.bytes), kBatchNormClocks));
  }

  /// A ReLU behind a batch norm, or a sum and a ReLU, run in its loop. Whether there is a sum.
  bool absorb_activation(const OpView& norm) {
    bool sums = false;
    ValueId v = norm.result(0);
    while (users(v).size() == 1) {
      const OpView next = w_.view(users(v).front());
      const bool sum =
          next.code() == k_add && next.operand(0) == v && !is_parameter(next.operand(1));
      if (next.code() != k_relu && !sum) break;
      absorb(next.id());
      sums |= sum;
      v = next.result(0);
      if (next.code() == k_relu) break;
    }
    return sums;
  }

  bool hugging_face_;
};

}  // namespace

std::unique_ptr<LibraryLaunches> compiled_launches(const Workload& workload) {
  return std::make_unique<CompiledLaunches>(workload);
}

}  // namespace orrery
