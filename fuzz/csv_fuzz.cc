// Any bytes at all must give a table or an orrery::Error, and what a table holds must
// read back the same when written.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "orrery/base/csv.h"
#include "orrery/base/error.h"

namespace {

std::string written(const orrery::CsvTable& table) {
  std::string text;
  const auto add = [&](std::string_view field, bool last) {
    // A lone empty field would read back as an empty line.
    text += field.empty() ? "\"\"" : orrery::csv_field(field);
    text += last ? '\n' : ',';
  };
  const size_t columns = table.header().size();
  for (size_t c = 0; c < columns; ++c) add(table.header()[c], c + 1 == columns);
  for (size_t r = 0; r < table.rows(); ++r)
    for (size_t c = 0; c < columns; ++c) add(table.at(r, c), c + 1 == columns);
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace orrery;
  try {
    const CsvTable table = CsvTable::parse(
        Source::from_memory("fuzz.csv", std::string(reinterpret_cast<const char*>(data), size)));
    const std::string text = written(table);
    if (written(CsvTable::parse(Source::from_memory("again.csv", text))) != text) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
