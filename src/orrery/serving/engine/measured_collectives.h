#pragma once

#include <memory>
#include <string>
#include <vector>

#include "orrery/cluster/collective.h"
#include "orrery/serving/engine/step_tables.h"

namespace orrery {

/// Collectives by measured times where a table has their kind, number of devices and devices of a
/// node, by a straight line between sizes in bytes; the others as `otherwise` predicts them.
/// Send-and-receive is of two devices, of two nodes where any two stages next to each other are.
class MeasuredCollectives final : public CollectivePredictor {
 public:
  MeasuredCollectives(std::shared_ptr<const CollectivePredictor> otherwise,
                      std::vector<CollectiveTimes> tables, int node_size);

  CollectiveEstimate predict(const CollectiveCall& call) const override;
  CollectiveTrust trust(const CollectiveCall& call) const override;
  std::vector<std::string> gaps() const override { return otherwise_->gaps(); }
  std::vector<std::pair<std::string, std::string>> provenance() const override;

  /// Throws `kInfeasible` where tables have this kind of collective but not for so many devices;
  /// true where it is timed by one.
  bool has(const CollectiveCall& call) const;

 private:
  /// Null: none.
  const CollectiveTimes* find(const CollectiveCall& call) const;

  std::shared_ptr<const CollectivePredictor> otherwise_;
  std::vector<CollectiveTimes> tables_;
  int node_size_;
};

}  // namespace orrery
