#include "orrery/workload/readers/stablehlo/bytecode_file.h"

#include <fmt/format.h>

#include <array>
#include <bit>

namespace orrery::stablehlo {
namespace {

constexpr std::string_view kSectionNames[] = {
    "strings",   "dialects",  "attributes and types", "attribute and type offsets",
    "program",   "resources", "resource offsets",     "dialect version",
    "properties"};

}  // namespace

Section read_section(ByteCursor& cursor) {
  const uint8_t tag = cursor.byte();
  const uint64_t length = cursor.varint();
  Section section;
  section.kind = tag & 0x7F;
  if (section.kind >= Section::kCount)
    cursor.fail(fmt::format("section {} is not known", section.kind));
  if ((tag & 0x80) != 0) {
    const uint64_t alignment = cursor.varint();
    if (!std::has_single_bit(alignment))
      cursor.fail(fmt::format("a section aligned to {}, which is no power of two", alignment));
    cursor.bytes((alignment - cursor.offset() % alignment) % alignment);
  }
  section.inside.begin = cursor.offset();
  cursor.bytes(length);
  section.inside.end = cursor.offset();
  return section;
}

BytecodeFile::BytecodeFile(const Source& source) {
  ByteCursor cursor(source, {kBytecodeMagic.size(), source.text().size()});
  version = cursor.varint();
  if (version > kNewestVersion)
    cursor.fail(fmt::format("bytecode version {} is newer than {}, the newest known here", version,
                            kNewestVersion));
  const size_t producer_at = cursor.offset();
  const size_t producer_end = source.text().find('\0', producer_at);
  if (producer_end == std::string_view::npos) cursor.fail("the producer's name is not closed");
  producer = cursor.bytes(producer_end - producer_at);
  cursor.byte();

  std::array<std::optional<ByteRange>, Section::kCount> sections;
  while (!cursor.at_end()) {
    const size_t at = cursor.offset();
    const Section section = read_section(cursor);
    if (sections[section.kind])
      source.fail(at, fmt::format("a second section of {}", kSectionNames[section.kind]));
    sections[section.kind] = section.inside;
  }
  const auto required = [&](Section::Kind kind) {
    if (!sections[kind]) cursor.fail(fmt::format("there is no section of {}", kSectionNames[kind]));
    return *sections[kind];
  };
  read_strings(ByteCursor(source, required(Section::kStrings)));
  read_dialects(ByteCursor(source, required(Section::kDialects)));
  read_entries(ByteCursor(source, required(Section::kEntryOffsets)), required(Section::kEntries));
  if (sections[Section::kProperties])
    read_properties(ByteCursor(source, *sections[Section::kProperties]));
  program = required(Section::kProgram);
}

std::string_view BytecodeFile::string(ByteCursor& cursor) const {
  const size_t at = cursor.offset();
  const uint64_t index = cursor.varint();
  if (index >= strings.size())
    cursor.source().fail(at, fmt::format("string {} of {}", index, strings.size()));
  return strings[index];
}

/// Lengths, the last string's first, each with a closing zero; then the strings.
void BytecodeFile::read_strings(ByteCursor cursor) {
  const uint64_t number = cursor.count();
  std::vector<uint64_t> lengths(number);
  uint64_t total = 0;
  for (uint64_t i = 0; i < number; ++i) {
    const size_t at = cursor.offset();
    uint64_t& length = lengths[number - 1 - i];
    length = cursor.varint();
    if (length == 0 || length > cursor.left() || (total += length) > cursor.left())
      cursor.source().fail(
          at, fmt::format("a string of {} bytes where {} are left", length, cursor.left()));
  }
  if (total != cursor.left())
    cursor.fail(fmt::format("strings of {} bytes in all where {} are left", total, cursor.left()));
  strings.reserve(number);
  for (const uint64_t length : lengths) {
    const std::string_view with_zero = cursor.bytes(length);
    strings.push_back(with_zero.substr(0, length - 1));
  }
}

void BytecodeFile::read_dialects(ByteCursor cursor) {
  const uint64_t number = cursor.count();
  dialects.reserve(number);
  for (uint64_t i = 0; i < number; ++i) {
    if (version < kDialectVersions) {
      dialects.push_back(string(cursor));
      continue;
    }
    const size_t at = cursor.offset();
    const auto [index, versioned] = cursor.flagged();
    if (index >= strings.size())
      cursor.source().fail(at, fmt::format("string {} of {}", index, strings.size()));
    dialects.push_back(strings[index]);
    if (versioned) read_section(cursor);
  }
  if (version >= kOptionalArgumentLocations) cursor.varint();  // how many names follow
  while (!cursor.at_end()) {
    const size_t at = cursor.offset();
    const uint64_t dialect = cursor.varint();
    if (dialect >= dialects.size())
      cursor.source().fail(at, fmt::format("dialect {} of {}", dialect, dialects.size()));
    const uint64_t names = cursor.count();
    for (uint64_t i = 0; i < names; ++i) {
      const size_t name_at = cursor.offset();
      // From then on the lowest bit says whether the producer knew the operation.
      const uint64_t index = version >= kProperties ? cursor.flagged().first : cursor.varint();
      if (index >= strings.size())
        cursor.source().fail(name_at, fmt::format("string {} of {}", index, strings.size()));
      operations.push_back({static_cast<uint32_t>(dialect), strings[index]});
    }
  }
}

/// Sizes grouped by dialect: attributes, then types, one after the other in `data`.
void BytecodeFile::read_entries(ByteCursor offsets, ByteRange data) {
  const uint64_t attribute_count = offsets.count();
  const uint64_t type_count = offsets.count();
  attributes.reserve(attribute_count);
  types.reserve(type_count);
  size_t at = data.begin;
  const auto read = [&](std::vector<Entry>& entries, uint64_t number) {
    while (entries.size() < number) {
      const size_t group_at = offsets.offset();
      const uint64_t dialect = offsets.varint();
      if (dialect >= dialects.size())
        offsets.source().fail(group_at, fmt::format("dialect {} of {}", dialect, dialects.size()));
      const uint64_t members = offsets.count();
      if (members > number - entries.size())
        offsets.source().fail(group_at, fmt::format("{} entries where {} are left", members,
                                                    number - entries.size()));
      for (uint64_t i = 0; i < members; ++i) {
        const auto [size, encoded] = offsets.flagged();
        if (size > data.end - at)
          offsets.fail(fmt::format("an attribute or type of {} bytes where {} are left", size,
                                   data.end - at));
        entries.push_back({{at, at + size}, static_cast<uint32_t>(dialect), encoded});
        at += size;
      }
    }
  };
  read(attributes, attribute_count);
  read(types, type_count);
}

void BytecodeFile::read_properties(ByteCursor cursor) {
  const uint64_t number = cursor.count();
  properties.reserve(number);
  for (uint64_t i = 0; i < number; ++i) {
    const uint64_t size = cursor.varint();
    const size_t begin = cursor.offset();
    cursor.bytes(size);
    properties.push_back({begin, cursor.offset()});
  }
}

}  // namespace orrery::stablehlo
