#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "orrery/base/output_file.h"
#include "orrery/cli/command.h"
#include "orrery/cli/training_options.h"
#include "orrery/report/perfetto.h"
#include "orrery/report/train_page.h"
#include "orrery/report/train_text.h"

namespace orrery {
namespace {

class TrainCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    options_.declare(app, request_);
    Strategy& s = request_.strategy;
    s.gpus = 0;
    const auto count = [&](const std::string& name, int& value, const std::string& help) {
      app.add_option(name, value, help)->type_name("N")->check(CLI::Range(1, 1 << 20));
    };
    count("--gpus", s.gpus, "Devices in all; tp × pp × cp × dp unless given");
    count("--tp", s.tensor, "Tensor parallel: devices that share every layer");
    count("--pp", s.pipeline, "Pipeline stages");
    count("--vpp", s.chunks, "Model chunks a stage: interleaved schedule");
    count("--dp", request_.data, "Data parallel: copies of the model");
    count("--cp", s.context, "Context parallel: devices that share every sequence");
    count("--ep", s.expert, "Expert parallel: devices over which a layer's experts are spread");
    app.add_flag("--sp", s.sequence,
                 "Sequence parallel: tensor ranks split norms and residuals along the sequence");
    app.add_option("--micro-batch", s.micro_batch, "Sequences of a micro-batch")
        ->type_name("N")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
        ->capture_default_str();
    app.add_option(
           "--recompute", recompute_,
           "What is computed again instead of kept: none, selective (scores of "
           "attention), experts (feed-forward parts with experts), operators (all but "
           "attention and every second product), full (layers), or Megatron-Core's modules: "
           "core_attn, layernorm, moe_act, mla_up_proj, mlp, moe, shared_experts")
        ->type_name("WHAT")
        ->capture_default_str();
    app.add_option("--zero", s.zero,
                   "Sharded over data ranks: 0 nothing, 1 optimiser, 2 gradients, 3 weights too")
        ->type_name("LEVEL")
        ->check(CLI::Range(0, 3));
    options_.declare_how(app, request_);
    app.add_option("--straggler", request_.stragglers,
                   "What if devices ran at a part of their speed, e.g. 12=0.8 or 0-7=0.9")
        ->type_name("RANKS=SPEED")
        ->expected(1)
        ->take_all();
    app.add_option("--slow-node", request_.slow_nodes,
                   "What if nodes had a part of their bandwidth into the network, e.g. 3=0.5")
        ->type_name("NODES=SHARE")
        ->expected(1)
        ->take_all();
    app.add_option("--perfetto", perfetto_,
                   "Write the step's timeline, a rank of each stage, for ui.perfetto.dev")
        ->type_name("FILE");
    app.add_option("--html", html_, "Write a page with the schedule, the breakdown and the memory")
        ->type_name("FILE");
    declare_json(app);
    app.footer(
        "Ranks are numbered tensor first, then context, data and pipeline, and fill nodes in "
        "order.\n"
        "Exit code 4: the strategy cannot run the model, or a device's memory does not hold it.\n\n"
        "Examples:\n"
        "  orrery train llama3-70b --on dgx-h100 --tp 4 --sp --pp 8 --vpp 5 --dp 2 \\\n"
        "      --global-batch 256 --seq 8192 --dtype fp8\n"
        "  orrery train llama3-8b --on dgx-h100 --tp 2 --pp 4 --dp 2 --global-batch 64 \\\n"
        "      --straggler 5=0.8 --html step.html --perfetto step.json\n"
        "  orrery train llama3-8b --on dgx-h100 --dp 8 --global-batch 128 --seq 8192 --framework "
        "fsdp");
  }

  int run() override {
    options_.resolve(request_);
    set_recompute(request_.strategy, recompute_);
    const TrainAnswer answer = Session().train(request_);
    if (!perfetto_.empty()) write_file(perfetto_, perfetto_trace(answer, request_));
    if (!html_.empty()) write_file(html_, training_page(answer, request_));
    fmt::print("{}", json_ ? to_json(answer, request_) + "\n" : train_text(answer, request_));
    return answer.fits ? 0 : static_cast<int>(ErrorKind::kInfeasible);
  }

 private:
  TrainRequest request_;
  TrainingOptions options_;
  std::string perfetto_, html_;
  std::string recompute_ = "none";
};

const Registration<Command> kTrain(
    {.name = "train",
     .summary = "How long a training step takes on a cluster, where its time goes, whether it fits",
     .source = "",
     .parameters = {}},
    [] { return std::make_unique<TrainCommand>(); });

}  // namespace
}  // namespace orrery
