#include "orrery/workload/reader.h"

#include "orrery/workload/readers/stablehlo/bytecode_reader.h"
#include "orrery/workload/readers/stablehlo/parser.h"

namespace orrery {
namespace {

class StableHloReader final : public Reader {
 public:
  bool recognises(const Source& source) const override {
    const std::string_view text = source.text();
    if (text.starts_with(stablehlo::kBytecodeMagic)) return true;
    if (source.name().ends_with(".mlir")) return true;
    const std::string_view head = text.substr(0, 65536);
    for (const std::string_view sign :
         {"module @", "module {", "module attributes", "func.func", "\"builtin.module\""})
      if (head.find(sign) != std::string_view::npos) return true;
    return false;
  }

  Workload read(const Source& source, const ReadOptions& options) const override {
    refuse_named_bindings(options);
    if (source.text().starts_with(stablehlo::kBytecodeMagic))
      return stablehlo::BytecodeReader(source, options).read();
    if (source.text().size() >= UINT32_MAX) throw_input(source.name(), "larger than 4 GB");
    return stablehlo::Parser(source, options).parse();
  }
};

const Registration<Reader> kStableHlo(
    {.name = "stablehlo",
     .summary = "StableHLO text (.mlir) as JAX, PyTorch/XLA and stablehlo-opt write it, pretty and "
                "generic forms, and portable bytecode (.mlir.bc, VHLO 0.9 to 1.20)",
     .source = "openxla/stablehlo docs/spec.md 1.20 and docs/vhlo.md; MLIR language reference and "
               "bytecode format",
     .parameters = {}},
    [] { return std::make_unique<StableHloReader>(); });

}  // namespace
}  // namespace orrery
