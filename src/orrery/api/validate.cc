#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "orrery/api/append_new.h"
#include "orrery/api/measured_rows.h"
#include "orrery/api/session.h"
#include "orrery/base/registry.h"
#include "orrery/kernel/tile/calibration.h"
#include "orrery/kernel/tile/fit_store.h"

namespace orrery {
namespace {

constexpr size_t kWorstRows = 10;

bool was_fitted_to(const TileFit& fit, const std::string& table) {
  return std::any_of(fit.sources.begin(), fit.sources.end(), [&](const std::string& source) {
    std::error_code none;  // a source that is not here is another file
    return source == table || std::filesystem::equivalent(source, table, none);
  });
}

}  // namespace

ValidateAnswer Session::validate(const ValidateRequest& request) const {
  using Regime = OperatingPoint::Regime;
  if (!request.regime.empty() && request.regime != "burst" && request.regime != "sustained")
    throw_usage(fmt::format("regime '{}' is not known: expected burst or sustained",
                            request.regime.substr(0, 60)));
  const Device device = catalogue_.device(request.device, request.overrides);
  require_kernel_stack(request.stack, device, data_folder_);
  std::vector<std::unique_ptr<Predictor>> predictors;
  predictors.push_back(bind_choice(request, device, request.stack, data_folder_, catalogue_));
  if (predictors.front()->name() != "roofline")
    predictors.push_back(Registry<KernelModel>::instance()
                             .at("roofline", "kernel model")
                             .create()
                             ->bind(device, {.stack = request.stack, .data = data_folder_}));

  // What the catalogue says of the device is what the table is checked against.
  const DeviceRows read = read_device_rows(request.table, catalogue_.device(request.device));
  ValidateAnswer answer;
  answer.left_out = read.left_out;
  answer.notes = read.notes;
  if (!request.fit.empty() && was_fitted_to(*load_tile_fit(request.fit), request.table))
    answer.notes.push_back(
        fmt::format("{} was fitted to this very table: errors of rows it has not seen are larger",
                    request.fit));
  std::vector<Kernel> kernels;
  std::vector<OperatingPoint> points;
  std::vector<JudgedRow> judged;
  std::vector<std::string> families;
  for (const MeasuredRow& row : read.table.rows) {
    const std::string& operation = read.table.operations[row.operation];
    if (!request.regime.empty() && (row.regime == Regime::kBurst) != (request.regime == "burst")) {
      add_left_out(answer.left_out, operation, fmt::format("not measured {}", request.regime));
      continue;
    }
    if (request.held_out > 0 && !is_held_out(row, request.held_out)) {
      add_left_out(answer.left_out, operation, "not held out");
      continue;
    }
    OperatingPoint point;
    point.regime = row.regime;
    point.clock = Hertz(row.sm_hz);
    kernels.push_back(row.kernel);
    points.push_back(point);
    judged.push_back({request.table, row.line, operation, row.seconds, 0, 0, 0});
    families.emplace_back(name(row.kernel.family));
    append_new(answer.gaps, predictors.front()->gaps(row.kernel));
    if (row.sm_hz <= 0) append_new(answer.gaps, predictors.front()->gaps(point));
  }
  if (judged.empty())
    throw_input(request.table,
                fmt::format("no row of it was{}{}{}",
                            request.regime.empty() ? "" : " measured " + request.regime,
                            request.regime.empty() || request.held_out <= 0 ? "" : " and",
                            request.held_out > 0
                                ? fmt::format(" held out of a fit, one in {}", request.held_out)
                                : ""));

  std::vector<Estimate> estimates(kernels.size());
  for (const auto& predictor : predictors) {
    predictor->predict(kernels, OperatingPoints(points), estimates);
    for (size_t i = 0; i < judged.size(); ++i) {
      const TimeInterval t = interval(estimates[i]);
      judged[i].predicted = t.value.value;
      judged[i].low = t.low.value;
      judged[i].high = t.high.value;
    }
    answer.models.push_back({std::string(predictor->name()), accuracy_of("all", judged),
                             accuracy_by(judged, families)});
    if (predictor == predictors.front()) answer.worst = worst_of(judged, kWorstRows);
  }
  return answer;
}

}  // namespace orrery
