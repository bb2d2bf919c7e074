#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "orrery/base/output_file.h"
#include "orrery/base/source.h"
#include "orrery/cli/command.h"
#include "orrery/kernel/operator_kernel.h"

namespace orrery {
namespace {

std::string operators_help() {
  std::string text = "Operators and their params (a JSON object):\n";
  for (const OperatorDescription& o : supported_operators())
    text += fmt::format("  {:<18}{}\n", o.op, o.params);
  text +=
      "dtypes: fp32 (vector units), tf32, fp16, bf16, fp8, int8, fp4; of gemm, grouped_gemm and "
      "moe\n"
      "also int4_weight and fp4_weight (bf16 by four bits) and fp8_block, with scales for blocks.\n"
      "The output has the columns of the input and predicted_us, low_us, high_us (90 %), model.\n\n"
      "Example:  orrery kernel --on h200 --batch examples/kernels.csv --out predicted.csv";
  return text;
}

class KernelCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    device_.declare_for_operators(app);
    app.add_option("--batch", input_, "CSV with the columns op, dtype, params and perhaps sm_mhz")
        ->type_name("FILE")
        ->required();
    app.add_option("--out", output_, "CSV to write; standard output unless given")
        ->type_name("FILE");
    app.add_option("--stack", stack_,
                   "Whose kernels run: a stack of 'orrery models' or one the device was measured "
                   "under, as vllm")
        ->type_name("STACK")
        ->capture_default_str();
    model_.declare(app);
    declare_json(app);
    app.footer(operators_help());
  }

  int run() override {
    KernelRequest request;
    request.table = input_;
    request.device = device_.device;
    request.overrides = device_.overrides();
    request.stack = stack_;
    static_cast<ModelChoice&>(request) = model_.choice();
    request.point = model_.point();
    const Source table = Source::from_file(input_);
    const Session session;
    OutputFile out(output_);
    if (json_) {
      const std::vector<OperatorRow> rows = read_operators(table);
      out.write(operators_json(rows, session.predict_operators(request, rows)) + "\n");
    } else {
      for (const std::string& gap :
           session.predict_table(request, table, [&](std::string_view text) { out.write(text); }))
        fmt::print(stderr, "not modelled: {}\n", gap);
    }
    out.commit();
    return 0;
  }

 private:
  DeviceOptions device_;
  ModelOptions model_;
  std::string input_, output_;
  std::string stack_ = KernelRequest().stack;
};

const Registration<Command> kKernel(
    {.name = "kernel",
     .summary = "How long single operators take on a device, a table at a time",
     .source = "",
     .parameters = {}},
    [] { return std::make_unique<KernelCommand>(); });

}  // namespace
}  // namespace orrery
