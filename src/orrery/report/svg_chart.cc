#include "orrery/report/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orrery/report/page_text.h"

namespace orrery {
namespace {

constexpr double kWidth = 560, kHeight = 230;
constexpr double kLeft = 58, kRight = 12, kTop = 22, kBottom = 38;

/// Numbers to places.
struct Axis {
  double low = 0, high = 1;
  double from = 0, to = 1;
  bool logarithmic = false;

  double at(double value) const {
    const double share =
        logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return from + share * (to - from);
  }
};

std::vector<double> powers(double low, double high) {
  std::vector<double> ticks;
  for (double tick = low; tick <= high * 1.0001; tick *= 10) ticks.push_back(tick);
  return ticks;
}

}  // namespace

std::vector<double> round_steps(double most) {
  if (!(most > 0)) return {0};
  const double rough = most / 5;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double times : {5.0, 2.0, 1.0})
    if (times * power >= rough * 0.9999) step = times * power;
  std::vector<double> steps;
  for (int i = 0; i * step <= most * 1.0001; ++i) steps.push_back(i * step);
  return steps;
}

std::string svg_chart(const Chart& chart) {
  double most_x = std::max(0.0, chart.here), most_y = std::max(0.0, chart.promised),
         least_y = chart.promised > 0 ? chart.promised : INFINITY;
  const auto drawn = [&](const std::pair<double, double>& p) {
    return std::isfinite(p.first) && std::isfinite(p.second) &&
           (!chart.logarithmic || p.second > 0);
  };
  for (const ChartLine& line : chart.lines)
    for (const auto& p : line.points) {
      if (!drawn(p)) continue;
      most_x = std::max(most_x, p.first);
      most_y = std::max(most_y, p.second);
      least_y = std::min(least_y, p.second);
    }
  if (most_x <= 0) most_x = 1;
  if (most_y <= 0) most_y = 1;
  const Axis x = {0, most_x, kLeft, kWidth - kRight, false};
  Axis y = {0, most_y * 1.05, kHeight - kBottom, kTop, false};
  std::vector<double> ticks = round_steps(most_y);
  if (chart.logarithmic && std::isfinite(least_y)) {
    y.logarithmic = true;
    y.low = std::pow(10, std::floor(std::log10(least_y)));
    y.high = std::max(10 * y.low, std::pow(10, std::ceil(std::log10(most_y))));
    ticks = powers(y.low, y.high);
  }
  std::string svg =
      fmt::format(R"(<svg class="chart" viewBox="0 0 {:g} {:g}" role="img" aria-label="{}">)",
                  kWidth, kHeight, html_text(chart.y_title));
  for (const double tick : ticks)
    svg += fmt::format(R"(<line class="grid" x1="{0:.1f}" x2="{1:.1f}" y1="{2:.1f}" y2="{2:.1f}"/>)"
                       R"(<text x="{3:.1f}" y="{4:.1f}" text-anchor="end">{5:.6g}</text>)",
                       x.from, x.to, y.at(tick), x.from - 6, y.at(tick) + 4, tick);
  for (const double tick : round_steps(most_x))
    svg += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{:.4g}</text>)",
                       x.at(tick), y.from + 15, tick);
  svg += fmt::format(
      R"(<text x="{:.1f}" y="13">{}</text><text x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)",
      4.0, html_text(chart.y_title), x.to, kHeight - 5, html_text(chart.x_title));
  if (chart.promised > 0)
    svg += fmt::format(
        R"(<line class="promise" x1="{0:.1f}" x2="{1:.1f}" y1="{2:.1f}" y2="{2:.1f}"/>)", x.from,
        x.to, y.at(chart.promised));
  if (chart.here > 0)
    svg +=
        fmt::format(R"(<line class="here" x1="{0:.1f}" x2="{0:.1f}" y1="{1:.1f}" y2="{2:.1f}"/>)",
                    x.at(chart.here), y.from, y.to);
  for (const ChartLine& line : chart.lines) {
    std::string path, dots;
    for (const auto& p : line.points) {
      if (!drawn(p)) continue;
      path +=
          fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", x.at(p.first), y.at(p.second));
      if (chart.markers)
        dots += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="{}"><title>{}: )"
                            R"({:.4g} at {:.4g}</title></circle>)",
                            x.at(p.first), y.at(p.second), line.color, html_text(line.name),
                            p.second, p.first);
    }
    svg += fmt::format(R"(<polyline points="{}" stroke="{}"/>{})", path, line.color, dots);
  }
  svg += "</svg>";
  if (chart.lines.size() > 1) {
    svg += R"(<ul class="legend">)";
    for (const ChartLine& line : chart.lines)
      svg += fmt::format(R"(<li><i style="background:{}"></i>{}</li>)", line.color,
                         html_text(line.name));
    svg += "</ul>";
  }
  return svg;
}

}  // namespace orrery
