#include <fmt/format.h>

#include "orrery/base/units.h"
#include "orrery/report/table.h"
#include "orrery/report/text.h"

namespace orrery {
namespace {

using Align = Table::Align;

std::string nanoseconds(uint64_t value) {
  std::string digits = std::to_string(value);
  for (size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

/// Ranks that follow each other and end alike are one row.
Table rank_table(const std::vector<ReplayRank>& ranks, size_t most, size_t& left_out) {
  Table table({{"rank"},
               {"finish ns", Align::kRight},
               {"compute ns", Align::kRight},
               {"host ns", Align::kRight},
               {"exposed communication ns", Align::kRight}});
  size_t rows = 0;
  for (size_t first = 0, last = 0; first < ranks.size(); first = last) {
    while (last < ranks.size() && ranks[last] == ranks[first]) ++last;
    if (rows++ >= most) {
      left_out += last - first;
      continue;
    }
    const ReplayRank& r = ranks[first];
    table.add({last - first == 1 ? std::to_string(first) : fmt::format("{}–{}", first, last - 1),
               nanoseconds(r.finish_ns), nanoseconds(r.compute_ns), nanoseconds(r.host_ns),
               nanoseconds(r.exposed_communication_ns())});
  }
  return table;
}

}  // namespace

std::string replay_text(const ReplayAnswer& a, const ReplayRequest& request, size_t most) {
  std::string text = fmt::format("{} on {} ranks, {} congestion\n\n", request.prefix,
                                 a.ranks.size(), request.congestion ? "with" : "without");
  const auto line = [&](const char* what, const std::string& value) {
    text += fmt::format("  {:<13}{}\n", what, value);
  };
  line("total", fmt::format("{} ns ({})", nanoseconds(a.total_ns),
                            format_seconds(static_cast<double>(a.total_ns) * 1e-9)));
  line("nodes", nanoseconds(a.nodes));
  line("simulated",
       fmt::format("{}, {} messages",
                   a.folded ? "one rank for all, which do the same at the same time" : "every rank",
                   nanoseconds(a.messages)));
  text += "\nBy rank\n";
  size_t left_out = 0;
  text += rank_table(a.ranks, most, left_out).text(2);
  if (left_out > 0) text += fmt::format("  … and {} ranks more\n", left_out);
  text += list_text("Notes", a.notes);
  return text;
}

}  // namespace orrery
