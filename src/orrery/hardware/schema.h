#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/element_type.h"
#include "orrery/base/units.h"

namespace orrery {

/// One key that a device's file may hold. The table of them checks files and
/// what-ifs, orders what is printed and writes the table of docs/hardware.md.
struct SchemaRow {
  enum class Kind {
    kWord,      ///< Identity: words that need no source ("title").
    kFact,      ///< One of `choices`, with a source ("memory.technology").
    kQuantity,  ///< A number with the unit of `dimension`, with a source.
    kSection,   ///< Holds the keys whose paths begin with its own.
    kSources,   ///< The citations by key.
  };

  std::string path;  ///< "memory.l2.capacity"
  Kind kind = Kind::kQuantity;
  Dimension dimension = Dimension::kCount;
  /// Wherever its section stands; sections of the top level themselves always.
  bool required = false;
  /// A prediction wants it: where absent, `Device::gaps` says so.
  bool wanted = false;
  std::vector<std::string> choices;  ///< What the word may be; empty for any.
  std::string meaning;
};

/// All keys, in the order in which they are printed: memory from far to near.
std::span<const SchemaRow> device_schema();

/// The row of `path`, or null.
const SchemaRow* find_schema_row(std::string_view path);

/// The names allowed in the section at `path` ("" for the top), `source` included.
std::vector<std::string> keys_of_section(std::string_view path);

/// The paths of all quantities: what a what-if may address.
std::vector<std::string> quantity_paths();

/// Reads a quantity of `row`: `parse_quantity`, then the bounds of sense of its
/// dimension (a clock of 10 THz is a slip of the pen). Throws `std::invalid_argument`.
double parse_figure(std::string_view text, const SchemaRow& row);

/// Memory levels and links by their keys, in the order of the table.
std::span<const std::string_view> memory_level_names();
std::span<const std::string_view> link_names();

/// How a file names the number formats of peak rates, and what each stands for:
/// "fp8" is every 8-bit float, "int8" is signed and unsigned.
struct RateType {
  std::string_view name;
  std::vector<ElementType> types;
};
std::span<const RateType> rate_types();

/// The table as Markdown.
std::string schema_markdown();
std::string rows_markdown(std::span<const SchemaRow> rows);

}  // namespace orrery
