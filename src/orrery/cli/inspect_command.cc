#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "orrery/cli/command.h"
#include "orrery/report/text.h"

namespace orrery {
namespace {

class InspectCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    workload_.declare(app);
    app.add_option("--top", most_, "Kinds of operations to list")
        ->check(CLI::Range(0, 100000))
        ->type_name("N")
        ->capture_default_str();
    declare_json(app);
    app.footer(
        "Examples:\n  orrery inspect model.mlir\n  orrery inspect mixtral-8x7b --phase decode "
        "--batch 8");
  }
  int run() override {
    const InspectAnswer answer = Session().inspect(workload_.workload, workload_.resolved());
    if (json_)
      fmt::print("{}\n", to_json(answer));
    else
      fmt::print("{}", inspection_text(answer, most_));
    return 0;
  }

 private:
  WorkloadOptions workload_;
  size_t most_ = 16;
};

const Registration<Command> kInspect(
    {.name = "inspect",
     .summary = "What is in a workload: operations, parameters, FLOPs, bytes, collectives",
     .source = "",
     .parameters = {}},
    [] { return std::make_unique<InspectCommand>(); });

}  // namespace
}  // namespace orrery
