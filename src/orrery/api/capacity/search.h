#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orrery/api/capacity/trials.h"

namespace orrery {

/// Finds the arrangement that carries most, or that carries a given load at the least cost:
///
/// 1. every layout's pace from its step times; those which even at half as much again could not
///    come near the best are left out,
/// 2. roughly, by short runs that end once the promise is broken, all others, and the best ones
///    with other numbers of tokens in a step,
/// 3. the ones near the best, to 1 % and by whole runs, until the best is one of them.
class CapacitySearch {
 public:
  CapacitySearch(const CapacityRequest& request, const KnownEngines& engines,
                 const OfferedLoad& load, const Trials& trials, int devices, int threads);

  /// Those that keep the promise, best first.
  std::vector<Option> find();
  /// The best for 1, 2, 4 … devices, each found anew, and the best of `found`; of a given load,
  /// that one with more engines.
  std::vector<Option> frontier(const std::vector<Option>& found) const;
  /// Left out by their pace.
  const std::vector<ImpossibleLayout>& too_slow() const { return too_slow_; }
  /// Says what is in the way.
  [[noreturn]] void refuse_all() const;

 private:
  enum class Aim : uint8_t { kMostLoad, kFewestCopies };

  bool asked() const { return load_.asked() > 0; }
  double cost_of(const Option& option) const;
  bool better(const Option& a, const Option& b) const;
  bool near(const Option& option, const Option& best, double share) const;
  void sort(std::vector<Option>& options) const;
  /// Those that keep the promise, in the order given.
  std::vector<Option> tried(const std::vector<Option>& all, Aim aim, const Effort& effort) const;
  /// What the load takes by what one copy was found to carry.
  int copies_for_load(const Option& one) const;
  /// What a unit is worth by its pace, or by what it was found to carry: load, or load for its
  /// cost.
  double worth(const Option& unit, double load) const;
  /// What fleets on so many devices can be made of.
  std::vector<Option> units(int devices) const;
  /// What units on so many devices carry, but of those that are `too_slow`.
  std::vector<Option> roughly(std::vector<Option> units, int devices,
                              std::vector<ImpossibleLayout>& too_slow) const;
  /// The best of fewer devices than `found` was for, or none.
  std::optional<Option> best_of(int devices, const std::vector<Option>& found) const;
  std::vector<Option> with_more_engines(const Option& best) const;

  const CapacityRequest& request_;
  const KnownEngines& engines_;
  const OfferedLoad& load_;
  const Trials& trials_;
  int devices_;
  int threads_;
  std::vector<ImpossibleLayout> too_slow_;
};

}  // namespace orrery
