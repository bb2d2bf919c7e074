#pragma once

#include <string>
#include <vector>

#include "orrery/base/units.h"
#include "orrery/serving/engine/engine_work.h"

namespace orrery {

/// What an engine costs beside its kernels, and how it runs them.
struct EngineCosts {
  std::string engine;   ///< "vllm"
  std::string version;  ///< That it was measured with.
  // The loop on the host, for each step:
  Seconds step;       ///< Schedule, prepare, launch, sample, hand out.
  Seconds sequence;   ///< … more for each sequence of the step.
  Seconds launch;     ///< … more for each kernel, where they are not launched as a graph.
  bool ahead = true;  ///< The next step is scheduled while the device runs this one.
  // The device, for each step:
  Seconds gap;  ///< Between one step's last kernel and the next one's first.
  // Around a request:
  Seconds before;      ///< From its arrival to the queue: API, tokeniser.
  Seconds front_end;   ///< … of which so much for one request of an engine after the other.
  Seconds stream;      ///< From a step, for each sequence it gives tokens to, one after the other.
  Seconds after;       ///< From a token's step to the user, beside that.
  double kernels = 1;  ///< Times of its kernels over those of the fits.
  EngineHabits habits;
  bool counts_ends = true;  ///< Whether embedding, last layer and sampling are part of a step.
  bool custom_all_reduce = true;  ///< One- and two-shot kernels for small sums.
  int64_t batched_tokens = 0;     ///< Of a step at most, unless told otherwise, …
  int64_t sequences = 0;          ///< … and sequences at one time; …
  int64_t few_tokens =
      0;  ///< … both where it takes the device for a small one (the same unless said).
  int64_t few_sequences = 0;
  double host_link = 1;  ///< Share of a link's stated rate that copies to a host reach.
  // Memory of a device:
  Bytes runtime;      ///< Context, libraries, graphs, beside what a step needs.
  double spread = 0;  ///< ln(true / predicted) that all steps share, beside the kernels' …
  double spread_experts = 0;  ///< … of models with experts.
  double spread_first = 0;    ///< … of first tokens, beside that of the steps.
};

/// Of the engine in data/serving/NAME.yaml, each with its source. `settings` replace them:
/// {"step", "1.5ms"}; an unknown name is `kUsage`.
EngineCosts load_engine_costs(
    const std::string& data_folder, const std::string& engine,
    const std::vector<std::pair<std::string, std::string>>& settings = {});

}  // namespace orrery
