#include "orrery/serving/engine/pass_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <variant>

#include "orrery/kernel/operator_kernel.h"
#include "orrery/model/torch/torch_kernels.h"
#include "orrery/serving/engine/number_format.h"

namespace orrery {
namespace {

namespace kernels = torch_kernels;

// Products with weights of four bits were measured with PyTorch's kernel, which is made for few
// rows and takes longer with each. Engines run Marlin, which reads the weights once up to the rows
// at which arithmetic takes as long, and then keeps the pace of 16 bits, whose own kernel is at
// that pace from more rows on (bytes of a weight · arithmetic rate / bandwidth / 2: 40 to 100, and
// four times as many, on the catalogue's GPUs; stated, not measured).
constexpr int64_t kRowsForBandwidth = 64;
constexpr int64_t kRowsForArithmetic = 4 * kRowsForBandwidth;

}  // namespace

PassBuilder::PassBuilder(const ServedModel& served, std::vector<std::string>& gaps)
    : model_(served.model),
      layout_(served.layout),
      precision_(served.precision),
      habits_(served.habits),
      use_(served.use),
      gaps_(gaps),
      type_(served.model.type),
      plain_(operator_name(served.model.type)) {
  const ElementType cache = model_.cache_type == ElementType::kNone ? type_ : model_.cache_type;
  cache_name_ = precision_.cache.empty() ? operator_name(cache) : precision_.cache;
  cache_bytes_ = number_format(cache_name_).bytes;
}

void PassBuilder::set_tokens(int64_t tokens) {
  tokens_ = tokens;
  captured_ = tokens <= habits_.captured;
}

void PassBuilder::layer(const Layer& layer) {
  const bool mixes = !std::holds_alternative<std::monostate>(layer.mixer);
  const bool feeds = !std::holds_alternative<std::monostate>(layer.feed_forward);
  // What a norm follows: sums over tensor ranks, but where each part has a norm behind it.
  const bool apart = layer.norms == NormPlacement::kBoth || layout_.tensor == 1;
  if (mixes) {
    layer_norm(2, !apart && sums(layer.feed_forward));
    std::visit([&](const auto& mixer) { project(mixer); }, layer.mixer);
    if (layer.norms == NormPlacement::kBoth) layer_norm(1);
  }
  if (feeds) {
    if (layer.norms != NormPlacement::kParallelOneNorm) layer_norm(2, !apart && mixes);
    std::visit([&](const auto& part) { feed(part); }, layer.feed_forward);
    if (layer.norms == NormPlacement::kBoth) layer_norm(1);
  }
  if (model_.streams > 1) streams(mixes + feeds);
}

void PassBuilder::embedding() {
  const int64_t width = model_.embedding_size > 0 ? model_.embedding_size : model_.hidden;
  const int64_t rows = split(model_.vocabulary, layout_.tensor);
  what_ = EngineOperator::kEmbedding;
  add(kernels::lookup(type_, tokens_, width, rows, false));
  kept_.outer += static_cast<double>(rows * width) * kHalf;
  kept_.parameters += static_cast<double>(model_.vocabulary * width);
  if (layout_.tensor > 1)
    talk(CollectiveKind::kAllReduce, rows_bytes(tokens_, width), tensor_group());
}

void PassBuilder::head(int64_t rows) {
  const int64_t words = split(model_.vocabulary, layout_.tensor);
  set_tokens(rows);
  what_ = EngineOperator::kFinalNorm;
  add(kernels::over_rows(Opcode::k_rms_norm, type_, rows, model_.hidden, 2));
  what_ = EngineOperator::kHead;
  const std::string name = format_name(model_.head.format, type_);
  add(product(name, rows, words, model_.hidden));
  if (!model_.tied_embeddings) {
    kept_.outer += static_cast<double>(words * model_.hidden) * number_format(name).bytes;
    kept_.parameters += static_cast<double>(model_.vocabulary * model_.hidden);
  }
  const double logits = static_cast<double>(rows) * static_cast<double>(model_.vocabulary);
  if (layout_.tensor > 1) talk(CollectiveKind::kAllGather, logits * kHalf, tensor_group());
  // To 32 bits, then the largest of each row.
  what_ = EngineOperator::kSampler;
  add(loop(logits, kHalf, kWide));
  add(operator_kernel("reduce_max", "fp32",
                      fmt::format(R"({{"shape":[{},{}]}})", rows, model_.vocabulary)));
}

void PassBuilder::prefill(const Layer& layer, int64_t sequences, int64_t queries, int64_t context) {
  sequences_ = sequences;
  set_tokens(sequences * queries);
  what_ = EngineOperator::kAttention;
  std::visit([&](const auto& mixer) { attend_prompt(mixer, queries, context); }, layer.mixer);
}

void PassBuilder::decode(const Layer& layer, int64_t sequences, int64_t context, int64_t queries) {
  set_tokens(sequences * queries);
  what_ = EngineOperator::kAttention;
  std::visit([&](const auto& mixer) { attend_next(mixer, sequences, context, queries); },
             layer.mixer);
}

int PassBuilder::expert_tensor() const {
  return layout_.expert_tensor > 0 ? layout_.expert_tensor
                                   : layout_.stage_devices() / layout_.expert;
}

double PassBuilder::rows_bytes(int64_t rows, int64_t width) {
  return static_cast<double>(rows) * static_cast<double>(width) * kHalf;
}

void PassBuilder::add_to(EnginePass& pass, const Kernel& kernel, double count,
                         EngineOperator what) const {
  count *= count_;
  for (size_t i = 0; i < pass.launches.size(); ++i)
    if (pass.operators[i] == what && pass.launches[i].kernel == kernel) {
      pass.launches[i].count += count;
      return;
    }
  Launch launch;
  launch.kernel = kernel;
  launch.count = count;
  pass.launches.push_back(launch);
  pass.operators.push_back(what);
}

void PassBuilder::talk(CollectiveKind kind, double bytes, RankGroup group) {
  if (group.size <= 1) return;
  const CollectiveCall call{kind, Bytes(bytes), group, type_};
  for (EngineTraffic& like : pass_.traffic)
    if (like.call == call) {
      like.count += count_;
      return;
    }
  pass_.traffic.push_back({call, count_});
}

void PassBuilder::note(std::string text) {
  if (std::ranges::find(gaps_, text) == gaps_.end()) gaps_.push_back(std::move(text));
}

Kernel PassBuilder::loop(double elements, double read, double written) const {
  return kernels::loop(Opcode::k_add, KernelFamily::kElementwise, type_,
                       std::max<int64_t>(1, static_cast<int64_t>(elements)), elements * read,
                       elements * written, 0);
}

void PassBuilder::norm(int64_t width, int64_t tensors) {
  add(kernels::over_rows(Opcode::k_rms_norm, type_, tokens_, width, tensors));
}

bool PassBuilder::sums(const FeedForward& part) const {
  const auto* experts = std::get_if<MixtureOfExperts>(&part);
  return experts == nullptr || layout_.attention_data == 1 || experts->shared || experts->beside;
}

void PassBuilder::layer_norm(int64_t tensors, bool after_sum) {
  what_ = EngineOperator::kNorm;
  // In a kernel that sums, the residual's way to and fro is left.
  if (after_sum && captured_ && habits_.fuses_norms)
    add(loop(tokens() * static_cast<double>(model_.hidden), kHalf, kHalf));
  else
    norm(model_.hidden, tensors);
  what_ = EngineOperator::kOther;
}

std::string PassBuilder::linear_format(const Projection& p) const {
  return asked_format(precision_.linear, p.format);
}

std::string PassBuilder::asked_format(const std::string& asked, const WeightFormat& format) const {
  std::string own = format_name(format, type_);
  if (asked.empty() ||
      std::floor(2 * number_format(asked).bytes) == std::floor(2 * number_format(own).bytes))
    return own;
  return asked;
}

Kernel PassBuilder::product(const std::string& format, int64_t m, int64_t n, int64_t k) const {
  // Tables time layers with scales for blocks from the host, 59 us at least, which a graph does
  // not wait for (model/vllm/vllm_launches.cc).
  const std::string_view name =
      captured_ && format == "fp8_block" ? std::string_view("fp8") : std::string_view(format);
  return operator_kernel("gemm", name, fmt::format(R"({{"m":{},"n":{},"k":{}}})", m, n, k));
}

void PassBuilder::linear(const Projection& p, int64_t n, int64_t k, int64_t ranks, int64_t parts) {
  linear_of(p, tokens_, n, k);
  keep(linear_format(p), n, k, ranks);
  if (use_.adapter_rank > 0) adapt(n, k, parts);
}

void PassBuilder::adapt(int64_t n, int64_t k, int64_t parts) {
  const int64_t rank = use_.adapter_rank;
  kept_.adapter += count_ * static_cast<double>((parts * k + n) * rank) * kHalf;
  if (adapters_ == 0) return;
  for (const auto& [columns, depth] : {std::pair(parts * rank, k), std::pair(n, rank)})
    add_to(adapter_pass_,
           operator_kernel("grouped_gemm", plain_,
                           fmt::format(R"({{"experts":{},"tokens":{},"n":{},"k":{}}})",
                                       std::min(adapters_, tokens_), tokens_, columns, depth)),
           1, EngineOperator::kOther);
}

void PassBuilder::linear_of(const Projection& p, int64_t m, int64_t n, int64_t k) {
  const std::string format = linear_format(p);
  if (format != "int4_weight" && format != "fp4_weight") {
    add(product(format, m, n, k));
  } else if (m <= kRowsForBandwidth) {
    add(product(format, 1, n, k));
  } else {
    const int64_t rows = std::max(m, kRowsForArithmetic);
    add(product(plain_, rows, n, k), static_cast<double>(m) / static_cast<double>(rows));
  }
}

void PassBuilder::keep(const std::string& format, int64_t n, int64_t k, int64_t ranks) {
  const double elements = static_cast<double>(n) * static_cast<double>(k) * count_;
  kept_.weights += elements * number_format(format).bytes;
  kept_.parameters += elements * static_cast<double>(ranks * layout_.pipeline);
}

void PassBuilder::sum_over_tensor() {
  talk(CollectiveKind::kAllReduce, rows_bytes(tokens_, model_.hidden), tensor_group());
}

void PassBuilder::write_cache(int64_t width) {
  add(loop(tokens() * static_cast<double>(width), kHalf, cache_bytes_));
}

}  // namespace orrery
