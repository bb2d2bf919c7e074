#pragma once

#include <string>
#include <vector>

namespace orrery {

/// How far this kind of answer was checked.
struct Trust {
  std::string verdict = "untested";  ///< "validated", "extrapolated", "untested"
  std::string detail;                ///< The error seen and where, in words.
};

/// Looks up data/validation.yaml, the record of what was checked against real
/// machines: this device, stack and kernel model were measured (validated), only
/// others were (extrapolated), or none (untested).
/// Only records of whole programs count.
Trust trust_of(const std::string& data_folder, const std::string& device, const std::string& stack,
               const std::string& kernel_model);

/// An engine that serves a model, as far as measured ones are told apart.
struct DeploymentKind {
  std::string engine;  ///< "vllm", "sglang", "trtllm"
  std::string device;
  bool experts = false;
  bool disaggregated = false;
  /// What those that were measured did not have: "another scheduler", …
  std::vector<std::string> unusual;
};

/// … of deployments: those of this kind were measured; only others of this engine were, the nearest
/// first by kind of model, then arrangement, then device; or none.
Trust trust_of(const std::string& data_folder, const DeploymentKind& kind);

}  // namespace orrery
