#include "orrery/workload/reader.h"

#include <filesystem>

namespace orrery {

Workload read_workload(const Source& source, const ReadOptions& options) {
  std::string known;
  for (const auto& entry : Registry<Reader>::instance().entries()) {
    const auto reader = entry.create();
    if (reader->recognises(source)) return reader->read(source, options);
    known += (known.empty() ? "" : ", ") + entry.description.name;
  }
  throw_input(source.name(), source.text().empty()
                                 ? "the file is empty"
                                 : "not a workload in any format known here (" + known + ")");
}

Workload load_workload(const std::string& path_or_zoo_name, const ReadOptions& options) {
  return read_workload(Source::from_file(path_or_zoo_name), options);
}

}  // namespace orrery
