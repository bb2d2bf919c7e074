#include "orrery/cli/serving_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <sstream>
#include <stdexcept>

#include "orrery/base/error.h"
#include "orrery/base/parse_number.h"
#include "orrery/base/units.h"

namespace orrery {
namespace {

constexpr auto kMost = int64_t{1} << 40;

void count(CLI::App& app, const std::string& name, int& value, const std::string& help) {
  app.add_option(name, value, help)->type_name("N")->check(CLI::Range(1, 1 << 20));
}
void amount(CLI::App& app, const std::string& name, int64_t& value, const std::string& help) {
  app.add_option(name, value, help)->type_name("N")->check(CLI::Range(int64_t{1}, kMost));
}

/// A number from `least` on, or above it if that is 0 and `above`.
CLI::Validator number_from(double least, bool above) {
  return {[least, above](const std::string& text) -> std::string {
            const auto value = parse_number<double>(text);
            if (value && std::isfinite(*value) && (above ? *value > least : *value >= least))
              return "";
            return fmt::format(
                "'{}': give a number {}", text,
                above ? fmt::format("above {:g}", least) : fmt::format("of {:g} or more", least));
          },
          ""};
}

double read_price(const std::string& text) {
  const auto price = parse_number<double>(text);
  if (!price || !(*price >= 0 && *price <= 1e6))
    throw_usage(fmt::format("--price '{}': give a number, or DEVICE=NUMBER,…", text));
  return *price;
}

DevicePrices read_prices(const std::string& text) {
  DevicePrices prices;
  if (text.empty()) return prices;
  if (text.find('=') == std::string::npos) {
    prices.otherwise = read_price(text);
    return prices;
  }
  std::stringstream stream(text);
  std::string item;
  while (std::getline(stream, item, ',')) {
    const auto [device, price] = split_pair(item, "--price");
    prices.named.emplace_back(device, read_price(price));
  }
  return prices;
}

}  // namespace

CLI::Option* ServingOptions::declare_model(CLI::App& app) {
  app.add_option("MODEL", request.engine.model,
                 "A language model of the zoo, or the config.json of a Hugging Face model")
      ->required();
  CLI::Option* on = app.add_option("--on", request.engine.device,
                                   "The device, in the cluster it is usually in, or a cluster")
                        ->type_name("DEVICE");
  declare_set(app, sets, "the engine's, e.g. engine.step=2ms");
  return on;
}

void ServingOptions::declare_engine(CLI::App& app) {
  EngineRequest& e = request.engine;
  app.add_option("--scheduler", request.scheduler.name,
                 "Who runs next: vllm-v1, vllm-v0, sglang, trtllm, sarathi, orca, static, lightllm")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--engine", engine,
                 "Whose host and kernels: vllm, sglang, trtllm, or vidur, which counts what VIDUR "
                 "does; the scheduler's own unless given")
      ->type_name("NAME");
  amount(app, "--max-batched-tokens", e.max_batched_tokens,
         "Tokens that one step computes at most");
  amount(app, "--max-seqs", e.max_seqs, "Sequences that run at one time at most");
  app.add_option("--chunk-size", request.scheduler.chunk_size,
                 "Tokens of prompts that one step computes at most, for schedulers with chunks")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, kMost));
  app.add_option("--max-length", request.scheduler.max_length,
                 "Tokens of a sequence at most, what the model was made for unless given; longer "
                 "requests are rejected")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, kMost));
  app.add_option("--watermark", request.scheduler.watermark,
                 "Share of the KV blocks that admission leaves free")
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 1.0));
  // A flag bound to an optional would say no where nothing was said.
  app.add_flag_callback(
      "--no-prefix-caching", [this] { request.scheduler.prefix_caching = false; },
      "Keys and values of a prompt's beginning are not looked for in the cache");
  app.add_flag(
      "--priority", request.scheduler.by_priority,
      "Requests of a smaller priority (the table's column) go first and are thrown out last "
      "(scheduling-policy priority)");
  app.add_flag("--first-chunk", request.scheduler.first_chunk,
               "vllm-v1: admit who has room for the next chunk, not only for all of its tokens "
               "(scheduler_reserve_full_isl=False)");
  app.add_flag("--max-utilization", request.scheduler.max_utilization,
               "trtllm: admit by what is needed now and evict, not by the longest answer");
  app.add_flag("--mixed-chunk", request.scheduler.mixed,
               "sglang: a step with prompts decodes too (enable_mixed_chunk)");
  amount(app, "--poll-steps", request.scheduler.poll_steps,
         "sglang: decodes between looks for new requests (scheduler_recv_interval)");
  amount(app, "--wait-steps", request.scheduler.wait_steps,
         "trtllm: steps that prompts wait while others decode (batch_wait_timeout_iters), …");
  app.add_option("--wait-share", request.scheduler.wait_share,
                 "… until a step would have this share of its tokens (batch_wait_max_tokens_ratio)")
      ->type_name("SHARE")
      ->needs("--wait-steps")
      ->check(CLI::Range(0.0, 1.0));
  app.add_flag_function(
      "--async,!--no-async", [this](int64_t said) { request.asynchronous = said > 0; },
      "Whether the host schedules a step while the device runs the one before");
  app.add_option("--stream-interval", request.stream_interval,
                 "Tokens of an answer that go to the user together (stream_interval)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, kMost));
  CLI::Option* draft = app.add_option("--draft", request.speculation.draft_tokens,
                                      "Speculation: tokens guessed ahead of each step; what "
                                      "guesses them costs nothing here")
                           ->type_name("N")
                           ->check(CLI::Range(1, 64));
  CLI::Option* acceptance =
      app.add_option("--acceptance", request.speculation.acceptance,
                     "Speculation: how likely a guess is right where those before it were")
          ->type_name("P")
          ->check(CLI::Range(0.0, 1.0))
          ->needs(draft);
  draft->needs(acceptance);
  app.add_option(
         "--dtype", dtype,
         "Number format of weights: bf16, fp8, fp8_block, fp4, or four bits that are multiplied as "
         "16: int4_weight, fp4_weight; the model's own unless given")
      ->type_name("T");
  app.add_option("--expert-dtype", expert_dtype, "… of experts, where they differ")->type_name("T");
  app.add_option("--kv-dtype", kv_dtype, "Number format of keys and values: bf16 or fp8")
      ->type_name("T");
  app.add_option("--memory-fraction", e.memory_fraction,
                 "Of a device's memory that the engine may take")
      ->type_name("SHARE")
      ->check(CLI::Range(0.01, 1.0))
      ->capture_default_str();
  app.add_option("--kv-blocks", e.kv_blocks, "KV blocks of a rank, in place of what memory leaves")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, kMost));
  app.add_option("--kv-host-memory", host_memory,
                 "Memory of the host, e.g. 64GB, in which each engine keeps copies of its full KV "
                 "blocks: prompts found there are loaded, not computed again")
      ->type_name("SIZE");
  app.add_option("--host-link", host_link,
                 "Bandwidth between a device and its host, each way, e.g. 50GB/s; by the device's "
                 "description unless given")
      ->type_name("RATE");
  app.add_option("--lora-rank", e.lora_rank, "Adapters (LoRA) of this rank, one a request")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 14));
  app.add_option("--lora-adapters", request.traffic.adapters.count,
                 "Different adapters that requests ask for")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--lora-skew", request.traffic.adapters.skew,
                 "The i-th most wanted adapter gets requests as i^-SKEW; 0: all alike")
      ->type_name("SKEW")
      ->needs("--lora-adapters")
      ->check(CLI::Range(0.0, 4.0));
  app.add_option("--lora-slots", e.lora_slots,
                 "Adapters in device memory, and in one step, at most: vLLM's max_loras, SGLang's "
                 "max_loras_per_batch")
      ->type_name("N")
      ->needs("--lora-rank")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--step-profile", e.step_profile,
                 "Measured times of the model's operators on this device, in place of predicted "
                 "kernels: a table of VIDUR's, Frontier's or LLMServingSim's, a folder of them, or "
                 "PREFIX of PREFIX_dense.csv, PREFIX_attention.csv, PREFIX_per_sequence.csv and, "
                 "for experts, PREFIX_moe.csv; what they lack is predicted (may be given again)")
      ->type_name("PATH")
      ->allow_extra_args(false);
  app.add_option("--routing-skew", e.routing_skew,
                 "Experts: the i-th most wanted gets tokens as i^-SKEW; 0: all alike")
      ->type_name("SKEW")
      ->check(CLI::Range(0.0, 4.0))
      ->capture_default_str();
}

void ServingOptions::declare_layout(CLI::App& app) {
  ServingLayout& l = request.engine.layout;
  count(app, "--tp", l.tensor, "Tensor parallel: devices that share every layer");
  count(app, "--pp", l.pipeline, "Pipeline stages");
  count(app, "--attention-dp", l.attention_data,
        "Data-parallel attention: groups of tp devices with requests of their own");
  count(app, "--moe-tp", l.expert_tensor, "Devices that share every expert");
  count(app, "--moe-ep", l.expert, "Devices over which experts are spread");
}

void ServingOptions::declare_replicas(CLI::App& app) {
  count(app, "--replicas", request.replicas, "Engines alike");
}

void ServingOptions::declare_router(CLI::App& app) {
  app.add_option("--router", request.router,
                 "Which replica a request goes to: round-robin, random, least-outstanding, "
                 "kv-aware, prefix-aware")
      ->type_name("NAME")
      ->capture_default_str();
}

void ServingOptions::declare_times(CLI::App& app) {
  TrafficRequest& t = request.traffic;
  app.add_option(
         "--requests", t.requests,
         "A table of requests: arrived_at,num_prefill_tokens,num_decode_tokens, or an "
         "Azure, VIDUR, vLLM or ShareGPT one (CSV, JSON lines or array; text counts a token for "
         "each 4 bytes); a column priority is for --priority")
      ->type_name("FILE");
  app.add_option("--speed", t.speed, "Times the rate of that table")
      ->type_name("X")
      ->needs("--requests")
      ->check(number_from(0, true));
  app.add_option("--rate", t.rate, "Requests a second")
      ->type_name("R")
      ->check(number_from(0, true));
  app.add_option("--concurrency", t.concurrency,
                 "Users who wait for an answer before they ask again")
      ->type_name("C")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
}

void ServingOptions::declare_traffic(CLI::App& app) {
  TrafficRequest& t = request.traffic;
  app.add_option("--variation", t.variation,
                 "Coefficient of variation of the gaps: 1 Poisson, more for bursts, 0 a metronome")
      ->type_name("CV")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  app.add_option("--swing", t.swing, "The rate swings as 1 + SWING · sin(2π t / period)")
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--period", period_s, "Of that swing, in seconds")
      ->type_name("S")
      ->needs("--swing")
      ->check(number_from(0, true));
  app.add_option("--count", t.count,
                 "Requests (or conversations): 1000, ten a user, or the table once unless given")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 32));
  app.add_option("--isl", t.isl,
                 "Tokens of a prompt: N, uniform:A-B, zipf:A-B:S, lognormal:MEAN:CV")
      ->type_name("LAW")
      ->capture_default_str();
  app.add_option("--osl", t.osl, "Tokens of an answer, likewise")
      ->type_name("LAW")
      ->capture_default_str();
  app.add_option("--lengths", t.lengths,
                 "Both from a table's rows, or vidur:A-B:RATIO (totals, prompt over answer)")
      ->type_name("FILE");
  app.add_option("--prefix-tokens", t.prefix_tokens, "Of a system prompt that requests begin with")
      ->type_name("N")
      ->check(CLI::Range(0, 1 << 24));
  app.add_option("--prefixes", t.prefixes, "Different ones of those")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("--turns", t.turns,
                 "Conversations of so many turns on average, each with all that was said before")
      ->type_name("N")
      ->check(CLI::Range(1.0, 1e4));
  app.add_option("--pause", pause_s, "Seconds between an answer and the next turn, on average")
      ->type_name("S")
      ->needs("--turns")
      ->check(number_from(0, false));
  app.add_option("--seed", t.seed, "Of all that is drawn")->type_name("N")->capture_default_str();
}

void ServingOptions::declare_price(CLI::App& app) {
  app.add_option("--price", price, "Of a device for an hour: 2.5, or by kind h100-sxm=2.5,l40s=0.9")
      ->type_name("PRICE");
}

ServingRequest ServingOptions::resolved() const {
  ServingRequest r = request;
  static_cast<ModelChoice&>(r.engine) = model.choice();
  for (const auto& [path, value] : read_overrides(sets)) {
    constexpr std::string_view kEngine = "engine.";
    if (path.starts_with(kEngine))
      r.engine.settings.emplace_back(path.substr(kEngine.size()), value);
    else
      r.engine.overrides.emplace_back(path, value);
  }
  r.engine.engine = engine.empty() ? engine_of_scheduler(r.scheduler.name) : engine;
  r.prices = read_prices(price);
  r.engine.precision.linear = dtype;
  r.engine.precision.experts = expert_dtype.empty() ? dtype : expert_dtype;
  r.engine.precision.cache = kv_dtype;
  if (!host_memory.empty())
    r.engine.host_memory = read_amount(host_memory, Dimension::kBytes, "--kv-host-memory");
  if (!host_link.empty())
    r.engine.host_link =
        BytesPerSecond(read_amount(host_link, Dimension::kBandwidth, "--host-link"));
  r.speculation.seed = r.traffic.seed;
  r.scheduler.draft_tokens = r.speculation.draft_tokens;
  r.traffic.period = Seconds(period_s);
  r.traffic.pause = Seconds(pause_s);
  return r;
}

PoolRequest read_pool(const std::string& text, const ServingRequest& all) {
  const size_t colon = text.find(':');
  PoolRequest pool = {"engines", all.engine, all.replicas};
  pool.engine.device = text.substr(0, colon);
  if (pool.engine.device.empty())
    throw_usage("--pool begins with a device: DEVICE:tp=2,replicas=3");
  if (colon == std::string::npos) return pool;
  std::stringstream stream(text.substr(colon + 1));
  std::string item;
  while (std::getline(stream, item, ',')) {
    const auto [key, value] = split_pair(item, "--pool");
    if (key == "role") {
      if (value != "prefill" && value != "decode")
        throw_usage(fmt::format("--pool: role '{}' is none of prefill and decode", value));
      pool.role = value;
      continue;
    }
    ServingLayout& l = pool.engine.layout;
    int* const degree = key == "replicas"       ? &pool.replicas
                        : key == "tp"           ? &l.tensor
                        : key == "pp"           ? &l.pipeline
                        : key == "attention-dp" ? &l.attention_data
                        : key == "moe-tp"       ? &l.expert_tensor
                        : key == "moe-ep"       ? &l.expert
                                                : nullptr;
    int64_t* const limit = key == "max-seqs"             ? &pool.engine.max_seqs
                           : key == "max-batched-tokens" ? &pool.engine.max_batched_tokens
                                                         : nullptr;
    if (degree == nullptr && limit == nullptr)
      throw_usage(
          fmt::format("--pool: '{}' is none of replicas, role, tp, pp, attention-dp, "
                      "moe-tp, moe-ep, max-seqs and max-batched-tokens",
                      key));
    const auto number = parse_number<int64_t>(value);
    if (!number || *number < 1 || *number > (degree != nullptr ? int64_t{1} << 20 : kMost))
      throw_usage(fmt::format("--pool: {} '{}' is not a count", key, value));
    if (degree != nullptr)
      *degree = static_cast<int>(*number);
    else
      *limit = *number;
  }
  return pool;
}

double read_amount(const std::string& text, Dimension dimension, const std::string& option) {
  try {
    const double amount = parse_quantity(text, dimension);
    if (std::isfinite(amount) && amount > 0) return amount;
  } catch (const std::invalid_argument& e) {
    throw_usage(fmt::format("{}: {}", option, e.what()));
  }
  throw_usage(fmt::format("{} {}: give more than 0", option, text));
}

ServiceLevel read_promise(const std::string& text) {
  ServiceLevel promise;
  std::stringstream stream(text);
  std::string item;
  while (std::getline(stream, item, ',')) {
    const auto [name, value] = split_pair(item, "--slo");
    Seconds* to = name == "ttft"   ? &promise.ttft
                  : name == "tpot" ? &promise.tpot
                  : name == "e2e"  ? &promise.e2e
                                   : nullptr;
    if (to == nullptr) throw_usage(fmt::format("--slo: '{}' is none of ttft, tpot and e2e", name));
    *to = Seconds(read_amount(value, Dimension::kTime, "--slo " + name));
  }
  return promise;
}

}  // namespace orrery
