// Damages real workload files in many places and reads each damaged copy: every
// one must be read or refused as bad input, in bounded time and memory.
//
//   hostile_files [--cuts N] [--flips N] [--seed N] FILE_OR_FOLDER...
//
// "shared:PATH" stands for a file of the measured data, which may not be here.
// Exit code 77 says that none of the files was.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "mutation.h"
#include "orrery/base/shared_data_for_test.h"
#include "orrery/base/units.h"
#include "orrery/workload/chakra/trace.h"
#include "orrery/workload/cost.h"
#include "orrery/workload/reader.h"
#include "trial.h"

namespace orrery::hostile {
namespace {

namespace fs = std::filesystem;

constexpr int kNothingToDo = 77;  // What automake and ctest know as "skipped".

/// Does with a file what every command does first.
void read_and_cost(const Source& source) {
  if (source.name().ends_with(".et")) {
    const chakra::Trace trace(source);
    return;
  }
  const Workload workload = read_workload(source, {});
  if (workload.entry().valid()) total_cost(workload, workload.entry());
}

std::vector<std::string> find_files(const std::vector<std::string>& arguments) {
  constexpr std::string_view kShared = "shared:";
  std::vector<std::string> files;
  for (const std::string& argument : arguments) {
    if (argument.starts_with(kShared)) {
      const auto path = shared_data(argument.substr(kShared.size()));
      if (path)
        files.push_back(*path);
      else
        fmt::print("{}: not here, skipped\n", argument);
    } else if (fs::is_directory(argument)) {
      for (const auto& entry : fs::recursive_directory_iterator(argument))
        if (entry.is_regular_file()) files.push_back(entry.path().string());
    } else {
      files.push_back(argument);
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Leaves the damaged file for a debugger; returns where.
std::string keep(const std::string& folder, const std::string& file, std::string_view original,
                 const Mutation& mutation) {
  fs::create_directories(folder);
  const char* kind = mutation.kind == Mutation::Kind::kCut ? "cut" : "flip";
  // In front, since readers go by the extension.
  const fs::path path =
      fs::path(folder) / fmt::format("{}_{}_{:02x}_{}", kind, mutation.offset, mutation.mask,
                                     fs::path(file).filename().string());
  std::ofstream(path, std::ios::binary) << damaged(original, mutation);
  return path.string();
}

int run(int argc, char** argv) {
  size_t cuts = 1000;
  size_t flips = 1000;
  uint64_t seed = 1;
  Limits limits;
  std::string folder = "hostile_failures";
  std::vector<std::string> arguments;
  CLI::App app("Reads damaged copies of real files: each must be read or refused.");
  app.add_option("--cuts", cuts, "places to cut each file at")->capture_default_str();
  app.add_option("--flips", flips, "places to change a byte at")->capture_default_str();
  app.add_option("--seed", seed, "which places")->capture_default_str();
  app.add_option("--seconds", limits.seconds, "most that one copy may take")->capture_default_str();
  app.add_option("--keep", folder, "where copies that fail are left")->capture_default_str();
  app.add_option("files", arguments, "files, folders, or shared:PATH")->required();
  CLI11_PARSE(app, argc, argv);

  const std::vector<std::string> files = find_files(arguments);
  if (files.empty()) return kNothingToDo;

  size_t failures = 0;
  for (const std::string& file : files) {
    const Source original = Source::from_file(file);
    const auto mutations = draw_mutations(original.text().size(), cuts, flips, seed);
    const Outcome outcome = try_all(file, original.text(), mutations, limits, read_and_cost);
    fmt::print("{}: {} copies, {} read, {} refused, slowest {}, most memory {}\n", file,
               mutations.size(), outcome.accepted, outcome.refused,
               format_seconds(outcome.slowest_seconds),
               format_bytes(static_cast<double>(outcome.peak_bytes)));
    for (const Failure& failure : outcome.failures)
      fmt::print("  {}: {}\n    kept as {}\n", describe(failure.mutation), failure.what,
                 keep(folder, file, original.text(), failure.mutation));
    failures += outcome.failures.size();
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace orrery::hostile

int main(int argc, char** argv) {
  try {
    return orrery::hostile::run(argc, argv);
  } catch (const orrery::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.exit_code();
  }
}
