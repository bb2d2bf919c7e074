#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/element_type.h"
#include "orrery/base/units.h"

namespace orrery {

struct DeviceTree;

/// Peak dense rate by element type; 0 where the unit does not take that type.
class PeakRates {
 public:
  FlopsPerSecond operator[](ElementType type) const {
    return FlopsPerSecond(rates_[static_cast<size_t>(type)]);
  }
  void set(ElementType type, FlopsPerSecond rate) {
    rates_[static_cast<size_t>(type)] = rate.value;
  }

 private:
  std::array<double, kElementTypeCount> rates_{};
};

/// One level of the memory hierarchy, nearest to the compute units last.
struct MemoryLevel {
  std::string name;          ///< "hbm", "l2", "shared", "registers", "vmem" …
  Bytes capacity;            ///< Of one instance.
  BytesPerSecond bandwidth;  ///< Of all instances together; 0 where no source gives it.
  int instances = 1;
};

struct Link {
  std::string name;          ///< "nvlink", "pcie", "ici", "xgmi" …
  BytesPerSecond bandwidth;  ///< All links of this kind, per direction.
  int count = 1;
};

/// What a prediction needs to know of one accelerator: a view on the component
/// tree of its catalogue file (catalogue.h), with every figure in SI units.
struct Device {
  std::string name;   ///< "h200"
  std::string title;  ///< "NVIDIA H200 SXM 141 GB"
  std::string kind;   ///< "gpu", "tpu", "asic", "cpu"
  std::string vendor;
  std::string architecture;  ///< "hopper", "cdna3", …
  std::string kernels_like;  ///< A device of the same chip, by whose fits kernels may be timed.
  std::string notes;         ///< What a reader must know beside the figures; may be empty.
  int compute_units = 0;     ///< SMs, CUs, cores.
  Hertz clock;         ///< Boost clock, at which the vector rates are stated; 0: not published.
  Hertz matrix_clock;  ///< At which the matrix rates are stated: `clock` but for some NVIDIA parts.
  Hertz base_clock;    ///< 0 where not published.
  Hertz products_clock;    ///< To which the rate of large products amounts, if public; else 0.
  PeakRates matrix;        ///< Tensor cores, MXUs, AMX …
  PeakRates vector;        ///< CUDA cores, vector units.
  FlopsPerSecond special;  ///< Transcendental functions; 0: a quarter of the fp32 vector rate.
  int array_rows = 0;      ///< Of one systolic array; 0 for other machines.
  int array_columns = 0;
  int arrays = 0;
  std::vector<MemoryLevel> memory;  ///< Main memory first.
  bool check_bits = true;           ///< Those of GDDR lie in it, and make reading a tenth longer.
  Bytes usable_memory;  ///< What programs can have; the capacity where no machine was asked.
  std::vector<Link> links;
  Watts power_limit;
  Watts rated_power;              ///< The limit it is sold with, which a what-if leaves; 0: that.
  Watts idle_power;               ///< 0 where not known.
  Watts reference_power;          ///< What its power scales with; 0: what it is rated at.
  std::vector<std::string> gaps;  ///< Figures the prediction wants and the file lacks.
  std::shared_ptr<const Device> as_described;  ///< Before a what-if; null: there was none.

  const MemoryLevel& main_memory() const { return memory.front(); }
  /// The level called `name`, or null.
  const MemoryLevel* level(std::string_view name) const;
};

/// The view on `tree`, which the reader has checked.
Device make_device(const DeviceTree& tree);

}  // namespace orrery
