#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "orrery/base/output_file.h"
#include "orrery/cli/progress.h"
#include "orrery/cli/serving_options.h"
#include "orrery/report/perfetto.h"
#include "orrery/report/serving_text.h"

namespace orrery {
namespace {

class ServingCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    CLI::Option* on = options_.declare_model(app);
    options_.declare_engine(app);
    options_.declare_layout(app);
    options_.declare_replicas(app);
    replicas_ = app.get_option("--replicas");
    CLI::Option* pools =
        app.add_option("--pool", pools_,
                       "In place of --on, once for each kind of engine: "
                       "DEVICE:tp=2,replicas=3,role=prefill; also pp, attention-dp, moe-tp, "
                       "moe-ep, max-seqs, max-batched-tokens; the rest is as said for all")
            ->type_name("POOL")
            ->take_all()
            ->excludes(on);
    options_.declare_router(app);
    options_.declare_times(app);
    options_.declare_traffic(app);
    options_.model.declare(app);
    CLI::Option* apart =
        app.add_flag(
               "--disaggregate", disaggregate_,
               "Prompts and answers by different engines; --prefill-… and --decode-… say what is "
               "not as for all")
            ->excludes(pools);
    declare_pool(app, "prefill", prefill_, prefill_workers_, apart);
    declare_pool(app, "decode", decode_, decode_workers_, apart);
    app.add_option("--transfer", transfer_,
                   "Bandwidth out of each prefill engine and into each decode engine, e.g. 50GB/s; "
                   "the cluster's network unless given")
        ->type_name("RATE");
    app.add_option("--slo", slo_,
                   "A promise, to count who it is kept to: ttft=0.5s,tpot=50ms,e2e=…")
        ->type_name("PROMISE");
    options_.declare_price(app);
    app.add_option("--warm-up", options_.request.trimming.warm_up,
                   "Share of the requests, the first ones, that do not count")
        ->type_name("SHARE")
        ->check(CLI::Range(0.0, 0.99));
    app.add_option("--csv", csv_, "Every request with its times")->type_name("FILE");
    app.add_option("--html", html_,
                   "Write a page: latencies, other loads, the run's course, the first requests")
        ->type_name("FILE");
    app.add_option("--perfetto", perfetto_, "Write a timeline that ui.perfetto.dev opens")
        ->type_name("FILE");
    declare_json(app);
    app.footer(
        "The engine is simulated step by step; each step's time is predicted from the kernels and\n"
        "collectives it launches. Two kinds of doubt are kept apart: the model's (all steps "
        "shorter\n"
        "or longer) and that of the requests drawn.\n"
        "Exit code 4: the model does not fit, or no request does.\n\n"
        "Examples:\n"
        "  orrery serving llama3-8b --on h100-sxm --rate 5 --isl lognormal:1024:0.8 --osl 200\n"
        "  orrery serving llama3-70b --on h200 --tp 4 --dtype fp8 --concurrency 64 --isl 1024 \\\n"
        "      --osl 1024 --slo ttft=1s,tpot=40ms\n"
        "  orrery serving llama3-8b --pool h100-sxm:replicas=2 --pool l40s:replicas=4 --rate 40 "
        "\\\n"
        "      --router least-outstanding --price h100-sxm=2.5,l40s=0.9");
  }

  int run() override {
    ServingRequest request = options_.resolved();
    request.promise = read_promise(slo_);
    request.list_requests = !csv_.empty() || !html_.empty() || !perfetto_.empty();
    request.curve = !html_.empty();
    if (!perfetto_.empty()) request.events = kMostEvents;
    if (disaggregate_ && replicas_->count() > 0)
      throw_usage(
          "--replicas has no use with --disaggregate: say --prefill-workers and --decode-workers");
    if (disaggregate_)
      request.pools = {{"prefill", pool_of(request.engine, prefill_), prefill_workers_},
                       {"decode", pool_of(request.engine, decode_), decode_workers_}};
    for (const std::string& pool : pools_) request.pools.push_back(read_pool(pool, request));
    if (!pools_.empty()) request.engine.device = request.pools.front().engine.device;
    if (request.engine.device.empty())
      throw_usage("say where the model runs: --on DEVICE, or --pool DEVICE:… once for each kind");
    if (!transfer_.empty()) {
      if (std::ranges::none_of(request.pools,
                               [](const PoolRequest& p) { return p.role == "prefill"; }))
        throw_usage("--transfer goes with --disaggregate or pools of role=prefill");
      request.transfer =
          BytesPerSecond(read_amount(transfer_, Dimension::kBandwidth, "--transfer"));
    }
    SchedulerOptions told = request.scheduler;
    told.max_batched_tokens = request.engine.max_batched_tokens;
    for (const PoolRequest& pool : request.pools)
      told.max_batched_tokens = std::max(told.max_batched_tokens, pool.engine.max_batched_tokens);
    refuse_unused(told);
    ServingAnswer answer;
    {
      const Progress progress("simulating");
      answer = Session().serving(request);
    }
    if (!csv_.empty()) write_file(csv_, requests_csv(answer));
    if (!html_.empty()) write_file(html_, serving_page(answer, request));
    if (!perfetto_.empty()) write_file(perfetto_, perfetto_trace(answer, request));
    fmt::print("{}", json_ ? to_json(answer, request) + "\n" : serving_text(answer, request));
    return 0;
  }

 private:
  /// Steps in a timeline: some tens of megabytes.
  static constexpr size_t kMostEvents = 100'000;

  static void write_file(const std::string& path, const std::string& text) {
    OutputFile file(path);
    file.write(text);
    file.commit();
  }

  /// What is 0 is as for all.
  struct PoolOptions {
    ServingLayout layout = {0, 0, 0, 0, 0};
    int64_t max_seqs = 0, max_batched_tokens = 0;
  };

  static void declare_pool(CLI::App& app, const std::string& role, PoolOptions& pool, int& workers,
                           CLI::Option* apart) {
    const auto count = [&](const std::string& name, int& value, const std::string& help) {
      app.add_option("--" + role + "-" + name, value, help)
          ->type_name("N")
          ->needs(apart)
          ->check(CLI::Range(1, 1 << 20));
    };
    count("workers", workers, "Engines that " + role);
    count("tp", pool.layout.tensor, "Tensor parallel of each");
    count("pp", pool.layout.pipeline, "Pipeline stages of each");
    count("attention-dp", pool.layout.attention_data, "Data-parallel attention of each");
    count("moe-tp", pool.layout.expert_tensor, "Devices that share every expert");
    count("moe-ep", pool.layout.expert, "Devices over which experts are spread");
    const auto amount = [&](const std::string& name, int64_t& value, const std::string& help) {
      app.add_option("--" + role + "-" + name, value, help)
          ->type_name("N")
          ->needs(apart)
          ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
    };
    amount("max-seqs", pool.max_seqs, "Sequences of each at one time");
    amount("max-batched-tokens", pool.max_batched_tokens, "Tokens of a step of each");
  }
  static EngineRequest pool_of(const EngineRequest& engine, const PoolOptions& pool) {
    EngineRequest request = engine;
    for (int ServingLayout::*degree :
         {&ServingLayout::tensor, &ServingLayout::pipeline, &ServingLayout::attention_data,
          &ServingLayout::expert_tensor, &ServingLayout::expert})
      if (pool.layout.*degree > 0) request.layout.*degree = pool.layout.*degree;
    if (pool.max_seqs > 0) request.max_seqs = pool.max_seqs;
    if (pool.max_batched_tokens > 0) request.max_batched_tokens = pool.max_batched_tokens;
    return request;
  }

  ServingOptions options_;
  const CLI::Option* replicas_ = nullptr;
  bool disaggregate_ = false;
  PoolOptions prefill_, decode_;
  int prefill_workers_ = 1, decode_workers_ = 1;
  std::vector<std::string> pools_;
  std::string transfer_, slo_, csv_, html_, perfetto_;
};

const Registration<Command> kServing(
    {.name = "serving",
     .summary = "What users of a served language model wait for, and what the engines do",
     .source = "",
     .parameters = {}},
    [] { return std::make_unique<ServingCommand>(); });

}  // namespace
}  // namespace orrery
