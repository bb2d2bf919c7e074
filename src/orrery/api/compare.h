#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "orrery/api/difference.h"
#include "orrery/api/session.h"
#include "orrery/api/step_ratio.h"

namespace orrery {

/// One side of a comparison: a device, and what is other there than elsewhere.
struct CompareEntry {
  std::string device;  ///< A catalogue name, or a YAML file.
  std::string stack;   ///< Empty: that of the request.
  std::vector<Override> overrides;

  bool operator==(const CompareEntry&) const = default;
};

/// "h200", "h200:memory.bandwidth=6TB/s", "h200:stack=torch-eager:stack.dispatch=20us": a device
/// and, each behind a colon, its what-ifs or its stack. `kUsage` for anything else.
CompareEntry read_compare_entry(std::string_view text);
/// As `read_compare_entry` takes it.
std::string to_text(const CompareEntry& entry);

struct CompareRequest : ModelChoice {
  std::string workload;  ///< A file, or a name of the zoo.
  /// Two or more, all different. The first is the baseline.
  std::vector<CompareEntry> on;
  std::vector<Override> overrides;  ///< For all; an entry's own come after them.
  std::string stack = "xla";
  OperatingPoint point = {OperatingPoint::Regime::kSustained, {}};
  ReadOptions read;
};

/// A workload on one of the devices.
struct Compared {
  CompareEntry entry;
  PredictAnswer prediction;
  double clock_hz = 0;            ///< That the step runs at; 0: not known.
  double samples_per_s = 0;       ///< Sequences or images; 0: not known.
  double tokens_per_s = 0;        ///< 0: it has none, or they are not known.
  StepRatio ratio;                ///< Of its step time to the baseline's.
  Difference difference{};        ///< From the baseline's step time, by cause.
  std::vector<std::string> gaps;  ///< Those of its prediction that not all share.
};

/// Time a step spends on kernels of a family, in gaps or waiting for the host: on each device.
struct FamilyTimes {
  std::string name;
  std::vector<double> seconds;  ///< In the order of CompareAnswer::on; they sum to step times.
};

struct CompareAnswer {
  std::vector<Compared> on;           ///< As asked for.
  std::vector<FamilyTimes> families;  ///< The largest difference from the baseline first.
  std::vector<std::string> gaps;      ///< Common to all.

  bool fits_somewhere() const;
};

std::string to_json(const CompareAnswer& answer, const CompareRequest& request);

}  // namespace orrery
