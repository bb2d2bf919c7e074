#pragma once

#include <memory>
#include <string>
#include <vector>

#include "orrery/api/session.h"
#include "orrery/base/registry.h"

namespace CLI {
class App;
}

namespace orrery {

/// One `orrery COMMAND`. Each lives in a file of its own and registers itself in
/// `Registry<Command>`; the description's summary is its line in the help.
class Command {
 public:
  virtual ~Command() = default;
  /// Adds options to its own sub-command.
  virtual void declare(CLI::App& app) = 0;
  /// Does the work and writes to standard output; the exit code.
  virtual int run() = 0;

 protected:
  bool json_ = false;
  void declare_json(CLI::App& app);
};

/// Options several commands share.
struct WorkloadOptions {
  std::string workload;
  std::vector<std::string> bindings;  ///< name=size
  std::vector<std::string> choices;   ///< name=value
  ReadOptions read;

  void declare(CLI::App& app);
  ReadOptions resolved() const;  ///< `kUsage` for a malformed pair.
};

/// What-ifs, `--set PATH=QUANTITY`.
/// `others`: what else may be set than figures of the device.
void declare_set(CLI::App& app, std::vector<std::string>& sets,
                 const std::string& others = "the stack's, e.g. stack.dispatch=20us");
std::vector<Override> read_overrides(const std::vector<std::string>& sets);

struct DeviceOptions {
  std::string device;
  std::vector<std::string> sets;  ///< path=value

  /// A program may run on a cluster's device, under changed figures of its stack.
  void declare_for_program(CLI::App& app);
  /// Single operators run on a device alone.
  void declare_for_operators(CLI::App& app);
  std::vector<Override> overrides() const { return read_overrides(sets); }
};

/// Which kernel model, and what of the user's own it rests on.
struct ChoiceOptions {
  ModelChoice chosen;
  std::vector<std::string> parameters;  ///< name=value

  void declare(CLI::App& app);
  ModelChoice choice() const;  ///< `kUsage` for a malformed parameter.
};

/// The kernel model and the conditions it predicts for.
struct ModelOptions {
  ChoiceOptions model;
  std::string regime = "burst";
  double sm_mhz = 0;

  void declare(CLI::App& app);
  ModelChoice choice() const { return model.choice(); }
  OperatingPoint point() const;
};

/// "name=value" split at the first '='; `kUsage` naming `option` otherwise.
std::pair<std::string, std::string> split_pair(const std::string& text, const std::string& option);

/// What a newcomer should try, in the program's help and its manual page.
inline constexpr const char* kExamples =
    "  orrery predict llama3-8b --on h200 --phase prefill --seq 2048\n"
    "  orrery predict model.mlir --on h100-sxm --set memory.bandwidth=6TB/s\n"
    "  orrery inspect model.onnx --bind batch=8";

/// All commands' options on `app`, for parsing, for completion and for the manual page.
std::vector<std::pair<CLI::App*, std::unique_ptr<Command>>> declare_commands(CLI::App& app);

/// The program: parses, runs, turns errors into messages and exit codes.
int run_program(int argc, const char* const* argv);

}  // namespace orrery
