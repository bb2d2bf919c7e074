#pragma once

#include <string>
#include <vector>

#include "orrery/api/serving.h"

namespace orrery {

class Session;

/// Engines alike.
struct EnginePool {
  std::string role;  ///< "engines", "prefill", "decode"
  ServingEngine engine;
  EngineRequest request;
  int replicas = 1;

  int devices() const { return request.layout.devices() * replicas; }
};

/// Whether an engine prepares a step while the one before runs.
bool is_asynchronous(const ServingRequest& request, const ServingEngine& engine);

/// The engines that a request asks for, those for prompts before those for answers. Throws `kUsage`
/// where roles do not go together.
std::vector<EnginePool> engine_pools(const Session& session, const ServingRequest& request);

/// The step times of each pool's engines.
std::vector<const StepTimes*> times_of(const std::vector<EnginePool>& pools);

/// What is wanted of a run: what became of each request; metrics too; its course and events too.
enum class RunDetail : uint8_t { kRequests, kMetrics, kCourse };

/// One run under `request.traffic`, with all steps of every pool as long as `times` says.
ServingRun run_pools(const ServingRequest& request, const std::vector<EnginePool>& pools,
                     const std::vector<const StepTimes*>& times, RunDetail detail);

}  // namespace orrery
