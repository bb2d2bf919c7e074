// Any network YAML, system JSON and trace must be played or give an orrery::Error. The three
// are parted by a line of dashes; what would take long is left out.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "orrery/cluster/astra/simulation.h"

namespace {

std::string_view take_part(std::string_view& rest) {
  const size_t at = rest.find("\n---\n");
  const std::string_view part = rest.substr(0, at);
  rest.remove_prefix(at == std::string_view::npos ? rest.size() : at + 5);
  return part;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace astra = orrery::astra;
  using orrery::Source;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const std::string yaml(take_part(rest));
  const std::string json(take_part(rest));
  if (json.find("custom") != std::string::npos) return 0;  // reads files by name
  try {
    const astra::Network network = astra::read_network(Source::from_memory("n.yml", yaml));
    const astra::System system = astra::read_system(Source::from_memory("s.json", json));
    const orrery::chakra::Trace trace(Source::from_memory("t.0.et", std::string(rest)));
    if (network.ranks() > 8 || system.splits > 8 || trace.nodes().size() > 20) return 0;
    astra::Part part;
    part.trace = &trace;
    const std::vector<astra::Part> parts(static_cast<size_t>(network.ranks()), part);
    for (bool congestion : {false, true}) {
      astra::SimulationOptions options;
      options.congestion = congestion;
      astra::simulate(network, system, {}, parts, options);
    }
  } catch (const orrery::Error&) {
  }
  return 0;
}
