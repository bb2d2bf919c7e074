#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "orrery/cli/command.h"
#include "orrery/cli/training_options.h"
#include "orrery/report/train_text.h"

namespace orrery {
namespace {

class PlanCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    options_.declare(app, request_);
    app.add_option("--gpus", request_.gpus, "Devices; several numbers are compared: 512,1024")
        ->type_name("N")
        ->delimiter(',')
        ->check(CLI::Range(1, 1 << 20))
        ->required();
    app.add_option("--top", request_.most, "Layouts that are listed")
        ->type_name("N")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    options_.declare_how(app, request_);
    declare_json(app);
    app.footer(
        "Searched: tensor, pipeline, context and expert parallel sizes, chunks a stage, "
        "micro-batch,\n"
        "recomputation and ZeRO; all of them, where they divide and fit. A layout is listed with "
        "its\n"
        "quickest variant. Tensor-parallel traffic is taken to run in pieces behind its products\n"
        "unless --no-overlap-tensor is given. Exit code 4: nothing divides, or nothing fits.\n\n"
        "Example:\n"
        "  orrery plan llama3-405b --on dgx-h100 --gpus 16384 --global-batch 2048 --seq 8192");
  }

  int run() override {
    options_.resolve(request_);
    const PlanAnswer answer = Session().plan(request_);
    fmt::print("{}", json_ ? to_json(answer, request_) + "\n" : plan_text(answer, request_));
    return 0;
  }

 private:
  PlanRequest request_;
  TrainingOptions options_;
};

const Registration<Command> kPlan(
    {.name = "plan",
     .summary = "The quickest way to spread a model's training over so many devices",
     .source = "",
     .parameters = {}},
    [] { return std::make_unique<PlanCommand>(); });

}  // namespace
}  // namespace orrery
