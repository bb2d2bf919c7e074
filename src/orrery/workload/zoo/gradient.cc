#include "orrery/workload/zoo/gradient.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <tuple>

#include "orrery/base/error.h"

namespace orrery {
namespace {

constexpr std::string_view kGradientOfSplit = "gradient/split";

/// What the gradient of a node is part of: of its layer's, or one of its own.
std::string gradient_module(const Tape::Node& node, Network::State& state) {
  const Tape::Attribute* module = node.find(Attr::kModule);
  if (module != nullptr) return "gradient/" + std::get<std::string>(module->value);
  return fmt::format("gradient/{}#{}", name(node.code), ++state.modules);
}

/// Made again from their operands in the backward pass, rather than kept: they
/// move nothing, or only repeat a smaller tensor.
bool is_replayed(Opcode code) {
  return code == Opcode::k_constant || code == Opcode::k_iota || code == Opcode::k_reshape ||
         code == Opcode::k_bitcast || code == Opcode::k_broadcast_in_dim;
}

/// The backward function of a layer function.
struct Backward {
  /// What to call an argument with: a value of the forward function (an argument
  /// or one kept for this), or the gradient in one of its outputs.
  struct Source {
    bool is_gradient = false;
    uint32_t index = 0;
  };
  Tape* tape = nullptr;
  std::vector<Source> arguments;
  std::vector<uint32_t> results;  ///< The forward argument each result is the gradient in.
};

class Differentiation {
 public:
  Differentiation(Network& network, Network::State& state) : network(network), state(state) {}

  /// By the arguments that need a gradient and the outputs that have one.
  const Backward& backward(Tape& forward, const std::vector<bool>& needs,
                           const std::vector<bool>& given);

  Network& network;
  Network::State& state;

 private:
  std::map<std::tuple<const Tape*, std::vector<bool>, std::vector<bool>>, Backward> made_;
  std::map<const Tape*, int> variants_;
};

/// Goes through `forward` from its end, recording gradients on `target`: another
/// function, or `forward` itself (main).
class BackwardPass {
 public:
  BackwardPass(Differentiation& differentiation, Tape& forward, Tape& target,
               const std::vector<bool>& needs, Backward* backward)
      : differentiation_(differentiation),
        forward_(forward),
        target_(target),
        backward_(backward),
        needs_(forward.values().size(), false),
        gradients_(forward.values().size()),
        fetched_(forward.values().size()) {
    for (size_t i = 0; i < needs.size(); ++i) needs_[forward.arguments()[i].value] = needs[i];
    for (const Tape::Node& node : forward.nodes()) {
      bool any = false;
      for (uint32_t operand : node.operands) any = any || needs_[operand];
      for (uint32_t result : node.results)
        needs_[result] = any && is_float(forward.type(result).element);
    }
  }

  void accumulate(uint32_t value, const Tensor& gradient, std::string_view from) {
    Network& net = differentiation_.network;
    const TensorType& type = forward_.type(value);
    if (gradient.dims() != type.dims)
      throw_internal(fmt::format("the gradient of {} in a {} is {}", from, describe(type),
                                 describe(target_.type(target_.index(gradient)))));
    // Sums of gradients are nobody's, but a part of a split is only put back in its place.
    std::string& module = differentiation_.state.module;
    const std::string of_step = module;
    if (!module.starts_with(kGradientOfSplit)) module.clear();
    const Tensor converted = net.convert(gradient, type.element);
    Tensor& sum = gradients_[value];
    sum = sum.valid() ? net.add(sum, converted) : converted;
    module = of_step;
  }

  const Tensor& gradient(uint32_t value) const { return gradients_[value]; }

  void run() {
    for (size_t i = forward_.nodes().size(); i-- > 0;) {
      // A copy: recording on the same tape moves the nodes.
      const Tape::Node node = forward_.nodes()[i];
      bool wanted = false;
      for (uint32_t operand : node.operands) wanted = wanted || needs_[operand];
      bool reached = false;
      for (uint32_t result : node.results)
        reached = reached || (known(result) && gradients_[result].valid());
      if (!wanted || !reached) continue;
      const Recording recording(differentiation_.state, target_, {node.scope});
      if (node.callee != nullptr) {
        call(static_cast<uint32_t>(i), node);
      } else {
        Step step(*this, node);
        differentiation_.state.module = gradient_module(node, differentiation_.state);
        apply_gradient_rule(step);
        differentiation_.state.module.clear();
      }
    }
  }

 private:
  class Step final : public GradientStep {
   public:
    Step(BackwardPass& pass, const Tape::Node& node)
        : GradientStep(pass.differentiation_.network, node), pass_(pass) {}

    Tensor operand(size_t i) override { return pass_.fetch(node.operands[i]); }
    Tensor result(size_t i) override { return pass_.fetch(node.results[i]); }
    const TensorType& operand_type(size_t i) const override {
      return pass_.forward_.type(node.operands[i]);
    }
    const TensorType& result_type(size_t i) const override {
      return pass_.forward_.type(node.results[i]);
    }
    bool has_gradient(size_t i) const override { return pass_.gradients_[node.results[i]].valid(); }
    Tensor gradient(size_t i) override {
      if (!has_gradient(i))
        throw_internal(fmt::format("{} has no gradient in result {}", name(node.code), i));
      return pass_.gradients_[node.results[i]];
    }
    bool needs(size_t i) const override { return pass_.needs_[node.operands[i]]; }
    void give(size_t i, const Tensor& gradient) override {
      if (needs(i)) pass_.accumulate(node.operands[i], gradient, name(node.code));
    }

   private:
    BackwardPass& pass_;
  };

  /// Results that calls gained after this pass began have no entry in its tables.
  bool known(uint32_t value) const { return value < gradients_.size(); }

  Tensor fetch(uint32_t value) {
    if (&forward_ == &target_) return forward_.tensor(value);
    if (known(value) && fetched_[value].valid()) return fetched_[value];
    const Tape::Value& v = forward_.values()[value];
    Tensor got;
    if (v.node != Tape::kNone && is_replayed(forward_.nodes()[v.node].code)) {
      Tape::Node node = forward_.nodes()[v.node];
      const TensorType type = v.type;
      for (uint32_t& operand : node.operands) operand = target_.index(fetch(operand));
      node.results.clear();
      std::erase_if(node.attributes, [](const auto& a) { return a.key == Attr::kModule; });
      got = target_.record(std::move(node), {type})[0];
    } else {
      got = target_.add_argument(Tape::ArgumentKind::kInput, fmt::format("forward.{}", value),
                                 v.type);
      backward_->arguments.push_back({false, value});
      if (v.node != Tape::kNone) forward_.keep(value);
    }
    if (known(value)) fetched_[value] = got;
    return got;
  }

  void call(uint32_t index, const Tape::Node& node) {
    Tape& callee = *node.callee;
    std::vector<bool> needs;
    needs.reserve(node.operands.size());
    for (uint32_t operand : node.operands) needs.push_back(needs_[operand]);
    std::vector<bool> given;
    for (size_t i = 0; i < callee.outputs().size(); ++i)
      given.push_back(gradients_[node.results[i]].valid());
    const Backward& backward = differentiation_.backward(callee, needs, given);

    Tape::Node call;
    call.code = Opcode::k_call;
    call.callee = backward.tape;
    call.scope = node.scope;
    for (const Backward::Source& source : backward.arguments) {
      Tensor argument;
      if (source.is_gradient) {
        argument = gradients_[node.results[source.index]];
      } else if (const Tape::Value& v = callee.values()[source.index]; v.node == Tape::kNone) {
        argument = fetch(node.operands[v.position]);
      } else {
        argument = fetch(forward_.index(forward_.call_result(index, callee.keep(source.index))));
      }
      const uint32_t value = target_.index(argument);
      const size_t position = call.operands.size();
      const TensorType& expected = backward.tape->type(backward.tape->arguments()[position].value);
      if (target_.type(value) != expected)
        throw_internal(fmt::format("argument {} of '{}' is {}, not {}", position,
                                   backward.tape->name(), describe(target_.type(value)),
                                   describe(expected)));
      call.operands.push_back(value);
    }
    std::vector<TensorType> types;
    for (uint32_t value : backward.tape->returned()) types.push_back(backward.tape->type(value));
    const Tensors results = target_.record(std::move(call), types);
    for (size_t i = 0; i < backward.results.size(); ++i)
      accumulate(node.operands[backward.results[i]], results[i], callee.name());
  }

  Differentiation& differentiation_;
  Tape& forward_;
  Tape& target_;
  Backward* backward_;
  std::vector<bool> needs_;
  std::vector<Tensor> gradients_;
  std::vector<Tensor> fetched_;
};

const Backward& Differentiation::backward(Tape& forward, const std::vector<bool>& needs,
                                          const std::vector<bool>& given) {
  const auto key = std::make_tuple(static_cast<const Tape*>(&forward), needs, given);
  if (const auto found = made_.find(key); found != made_.end()) return found->second;
  const int variant = ++variants_[&forward];
  Backward backward;
  backward.tape =
      &state.add_function(variant == 1 ? fmt::format("{}.backward", forward.name())
                                       : fmt::format("{}.backward.{}", forward.name(), variant));
  const Recording recording(state, *backward.tape, {});
  BackwardPass pass(*this, forward, *backward.tape, needs, &backward);
  for (uint32_t i = 0; i < given.size(); ++i) {
    if (!given[i]) continue;
    const uint32_t output = forward.outputs()[i];
    const Tensor gradient = backward.tape->add_argument(
        Tape::ArgumentKind::kInput, fmt::format("gradient.{}", i), forward.type(output));
    backward.arguments.push_back({true, i});
    pass.accumulate(output, gradient, forward.name());
  }
  pass.run();
  for (uint32_t i = 0; i < needs.size(); ++i) {
    const Tensor& gradient = pass.gradient(forward.arguments()[i].value);
    if (!needs[i] || !gradient.valid()) continue;
    backward.results.push_back(i);
    backward.tape->add_output("", gradient);
  }
  return made_.emplace(key, std::move(backward)).first->second;
}

}  // namespace

std::vector<Tensor> differentiate(Network& network, Network::State& state) {
  Differentiation differentiation(network, state);
  std::vector<bool> needs;
  for (const Tape::Argument& a : state.main.arguments())
    needs.push_back(a.kind == Tape::ArgumentKind::kParameter &&
                    is_float(state.main.type(a.value).element));
  BackwardPass pass(differentiation, state.main, state.main, needs, nullptr);
  pass.accumulate(state.main.index(state.objective), state.objective_gradient, "the loss");
  pass.run();
  std::vector<Tensor> gradients;
  for (const Tape::Argument& a : state.main.arguments())
    gradients.push_back(pass.gradient(a.value));
  return gradients;
}

}  // namespace orrery
