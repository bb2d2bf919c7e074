// Any bytes at all, taken for each of a step profile's tables, must give a table or an
// orrery::Error, and a table that was read must answer any size.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "orrery/base/error.h"
#include "orrery/serving/engine/step_profile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace orrery;
  const Source source =
      Source::from_memory("fuzz.csv", std::string(reinterpret_cast<const char*>(data), size));
  for (const auto read :
       {read_dense_times, read_attention_times, read_per_sequence_times, read_expert_times}) {
    try {
      StepTables tables;
      read(source, tables);
      for (const double x : {0.0, 1.0, 17.5, 1e9}) {
        for (const auto* layers : {&tables.dense, &tables.per_sequence})
          for (const auto& [name, grid] : *layers)
            if (!(grid.at(x) >= 0)) __builtin_trap();
        for (const RaggedGrid* grid : {&tables.prompts, &tables.next, &tables.experts})
          if (!grid->empty() && !(grid->at(x, 3 * x) >= 0)) __builtin_trap();
        if (!tables.mixed.empty() && !(tables.mixed.at(std::array{x, x, 2 * x, 3 * x}) >= 0))
          __builtin_trap();
      }
    } catch (const Error&) {
    }
  }
  return 0;
}
