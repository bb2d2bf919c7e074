#pragma once

#include <string>
#include <vector>

#include "orrery/api/capacity.h"
#include "orrery/api/capacity/offered_load.h"
#include "orrery/api/capacity/pace.h"
#include "orrery/api/serving_fleet.h"

namespace orrery {

class Session;

/// Of a layout on a device: its engine, or why there is none, what a lone user sees, and what its
/// step times allow.
struct KnownEngine {
  std::string device;
  ServingLayout layout;
  std::optional<ServingEngine> engine;
  LoadPoint trickle;
  EnginePace pace;
  std::string fault;

  bool keeps() const { return engine && trickle.kept(); }
};

/// A kind of device, in the cluster it usually is in.
struct DeviceKind {
  EngineRequest engine;  ///< On such devices, limits included.
  Cluster cluster;
};

/// The engines that may serve: of every kind of device the layouts worth a try, from one device to
/// a node, or twice as many as the smallest engine that keeps the promise has.
class KnownEngines {
 public:
  KnownEngines(const Session& session, const CapacityRequest& request, const OfferedLoad& load,
               int threads);
  /// Builds them, of `devices` devices at most.
  void build(int devices);

  const std::vector<DeviceKind>& kinds() const { return kinds_; }
  const DeviceKind& kind(const std::string& device) const;
  const std::vector<KnownEngine>& all() const { return engines_; }
  const KnownEngine& of(const std::string& device, const ServingLayout& layout) const;
  /// The engines of an arrangement, memory divided as its tokens of a step ask.
  /// Engines alike, with the steps that were asked for or are usual.
  ArrangedPool pool(const std::string& role, const std::string& device, const ServingLayout& layout,
                    int replicas) const;
  /// What the pool's steps are filled up to; null where that is given, or is nothing.
  int64_t* variable_limit(ArrangedPool& pool) const;
  std::vector<EnginePool> pools(const Arrangement& arrangement) const;
  /// The same as a request, for `traffic`.
  ServingRequest serving(const Arrangement& arrangement, const TrafficRequest& traffic) const;

 private:
  void add(const DeviceKind& kind, const std::vector<ServingLayout>& layouts, int devices);

  const Session& session_;
  const CapacityRequest& request_;
  const OfferedLoad& load_;
  int threads_;
  std::vector<DeviceKind> kinds_;
  std::vector<KnownEngine> engines_;
};

}  // namespace orrery
