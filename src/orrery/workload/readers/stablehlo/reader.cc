#include "orrery/workload/reader.h"

#include <fmt/format.h>

#include "orrery/workload/readers/stablehlo/parser.h"

namespace orrery {
namespace {

constexpr std::string_view kBytecodeMagic = "ML\xEFR";

class StableHloReader final : public Reader {
 public:
  bool recognises(const Source& source) const override {
    const std::string_view text = source.text();
    if (text.starts_with(kBytecodeMagic)) return true;
    if (source.name().ends_with(".mlir")) return true;
    const std::string_view head = text.substr(0, 65536);
    for (const std::string_view sign :
         {"module @", "module {", "module attributes", "func.func", "\"builtin.module\""})
      if (head.find(sign) != std::string_view::npos) return true;
    return false;
  }

  Workload read(const Source& source, const ReadOptions& options) const override {
    if (source.text().starts_with(kBytecodeMagic))
      throw_input(
          source.name(),
          fmt::format(
              "this is MLIR bytecode; convert it to text first: stablehlo-translate --deserialize "
              "{0} -o {0}.mlir (or in Python: print(jax.export.deserialize(data).mlir_module()))",
              source.name()));
    if (source.text().size() >= UINT32_MAX) throw_input(source.name(), "larger than 4 GB");
    refuse_named_bindings(options);
    return stablehlo::Parser(source, options).parse();
  }
};

const Registration<Reader> kStableHlo(
    {.name = "stablehlo",
     .summary = "StableHLO text (.mlir) as JAX, PyTorch/XLA and stablehlo-opt write it, pretty and "
                "generic forms",
     .source = "openxla/stablehlo docs/spec.md 1.20; MLIR language reference",
     .parameters = {}},
    [] { return std::make_unique<StableHloReader>(); });

}  // namespace
}  // namespace orrery
