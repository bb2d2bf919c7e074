#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <sstream>

#include "orrery/api/capacity.h"
#include "orrery/base/parse_number.h"
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
                   "Devices at most; a node's unless given, for a given load all of the cluster")
        ->type_name("N")
        ->check(CLI::Range(1, 1 << 20));
    app.add_option(
           "--rate", rate_,
           "Requests a second (conversations with --turns) to be carried at the least cost; "
           "'most' finds the most, as where no load is given")
        ->type_name("R|most");
    app.add_option("--concurrency", concurrency_,
                   "The same for users who wait for an answer before they ask again")
        ->type_name("C|most");
    app.add_option("--requests", options_.request.traffic.requests,
                   "The same for a table of requests (see orrery serving), at its own rate …")
        ->type_name("FILE");
    app.add_option("--speed", speed_, "… or at so many times that")
        ->type_name("X|most")
        ->needs("--requests");
    app.add_flag("--disaggregate", request_.disaggregate,
                 "Try prompts and answers by different engines too; so is done where --on names "
                 "several kinds of devices");
    options_.declare_price(app);
    options_.declare_layout(app);
    options_.declare_router(app);
    options_.declare_engine(app);
    options_.declare_traffic(app);
    options_.model.declare(app);
    declare_json(app);
    app.footer(
        "--on A,B tries engines on each, and prompts on one with answers on the other; --price\n"
        "A=2.5,B=0.9 makes the cheapest the best, not the fewest devices.\n"
        "Searched: tensor, pipeline, expert and data-parallel attention degrees (powers of two) "
        "that\n"
        "fit, replicas, and tokens of a step; those that are given are not. Each arrangement is\n"
        "simulated under one load after the other, roughly first and the best ones to 1 %.\n"
        "Exit code 4: nothing keeps the promise; the message says what a lone user would see.\n\n"
        "Examples:\n"
        "  orrery capacity llama3-70b --on h100-sxm --slo ttft=1s,tpot=50ms --isl 1024 --osl 256\n"
        "  orrery capacity llama3-8b --on l40s --slo ttft=500ms,tpot=40ms --rate 20 --price 1.2\n"
        "  orrery capacity llama3-8b --on h100-sxm --slo ttft=1s,tpot=40ms --concurrency most\n"
        "  orrery capacity llama3-70b --on h100-sxm,h200 --slo ttft=1s,tpot=50ms --rate 10 \\\n"
        "      --price h100-sxm=2.5,h200=3.2");
  }

  int run() override {
    CapacityRequest request = request_;
    request.serving = options_.resolved();
    TrafficRequest& traffic = request.serving.traffic;
    double users = 0;
    read_load("--rate", rate_, 1e-3, 1e6, traffic.rate, request.most);
    read_load("--concurrency", concurrency_, 1, 1 << 24, users, request.most);
    read_load("--speed", speed_, 1e-6, 1e6, traffic.speed, request.most);
    traffic.concurrency = std::llround(users);
    if (concurrency_ == kMost) traffic.concurrency = 1;
    std::stringstream kinds(request.serving.engine.device);
    for (std::string kind; std::getline(kinds, kind, ',');)
      if (std::ranges::find(request.on, kind) == request.on.end()) request.on.push_back(kind);
    request.serving.engine.device = request.on.front();
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
  static constexpr const char* kMost = "most";

  static void read_load(const char* option, const std::string& text, double least, double largest,
                        double& load, bool& most) {
    if (text.empty()) return;
    if (text == kMost) {
      most = true;
      return;
    }
    const auto given = parse_number<double>(text);
    if (!given || !(*given >= least && *given <= largest))
      throw_usage(fmt::format("{} '{}': give a number from {:g} to {:g}, or most", option, text,
                              least, largest));
    load = *given;
  }

  bool given(const std::string& option) const { return app_->get_option(option)->count() > 0; }

  CLI::App* app_ = nullptr;
  ServingOptions options_;
  CapacityRequest request_;
  std::string slo_, rate_, concurrency_, speed_;
};

const Registration<Command> kCapacity(
    {.name = "capacity",
     .summary = "The most load that keeps a promise to users, or the cheapest engines for a load",
     .source = "",
     .parameters = {}},
    [] { return std::make_unique<CapacityCommand>(); });

}  // namespace
}  // namespace orrery
