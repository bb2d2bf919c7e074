#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "orrery/workload/readers/stablehlo/byte_cursor.h"

namespace orrery::stablehlo {

inline constexpr std::string_view kBytecodeMagic = "ML\xEFR";

/// MLIR's bytecode container, versions 0 to 6 (mlir.llvm.org/docs/BytecodeFormat):
/// where everything lies. What attributes, types and operations mean is left to
/// others; nothing is copied.
struct BytecodeFile {
  // What each version of the container added.
  static constexpr uint64_t kDialectVersions = 1;
  static constexpr uint64_t kIsolatedRegionsInSections = 2;
  static constexpr uint64_t kUseListOrders = 3;
  static constexpr uint64_t kOptionalArgumentLocations = 4;
  static constexpr uint64_t kProperties = 5;
  static constexpr uint64_t kNewestVersion = 6;

  struct OperationName {
    uint32_t dialect = 0;
    std::string_view name;
  };
  /// An attribute or a type.
  struct Entry {
    ByteRange bytes;
    uint32_t dialect = 0;
    bool encoded = true;  ///< By its dialect; else it is text as MLIR prints it.
  };

  /// Fails where anything but the entries' inside is malformed. `source` must outlive it.
  explicit BytecodeFile(const Source& source);

  uint64_t version = 0;
  std::string_view producer;
  std::vector<std::string_view> strings;
  std::vector<std::string_view> dialects;
  std::vector<OperationName> operations;
  std::vector<Entry> attributes;
  std::vector<Entry> types;
  std::vector<ByteRange> properties;
  ByteRange program;  ///< The block of top-level operations.

  /// A string named by its number.
  std::string_view string(ByteCursor& cursor) const;

 private:
  void read_strings(ByteCursor cursor);
  void read_dialects(ByteCursor cursor);
  void read_entries(ByteCursor offsets, ByteRange data);
  void read_properties(ByteCursor cursor);
};

/// A section's number and inside; the cursor moves past it.
struct Section {
  enum Kind : uint8_t {
    kStrings,
    kDialects,
    kEntries,
    kEntryOffsets,
    kProgram,
    kResources,
    kResourceOffsets,
    kDialectVersion,
    kProperties,
    kCount,
  };
  uint8_t kind = kCount;
  ByteRange inside;
};
Section read_section(ByteCursor& cursor);

}  // namespace orrery::stablehlo
