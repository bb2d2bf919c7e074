#include <memory>

#include "orrery/workload/reader.h"
#include "orrery/workload/readers/onnx/translator.h"

namespace orrery {
namespace {

class OnnxReader : public Reader {
 public:
  bool recognises(const Source& source) const override {
    return onnx::looks_like_model(source) || source.name().ends_with(".onnx");
  }

  Workload read(const Source& source, const ReadOptions& options) const override {
    const onnx::Model model = onnx::parse_model(source);
    return onnx::Translator(source, options, model).run();
  }
};

const Registration<Reader> kOnnx(
    {.name = "onnx",
     .summary = "ONNX models (.onnx), operator sets 1 to 27 of ai.onnx and common com.microsoft "
                "operators; shapes are inferred here, open dimensions bound by name",
     .source = "https://github.com/onnx/onnx/blob/main/docs/Operators.md",
     .parameters = {}},
    [] { return std::make_unique<OnnxReader>(); });

}  // namespace
}  // namespace orrery
