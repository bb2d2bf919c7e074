#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "orrery/cli/command.h"
#include "orrery/report/train_text.h"

namespace orrery {
namespace {

class PlanCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("MODEL", request_.model,
                   "A language model of the zoo, or the config.json of a Hugging Face model")
        ->required();
    app.add_option("--on", request_.cluster, "The cluster (see 'orrery hardware'), or a YAML file")
        ->type_name("CLUSTER")
        ->required();
    declare_set(app, sets_);
    app.add_option("--gpus", request_.gpus, "Devices; several numbers are compared: 512,1024")
        ->type_name("N")
        ->delimiter(',')
        ->check(CLI::Range(1, 1 << 20))
        ->required();
    Strategy& s = request_.strategy;
    app.add_option("--global-batch", s.global_batch, "Sequences of a step, on all devices")
        ->type_name("N")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
        ->required();
    app.add_option("--seq", s.length, "Tokens of a sequence")
        ->type_name("N")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
        ->capture_default_str();
    app.add_option("--dtype", dtype_,
                   "Number format of the linear layers: bf16, fp16, fp8, mxfp8, nvfp4")
        ->type_name("T")
        ->capture_default_str();
    app.add_option("--framework", request_.framework,
                   "Whose defaults hold: megatron-core, megatron-2021, fsdp, maxtext")
        ->type_name("NAME")
        ->capture_default_str();
    app.add_option("--top", request_.most, "Layouts that are listed")
        ->type_name("N")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    declare_json(app);
    app.footer(
        "Searched: tensor, pipeline, context and expert parallel sizes, chunks a stage, "
        "micro-batch,\n"
        "recomputation and ZeRO; all of them, where they divide and fit. A layout is listed with "
        "its\n"
        "quickest variant. Tensor-parallel traffic is taken to run in pieces behind its products, "
        "as\n"
        "'train --overlap-tensor' has it. Exit code 4: nothing divides, or nothing fits.\n\n"
        "Example:\n"
        "  orrery plan llama3-405b --on dgx-h100 --gpus 16384 --global-batch 2048 --seq 8192");
  }

  int run() override {
    request_.strategy.precision = training_precision(dtype_);
    request_.overrides = read_overrides(sets_);
    const PlanAnswer answer = Session().plan(request_);
    fmt::print("{}", json_ ? to_json(answer, request_) + "\n" : plan_text(answer, request_));
    return 0;
  }

 private:
  PlanRequest request_;
  std::vector<std::string> sets_;
  std::string dtype_ = "bf16";
};

const Registration<Command> kPlan(
    {.name = "plan",
     .summary = "The quickest way to spread a model's training over so many devices",
     .source = "",
     .parameters = {}},
    [] { return std::make_unique<PlanCommand>(); });

}  // namespace
}  // namespace orrery
