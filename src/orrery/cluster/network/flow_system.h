#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "orrery/cluster/network/schedule.h"
#include "orrery/cluster/network/topology.h"

namespace orrery::fabric {

/// What a flow waits for.
enum class Wait : uint8_t {
  kSameTurn,      ///< The other's turn of the same number has arrived.
  kPreviousTurn,  ///< The turn before has arrived.
  kAllArrived,    ///< Every turn has arrived.
  kAllSent,       ///< Every turn has left.
};

/// Repeated flows over links of given capacity, in seconds and bytes: one phase, or many
/// joined by flows without bytes (a rank's entry into its next phase). Flat tables, for it is
/// walked millions of times.
struct FlowSystem {
  std::vector<double> bytes, latency, start;
  std::vector<int64_t> repeat;
  std::vector<double> capacity;  ///< Of each link.

  /// Links of flow i: entries first_link[i] up to first_link[i + 1]. `crossing` flows like
  /// this one cross each such link together, when the system is a folded one.
  std::vector<int> first_link = {0}, link;
  std::vector<double> crossing;

  /// What flow i waits for, likewise.
  std::vector<int> first_wait = {0}, wait_on;
  std::vector<Wait> wait;

  int size() const { return static_cast<int>(bytes.size()); }
  std::span<const int> links_of(int flow) const {
    const auto at = static_cast<size_t>(flow);
    return std::span(link).subspan(static_cast<size_t>(first_link[at]),
                                   static_cast<size_t>(first_link[at + 1] - first_link[at]));
  }
  /// The fastest it can go: its narrowest link; infinite without links.
  double rate_alone(int flow) const;
  /// No link is ever asked for more than it has, so that every flow runs at `rate_alone`.
  bool uncontended() const;
};

/// Flows of equal times, by colour refinement: two flows stay together as long as they have
/// the same bytes, latency, start and turns, cross links that stay together and wait for
/// flows that do; two links, as long as they have one capacity and carry equally many flows of
/// every class. Such a partition is equitable, so that max-min shares, and with them all
/// times, are the same throughout a class.
struct FoldedSystem {
  FlowSystem system;
  std::vector<int> class_of;  ///< Of each flow of the whole system.
};

/// The whole system itself where there is little to fold, or where symmetry is broken so that
/// refinement walks far (one slow link in a ring of thousands).
FoldedSystem fold(FlowSystem&& whole);

/// When the last turn of each flow has left its source.
using SentTimes = std::vector<double>;

/// Counters of the work done, for people and tests.
struct FlowWork {
  int64_t flows = 0;    ///< Simulated, after folding.
  int64_t events = 0;   ///< Starts, ends and arrivals, or turns evaluated.
  int64_t skipped = 0;  ///< Turns that repeat exactly and were not walked.
};

/// Event by event with max-min fair shares; only flows that meet a start or an end over
/// shared links get new rates. With `skip`, turns in a steady state are skipped.
SentTimes run_events(const FlowSystem& system, bool skip, FlowWork& work);

/// Without contention a turn's end is x_i(k) = d_i + max(x_i(k−1), x_j(k−1) + L_j, …), the
/// recurrence of a timed event graph (Baccelli et al., Synchronization and Linearity, 1992).
/// Its sequences are linear in k but for a few bends, which alone are walked; where bends
/// abound (more than `most_bends`, when not below 0), turn by turn. The system must be
/// `uncontended` with waits on turns alone.
SentTimes run_cascade(const FlowSystem& system, FlowWork& work, int64_t most_bends = -1);

/// Refuses, as `kInfeasible`, what would take hours: turns that each cost `cost` times one of
/// the recurrence above.
void check_work(double turns, double cost = 1);

}  // namespace orrery::fabric
