#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/cluster/nccl/network_fit.h"
#include "orrery/learn/json_value.h"

namespace orrery {

/// What one algorithm and protocol cost on a fabric: launch + hops · hop + bytes / (share ·
/// the link's bandwidth).
struct LinkConstants {
  double launch_us = 0;
  double hop_us = 0;
  double share = 1;
};

/// What is measured and fitted; other kinds borrow from the one that moves data the same way.
enum class MeasuredKind : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kNvls,  ///< All-reduces that the switch adds: another curve than those of rings.
};
inline constexpr size_t kMeasuredKindCount = 5;
std::string_view name(MeasuredKind kind);  ///< "all-reduce" … "nvls"
MeasuredKind measured_kind(CollectiveKind kind, std::string_view algorithm);
/// Whether `kind` itself was measured.
bool is_measured(CollectiveKind kind);

/// How far truth lies from predictions, ln(truth / prediction): middle and one standard
/// deviation of the 90 % interval.
struct LinkSpread {
  double skew = 0;
  double spread = 0;
};

/// What was fitted for collectives on one fabric, from a table of nccl-tests' times
/// (link_calibration.h makes it). Physics is in the constants; `corrections` are what is left of
/// ln(time) by octave of bytes, for the rank counts that were measured.
struct LinkFit {
  static constexpr int kFirstOctave = 9;  // 512 bytes
  static constexpr int kOctaves = 21;     // to 512 MiB
  using Curve = std::array<double, kOctaves>;

  std::string system;    ///< A device, or "generic".
  std::string fabric;    ///< The tier: "nvlink", "pcie".
  double bandwidth = 0;  ///< Of the link in the table, bytes/s; 0 for "generic".
  std::string command;
  std::vector<std::string> tables;
  double bus_share = 0.8;   ///< Of the link's bandwidth that NCCL's tuning takes for granted.
  double ll_scale = 1;      ///< On what NCCL's tuning takes LL to reach.
  double nvls_share = 0.6;  ///< Of bus_share that NCCL's tuning takes NVLS to reach.
  std::map<std::string, LinkConstants, std::less<>> constants;     ///< "all-reduce ring ll"
  std::vector<int> ranks;                                          ///< Sorted.
  std::array<std::vector<Curve>, kMeasuredKindCount> corrections;  ///< By `ranks`.
  /// Added for elements of one byte, by kind, `ranks` and protocol.
  std::array<std::vector<std::array<double, kProtocolCount>>, kMeasuredKindCount> one_byte;
  std::array<std::array<LinkSpread, kProtocolCount>, kMeasuredKindCount> spreads{};
  /// Of calls that the host launches one by one, where measured: the least time by algorithm
  /// ("other" for those not named), and the share of memory bandwidth at which the buffer is
  /// copied first.
  std::map<std::string, double, std::less<>> eager_host_us;
  double eager_copy_share = 0;
  std::map<std::string, double, std::less<>> held_out;  ///< Errors on rows not fitted, by name.
  NetworkFit network;  ///< What several nodes add; a file of its own.

  /// The constants; where these were not measured those of another algorithm or kind, in the
  /// order in which they are alike.
  LinkConstants of(MeasuredKind kind, std::string_view algorithm, Protocol protocol) const;
  /// ln of what multiplies the physical time, interpolated over octaves and over ln(ranks).
  double correction(MeasuredKind kind, int ranks, double bytes) const;
  /// What elements of one byte add to it.
  double byte_correction(MeasuredKind kind, int ranks, Protocol protocol) const;
};

/// What a fit says of one call: its own device's rows held out of the fit, one node, as it was
/// measured.
CollectiveTrust trust_of(const LinkFit& fit, const Cluster& cluster, const CollectiveCall& call);

std::string to_json(const LinkFit& fit);
/// Throws `kInput` with the path of whatever is not as `to_json` writes it.
LinkFit link_fit_from_json(const JsonValue& value);

/// The fit of `cluster`'s inner tier under `data`/collectives: DEVICE.FABRIC.LIBRARY.json, or
/// else that of a device of the same chip, or else that of the A100 for older GPUs and
/// generic.FABRIC.LIBRARY.json, of Hopper, for others, or else generic.nvlink.LIBRARY.json.
LinkFit load_link_fit(const Cluster& cluster, const std::string& data, std::string_view library);
/// That over several devices, for NCCL.
LinkFit load_generic_link_fit(const std::string& fabric, const std::string& data);

}  // namespace orrery
