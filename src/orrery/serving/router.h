#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "orrery/base/registry.h"
#include "orrery/serving/replica.h"

namespace orrery {

/// Which replica a request goes to. Registered by name in `Registry<Router>`.
class Router {
 public:
  virtual ~Router() = default;
  virtual void seed(uint64_t seed) { (void)seed; }
  /// An index of `replicas`, of which there is one at least.
  virtual size_t choose(const Request& request, std::span<Replica* const> replicas,
                        Seconds now) = 0;
};

/// The router of that name; throws `kUsage` for one that is not there.
std::unique_ptr<Router> make_router(const std::string& name);

}  // namespace orrery
