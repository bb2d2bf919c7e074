// Reads arbitrary bytes as boosted trees. Whatever they are, the answer is an
// orrery::Error or a model that writes itself as it was read, and whose batches agree with
// its single rows.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "orrery/base/error.h"
#include "orrery/learn/boosted_trees.h"

namespace {

orrery::BoostedTrees read(std::string text) {
  using namespace orrery;
  return trees_from_json(JsonValue::parse(Source::from_memory("fuzz.json", std::move(text))));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace orrery;
  try {
    const BoostedTrees trees = read(std::string(reinterpret_cast<const char*>(data), size));
    if (read(to_json(trees)) != trees) std::abort();
    constexpr size_t kRows = 13;  // enough to be predicted together
    constexpr std::array kValues = {-1e30f, -1.0f, 0.0f, 0.5f, 3.0f, 1e30f};
    Matrix rows(kRows, trees.features());
    for (size_t r = 0; r < kRows; ++r)
      for (size_t f = 0; f < trees.features(); ++f)
        rows.row(r)[f] = kValues[(r * 7 + f * 5) % kValues.size()];
    std::vector<float> out(kRows);
    trees.predict(rows, out);
    for (size_t r = 0; r < kRows; ++r)
      if (out[r] != trees.predict(rows.row(r))) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
