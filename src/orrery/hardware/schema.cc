#include "orrery/hardware/schema.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace orrery {
namespace {

using Kind = SchemaRow::Kind;
using E = ElementType;

struct NamedPart {
  std::string_view name;
  std::string_view meaning;
};

constexpr std::array<NamedPart, 10> kLevels = {{
    {"infinity_cache", "AMD's memory-side cache"},
    {"l3", "Third-level cache"},
    {"cmem", "TPU v4's common memory"},
    {"l2", "Second-level cache"},
    {"sram", "On-chip memory shared by all units (Gaudi)"},
    {"l1", "First-level data cache"},
    {"vmem", "A TPU core's vector memory"},
    {"smem", "A TPU core's scalar memory"},
    {"shared", "Shared memory of one compute unit, LDS"},
    {"registers", "Register file of one compute unit"},
}};

constexpr std::array<NamedPart, 8> kLinks = {{
    {"nvlink", "NVIDIA GPU to GPU"},
    {"nvlink_c2c", "NVIDIA CPU to GPU in one module"},
    {"xgmi", "AMD Infinity Fabric between packages"},
    {"ici", "TPU to TPU"},
    {"ethernet", "Network ports on the device itself (Gaudi)"},
    {"upi", "Intel socket to socket"},
    {"dcn", "TPU host network"},
    {"pcie", "To the host"},
}};

std::vector<SchemaRow> make_schema() {
  std::vector<SchemaRow> rows;
  const auto word = [&](std::string path, bool required, std::string meaning,
                        std::vector<std::string> choices = {}) {
    rows.push_back({std::move(path), Kind::kWord, Dimension::kCount, required, false,
                    std::move(choices), std::move(meaning)});
  };
  const auto section = [&](std::string path, bool required, std::string meaning) {
    rows.push_back({std::move(path),
                    Kind::kSection,
                    Dimension::kCount,
                    required,
                    false,
                    {},
                    std::move(meaning)});
  };
  const auto quantity = [&](std::string path, Dimension dimension, std::string meaning,
                            bool required = false, bool wanted = false) {
    rows.push_back(
        {std::move(path), Kind::kQuantity, dimension, required, wanted, {}, std::move(meaning)});
  };

  word("inherits", false, "A catalogue name, or the path of a file relative to this one");
  word("title", true, "The product's name as its vendor writes it");
  word("kind", true, "What sort of machine", {"gpu", "tpu", "asic", "cpu"});
  word("vendor", true, "Who makes it");
  word("architecture", true, "Its generation in one word: hopper, cdna3, tpu-v5p");
  word("kernels_like", false,
       "A device of the same chip: its measured kernels and collectives are taken where this one "
       "has none");
  word("notes", false, "What a reader must know beside the figures");
  rows.push_back({"sources",
                  Kind::kSources,
                  Dimension::kCount,
                  false,
                  false,
                  {},
                  "Citations by key: data sheet or white paper with title and year or revision"});

  section("compute", true, "What calculates");
  quantity("compute.units", Dimension::kCount,
           "SMs, compute units, tensor cores of a TPU, CPU cores", true);
  section("compute.clock", false, "Clocks of the units");
  quantity("compute.clock.boost", Dimension::kFrequency,
           "Highest clock with all units busy; vector rates are stated at it", false, true);
  quantity(
      "compute.clock.matrix", Dimension::kFrequency,
      "Clock at which the matrix rates are stated, where it is not `boost` or `products` is given");
  quantity("compute.clock.base", Dimension::kFrequency, "Guaranteed clock");
  quantity("compute.clock.products", Dimension::kFrequency,
           "Clock to which the rate of large products amounts, where public and far from `boost`");
  section("compute.matrix", false,
          "Peak dense rates of matrix units (tensor cores, MXUs, AMX), with 32-bit accumulation");
  for (const RateType& type : rate_types())
    quantity(fmt::format("compute.matrix.{}", type.name), Dimension::kRate,
             fmt::format("Dense {} on matrix units", type.name));
  section("compute.vector", false, "Peak rates of vector units");
  for (const RateType& type : rate_types())
    quantity(fmt::format("compute.vector.{}", type.name), Dimension::kRate,
             fmt::format("{} on vector units", type.name), false, type.name == "fp32");
  quantity("compute.special", Dimension::kRate,
           "Special functions (exp, rsqrt, sin …) a second, one result each", false, true);
  section("compute.array", false, "Systolic arrays");
  quantity("compute.array.rows", Dimension::kCount, "Rows of one array", true);
  quantity("compute.array.columns", Dimension::kCount, "Columns of one array", true);
  quantity("compute.array.count", Dimension::kCount, "Arrays in the device", true);

  section("memory", true, "Main memory, and the levels between it and the units");
  rows.push_back({"memory.technology",
                  Kind::kFact,
                  Dimension::kCount,
                  true,
                  false,
                  {"HBM", "HBM2", "HBM2e", "HBM3", "HBM3e", "HBM4", "GDDR5", "GDDR6", "GDDR6X",
                   "GDDR7", "DDR4", "DDR5", "LPDDR4X", "LPDDR5", "LPDDR5X"},
                  "Of main memory; its letters before the digit name the level (`hbm`)"});
  quantity("memory.capacity", Dimension::kBytes, "As the vendor states it", true);
  quantity("memory.usable", Dimension::kBytes,
           "What the driver gives to programs, where it was read off a machine");
  quantity("memory.bandwidth", Dimension::kBandwidth, "Peak of main memory", true);
  rows.push_back(
      {"memory.check_bits",
       Kind::kFact,
       Dimension::kCount,
       false,
       false,
       {"inside", "none"},
       "Whether GDDR holds check bits in itself, which take a sixteenth of its capacity and make "
       "reading a tenth longer, as on professional boards (taken unless given), or has none: a fit "
       "of a board of the same chip is corrected by that"});
  for (const NamedPart& level : kLevels) {
    const std::string path = fmt::format("memory.{}", level.name);
    section(path, false, std::string(level.meaning));
    quantity(path + ".capacity", Dimension::kBytes, "Of one instance", true);
    quantity(path + ".instances", Dimension::kCount, "How many there are; 1 where not given");
    quantity(path + ".bandwidth", Dimension::kBandwidth, "Of all instances together");
  }

  section("links", false, "What joins the device to others");
  for (const NamedPart& link : kLinks) {
    const std::string path = fmt::format("links.{}", link.name);
    section(path, false, std::string(link.meaning));
    quantity(path + ".bandwidth", Dimension::kBandwidth, "Of all such links, in one direction",
             true);
    quantity(path + ".count", Dimension::kCount, "How many links; 1 where not given");
  }

  section("power", false, "Electrical power");
  quantity("power.limit", Dimension::kPower, "Board power, TDP", false, true);
  quantity("power.idle", Dimension::kPower, "At rest, powered");
  quantity("power.reference", Dimension::kPower,
           "The limit at which the chip would slow under load as others do at theirs, where "
           "measurements or its other boards tell; else `limit`");
  return rows;
}

/// Bounds of sense: wide enough for a microcontroller and for a rack, too narrow
/// for most slips of a prefix.
struct Bounds {
  double least;
  double most;
  std::string_view text;
};
Bounds bounds_of(Dimension dimension) {
  switch (dimension) {
    case Dimension::kTime:
      return {1e-12, 1e6, "1 ps to 1 Ms"};
    case Dimension::kEnergy:
      return {1e-18, 1e12, "1 aJ to 1 TJ"};
    case Dimension::kPower:
      return {1e-6, 1e6, "1 uW to 1 MW"};
    case Dimension::kFrequency:
      return {1e5, 1e11, "100 kHz to 100 GHz"};
    case Dimension::kBytes:
      return {1, 1e15, "1 B to 1 PB"};
    case Dimension::kBandwidth:
      return {1e3, 1e17, "1 kB/s to 100 PB/s"};
    case Dimension::kRate:
      return {1e6, 1e19, "1 MFLOP/s to 10 EFLOP/s"};
    case Dimension::kPrice:
      return {1e-6, 1e6, "0.000001 to 1,000,000 USD/h"};
    case Dimension::kCount:
      return {1, 1e6, "1 to 1,000,000"};
  }
  return {0, 0, ""};
}

std::string_view dimension_text(Dimension dimension) {
  switch (dimension) {
    case Dimension::kTime:
      return "time, `2 us`";
    case Dimension::kEnergy:
      return "energy, `20 pJ`";
    case Dimension::kPower:
      return "power, `700 W`";
    case Dimension::kFrequency:
      return "frequency, `1980 MHz`";
    case Dimension::kBytes:
      return "bytes, `141 GB` or `50 MiB`";
    case Dimension::kBandwidth:
      return "bandwidth, `4.8 TB/s`";
    case Dimension::kRate:
      return "rate, `989 TFLOP/s`";
    case Dimension::kPrice:
      return "price, `2.5 USD/h`";
    case Dimension::kCount:
      return "count, `132`";
  }
  return "";
}

std::string type_text(const SchemaRow& row) {
  switch (row.kind) {
    case Kind::kSection:
      return "section";
    case Kind::kSources:
      return "map of citations";
    case Kind::kQuantity:
      return std::string(dimension_text(row.dimension));
    case Kind::kWord:
    case Kind::kFact:
      break;
  }
  if (row.choices.empty()) return "text";
  return fmt::format("one of {}", fmt::join(row.choices, ", "));
}

template <size_t N>
std::array<std::string_view, N> names_of(const std::array<NamedPart, N>& parts) {
  std::array<std::string_view, N> names;
  for (size_t i = 0; i < N; ++i) names[i] = parts[i].name;
  return names;
}

}  // namespace

std::span<const RateType> rate_types() {
  static const std::array<RateType, 11> types = {{
      {"fp64", {E::kF64}},
      {"fp32", {E::kF32}},
      {"tf32", {E::kTF32}},
      {"fp16", {E::kF16}},
      {"bf16", {E::kBF16}},
      {"fp8",
       {E::kF8E3M4, E::kF8E4M3, E::kF8E4M3FN, E::kF8E4M3FNUZ, E::kF8E4M3B11FNUZ, E::kF8E5M2,
        E::kF8E5M2FNUZ}},
      {"fp6", {E::kF6E2M3FN, E::kF6E3M2FN}},
      {"fp4", {E::kF4E2M1FN}},
      {"int32", {E::kS32, E::kU32}},
      {"int8", {E::kS8, E::kU8}},
      {"int4", {E::kS4, E::kU4}},
  }};
  return types;
}

std::span<const SchemaRow> device_schema() {
  static const std::vector<SchemaRow> rows = make_schema();
  return rows;
}

const SchemaRow* find_schema_row(std::string_view path) {
  for (const SchemaRow& row : device_schema())
    if (row.path == path) return &row;
  return nullptr;
}

std::vector<std::string> keys_of_section(std::string_view path) {
  std::vector<std::string> keys;
  for (const SchemaRow& row : device_schema()) {
    const size_t dot = row.path.rfind('.');
    const std::string_view owner =
        dot == std::string::npos ? std::string_view() : std::string_view(row.path).substr(0, dot);
    if (owner == path) keys.push_back(row.path.substr(dot == std::string::npos ? 0 : dot + 1));
  }
  keys.emplace_back("source");
  return keys;
}

std::vector<std::string> quantity_paths() {
  std::vector<std::string> paths;
  for (const SchemaRow& row : device_schema())
    if (row.kind == Kind::kQuantity) paths.push_back(row.path);
  return paths;
}

double parse_figure(std::string_view text, const SchemaRow& row) {
  const double value = parse_quantity(text, row.dimension);
  const Bounds bounds = bounds_of(row.dimension);
  if (!(value >= bounds.least && value <= bounds.most))
    throw std::invalid_argument(
        fmt::format("'{}' is out of range; {} goes from {}", text, row.path, bounds.text));
  if (row.dimension == Dimension::kCount && value != std::floor(value))
    throw std::invalid_argument(fmt::format("'{}' is not a whole number", text));
  return value;
}

std::span<const std::string_view> memory_level_names() {
  static const auto names = names_of(kLevels);
  return names;
}

std::span<const std::string_view> link_names() {
  static const auto names = names_of(kLinks);
  return names;
}

std::string schema_markdown() { return rows_markdown(device_schema()); }

std::string rows_markdown(std::span<const SchemaRow> rows) {
  std::string text = "| key | value | | meaning |\n|---|---|---|---|\n";
  for (const SchemaRow& row : rows)
    text += fmt::format("| `{}` | {} | {} | {} |\n", row.path, type_text(row),
                        row.required ? "required" : "", row.meaning);
  return text;
}

}  // namespace orrery
