#pragma once

#include <vector>

#include "orrery/workload/zoo/network_state.h"

namespace orrery {

/// Appends the backward pass of what main has recorded so far, from the state's
/// objective back, and gives the gradient of every argument of main (not valid
/// where none flows). Layer functions get backward functions of their own, one
/// for each set of inputs that need a gradient.
std::vector<Tensor> differentiate(Network& network, Network::State& state);

/// One recorded operation seen from the backward pass.
class GradientStep {
 public:
  virtual ~GradientStep() = default;
  GradientStep(Network& network, const Tape::Node& node) : net(network), node(node) {}

  Network& net;
  const Tape::Node& node;

  /// The forward values, where the backward pass can use them. Asking is what
  /// keeps them alive until then.
  virtual Tensor operand(size_t i) = 0;
  virtual Tensor result(size_t i = 0) = 0;
  virtual const TensorType& operand_type(size_t i) const = 0;
  virtual const TensorType& result_type(size_t i = 0) const = 0;
  virtual bool has_gradient(size_t result) const = 0;
  /// The gradient in a result, which must have one.
  virtual Tensor gradient(size_t result = 0) = 0;
  virtual bool needs(size_t operand) const = 0;
  /// Adds to the gradient in an operand; ignored where none is needed.
  virtual void give(size_t operand, const Tensor& gradient) = 0;
};

/// Runs the rule of the node's operation; an internal error names it when there is none.
void apply_gradient_rule(GradientStep& step);

}  // namespace orrery
