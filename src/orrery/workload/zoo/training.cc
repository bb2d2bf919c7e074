#include <fmt/format.h>
#include <fmt/ranges.h>

#include "orrery/base/error.h"
#include "orrery/workload/workload_builder.h"
#include "orrery/workload/zoo/gradient.h"
#include "orrery/workload/zoo/network_state.h"

// The loss, the optimiser, and the end.

namespace orrery {
namespace {

// AdamW's usual settings (Loshchilov & Hutter 2019; torch.optim.AdamW). They are
// constants of the graph: no time depends on them.
constexpr double kLearningRate = 1e-3;
constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.999;
constexpr double kEpsilon = 1e-8;
constexpr double kWeightDecay = 0.01;

}  // namespace

void Network::minimise_cross_entropy(const Tensor& logits, const Tensor& labels) {
  if (!training() || state_->current != &state_->main || state_->objective.valid())
    throw_internal("a loss is for training, once, outside layers");
  const Scope in_loss = scope("loss");
  const Module as_one = module("cross_entropy");
  const int64_t classes = logits.dim(-1);
  const int64_t rows = logits.elements() / classes;
  const Tensor probability = softmax(convert(reshape(logits, {rows, classes}), ElementType::kF32));
  const Tensor targets = reshape(labels, {rows, 1});
  const Tensor picked = emit({.code = Opcode::k_gather,
                              .operands = {probability, targets},
                              .results = {{ElementType::kF32, {rows, 1}}},
                              .integers = {{Attr::kIndexVectorDim, 2}},
                              .lists = {{Attr::kOffsetDims, {}},
                                        {Attr::kCollapsedSliceDims, {1}},
                                        {Attr::kOperandBatchingDims, {0}},
                                        {Attr::kStartIndicesBatchingDims, {0}},
                                        {Attr::kStartIndexMap, {1}},
                                        {Attr::kSliceSizes, {1, 1}}}})[0];
  output("loss", negate(reduce_mean(log(picked), {0, 1})));

  // d loss / d logits = (probability - one-hot) / rows.
  const Tensor minus_one = broadcast(constant(-1, ElementType::kF32), {rows, 1});
  const Tensor difference = emit({.code = Opcode::k_scatter,
                                  .operands = {probability, targets, minus_one},
                                  .results = {{ElementType::kF32, {rows, classes}}},
                                  .integers = {{Attr::kIndexVectorDim, 2}},
                                  .lists = {{Attr::kUpdateWindowDims, {}},
                                            {Attr::kInsertedWindowDims, {1}},
                                            {Attr::kOperandBatchingDims, {0}},
                                            {Attr::kStartIndicesBatchingDims, {0}},
                                            {Attr::kStartIndexMap, {1}}},
                                  .region = RawOp::Region::kAdd})[0];
  state_->objective = logits;
  state_->objective_gradient = reshape(
      convert(scale(difference, 1.0 / static_cast<double>(rows)), logits.element()), logits.dims());
}

Tensor Network::dropout(const Tensor& x) {
  if (!training() || !options().dropout) return x;
  constexpr double kKept = 0.9;  // attention and residual dropout of GPT-2 and BERT
  const Module as_one = module("dropout");
  const Tensor drawn =
      emit({.code = Opcode::k_rng, .operands = {}, .results = {{ElementType::kBool, x.dims()}}})[0];
  return select(drawn, scale(x, 1 / kKept), constant(0, x.element()));
}

void Network::minimise_mean_squared_error(const Tensor& prediction, const Tensor& target) {
  if (!training() || state_->current != &state_->main || state_->objective.valid())
    throw_internal("a loss is for training, once, outside layers");
  const Scope in_loss = scope("loss");
  const Tensor difference =
      subtract(convert(prediction, ElementType::kF32), convert(target, ElementType::kF32));
  Dims all;
  for (int i = 0; i < prediction.rank(); ++i) all.push_back(i);
  output("loss", reduce_mean(square(difference), all));
  state_->objective = prediction;
  state_->objective_gradient = convert(
      scale(difference, 2.0 / static_cast<double>(prediction.elements())), prediction.element());
}

/// One call a parameter of the update function of its type; without an optimiser
/// the gradients are results.
void Network::update_parameters(const std::vector<Tensor>& gradients) {
  Tape& main = state_->main;
  const NetworkOptions& options = state_->options;
  const size_t count = main.arguments().size();  // The optimiser's state comes after.
  for (uint32_t i = 0; i < count; ++i) {
    if (main.arguments()[i].kind != Tape::ArgumentKind::kParameter) continue;
    const std::string name = main.arguments()[i].name;
    const Tensor parameter = main.tensor(main.arguments()[i].value);
    if (!gradients[i].valid())
      throw_internal(fmt::format("no gradient reaches the parameter '{}'", name));
    if (options.optimizer == OptimizerKind::kNone) {
      output("gradient." + name, gradients[i]);
      continue;
    }
    const bool adam = options.optimizer == OptimizerKind::kAdamW;
    const bool master = options.master_weights && parameter.element() != ElementType::kF32;
    Tensors inputs = {parameter, gradients[i]};
    std::vector<uint32_t> updated = {i};
    const auto add_state = [&](std::string_view kind) {
      updated.push_back(static_cast<uint32_t>(main.arguments().size()));
      inputs.push_back(main.add_argument(Tape::ArgumentKind::kOptimizerState,
                                         fmt::format("optimizer.{}.{}", kind, name),
                                         {ElementType::kF32, parameter.dims()}));
    };
    if (adam) {
      add_state("first_moment");
      add_state("second_moment");
    }
    if (master) add_state("master_weight");

    const std::string kind =
        fmt::format("{}_{}_{}", adam ? "adamw" : "sgd", mlir_name(parameter.element()),
                    fmt::join(parameter.dims(), "x"));
    const Tensors results =
        layer(kind, "optimizer." + name, inputs, [&](const Tensors& in) -> Tensors {
          const Tensor gradient = convert(in[1], ElementType::kF32);
          const Tensor weight = master ? in.back() : convert(in[0], ElementType::kF32);
          Tensor step = gradient;
          Tensors next;
          if (adam) {
            const Tensor first = add(scale(in[2], kBeta1), scale(gradient, 1 - kBeta1));
            const Tensor second = add(scale(in[3], kBeta2), scale(square(gradient), 1 - kBeta2));
            step = add(divide(first, offset(sqrt(second), kEpsilon)), scale(weight, kWeightDecay));
            next = {first, second};
          }
          const Tensor moved = subtract(weight, scale(step, kLearningRate));
          if (master) next.push_back(moved);
          next.insert(next.begin(), convert(moved, in[0].element()));
          return next;
        });
    for (size_t k = 0; k < updated.size(); ++k) main.set_update(updated[k], results[k]);
  }
}

Workload Network::finish() {
  if (training()) {
    if (!state_->objective.valid()) throw_internal("training without a loss");
    update_parameters(differentiate(*this, *state_));
  }
  for (const Tape::Argument& a : state_->main.arguments())
    if (a.kind == Tape::ArgumentKind::kCache && a.update == Tape::kNone)
      throw_internal(fmt::format("the cache '{}' is never updated", a.name));
  WorkloadBuilder builder(state_->format, state_->name);
  builder.set_library(state_->options.library);
  for (const std::string& note : state_->notes) builder.add_note(note);
  emit_tapes(builder, state_->main);
  return builder.finish();
}

}  // namespace orrery
