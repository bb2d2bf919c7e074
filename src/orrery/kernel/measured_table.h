#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/source.h"
#include "orrery/kernel/clock_range.h"
#include "orrery/kernel/kernel.h"
#include "orrery/kernel/kernel_model.h"

namespace orrery {

/// One measurement of one kernel.
struct MeasuredRow {
  Kernel kernel;
  double seconds = 0;
  double sm_hz = 0;        ///< 0: not recorded.
  double watts = 0;        ///< Mean board power; 0: not recorded.
  uint64_t key = 0;        ///< Stable hash of the canonical operator, type, parameters and case.
  uint64_t group = 0;      ///< Of the case, where rows are held out with their program; else 0.
  uint32_t line = 0;       ///< Where the row begins in its file.
  uint16_t operation = 0;  ///< Into MeasuredTable::operations.
  uint16_t source = 0;     ///< Into MeasuredTable::sources.
  uint16_t device = 0;     ///< Into MeasuredTable::devices.
  OperatingPoint::Regime regime = OperatingPoint::Regime::kBurst;

  /// What rows that are held out together have in common.
  uint64_t fold() const { return group != 0 ? group : key; }
};

/// Measured kernels of one file, in its order.
struct MeasuredTable {
  enum class TimeUnit : uint8_t { kMicroseconds, kMilliseconds };

  std::string file;
  TimeUnit time_unit = TimeUnit::kMicroseconds;  ///< The file's own; rows hold seconds.
  bool quantizes = false;  ///< Products of 8-bit types include quantising their activations.
  bool warm = false;       ///< Kernels ran again and again on the same operands.
  bool eager = false;      ///< Each launch was timed by itself, with what the host takes.
  std::vector<std::string> operations;  ///< "gemm bf16"
  /// Who measured, and with which library's kernel where that is said: "orrery",
  /// "neusight", "aiconfigurator/torch.nn.functional.linear". Tables of different
  /// protocols disagree by several per cent on the same kernel.
  std::vector<std::string> sources;
  std::vector<std::string> devices;  ///< As the file names them; "" where it does not.
  std::vector<MeasuredRow> rows;
  /// Of a launch that does nothing on the machine that measured: the median of the rows
  /// whose op is `empty`, which are not among `rows`; 0 where there are none.
  double empty_seconds = 0;
};

/// Reads a measured table, compressed by gzip or not; its format is known by its header:
///  - this project's own, `op,dtype,params,us` and perhaps `us_min,us_max,sm_mhz,watts`
///    (tools/measure/kernels.py), times in µs; op `empty` with params {} is a launch that
///    does nothing, a yardstick for the machine; rows of one `case`, where there is that column,
///    were kernels of one program and are held out of fits together;
///  - its sustained form, `op,dtype,params,burst_us,burst_mhz,sustained_us,sustained_mhz,
///    sustained_watts`: two rows a line, power with the sustained one;
///  - aiconfigurator's (github.com/ai-dynamo/aiconfigurator), `op_name` gemm,
///    context_attention, generation_attention or moe, `latency` in ms, perhaps `power` in W;
///  - NeuSight's (github.com/sitar-lab/NeuSight), `op,device,…,latency_ms`, fp32, where N is
///    the contraction of linear and bmm, and a u after an operator's name (`addu`) makes
///    its second operand a scalar.
/// Other columns are passed over. Throws `kInput` with line and column for what is not
/// such a table, a value that is not a time, a clock that is not among `clocks`, an operator
/// or parameter that is not known.
MeasuredTable read_measured_table(const std::filesystem::path& path, const ClockRange& clocks = {});
MeasuredTable read_measured_table(const Source& source, const ClockRange& clocks = {});
inline constexpr size_t kMostMeasuredRows = size_t{1} << 20;

/// The catalogue's name of a device as drivers report it ("Tesla V100-PCIE-32GB" is
/// "v100-pcie-32gb"); a name not known is given back as it is.
std::string catalogue_name(std::string_view reported);

/// The rows measured on one device by its catalogue name, or on a device not said.
MeasuredTable rows_on_device(const MeasuredTable& table, std::string_view device);

}  // namespace orrery
