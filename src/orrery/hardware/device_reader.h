#pragma once

#include <functional>
#include <string>

#include "orrery/base/source.h"
#include "orrery/hardware/component.h"

namespace orrery {

/// Gives the tree that `inherits: NAME` means; `where` is the place of NAME.
using ParentLoader =
    std::function<DeviceTree(const std::string& name, const SourceLocation& where)>;

/// Reads one device's file, checked against the schema (schema.h): the parent's
/// tree, changed where this file states something. `~` takes a figure or a
/// section of the parent away. Throws `kInput` with line and column.
DeviceTree read_device(const Source& source, const ParentLoader& parent);

}  // namespace orrery
