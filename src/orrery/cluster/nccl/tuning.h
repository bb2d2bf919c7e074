#pragma once

#include <array>

#include "orrery/cluster/algorithm.h"

namespace orrery::nccl {

/// Constants of NCCL's tuning model (NCCL 2.27, src/graph/tuning.cc): µs and GB/s. It chooses
/// the algorithm and protocol with the least latency + bytes / bandwidth.
inline constexpr std::array<double, kProtocolCount> kBaseRing = {6.6, 14.0, 8.4};
inline constexpr std::array<double, kProtocolCount> kBaseTree = {6.8, 14.0, 8.4};
/// One hop over NVLink, PCIe and a network.
inline constexpr std::array<std::array<double, kProtocolCount>, 3> kRingHop = {
    {{0.6, 1.9, 3.4}, {1.0, 2.5, 5.7}, {2.7, 4.0, 14.0}}};
inline constexpr std::array<std::array<double, kProtocolCount>, 3> kTreeHop = {
    {{0.6, 1.25, 4.0}, {1.0, 1.9, 4.0}, {5.0, 8.5, 14.0}}};
inline constexpr double kNvlsLatency = 25;
inline constexpr double kNvlsTreeNetHop = 20.9;
inline constexpr double kCollnetNetHop = 31;
/// The most that LL reaches, by generation, for one, two and more nodes.
inline constexpr std::array<std::array<double, 3>, 4> kMostLL = {
    {{39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {141.0, 45.0, 35.0}, {282.0, 90.0, 70.0}}};
/// Of a tree over one channel, Simple and LL128.
inline constexpr std::array<std::array<double, 3>, 4> kMostTree = {
    {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {38.7, 41.4, 36.0}, {70.0, 42.8, 24.0}}};
inline constexpr std::array<std::array<double, 3>, 4> kMostTreeLL128 = {
    {{20.0, 20.0, 20.0}, {20.0, 20.0, 20.0}, {36.7, 36.7, 29.0}, {55.6, 31.67, 20.0}}};
inline constexpr std::array<double, 4> kMostRingLL128 = {20.0, 20.0, 36.7, 40.0};
/// Posting to a network, on each step of a ring over several nodes.
inline constexpr double kNetOverhead = 1;
/// Trees fall short of the model at medium sizes: by protocol and powers of two from 64 bytes.
inline constexpr std::array<std::array<double, 24>, kProtocolCount> kTreeCorrection = {
    {{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
     {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
     {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
      .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}}};

/// 0, 1, 2 for one, two and more nodes.
constexpr size_t nodes_index(int nodes) { return nodes == 1 ? 0 : nodes == 2 ? 1 : 2; }
constexpr size_t inside_index(const NcclTopology& topology) { return topology.nvlink ? 0 : 1; }

/// The bandwidth of one channel graph over `place`, GB/s: what inside and network allow.
inline double graph_bandwidth(const GroupPlace& place, const NcclTopology& topology) {
  return place.nodes == 1 ? topology.bus_bandwidth
                          : std::min(topology.bus_bandwidth, topology.net_bandwidth);
}

}  // namespace orrery::nccl
