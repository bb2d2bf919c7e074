#pragma once

#include "orrery/api/session.h"

namespace orrery {

/// A Chakra execution trace: its nodes by kind, operations, bytes and collectives.
InspectAnswer inspect_trace(const Source& source);

}  // namespace orrery
