#pragma once

#include <string>
#include <vector>

#include "orrery/api/accuracy.h"
#include "orrery/kernel/measured_table.h"

namespace orrery {

/// A table's rows of one device, and what was said about the rest of it.
struct DeviceRows {
  MeasuredTable table;
  std::vector<LeftOut> left_out;
  std::vector<std::string> notes;
};

/// Reads the rows of `device` and checks them (kernel/measured_table_check.h); throws
/// `kInput` for a table that is refused or has no row of the device.
DeviceRows read_device_rows(const std::string& path, const Device& device);

/// Throws `kUsage` unless `stack` lowers programs (a registered one) or the device's
/// kernels were measured under it: single operators need no more.
void require_kernel_stack(const std::string& stack, const Device& device,
                          const std::string& data_folder);

/// Counts rows by operator and reason, in the order they come.
void add_left_out(std::vector<LeftOut>& list, const std::string& operation,
                  const std::string& reason, size_t rows = 1);

}  // namespace orrery
