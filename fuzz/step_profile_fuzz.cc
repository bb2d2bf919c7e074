// Any bytes at all, taken for a table of a step profile, must give a table or an orrery::Error, and
// a profile that was read must answer any size.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "orrery/base/error.h"
#include "orrery/serving/engine/step_profile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace orrery;
  static const TransformerDescription dense = load_language_model("llama2-7b");
  static const TransformerDescription experts = load_language_model("mixtral-8x7b");
  const Source source =
      Source::from_memory("fuzz.csv", std::string(reinterpret_cast<const char*>(data), size));
  for (const TransformerDescription* model : {&dense, &experts}) {
    try {
      StepTables tables;
      const ServingLayout layout;
      read_step_table(source, {*model, layout}, tables);
      for (const CollectiveTimes& times : tables.collectives)
        if (!(times.bytes.at(1e9) >= 0)) __builtin_trap();
      const StepProfile profile(tables, *model, layout, 0, 108);
      for (const int64_t x : {1, 17, 1 << 30}) {
        const std::array<PrefillChunk, 2> chunks{{{x, 3 * x, false}, {7, 0, true}}};
        StepShape shape;
        shape.prefills = chunks;
        shape.decodes = x;
        shape.decode_context = 5 * x;
        shape.longest_decode = 9;
        for (const double seconds : {profile.tokens(x), profile.experts(x), profile.head(x),
                                     profile.prompts(shape), profile.next(shape)})
          if (!(seconds >= 0)) __builtin_trap();
      }
    } catch (const Error&) {
    }
  }
  return 0;
}
