#include "orrery/workload/reader.h"

#include <filesystem>

#include "orrery/base/gzip.h"
#include "orrery/workload/zoo/zoo.h"

namespace orrery {

namespace {

/// Options that cannot apply are refused rather than ignored.
void check_options(const ReadOptions& options, bool builds_models) {
  if (builds_models) {
    if (!options.bindings.empty() || options.trip_count != 0)
      throw_usage(
          "--bind and --trip-count are for graphs with open sizes; a model description takes "
          "--phase, --batch, --seq, --context, --dtype and --choose");
  } else if (options.build != BuildOptions{}) {
    throw_usage(
        "--phase, --batch, --seq, --context, --dtype and --choose are for model descriptions; this "
        "file holds a graph whose sizes are fixed");
  }
}

}  // namespace

void refuse_named_bindings(const ReadOptions& options) {
  for (const auto& [name, size] : options.bindings)
    if (name != "?")
      throw_usage("--bind " + name +
                  ": open dimensions have no names in this format; '?=SIZE' gives all of them");
}

Workload read_workload(const Source& source, const ReadOptions& options) {
  if (source.name().ends_with(".et"))
    throw_input(
        source.name(),
        "a Chakra execution trace is no graph of tensors: 'orrery inspect' tells what is in "
        "it, 'orrery replay' plays it");
  std::string known;
  for (const auto& entry : Registry<Reader>::instance().entries()) {
    const auto reader = entry.create();
    if (reader->recognises(source)) {
      check_options(options, reader->builds_models());
      return reader->read(source, options);
    }
    known += (known.empty() ? "" : ", ") + entry.description.name;
  }
  throw_input(source.name(), source.text().empty()
                                 ? "the file is empty"
                                 : "not a workload in any format known here (" + known + ")");
}

Workload load_workload(const std::string& path_or_zoo_name, const ReadOptions& options) {
  // A file of that name goes first: nobody loses a file to the zoo.
  if (!std::filesystem::exists(path_or_zoo_name)) {
    if (find_zoo_model(path_or_zoo_name) != nullptr) {
      check_options(options, true);
      return build_zoo_model(path_or_zoo_name, options.build);
    }
    const bool looks_like_a_path = path_or_zoo_name.find_first_of("/.") != std::string::npos;
    if (!looks_like_a_path)
      return build_zoo_model(path_or_zoo_name, options.build);  // kUsage with near names
  }
  return read_workload(inflated(Source::from_file(path_or_zoo_name)), options);
}

}  // namespace orrery
