#pragma once

#include <string>
#include <vector>

#include "orrery/base/element_type.h"
#include "orrery/workload/zoo/language_model.h"

namespace orrery {

/// How one engine spreads a model over its devices. Attention is split by heads over `tensor`
/// ranks and, as whole copies with requests of their own, over `attention_data`; experts over
/// `expert` ranks and each expert over `expert_tensor`, so that tensor · attention_data =
/// expert · expert_tensor. Layers lie in `pipeline` stages of that many devices each.
struct ServingLayout {
  int tensor = 1;
  int pipeline = 1;
  int attention_data = 1;
  int expert_tensor = 0;  ///< 0: what `expert` leaves over.
  int expert = 1;

  int stage_devices() const { return tensor * attention_data; }
  int devices() const { return stage_devices() * pipeline; }
  bool operator==(const ServingLayout&) const = default;
};

/// How numbers are kept where that is not as the model's own configuration says: names of
/// number formats as operators have them ("bf16", "fp8", "fp8_block", "fp4", "int4_weight"),
/// empty: as configured, as are weights of as many bits already.
struct ServingPrecision {
  std::string linear = {};   ///< Weights of linear layers but the last, and what multiplies them.
  std::string experts = {};  ///< … of experts.
  std::string cache = {};    ///< Keys and values: "bf16" or "fp8".
  bool operator==(const ServingPrecision&) const = default;
};

/// What is wrong with a layout for a model, in words; empty: nothing.
std::vector<std::string> faults(const ServingLayout& layout, const TransformerDescription& model);

}  // namespace orrery
