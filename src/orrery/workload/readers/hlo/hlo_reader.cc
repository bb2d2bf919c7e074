#include <memory>

#include "orrery/workload/reader.h"
#include "orrery/workload/readers/hlo/cursor.h"
#include "orrery/workload/readers/hlo/translation.h"

namespace orrery {
namespace {

class HloReader : public Reader {
 public:
  bool recognises(const Source& source) const override {
    // Comments may stand before the header. One that never ends is somebody else's.
    try {
      return hlo::Cursor(source).accept("HloModule ");
    } catch (const Error&) {
      return false;
    }
  }

  Workload read(const Source& source, const ReadOptions& options) const override {
    refuse_named_bindings(options);
    return hlo::read_module(source, options);
  }
};

const Registration<Reader> kRegistration(
    {.name = "hlo",
     .summary = "XLA's HLO text of optimised, partitioned modules (--xla_dump_to, as_text())",
     .source = "openxla/xla: xla/hlo/parser, xla/hlo/ir/hlo_opcode.h",
     .parameters = {}},
    [] { return std::make_unique<HloReader>(); });

}  // namespace
}  // namespace orrery
