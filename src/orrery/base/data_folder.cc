#include "orrery/base/data_folder.h"

#include <dlfcn.h>

#include <cstdlib>
#include <system_error>

#include "orrery/base/error.h"

namespace orrery {
namespace {

namespace fs = std::filesystem;

// The catalogue is never empty, so its folder marks a root; `data/` may be.
bool is_data_root(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder / "hardware", ignored);
}

/// The shared library or program that holds this very function.
fs::path containing_binary() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&containing_binary), &info) == 0) return {};
  if (info.dli_fname == nullptr) return {};
  // For the main program this is argv[0], which may be a bare name found by $PATH.
  std::error_code error;
  const fs::path path = fs::canonical(info.dli_fname, error);
  return error ? fs::path() : path;
}

fs::path running_program() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path() : path;
}

}  // namespace

fs::path find_data_root(const DataRootSearch& search) {
  if (search.environment) {
    fs::path folder = *search.environment;
    if (is_data_root(folder)) return folder;
    throw_usage("$ORRERY_DATA is '" + folder.string() +
                "', which has no folder 'hardware'; it should name the folder that holds "
                "'hardware' and 'data'");
  }

  std::vector<fs::path> looked_at;
  const auto found = [&](const fs::path& folder) {
    looked_at.push_back(folder);
    return is_data_root(folder);
  };
  if (!search.source_tree.empty() && found(search.source_tree)) return looked_at.back();
  for (const fs::path& binary : search.binaries) {
    // How deep a binary lies below its prefix differs: bin, lib, lib/x86_64-linux-gnu,
    // lib/python3/dist-packages.
    for (fs::path folder = binary.parent_path(); !folder.empty(); folder = folder.parent_path()) {
      if (found(folder / "share" / "orrery")) return looked_at.back();
      if (folder == folder.root_path()) break;
    }
  }

  std::string places;
  for (const fs::path& folder : looked_at) places += (places.empty() ? "" : ", ") + folder.string();
  throw_usage("the hardware catalogue was not found; looked in " + places +
              "; set ORRERY_DATA to the folder that holds 'hardware' and 'data'");
}

fs::path data_root() {
  DataRootSearch search;
  if (const char* value = std::getenv("ORRERY_DATA"); value != nullptr && *value != '\0')
    search.environment = value;
  search.source_tree = ORRERY_SOURCE_TREE;
  search.binaries = {containing_binary(), running_program()};
  return find_data_root(search);
}

fs::path hardware_folder() { return data_root() / "hardware"; }

fs::path fitted_data_folder() { return data_root() / "data"; }

}  // namespace orrery
