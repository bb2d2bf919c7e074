#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "orrery/api/collective_network.h"
#include "orrery/hardware/catalogue.h"

namespace orrery {

/// Where collectives run and by what.
struct CollectiveChoice {
  std::string cluster;  ///< A catalogue name, or a YAML file.
  std::vector<Override> overrides;
  std::string library;    ///< Empty: what the cluster's devices come with.
  std::string algorithm;  ///< Forced; empty: the library chooses.
  std::string protocol;   ///< Forced.
};

/// One collective, as nccl-tests count its bytes.
struct CollectiveRequest : CollectiveChoice {
  std::string kind;
  double bytes = 0;
  int ranks = 0;
  int stride = 1;
  std::string dtype = "bf16";
  CollectiveNetwork network;
};

struct CollectiveAnswer {
  double latency_s = 0, latency_low_s = 0, latency_high_s = 0;
  std::string algorithm, protocol;
  int channels = 0;
  double sent_bytes = 0;                  ///< By one rank.
  double algorithm_bandwidth = 0;         ///< bytes / time
  double bus_bandwidth = 0;               ///< As nccl-tests count it.
  std::string verdict, detail;            ///< How far it was checked.
  std::optional<NetworkFigures> network;  ///< Of a simulated one.
  std::vector<std::string> gaps;
  std::vector<std::pair<std::string, std::string>> provenance;
};

/// Fits a library's constants to tables of measured collectives.
struct CollectiveFitRequest {
  std::vector<std::pair<std::string, std::string>> tables;  ///< Cluster and CSV; several: generic.
  std::string library = "nccl";
  std::string out;
};

struct CollectiveFitAnswer {
  std::string out, command, system;
  std::map<std::string, double, std::less<>> held_out;  ///< "rows", "mean", "median", "p90"
};

std::string to_json(const CollectiveAnswer& answer, const CollectiveRequest& request);
std::string to_json(const CollectiveFitAnswer& answer, const CollectiveFitRequest& request);

}  // namespace orrery
