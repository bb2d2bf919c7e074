#pragma once

#include <cstdint>

#include "orrery/base/units.h"

namespace orrery {

/// What somebody asks of a served model.
///
/// Two requests begin with the same tokens where they name the same prefix, `prefix_tokens` long
/// (a system prompt), and after that where they belong to the same conversation, whose turns
/// follow each other: a turn's prompt holds all that was said before.
struct Request {
  Seconds arrival;
  int32_t prompt = 0;         ///< Tokens, those of prefix and conversation included; at least 1.
  int32_t output = 1;         ///< Tokens it will get; at least 1.
  uint64_t prefix = 0;        ///< 0: none.
  uint64_t conversation = 0;  ///< 0: none. Below 2^62.
  int32_t prefix_tokens = 0;
  int32_t priority = 0;  ///< Smaller goes first, where the scheduler looks at it.
  uint32_t adapter = 0;  ///< Of the model's weights (LoRA) that answers it; 0: none.
  uint32_t tag = 0;      ///< Its source's own, given back when the request ends.
};

}  // namespace orrery
