#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "orrery/base/units.h"
#include "orrery/report/compare.h"
#include "orrery/report/page_text.h"

namespace orrery {

/// The files of page/, from cmake/EmbedText.cmake.
namespace embedded {
extern const std::string_view page_css;
extern const std::string_view compare_html;
extern const std::string_view compare_css;
}  // namespace embedded

namespace {

/// The palette of page.js, and one more.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kColors = {{
    {"gemm", "#4e79a7"},
    {"convolution", "#59a14f"},
    {"attention", "#e15759"},
    {"elementwise", "#f28e2b"},
    {"reduction", "#b07aa1"},
    {"normalization", "#76b7b2"},
    {"data movement", "#9c755f"},
    {"indexed", "#d9b63c"},
    {"sort", "#ff9da7"},
    {"library", "#8cd17d"},
    {"collective", "#d37295"},
    {"waiting for the host", "#c6ccd6"},
}};

std::string_view color_of(std::string_view family) {
  const auto found = std::find_if(kColors.begin(), kColors.end(),
                                  [&](const auto& known) { return known.first == family; });
  return found == kColors.end() ? "#8a93a3" : found->second;
}

/// For each device its name, a bar of its families under a whisker, its time.
std::string steps_html(const CompareAnswer& a, const std::vector<std::string>& titles) {
  double longest = 0;
  for (const Compared& c : a.on) longest = std::max(longest, c.prediction.latency_high_s);
  std::string html;
  for (size_t i = 0; i < a.on.size(); ++i) {
    const PredictAnswer& p = a.on[i].prediction;
    std::string parts;
    for (const FamilyTimes& f : a.families)
      if (f.seconds[i] > 0)
        parts += fmt::format(R"(<span title="{}: {}" style="background:{};flex:0 0 {}"></span>)",
                             html_text(f.name), format_seconds(f.seconds[i]), color_of(f.name),
                             percent(f.seconds[i], longest));
    html += fmt::format(
        "      <span>{}</span>\n"
        R"(      <div><div class="whisker"><i style="left:{};width:{}"></i></div>)"
        R"(<div class="bar-of-parts">{}</div></div>)"
        "\n"
        R"(      <span class="amount">{}</span>)"
        "\n",
        html_text(titles[i]), percent(p.latency_low_s, longest),
        percent(p.latency_high_s - p.latency_low_s, longest), parts, format_seconds(p.latency_s));
  }
  return html;
}

std::string legend_html(const CompareAnswer& a) {
  std::string html;
  for (const FamilyTimes& f : a.families)
    html += fmt::format(R"(<li><i style="background:{}"></i>{}</li>)", color_of(f.name),
                        html_text(f.name));
  return html;
}

std::string families_html(const CompareAnswer& a, const std::vector<std::string>& titles) {
  std::vector<std::string> heads = {"", titles.front()};
  for (size_t i = 1; i < titles.size(); ++i) {
    heads.push_back(titles[i]);
    heads.emplace_back("difference");
  }
  std::vector<std::vector<std::string>> rows;
  for (const FamilyTimes& f : a.families) {
    rows.push_back({f.name, format_seconds(f.seconds[0])});
    for (size_t i = 1; i < titles.size(); ++i) {
      rows.back().push_back(format_seconds(f.seconds[i]));
      rows.back().push_back(signed_seconds(f.seconds[i] - f.seconds[0]));
    }
  }
  return table_html(heads, rows);
}

/// For each device but the first, a bar to either side of the middle for each cause.
std::string causes_html(const CompareAnswer& a, const std::vector<std::string>& titles) {
  const std::vector<Cause> causes = causes_by_size(a);
  double largest = 0;
  for (const Compared& c : a.on)
    for (double seconds : c.difference) largest = std::max(largest, std::abs(seconds));
  std::string html;
  for (size_t i = 1; i < a.on.size(); ++i) {
    html +=
        fmt::format("    <h3>{}: {}</h3>\n    <div class=\"causes\">\n", html_text(titles[i]),
                    signed_seconds(a.on[i].prediction.latency_s - a.on[0].prediction.latency_s));
    for (Cause cause : causes) {
      const double seconds = a.on[i].difference[static_cast<size_t>(cause)];
      const double from = seconds < 0 ? largest + seconds : largest;
      html += fmt::format(
          R"(      <span>{}</span><div class="lane"><i{} style="left:{};width:{}"></i></div>)"
          R"(<span class="amount">{}</span>)"
          "\n",
          name(cause), seconds > 0 ? R"( class="longer")" : "", percent(from, 2 * largest),
          percent(std::abs(seconds), 2 * largest), signed_seconds(seconds));
    }
    html += "    </div>\n";
  }
  return html;
}

}  // namespace

std::string comparison_page(const CompareAnswer& a, const CompareRequest& request) {
  const std::vector<std::string> titles = compare_titles(a.on);
  std::string names, cannot_hold, trust;
  std::string conditions = request.stack;
  std::string gaps = list_html("Not modelled, on all", a.gaps);
  for (size_t i = 0; i < a.on.size(); ++i) {
    const PredictAnswer& p = a.on[i].prediction;
    names += (names.empty() ? "" : ", ") + titles[i];
    if (const std::string own = entry_text(a.on[i].entry); !own.empty())
      conditions += fmt::format("; {}: {}", titles[i], own);
    if (!p.memory.fits)
      cannot_hold += R"(<p class="note">)" + html_text(cannot_hold_text(titles[i])) + "</p>";
    trust += fmt::format("<li>{}: {}, {}</li>", html_text(titles[i]), html_text(p.trust.verdict),
                         html_text(p.trust.detail));
    gaps += list_html("Not modelled, on " + titles[i], a.on[i].gaps);
  }
  std::vector<std::string> heads = titles;
  heads.insert(heads.begin(), "");
  return filled(embedded::compare_html,
                {{"{{title}}", html_text(fmt::format("{} on {}", request.workload, names))},
                 {"{{page_css}}", std::string(embedded::page_css)},
                 {"{{compare_css}}", std::string(embedded::compare_css)},
                 {"{{workload}}", html_text(request.workload)},
                 {"{{conditions}}", html_text(conditions)},
                 {"{{steps}}", steps_html(a, titles)},
                 {"{{legend}}", legend_html(a)},
                 {"{{figures}}", table_html(heads, figure_rows(a, titles))},
                 {"{{cannot_hold}}", cannot_hold},
                 {"{{baseline}}", html_text(titles.front())},
                 {"{{causes}}", causes_html(a, titles)},
                 {"{{families}}", families_html(a, titles)},
                 {"{{trust}}", trust},
                 {"{{gaps}}", gaps}});
}

}  // namespace orrery
