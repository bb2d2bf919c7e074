#pragma once

#include <optional>
#include <string_view>

#include "orrery/workload/attribute.h"

namespace orrery::hlo {

/// How an attribute of HLO is to be read.
struct AttributeRule {
  enum class Form : uint8_t {
    kInteger,  ///< Into `attr`, as the next ones.
    kFlag,
    kReal,
    kIntegers,
    kOneInteger,  ///< An integer that `attr` holds as a list of one.
    kWord,        ///< `kind=kLoop`
    kText,        ///< `custom_call_target="…"`
    kComputation,
    kBackendConfig,
    kBranches,
    kDimLabels,
    kMetadata,
    kAlgorithm,
    kAliases,
    kPadding,
    kPairs,
    kPrecision,
    kReplicaGroups,
    kSharding,
    kSlices,
    kWindow,
    kNothing,  ///< Known, and of no weight for time, memory or energy.
  };
  std::string_view key;
  Form form = Form::kNothing;
  Attr attr{};
};

/// The rule for `key`; null for an attribute XLA does not have.
const AttributeRule* attribute_rule(std::string_view key);

}  // namespace orrery::hlo
