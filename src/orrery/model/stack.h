#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "orrery/base/registry.h"
#include "orrery/base/units.h"
#include "orrery/hardware/device.h"
#include "orrery/kernel/estimate.h"
#include "orrery/kernel/kernel.h"
#include "orrery/workload/workload.h"

namespace orrery {

/// What a stack joins into one kernel.
struct FusionRules {
  bool elementwise = false;           ///< Producers of elementwise work join their consumers.
  bool into_reductions = false;       ///< … also when the consumer is a reduction.
  bool duplicate_cheap = false;       ///< Cheap producers are computed again in each consumer.
  bool broadcasts_are_views = false;  ///< Consumers index the small tensor instead.
  bool transposes_fold_into_dots = false;
  bool arguments_are_immutable = false;   ///< Updating one that was not donated copies it first.
  bool inline_small_calls = false;        ///< Small functions fuse with what surrounds them.
  bool compiled = false;                  ///< Kernels are the compiler's own, libraries' by trial.
  bool single_precision_as_tf32 = false;  ///< fp32 products run in TF32 where the device has it.
};

/// What running a launch costs beside its kernel.
struct LaunchCosts {
  Seconds gap;       ///< Device time between kernels queued back to back.
  Seconds dispatch;  ///< Host time to queue one kernel.
  Seconds call;      ///< Host time of one call of the program and the wait for it.
  /// How far the true set of kernels may be from the lowered one, as a spread of
  /// ln(true / predicted) that all kernels of a program share.
  double structure_spread = 0;
};

class LibraryLaunches;

/// The constants of a stack and how it was told to run.
struct StackConstants {
  std::string version;
  std::string measured_on;  ///< The device its constants come from.
  LaunchCosts costs;
  /// Where a model's own library (Workload::library) takes the host longer: its dispatch.
  std::map<std::string, Seconds> dispatch_of_library;
  std::map<std::string, std::string> choices;  ///< "optimizer": "fused"
};

/// The software that turns operations into launches. Registered in
/// `Registry<Stack>`, one file each under model/stacks/.
class Stack {
 public:
  virtual ~Stack() = default;
  virtual FusionRules rules() const = 0;
  /// From data/stacks/NAME.yaml, where each constant has its source.
  virtual std::string name() const = 0;
  /// What it launches where that is not one kernel for each group of its rules; null otherwise.
  virtual std::unique_ptr<LibraryLaunches> library_launches(const Workload& workload,
                                                            const Device& device,
                                                            const StackConstants& told) const;
};

/// Reads the constants of a stack, `data_folder`/stacks/NAME.yaml. `settings` replace them:
/// {"dispatch", "40us"}, {"optimizer", "foreach"}; an unknown name or value is `kUsage`.
StackConstants load_stack_constants(
    const std::string& data_folder, const std::string& name,
    const std::vector<std::pair<std::string, std::string>>& settings = {});

/// A kernel and how often one step runs it.
struct Launch {
  Kernel kernel;
  double count = 1;
  double times = 1;  ///< Its time over that of `kernel`, where it is a slower relative.
  Seconds hidden;    ///< Of the time that `kernel` takes alone: what its neighbours hide.
  OpId op;             ///< The operation it is named after.
  uint32_t fused = 1;  ///< Operations in it.
};

struct MemoryPlan {
  double arguments = 0;
  double outputs = 0;
  double aliased = 0;      ///< Outputs that reuse the buffer of a donated argument.
  double constants = 0;    ///< Large constants inside the program.
  double temporaries = 0;  ///< Most that is live at once of everything else.
  double peak() const { return arguments + outputs + constants + temporaries - aliased; }
};

/// A workload as a stack runs it on a device.
struct Program {
  std::vector<Launch> launches;
  MemoryPlan memory;
  bool communicates = false;  ///< Holds collectives: one device's part of a larger program.
  std::vector<std::string> gaps;
};

/// Lowers every function once; calls and loops multiply counts. A workload with
/// open dimensions is `kInput`: nothing can be sized.
/// `library`, where there is one, says what every operation launches.
Program lower(const Workload& workload, const Device& device, const FusionRules& rules,
              const LibraryLaunches* library = nullptr);

/// Estimates of launches' kernels alone as those of the launches: times `times`, less `hidden`.
void adjust(std::span<const Launch> launches, std::span<Estimate> estimates);

}  // namespace orrery
