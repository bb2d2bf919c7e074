#include "orrery/api/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace orrery {
namespace {

/// Refuses what would be compared with itself.
void require_entries(const CompareRequest& request) {
  if (request.on.size() < 2)
    throw_usage("a comparison needs two devices or more, e.g. 'h200,h100-sxm'");
  std::vector<CompareEntry> seen;
  for (CompareEntry entry : request.on) {
    if (entry.stack.empty()) entry.stack = request.stack;
    if (std::find(seen.begin(), seen.end(), entry) != seen.end())
      throw_usage(
          fmt::format("'{0}' stands there twice; to compare what-ifs or stacks, write e.g. "
                      "'{0}:memory.bandwidth=6TB/s' or '{0}:stack=torch-eager'",
                      entry.device));
    seen.push_back(std::move(entry));
  }
}

PredictRequest request_for(const CompareEntry& entry, const CompareRequest& all) {
  PredictRequest request;
  static_cast<ModelChoice&>(request) = all;
  request.workload = all.workload;
  request.device = entry.device;
  request.overrides = all.overrides;
  request.overrides.insert(request.overrides.end(), entry.overrides.begin(), entry.overrides.end());
  request.stack = entry.stack.empty() ? all.stack : entry.stack;
  request.point = all.point;
  request.read = all.read;
  return request;
}

/// By kernel family, then the gaps and the wait for the host.
constexpr size_t kTimeCount = static_cast<size_t>(kKernelFamilyCount) + 2;
std::array<double, kTimeCount> times_of(const StepDetail& step) {
  std::array<double, kTimeCount> seconds{};
  for (size_t i = 0; i < step.launches.size(); ++i)
    seconds[static_cast<size_t>(step.launches[i].kernel.family)] +=
        step.launches[i].count * step.estimates[i].seconds.value;
  seconds[kTimeCount - 2] = step.total.gaps.value;
  seconds[kTimeCount - 1] = std::max(0.0, step.total.host.value - step.total.device().value);
  return seconds;
}

std::vector<FamilyTimes> family_times(const std::vector<std::array<double, kTimeCount>>& times) {
  std::vector<FamilyTimes> families;
  for (size_t f = 0; f < kTimeCount; ++f) {
    FamilyTimes family;
    family.name = f == kTimeCount - 2   ? "launch gaps"
                  : f == kTimeCount - 1 ? "waiting for the host"
                                        : std::string(name(static_cast<KernelFamily>(f)));
    for (const auto& seconds : times) family.seconds.push_back(seconds[f]);
    if (*std::max_element(family.seconds.begin(), family.seconds.end()) > 0)
      families.push_back(std::move(family));
  }
  const auto largest_difference = [](const FamilyTimes& family) {
    double largest = 0;
    for (double s : family.seconds) largest = std::max(largest, std::abs(s - family.seconds[0]));
    return largest;
  };
  std::stable_sort(families.begin(), families.end(), [&](const auto& a, const auto& b) {
    return largest_difference(a) > largest_difference(b);
  });
  return families;
}

bool contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

/// Moves what every prediction lacks to the answer, the rest to its device.
void share_gaps(CompareAnswer& answer) {
  for (const std::string& gap : answer.on.front().prediction.gaps)
    if (std::all_of(answer.on.begin(), answer.on.end(),
                    [&](const Compared& c) { return contains(c.prediction.gaps, gap); }))
      answer.gaps.push_back(gap);
  for (Compared& c : answer.on)
    for (const std::string& gap : c.prediction.gaps)
      if (!contains(answer.gaps, gap)) c.gaps.push_back(gap);
}

}  // namespace

CompareEntry read_compare_entry(std::string_view text) {
  CompareEntry entry;
  const std::string whole(text);
  size_t end = std::min(text.find(':'), text.size());
  entry.device = text.substr(0, end);
  if (entry.device.empty()) throw_usage(fmt::format("'{}' names no device", whole));
  while (end < text.size()) {
    text.remove_prefix(end + 1);
    end = std::min(text.find(':'), text.size());
    const std::string_view part = text.substr(0, end);
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == part.size())
      throw_usage(fmt::format("'{}': behind a colon stands PATH=QUANTITY or stack=NAME, not '{}'",
                              whole, part));
    const std::string path(part.substr(0, equals)), value(part.substr(equals + 1));
    if (path == "stack")
      entry.stack = value;
    else
      entry.overrides.emplace_back(path, value);
  }
  return entry;
}

std::string to_text(const CompareEntry& entry) {
  std::string text = entry.device;
  if (!entry.stack.empty()) text += ":stack=" + entry.stack;
  for (const auto& [path, value] : entry.overrides) text += fmt::format(":{}={}", path, value);
  return text;
}

bool CompareAnswer::fits_somewhere() const {
  return std::any_of(on.begin(), on.end(),
                     [](const Compared& c) { return c.prediction.memory.fits; });
}

CompareAnswer Session::compare(const CompareRequest& request) const {
  require_entries(request);
  CompareAnswer answer;
  StepDetail baseline;
  std::vector<std::array<double, kTimeCount>> times;
  bool changes_figures = false;
  for (const CompareEntry& entry : request.on) {
    StepDetail step;
    Compared compared;
    compared.entry = entry;
    compared.prediction = predict(request_for(entry, request), &step);
    times.push_back(times_of(step));
    compared.clock_hz = step.clock.value;
    if (compared.prediction.latency_s > 0) {
      compared.samples_per_s = step.size.samples / compared.prediction.latency_s;
      compared.tokens_per_s = step.size.tokens / compared.prediction.latency_s;
    }
    if (answer.on.empty()) {
      baseline = std::move(step);
    } else {
      compared.ratio = step_ratio(baseline, step);
      compared.difference = difference(baseline, step);
      changes_figures |= step.device.name == baseline.device.name &&
                         entry.overrides != request.on.front().overrides;
    }
    answer.on.push_back(std::move(compared));
  }
  answer.families = family_times(times);
  share_gaps(answer);
  if (changes_figures)
    answer.gaps.emplace_back(
        "intervals of ratios between what-ifs of one device hold what its kernels err by, not how "
        "well the model follows a changed figure");
  return answer;
}

}  // namespace orrery
