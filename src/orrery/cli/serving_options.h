#pragma once

#include <string>
#include <vector>

#include "orrery/base/units.h"
#include "orrery/cli/command.h"

namespace CLI {
class Option;
}

namespace orrery {

/// Options that `serving` and `capacity` share: the model, the device, the engine and who asks.
struct ServingOptions {
  ServingRequest request;
  ChoiceOptions model;
  std::vector<std::string> sets;  ///< What-ifs, those of the engine begin "engine.".
  std::string dtype, expert_dtype, kv_dtype, engine;
  std::string host_memory, host_link, price;
  double period_s = 86400, pause_s = 10;

  /// Gives back --on.
  CLI::Option* declare_model(CLI::App& app);
  void declare_engine(CLI::App& app);
  void declare_layout(CLI::App& app);
  void declare_replicas(CLI::App& app);
  void declare_router(CLI::App& app);
  /// When requests come: a table, --rate, or users.
  void declare_times(CLI::App& app);
  /// How those of a rate follow each other, and all requests' lengths.
  void declare_traffic(CLI::App& app);
  /// Of each kind of device.
  void declare_price(CLI::App& app);
  /// With everything that was said put in its place.
  ServingRequest resolved() const;
};

/// "h100-sxm:tp=2,replicas=3,role=prefill": what it does not say is as for all. `kUsage` for
/// another word.
PoolRequest read_pool(const std::string& text, const ServingRequest& all);
/// An amount above 0 with its unit; `kUsage`, naming the option, for anything else.
double read_amount(const std::string& text, Dimension dimension, const std::string& option);
/// "ttft=0.5s,tpot=50ms" and e2e; `kUsage` for another word.
ServiceLevel read_promise(const std::string& text);

}  // namespace orrery
