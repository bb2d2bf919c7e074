#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "orrery/cli/command.h"
#include "orrery/report/text.h"

namespace orrery {
namespace {

class ValidateCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("CSV", request_.table,
                   "Measured kernels: op, dtype, params, us and perhaps sm_mhz, or a table of "
                   "aiconfigurator's or NeuSight's")
        ->required();
    device_.declare_for_operators(app);
    app.add_option("--stack", request_.stack, "Whose kernels were measured (see 'orrery models')")
        ->type_name("STACK")
        ->capture_default_str();
    model_.declare(app);
    app.add_option("--regime", request_.regime,
                   "Only rows measured in a burst or sustained; all unless given")
        ->type_name("REGIME")
        ->check(CLI::IsMember({"burst", "sustained"}));
    app.add_option("--held-out", request_.held_out,
                   "Only the rows that 'calibrate --hold-out N' leaves out of a fit")
        ->type_name("N")
        ->check(CLI::Range(2, 1000));
    declare_json(app);
    app.footer("Example:  orrery validate examples/h200_kernels.csv --on h200");
  }
  int run() override {
    static_cast<ModelChoice&>(request_) = model_.choice();
    request_.device = device_.device;
    request_.overrides = device_.overrides();
    const ValidateAnswer answer = Session().validate(request_);
    if (json_)
      fmt::print("{}\n", to_json(answer, request_));
    else
      fmt::print("{}", validation_text(answer, request_));
    return 0;
  }

 private:
  DeviceOptions device_;
  ChoiceOptions model_;
  ValidateRequest request_;
};

const Registration<Command> kValidate(
    {.name = "validate",
     .summary = "How far predictions are from your own measurements of kernels",
     .source = "",
     .parameters = {}},
    [] { return std::make_unique<ValidateCommand>(); });

}  // namespace
}  // namespace orrery
