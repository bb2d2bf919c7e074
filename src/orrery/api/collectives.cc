#include "orrery/api/collectives.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "orrery/api/json_answer.h"
#include "orrery/base/csv.h"
#include "orrery/base/output_file.h"
#include "orrery/base/parse_number.h"
#include "orrery/cluster/nccl/network_calibration.h"
#include "orrery/cluster/vllm/custom_all_reduce.h"

namespace orrery {
namespace {

constexpr double kMostBytes = 1e18;

ElementType element_type(const std::string& text) {
  if (const auto type = element_type_from_user(text)) return *type;
  throw_usage(
      fmt::format("unknown element type '{}'; there is bf16, fp16, fp32, fp8, int8 …", text));
}

struct Bound {
  Cluster cluster;
  std::string library;
  std::unique_ptr<CollectivePredictor> predictor;
};

Bound bind_library(const Catalogue& catalogue, const std::string& data,
                   const CollectiveChoice& choice) {
  Bound bound;
  bound.cluster = catalogue.cluster(choice.cluster, choice.overrides);
  bound.library = choice.library.empty() ? default_library(bound.cluster) : choice.library;
  bound.predictor = Registry<CollectiveLibrary>::instance()
                        .at(bound.library, "library")
                        .create()
                        ->bind(bound.cluster, {data, choice.algorithm, choice.protocol});
  return bound;
}

/// What nccl-tests multiply bytes / time by.
double bus_factor(CollectiveKind kind, int ranks) {
  return ring_bytes(kind, Bytes(1), ranks).value *
         (kind == CollectiveKind::kAllToAll ? (ranks - 1.0) / ranks : 1.0);
}

CollectiveCall call_of(const CollectiveRequest& request) {
  CollectiveCall call;
  call.kind = collective_kind(request.kind);
  if (!(request.bytes >= 0 && request.bytes <= kMostBytes)) throw_usage("bytes go from 0 to 1e18");
  if (request.bytes == 0 && call.kind != CollectiveKind::kBarrier)
    throw_usage(fmt::format("a {} needs bytes", request.kind));
  call.bytes = Bytes(request.bytes);
  call.group = {request.ranks, request.stride};
  call.type = element_type(request.dtype);
  return call;
}

void add_bandwidth(CollectiveAnswer& answer, const CollectiveCall& call) {
  if (!(answer.latency_s > 0)) return;
  answer.algorithm_bandwidth = call.bytes.value / answer.latency_s;
  answer.bus_bandwidth = answer.algorithm_bandwidth * bus_factor(call.kind, call.group.size);
}

void note_overrides(CollectiveAnswer& answer, const CollectiveChoice& choice) {
  for (const auto& [path, value] : choice.overrides)
    answer.provenance.emplace_back("set " + path, value);
}

std::string short_number(double value) { return fmt::format("{:.6g}", value); }

}  // namespace

CollectiveAnswer Session::collective(const CollectiveRequest& request) const {
  const CollectiveCall call = call_of(request);
  check_network(request.network);
  if (!request.network.name.empty()) {
    CollectiveAnswer answer =
        simulated_collective(catalogue_.cluster(request.cluster, request.overrides), call, request);
    add_bandwidth(answer, call);
    note_overrides(answer, request);
    return answer;
  }
  const Bound bound = bind_library(catalogue_, data_folder_, request);
  const CollectiveEstimate estimate = bound.predictor->predict(call);
  const TimeInterval time = interval(estimate.estimate);
  CollectiveAnswer answer;
  answer.latency_s = time.value.value;
  answer.latency_low_s = time.low.value;
  answer.latency_high_s = time.high.value;
  answer.algorithm = estimate.algorithm;
  answer.protocol = estimate.protocol;
  answer.channels = estimate.channels;
  answer.sent_bytes = estimate.sent.value;
  add_bandwidth(answer, call);
  const CollectiveTrust trust = bound.predictor->trust(call);
  answer.verdict = trust.verdict;
  answer.detail = trust.detail;
  answer.gaps = bound.predictor->gaps();
  answer.provenance = {{"cluster", bound.cluster.name}, {"device", bound.cluster.device.name}};
  for (auto& basis : bound.predictor->provenance()) answer.provenance.push_back(std::move(basis));
  if (!request.algorithm.empty())
    answer.provenance.emplace_back("forced algorithm", request.algorithm);
  if (!request.protocol.empty())
    answer.provenance.emplace_back("forced protocol", request.protocol);
  note_overrides(answer, request);
  return answer;
}

void Session::collective_table(const CollectiveChoice& choice, const Source& table,
                               const std::function<void(std::string_view)>& write) const {
  const Bound bound = bind_library(catalogue_, data_folder_, choice);
  CsvReader reader(table);
  const size_t kind = reader.required_column("kind");
  const size_t bytes = reader.required_column("bytes");
  const size_t ranks = reader.required_column("ranks");
  const int stride = reader.column("stride");
  const int dtype = reader.column("dtype");
  const auto number = [&](size_t column) {
    const std::string_view text = reader.field(column);
    const auto value = parse_number<double>(text);
    if (!value || !std::isfinite(*value))
      throw Error(ErrorKind::kInput, reader.location(column),
                  fmt::format("'{}' is not a number", text));
    return *value;
  };
  const auto count = [&](size_t column) {
    const double value = number(column);
    if (value < 1 || value > 1e8 || value != std::floor(value))
      throw Error(ErrorKind::kInput, reader.location(column),
                  fmt::format("'{}' is not a count", reader.field(column)));
    return static_cast<int>(value);
  };
  std::string text;
  for (const std::string& name : reader.header()) text += csv_field(name) + ",";
  text += "predicted_us,low_us,high_us,algorithm,protocol\n";
  while (reader.next()) {
    CollectiveRequest request;
    request.kind = reader.field(kind);
    request.bytes = number(bytes);
    request.ranks = count(ranks);
    if (stride >= 0) request.stride = count(static_cast<size_t>(stride));
    if (dtype >= 0) request.dtype = reader.field(static_cast<size_t>(dtype));
    try {
      const CollectiveEstimate estimate = bound.predictor->predict(call_of(request));
      const TimeInterval t = interval(estimate.estimate);
      text += fmt::format("{},{},{},{},{},{}\n", reader.record(), short_number(t.value.value * 1e6),
                          short_number(t.low.value * 1e6), short_number(t.high.value * 1e6),
                          estimate.algorithm, estimate.protocol);
    } catch (const Error& e) {
      if (e.where().line > 0) throw;
      throw Error(ErrorKind::kInput, {table.name(), reader.line(), 1}, e.message());
    }
    if (text.size() > (1U << 20U)) {
      write(text);
      text.clear();
    }
  }
  write(text);
}

namespace {

/// Whether it is of groups over several nodes, by its first row.
bool spans_nodes(const LinkTable& table) {
  return !table.rows.empty() && place_group(table.cluster, table.rows.front().call.group).nodes > 1;
}

}  // namespace

CollectiveFitAnswer Session::fit_collectives(const CollectiveFitRequest& request) const {
  const bool custom = request.library == "vllm-custom";
  if (!custom && request.library != "nccl")
    throw_usage(fmt::format("'{}' is not fitted; nccl and vllm-custom are", request.library));
  if (request.tables.empty()) throw_usage("a fit takes CLUSTER=CSV at least once");
  std::vector<LinkTable> tables;
  CollectiveFitAnswer answer;
  answer.command = "orrery collective";
  for (const auto& [cluster, path] : request.tables) {
    tables.push_back({catalogue_.cluster(cluster), read_collectives(Source::from_file(path))});
    answer.command +=
        fmt::format(" --fit {}={}", cluster, std::filesystem::path(path).filename().string());
  }
  std::vector<std::string> names;
  for (const auto& [cluster, path] : request.tables)
    names.push_back(std::filesystem::path(path).filename().string());
  const auto finish = [&](auto& fit, const std::string& file) {
    fit.tables = names;
    answer.out = request.out.empty() ? file : request.out;
    answer.command += fmt::format(" --library {} --out {}", request.library,
                                  std::filesystem::path(answer.out).filename().string());
    fit.command = answer.command;
    OutputFile out(answer.out);
    out.write(to_json(fit));
    out.commit();
    answer.held_out = fit.held_out;
  };
  if (spans_nodes(tables.front())) {
    if (custom) throw_usage("vllm-custom runs inside a node: rows over several nodes are nccl's");
    NetworkFit fit = fit_network(tables, data_folder_);
    answer.system = fit.system;
    finish(fit, fit.system + ".network.json");
    return answer;
  }
  LinkFit fit = fit_links(tables, custom ? vllm_custom_kernel : nullptr);
  answer.system = fit.system;
  finish(fit, fmt::format("{}.{}.{}.json", fit.system, fit.fabric, custom ? "vllm" : "nccl"));
  return answer;
}

std::string to_json(const CollectiveAnswer& a, const CollectiveRequest& request) {
  JsonAnswer provenance = JsonAnswer::object();
  for (const auto& [name, value] : a.provenance) provenance[name] = value;
  JsonAnswer network;  // null, but of a simulation
  if (a.network) {
    JsonAnswer busiest = JsonAnswer::array();
    for (const NetworkFigures::BusyLink& l : a.network->busiest_links)
      busiest.push_back({{"link", l.link}, {"bytes", l.bytes}, {"share", l.share}});
    network = {{"name", request.network.name},
               {"exact", request.network.exact},
               {"ranks", a.network->ranks},
               {"rank_finish_s", a.network->rank_finish_s},
               {"busiest_links", busiest},
               {"simulated_flows", a.network->flows},
               {"simulated_events", a.network->events}};
  }
  return write({{"schema", schema("collective")},
                {"kind", request.kind},
                {"bytes", request.bytes},
                {"ranks", request.ranks},
                {"stride", request.stride},
                {"dtype", request.dtype},
                {"latency_s", a.latency_s},
                {"latency_low_s", a.latency_low_s},
                {"latency_high_s", a.latency_high_s},
                {"algorithm", a.algorithm},
                {"protocol", a.protocol},
                {"channels", a.channels},
                {"sent_bytes", a.sent_bytes},
                {"algorithm_bandwidth_bytes_per_s", a.algorithm_bandwidth},
                {"bus_bandwidth_bytes_per_s", a.bus_bandwidth},
                {"network", network},
                {"trust", {{"verdict", a.verdict}, {"detail", a.detail}}},
                {"gaps", a.gaps},
                {"provenance", provenance}});
}

std::string to_json(const CollectiveFitAnswer& a, const CollectiveFitRequest& request) {
  JsonAnswer errors = JsonAnswer::object();
  for (const auto& [name, value] : a.held_out) errors[name] = value;
  return write({{"schema", schema("fit")},
                {"library", request.library},
                {"system", a.system},
                {"out", a.out},
                {"made_by", a.command},
                {"held_out", errors}});
}

}  // namespace orrery
