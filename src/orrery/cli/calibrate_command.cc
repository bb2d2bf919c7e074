#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "orrery/cli/command.h"
#include "orrery/cli/progress.h"
#include "orrery/report/text.h"

namespace orrery {
namespace {

class CalibrateCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("DEVICE", request_.device,
                   "The device that was measured: a name that 'orrery hardware' lists, a YAML file "
                   "of your own, or 'generic': one fit for any device, from tables of several")
        ->required();
    app.add_option("--from", request_.tables,
                   "CSV of measured kernels: op, dtype, params, us and perhaps sm_mhz, watts "
                   "(tools/measure/kernels.py writes them), or a table of aiconfigurator's or "
                   "NeuSight's; for 'generic' with the device before it, unless the table names "
                   "its devices")
        ->type_name("[DEVICE=]FILE")
        ->required()
        ->expected(1)
        ->take_all();
    app.add_option("--stack", request_.stack, "Whose kernels were measured: a stack or its family")
        ->type_name("STACK")
        ->capture_default_str();
    app.add_option("--out", request_.out, "Where the fit goes; DEVICE.STACK.json unless given")
        ->type_name("FILE");
    app.add_option("--seed", request_.seed, "Of the folds that rows are held out in")
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--hold-out", request_.hold_out,
                   "Leave one row in N out of the fit, to be judged by with 'validate --held-out'")
        ->type_name("N")
        ->check(CLI::Range(2, 1000));
    node_ = app.add_option("--node-us", node_us_,
                           "Time of an empty launch on the machine to predict for: tables with "
                           "rows of op 'empty' are moved by the difference")
                ->type_name("US")
                ->check(CLI::Range(1e-3, 1e5));
    app.add_option("--prior", request_.prior,
                   "A fit over other devices to begin from, or 'none'; unless given, the shipped "
                   "generic.STACK.json where it was made without this device")
        ->type_name("FILE");
    declare_json(app);
    app.footer(
        "Examples:\n"
        "  orrery calibrate h200 --from examples/h200_kernels.csv --out my-h200.json\n"
        "  orrery kernel --on h200 --batch examples/kernels.csv --fit my-h200.json\n"
        "  orrery calibrate generic --from a100-sxm-80gb=a100.csv --from l40s=l40s.csv --stack "
        "vllm");
  }
  int run() override {
    if (node_->count() > 0) request_.node_us = node_us_;
    const CalibrateAnswer answer = fitted();
    if (json_)
      fmt::print("{}\n", to_json(answer, request_));
    else
      fmt::print("{}", calibration_text(answer, request_));
    return 0;
  }

 private:
  CalibrateAnswer fitted() const {
    const Progress progress("fitting " + request_.device);
    return Session().calibrate(request_);
  }

  CalibrateRequest request_;
  double node_us_ = 0;
  CLI::Option* node_ = nullptr;
};

const Registration<Command> kCalibrate({.name = "calibrate",
                                        .summary = "Fits kernel times to measurements of a device",
                                        .source = "",
                                        .parameters = {}},
                                       [] { return std::make_unique<CalibrateCommand>(); });

}  // namespace
}  // namespace orrery
