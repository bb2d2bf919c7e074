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
    app_ = &app;
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
    app.add_option("--recompute", recompute_,
                   "What is computed again instead of kept: none, selective (scores of "
                   "attention), experts (feed-forward parts with experts), full (layers)")
        ->type_name("WHAT")
        ->capture_default_str();
    app.add_option("--schedule", schedule_, "Order of micro-batches: 1f1b, gpipe, zero-bubble")
        ->type_name("NAME")
        ->capture_default_str();
    app.add_option("--zero", s.zero,
                   "Sharded over data ranks: 0 nothing, 1 optimiser, 2 gradients, 3 weights too")
        ->type_name("LEVEL")
        ->check(CLI::Range(0, 3));
    app.add_option("--attention", attention_, "One fused kernel, or products and softmax")
        ->type_name("HOW")
        ->check(CLI::IsMember({"fused", "unfused"}));
    app.add_option("--gradients", gradients_, "Number format gradients are summed in")
        ->type_name("T")
        ->check(CLI::IsMember({"fp32", "bf16"}));
    app.add_flag("--overlap-tensor,!--no-overlap-tensor", s.overlap_tensor,
                 "Tensor-parallel traffic runs in pieces behind its products");
    app.add_flag("--overlap-experts,!--no-overlap-experts", s.overlap_experts,
                 "Tokens travel to experts behind other micro-batches' compute");
    app.add_option(
           "--dispatch", dispatch_,
           "How tokens travel to experts of other nodes: by-node, once to each node (DeepEP, "
           "HybridEP), or all-to-all, once to each expert [by-node]")
        ->type_name("HOW")
        ->check(CLI::IsMember({"by-node", "all-to-all"}));
    app.add_flag("--fused-router", s.fused_router,
                 "Experts are chosen by a library's fused kernels, not operator by operator");
    app.add_flag("--overlap-gradients,!--no-overlap-gradients", s.overlap_gradients,
                 "Gradients are summed behind the backward pass");
    const auto extra = [&](const std::string& name, int& value, const std::string& help) {
      app.add_option(name, value, help)->type_name("N")->check(CLI::Range(0, 1 << 10));
    };
    extra("--plain-first", s.plain_first, "Layers at the beginning that stay in 16 bits");
    extra("--plain-last", s.plain_last, "Layers at the end that stay in 16 bits");
    extra("--mtp", s.further_tokens,
          "Multi-token prediction: tokens predicted beside the next one, a block each");
    app.add_flag("--graphs", s.graphs, "Layers run as CUDA graphs: the host is never late");
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
    Strategy& s = request_.strategy;
    s.recompute = recompute_choice(recompute_);
    s.schedule = pipeline_schedule(schedule_);
    s.fused_attention = attention_ != "unfused";
    s.wide_gradients = gradients_ != "bf16";
    s.once_a_node = dispatch_ != "all-to-all";
    for (const char* name : {"zero", "attention", "overlap-tensor", "overlap-experts",
                             "overlap-gradients", "gradients"})
      if (app_->count("--" + std::string(name)) > 0) request_.given.emplace_back(name);
    const TrainAnswer answer = Session().train(request_);
    if (!perfetto_.empty()) write_file(perfetto_, perfetto_trace(answer, request_));
    if (!html_.empty()) write_file(html_, training_page(answer, request_));
    fmt::print("{}", json_ ? to_json(answer, request_) + "\n" : train_text(answer, request_));
    return answer.fits ? 0 : static_cast<int>(ErrorKind::kInfeasible);
  }

 private:
  CLI::App* app_ = nullptr;
  TrainRequest request_;
  TrainingOptions options_;
  std::string perfetto_, html_;
  std::string recompute_ = "none", schedule_ = "1f1b", attention_, gradients_, dispatch_;
};

const Registration<Command> kTrain(
    {.name = "train",
     .summary = "How long a training step takes on a cluster, where its time goes, whether it fits",
     .source = "",
     .parameters = {}},
    [] { return std::make_unique<TrainCommand>(); });

}  // namespace
}  // namespace orrery
