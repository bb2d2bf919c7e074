#include <fmt/format.h>

#include <algorithm>

#include "orrery/kernel/operator_kernel.h"
#include "orrery/model/torch/torch_kernels.h"
#include "orrery/serving/engine/number_format.h"
#include "orrery/serving/engine/pass_builder.h"

namespace orrery {

namespace kernels = torch_kernels;

void PassBuilder::experts(const Layer& layer, int64_t group_tokens) {
  const auto* m = std::get_if<MixtureOfExperts>(&layer.feed_forward);
  if (m == nullptr) return;
  set_tokens(group_tokens);
  what_ = EngineOperator::kExperts;
  run_experts(*m, m->latent > 0 ? m->latent : model_.hidden);
}

void PassBuilder::exchange(const Layer& layer, int64_t group_tokens) {
  const auto* m = std::get_if<MixtureOfExperts>(&layer.feed_forward);
  if (m == nullptr || layout_.attention_data == 1) return;
  set_tokens(group_tokens);
  travel(m->latent > 0 ? m->latent : model_.hidden, *m);
}

void PassBuilder::feed(const DenseFeedForward& f) {
  using enum EngineOperator;
  dense(f, {kUp, kActivation, kDown});
  sum_over_tensor();
}

void PassBuilder::dense(const DenseFeedForward& f, const DenseParts& parts) {
  const int64_t inner = split(f.inner, layout_.tensor);
  what_ = parts[0];
  linear(f.up, (f.gated ? 2 : 1) * inner, model_.hidden, layout_.tensor, f.gated ? 2 : 1);
  what_ = parts[1];
  activate(tokens() * static_cast<double>(inner), f.gated);
  what_ = parts[2];
  linear(f.down, model_.hidden, inner, layout_.tensor);
}

void PassBuilder::activate(double elements, bool gated) {
  add(loop(elements, (gated ? 2 : 1) * kHalf, kHalf));
}

void PassBuilder::feed(const MixtureOfExperts& m) {
  what_ = EngineOperator::kRouter;
  if (use_.adapter_rank > 0)
    note("adapters of experts are not counted, those of attention and dense layers are");
  // A wider one's inputs are widened with the norm before it.
  const std::string router = format_name(m.router.format, type_);
  add(product(router, tokens_, m.experts, model_.hidden));
  keep(router, m.experts, model_.hidden, 1);
  add(kernels::over_rows(Opcode::k_softmax, ElementType::kF32, tokens_, m.experts));
  what_ = EngineOperator::kOther;
  if (m.latent > 0) linear(m.latent_down, m.latent, model_.hidden, 1);
  if (m.latent > 0) linear(m.latent_up, model_.hidden, m.latent, 1);
  if (m.shared) dense(*m.shared, kBesideExperts);
  if (m.beside) dense(*m.beside, kBesideExperts);
  if (m.shared || m.beside)
    add(loop(tokens() * static_cast<double>(model_.hidden), 2 * kHalf, kHalf));
  if (layout_.attention_data == 1)
    talk(CollectiveKind::kAllReduce, rows_bytes(tokens_, model_.hidden), stage_group());
  else if (m.shared || m.beside)
    sum_over_tensor();
}

void PassBuilder::travel(int64_t width, const MixtureOfExperts& m) {
  if (habits_.gathers_experts) {
    // Beside each token the numbers and the weights of its experts.
    const double choices = tokens() * static_cast<double>(m.active) * 2 * kWide;
    talk(CollectiveKind::kAllGather, rows_bytes(tokens_, width) + choices, stage_group());
    talk(CollectiveKind::kReduceScatter, rows_bytes(tokens_, width), stage_group());
    return;
  }
  const int64_t own = split(tokens_, layout_.attention_data);
  const int64_t sent = own * std::min<int64_t>(m.active, layout_.expert);
  talk(CollectiveKind::kAllToAll, rows_bytes(sent, width), stage_group());
  talk(CollectiveKind::kAllToAll, rows_bytes(sent, width), stage_group());
}

void PassBuilder::run_experts(const MixtureOfExperts& m, int64_t width) {
  const std::string up = asked_format(precision_.experts, m.up_format);
  const int tensor = expert_tensor();
  const int64_t local = split(m.experts, layout_.expert), inner = split(m.inner, tensor);
  if (m.gated) {
    add(operator_kernel(
        "moe", up,
        fmt::format(R"({{"tokens":{},"hidden":{},"inter":{},"topk":{},"experts":{},"tp":{},)"
                    R"("ep":{},"skew":{}}})",
                    tokens_, width, m.inner, m.active, m.experts, tensor, layout_.expert,
                    use_.routing_skew)));
  } else {
    const int64_t rows = std::max<int64_t>(1, split(tokens_ * m.active, layout_.expert));
    for (const auto& [n, k] : {std::pair(inner, width), std::pair(width, inner)})
      add(operator_kernel(
          "grouped_gemm", up,
          fmt::format(R"({{"experts":{},"tokens":{},"n":{},"k":{}}})", local, rows, n, k)));
    activate(static_cast<double>(rows) * static_cast<double>(inner), false);
  }
  keep(up, local * (m.gated ? 3 : 2) * inner, width, layout_.stage_devices());
}

void PassBuilder::streams(int parts) {
  what_ = EngineOperator::kOther;
  add(loop(tokens() * static_cast<double>(model_.streams * model_.hidden), kHalf, kHalf),
      2 * parts);
  note("mixing of residual streams is timed as reading and writing them");
}

}  // namespace orrery
