#include "orrery/report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "orrery/base/units.h"
#include "orrery/report/table.h"
#include "orrery/workload/zoo/zoo.h"

namespace orrery {
namespace {

using Align = Table::Align;

std::string percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : std::string("–");
}

/// Large counts with thousands separated by commas.
std::string count_text(double n) {
  std::string digits = fmt::format("{:.0f}", n);
  for (auto at = static_cast<ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

}  // namespace

std::string list_text(const char* title, const std::vector<std::string>& lines) {
  if (lines.empty()) return {};
  std::string text = fmt::format("\n{}\n", title);
  for (const std::string& l : lines) text += hanging("  - ", l);
  return text;
}

std::string prediction_text(const PredictAnswer& a, const PredictRequest& request, size_t most) {
  std::string text = fmt::format("{} on {} ({}, {})\n\n", request.workload, request.device,
                                 request.stack, a.kernel_model);
  const auto line = [&](const char* what, const std::string& value) {
    text += fmt::format("  {:<13}{}\n", what, value);
  };
  line("step time", fmt::format("{}   (90 % within {} … {})", format_seconds(a.latency_s),
                                format_seconds(a.latency_low_s), format_seconds(a.latency_high_s)));
  line("single call", format_seconds(a.single_call_s));
  if (a.composition.kernels_s > 0)
    line("kernels", fmt::format("{} together (γ = step / kernels − 1 = {:.3f})",
                                format_seconds(a.composition.kernels_s), a.composition.gamma));
  line("energy", a.energy_known ? fmt::format("{} a step", format_joules(a.energy_j))
                                : std::string("not known: the device's power is not published"));
  line("work", fmt::format("{}, {} of memory traffic, {} launches", format_si(a.flops, "FLOP"),
                           format_bytes(a.bytes), count_text(a.launches)));
  line("memory",
       fmt::format("{} at peak of {}: {}", format_bytes(a.memory.peak_bytes),
                   format_bytes(a.memory.capacity_bytes), a.memory.fits ? "fits" : "DOES NOT FIT"));
  line("",
       fmt::format(
           "arguments {}, outputs {}, temporaries {}{}{}", format_bytes(a.memory.arguments_bytes),
           format_bytes(a.memory.outputs_bytes), format_bytes(a.memory.temporaries_bytes),
           a.memory.constants_bytes > 0 ? ", constants " + format_bytes(a.memory.constants_bytes)
                                        : "",
           a.memory.aliased_bytes > 0 ? ", reused " + format_bytes(a.memory.aliased_bytes) : ""));
  if (!a.memory.peak_at.empty()) {
    std::string held;
    constexpr size_t kShown = 3;
    for (size_t i = 0; i < a.memory.holders.size() && i < kShown; ++i)
      held += fmt::format("{}{} {}", held.empty() ? "" : ", ", a.memory.holders[i].name,
                          format_bytes(a.memory.holders[i].bytes));
    text +=
        hanging("               ", fmt::format("most at {}; largest: {}", a.memory.peak_at, held));
  }
  text += hanging("  trust        ", fmt::format("{}: {}", a.trust.verdict, a.trust.detail));

  text += "\nWhere the time goes\n";
  Table causes({{"cause"}, {"time", Align::kRight}, {"share", Align::kRight}});
  for (const auto& [cause, seconds] : a.breakdown)
    if (seconds > 0) causes.add({cause, format_seconds(seconds), percent(seconds, a.latency_s)});
  text += causes.text(2);

  text += "\nLongest kernels\n";
  Table kernels({{"kernel"},
                 {"count", Align::kRight},
                 {"each", Align::kRight},
                 {"share", Align::kRight},
                 {"bound by"}});
  for (size_t i = 0; i < std::min(most, a.kernels.size()); ++i) {
    const KernelSummary& k = a.kernels[i];
    kernels.add({k.name, count_text(k.count), format_seconds(k.time_s / std::max(1.0, k.count)),
                 percent(k.time_s, a.latency_s), k.bound});
  }
  text += kernels.text(2);
  if (a.kernels.size() > most)
    text += fmt::format("  … and {} more kinds\n", a.kernels.size() - most);
  text += list_text("Not modelled", a.gaps);
  return text;
}

std::string inspection_text(const InspectAnswer& a, size_t most) {
  std::string text = fmt::format("{} ({})\n\n", a.name, a.format);
  const auto line = [&](const char* what, const std::string& value) {
    text += fmt::format("  {:<13}{}\n", what, value);
  };
  if (a.functions == 0)
    line("nodes", count_text(static_cast<double>(a.operations)));
  else
    line("operations",
         fmt::format(
             "{} in {} functions; {} with work to do a step{}",
             count_text(static_cast<double>(a.operations)), a.functions, count_text(a.executed),
             a.unknown_operations > 0 ? fmt::format(", {} UNKNOWN", a.unknown_operations) : ""));
  if (a.parameters > 0)
    line("parameters",
         fmt::format("{} ({})", count_text(a.parameters), format_bytes(a.parameter_bytes)));
  if (a.functions > 0) {
    line("arguments", format_bytes(a.arguments_bytes));
    line("outputs", format_bytes(a.outputs_bytes));
  }
  line("work", fmt::format("{}", format_si(a.total_flops, "FLOP")));
  for (const auto& [unit, flops] : a.flops)
    line("", fmt::format("{:<24}{}", unit, format_si(flops, "FLOP")));
  if (a.functions > 0)
    line("traffic", fmt::format("{} read, {} written, were each operation a kernel",
                                format_bytes(a.bytes_read), format_bytes(a.bytes_written)));
  if (a.partitions > 1 || a.replicas > 1)
    line("devices", fmt::format("{} partitions × {} replicas", a.partitions, a.replicas));
  for (const std::string& mesh : a.meshes) line("mesh", mesh);
  if (a.shardings > 0) line("shardings", fmt::format("{} kinds", a.shardings));

  text += "\nBy operation\n";
  Table operations({{"operation"},
                    {"in file", Align::kRight},
                    {"run", Align::kRight},
                    {"FLOP", Align::kRight},
                    {"traffic", Align::kRight}});
  size_t shown = 0;
  for (const auto& o : a.by_operation) {
    if (shown++ == most) break;
    operations.add({o.name, count_text(static_cast<double>(o.count)), count_text(o.executed),
                    o.flops > 0 ? format_si(o.flops, "") : "–",
                    o.bytes > 0 ? format_bytes(o.bytes) : "–"});
  }
  text += operations.text(2);
  if (a.by_operation.size() > most)
    text += fmt::format("  … and {} more\n", a.by_operation.size() - most);

  if (!a.collectives.empty()) {
    text += "\nCollectives\n";
    Table collectives({{"kind"},
                       {"run", Align::kRight},
                       {"bytes each", Align::kRight},
                       {"ranks a group", Align::kRight}});
    for (const auto& c : a.collectives)
      collectives.add({c.kind, count_text(c.count), format_bytes(c.bytes),
                       c.group_size > 0 ? std::to_string(c.group_size) : "all"});
    text += collectives.text(2);
  }
  text += list_text("Open sizes", a.dynamic);
  text += list_text("Notes", a.notes);
  return text;
}

std::string catalogue_text(const Catalogue& catalogue) {
  Table table({{"name"},
               {"device"},
               {"kind"},
               {"memory", Align::kRight},
               {"bandwidth", Align::kRight},
               {"bf16", Align::kRight},
               {"power", Align::kRight}});
  for (const Listing& l : catalogue.list())
    table.add({l.name, l.title, l.kind, format_bytes(l.memory.value),
               format_si(l.bandwidth.value, "B/s"),
               l.bf16.value > 0 ? format_si(l.bf16.value, "FLOP/s") : "–",
               l.power.value > 0 ? fmt::format("{:.0f} W", l.power.value) : "–"});
  Table clusters({{"cluster"}, {"title"}, {"device"}, {"tiers"}});
  for (const ClusterListing& l : catalogue.list_clusters())
    clusters.add({l.name, l.title, l.device, fmt::format("{}", fmt::join(l.tiers, ", "))});
  return table.text() + "\n" + clusters.text();
}

namespace {

/// Citations are long and shared by many figures: numbered in the table, written out once below.
std::string cited_text(const std::vector<CitedFigure>& figures) {
  std::vector<std::string> citations;
  Table table({{"figure"}, {"value", Align::kRight}, {"source"}});
  for (const CitedFigure& f : figures) {
    const auto known = std::find(citations.begin(), citations.end(), f.source);
    const auto number = known - citations.begin() + 1;
    if (known == citations.end()) citations.push_back(f.source);
    table.add({f.path, f.text, fmt::format("[{}]", number)});
  }
  std::string text = table.text(2) + "\nSources\n";
  for (size_t i = 0; i < citations.size(); ++i)
    text += hanging(fmt::format("  [{}] ", i + 1), citations[i]);
  return text;
}

}  // namespace

std::string cluster_text(const Catalogue& catalogue, const std::string& name,
                         const std::vector<Override>& overrides) {
  const Cluster cluster = catalogue.cluster(name, overrides);
  std::string text = fmt::format("{} ({}, up to {:.0f} {})\n\n", cluster.title, cluster.name,
                                 cluster.largest(), cluster.device.name);
  text += cited_text(catalogue.cluster_figures(name, overrides));
  if (!cluster.notes.empty()) text += "\n" + hanging("", cluster.notes);
  text += list_text("Not known", cluster.gaps);
  return text;
}

std::string device_text(const Catalogue& catalogue, const std::string& name,
                        const std::vector<Override>& overrides) {
  const Device device = catalogue.device(name, overrides);
  std::string text = fmt::format("{} ({}, {} {})\n\n", device.title, device.name, device.vendor,
                                 device.architecture);
  text += cited_text(catalogue.figures(name, overrides));
  if (!device.notes.empty()) text += "\n" + hanging("", device.notes);
  text += list_text("Not known", device.gaps);
  return text;
}

std::string models_text(const Session& session) {
  std::string text;
  for (const auto& [kind, descriptions] : session.models()) {
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", kind);
    for (const Description& d : descriptions) {
      text += fmt::format("  {}\n", d.name) + hanging("      ", d.summary);
      if (!d.source.empty()) text += hanging("      source: ", d.source);
      for (const Parameter& p : d.parameters)
        text += hanging(fmt::format("      {} = {}{}: ", p.name, p.default_value,
                                    p.settable && kind == "kernel models" ? " (--parameter)" : ""),
                        p.meaning);
    }
  }
  return text;
}

std::string zoo_text() {
  Table table({{"name"}, {"parameters", Align::kRight}, {"phases"}, {"model"}});
  // Models of a family leave the same questions open: each is told once.
  std::vector<std::pair<std::string, std::string>> meanings;
  std::map<std::string, std::vector<std::string>> families;
  for (const ZooModel& m : zoo_models()) {
    std::string phases;
    for (const std::string& p : m.phases) phases += (phases.empty() ? "" : " ") + p;
    for (const Choice& c : m.choices) {
      std::string choice = c.name + "=" + c.default_value;
      for (const std::string& v : c.values)
        if (v != c.default_value) choice += "|" + v;
      std::vector<std::string>& of = families[choice];
      if (of.empty()) meanings.emplace_back(choice, c.meaning);
      if (std::find(of.begin(), of.end(), m.family) == of.end()) of.push_back(m.family);
    }
    table.add({m.name,
               m.published_parameters > 0
                   ? format_si(static_cast<double>(m.published_parameters), "")
                   : "–",
               phases, m.title});
  }
  std::string text =
      table.text() + "\nChoices, for --choose NAME=CHOICE; the default comes first\n";
  for (const auto& [choice, meaning] : meanings) {
    std::string of;
    for (const std::string& family : families[choice]) of += (of.empty() ? "" : ", ") + family;
    text += fmt::format("  {}\n", choice) + hanging("      ", fmt::format("{} ({})", meaning, of));
  }
  return text;
}

}  // namespace orrery
