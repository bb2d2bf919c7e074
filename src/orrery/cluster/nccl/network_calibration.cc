#include "orrery/cluster/nccl/network_calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "orrery/kernel/estimate.h"
#include "orrery/learn/statistics.h"

namespace orrery {
namespace {

constexpr size_t kFewestRows = 3;
constexpr double kLargestError = 0.7;

/// A row, and its time as a function of the constants: what of it they multiply.
struct Explained {
  const MeasuredCollective* row = nullptr;
  const NcclModel* model = nullptr;
  GroupPlace place;
  NcclModel::Choice choice;
  std::string key;

  double residual(const NetworkConstants& c) const {
    return std::log(row->time / model->physical(choice, row->call, place, c));
  }
};

double mean_error(const std::vector<const Explained*>& rows, const NetworkConstants& c) {
  double sum = 0;
  for (const Explained* e : rows) sum += std::min(kLargestError, std::abs(e->residual(c)));
  return sum / static_cast<double>(rows.size());
}

NetworkConstants fit_constants(const std::vector<const Explained*>& rows) {
  std::set<int> per_node;
  for (const Explained* e : rows) per_node.insert(e->place.per_node);
  std::vector<double> hops{1};
  if (per_node.size() > 1) hops = {1, 1.25, 1.5, 1.75, 2, 2.25, 2.5, 2.75, 3, 3.5, 4, 5};
  NetworkConstants best;
  double least = INFINITY;
  for (const double hop : hops)
    for (double wait = 0; wait <= 150; wait += 1)
      for (double share = 1; share >= 0.004; share *= 0.95) {
        const NetworkConstants c{wait, hop, share};
        const double error = mean_error(rows, c);
        if (error >= least) continue;
        least = error;
        best = c;
      }
  return best;
}

}  // namespace

NetworkFit fit_network(std::span<const LinkTable> tables, const std::string& data) {
  const bool generic = tables.size() > 1;
  std::vector<NcclModel> models;
  models.reserve(tables.size());
  std::vector<Explained> trained, held_out;
  for (const LinkTable& table : tables) {
    LinkFit inside = generic ? load_generic_link_fit(table.cluster.tiers.front().name, data)
                             : load_link_fit(table.cluster, data, "nccl");
    const NcclModel& model =
        models.emplace_back(table.cluster, std::move(inside), CollectiveBinding(), nullptr);
    for (const MeasuredCollective& row : table.rows) {
      Explained e{&row, &model, place_group(table.cluster, row.call.group), {}, {}};
      if (e.place.nodes < 2)
        throw_usage(fmt::format("line {}: {} ranks are in one node of {}, others of the tables not",
                                row.line, row.call.group.size, table.cluster.name));
      e.choice = model.choose(row.call, e.place);
      e.key =
          network_key(row.call.kind, model.algorithm_name(e.choice.algorithm), e.choice.protocol);
      (is_held_out(row) ? held_out : trained).push_back(std::move(e));
    }
  }
  std::map<std::string, std::vector<const Explained*>> groups;
  for (const Explained& e : trained) groups[e.key].push_back(&e);
  NetworkFit fit;
  fit.system = generic ? "generic" : tables.front().cluster.device.name;
  for (const auto& [key, rows] : groups)
    if (rows.size() >= kFewestRows) fit.constants[key] = fit_constants(rows);
  std::vector<double> errors, residuals;
  for (const Explained& e : held_out) {
    const NetworkConstants c = fit.of(e.row->call.kind, e.model->algorithm_name(e.choice.algorithm),
                                      e.choice.protocol, e.model->unmeasured_share(e.choice));
    residuals.push_back(std::abs(e.residual(c)));
    errors.push_back(std::abs(std::exp(-e.residual(c)) - 1));
  }
  if (errors.empty()) return fit;
  double sum = 0;
  for (const double e : errors) sum += e;
  fit.spread = quantile(residuals, 0.9) / kNinetyPercent;
  fit.held_out = {{"rows", static_cast<double>(errors.size())},
                  {"mean", sum / static_cast<double>(errors.size())},
                  {"median", median(errors)},
                  {"p90", quantile(errors, 0.9)}};
  return fit;
}

}  // namespace orrery
