#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "orrery/api/compare.h"
#include "orrery/base/output_file.h"
#include "orrery/cli/command.h"
#include "orrery/report/compare.h"

namespace orrery {
namespace {

class CompareCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("--on", on_,
                   "Devices, separated by commas or each with an --on of its own; the first is the "
                   "baseline. What holds for one alone follows it behind colons: "
                   "h200:memory.bandwidth=6TB/s, h200:stack=torch-eager")
        ->type_name("DEVICE")
        ->delimiter(',')
        ->expected(1)
        ->take_all()
        ->required();
    workload_.declare(app);
    declare_set(app, sets_);
    app.add_option("--stack", stack_, "The software that runs it (see 'orrery models')")
        ->type_name("STACK")
        ->capture_default_str();
    model_.regime = "sustained";
    model_.declare(app);
    app.add_option("--html", html_, "Write a page with the comparison as bars and tables")
        ->type_name("FILE");
    declare_json(app);
    app.footer(
        "Examples:\n  orrery compare llama3-8b --on h200,h100-sxm,a100-sxm-80gb --phase decode "
        "--batch 32 --context 4096\n"
        "  orrery compare model.mlir --on h200,h200:memory.bandwidth=6TB/s\n"
        "  orrery compare resnet-50 --on h200,h200:stack=torch-eager --batch 64");
  }
  int run() override {
    CompareRequest request;
    request.workload = workload_.workload;
    for (const std::string& text : on_) request.on.push_back(read_compare_entry(text));
    request.overrides = read_overrides(sets_);
    request.stack = stack_;
    static_cast<ModelChoice&>(request) = model_.choice();
    request.point = model_.point();
    request.read = workload_.resolved();
    const CompareAnswer answer = Session().compare(request);
    if (!html_.empty()) write_file(html_, comparison_page(answer, request));
    if (json_)
      fmt::print("{}\n", to_json(answer, request));
    else
      fmt::print("{}", comparison_text(answer, request));
    if (answer.fits_somewhere()) return 0;
    // The answer stands on standard output already, so this is no error to print there as JSON.
    fmt::print(stderr, "orrery: it fits on none of them\n");
    return static_cast<int>(ErrorKind::kInfeasible);
  }

 private:
  std::vector<std::string> on_, sets_;
  WorkloadOptions workload_;
  ModelOptions model_;
  std::string stack_ = "xla", html_;
};

const Registration<Command> kCompare(
    {.name = "compare",
     .summary = "One workload on several devices, side by side, and what makes the difference",
     .source = "",
     .parameters = {}},
    [] { return std::make_unique<CompareCommand>(); });

}  // namespace
}  // namespace orrery
