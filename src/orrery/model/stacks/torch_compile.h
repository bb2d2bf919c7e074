#pragma once

#include "orrery/model/stack.h"

namespace orrery {

/// What Inductor fuses.
inline FusionRules inductor_rules() {
  return {.elementwise = true,
          .into_reductions = true,
          .duplicate_cheap = true,
          .broadcasts_are_views = true,
          .transposes_fold_into_dots = true,
          .arguments_are_immutable = false,
          .inline_small_calls = true,
          .fewest_in_graph = 0,
          .compiled = false,
          .single_precision_as_tf32 = false,
          .plans_memory = false};
}

}  // namespace orrery
