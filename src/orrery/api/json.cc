#include <fmt/format.h>

#include <algorithm>

#include "orrery/api/capacity.h"
#include "orrery/api/compare.h"
#include "orrery/api/json_answer.h"
#include "orrery/workload/zoo/zoo.h"

namespace orrery {
namespace {

using Json = JsonAnswer;

Json description(const Description& d) {
  Json parameters = Json::array();
  for (const Parameter& p : d.parameters)
    parameters.push_back({{"name", p.name},
                          {"default", p.default_value},
                          {"meaning", p.meaning},
                          {"settable", p.settable}});
  return {
      {"name", d.name}, {"summary", d.summary}, {"source", d.source}, {"parameters", parameters}};
}

Json figures_json(const std::vector<CitedFigure>& figures) {
  Json list = Json::array();
  for (const CitedFigure& f : figures)
    list.push_back({{"path", f.path}, {"value", f.text}, {"source", f.source}});
  return list;
}

// --- requests ---------------------------------------------------------------

[[noreturn]] void bad_field(const std::string& key, const char* expected) {
  throw_usage(fmt::format("request field '{}': expected {}", key, expected));
}

std::string text_of(const Json& json, const std::string& key, const std::string& otherwise) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return otherwise;
  if (!found->is_string()) bad_field(key, "a string");
  return found->get<std::string>();
}

int64_t integer_of(const Json& json, const std::string& key, int64_t otherwise) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return otherwise;
  if (!found->is_number_integer()) bad_field(key, "an integer");
  return found->get<int64_t>();
}

double number_of(const Json& json, const std::string& key, double otherwise) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return otherwise;
  if (!found->is_number()) bad_field(key, "a number");
  return found->get<double>();
}

std::vector<std::string> texts_of(const Json& json, const std::string& key) {
  std::vector<std::string> texts;
  const auto found = json.find(key);
  if (found == json.end()) return texts;
  if (!found->is_array()) bad_field(key, "a list of strings");
  for (const Json& text : *found) {
    if (!text.is_string()) bad_field(key, "a list of strings");
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

CollectiveNetwork network_of(const Json& json) {
  CollectiveNetwork network;
  network.name = text_of(json, "network", "");
  if (const auto exact = json.find("exact"); exact != json.end()) {
    if (!exact->is_boolean()) bad_field("exact", "true or false");
    network.exact = exact->get<bool>();
  }
  network.slow_links = texts_of(json, "slow_links");
  network.stragglers = texts_of(json, "stragglers");
  network.background = number_of(json, "background", 0);
  network.routing = text_of(json, "routing", network.routing);
  return network;
}

std::vector<Override> overrides_of(const Json& json) {
  std::vector<Override> overrides;
  const auto found = json.find("set");
  if (found == json.end() || found->is_null()) return overrides;
  if (!found->is_object()) bad_field("set", "an object of path: quantity");
  for (const auto& [path, value] : found->items()) {
    if (!value.is_string()) bad_field("set." + path, "a quantity with its unit, as a string");
    overrides.emplace_back(path, value.get<std::string>());
  }
  return overrides;
}

ReadOptions read_options_of(const Json& json) {
  ReadOptions read;
  if (const auto found = json.find("bind"); found != json.end() && !found->is_null()) {
    if (!found->is_object()) bad_field("bind", "an object of name: size");
    for (const auto& [name, value] : found->items()) {
      if (!value.is_number_integer()) bad_field("bind." + name, "an integer");
      read.bindings[name] = value.get<int64_t>();
    }
  }
  read.trip_count = integer_of(json, "trip_count", 0);
  read.build.phase = text_of(json, "phase", read.build.phase);
  read.build.batch = integer_of(json, "batch", read.build.batch);
  read.build.sequence = integer_of(json, "seq", 0);
  read.build.context = integer_of(json, "context", 0);
  read.build.dtype = text_of(json, "dtype", "");
  if (const auto found = json.find("choose"); found != json.end() && !found->is_null()) {
    if (!found->is_object()) bad_field("choose", "an object of name: choice");
    for (const auto& [name, value] : found->items()) {
      if (!value.is_string()) bad_field("choose." + name, "a string");
      read.build.choices[name] = value.get<std::string>();
    }
  }
  return read;
}

OperatingPoint point_of(const Json& json, const char* otherwise) {
  const std::string regime = text_of(json, "regime", otherwise);
  if (regime != "burst" && regime != "sustained") bad_field("regime", "burst or sustained");
  const double megahertz = number_of(json, "sm_mhz", 0);
  if (megahertz < 0) bad_field("sm_mhz", "a clock in MHz");
  OperatingPoint point;
  point.regime =
      regime == "burst" ? OperatingPoint::Regime::kBurst : OperatingPoint::Regime::kSustained;
  point.clock = Hertz(megahertz * 1e6);
  return point;
}

ModelChoice choice_of(const Json& json) {
  ModelChoice choice;
  choice.kernel_model = text_of(json, "kernel_model", choice.kernel_model);
  choice.fit = text_of(json, "fit", "");
  choice.profile = text_of(json, "profile", "");
  choice.origin = text_of(json, "origin", "");
  const auto found = json.find("parameters");
  if (found == json.end() || found->is_null()) return choice;
  if (!found->is_object()) bad_field("parameters", "an object of name: number");
  for (const auto& [name, value] : found->items()) {
    if (!value.is_number()) bad_field("parameters." + name, "a number");
    choice.parameters[name] = value.get<double>();
  }
  return choice;
}

std::vector<OperatorRow> rows_of(const Json& json) {
  const auto found = json.find("rows");
  if (found == json.end() || !found->is_array())
    bad_field("rows", "a list of {\"op\", \"dtype\", \"params\"}");
  std::vector<OperatorRow> rows;
  for (const Json& given : *found) {
    const std::string key = fmt::format("rows[{}]", rows.size());
    if (!given.is_object()) bad_field(key, "an object");
    OperatorRow row;
    row.op = text_of(given, "op", "");
    row.dtype = text_of(given, "dtype", "");
    const auto params = given.find("params");
    if (params == given.end() || !params->is_object()) bad_field(key + ".params", "an object");
    row.params = params->dump();
    row.sm_mhz = number_of(given, "sm_mhz", 0);
    rows.push_back(std::move(row));
    rows.back().line = static_cast<int64_t>(rows.size());
  }
  return rows;
}

/// One row in so many; 0 where it is not said.
int part_of(const Json& json, const char* key) {
  const int64_t part = integer_of(json, key, 0);
  if (part < 0 || part > INT32_MAX) bad_field(key, "one row in so many");
  return static_cast<int>(part);
}

CalibrateRequest calibrate_request(const Json& json) {
  CalibrateRequest request;
  request.device = text_of(json, "on", "");
  const auto from = json.find("from");
  if (from == json.end() || !from->is_array()) bad_field("from", "a list of files");
  for (const Json& file : *from) {
    if (!file.is_string()) bad_field("from", "a list of files");
    request.tables.push_back(file.get<std::string>());
  }
  request.stack = text_of(json, "stack", request.stack);
  const int64_t seed = integer_of(json, "seed", 1);
  if (seed < 0) bad_field("seed", "a number that is not negative");
  request.seed = static_cast<uint64_t>(seed);
  request.hold_out = part_of(json, "hold_out");
  if (json.contains("node_us") && !json["node_us"].is_null())
    request.node_us = number_of(json, "node_us", 0);
  request.prior = text_of(json, "prior", "");
  request.out = text_of(json, "out", "");
  return request;
}

ValidateRequest validate_request(const Json& json) {
  ValidateRequest request;
  request.table = text_of(json, "table", "");
  request.device = text_of(json, "on", "");
  request.overrides = overrides_of(json);
  request.stack = text_of(json, "stack", request.stack);
  static_cast<ModelChoice&>(request) = choice_of(json);
  request.regime = text_of(json, "regime", "");
  request.held_out = part_of(json, "held_out");
  return request;
}

CompareRequest compare_request(const Json& json) {
  CompareRequest request;
  request.workload = text_of(json, "workload", "");
  if (request.workload.empty()) throw_usage("compare needs 'workload' and 'on'");
  const auto on = json.find("on");
  if (on == json.end() || !on->is_array()) bad_field("on", "a list of devices");
  for (const Json& entry : *on) {
    if (!entry.is_string()) bad_field("on", "a list of devices, each a string");
    request.on.push_back(read_compare_entry(entry.get<std::string>()));
  }
  request.stack = text_of(json, "stack", request.stack);
  static_cast<ModelChoice&>(request) = choice_of(json);
  request.overrides = overrides_of(json);
  request.point = point_of(json, "sustained");
  request.read = read_options_of(json);
  return request;
}

ReplayRequest replay_request(const Json& json) {
  ReplayRequest request;
  request.prefix = text_of(json, "prefix", "");
  request.network = text_of(json, "network", "");
  request.system = text_of(json, "system", "");
  if (request.prefix.empty() || request.network.empty() || request.system.empty())
    throw_usage("replay needs 'prefix', 'network' and 'system'");
  request.groups = text_of(json, "groups", "");
  const std::string congestion = text_of(json, "congestion", "aware");
  if (congestion != "aware" && congestion != "unaware")
    throw_usage("'congestion' must be aware or unaware");
  request.congestion = congestion == "aware";
  const int64_t ranks = integer_of(json, "ranks", 0);
  if (ranks < 0 || ranks > kMostReplayRanks)
    throw_usage(fmt::format("'ranks' must be from 1 to {}", kMostReplayRanks));
  request.ranks = static_cast<int>(ranks);
  if (json.contains("exact")) {
    if (!json["exact"].is_boolean()) throw_usage("'exact' must be true or false");
    request.exact = json["exact"].get<bool>();
  }
  request.write = text_of(json, "write", "");
  return request;
}

void refuse_unknown(const Json& json, const std::vector<std::string_view>& known) {
  for (const auto& [key, value] : json.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    std::string list;
    for (std::string_view k : known) list += (list.empty() ? "" : ", ") + std::string(k);
    throw_usage(fmt::format("request field '{}' is not known; there is: {}", key, list));
  }
}

bool flag_of(const Json& json, const std::string& key) {
  if (!json.contains(key)) return false;
  if (!json.at(key).is_boolean()) bad_field(key, "true or false");
  return json.at(key).get<bool>();
}

int count_of(const Json& json, const char* key, int otherwise, int least = 1) {
  const int64_t n = integer_of(json, key, otherwise);
  if (n < (n == otherwise ? 0 : least) || n > 1 << 20) bad_field(key, "a count");
  return static_cast<int>(n);
}

/// What every command about training asks.
void read_question(const Json& json, TrainingQuestion& q) {
  q.model = text_of(json, "model", "");
  q.cluster = text_of(json, "on", "");
  q.overrides = overrides_of(json);
  q.framework = text_of(json, "framework", q.framework);
  Strategy& s = q.strategy;
  s.global_batch = integer_of(json, "global_batch", 0);
  s.length = integer_of(json, "seq", s.length);
  s.precision = training_precision(text_of(json, "dtype", "bf16"));
  s.schedule = pipeline_schedule(text_of(json, "schedule", "1f1b"));
  const std::string attention = text_of(json, "attention", "fused");
  if (attention != "fused" && attention != "unfused") bad_field("attention", "fused or unfused");
  s.fused_attention = attention == "fused";
  const std::string layers = text_of(json, "layers", "fused");
  if (layers != "fused" && layers != "operators") bad_field("layers", "fused or operators");
  s.eager = layers == "operators";
  const std::string gradients = text_of(json, "gradients", "fp32");
  if (gradients != "fp32" && gradients != "bf16") bad_field("gradients", "fp32 or bf16");
  s.wide_gradients = gradients == "fp32";
  const std::string moments = text_of(json, "moments", "fp32");
  if (moments != "fp32" && moments != "bf16") bad_field("moments", "fp32 or bf16");
  s.narrow_moments = moments == "bf16";
  s.loss = loss_kernel(text_of(json, "loss", "fp32"));
  const std::string weights = text_of(json, "weights", "bf16");
  if (weights != "bf16" && weights != "fp8") bad_field("weights", "bf16 or fp8");
  s.narrow_weights = weights == "fp8";
  const std::string dispatch = text_of(json, "dispatch", "by-node");
  if (dispatch != "by-node" && dispatch != "all-to-all")
    bad_field("dispatch", "by-node or all-to-all");
  s.once_a_node = dispatch == "by-node";
  s.fused_router = flag_of(json, "fused_router");
  s.overlap_tensor = flag_of(json, "overlap_tensor");
  s.overlap_experts = flag_of(json, "overlap_experts");
  s.overlap_gradients = flag_of(json, "overlap_gradients");
  s.plain_first = count_of(json, "plain_first", 0, 0);
  s.plain_last = count_of(json, "plain_last", 0, 0);
  s.further_tokens = count_of(json, "mtp", 0, 0);
  s.graphs = flag_of(json, "graphs");
  for (const auto& [field, name] :
       {std::pair("zero", "zero"), std::pair("attention", "attention"),
        std::pair("layers", "layers"), std::pair("gradients", "gradients"),
        std::pair("loss", "loss"), std::pair("overlap_tensor", "overlap-tensor"),
        std::pair("overlap_experts", "overlap-experts"),
        std::pair("overlap_gradients", "overlap-gradients")})
    if (json.contains(field)) q.given.emplace_back(name);
}

TrainRequest train_request(const Json& json) {
  TrainRequest r;
  read_question(json, r);
  if (r.model.empty() || r.cluster.empty()) throw_usage("train needs 'model' and 'on'");
  Strategy& s = r.strategy;
  s.gpus = count_of(json, "gpus", 0);
  s.tensor = count_of(json, "tp", 1);
  s.pipeline = count_of(json, "pp", 1);
  s.chunks = count_of(json, "vpp", 1);
  r.data = count_of(json, "dp", 0);
  s.context = count_of(json, "cp", 1);
  s.expert = count_of(json, "ep", 1);
  s.sequence = flag_of(json, "sp");
  s.micro_batch = integer_of(json, "micro_batch", 1);
  if (s.micro_batch < 1 || s.global_batch < 1 || s.length < 1)
    throw_usage("train needs 'global_batch', and sizes above 0");
  set_recompute(s, text_of(json, "recompute", "none"));
  s.zero = count_of(json, "zero", 0, 0);
  if (s.zero > 3) bad_field("zero", "0 to 3");
  r.stragglers = texts_of(json, "stragglers");
  r.slow_nodes = texts_of(json, "slow_nodes");
  return r;
}

PlanRequest plan_request(const Json& json) {
  PlanRequest r;
  read_question(json, r);
  if (r.model.empty() || r.cluster.empty() || !json.contains("gpus"))
    throw_usage("plan needs 'model', 'on' and 'gpus'");
  const Json& gpus = json.at("gpus");
  for (const Json& n : gpus.is_array() ? gpus : Json::array({gpus})) {
    if (!n.is_number_integer() || n.get<int64_t>() < 1 || n.get<int64_t>() > 1 << 20)
      bad_field("gpus", "a count or a list of them");
    r.gpus.push_back(n.get<int>());
  }
  if (r.strategy.global_batch < 1 || r.strategy.length < 1)
    throw_usage("plan needs 'global_batch', and sizes above 0");
  r.most = static_cast<size_t>(count_of(json, "top", 5));
  return r;
}

/// What `read_question` reads, and what one of the commands has of its own.
std::vector<std::string_view> training_fields(std::initializer_list<std::string_view> own) {
  std::vector<std::string_view> fields = {"command",
                                          "model",
                                          "on",
                                          "set",
                                          "framework",
                                          "global_batch",
                                          "seq",
                                          "dtype",
                                          "schedule",
                                          "attention",
                                          "layers",
                                          "gradients",
                                          "moments",
                                          "weights",
                                          "loss",
                                          "dispatch",
                                          "fused_router",
                                          "overlap_tensor",
                                          "overlap_experts",
                                          "overlap_gradients",
                                          "plain_first",
                                          "plain_last",
                                          "mtp",
                                          "graphs"};
  fields.insert(fields.end(), own);
  return fields;
}

/// What requests for serving and capacity share, and what one of them has of its own.
std::vector<std::string_view> serving_fields(std::initializer_list<std::string_view> own) {
  std::vector<std::string_view> fields = {"command",
                                          "model",
                                          "on",
                                          "set",
                                          "kernel_model",
                                          "fit",
                                          "profile",
                                          "origin",
                                          "parameters",
                                          "engine",
                                          "scheduler",
                                          "max_seqs",
                                          "chunk_size",
                                          "max_length",
                                          "max_batched_tokens",
                                          "dtype",
                                          "expert_dtype",
                                          "kv_dtype",
                                          "kv_blocks",
                                          "kv_host_memory_bytes",
                                          "host_link_bytes_per_s",
                                          "lora_rank",
                                          "lora_adapters",
                                          "lora_skew",
                                          "lora_slots",
                                          "routing_skew",
                                          "tp",
                                          "pp",
                                          "attention_dp",
                                          "moe_tp",
                                          "moe_ep",
                                          "router",
                                          "rate",
                                          "variation",
                                          "count",
                                          "memory_fraction",
                                          "isl",
                                          "osl",
                                          "lengths",
                                          "seed",
                                          "prefix_tokens",
                                          "prefixes",
                                          "turns",
                                          "pause_s",
                                          "slo",
                                          "price",
                                          "transfer_bytes_per_s"};
  fields.insert(fields.end(), own);
  return fields;
}

int degree_of(const Json& json, const std::string& key, int otherwise) {
  const int64_t degree = integer_of(json, key, otherwise);
  if (degree < 1 || degree > 1 << 20) bad_field(key, "a count");
  return static_cast<int>(degree);
}

int64_t amount_of(const Json& json, const std::string& key, int64_t otherwise) {
  const int64_t amount = integer_of(json, key, otherwise);
  if (amount < 0 || amount > int64_t{1} << 40) bad_field(key, "a count");
  return amount;
}

/// Layout and limits of engines.
void read_engine(const Json& json, EngineRequest& engine) {
  ServingLayout& l = engine.layout;
  l.tensor = degree_of(json, "tp", l.tensor);
  l.pipeline = degree_of(json, "pp", l.pipeline);
  l.attention_data = degree_of(json, "attention_dp", l.attention_data);
  if (json.contains("moe_tp")) l.expert_tensor = degree_of(json, "moe_tp", 1);
  l.expert = degree_of(json, "moe_ep", l.expert);
  engine.max_batched_tokens = amount_of(json, "max_batched_tokens", engine.max_batched_tokens);
  engine.max_seqs = amount_of(json, "max_seqs", engine.max_seqs);
}

ServiceLevel promise_of(const Json& json) {
  ServiceLevel promise;
  const auto found = json.find("slo");
  if (found == json.end()) return promise;
  if (!found->is_object()) bad_field("slo", R"({"ttft_s", "tpot_s", "e2e_s"})");
  for (const auto& [key, value] : found->items()) {
    Seconds* to = key == "ttft_s"   ? &promise.ttft
                  : key == "tpot_s" ? &promise.tpot
                  : key == "e2e_s"  ? &promise.e2e
                                    : nullptr;
    if (to == nullptr || !value.is_number()) bad_field("slo", R"({"ttft_s", "tpot_s", "e2e_s"})");
    *to = Seconds(value.get<double>());
  }
  return promise;
}

/// A number, or one for each kind of device.
DevicePrices prices_of(const Json& json) {
  DevicePrices prices;
  const auto found = json.find("price");
  if (found == json.end()) return prices;
  const auto price = [](const Json& value) {
    if (!value.is_number() || !(value.get<double>() >= 0))
      bad_field("price", "a number of 0 or more, or one for each device");
    return value.get<double>();
  };
  if (!found->is_object())
    prices.otherwise = price(*found);
  else
    for (const auto& [device, value] : found->items())
      prices.named.emplace_back(device, price(value));
  return prices;
}

/// Pools of a fleet: what one does not say is as said for all.
std::vector<PoolRequest> pools_of(const Json& json, const ServingRequest& all) {
  std::vector<PoolRequest> pools;
  const auto found = json.find("pools");
  if (found == json.end()) return pools;
  if (!found->is_array() || found->empty()) bad_field("pools", "a list of {'on', 'replicas' …}");
  for (const Json& given : *found) {
    if (!given.is_object()) bad_field("pools", "a list of {'on', 'replicas' …}");
    refuse_unknown(given, {"on", "role", "replicas", "tp", "pp", "attention_dp", "moe_tp", "moe_ep",
                           "max_batched_tokens", "max_seqs"});
    PoolRequest pool = {text_of(given, "role", "engines"), all.engine,
                        degree_of(given, "replicas", all.replicas)};
    pool.engine.device = text_of(given, "on", all.engine.device);
    if (pool.engine.device.empty()) bad_field("pools", "a device as 'on' in each");
    read_engine(given, pool.engine);
    pools.push_back(std::move(pool));
  }
  return pools;
}

ServingRequest serving_request(const Json& json) {
  ServingRequest r;
  EngineRequest& e = r.engine;
  static_cast<ModelChoice&>(e) = choice_of(json);
  e.model = text_of(json, "model", "");
  e.device = text_of(json, "on", "");
  if (e.model.empty() || (e.device.empty() && !json.contains("pools")))
    throw_usage("serving and capacity need 'model' and 'on'");
  e.overrides = overrides_of(json);
  r.scheduler.name = text_of(json, "scheduler", r.scheduler.name);
  e.engine = text_of(json, "engine", engine_of_scheduler(r.scheduler.name));
  read_engine(json, e);
  r.scheduler.chunk_size = amount_of(json, "chunk_size", 0);
  r.scheduler.max_length = amount_of(json, "max_length", 0);
  e.precision.linear = text_of(json, "dtype", "");
  e.precision.experts = text_of(json, "expert_dtype", e.precision.linear);
  e.precision.cache = text_of(json, "kv_dtype", "");
  e.kv_blocks = amount_of(json, "kv_blocks", 0);
  e.host_memory = number_of(json, "kv_host_memory_bytes", 0);
  e.host_link = BytesPerSecond(number_of(json, "host_link_bytes_per_s", 0));
  if (!(e.host_memory >= 0)) bad_field("kv_host_memory_bytes", "0 or more");
  if (!(e.host_link.value >= 0)) bad_field("host_link_bytes_per_s", "0 or more");
  if (json.contains("lora_rank")) e.lora_rank = degree_of(json, "lora_rank", 1);
  e.lora_slots = degree_of(json, "lora_slots", e.lora_slots);
  if (json.contains("lora_adapters"))
    r.traffic.adapters.count = degree_of(json, "lora_adapters", 1);
  r.traffic.adapters.skew = number_of(json, "lora_skew", 0);
  e.routing_skew = number_of(json, "routing_skew", e.routing_skew);
  e.memory_fraction = number_of(json, "memory_fraction", e.memory_fraction);
  r.replicas = degree_of(json, "replicas", 1);
  r.router = text_of(json, "router", r.router);
  TrafficRequest& t = r.traffic;
  t.requests = text_of(json, "requests", "");
  t.speed = number_of(json, "speed", 1);
  t.rate = number_of(json, "rate", 0);
  t.variation = number_of(json, "variation", 1);
  t.concurrency = amount_of(json, "concurrency", 0);
  t.count = amount_of(json, "count", 0);
  const auto law = [&](const char* key, const std::string& otherwise) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number_integer() ? std::to_string(found->get<int64_t>())
                                                             : text_of(json, key, otherwise);
  };
  t.isl = law("isl", t.isl);
  t.osl = law("osl", t.osl);
  t.lengths = text_of(json, "lengths", "");
  t.seed = static_cast<uint64_t>(integer_of(json, "seed", 42));
  t.prefix_tokens =
      static_cast<int32_t>(std::min<int64_t>(amount_of(json, "prefix_tokens", 0), 1 << 24));
  t.prefixes = degree_of(json, "prefixes", 1);
  t.turns = number_of(json, "turns", 0);
  t.pause = Seconds(number_of(json, "pause_s", 10));
  r.promise = promise_of(json);
  r.prices = prices_of(json);
  r.trimming.warm_up = number_of(json, "warm_up", 0);
  r.pools = pools_of(json, r);
  if (!r.pools.empty()) e.device = r.pools.front().engine.device;
  r.transfer = BytesPerSecond(number_of(json, "transfer_bytes_per_s", 0));
  if (json.contains("prefill") || json.contains("decode")) {
    if (!r.pools.empty()) throw_usage("say 'role' in 'pools', or 'prefill' and 'decode', not both");
    for (const char* role : {"prefill", "decode"}) {
      const Json given = json.value(role, Json::object());
      if (!given.is_object()) bad_field(role, "an object of 'workers', 'tp' …");
      refuse_unknown(given, {"workers", "tp", "pp", "attention_dp", "moe_tp", "moe_ep",
                             "max_batched_tokens", "max_seqs"});
      r.pools.push_back({role, e, degree_of(given, "workers", 1)});
      read_engine(given, r.pools.back().engine);
    }
  }
  return r;
}

CapacityRequest capacity_request(const Json& json) {
  CapacityRequest r;
  Json numbers = json;
  for (const char* load : {"rate", "speed", "concurrency"})
    if (json.contains(load) && json[load] == "most") {
      r.most = true;
      numbers[load] = load == std::string_view("concurrency") ? 1 : 0;
    }
  if (json.contains("on") && json["on"].is_array()) {
    for (const Json& kind : json["on"]) {
      if (!kind.is_string()) bad_field("on", "a device or a list of them");
      r.on.push_back(kind.get<std::string>());
    }
    if (r.on.empty()) bad_field("on", "a device or a list of them");
    numbers["on"] = r.on.front();
  }
  r.serving = serving_request(numbers);
  r.promise.level = r.serving.promise;
  r.promise.quantile = number_of(json, "quantile", r.promise.quantile);
  r.devices = json.contains("devices") ? degree_of(json, "devices", 1) : 0;
  r.disaggregate = flag_of(json, "disaggregate");
  r.fixed_tokens = json.contains("max_batched_tokens");
  for (const char* degree : {"tp", "pp", "attention_dp", "moe_tp", "moe_ep"})
    if (json.contains(degree)) r.layout = r.serving.engine.layout;
  return r;
}

}  // namespace

std::string to_json(const PredictAnswer& a, const PredictRequest& request) {
  Json kernels = Json::array();
  for (const KernelSummary& k : a.kernels)
    kernels.push_back({{"name", k.name},
                       {"kind", k.kind},
                       {"count", k.count},
                       {"time_s", k.time_s},
                       {"bound", k.bound},
                       {"flops", k.flops},
                       {"bytes", k.bytes},
                       {"operations", k.fused}});
  Json holders = Json::array();
  for (const MemoryUse& use : a.memory.holders)
    holders.push_back({{"name", use.name}, {"bytes", use.bytes}});
  Json breakdown = Json::object();
  for (const auto& [cause, seconds] : a.breakdown) breakdown[cause] = seconds;
  Json provenance = Json::object();
  for (const auto& [key, value] : a.provenance) provenance[key] = value;
  const Json json = {{"schema", schema("predict")},
                     {"workload", request.workload},
                     {"device", request.device},
                     {"latency_s", a.latency_s},
                     {"latency_low_s", a.latency_low_s},
                     {"latency_high_s", a.latency_high_s},
                     {"single_call_s", a.single_call_s},
                     {"energy_j", a.energy_known ? Json(a.energy_j) : Json()},
                     {"flops", a.flops},
                     {"bytes", a.bytes},
                     {"launches", a.launches},
                     {"memory",
                      {{"peak_bytes", a.memory.peak_bytes},
                       {"arguments_bytes", a.memory.arguments_bytes},
                       {"outputs_bytes", a.memory.outputs_bytes},
                       {"temporaries_bytes", a.memory.temporaries_bytes},
                       {"constants_bytes", a.memory.constants_bytes},
                       {"aliased_bytes", a.memory.aliased_bytes},
                       {"capacity_bytes", a.memory.capacity_bytes},
                       {"fits", a.memory.fits},
                       {"peak_at", a.memory.peak_at},
                       {"holders", holders}}},
                     {"composition",
                      {{"kernels_s", a.composition.kernels_s},
                       {"gaps_s", a.composition.gaps_s},
                       {"host_s", a.composition.host_s},
                       {"gamma", a.composition.gamma}}},
                     {"kernels", kernels},
                     {"breakdown", breakdown},
                     {"gaps", a.gaps},
                     {"trust", {{"verdict", a.trust.verdict}, {"detail", a.trust.detail}}},
                     {"provenance", provenance}};
  return write(json);
}

std::string to_json(const InspectAnswer& a) {
  Json flops = Json::object();
  for (const auto& [unit, value] : a.flops) flops[unit] = value;
  Json operations = Json::array();
  for (const auto& o : a.by_operation)
    operations.push_back({{"name", o.name},
                          {"count", o.count},
                          {"executed", o.executed},
                          {"flops", o.flops},
                          {"bytes", o.bytes}});
  Json collectives = Json::array();
  for (const auto& c : a.collectives)
    collectives.push_back(
        {{"kind", c.kind}, {"count", c.count}, {"bytes", c.bytes}, {"group_size", c.group_size}});
  const Json json = {{"schema", schema("inspect")},
                     {"name", a.name},
                     {"format", a.format},
                     {"partitions", a.partitions},
                     {"replicas", a.replicas},
                     {"functions", a.functions},
                     {"operations", a.operations},
                     {"executed_operations", a.executed},
                     {"unknown_operations", a.unknown_operations},
                     {"parameters", a.parameters},
                     {"parameter_bytes", a.parameter_bytes},
                     {"arguments_bytes", a.arguments_bytes},
                     {"outputs_bytes", a.outputs_bytes},
                     {"flops", a.total_flops},
                     {"flops_by_unit", flops},
                     {"bytes_read", a.bytes_read},
                     {"bytes_written", a.bytes_written},
                     {"by_operation", operations},
                     {"collectives", collectives},
                     {"meshes", a.meshes},
                     {"shardings", a.shardings},
                     {"dynamic", a.dynamic},
                     {"notes", a.notes}};
  return write(json);
}

std::string operators_json(const std::vector<OperatorRow>& rows, const OperatorAnswers& answers) {
  Json list = Json::array();
  for (size_t i = 0; i < answers.kernels.size(); ++i) {
    const OperatorAnswer& answer = answers.kernels[i];
    Json row = {{"op", rows[i].op},
                {"dtype", rows[i].dtype},
                {"params", Json::parse(rows[i].params, nullptr, false)}};
    if (rows[i].sm_mhz > 0) row["sm_mhz"] = rows[i].sm_mhz;
    row["predicted_us"] = answer.predicted_us;
    row["low_us"] = answer.low_us;
    row["high_us"] = answer.high_us;
    row["model"] = answer.model;
    list.push_back(std::move(row));
  }
  return write({{"schema", schema("kernel")}, {"kernels", list}, {"gaps", answers.gaps}});
}

std::string hardware_json(const Catalogue& catalogue, const std::string& name,
                          const std::vector<Override>& overrides) {
  if (name.empty()) {
    Json devices = Json::array();
    for (const Listing& l : catalogue.list())
      devices.push_back({{"name", l.name},
                         {"title", l.title},
                         {"kind", l.kind},
                         {"memory_bytes", l.memory.value},
                         {"bandwidth_bytes_per_s", l.bandwidth.value},
                         {"bf16_flops_per_s", l.bf16.value},
                         {"power_w", l.power.value}});
    Json clusters = Json::array();
    for (const ClusterListing& l : catalogue.list_clusters())
      clusters.push_back({{"name", l.name},
                          {"title", l.title},
                          {"device", l.device},
                          {"largest", l.largest},
                          {"tiers", l.tiers}});
    return write({{"schema", schema("hardware")}, {"devices", devices}, {"clusters", clusters}});
  }
  if (catalogue.is_cluster(name)) {
    const Cluster cluster = catalogue.cluster(name, overrides);
    return write({{"schema", schema("hardware")},
                  {"name", cluster.name},
                  {"title", cluster.title},
                  {"kind", "cluster"},
                  {"device", cluster.device.name},
                  {"node_size", cluster.node_size()},
                  {"largest", cluster.largest()},
                  {"figures", figures_json(catalogue.cluster_figures(name, overrides))},
                  {"gaps", cluster.gaps}});
  }
  const Device device = catalogue.device(name, overrides);
  return write({{"schema", schema("hardware")},
                {"name", device.name},
                {"title", device.title},
                {"kind", device.kind},
                {"vendor", device.vendor},
                {"architecture", device.architecture},
                {"figures", figures_json(catalogue.figures(name, overrides))},
                {"gaps", device.gaps}});
}

std::string models_json(const Session& session) {
  Json json = {{"schema", schema("models")}};
  for (const auto& [kind, descriptions] : session.models()) {
    Json list = Json::array();
    for (const Description& d : descriptions) list.push_back(description(d));
    std::string key = kind;
    std::replace(key.begin(), key.end(), ' ', '_');
    json[key] = list;
  }
  return write(json);
}

std::string zoo_json() {
  Json models = Json::array();
  for (const ZooModel& m : zoo_models()) {
    Json choices = Json::array();
    for (const Choice& c : m.choices)
      choices.push_back({{"name", c.name},
                         {"default", c.default_value},
                         {"values", c.values},
                         {"meaning", c.meaning}});
    models.push_back({{"name", m.name},
                      {"title", m.title},
                      {"family", m.family},
                      {"phases", m.phases},
                      {"parameters", m.published_parameters},
                      {"source", m.source},
                      {"choices", choices}});
  }
  return write({{"schema", schema("zoo")}, {"models", models}});
}

std::string to_json(const Error& error) {
  return write({{"schema", schema("error")},
                {"error",
                 {{"kind", name(error.kind())},
                  {"exit_code", error.exit_code()},
                  {"message", error.message()},
                  {"file", error.where().file},
                  {"line", error.where().line},
                  {"column", error.where().column}}}});
}

std::string Session::call(std::string_view request_json) const {
  const Json json = Json::parse(request_json, nullptr, false);
  if (!json.is_object()) throw_usage("a request must be a JSON object");
  const std::string command = text_of(json, "command", "");
  if (command == "predict") {
    refuse_unknown(
        json, {"command", "workload",   "on",  "stack",   "kernel_model", "fit",   "profile",
               "origin",  "parameters", "set", "regime",  "sm_mhz",       "bind",  "trip_count",
               "phase",   "batch",      "seq", "context", "dtype",        "choose"});
    PredictRequest request;
    request.workload = text_of(json, "workload", "");
    request.device = text_of(json, "on", "");
    if (request.workload.empty() || request.device.empty())
      throw_usage("predict needs 'workload' and 'on'");
    request.stack = text_of(json, "stack", request.stack);
    static_cast<ModelChoice&>(request) = choice_of(json);
    request.overrides = overrides_of(json);
    request.point = point_of(json, "sustained");
    request.read = read_options_of(json);
    return to_json(predict(request), request);
  }
  if (command == "compare") {
    refuse_unknown(
        json, {"command", "workload",   "on",  "stack",   "kernel_model", "fit",   "profile",
               "origin",  "parameters", "set", "regime",  "sm_mhz",       "bind",  "trip_count",
               "phase",   "batch",      "seq", "context", "dtype",        "choose"});
    const CompareRequest request = compare_request(json);
    return to_json(compare(request), request);
  }
  if (command == "inspect") {
    refuse_unknown(json, {"command", "workload", "bind", "trip_count", "phase", "batch", "seq",
                          "context", "dtype", "choose"});
    const std::string workload = text_of(json, "workload", "");
    if (workload.empty()) throw_usage("inspect needs 'workload'");
    return to_json(inspect(workload, read_options_of(json)));
  }
  if (command == "kernel") {
    refuse_unknown(json, {"command", "on", "rows", "stack", "kernel_model", "fit", "profile",
                          "origin", "parameters", "set", "regime", "sm_mhz"});
    KernelRequest request;
    request.table = "rows";
    request.device = text_of(json, "on", "");
    if (request.device.empty()) throw_usage("kernel needs 'on'");
    request.stack = text_of(json, "stack", request.stack);
    static_cast<ModelChoice&>(request) = choice_of(json);
    request.overrides = overrides_of(json);
    request.point = point_of(json, "burst");
    const std::vector<OperatorRow> rows = rows_of(json);
    return operators_json(rows, predict_operators(request, rows));
  }
  if (command == "calibrate") {
    refuse_unknown(json, {"command", "on", "from", "stack", "seed", "node_us", "hold_out", "out"});
    const CalibrateRequest request = calibrate_request(json);
    if (request.device.empty()) throw_usage("calibrate needs 'on' and 'from'");
    return to_json(calibrate(request), request);
  }
  if (command == "validate") {
    refuse_unknown(json, {"command", "table", "on", "stack", "kernel_model", "fit", "profile",
                          "origin", "parameters", "set", "regime", "held_out"});
    const ValidateRequest request = validate_request(json);
    if (request.table.empty() || request.device.empty())
      throw_usage("validate needs 'table' and 'on'");
    return to_json(validate(request), request);
  }
  if (command == "collective") {
    refuse_unknown(json, {"command", "kind", "bytes", "ranks", "stride", "dtype", "on", "library",
                          "algorithm", "protocol", "set", "network", "exact", "slow_links",
                          "stragglers", "background", "routing"});
    CollectiveRequest request;
    request.kind = text_of(json, "kind", "");
    request.cluster = text_of(json, "on", "");
    if (request.kind.empty() || request.cluster.empty())
      throw_usage("collective needs 'kind' and 'on'");
    request.bytes = number_of(json, "bytes", 0);
    const int64_t ranks = integer_of(json, "ranks", 0);
    const int64_t stride = integer_of(json, "stride", 1);
    if (ranks < 1 || ranks > INT32_MAX) bad_field("ranks", "a count");
    if (stride < 1 || stride > INT32_MAX) bad_field("stride", "a count");
    request.ranks = static_cast<int>(ranks);
    request.stride = static_cast<int>(stride);
    request.dtype = text_of(json, "dtype", request.dtype);
    request.library = text_of(json, "library", "");
    request.algorithm = text_of(json, "algorithm", "");
    request.protocol = text_of(json, "protocol", "");
    request.network = network_of(json);
    request.overrides = overrides_of(json);
    return to_json(collective(request), request);
  }
  if (command == "train") {
    refuse_unknown(
        json, training_fields({"gpus", "tp", "pp", "vpp", "dp", "cp", "ep", "sp", "micro_batch",
                               "recompute", "zero", "stragglers", "slow_nodes"}));
    const TrainRequest request = train_request(json);
    return to_json(train(request), request);
  }
  if (command == "plan") {
    refuse_unknown(json, training_fields({"gpus", "top"}));
    const PlanRequest request = plan_request(json);
    return to_json(plan(request), request);
  }
  if (command == "serving") {
    refuse_unknown(json, serving_fields({"replicas", "requests", "speed", "concurrency", "prefill",
                                         "decode", "pools", "warm_up"}));
    const ServingRequest request = serving_request(json);
    return to_json(serving(request), request);
  }
  if (command == "capacity") {
    refuse_unknown(json, serving_fields({"quantile", "devices", "disaggregate", "requests", "speed",
                                         "concurrency"}));
    const CapacityRequest request = capacity_request(json);
    return to_json(capacity(request), request);
  }
  if (command == "replay") {
    refuse_unknown(json, {"command", "prefix", "network", "system", "groups", "congestion", "ranks",
                          "exact", "write"});
    const ReplayRequest request = replay_request(json);
    return to_json(replay(request), request);
  }
  if (command == "hardware") {
    refuse_unknown(json, {"command", "name", "set"});
    return hardware_json(catalogue_, text_of(json, "name", ""), overrides_of(json));
  }
  if (command == "models") return models_json(*this);
  if (command == "zoo") return zoo_json();
  throw_usage(
      fmt::format("command '{}' is not known; there is: predict, compare, kernel, calibrate, "
                  "validate, collective, train, plan, serving, capacity, inspect, replay, "
                  "hardware, models, zoo",
                  command));
}

}  // namespace orrery
