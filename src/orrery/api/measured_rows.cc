#include "orrery/api/measured_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "orrery/kernel/measured_table_check.h"
#include "orrery/kernel/tile/fit_store.h"
#include "orrery/model/stack.h"

namespace orrery {

void add_left_out(std::vector<LeftOut>& list, const std::string& operation,
                  const std::string& reason, size_t rows) {
  const auto known = std::find_if(list.begin(), list.end(), [&](const LeftOut& l) {
    return l.operation == operation && l.reason == reason;
  });
  if (known == list.end())
    list.push_back({operation, rows, reason});
  else
    known->rows += rows;
}

DeviceRows read_device_rows(const std::string& path, const Device& device) {
  const MeasuredTable whole = read_measured_table(Source::from_file(path), clock_range(device));
  DeviceRows found{rows_on_device(whole, device.name), {}, {}};
  auto kept = found.table.rows.begin();
  for (const MeasuredRow& row : whole.rows) {
    if (kept != found.table.rows.end() && kept->line == row.line && kept->regime == row.regime)
      ++kept;
    else
      add_left_out(found.left_out, whole.operations[row.operation],
                   fmt::format("measured on {}", catalogue_name(whole.devices[row.device])));
  }
  if (found.table.rows.empty())
    throw_input(path, fmt::format("no row of it was measured on {}", device.name));
  const auto roofline =
      Registry<KernelModel>::instance().at("roofline", "kernel model").create()->bind(device, {});
  const std::vector<TableProblem> problems = check_measured_table(found.table, *roofline);
  refuse_on_problems(found.table, problems);
  for (const TableProblem& problem : problems)
    found.notes.push_back(fmt::format("{}:{}: {}", path, problem.line, problem.reason));
  return found;
}

void require_kernel_stack(const std::string& stack, const Device& device,
                          const std::string& data_folder) {
  if (!has_tile_fit(data_folder, device.name, stack))
    Registry<Stack>::instance().at(stack, "stack");
}

}  // namespace orrery
