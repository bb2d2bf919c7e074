#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orrery/base/units.h"
#include "orrery/report/compare.h"
#include "orrery/report/table.h"
#include "orrery/report/text.h"

namespace orrery {
namespace {

using Align = Table::Align;

/// Of a difference that is nothing beside the step there are no shares to tell.
std::string share(double part, double whole, double step) {
  if (std::abs(whole) <= 1e-6 * step) return "–";
  const double percent = std::round(100 * part / whole);
  return fmt::format("{}{:.0f} %", percent < 0 ? "−" : "", std::abs(percent));
}

std::string per_second(double rate) {
  return rate >= 100 ? fmt::format("{:.0f}", rate) : fmt::format("{:.3g}", rate);
}

/// Three digits.
std::string ratio_text(double ratio) {
  return fmt::format("{:.{}f}", ratio, ratio < 0.1 ? 4 : ratio < 1 ? 3 : ratio < 10 ? 2 : 1);
}

}  // namespace

std::string signed_seconds(double seconds) {
  return seconds == 0 ? "0" : (seconds < 0 ? "−" : "+") + format_seconds(std::abs(seconds));
}

std::vector<std::vector<std::string>> figure_rows(const CompareAnswer& a,
                                                  const std::vector<std::string>& titles) {
  std::vector<std::vector<std::string>> rows;
  const auto row = [&](const std::string& what, auto&& cell) {
    rows.push_back({what});
    for (const Compared& c : a.on) rows.back().push_back(cell(c));
  };
  const auto any = [&](auto&& holds) { return std::any_of(a.on.begin(), a.on.end(), holds); };
  const Compared* baseline = &a.on.front();

  row("step time", [](const Compared& c) { return format_seconds(c.prediction.latency_s); });
  row("90 % within", [](const Compared& c) {
    return fmt::format("{} … {}", format_seconds(c.prediction.latency_low_s),
                       format_seconds(c.prediction.latency_high_s));
  });
  row("against " + titles.front(), [&](const Compared& c) {
    return &c == baseline ? std::string("–") : ratio_text(c.ratio.value) + " × as long";
  });
  row("90 % within", [&](const Compared& c) {
    return &c == baseline
               ? std::string("–")
               : fmt::format("{} … {}", ratio_text(c.ratio.low), ratio_text(c.ratio.high));
  });
  if (any([](const Compared& c) { return c.tokens_per_s > 0; }))
    row("tokens/s", [](const Compared& c) { return per_second(c.tokens_per_s); });
  if (any([](const Compared& c) {
        return c.samples_per_s > 0 && c.samples_per_s != c.tokens_per_s;
      }))
    row("samples/s", [](const Compared& c) { return per_second(c.samples_per_s); });
  row("single call", [](const Compared& c) { return format_seconds(c.prediction.single_call_s); });
  row("energy a step", [](const Compared& c) {
    return c.prediction.energy_known ? format_joules(c.prediction.energy_j)
                                     : std::string("not known");
  });
  if (any([](const Compared& c) { return c.clock_hz > 0; }))
    row("clock", [](const Compared& c) {
      return c.clock_hz > 0 ? fmt::format("{:.0f} MHz", c.clock_hz / 1e6)
                            : std::string("not known");
    });
  row("memory at peak", [](const Compared& c) {
    return fmt::format("{} of {}", format_bytes(c.prediction.memory.peak_bytes),
                       format_bytes(c.prediction.memory.capacity_bytes));
  });
  row("", [](const Compared& c) {
    return std::string(c.prediction.memory.fits ? "fits" : "DOES NOT FIT");
  });
  row("kernel model", [](const Compared& c) { return c.prediction.kernel_model; });
  row("trust", [](const Compared& c) { return c.prediction.trust.verdict; });
  return rows;
}

namespace {

std::string figures_text(const CompareAnswer& a, const std::vector<std::string>& titles) {
  std::vector<Table::Column> columns = {{""}};
  for (const std::string& title : titles) columns.push_back({title});
  Table table(std::move(columns));
  for (std::vector<std::string>& row : figure_rows(a, titles)) table.add(std::move(row));
  return table.text(2);
}

/// Time and difference from the baseline, for each of the other devices.
std::string families_text(const CompareAnswer& a, const std::vector<std::string>& titles) {
  std::vector<Table::Column> columns = {{"kernels"}, {titles.front(), Align::kRight}};
  for (size_t i = 1; i < titles.size(); ++i) {
    columns.push_back({titles[i], Align::kRight});
    columns.push_back({"difference", Align::kRight});
  }
  Table table(std::move(columns));
  const auto add = [&](const std::string& name, auto&& seconds) {
    std::vector<std::string> cells = {name, format_seconds(seconds(0))};
    for (size_t i = 1; i < titles.size(); ++i) {
      cells.push_back(format_seconds(seconds(i)));
      cells.push_back(signed_seconds(seconds(i) - seconds(0)));
    }
    table.add(std::move(cells));
  };
  for (const FamilyTimes& f : a.families) add(f.name, [&](size_t i) { return f.seconds[i]; });
  add("step time", [&](size_t i) { return a.on[i].prediction.latency_s; });
  return table.text(2);
}

/// The difference from the baseline by cause, the largest first.
std::string causes_text(const CompareAnswer& a, const std::vector<std::string>& titles) {
  std::vector<Table::Column> columns = {{"cause"}};
  for (size_t i = 1; i < titles.size(); ++i) {
    columns.push_back({titles[i], Align::kRight});
    columns.push_back({"share", Align::kRight});
  }
  Table table(std::move(columns));
  const auto add = [&](std::string_view name, auto&& seconds) {
    std::vector<std::string> cells = {std::string(name)};
    for (size_t i = 1; i < a.on.size(); ++i) {
      const double whole = a.on[i].prediction.latency_s - a.on[0].prediction.latency_s;
      cells.push_back(signed_seconds(seconds(a.on[i])));
      cells.push_back(share(seconds(a.on[i]), whole, a.on[0].prediction.latency_s));
    }
    table.add(std::move(cells));
  };
  for (Cause cause : causes_by_size(a))
    add(name(cause), [&](const Compared& c) { return c.difference[static_cast<size_t>(cause)]; });
  add("together", [&](const Compared& c) {
    return c.prediction.latency_s - a.on.front().prediction.latency_s;
  });
  return table.text(2);
}

}  // namespace

std::vector<Cause> causes_by_size(const CompareAnswer& a) {
  const auto largest = [&](Cause cause) {
    double most = 0;
    for (const Compared& c : a.on)
      most = std::max(most, std::abs(c.difference[static_cast<size_t>(cause)]));
    return most;
  };
  std::vector<Cause> causes;
  for (size_t i = 0; i < kCauseCount; ++i)
    if (largest(static_cast<Cause>(i)) > 1e-9 * a.on.front().prediction.latency_s)
      causes.push_back(static_cast<Cause>(i));
  std::stable_sort(causes.begin(), causes.end(),
                   [&](Cause x, Cause y) { return largest(x) > largest(y); });
  return causes;
}

std::string entry_text(const CompareEntry& entry) {
  std::string own = entry.stack.empty() ? "" : "stack " + entry.stack;
  for (const auto& [path, value] : entry.overrides)
    own += fmt::format("{}{} = {}", own.empty() ? "" : ", ", path, value);
  return own;
}

std::string cannot_hold_text(const std::string& title) {
  return title +
         " cannot hold it: its times are those of a device that could, and is otherwise the same";
}

std::vector<std::string> compare_titles(const std::vector<Compared>& on) {
  std::vector<std::string> titles;
  for (size_t i = 0; i < on.size(); ++i) {
    const auto same = std::count_if(on.begin(), on.end(), [&](const Compared& c) {
      return c.entry.device == on[i].entry.device;
    });
    titles.push_back(same > 1 ? fmt::format("{} [{}]", on[i].entry.device, i + 1)
                              : on[i].entry.device);
  }
  return titles;
}

std::string comparison_text(const CompareAnswer& a, const CompareRequest& request) {
  const std::vector<std::string> titles = compare_titles(a.on);
  std::string text =
      fmt::format("{} on {} devices ({})\n", request.workload, a.on.size(), request.stack);
  bool opened = false;
  for (size_t i = 0; i < a.on.size(); ++i) {
    const std::string own = entry_text(a.on[i].entry);
    if (own.empty()) continue;
    text += opened ? "" : "\n";
    opened = true;
    text += hanging(fmt::format("  {}: ", titles[i]), own);
  }
  text += "\n" + figures_text(a, titles);
  for (size_t i = 0; i < a.on.size(); ++i)
    if (!a.on[i].prediction.memory.fits) text += hanging("  ", cannot_hold_text(titles[i]));
  text += "\nWhere the time goes\n" + families_text(a, titles);
  text +=
      fmt::format("\nWhat makes the difference from {}\n", titles.front()) + causes_text(a, titles);
  std::vector<std::string> checked;
  for (size_t i = 0; i < a.on.size(); ++i)
    checked.push_back(fmt::format("{}: {}", titles[i], a.on[i].prediction.trust.detail));
  text += list_text("How far this was checked", checked);
  text += list_text("Not modelled, on all", a.gaps);
  for (size_t i = 0; i < a.on.size(); ++i)
    text += list_text(fmt::format("Not modelled, on {}", titles[i]).c_str(), a.on[i].gaps);
  return text;
}

}  // namespace orrery
