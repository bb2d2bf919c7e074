#include "orrery/api/compare.h"
#include "orrery/api/json_answer.h"

namespace orrery {
namespace {

JsonAnswer known(double value) { return value > 0 ? JsonAnswer(value) : JsonAnswer(); }

JsonAnswer compared_json(const Compared& c, const CompareRequest& request) {
  const PredictAnswer& p = c.prediction;
  JsonAnswer set = JsonAnswer::object();
  for (const auto& [path, value] : c.entry.overrides) set[path] = value;
  JsonAnswer causes = JsonAnswer::object();
  double total = 0;
  for (size_t i = 0; i < kCauseCount; ++i) {
    causes[std::string(name(static_cast<Cause>(i)))] = c.difference[i];
    total += c.difference[i];
  }
  JsonAnswer provenance = JsonAnswer::object();
  for (const auto& [key, value] : p.provenance) provenance[key] = value;
  return {{"name", to_text(c.entry)},
          {"device", c.entry.device},
          {"stack", c.entry.stack.empty() ? request.stack : c.entry.stack},
          {"set", set},
          {"kernel_model", p.kernel_model},
          {"latency_s", p.latency_s},
          {"latency_low_s", p.latency_low_s},
          {"latency_high_s", p.latency_high_s},
          {"ratio", c.ratio.value},
          {"ratio_low", c.ratio.low},
          {"ratio_high", c.ratio.high},
          {"single_call_s", p.single_call_s},
          {"energy_j", p.energy_known ? JsonAnswer(p.energy_j) : JsonAnswer()},
          {"clock_hz", known(c.clock_hz)},
          {"samples_per_s", known(c.samples_per_s)},
          {"tokens_per_s", known(c.tokens_per_s)},
          {"memory",
           {{"peak_bytes", p.memory.peak_bytes},
            {"capacity_bytes", p.memory.capacity_bytes},
            {"fits", p.memory.fits}}},
          {"difference_s", total},
          {"difference", causes},
          {"gaps", c.gaps},
          {"trust", {{"verdict", p.trust.verdict}, {"detail", p.trust.detail}}},
          {"provenance", provenance}};
}

}  // namespace

std::string to_json(const CompareAnswer& answer, const CompareRequest& request) {
  JsonAnswer on = JsonAnswer::array();
  for (const Compared& c : answer.on) on.push_back(compared_json(c, request));
  JsonAnswer families = JsonAnswer::array();
  for (const FamilyTimes& f : answer.families)
    families.push_back({{"name", f.name}, {"time_s", f.seconds}});
  return write({{"schema", schema("compare")},
                {"workload", request.workload},
                {"on", on},
                {"families", families},
                {"gaps", answer.gaps}});
}

}  // namespace orrery
