#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "orrery/base/output_file.h"
#include "orrery/cli/command.h"
#include "orrery/report/html.h"
#include "orrery/report/perfetto.h"
#include "orrery/report/text.h"

namespace orrery {
namespace {

class PredictCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    device_.declare_for_program(app);
    workload_.declare(app);
    app.add_option("--stack", stack_, "The software that runs it (see 'orrery models')")
        ->type_name("STACK")
        ->capture_default_str();
    model_.regime = "sustained";
    model_.declare(app);
    app.add_option("--top", most_, "Kernels to list")
        ->check(CLI::Range(0, 100000))
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--kernels", kernels_,
                   "Write every launch to this CSV, in order, as rows that 'kernel' takes")
        ->type_name("FILE");
    app.add_flag("--must-fit", must_fit_, "Exit with 4 when the device's memory is too small");
    app.add_option("--perfetto", perfetto_, "Write the timeline as a trace for ui.perfetto.dev")
        ->type_name("FILE");
    app.add_option("--html", html_, "Write a page with plots and tables of everything predicted")
        ->type_name("FILE");
    declare_json(app);
    app.footer(
        "Examples:\n  orrery predict model.mlir --on h200\n"
        "  orrery predict llama3-8b --on h100-sxm --phase decode --batch 32 --context 4096\n"
        "  orrery predict resnet-50 --on a100-sxm-80gb --batch 64 --phase train --stack "
        "torch-eager");
  }
  int run() override {
    PredictRequest request;
    request.workload = workload_.workload;
    request.device = device_.device;
    request.overrides = device_.overrides();
    request.stack = stack_;
    static_cast<ModelChoice&>(request) = model_.choice();
    request.point = model_.point();
    request.read = workload_.resolved();
    request.list_launches = !kernels_.empty();
    request.timeline = !perfetto_.empty() || !html_.empty();
    const PredictAnswer answer = Session().predict(request);
    if (!kernels_.empty()) write_file(kernels_, launches_csv(answer));
    if (!perfetto_.empty()) write_file(perfetto_, perfetto_trace(answer, request));
    if (!html_.empty()) write_file(html_, html_report(answer, request));
    if (json_)
      fmt::print("{}\n", to_json(answer, request));
    else
      fmt::print("{}", prediction_text(answer, request, most_));
    if (!must_fit_ || answer.memory.fits) return 0;
    // The answer stands on standard output already, so this is no error to print there as JSON.
    fmt::print(stderr, "orrery: it needs {} and {} has {}\n",
               format_bytes(answer.memory.peak_bytes), request.device,
               format_bytes(answer.memory.capacity_bytes));
    return static_cast<int>(ErrorKind::kInfeasible);
  }

 private:
  WorkloadOptions workload_;
  DeviceOptions device_;
  ModelOptions model_;
  std::string stack_ = "xla";
  size_t most_ = 12;
  std::string kernels_, perfetto_, html_;
  bool must_fit_ = false;
};

const Registration<Command> kPredict(
    {.name = "predict",
     .summary = "How long one step of a workload takes on a device, its memory and energy",
     .source = "",
     .parameters = {}},
    [] { return std::make_unique<PredictCommand>(); });

}  // namespace
}  // namespace orrery
