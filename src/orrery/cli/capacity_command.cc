#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "orrery/api/capacity.h"
#include "orrery/cli/progress.h"
#include "orrery/cli/serving_options.h"
#include "orrery/report/capacity_text.h"

namespace orrery {
namespace {

class CapacityCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    app_ = &app;
    options_.declare_model(app)->required();
    app.add_option("--slo", slo_,
                   "What users are promised: ttft=0.5s,tpot=50ms,e2e=…; ttft (time to first token) "
                   "or e2e (whole answers), and tpot (time per output token)")
        ->type_name("PROMISE")
        ->required();
    app.add_option("--quantile", request_.promise.quantile,
                   "Share of the requests that the promise is kept to")
        ->type_name("SHARE")
        ->check(CLI::Range(0.01, 0.9999))
        ->capture_default_str();
    app.add_option("--devices", request_.devices,
                   "Devices at most; a node's unless given, with --rate all of the cluster")
        ->type_name("N")
        ->check(CLI::Range(1, 1 << 20));
    app.add_option("--rate", options_.request.traffic.rate,
                   "Requests a second to be carried by the fewest devices; the most load is found "
                   "unless given")
        ->type_name("R")
        ->check(CLI::Range(1e-3, 1e6));
    app.add_flag("--disaggregate", request_.disaggregate,
                 "Try prompts and answers by different engines too");
    options_.declare_price(app);
    options_.declare_layout(app);
    options_.declare_router(app);
    options_.declare_engine(app);
    options_.declare_traffic(app);
    options_.model.declare(app);
    declare_json(app);
    app.footer(
        "Searched: tensor, pipeline, expert and data-parallel attention degrees (powers of two) "
        "that\n"
        "fit, replicas, and tokens of a step; those that are given are not. Each arrangement is\n"
        "simulated at one rate after the other, roughly first and the best ones to 1 %.\n"
        "Exit code 4: nothing keeps the promise; the message says what a lone user would see.\n\n"
        "Examples:\n"
        "  orrery capacity llama3-70b --on h100-sxm --slo ttft=1s,tpot=50ms --isl 1024 --osl 256\n"
        "  orrery capacity llama3-8b --on l40s --slo ttft=500ms,tpot=40ms --rate 20 --price 1.2");
  }

  int run() override {
    CapacityRequest request = request_;
    request.serving = options_.resolved();
    request.promise.level = read_promise(slo_);
    request.fixed_tokens = given("--max-batched-tokens");
    if (given("--tp") || given("--pp") || given("--attention-dp") || given("--moe-tp") ||
        given("--moe-ep"))
      request.layout = request.serving.engine.layout;
    CapacityAnswer answer;
    {
      const Progress progress("searching");
      answer = Session().capacity(request);
    }
    fmt::print("{}", json_ ? to_json(answer, request) + "\n" : capacity_text(answer, request));
    return 0;
  }

 private:
  bool given(const std::string& option) const { return app_->get_option(option)->count() > 0; }

  CLI::App* app_ = nullptr;
  ServingOptions options_;
  CapacityRequest request_;
  std::string slo_;
};

const Registration<Command> kCapacity(
    {.name = "capacity",
     .summary = "The most load that keeps a promise to users, or the fewest devices for a load",
     .source = "",
     .parameters = {}},
    [] { return std::make_unique<CapacityCommand>(); });

}  // namespace
}  // namespace orrery
