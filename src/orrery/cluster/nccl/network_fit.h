#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/cluster/algorithm.h"
#include "orrery/hardware/device.h"
#include "orrery/learn/json_value.h"

namespace orrery {

/// What a collective over several nodes costs beyond what the same costs inside one: a wait for
/// the host's thread that feeds the adapters, hops inside that are slower while chunks come from
/// outside, and the share of the adapters' bandwidth that is reached.
struct NetworkConstants {
  double wait_us = 0;
  double hop = 1;    ///< Over the hop inside a node.
  double share = 1;  ///< Of the adapters' bandwidth.
};

/// Fitted to logs of nccl-tests over several nodes (network_calibration.h makes it).
struct NetworkFit {
  std::string system;  ///< A device, or "generic".
  std::string command;
  std::vector<std::string> tables;
  std::map<std::string, NetworkConstants, std::less<>> constants;  ///< "all-reduce tree ll"
  double spread = 0;  ///< One standard deviation of ln(truth / prediction), of rows held out.
  std::map<std::string, double, std::less<>> held_out;  ///< Errors on rows not fitted, by name.

  /// The constants; those of another kind that the same algorithm and protocol run, where these
  /// were not measured; else NCCL's own, with the share `unmeasured`.
  NetworkConstants of(CollectiveKind kind, std::string_view algorithm, Protocol protocol,
                      double unmeasured) const;
};

std::string network_key(CollectiveKind kind, std::string_view algorithm, Protocol protocol);

std::string to_json(const NetworkFit& fit);
/// Throws `kInput` with the path of whatever is not as `to_json` writes it.
NetworkFit network_fit_from_json(const JsonValue& value);

/// What several nodes of `device` add: `data`/collectives/generic.network.json, and in place of
/// it what DEVICE.network.json, or that of a device of the same chip, has. Where there is
/// neither, a fit without constants.
NetworkFit load_network_fit(const Device& device, const std::string& data);

}  // namespace orrery
