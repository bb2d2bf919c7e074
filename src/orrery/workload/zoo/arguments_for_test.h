#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "orrery/workload/workload.h"

namespace orrery {

/// What the arguments of a workload's entry function hold.
struct Arguments {
  int64_t parameters = 0;       ///< Elements of weights; scales and zero points left out.
  int64_t parameter_bytes = 0;  ///< With scales and zero points.
  int64_t expert_parameters = 0;
  int64_t table_parameters = 0;  ///< Of the embedding table.
  int64_t cache_bytes = 0;
  int64_t bytes = 0;
  /// How often each type of parameter occurs, as "4096x11008xbf16".
  std::map<std::string, int> parameter_types;
};

inline Arguments arguments_of(const Workload& workload) {
  Arguments found;
  const Function& entry = workload.function(workload.entry());
  const uint32_t first = workload.region(entry.body).first_argument;
  for (uint32_t i = 0; i < entry.arguments.size(); ++i) {
    const Type& type = workload.type(ValueId{first + i});
    const std::string_view name = workload.string(entry.arguments[i].name);
    found.bytes += type.bytes;
    if (entry.arguments[i].role == Role::kCache) found.cache_bytes += type.bytes;
    if (entry.arguments[i].role != Role::kParameter) continue;
    found.parameter_bytes += type.bytes;
    std::string text;
    for (const int64_t dim : type.dims) text += std::to_string(dim) + "x";
    ++found.parameter_types[text + std::string(mlir_name(type.element))];
    if (name.ends_with(".weight_scale") || name.ends_with(".weight_zero_point")) continue;
    found.parameters += type.elements;
    if (name.find(".experts.") != std::string_view::npos) found.expert_parameters += type.elements;
    if (name == "embed_tokens.weight") found.table_parameters += type.elements;
  }
  return found;
}

}  // namespace orrery
