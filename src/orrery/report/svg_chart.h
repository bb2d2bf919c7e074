#pragma once

#include <string>
#include <utility>
#include <vector>

namespace orrery {

struct ChartLine {
  std::string name;
  std::string color;
  std::vector<std::pair<double, double>> points;  ///< By x.
};

/// Lines over one axis, as a picture that scales with the page and needs no script.
struct Chart {
  std::string x_title, y_title;
  std::vector<ChartLine> lines;
  bool markers = false;      ///< A dot at every point.
  bool logarithmic = false;  ///< Upwards; what is not above 0 is left out.
  double promised = 0;       ///< Not 0: a dashed line at this height.
  double here = 0;           ///< Not 0: a dashed line at this x.
};

std::string svg_chart(const Chart& chart);

/// 0 and the round numbers (1, 2 or 5 times a power of ten apart) up to `most`, about five.
std::vector<double> round_steps(double most);

}  // namespace orrery
