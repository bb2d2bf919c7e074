// Any bytes at all must give a table or an orrery::Error, and a table that was read must
// be checked without a fault; so must the same bytes taken for gzip's.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "orrery/base/data_folder.h"
#include "orrery/base/error.h"
#include "orrery/hardware/catalogue.h"
#include "orrery/kernel/measured_table_check.h"

namespace {

const orrery::Predictor& roofline() {
  using namespace orrery;
  static const std::unique_ptr<Predictor> kRoofline =
      Registry<KernelModel>::instance()
          .at("roofline", "kernel model")
          .create()
          ->bind(Catalogue(hardware_folder().string()).device("h200"), {});
  return *kRoofline;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace orrery;
  try {
    const MeasuredTable table = read_measured_table(
        Source::from_memory("fuzz.csv", std::string(reinterpret_cast<const char*>(data), size)));
    refuse_on_problems(table, check_measured_table(table, roofline()));
  } catch (const Error&) {
  }
  return 0;
}
