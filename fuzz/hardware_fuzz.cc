// Reads arbitrary bytes as a device's and as a cluster's description. Whatever they are, the
// answer is a device, a cluster or an `orrery::Error`.

#include <cstddef>
#include <cstdint>
#include <string>

#include "orrery/base/error.h"
#include "orrery/base/source.h"
#include "orrery/hardware/catalogue.h"
#include "orrery/hardware/cluster_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // An empty catalogue: what an input does must not depend on the files beside it.
  static const orrery::Catalogue catalogue("/nonexistent");
  const auto source = orrery::Source::from_memory(
      "/nonexistent/fuzz.yaml", std::string(reinterpret_cast<const char*>(data), size));
  try {
    catalogue.device_from(source);
  } catch (const orrery::Error&) {
  }
  // Its device would come from the catalogue: the fabric alone is read.
  try {
    const auto tree = orrery::read_cluster(
        source, [](const std::string&, const orrery::SourceLocation&) -> orrery::ClusterTree {
          throw orrery::Error(orrery::ErrorKind::kInput, "no parents here");
        });
    orrery::make_cluster(tree, {});
  } catch (const orrery::Error&) {
  }
  return 0;
}
