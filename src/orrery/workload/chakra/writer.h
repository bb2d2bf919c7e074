#pragma once

#include <string>

#include "orrery/workload/chakra/node.h"

namespace orrery::chakra {

/// What begins a trace: the metadata behind its length.
std::string encoded(const Metadata& metadata);
/// One node behind its length, fields in the order of the schema, lists packed, as
/// protobuf's own libraries write them. A trace is the metadata and then its nodes.
std::string encoded(const Node& node);

}  // namespace orrery::chakra
