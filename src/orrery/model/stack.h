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
  bool elementwise = false;      ///< Producers of elementwise work join their consumers.
  bool into_reductions = false;  ///< … also when the consumer is a reduction.
  bool duplicate_cheap = false;  ///< Cheap producers are computed again in each consumer.
  bool by_priority = false;      ///< XLA's cost model says which are (model/priority_fusion.h).
  bool broadcasts_are_views = false;  ///< Consumers index the small tensor instead.
  bool transposes_fold_into_dots = false;
  bool arguments_are_immutable = false;  ///< Updating one that was not donated copies it first.
  bool inline_small_calls = false;       ///< Small functions fuse with what surrounds them.
  /// Launches that follow one another, so many at least, are captured into a graph and queued
  /// together, convolutions by library left out; 0: none are.
  uint32_t fewest_in_graph = 0;
  bool compiled = false;                  ///< Kernels are the compiler's own, libraries' by trial.
  bool single_precision_as_tf32 = false;  ///< fp32 products run in TF32 where the device has it.
  bool plans_memory = false;  ///< Orders kernels for memory, overwrites operands that die.
  bool simplify = false;  ///< Equal work is done once, known numbers beforehand, unread work never.
  /// Transpositions change how dimensions lie and move nothing until something needs another
  /// order: products their batch, kept and summed dimensions side by side, convolutions
  /// features innermost.
  bool layouts = false;
  bool expand_grouped_products = false;  ///< Rows of several groups are multiplied with all.
  bool merge_products = false;           ///< Those that share an operand run as one.
  bool vector_products = false;          ///< Products with a vector are reductions.
  bool split_products = false;           ///< Small results of long sums are made in parts.
  bool scatter_into_sums = false;        ///< What a sum adds to zeros is added to the other term.
  bool expand_window_gradients = false;  ///< Find the largest elements, then scatter to them.
  bool split_reductions = false;         ///< Long ones over outer dimensions run in two steps.
  bool normalizations = false;     ///< Reductions along rows join what spreads them over the rows.
  bool product_prologues = false;  ///< Scales and moves before a small product run inside it.
  bool product_epilogues = false;  ///< Scales and biases behind a product or convolution.
  bool multi_output = false;       ///< Kernels over the same elements of a tensor become one.
};

/// What running a program costs beside its kernels.
struct LaunchCosts {
  // Of the device, where one kernel follows another:
  Seconds gap;        ///< Between kernels queued one by one.
  Seconds graph_gap;  ///< Before a graph's first kernel.
  Seconds call_gap;   ///< Between calls.
  // Of the host, for a call:
  Seconds dispatch;      ///< To queue one kernel.
  Seconds library;       ///< To queue a library's call that no graph can hold, beyond `dispatch`.
  Seconds graph_node;    ///< For each kernel of a graph.
  Seconds graph_update;  ///< … more, for each, where all arguments are new buffers at every call.
  Seconds call;          ///< To enter the program at all.
  Seconds argument;      ///< For each argument.
  Seconds wait;          ///< From the end of the device's work until the caller knows.
  /// How far hosts differ: a spread of ln(host time).
  double host_spread = 0;
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
  /// The stack whose kernels it runs, and so whose fits answer for them.
  virtual std::string kernels() const { return name(); }
  /// What it launches where that is not one kernel for each group of its rules; null otherwise.
  virtual std::unique_ptr<LibraryLaunches> library_launches(const Workload& workload,
                                                            const Device& device,
                                                            const StackConstants& told) const;
  /// What running this workload costs beside its kernels, where that depends on the workload.
  virtual LaunchCosts costs(const Workload& workload, const StackConstants& told) const;
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
  double times = 1;    ///< Its time over that of `kernel`, where it is a slower relative.
  Seconds hidden;      ///< Of the time that `kernel` takes alone: what its neighbours hide.
  OpId op;             ///< The operation it is named after.
  uint32_t graph = 0;  ///< The graph that holds it; 0: it is queued by itself.
  uint32_t fused = 1;  ///< Operations in it.
};

/// Something that holds memory, and how much.
struct MemoryUse {
  std::string name;
  double bytes = 0;
};

/// What is held while a step of the program runs.
struct MemoryPoint {
  OpId op;
  double bytes = 0;
};

struct MemoryPlan {
  double arguments = 0;
  double outputs = 0;
  double aliased = 0;              ///< Outputs that reuse the buffer of a donated argument.
  double constants = 0;            ///< Large constants inside the program.
  double temporaries = 0;          ///< The one allocation of everything else, with its holes.
  std::string peak_at;             ///< The operation that runs when most is held; empty: none runs.
  std::vector<MemoryUse> holders;  ///< Of memory then: the largest, largest first.
  std::vector<MemoryPoint> timeline;  ///< Steps of the entry in the order they run.
  double peak() const { return arguments + outputs + constants + temporaries - aliased; }
};

/// A workload as a stack runs it on a device.
struct Program {
  std::vector<Launch> launches;
  MemoryPlan memory;
  double argument_count = 0;
  double donated_share = 0;   ///< Of the arguments, what the caller gives away: new at every call.
  size_t left_out = 0;        ///< Operations that nothing is known of.
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
