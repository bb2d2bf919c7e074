#include "orrery/api/json_answer.h"

namespace orrery {
namespace {

JsonAnswer accuracy_json(const Accuracy& a) {
  return {{"name", a.name},
          {"rows", a.rows},
          {"mean_error", a.mean_error},
          {"median_error", a.median_error},
          {"p90_error", a.p90_error},
          {"worst_error", a.worst_error},
          {"spearman", a.spearman},
          {"coverage", a.coverage},
          {"coverage_p", a.coverage_p},
          {"median_half_width", a.median_half_width},
          {"interval_score", a.interval_score},
          {"constant_interval_score", a.constant_interval_score}};
}

JsonAnswer list_json(const std::vector<Accuracy>& all) {
  JsonAnswer list = JsonAnswer::array();
  for (const Accuracy& a : all) list.push_back(accuracy_json(a));
  return list;
}

JsonAnswer list_json(const std::vector<JudgedRow>& rows) {
  JsonAnswer list = JsonAnswer::array();
  for (const JudgedRow& r : rows)
    list.push_back({{"file", r.file},
                    {"line", r.line},
                    {"operator", r.operation},
                    {"measured_us", r.measured * 1e6},
                    {"predicted_us", r.predicted * 1e6},
                    {"low_us", r.low * 1e6},
                    {"high_us", r.high * 1e6},
                    {"error", r.error()}});
  return list;
}

JsonAnswer list_json(const std::vector<LeftOut>& rows) {
  JsonAnswer list = JsonAnswer::array();
  for (const LeftOut& l : rows)
    list.push_back({{"operator", l.operation}, {"rows", l.rows}, {"reason", l.reason}});
  return list;
}

}  // namespace

std::string to_json(const CalibrateAnswer& a, const CalibrateRequest& request) {
  return write({{"schema", schema("calibrate")},
                {"device", request.device},
                {"stack", request.stack},
                {"from", request.tables},
                {"out", a.out},
                {"made_by", a.command},
                {"all", accuracy_json(a.all)},
                {"by_class", list_json(a.by_class)},
                {"by_operator", list_json(a.by_operator)},
                {"worst", list_json(a.worst)},
                {"left_out", list_json(a.left_out)},
                {"notes", a.notes}});
}

std::string to_json(const ValidateAnswer& a, const ValidateRequest& request) {
  JsonAnswer models = JsonAnswer::array();
  for (const ModelAccuracy& m : a.models)
    models.push_back(
        {{"model", m.model}, {"all", accuracy_json(m.all)}, {"by_family", list_json(m.by_family)}});
  return write({{"schema", schema("validate")},
                {"table", request.table},
                {"device", request.device},
                {"models", models},
                {"worst", list_json(a.worst)},
                {"left_out", list_json(a.left_out)},
                {"notes", a.notes},
                {"gaps", a.gaps}});
}

}  // namespace orrery
