#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace orrery {

/// Where the files that come with the program lie while it runs: a folder that
/// holds `hardware/` (the catalogue) and `data/` (fitted models and tables).
/// The first that exists of:
///   1. $ORRERY_DATA; set but wrong is an error, never passed over;
///   2. the source tree this library was built from;
///   3. share/orrery under the prefix that the running library or program was
///      installed to, wherever that prefix has been moved.
/// Throws `kUsage`, naming every place looked at, when there is none.
std::filesystem::path data_root();

/// `data_root()/hardware`: the catalogue.
std::filesystem::path hardware_folder();
/// `data_root()/data`: fitted models and measured tables.
std::filesystem::path fitted_data_folder();

/// What `data_root` searches, apart from the process it runs in.
struct DataRootSearch {
  std::optional<std::string> environment;       ///< The value of $ORRERY_DATA.
  std::filesystem::path source_tree;            ///< Empty: none was built from.
  std::vector<std::filesystem::path> binaries;  ///< The library, then the program.
};
std::filesystem::path find_data_root(const DataRootSearch& search);

}  // namespace orrery
