#pragma once

#include <string>
#include <vector>

#include "orrery/cli/command.h"

namespace orrery {

/// Options that `serving` and `capacity` share: the model, the device, the engine and who asks.
struct ServingOptions {
  ServingRequest request;
  ChoiceOptions model;
  std::vector<std::string> sets;  ///< What-ifs, those of the engine begin "engine.".
  std::string dtype, expert_dtype, kv_dtype, engine;
  std::string host_memory, host_link;
  double period_s = 86400, pause_s = 10;

  void declare_model(CLI::App& app);
  void declare_engine(CLI::App& app);
  void declare_layout(CLI::App& app);
  void declare_replicas(CLI::App& app);
  void declare_router(CLI::App& app);
  /// When requests come: a table, --rate, or users.
  void declare_times(CLI::App& app);
  /// How those of a rate follow each other, and all requests' lengths.
  void declare_traffic(CLI::App& app);
  void declare_price(CLI::App& app);
  /// With everything that was said put in its place.
  ServingRequest resolved() const;
};

/// "ttft=0.5s,tpot=50ms" and e2e; `kUsage` for another word.
ServiceLevel read_promise(const std::string& text);

}  // namespace orrery
