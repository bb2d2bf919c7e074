#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "orrery/serving/fleet.h"

namespace orrery {

/// What the share `quantile` of all requests is promised.
struct Promise {
  ServiceLevel level;
  double quantile = 0.99;
};

/// Which part of a promise is nearest to being broken, or is.
enum class PromiseTerm : uint8_t { kTtft, kTpot, kE2e };
/// "ttft", "tpot", "e2e"
std::string_view name(PromiseTerm term);

/// What users saw under a load.
struct LoadPoint {
  double load = 0;  ///< In whatever it is counted: requests a second, users …
  double rate = 0;  ///< Requests a second that came.
  Seconds ttft;     ///< At the promise's quantile, as …
  Seconds tpot;     ///< … these; infinite where more than the others were turned away.
  Seconds e2e;
  double output_tokens_per_s = 0;
  /// The largest of (what users saw) / (what they were promised), and whose it is.
  double strain = 0;
  PromiseTerm tightest = PromiseTerm::kTtft;

  bool kept() const { return strain <= 1; }
  Seconds of(PromiseTerm term) const {
    return term == PromiseTerm::kTtft ? ttft : term == PromiseTerm::kTpot ? tpot : e2e;
  }
};

/// The requests in the order they came, but the share `warm_up` of them that came first, while the
/// engines filled. Whoever was turned away waits for ever. A run says nothing of queues longer than
/// itself: promises of more than a quarter of the time over which requests came count as that.
LoadPoint load_point(double load, std::span<const RequestRecord> records, const Promise& promise,
                     double warm_up);

/// When a run of `count` requests has surely broken the promise, as `load_point` sees it.
GivingUp giving_up(const Promise& promise, int64_t count, double warm_up);

/// Whether a run of these requests, which do not wait for each other's answers, gives up whatever
/// its one engine does: more than are tolerated get to it only when their first token is due. As in
/// a replica, request i enters at
///
///   entry_i = max(arrival_i + before_engine, entry_(i-1) + front_end).
bool late_before_engines(RequestSource& source, Seconds before_engine, Seconds front_end,
                         const GivingUp& limit);

/// The loads between which a promise is broken.
struct LoadBracket {
  std::optional<LoadPoint> kept;    ///< The highest that was tried and kept it, …
  std::optional<LoadPoint> broken;  ///< … the lowest that did not.
};

/// Where to look for a load.
struct LoadSearch {
  double start = 1;
  double least = 0;
  double precision = 0.01;
  bool whole = false;  ///< Loads are whole numbers: users.
};

/// Goes up or down from `start`, by steps that grow (1 + 4 · precision, its square, …), until the
/// promise is kept and broken, and then halves the ratio between the two until it is
/// 1 + `precision` or less: what lies between is not known. Gives up below `least`, with nothing
/// kept. A promise that is kept at one load is taken to be kept at all lower ones.
LoadBracket highest_load(const std::function<LoadPoint(double)>& trial, const LoadSearch& search);

}  // namespace orrery
