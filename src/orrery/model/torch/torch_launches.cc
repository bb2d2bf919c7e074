#include "orrery/model/torch/torch_launches.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "orrery/kernel/describe.h"
#include "orrery/model/torch/foreach.h"
#include "orrery/model/torch/torch_kernels.h"

namespace orrery {
namespace {

namespace kernels = torch_kernels;
using enum Opcode;

/// Clocks that an SM takes for an element in kernels that are bound by their instructions, from
/// profiles of models other than the validated ones (tools/measure/torch_models.py on an H200);
/// "prior": by the instructions of the source, where none of those models runs the kernel.
namespace clocks {
constexpr double kBatchNormTransform = 0.44;
constexpr double kBatchNormStatistics = 0.44;    // prior: a tensor less, a division more
constexpr double kBatchNormGradientSums = 0.44;  // prior: as many tensors as the transform
constexpr double kBatchNormGradient = 0.66;      // prior: one more
constexpr double kLayerNormGradient = 0.74;
constexpr double kLayerNormParameterSums = 1.05;
constexpr double kDropout = 0.69;
constexpr double kConcatenation = 1.22;
constexpr double kSoftmaxGradient = 0.55;
constexpr double kMaxPoolWindow = 0.49;  // of each element of a window
constexpr double kAttentionGradientDot = 0.64;
constexpr double kAttentionGradientConversion = 0.57;
constexpr double kEmbeddingGradient = 3.6;
}  // namespace clocks

/// Of a kernel's time as measured alone, on operands from memory: what its neighbours hide in a
/// program. Vectorised loops are this much shorter in profiles (small additions 1.09 us of
/// 1.70 us), and find their largest operand in L2, which the kernel before has written: reading
/// it takes the share of the time that memory would (a ReLU of 26 MB 10.3 us of 13.3 us), for
/// special functions less of a saving. Of operands larger than L2 a part is left there.
constexpr Seconds kHiddenOfOwn(0.55e-6);
constexpr double kShareOfL2Read = 0.55, kSavedOfSpecial = 0.2;
constexpr double kMostKept = 0.5, kLeftOfLarger = 0.28;  // of L2
/// cuDNN's attention is the faster one in a program, by its memset and more: 4.6 us of 6.3 us.
constexpr Seconds kHiddenOfAttention(1.5e-6);
/// The smallest batch norms take 3.1 us, more than other loops.
constexpr Seconds kLongerBatchNorm(-1.1e-6);
/// A kernel that belongs to another launch's time: libraries were measured with theirs.
constexpr Seconds kWholly(1);

/// How much longer products take whose rows begin at odd elements, or at even ones that are no
/// multiple of eight, than those of the next multiple of eight: cuBLAS has only kernels of older
/// GPUs for them. Of the forward product, what GPT-2's kernels take in all (gpt2_b8_s1024_infer of
/// data/measured/h200_torch_models.csv) beyond the others as predicted; of gradients, and of even
/// vocabularies, profiles of GPT-2 medium and BERT.
constexpr double kOddRows = 7.2, kOddRowsOfGradients = 4.9, kEvenRows = 3.4;
/// Of that, what those older GPUs lose themselves, whose other kernels use the same instructions:
/// these reach so much of Hopper's matrix rate (Luo et al.: "Benchmarking and dissecting the Nvidia
/// Hopper GPU architecture through microbenchmarking", arXiv:2402.13499).
constexpr double kShareOfOlderKernels = 0.62;
constexpr std::array kOlderArchitectures = {"pascal", "volta", "turing", "ampere", "ada"};
/// cuDNN's attention with dropout over that without (GPT-2 medium 1.9, BERT 1.3), and its gradient
/// over the forward pass (GPT-2 medium 2.8, BERT 1.9, Llama 2.2, ViT 2.4).
constexpr double kAttentionWithDropout = 1.6, kAttentionGradient = 2.3;

/// More tiles than two waves are handed out by a counter, which is set to zero first (a memset
/// in profiles of cuBLAS on Hopper).
constexpr int64_t kTileRows = 256, kTileColumns = 128, kWavesWithoutCounter = 2;
/// Products of few tiles and a long sum are cut along it and put together by another kernel.
constexpr int64_t kSplitTile = 64, kFewestSplitTerms = 2048;
constexpr int64_t kSplitFilterTiles = 32;
/// Embedding gradients of more look-ups than this sort them first
/// (ATen/native/cuda/Embedding.cu), in so many launches (CUB's radix sort and scans).
constexpr int64_t kMostUnsortedLookups = 3072;
constexpr int kLaunchesOfSort = 15;

int64_t up(int64_t n, int64_t d) { return (n + d - 1) / d; }

struct ModuleName {
  std::string_view kind;  ///< "rotary"
  bool gradient = false;
};

ModuleName module_name(std::string_view text) {
  constexpr std::string_view kGradient = "gradient/";
  ModuleName name;
  name.gradient = text.starts_with(kGradient);
  if (name.gradient) text.remove_prefix(kGradient.size());
  name.kind = text.substr(0, text.find('#'));
  return name;
}

class TorchLaunches final : public LibraryLaunches {
 public:
  TorchLaunches(const Workload& w, const Device& device, const TorchTraining& training)
      : w_(w),
        device_(device),
        hugging_face_(w.library() == "transformers"),
        hopper_(device.architecture == "hopper"),
        older_(std::ranges::find(kOlderArchitectures, device.architecture) !=
               kOlderArchitectures.end()),
        issue_scale_(issue_scale(device)) {
    for (const Op& op : w.ops())
      for (const ValueId v : w.operands(op)) ++uses_[v.index];
    for (uint32_t i = 0; i < w.ops().size(); ++i)
      if (module_of(OpId{i}).starts_with("dropout")) drops_ = true;
    for (const Function& f : w.functions())
      if (f.body.valid() && !is_optimizer(w, f)) region(f.body);
    const Function& entry = w.function(w.entry());
    const TrainedParameters trained = trained_parameters(w);
    bool gradients = trained.updated;
    for (const ResultInfo& result : entry.results)
      gradients |= w.string(result.name).starts_with("gradient.");
    if (hugging_face_) small_beginning();
    if (gradients && training.kept_gradients) accumulate(trained.tensors);
    if (trained.updated) step(trained.tensors, training, trained.adam);
  }

  std::span<const Launch> of(OpId op) const override {
    const auto found = launches_.find(op.index);
    return found == launches_.end() ? std::span<const Launch>() : found->second;
  }
  std::span<const Launch> at_the_end() const override { return at_the_end_; }

 private:
  // --- bookkeeping ------------------------------------------------------------------

  std::string_view module_of(OpId id) const { return w_.view(id).string(Attr::kModule); }

  void add(OpId op, const Kernel& kernel) { add(op, kernel, hidden_of(kernel), 1); }

  /// Clocks were counted on SMs that issue to 128 lanes of one kind. Those of 64 lanes for
  /// floating-point numbers and as many for integers beside them issue as much of a mixture.
  static double issue_scale(const Device& device) {
    const bool both = device.architecture == "volta" || device.architecture == "turing" ||
                      device.architecture == "ampere";
    const double per_clock = device.vector[ElementType::kF32].value /
                             std::max(1.0, device.clock.value * device.compute_units);
    constexpr double kOf128Lanes = 256;
    return both && per_clock > 0 ? std::min(1.0, per_clock / kOf128Lanes) : 1;
  }
  Kernel on_device(Kernel kernel) const {
    if (std::holds_alternative<std::monostate>(kernel.shape) &&
        kernel.family != KernelFamily::kElementwise) {
      Cost& cost = kernel.cost;
      const double work = cost.vector_flops - cost.index_flops;
      cost.vector_flops *= issue_scale_;
      cost.index_flops = std::max(0.0, cost.vector_flops - work);
    }
    return kernel;
  }

  Seconds hidden_of(const Kernel& kernel) const {
    const bool loop = kernel.family == KernelFamily::kElementwise;
    if (!loop && kernel.family != KernelFamily::kReduction) return Seconds();
    const MemoryLevel* l2 = device_.level("l2");
    const double bandwidth = device_.main_memory().bandwidth.value;
    if (l2 == nullptr || bandwidth <= 0) return kHiddenOfOwn;
    int64_t read = 0;
    for (size_t i = 0; i < kernel.tensor_count; ++i)
      if (!kernel.tensors[i].written) read = std::max(read, kernel.tensors[i].bytes);
    const double l2_bytes = l2->capacity.value;
    const auto bytes = static_cast<double>(read);
    const double kept =
        bytes < l2_bytes ? std::min(bytes, kMostKept * l2_bytes) : kLeftOfLarger * l2_bytes;
    const double saved = (1 - kShareOfL2Read) * kept / bandwidth *
                         (kernel.cost.transcendental_flops > 0 ? kSavedOfSpecial : 1);
    return kHiddenOfOwn + Seconds(saved);
  }
  void add(OpId op, const Kernel& kernel, Seconds hidden, double times = 1) {
    Launch launch;
    launch.kernel = on_device(kernel);
    launch.op = op;
    launch.hidden = hidden;
    launch.times = times;
    launches_[op.index].push_back(launch);
  }
  void add_counter(OpId op) { add(op, kernels::fill(ElementType::kU8, 256), kWholly); }

  TensorLayout& layout(ValueId v) {
    const auto found = layouts_.find(v.index);
    if (found != layouts_.end()) return found->second;
    return layouts_.emplace(v.index, TensorLayout::of(w_.type(v))).first->second;
  }
  TorchTensor tensor(ValueId v) { return {w_.type(v).element, layout(v)}; }
  static TorchTensor contiguous(const Type& t) {
    return {t.element, TensorLayout::contiguous(t.dims)};
  }
  void set_contiguous(ValueId v) { layouts_[v.index] = TensorLayout::contiguous(w_.type(v).dims); }

  /// A number that is passed to a kernel as an argument: a constant, repeated or not.
  bool is_scalar(ValueId v) const {
    if (w_.type(v).elements == 1 && w_.type(v).kind == Type::Kind::kTensor) return true;
    const OpId definition = w_.value(v).definition;
    if (!definition.valid()) return false;
    const OpView op = w_.view(definition);
    if (op.code() == k_constant) return w_.type(v).elements == 1 || op.has(Attr::kRealValue);
    return (op.code() == k_broadcast_in_dim || op.code() == k_broadcast || op.code() == k_reshape ||
            op.code() == k_convert) &&
           op.operand_count() > 0 && is_scalar(op.operand(0));
  }

  void copy_if_needed(OpId at, ValueId v) {
    const TorchTensor from = tensor(v);
    if (from.layout.is_contiguous()) return;
    const TorchTensor to{from.element, TensorLayout::contiguous(from.layout.dims)};
    add(at, kernels::elementwise(k_copy, {&from, 1}, to));
    layout(v) = to.layout;
  }

  // --- one operation ----------------------------------------------------------------

  void region(RegionId id) {
    std::map<std::string_view, std::vector<OpId>> modules;
    for_each_op(w_, w_.region(id), [&](OpId op) {
      if (const std::string_view m = module_of(op); !m.empty()) modules[m].push_back(op);
    });
    for_each_op(w_, w_.region(id), [&](OpId op) {
      const OpView view = w_.view(op);
      if (op_class(view.code()) == OpClass::kControl) {
        for (const RegionId r : view.raw_regions()) region(r);
        return;
      }
      if (absorbed_.contains(op.index)) return;
      if (const std::string_view m = module_of(op); !m.empty()) {
        const std::vector<OpId>& parts = modules[m];
        if (parts.front() == op && as_module(module_name(m), parts)) {
          for (const OpId part : parts) absorbed_.insert(part.index);
          return;
        }
      }
      operation(view);
    });
  }

  void operation(const OpView& op) {
    if (view(op)) return;
    switch (op_class(op.code())) {
      case OpClass::kVector:
      case OpClass::kTranscendental:
        return elementwise(op);
      case OpClass::kGenerate:
        if (op.result_count() == 1)
          add(op.id(), kernels::fill(op.result_type(0).element, op.result_type(0).elements));
        return;
      default:
        break;
    }
    switch (op.code()) {
      case k_dot_general:
        return product(op);
      case k_convolution:
        return convolution(op);
      case k_attention:
      case k_attention_backward:
        return attention(op);
      case k_concatenate:
        return concatenate(op);
      case k_pad:
        add(op.id(), kernels::fill(op.result_type(0).element, op.result_type(0).elements));
        add(op.id(), move(op.operand(0)));
        return;
      case k_copy:
        add(op.id(), move(op.operand(0)));
        return;
      case k_reduce:
        return reduce(op);
      case k_rms_norm:
        return rms_norm(op);
      case k_layer_norm:
      case k_group_norm:
      case k_softmax:
        copy_if_needed(op.id(), op.operand(0));
        return as_described(op);
      case k_normalization_backward:
        return norm_gradient(op);
      case k_batch_norm_inference:
      case k_batch_norm_training:
      case k_batch_norm_grad:
        return batch_norm(op);
      case k_reduce_window:
      case k_select_and_scatter:
        return pool(op);
      case k_scatter:
        return scatter(op);
      case k_dynamic_update_slice:
        return update(op);
      case k_reverse:
        if (module_name(module_of(op.id())).kind == "convolution") return;  // part of its gradient
        return as_described(op);
      default:
        return as_described(op);
    }
  }

  void as_described(const OpView& op) {
    Kernel kernel = kernel_of(w_, op.id());
    if (kernel.cost.bytes() == 0 && kernel.cost.flops() == 0) return;
    add(op.id(), kernel);
  }

  /// Whether the operation only names what is there; a reshape may have to copy it first.
  bool view(const OpView& op) {
    if (op.operand_count() == 0) return op_class(op.code()) == OpClass::kConstant;
    const ValueId from = op.operand(0);
    switch (op.code()) {
      case k_reshape:
      case k_dynamic_reshape: {
        if (auto viewed = layout(from).viewed_as(op.result_type(0).dims)) {
          layouts_[op.result(0).index] = *std::move(viewed);
        } else {
          if (!is_scalar(from)) add(op.id(), move(from));
          set_contiguous(op.result(0));
        }
        return true;
      }
      case k_transpose:
        layouts_[op.result(0).index] = layout(from).permuted(op.integers(Attr::kDimensions));
        return true;
      case k_bitcast: {
        const auto order = op.integers(Attr::kDimensions);
        if (static_cast<int>(order.size()) == op.operand_type(0).rank())
          layouts_[op.result(0).index] = layout(from).permuted(order);
        return true;
      }
      case k_broadcast_in_dim:
      case k_broadcast: {
        const Type& type = op.result_type(0);
        TensorLayout repeated{type.dims, std::vector<int64_t>(type.dims.size(), 0)};
        const auto map = op.integers(Attr::kDimensions);
        const TensorLayout& source = layout(from);
        for (size_t i = 0; i < map.size() && i < source.dims.size(); ++i) {
          const auto d = static_cast<size_t>(map[i]);
          if (d < repeated.dims.size() && source.dims[i] == repeated.dims[d])
            repeated.strides[d] = source.strides[i];
        }
        layouts_[op.result(0).index] = std::move(repeated);
        return true;
      }
      case k_slice: {
        if (module_name(module_of(op.id())).kind == "positions") return false;
        TensorLayout part = layout(from);
        part.dims = op.result_type(0).dims;
        const auto steps = op.integers(Attr::kStride);
        for (size_t d = 0; d < steps.size() && d < part.strides.size(); ++d)
          part.strides[d] *= steps[d];
        layouts_[op.result(0).index] = std::move(part);
        return true;
      }
      case k_convert:
        if (op.operand_type(0).element != op.result_type(0).element) return false;
        layouts_[op.result(0).index] = layout(from);
        return true;
      default:
        return op_class(op.code()) == OpClass::kView;
    }
  }

  Kernel move(ValueId v) {
    const TorchTensor from = tensor(v);
    return kernels::elementwise(k_copy, {&from, 1},
                                {from.element, TensorLayout::contiguous(from.layout.dims)});
  }

  void elementwise(const OpView& op) {
    const Type& type = op.result_type(0);
    if (type.elements == 0) return;
    std::vector<TorchTensor> inputs;
    const TensorLayout* leads = nullptr;
    for (uint32_t i = 0; i < op.operand_count(); ++i) {
      if (is_scalar(op.operand(i))) continue;
      inputs.push_back(tensor(op.operand(i)));
    }
    for (const TorchTensor& input : inputs)
      if (leads == nullptr && input.layout.stored() == input.elements()) leads = &input.layout;
    TorchTensor output = contiguous(type);
    if (leads != nullptr && leads->dims == type.dims) output.layout = leads->made_dense();
    if (inputs.empty()) {
      if (type.elements > 1) add(op.id(), kernels::fill(type.element, type.elements));
      return;
    }
    add(op.id(), kernels::elementwise(op.code(), inputs, output));
    layouts_[op.result(0).index] = output.layout;
  }

  // --- products -------------------------------------------------------------------------

  /// The addition of a bias that cuBLAS does on the way; it launches nothing.
  void absorb_bias(const OpView& dot) {
    const ValueId result = dot.result(0);
    if (uses_[result.index] != 1 || w_.type(result).dims.empty()) return;
    // Users stand behind their operands: within a few operations, behind the bias's broadcast.
    for (uint32_t i = dot.id().index + 1, seen = 0; i < w_.ops().size() && seen < 6; ++i, ++seen) {
      const OpView user = w_.view(OpId{i});
      if (user.code() != k_add || user.operand_count() != 2) continue;
      for (uint32_t side = 0; side < 2; ++side) {
        if (user.operand(side) != result) continue;
        const ValueId other = user.operand(1 - side);
        const OpId broadcast = w_.value(other).definition;
        if (broadcast.valid() && w_.view(broadcast).code() == k_broadcast_in_dim &&
            w_.view(broadcast).operand_type(0).elements == w_.type(result).dims.back()) {
          absorbed_.insert(i);
          set_contiguous(user.result(0));
        }
        return;
      }
    }
  }

  double unaligned(ElementType type, std::initializer_list<int64_t> row_lengths,
                   bool gradient) const {
    if (bit_width(type) != 16) return 1;
    double times = 1;
    for (const int64_t n : row_lengths) {
      if (n % 2 != 0) times = std::max(times, gradient ? kOddRowsOfGradients : kOddRows);
      if (n % 8 != 0) times = std::max(times, kEvenRows);
    }
    if (older_) times = std::max(1.0, times * kShareOfOlderKernels);
    return times;
  }

  void add_product(OpId op, const Kernel& kernel, double times) {
    const auto* p = std::get_if<ProductShape>(&kernel.shape);
    if (p != nullptr && p->batch == 1 && hopper_ && bit_width(kernel.cost.matrix_type) == 16) {
      const int64_t tiles = up(p->m, kTileRows) * up(p->n, kTileColumns);
      const int64_t small_tiles = up(p->m, kSplitTile) * up(p->n, kSplitTile);
      if (times == 1 && tiles > kWavesWithoutCounter * device_.compute_units) add_counter(op);
      if (times == 1 && 2 * small_tiles < device_.compute_units && p->k >= kFewestSplitTerms)
        add_counter(op);
    }
    add(op, kernel, Seconds(), times);
  }

  void product(const OpView& op) {
    const bool batched = !op.integers(Attr::kLhsBatching).empty();
    const ModuleName module = module_name(module_of(op.id()));
    if (batched) {
      copy_for_batches(op.id(), op.operand(0), op.integers(Attr::kLhsBatching));
      copy_for_batches(op.id(), op.operand(1), op.integers(Attr::kRhsBatching));
    }
    const Kernel kernel = kernel_of(w_, op.id());
    const auto* p = std::get_if<ProductShape>(&kernel.shape);
    double times = 1;
    if (p != nullptr && !batched) {
      // Rows of both operands and of the result; in gradients one operand lies transposed.
      times = module.gradient ? unaligned(kernel.cost.matrix_type, {p->m, p->n, p->k}, true)
                              : unaligned(kernel.cost.matrix_type, {p->n, p->k}, false);
      // Numbers of tokens or images are not what rows are as long as.
      if (module.gradient && times > 1 && p->n % 8 == 0 && p->k % 8 == 0 && !is_weight_side(op, *p))
        times = 1;
    }
    add_product(op.id(), kernel, times);
    if (!batched && !module.gradient) absorb_bias(op);
    set_contiguous(op.result(0));
  }

  /// Of a gradient's product: whether its rows m are those of a weight, so that an operand
  /// lies with m along its rows.
  bool is_weight_side(const OpView& op, const ProductShape& p) const {
    return op.result_type(0).rank() == 2 && op.result_type(0).dims[0] == p.m &&
           op.operand_type(0).rank() > 1 && !op.integers(Attr::kLhsContracting).empty() &&
           op.integers(Attr::kLhsContracting)[0] == 0;
  }

  /// A batched product takes one stride from matrix to matrix, and rows or columns side by side.
  void copy_for_batches(OpId at, ValueId v, std::span<const int64_t> batching) {
    const TensorLayout& l = layout(v);
    TensorLayout batches;
    bool rows = false;
    for (size_t d = 0; d < l.dims.size(); ++d) {
      if (std::ranges::find(batching, static_cast<int64_t>(d)) != batching.end()) {
        batches.dims.push_back(l.dims[d]);
        batches.strides.push_back(l.strides[d]);
      } else {
        rows |= l.strides[d] == 1 || l.dims[d] == 1;
      }
    }
    int64_t count = 1;
    for (const int64_t d : batches.dims) count *= d;
    if (rows && batches.viewed_as({&count, 1})) return;
    copy_if_needed(at, v);
  }

  void convolution(const OpView& op) {
    Kernel kernel = kernel_of(w_, op.id());
    const auto* c = std::get_if<ConvolutionShape>(&kernel.shape);
    const bool filter = c != nullptr && c->computes == ConvolutionShape::Computes::kFilterGradient;
    if (c != nullptr) {
      // Channels are padded to a multiple of eight, those of the input and of the filter.
      if (c->channels % 8 != 0 && c->groups == 1 && c->batch > 1) {
        add_counter(op.id());
        add_counter(op.id());
      }
      constexpr int64_t kTile = int64_t{128} * 128;
      const int64_t outputs = joined(joined(c->channels / c->groups, c->features),
                                     joined(c->window_height, c->window_width));
      const int64_t tiles = outputs / kTile + 1;
      if (filter && tiles <= kSplitFilterTiles) add_counter(op.id());
    }
    add(op.id(), kernel, Seconds());
    layouts_[op.result(0).index] = TensorLayout::of(op.result_type(0));
  }

  void attention(const OpView& op) {
    Kernel kernel = kernel_of(w_, op.id());
    const auto* a = std::get_if<AttentionShape>(&kernel.shape);
    if (a == nullptr) return as_described(op);
    const bool gradient = op.code() == k_attention_backward;
    const ValueId query = op.operand(gradient ? 1 : 0);
    const Type& q = w_.type(query);
    const double bytes = static_cast<double>(q.bytes);
    if (drops_ && !gradient) add_counter(op.id());
    add_counter(op.id());
    if (gradient) {
      kernel.code = k_attention;
      add(op.id(), kernels::loop(k_attention_backward, KernelFamily::kReduction, q.element,
                                 q.elements, 2 * bytes, bytes / static_cast<double>(a->head),
                                 clocks::kAttentionGradientDot));
      add(op.id(), kernel, Seconds(), kAttentionGradient);
      add(op.id(),
          kernels::loop(k_attention_backward, KernelFamily::kDataMovement, q.element, q.elements,
                        2 * bytes, bytes, clocks::kAttentionGradientConversion));
      // Heads that share keys add up what each gives.
      for (int i = 0; i < 2 && a->kv_heads < a->heads; ++i)
        add(op.id(), kernels::reduction(q.element, q.elements * a->kv_heads / a->heads,
                                        a->heads / a->kv_heads, a->head));
    } else {
      add(op.id(), kernel, kHiddenOfAttention, drops_ ? kAttentionWithDropout : 1);
    }
    // Results lie as the queries do.
    for (uint32_t i = 0; i < op.result_count(); ++i)
      if (op.result_type(i).dims == q.dims)
        layouts_[op.result(i).index] = layout(query).made_dense();
  }

  // --- moves, rows, look-ups ----------------------------------------------------------------

  void add_concatenation(OpId at, const TorchTensor& output, bool aligned) {
    const auto bytes = output.bytes();
    const auto n = output.elements();
    if (aligned) {
      const TorchTensor flat{output.element, TensorLayout::contiguous(output.layout.dims)};
      Kernel kernel = kernels::elementwise(k_copy, {&flat, 1}, flat);
      kernel.code = k_concatenate;
      add(at, kernel);
      return;
    }
    add(at, kernels::loop(k_concatenate, KernelFamily::kDataMovement, output.element, n, bytes,
                          bytes, clocks::kConcatenation));
  }

  void concatenate(const OpView& op) {
    const Type& type = op.result_type(0);
    bool aligned = true;
    for (uint32_t i = 0; i < op.operand_count(); ++i)
      aligned &= layout(op.operand(i)).is_contiguous() &&
                 op.operand_type(i).dims.back() * bit_width(type.element) % 128 == 0;
    add_concatenation(op.id(), contiguous(type), aligned);
    set_contiguous(op.result(0));
  }

  void reduce(const OpView& op) {
    Kernel kernel = kernel_of(w_, op.id());
    if (const auto* rows = std::get_if<RowShape>(&kernel.shape))
      if (rows->inner > 1 && rows->columns >= 1024) add_counter(op.id());
    add(op.id(), kernel);
    set_contiguous(op.result(0));
  }

  /// Hugging Face's modules write it out in single precision.
  void rms_norm(const OpView& op) {
    copy_if_needed(op.id(), op.operand(0));
    if (!hugging_face_) return as_described(op);
    const Type& x = op.operand_type(0);
    const int64_t columns = std::max<int64_t>(1, x.dims.empty() ? 1 : x.dims.back());
    const int64_t rows = x.elements / columns;
    const std::array<int64_t, 2> dims = {rows, columns};
    const TorchTensor narrow{x.element, TensorLayout::contiguous(dims)};
    const TorchTensor wide{ElementType::kF32, narrow.layout};
    const TorchTensor row{ElementType::kF32, {{rows, columns}, {1, 0}}};
    const TorchTensor weight{x.element, {{rows, columns}, {0, 1}}};
    const bool converts = x.element != ElementType::kF32;
    if (converts) unary(op.id(), k_convert, narrow, wide);
    unary(op.id(), k_square, wide, wide);
    add(op.id(), kernels::reduction(ElementType::kF32, rows, columns, 1));
    small(op.id(), ElementType::kF32, rows, 2);
    binary(op.id(), k_multiply, wide, row, wide);
    if (converts) unary(op.id(), k_convert, wide, narrow);
    if (op.operand_count() > 1) binary(op.id(), k_multiply, weight, narrow, narrow);
  }

  void unary(OpId at, Opcode code, const TorchTensor& in, const TorchTensor& out) {
    add(at, kernels::elementwise(code, {&in, 1}, out));
  }
  void binary(OpId at, Opcode code, const TorchTensor& a, const TorchTensor& b,
              const TorchTensor& out) {
    const std::array inputs = {a, b};
    add(at, kernels::elementwise(code, inputs, out));
  }
  /// `count` kernels over a few numbers.
  void small(OpId at, ElementType element, int64_t elements, int count) {
    const TorchTensor t{element, TensorLayout::contiguous({&elements, 1})};
    for (int i = 0; i < count; ++i) unary(at, k_negate, t, t);
  }

  void norm_gradient(const OpView& op) {
    const ModuleName module = module_name(module_of(op.id()));
    const Type& x = op.operand_type(1);
    const int64_t columns = std::max<int64_t>(1, x.dims.empty() ? 1 : x.dims.back());
    const int64_t rows = x.elements / columns;
    const auto bytes = static_cast<double>(x.bytes);
    if (module.kind == "softmax") {
      add(op.id(), kernels::loop(k_softmax, KernelFamily::kNormalization, x.element, x.elements,
                                 2 * bytes, bytes, clocks::kSoftmaxGradient));
      return;
    }
    if (module.kind == "rms_norm" && hugging_face_) return rms_norm_gradient(op, rows, columns);
    add(op.id(), kernels::loop(op.code(), KernelFamily::kNormalization, x.element, x.elements,
                               2 * bytes, bytes, clocks::kLayerNormGradient));
    if (op.operand_count() > 2)
      add(op.id(), kernels::loop(op.code(), KernelFamily::kNormalization, x.element, x.elements,
                                 2 * bytes, 0, clocks::kLayerNormParameterSums));
  }

  void rms_norm_gradient(const OpView& op, int64_t rows, int64_t columns) {
    const Type& x = op.operand_type(1);
    const OpId at = op.id();
    const std::array<int64_t, 2> dims = {rows, columns};
    const TorchTensor narrow{x.element, TensorLayout::contiguous(dims)};
    const TorchTensor wide{ElementType::kF32, narrow.layout};
    const TorchTensor row{ElementType::kF32, {{rows, columns}, {1, 0}}};
    const TorchTensor weight{x.element, {{rows, columns}, {0, 1}}};
    const bool converts = x.element != ElementType::kF32;
    if (op.operand_count() > 2) {
      binary(at, k_multiply, narrow, weight, narrow);
      binary(at, k_multiply, narrow, narrow, narrow);
      add_counter(at);
      add(at, kernels::reduction(x.element, columns, rows, columns));
    }
    if (converts) unary(at, k_convert, narrow, wide);
    binary(at, k_multiply, wide, row, wide);
    binary(at, k_multiply, wide, wide, wide);
    add(at, kernels::reduction(ElementType::kF32, rows, columns, 1));
    small(at, ElementType::kF32, rows, 3);
    unary(at, k_divide, row, wide);     // of the mean
    unary(at, k_copy, wide, wide);      // x to the power of one
    unary(at, k_multiply, wide, wide);  // times two
    binary(at, k_multiply, wide, wide, wide);
    binary(at, k_add, wide, wide, wide);
    if (converts) unary(at, k_convert, wide, narrow);
  }

  void batch_norm(const OpView& op) {
    const bool gradient = op.code() == k_batch_norm_grad;
    const bool training = op.code() == k_batch_norm_training;
    const Type& x = op.operand_type(0);
    const int64_t channels = op.operand_type(1).elements;
    const auto bytes = static_cast<double>(x.bytes);
    const OpId at = op.id();
    const auto loop = [&](double read, double written, double clocks_of_element) {
      add(at,
          kernels::loop(op.code(), KernelFamily::kNormalization, x.element, x.elements, read,
                        written, clocks_of_element),
          kLongerBatchNorm);
    };
    if (gradient) {
      add_counter(at);
      loop(2 * bytes, 0, clocks::kBatchNormGradientSums);
      loop(2 * bytes, bytes, clocks::kBatchNormGradient);
      return;
    }
    if (training) {
      small(at, ElementType::kS64, 1, 1);  // batches seen
      add_counter(at);
      loop(bytes, 0, clocks::kBatchNormStatistics);
      small(at, ElementType::kF32, channels, 1);
    } else {
      const TorchTensor narrow{x.element, TensorLayout::contiguous({&channels, 1})};
      const TorchTensor wide{ElementType::kF32, narrow.layout};
      if (x.element != ElementType::kF32) unary(at, k_convert, narrow, wide);
      small(at, ElementType::kF32, channels, 1);
    }
    loop(bytes, bytes, clocks::kBatchNormTransform);
    layouts_[op.result(0).index] = layout(op.operand(0));
  }

  void pool(const OpView& op) {
    const bool gradient = op.code() == k_select_and_scatter;
    const Type& large = op.operand_type(0);
    const Type& small_one = gradient ? op.operand_type(1) : op.result_type(0);
    int64_t window = 1;
    for (const int64_t n : op.integers(Attr::kWindowSize)) window *= std::max<int64_t>(1, n);
    const double of_output = static_cast<double>(window) * clocks::kMaxPoolWindow;
    const auto indices = static_cast<double>(small_one.elements) * 8;
    if (gradient) {
      add(op.id(), kernels::fill(large.element, large.elements));
      add(op.id(), kernels::loop(op.code(), KernelFamily::kReduction, large.element, large.elements,
                                 static_cast<double>(small_one.bytes) + indices,
                                 static_cast<double>(large.bytes), of_output / 2));
      return;
    }
    add(op.id(), kernels::loop(op.code(), KernelFamily::kReduction, large.element,
                               small_one.elements, static_cast<double>(large.bytes),
                               static_cast<double>(small_one.bytes) + indices, of_output));
  }

  /// An embedding's gradient, or another scatter.
  void scatter(const OpView& op) {
    Kernel kernel = kernel_of(w_, op.id());
    const auto* l = std::get_if<LookupShape>(&kernel.shape);
    const Type& table = op.result_type(0);
    if (l == nullptr || module_name(module_of(op.id())).kind != "gather") return as_described(op);
    add(op.id(), kernels::fill(table.element, table.elements));
    add_lookup_gradient(op.id(), table.element, l->count, l->width);
  }

  void add_lookup_gradient(OpId at, ElementType element, int64_t count, int64_t width) {
    const int64_t n = joined(count, width);
    const double bytes = static_cast<double>(n) * bit_width(element) / 8;
    if (count > kMostUnsortedLookups) {
      small(at, ElementType::kS64, count, kLaunchesOfSort);
      for (int i = 0; i < 2; ++i)
        add(at, kernels::loop(k_scatter, KernelFamily::kIndexed, element, n, bytes, bytes,
                              clocks::kEmbeddingGradient / 2));
      return;
    }
    add(at, kernels::loop(k_scatter, KernelFamily::kIndexed, element, n, bytes, bytes,
                          clocks::kEmbeddingGradient));
  }

  /// Caches grow by being written anew with the new part behind them.
  void update(const OpView& op) {
    const Type& whole = op.result_type(0);
    if (!hugging_face_) return as_described(op);
    add_concatenation(op.id(), contiguous(whole), true);
    set_contiguous(op.result(0));
  }

  // --- layers of several operations -----------------------------------------------------------

  struct Boundary {
    std::vector<ValueId> inputs;   ///< Made elsewhere, in order of use.
    std::vector<ValueId> outputs;  ///< Used elsewhere, or returned.
  };
  Boundary boundary(const std::vector<OpId>& ops) const {
    Boundary b;
    std::unordered_map<uint32_t, uint32_t> uses_inside;
    std::unordered_map<uint32_t, bool> made;
    for (const OpId id : ops) {
      const OpView op = w_.view(id);
      for (uint32_t i = 0; i < op.operand_count(); ++i) {
        const ValueId v = op.operand(i);
        ++uses_inside[v.index];
        if (!made.contains(v.index) && !is_scalar(v) &&
            std::ranges::find(b.inputs, v) == b.inputs.end())
          b.inputs.push_back(v);
      }
      for (uint32_t i = 0; i < op.result_count(); ++i) made[op.result(i).index] = true;
    }
    for (const OpId id : ops) {
      const OpView op = w_.view(id);
      for (uint32_t i = 0; i < op.result_count(); ++i) {
        const ValueId v = op.result(i);
        const auto all = uses_.find(v.index);
        const uint32_t total = all == uses_.end() ? 0 : all->second;
        if (total > uses_inside[v.index]) b.outputs.push_back(v);
      }
    }
    return b;
  }

  /// Launches a layer's kernels at its last operation; false: operation by operation.
  bool as_module(const ModuleName& name, const std::vector<OpId>& ops) {
    const OpId at = ops.back();
    if (name.kind == "running_statistics") return true;  // done by the norm's own kernels
    const Boundary b = boundary(ops);
    if (b.outputs.empty()) return false;
    const ValueId out = b.outputs.back();
    const Type& type = w_.type(out);
    if (name.gradient) return gradient_module(name.kind, ops, b, at);
    if (name.kind == "mean") {
      for (const OpId id : ops)
        if (w_.view(id).code() == k_reduce) add(at, kernel_of(w_, id));
      set_contiguous(out);
      return true;
    }
    if (name.kind == "dropout") {
      const auto bytes = static_cast<double>(type.bytes);
      add(at, kernels::loop(k_rng, KernelFamily::kLibrary, type.element, type.elements, bytes,
                            bytes + static_cast<double>(type.elements), clocks::kDropout));
      set_contiguous(out);
      return true;
    }
    if (name.kind == "positions") {
      const OpView slice = w_.view(ops.back());
      const Type& rows = slice.result_type(0);
      add(at, kernels::lookup(rows.element, rows.dims[0], rows.dims[1],
                              slice.operand_type(0).dims[0], false));
      return true;
    }
    if (name.kind == "cross_entropy") return cross_entropy(b, at);
    if (!hugging_face_) return false;
    if (name.kind == "gelu_new") {
      const TorchTensor x = contiguous(type);
      for (const Opcode code : {k_square, k_multiply}) unary(at, code, x, x);
      binary(at, k_add, x, x, x);
      for (const Opcode code : {k_multiply, k_tanh, k_add, k_multiply}) unary(at, code, x, x);
      binary(at, k_multiply, x, x, x);
      set_contiguous(out);
      return true;
    }
    if (name.kind == "rotary_tables") return rotary_tables(b, at);
    if (name.kind == "rotary") return rotary(b, at);
    if (name.kind == "written_attention") return written_attention(b, at);
    return false;
  }

  /// By the operations of transformers' rotary embedding, and of its causal mask, which looks for
  /// packed sequences in the positions on the way.
  bool rotary_tables(const Boundary& b, OpId at) {
    const Type& table = w_.type(b.outputs.front());
    const int64_t positions = table.dims[0], half = table.dims.back();
    const std::array<int64_t, 2> whole = {positions, 2 * half};
    const TorchTensor wide{ElementType::kF32, TensorLayout::contiguous(whole)};
    const TorchTensor narrow{table.element, wide.layout};
    small(at, ElementType::kF32, positions, 1);
    add(at, kernels::product(ElementType::kF32, 1, half, positions, 1), Seconds());
    add_concatenation(at, wide, false);
    for (const Opcode code : {k_cosine, k_multiply, k_sine, k_multiply})
      unary(at, code, wide, wide);
    if (table.element != ElementType::kF32)
      for (int i = 0; i < 2; ++i) unary(at, k_convert, wide, narrow);
    return true;
  }

  /// x·cos + cat(−x₂, x₁)·sin, with heads before positions and memory the other way round.
  bool rotary(const Boundary& b, OpId at) {
    const ValueId x =
        *std::ranges::max_element(b.inputs, {}, [&](ValueId v) { return w_.type(v).elements; });
    const Type& type = w_.type(x);
    if (type.rank() != 4) return false;
    const std::array<int64_t, 4> heads_first = {0, 2, 1, 3};
    const TorchTensor by_heads{type.element,
                               TensorLayout::contiguous(type.dims).permuted(heads_first)};
    const TorchTensor made{type.element, TensorLayout::contiguous(by_heads.layout.dims)};
    TorchTensor table = by_heads;  // [1, 1, s, d]
    table.layout.strides = {0, 0, type.dims[3], 1};
    TorchTensor half = by_heads;
    half.layout.dims[3] /= 2;
    const TorchTensor negative{type.element, half.layout.made_dense()};
    binary(at, k_multiply, by_heads, table, by_heads);
    unary(at, k_negate, half, negative);
    add_concatenation(at, made, false);
    binary(at, k_multiply, made, table, made);
    binary(at, k_add, by_heads, made, by_heads);
    for (const ValueId v : b.outputs) layouts_[v.index] = TensorLayout::of(w_.type(v));
    return true;
  }

  /// Scores, their mask and softmax, and the mixture of values, each a kernel over all scores.
  bool written_attention(const Boundary& b, OpId at) {
    const AttentionSizes s = attention_sizes(b);
    if (s.scores == 0) return false;
    const std::array<int64_t, 2> dims = {s.batch * s.heads * s.queries, s.keys};
    const TorchTensor scores{s.element, TensorLayout::contiguous(dims)};
    const TorchTensor mask{s.element, {{dims[0], dims[1]}, {0, 1}}};
    copies_of_heads(at, s, 3);
    add(at, kernels::product(s.element, s.batch * s.heads, s.queries, s.keys, s.head), Seconds());
    unary(at, k_divide, scores, scores);
    binary(at, k_add, scores, mask, scores);
    add(at, kernels::over_rows(k_softmax, s.element, dims[0], dims[1]));
    if (drops_) {
      const auto bytes = scores.bytes();
      add(at, kernels::loop(k_rng, KernelFamily::kLibrary, s.element, scores.elements(), bytes,
                            bytes + static_cast<double>(scores.elements()), clocks::kDropout));
    }
    add(at, kernels::product(s.element, s.batch * s.heads, s.queries, s.head, s.keys), Seconds());
    copies_of_heads(at, s, 1);
    for (const ValueId v : b.outputs) set_contiguous(v);
    return true;
  }

  struct AttentionSizes {
    ElementType element = ElementType::kNone;
    int64_t batch = 0, heads = 0, queries = 0, keys = 0, head = 0, scores = 0;
  };
  AttentionSizes attention_sizes(const Boundary& b) const {
    AttentionSizes s;
    std::vector<const Type*> qkv;
    for (const ValueId v : b.inputs)
      if (w_.type(v).rank() == 4) qkv.push_back(&w_.type(v));
    if (qkv.size() < 2) return s;
    const Type& q = *qkv[0];
    s.element = q.element;
    s.batch = q.dims[0];
    s.queries = q.dims[1];
    s.heads = q.dims[2];
    s.head = q.dims[3];
    s.keys = qkv[1]->dims[1];
    s.scores = s.batch * s.heads * s.queries * s.keys;
    return s;
  }
  /// Queries, keys and values are gathered by heads before they are multiplied.
  void copies_of_heads(OpId at, const AttentionSizes& s, int count) {
    const std::array<int64_t, 4> dims = {s.batch, s.queries, s.heads, s.head};
    const std::array<int64_t, 4> heads_first = {0, 2, 1, 3};
    const TorchTensor from{s.element, TensorLayout::contiguous(dims).permuted(heads_first)};
    const TorchTensor to{s.element, TensorLayout::contiguous(from.layout.dims)};
    for (int i = 0; i < count; ++i) unary(at, k_copy, from, to);
  }

  /// log_softmax, its mean at the labels, and both gradients; in single precision where the
  /// library converts the logits first.
  bool cross_entropy(const Boundary& b, OpId at) {
    const Type* logits = nullptr;
    for (const ValueId v : b.inputs)
      if (is_float(w_.type(v).element) &&
          (logits == nullptr || w_.type(v).elements > logits->elements))
        logits = &w_.type(v);
    if (logits == nullptr) return false;
    const int64_t classes = logits->dims.back();
    const int64_t rows = logits->elements / classes;
    const bool converts = hugging_face_ && logits->element != ElementType::kF32;
    const ElementType element = converts ? ElementType::kF32 : logits->element;
    const std::array<int64_t, 2> dims = {rows, classes};
    const TorchTensor narrow{logits->element, TensorLayout::contiguous(dims)};
    const TorchTensor used{element, narrow.layout};
    if (hugging_face_) {
      small(at, ElementType::kS64, rows, 3);  // labels shifted by one
      add_counter(at);
    }
    if (converts) unary(at, k_convert, narrow, used);
    add(at, kernels::over_rows(k_softmax, element, rows, classes));
    add(at, kernels::loop(k_gather, KernelFamily::kIndexed, element, rows,
                          static_cast<double>(rows) * 12, 4, 0));
    add(at, kernels::fill(element, used.elements()));
    small(at, ElementType::kF32, rows, 1);
    add(at, kernels::loop(k_softmax, KernelFamily::kNormalization, element, used.elements(),
                          2 * used.bytes(), used.bytes(), clocks::kSoftmaxGradient));
    if (converts) unary(at, k_convert, used, narrow);
    for (const ValueId v : b.outputs) set_contiguous(v);
    return true;
  }

  // --- gradients ----------------------------------------------------------------------------

  static bool is_pointwise(std::string_view kind) {
    static constexpr std::array<std::string_view, 8> kKinds = {
        "gelu", "silu", "relu", "tanh", "logistic", "exponential", "clamp", "log"};
    return std::ranges::find(kKinds, kind) != kKinds.end();
  }

  bool gradient_module(std::string_view kind, const std::vector<OpId>& ops, const Boundary& b,
                       OpId at) {
    const Type& type = w_.type(b.outputs.back());
    const TorchTensor x = contiguous(type);
    if (is_pointwise(kind)) {
      // One kernel of what came in and went out of the function; shaped like the function.
      std::vector<TorchTensor> inputs;
      for (const ValueId v : b.inputs)
        if (w_.type(v).elements == type.elements) inputs.push_back({type.element, x.layout});
      Kernel kernel = kernels::elementwise(k_multiply, inputs, x);
      for (const OpId id : ops) {
        const Cost c = cost(w_, id);
        kernel.cost.vector_flops += c.vector_flops;
        kernel.cost.transcendental_flops += c.transcendental_flops;
      }
      add(at, kernel);
      set_contiguous(b.outputs.back());
      return true;
    }
    if (kind == "split") {
      add_concatenation(at, x, true);
      set_contiguous(b.outputs.back());
      return true;
    }
    if (kind == "dropout") {
      const std::array inputs = {x, TorchTensor{ElementType::kBool, x.layout}};
      Kernel kernel = kernels::elementwise(k_multiply, {inputs.data(), 1}, x);
      kernel.cost.bytes_read += static_cast<double>(type.elements);
      add(at, kernel);
      set_contiguous(b.outputs.back());
      return true;
    }
    if (kind == "positions") {
      const OpView pad = w_.view(ops.back());
      const Type& rows = pad.operand_type(0);
      add(at, kernels::fill(type.element, type.elements));
      add_lookup_gradient(at, type.element, rows.dims[0], rows.dims[1]);
      return true;
    }
    if (kind == "mean") {
      const TorchTensor repeated{type.element,
                                 {x.layout.dims, std::vector<int64_t>(type.dims.size())}};
      unary(at, k_divide, repeated, x);
      set_contiguous(b.outputs.back());
      return true;
    }
    if (!hugging_face_) return false;
    if (kind == "gelu_new") {
      for (int i = 0; i < 3; ++i) binary(at, k_multiply, x, x, x);
      binary(at, k_tanh, x, x, x);
      for (int i = 0; i < 4; ++i) unary(at, k_multiply, x, x);
      unary(at, k_square, x, x);
      for (int i = 0; i < 2; ++i) binary(at, k_add, x, x, x);
      set_contiguous(b.outputs.back());
      return true;
    }
    if (kind == "rotary") return rotary_gradient(b, at);
    if (kind == "written_attention") return written_attention_gradient(b, at);
    return false;
  }

  bool rotary_gradient(const Boundary& b, OpId at) {
    const Type& type = w_.type(b.outputs.back());
    if (type.rank() != 4) return false;
    const std::array<int64_t, 4> heads_first = {0, 2, 1, 3};
    const TorchTensor by_heads{type.element,
                               TensorLayout::contiguous(type.dims).permuted(heads_first)};
    const TorchTensor made{type.element, TensorLayout::contiguous(by_heads.layout.dims)};
    TorchTensor table = by_heads;
    table.layout.strides = {0, 0, type.dims[3], 1};
    TorchTensor half = by_heads;
    half.layout.dims[3] /= 2;
    for (int i = 0; i < 2; ++i) binary(at, k_multiply, by_heads, table, by_heads);
    unary(at, k_negate, half, {type.element, half.layout.made_dense()});
    for (int i = 0; i < 2; ++i) {
      add(at, kernels::fill(type.element, type.elements));
      unary(at, k_copy, half, {type.element, half.layout});
    }
    binary(at, k_add, made, made, made);
    binary(at, k_add, made, by_heads, made);
    unary(at, k_copy, made, {type.element, by_heads.layout});
    for (const ValueId v : b.outputs) set_contiguous(v);
    return true;
  }

  bool written_attention_gradient(const Boundary& b, OpId at) {
    const AttentionSizes s = attention_sizes(b);
    if (s.scores == 0) return false;
    const int64_t rows = s.batch * s.heads * s.queries;
    const std::array<int64_t, 2> dims = {rows, s.keys};
    const TorchTensor scores{s.element, TensorLayout::contiguous(dims)};
    const int64_t heads = s.batch * s.heads;
    copies_of_heads(at, s, 1);
    add(at, kernels::product(s.element, heads, s.queries, s.keys, s.head), Seconds());
    add(at, kernels::product(s.element, heads, s.keys, s.head, s.queries), Seconds());
    if (drops_) binary(at, k_multiply, scores, scores, scores);
    add(at, kernels::loop(k_softmax, KernelFamily::kNormalization, s.element, scores.elements(),
                          2 * scores.bytes(), scores.bytes(), clocks::kSoftmaxGradient));
    unary(at, k_divide, scores, scores);
    add(at, kernels::product(s.element, heads, s.queries, s.head, s.keys), Seconds());
    add(at, kernels::product(s.element, heads, s.keys, s.head, s.queries), Seconds());
    copies_of_heads(at, s, 3);
    for (const ValueId v : b.outputs) set_contiguous(v);
    return true;
  }

  // --- the end of a step ------------------------------------------------------------------

  /// What transformers' models do before their layers: positions, and for a causal mask whether
  /// they tell packed sequences; without one, the types of tokens.
  void small_beginning() {
    constexpr int kOfCausalMask = 12, kOfTokenTypes = 2;
    bool causal = false;
    for (uint32_t i = 0; i < w_.ops().size(); ++i) {
      const OpView op = w_.view(OpId{i});
      causal |= op.code() == k_attention && op.integer(Attr::kCausal, 0) != 0;
    }
    const int64_t few = 1024;
    const TorchTensor t{ElementType::kS64, TensorLayout::contiguous({&few, 1})};
    for (int i = 0; i < (causal ? kOfCausalMask : kOfTokenTypes); ++i)
      end(kernels::elementwise(k_add, {&t, 1}, t));
  }

  void step(const ForeachTensors& parameters, const TorchTraining& training, bool adam) {
    for (const Kernel& kernel : optimizer_kernels(parameters, adam, training.fused_optimizer))
      end(kernel);
    if (training.kept_gradients)
      for (const Kernel& kernel : foreach_kernels(parameters, 0, 1, 0)) end(kernel);
  }

  void end(const Kernel& kernel) {
    Launch launch;
    for_each_op(w_, w_.region(w_.function(w_.entry()).body), [&](OpId op) { launch.op = op; });
    launch.kernel = on_device(kernel);
    launch.hidden = hidden_of(kernel);
    at_the_end_.push_back(launch);
  }

  /// Gradients are added to those that are there.
  void accumulate(const ForeachTensors& parameters) {
    for (const ForeachTensor& p : parameters) {
      const TorchTensor t{p.element, TensorLayout::contiguous({&p.elements, 1})};
      const std::array inputs = {t, t};
      end(kernels::elementwise(k_add, inputs, t));
    }
  }

  const Workload& w_;
  const Device& device_;
  bool hugging_face_;
  bool hopper_;
  bool older_;
  double issue_scale_;
  bool drops_ = false;  ///< Activations are dropped somewhere, and so in attention.
  std::unordered_map<uint32_t, uint32_t> uses_;
  std::unordered_map<uint32_t, TensorLayout> layouts_;
  std::unordered_set<uint32_t> absorbed_;  ///< Operations whose work is another's.
  std::unordered_map<uint32_t, std::vector<Launch>> launches_;
  std::vector<Launch> at_the_end_;
};

}  // namespace

std::unique_ptr<LibraryLaunches> torch_launches(const Workload& workload, const Device& device,
                                                const TorchTraining& training) {
  return std::make_unique<TorchLaunches>(workload, device, training);
}

}  // namespace orrery
