#include "orrery/cluster/training/layer_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orrery/base/error.h"
#include "orrery/kernel/operator_kernel.h"
#include "orrery/model/torch/torch_kernels.h"

namespace orrery {

namespace kernels = torch_kernels;

std::string_view dtype_of(TrainingPrecision precision) {
  switch (precision) {
    case TrainingPrecision::kFP16:
      return "fp16";
    case TrainingPrecision::kFP8:
    case TrainingPrecision::kMXFP8:
      return "fp8";
    case TrainingPrecision::kNVFP4:
      return "fp4";
    case TrainingPrecision::kBF16:
      break;
  }
  return "bf16";
}

LayerBuilder::LayerBuilder(const TransformerDescription& model, const Strategy& strategy, int node,
                           const TrainingConstants& constants, std::vector<std::string>& gaps)
    : model_(model),
      s_(strategy),
      node_(node),
      c_(constants),
      gaps_(gaps),
      half_(strategy.precision == TrainingPrecision::kFP16 ? ElementType::kF16
                                                           : ElementType::kBF16),
      narrow_(is_narrow(strategy.precision)),
      tokens_(strategy.micro_batch * strategy.length / strategy.context),
      own_tokens_(strategy.sequence ? tokens_ / strategy.tensor : tokens_) {}

namespace {

/// The most bytes that are held of a logit.
double held_of_logits(const Strategy& s) {
  switch (s.loss) {
    case LossKernel::kWide:  // as written and as softmax, which becomes the gradient
      return kHalf + kWide;
    case LossKernel::kOperators:
      // Softmax's logarithm and two gradients in 32 bits, and a block of half the size that held
      // them as written and fits none of those. Tensor ranks share words by operators that hold one
      // more (torch.distributed.tensor.parallel.loss_parallel).
      return kHalf + (s.tensor > 1 ? 4 : 3) * kWide;
    case LossKernel::kCompiled:
      return 2 * kHalf;
    case LossKernel::kFused:
      break;
  }
  return kHalf;
}

}  // namespace

RankWork LayerBuilder::finish() {
  work_.working_bytes += gradient_bytes_;
  const bool full = s_.recompute == Recompute::kFull;
  if (full) {
    work_.again = work_.forward;
    // Layers begin with what was kept: their input, split over tensor ranks where sequences are.
    work_.working_bytes += work_.kept_bytes;
    work_.kept_bytes = own(model_.hidden) * kHalf;
  }
  if (s_.recompute == Recompute::kOperators) {
    work_.again = work_.forward;
    for (const Launch& kept : not_again_.launches)
      for (Launch& launch : work_.again.launches)
        if (launch.kernel == kept.kernel && launch.times == kept.times) launch.count -= kept.count;
    std::erase_if(work_.again.launches, [](const Launch& launch) { return launch.count <= 0; });
    // Sums over tensor ranks are kept.
    std::erase_if(work_.again.traffic, [](const Traffic& traffic) {
      return traffic.call.kind == CollectiveKind::kReduceScatter;
    });
    work_.working_bytes += work_.kept_bytes;
    work_.kept_bytes = own(model_.hidden) * kHalf + results_kept_;
  }
  work_.weight_share = backward_flops_ > 0 ? weight_flops_ / backward_flops_ : 0;
  return std::move(work_);
}

void LayerBuilder::layer(const Layer& layer) {
  if (s_.eager && s_.recompute != Recompute::kFull && s_.recompute != Recompute::kOperators)
    note("what PyTorch's operators keep in 32 bits beside fused ones is not in the memory");
  const bool parallel =
      layer.norms == NormPlacement::kParallel || layer.norms == NormPlacement::kParallelOneNorm;
  if (!std::holds_alternative<std::monostate>(layer.mixer)) {
    norm(kept_input());
    if (layer.norms == NormPlacement::kBoth) norm();
    enter();
    std::visit([&](const auto& mixer) { mix(mixer); }, layer.mixer);
    leave();
    if (!parallel) residual();
  }
  if (!std::holds_alternative<std::monostate>(layer.feed_forward)) {
    // A router reads 16 bits.
    const bool routed = std::holds_alternative<MixtureOfExperts>(layer.feed_forward);
    if (layer.norms != NormPlacement::kParallelOneNorm) norm(routed ? kHalf : kept_input());
    if (layer.norms == NormPlacement::kBoth) norm();
    part(routed ? Module::kExperts : Module::kFeedForward,
         [&] { std::visit([&](const auto& f) { feed(f); }, layer.feed_forward); });
    residual();
  }
}

void LayerBuilder::embedding() {
  const int64_t rows = model_.vocabulary / s_.tensor;
  forward(kernels::lookup(half_, tokens_, model_.hidden, rows, false));
  backward(kernels::lookup(half_, tokens_, model_.hidden, rows, true));
  if (model_.learnt_positions > 0) {
    forward(elementwise(own(model_.hidden), 3));
    work_.dense_parameters += static_cast<double>(model_.learnt_positions * model_.hidden);
  }
  if (model_.dropout) {
    forward(bytes_loop(own(model_.hidden), kHalf, kHalf + kMask));
    backward(bytes_loop(own(model_.hidden), kHalf + kMask, kHalf));
    work_.kept_bytes += own(model_.hidden) * kMask;
  }
  // Every tensor rank looks up its own words; the sum makes them whole.
  if (s_.tensor > 1)
    (void)talk(work_.forward,
               s_.sequence ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce,
               tokens() * static_cast<double>(model_.hidden) * kHalf, tensor_group(),
               TrafficCause::kTensor);
  work_.dense_parameters += static_cast<double>(rows * model_.hidden);
}

void LayerBuilder::head() {
  norm();
  enter();
  const int64_t words = (model_.vocabulary + s_.tensor - 1) / s_.tensor;
  linear(tokens_, words, model_.hidden, false, false);
  if (model_.tied_embeddings && s_.pipeline == 1)
    work_.dense_parameters -= static_cast<double>(words * model_.hidden);
  const double logits = tokens() * static_cast<double>(words);
  const double width = s_.wide_scores ? kWide : kHalf;  // of logits as they are written
  if (s_.loss == LossKernel::kOperators) {
    eager_loss(logits);
  } else {
    forward(bytes_loop(logits, width, width - kHalf), 1, c_.loss);
    backward(bytes_loop(logits, width, width), 1, c_.loss_backward);
  }
  work_.kept_bytes += own(model_.hidden) * kHalf;
  work_.working_bytes += logits * held_of_logits(s_);
  work_.result_bytes = logits * width;
  if (s_.tensor > 1) {
    (void)talk(work_.forward, CollectiveKind::kAllReduce, tokens() * kWide, tensor_group(),
               TrafficCause::kTensor, 3);
    leave_backward();
  }
}

void LayerBuilder::further_token(const std::vector<Layer>& layers) {
  norm();
  norm();
  linear(tokens_, model_.hidden / s_.tensor, 2 * model_.hidden, false);
  for (const Layer& l : layers) layer(l);
  const double parameters = work_.dense_parameters;
  head();
  work_.dense_parameters = parameters;  // the head is the model's own
}

double LayerBuilder::own(int64_t width) const {
  return static_cast<double>(own_tokens_) * static_cast<double>(width);
}

void LayerBuilder::add(Pass& pass, const Kernel& kernel, double count, double times) {
  for (Launch& like : pass.launches)
    if (like.times == times && like.kernel == kernel) {
      like.count += count;
      return;
    }
  Launch launch;
  launch.kernel = kernel;
  launch.count = count;
  launch.times = times;
  pass.launches.push_back(launch);
}

Pass LayerBuilder::difference(const Pass& after, const Pass& before) {
  Pass rest = after;
  for (size_t i = 0; i < before.launches.size(); ++i)
    rest.launches[i].count -= before.launches[i].count;
  std::erase_if(rest.launches, [](const Launch& launch) { return launch.count <= 0; });
  rest.traffic.erase(rest.traffic.begin(),
                     rest.traffic.begin() + static_cast<ptrdiff_t>(before.traffic.size()));
  return rest;
}

void LayerBuilder::forward(const Kernel& kernel, double count, double times) {
  add(work_.forward, kernel, count, times);
}

void LayerBuilder::backward(const Kernel& kernel, double count, double times) {
  add(work_.backward, kernel, count, times);
}

Kernel LayerBuilder::bytes_loop(double elements, double read, double written) const {
  return kernels::loop(Opcode::k_add, KernelFamily::kElementwise, half_,
                       std::max<int64_t>(1, static_cast<int64_t>(elements)), elements * read,
                       elements * written, 0);
}

Kernel LayerBuilder::elementwise(double elements, double tensors) const {
  return bytes_loop(elements, (tensors - 1) * kHalf, kHalf);
}

Traffic* LayerBuilder::talk(Pass& pass, CollectiveKind kind, double bytes, RankGroup group,
                            TrafficCause cause, double count) {
  if (group.size <= 1) return nullptr;
  pass.traffic.push_back({{kind, Bytes(bytes), group, half_}, count, cause, 0});
  return &pass.traffic.back();
}

void LayerBuilder::enter() {
  if (s_.tensor == 1) return;
  const double bytes = tokens() * static_cast<double>(model_.hidden) * kHalf;
  if (s_.sequence && s_.torch_native) work_.kept_bytes += bytes;
  if (!s_.sequence) {
    // The gradient of a copy is a sum.
    sum_of_gradients(CollectiveKind::kAllReduce, bytes);
    return;
  }
  mark(talk(work_.forward, CollectiveKind::kAllGather, bytes, tensor_group(),
            TrafficCause::kTensor));
  sum_of_gradients(CollectiveKind::kReduceScatter, bytes);
  // Gathered again for weight gradients, while those of inputs are computed.
  if (Traffic* t = talk(work_.backward, CollectiveKind::kAllGather, bytes, tensor_group(),
                        TrafficCause::kTensor))
    t->hidden_behind = 1;
}

void LayerBuilder::sum_of_gradients(CollectiveKind kind, double bytes) {
  Traffic* t = talk(work_.backward, kind, bytes, tensor_group(), TrafficCause::kTensor);
  mark(t);
  if (t != nullptr && s_.overlap_sums && t->hidden_behind == 0)
    sum_behind_ = work_.backward.traffic.size() - 1;
}

void LayerBuilder::leave() {
  if (s_.tensor == 1) return;
  const double bytes = tokens() * static_cast<double>(model_.hidden) * kHalf;
  mark(talk(work_.forward,
            s_.sequence ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce, bytes,
            tensor_group(), TrafficCause::kTensor));
  if (s_.sequence) results_kept_ += own(model_.hidden) * kHalf;
  leave_backward();
}

void LayerBuilder::leave_backward() {
  if (!s_.sequence || s_.tensor == 1) return;
  mark(talk(work_.backward, CollectiveKind::kAllGather,
            tokens() * static_cast<double>(model_.hidden) * kHalf, tensor_group(),
            TrafficCause::kTensor));
}

void LayerBuilder::mark(Traffic* traffic) const {
  if (traffic != nullptr) traffic->hidden_behind = hidden_by_products();
}

Kernel LayerBuilder::product(std::string_view dtype, int64_t m, int64_t n, int64_t k) const {
  return operator_kernel("gemm", dtype, fmt::format(R"({{"m":{},"n":{},"k":{}}})", m, n, k));
}

void LayerBuilder::linear(int64_t m, int64_t n, int64_t k, bool bias, bool narrow,
                          bool quantised_before) {
  const bool low = narrow && narrow_;
  const std::string_view dtype = low ? dtype_of(s_.precision) : dtype_of(plain());
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const Kernel results = product(dtype, m, n, k);
  forward(results);
  keep_every_second(results, m, n);
  backward(product(dtype, m, k, n));
  const Kernel weights = product(dtype, n, k, m);
  backward(weights);
  if (sum_behind_) {
    Traffic& sum = work_.backward.traffic[*sum_behind_];
    sum.hidden_behind = 1;
    sum.behind = weights;
    sum_behind_.reset();
  }
  accumulate(static_cast<double>(n) * static_cast<double>(k));
  if (low) {
    work_.narrow_parameters += static_cast<double>(n) * static_cast<double>(k);
    const double x = static_cast<double>(m) * static_cast<double>(k);
    const double y = static_cast<double>(m) * static_cast<double>(n);
    // No norm writes 4 bits.
    if (!quantised_before || s_.precision == TrainingPrecision::kNVFP4)
      forward(quantise(x), 1, c_.cast);
    backward(quantise(y), 1, c_.cast);
  }
  if (bias) {
    backward(kernels::reduction(half_, n, m, n));
    work_.dense_parameters += static_cast<double>(n);
  }
  work_.dense_parameters += static_cast<double>(n) * static_cast<double>(k);
  backward_flops_ += 2 * flops;
  weight_flops_ += flops;
  work_.model_flops += 3 * flops * s_.tensor;
}

void LayerBuilder::accumulate(double parameters) {
  if (!s_.wide_gradients) return;
  if (s_.fused_gradients)
    backward(bytes_loop(parameters * c_.accumulation, kWide, kWide - kHalf));
  else
    backward(bytes_loop(parameters, kHalf + kWide, kWide));
}

TrainingPrecision LayerBuilder::plain() const {
  return half_ == ElementType::kF16 ? TrainingPrecision::kFP16 : TrainingPrecision::kBF16;
}

Kernel LayerBuilder::quantise(double elements) const {
  switch (s_.precision) {
    case TrainingPrecision::kFP8:
      return bytes_loop(elements, 2 * kHalf, 2);
    case TrainingPrecision::kNVFP4:
      // Two scales: one of the tensor, and a byte of each 16 elements.
      return bytes_loop(elements, 2 * kHalf, 2 * (0.5 + 1.0 / 16));
    default:
      return bytes_loop(elements, kHalf, 2);
  }
}

void LayerBuilder::keep_every_second(const Kernel& product, int64_t m, int64_t n) {
  if (s_.recompute != Recompute::kOperators) return;
  if (widths_.empty()) widths_ = {n};
  for (const int64_t width : widths_)
    if (products_++ % 2 == 0) {
      results_kept_ += static_cast<double>(m) * static_cast<double>(width) * kHalf;
      add(not_again_, product, static_cast<double>(width) / static_cast<double>(n), 1);
    }
  widths_.clear();
}

void LayerBuilder::norm(double kept) {
  const double elements = own(model_.hidden);
  const bool eager = s_.eager && model_.norm != Norm::kLayer;
  if (eager) {
    eager_norm_backward(elements);
  } else {
    // Gradients of the input, then of the scale: both read the input and what comes back.
    backward(bytes_loop(elements, 2 * kHalf, kHalf));
    backward(bytes_loop(elements, 2 * kHalf, 0));
  }
  work_.kept_bytes += elements * kHalf;
  part(Module::kNorms, [&] {
    if (eager)
      eager_norm_forward(elements);
    else
      forward(elementwise(elements, 2));
    work_.kept_bytes += elements * kept;
  });
  work_.dense_parameters +=
      static_cast<double>(model_.hidden) * (model_.norm == Norm::kLayer ? 2 : 1);
}

void LayerBuilder::residual() {
  const double n = own(model_.hidden);
  if (model_.dropout) {
    forward(bytes_loop(n, 2 * kHalf, kHalf + kMask));
    backward(bytes_loop(n, kHalf + kMask, kHalf));
    work_.kept_bytes += n * kMask;
  } else {
    forward(elementwise(n, 3));
  }
  backward(elementwise(n, 3));
}

void LayerBuilder::refuse(std::string_view what) const {
  throw_usage(
      fmt::format("{} has layers of {}, whose training is not modelled", model_.name, what));
}

void LayerBuilder::note(const std::string& text) {
  if (std::ranges::find(gaps_, text) == gaps_.end()) gaps_.push_back(text);
}

}  // namespace orrery
