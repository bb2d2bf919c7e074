#include <fmt/format.h>

#include <algorithm>

#include "orrery/base/units.h"
#include "orrery/report/table.h"
#include "orrery/report/text.h"

namespace orrery {
namespace {

using Align = Table::Align;

std::string percent(double share) {
  return share < 10 ? fmt::format("{:.1f} %", 100 * share) : fmt::format("{:.0f} %", 100 * share);
}

/// By how much a prediction missed, and to which side.
std::string signed_error(const JudgedRow& r) {
  return fmt::format("{:+.1f} %", 100 * (r.predicted / r.measured - 1));
}

Table accuracy_table(const std::string& title) {
  return Table({{title},
                {"rows", Align::kRight},
                {"MAPE", Align::kRight},
                {"median", Align::kRight},
                {"p90", Align::kRight},
                {"worst", Align::kRight},
                {"Spearman", Align::kRight},
                {"inside", Align::kRight},
                {"p", Align::kRight},
                {"± half", Align::kRight},
                {"score", Align::kRight}});
}

void add(Table& table, const Accuracy& a) {
  table.add({a.name, std::to_string(a.rows), percent(a.mean_error), percent(a.median_error),
             percent(a.p90_error), percent(a.worst_error), fmt::format("{:.3f}", a.spearman),
             percent(a.coverage), fmt::format("{:.2f}", a.coverage_p), percent(a.median_half_width),
             a.constant_interval_score > 0
                 ? fmt::format("{:.2f}", a.interval_score / a.constant_interval_score)
                 : "-"});
}

std::string worst_text(const std::vector<JudgedRow>& rows) {
  Table table({{"row"},
               {"operator"},
               {"measured", Align::kRight},
               {"predicted", Align::kRight},
               {"error", Align::kRight},
               {"90 % within"}});
  for (const JudgedRow& r : rows)
    table.add({fmt::format("{}:{}", r.file, r.line), r.operation, format_seconds(r.measured),
               format_seconds(r.predicted), signed_error(r),
               fmt::format("{} … {}", format_seconds(r.low), format_seconds(r.high))});
  return "\nWorst rows\n" + table.text(2);
}

std::string left_out_text(const std::vector<LeftOut>& rows) {
  if (rows.empty()) return {};
  Table table({{"operator"}, {"rows", Align::kRight}, {"why"}});
  for (const LeftOut& l : rows) table.add({l.operation, std::to_string(l.rows), l.reason});
  return "\nLeft out\n" + table.text(2);
}

constexpr const char* kLegend =
    "errors are |predicted / measured - 1|; 'inside' the 90 % interval, 'p' the chance of a share "
    "as odd were it 90 %; '± half' the interval's median half-width over the prediction; "
    "'score' Winkler's of the intervals over that of one relative width that holds 90 % of the "
    "rows (below 1: they tell sure from unsure)";

}  // namespace

std::string calibration_text(const CalibrateAnswer& a, const CalibrateRequest& request) {
  std::string text =
      fmt::format("{} under {}: {} rows, each predicted by fits that had not seen {}\n\n",
                  request.device, request.stack, a.all.rows,
                  request.device == "generic" ? "its device (but see the notes)" : "it");
  Table classes = accuracy_table("class");
  for (const Accuracy& c : a.by_class) add(classes, c);
  add(classes, a.all);
  text += classes.text(2) + "\n";
  Table operators = accuracy_table("operator");
  for (const Accuracy& o : a.by_operator) add(operators, o);
  text += operators.text(2) + "\n" + hanging("  ", kLegend);
  text += worst_text(a.worst) + left_out_text(a.left_out) + list_text("Notes", a.notes);
  return text + fmt::format("\nThe fit is in {}: try --fit {}\n", a.out, a.out);
}

std::string validation_text(const ValidateAnswer& a, const ValidateRequest& request) {
  std::string text =
      fmt::format("{} on {}: {} rows\n", request.table, request.device, a.models.front().all.rows);
  for (const ModelAccuracy& m : a.models) {
    Table families = accuracy_table(m.model);
    for (const Accuracy& f : m.by_family) add(families, f);
    add(families, m.all);
    text += "\n" + families.text(2);
  }
  text += "\n" + hanging("  ", kLegend);
  return text + worst_text(a.worst) + left_out_text(a.left_out) + list_text("Notes", a.notes) +
         list_text("Not modelled", a.gaps);
}

}  // namespace orrery
