#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "orrery/kernel/measured_table.h"
#include "orrery/kernel/profile/kernel_place.h"
#include "orrery/kernel/profile/physical_time.h"
#include "orrery/learn/nearest_points.h"

namespace orrery {

/// A measured table as a source of times. A kernel that was measured has its measured time
/// (of repeats the median). Any other takes its utilisation u = physical / measured from
/// the k nearest rows of its kind (kernel_place.h),
///
///   ln u = Σ w ln u_i / Σ w,   w_i = (d_i² + ε)^-3/2,   d_i² = Σ_c (s_c Δ_c)²
///
/// with Δ the differences of log2 of the sizes and, of products on GPUs, of the loss to
/// whole waves; s_c is how much utilisation changes along c among neighbours in this very
/// table, relative to the other coordinates.
///
/// Its 90 % interval is exp(± q (1 + d)), d the distance to the nearest row, where q holds
/// nine in ten of the kind's rows when each is left out in turn.
class MeasuredProfile {
 public:
  /// Of the rows measured on `device`, or on a device not said. Throws `kInput` where there
  /// are none, or the table cannot be (measured_table_check.h).
  MeasuredProfile(const Device& device, const std::string& file);

  struct Reading {
    double seconds = 0;
    double watts = 0;     ///< 0: not recorded.
    double reach = 0;     ///< ln of the 90 % interval's upper end over `seconds`.
    double overhead = 0;  ///< What hardly any kernel of its kind stays below beyond its work.
    double distance = 0;  ///< To the nearest row, in octaves of a typical size; 0: measured.
    bool measured = false;
  };
  /// Nothing where the table has no kernel of that kind.
  std::optional<Reading> find(const Kernel& kernel, const OperatingPoint& point) const;

  /// Each kernel of the table as the others predict it, up to kMostLeftOut evenly spread
  /// ones of each kind; kinds of one kernel have nobody to ask.
  struct LeftOut {
    double measured = 0;   ///< seconds
    double predicted = 0;  ///< seconds
    double reach = 0;
    uint32_t kind = 0;  ///< A number for each kind.
  };
  const std::vector<LeftOut>& left_out() const { return left_out_; }
  static constexpr size_t kMostLeftOut = 5000;

  const PhysicalModel& physical() const { return physical_; }
  const std::string& file() const { return file_; }
  size_t rows() const { return rows_; }
  size_t kernels() const { return kernels_; }
  bool has(OperatingPoint::Regime regime) const { return has_regime_[static_cast<size_t>(regime)]; }
  bool has_clocks() const { return has_clocks_; }
  /// Inputs were rotated past the caches, as this project's own measuring does.
  bool cold() const { return cold_; }
  /// Rows that are hard to believe, with their line; they are used.
  const std::vector<std::string>& doubts() const { return doubts_; }
  /// "median 3.2 %, nine in ten within 11.3 %" over `left_out`; empty where there are none.
  std::string accuracy() const;

 private:
  static constexpr size_t kCoordinates = KernelPlace::kMostCoordinates + 1;
  static constexpr size_t kNeighbours = 8;
  using Coordinates = std::array<float, kCoordinates>;

  /// One kernel of the table, its repeats joined.
  struct Entry {
    Coordinates at{};  ///< Not yet scaled.
    double seconds = 0;
    double clock = 0;
    double watts = 0;
    double work = 0;  ///< The physical time without its floor, at the boost clock.
    float reach = 0;
    float ln_at_boost = 0;      ///< ln(measured / physical at the boost clock)
    float ln_at_own_clock = 0;  ///< The same at the clock it was measured at.
  };
  struct Kind {
    size_t dimensions = 0;
    std::vector<Entry> entries;
    Coordinates scale{};
    NearestPoints nearest;
    double reach = 0;     ///< q
    double overhead = 0;  ///< A fiftieth of its rows has less beyond the physical work.
  };
  struct Weighted {
    double ln_at_boost = 0, ln_at_own_clock = 0, watts = 0, distance = 0;
  };
  struct Place {
    uint32_t kind, entry;
  };

  static uint64_t key(uint64_t hash, OperatingPoint::Regime regime);
  void add_rows(const MeasuredTable& table);
  static void index(Kind& kind);
  static void learn_scale(Kind& kind);
  void leave_one_out();
  static std::optional<Weighted> weigh(const Kind& kind, const Coordinates& at,
                                       uint32_t left_out = NearestPoints::kNone);
  static Coordinates coordinates(const KernelPlace& place, const PhysicalTime& physical);

  PhysicalModel physical_;
  std::string file_;
  size_t rows_ = 0, kernels_ = 0;
  std::array<bool, 2> has_regime_{};
  bool has_clocks_ = false;
  bool cold_ = true;
  std::vector<std::string> doubts_;
  std::vector<Kind> kinds_;
  std::unordered_map<uint64_t, Place> measured_;    ///< By identity and regime.
  std::unordered_map<uint64_t, uint32_t> kind_of_;  ///< By kind and regime.
  std::vector<LeftOut> left_out_;
};

}  // namespace orrery
