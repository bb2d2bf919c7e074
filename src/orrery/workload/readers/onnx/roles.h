#pragma once

#include <string_view>
#include <unordered_map>

#include "orrery/workload/readers/onnx/model.h"
#include "orrery/workload/workload.h"

namespace orrery::onnx {

/// What each graph input without an initializer is for. Exporters may turn
/// weights into inputs, so the use decides: an input that meets only weight
/// positions (a convolution's filter, a look-up's table …), or only joins
/// values that come from data (a bias added, a position embedding), is a
/// parameter. Integers, inputs with named open dimensions, and whatever reaches
/// a data position are inputs; key/value caches are known by name.
std::unordered_map<std::string_view, Role> input_roles(const Graph& graph);

}  // namespace orrery::onnx
