#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <fstream>

#include "orrery/base/csv.h"
#include "orrery/cli/command.h"
#include "orrery/kernel/operator_kernel.h"

namespace orrery {
namespace {

std::string operators_help() {
  std::string text = "Operators and their params (a JSON object):\n";
  for (const OperatorDescription& o : supported_operators())
    text += fmt::format("  {:<18}{}\n", o.op, o.params);
  text +=
      "dtypes: fp32 (vector units), tf32, fp16, bf16, fp8, int8, fp4; of gemm, grouped_gemm and moe\n"
      "also int4_weight and fp4_weight (bf16 by four bits) and fp8_block, with scales for blocks.\n"
      "The output has the columns of the input and predicted_us, low_us, high_us (90 %), model.\n\n"
      "Example:  orrery kernel --on h200 --batch examples/kernels.csv --out predicted.csv";
  return text;
}

class KernelCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    device_.declare(app, true);
    app.add_option("--batch", input_, "CSV with the columns op, dtype, params and perhaps sm_mhz")
        ->type_name("FILE")
        ->required();
    app.add_option("--out", output_, "CSV to write; standard output unless given")
        ->type_name("FILE");
    model_.declare(app);
    declare_json(app);
    app.footer(operators_help());
  }

  int run() override {
    const CsvTable table = CsvTable::parse(Source::from_file(input_));
    KernelRequest request;
    request.table = input_;
    request.device = device_.device;
    request.overrides = device_.overrides();
    request.kernel_model = model_.kernel_model;
    request.point = model_.point();
    const size_t op = table.required_column("op");
    const size_t dtype = table.required_column("dtype");
    const size_t params = table.required_column("params");
    const int clock = table.column("sm_mhz");
    std::vector<OperatorRow> rows;
    for (size_t i = 0; i < table.rows(); ++i) {
      OperatorRow row;
      row.op = table.at(i, op);
      row.dtype = table.at(i, dtype);
      row.params = table.at(i, params);
      row.line = table.line(i);
      if (clock >= 0) row.sm_mhz = clock_of(table, i, static_cast<size_t>(clock));
      rows.push_back(std::move(row));
    }
    const auto answers = Session().predict_operators(request, rows);
    const std::string text = json_ ? json(rows, answers) : csv(table, answers);
    if (output_.empty()) {
      fmt::print("{}", text);
      return 0;
    }
    std::ofstream file(output_, std::ios::binary);
    file << text;
    file.close();
    if (!file) throw_usage(fmt::format("cannot write '{}'", output_));
    return 0;
  }

 private:
  double clock_of(const CsvTable& table, size_t row, size_t column) const {
    const std::string_view text = table.at(row, column);
    if (text.empty()) return 0;
    double mhz = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), mhz);
    if (status != std::errc() || end != text.data() + text.size() || !(mhz >= 1 && mhz <= 1e5))
      throw Error(ErrorKind::kInput, {input_, table.line(row), 0},
                  fmt::format("sm_mhz: '{}' is not a clock in MHz", text));
    return mhz;
  }
  static std::string csv(const CsvTable& table, const std::vector<OperatorAnswer>& answers) {
    fmt::memory_buffer out;
    for (const std::string& h : table.header())
      fmt::format_to(std::back_inserter(out), "{},", csv_field(h));
    fmt::format_to(std::back_inserter(out), "predicted_us,low_us,high_us,model\n");
    for (size_t i = 0; i < answers.size(); ++i) {
      for (size_t c = 0; c < table.header().size(); ++c)
        fmt::format_to(std::back_inserter(out), "{},", csv_field(table.at(i, c)));
      const OperatorAnswer& a = answers[i];
      fmt::format_to(std::back_inserter(out), "{:.6g},{:.6g},{:.6g},{}\n", a.predicted_us, a.low_us,
                     a.high_us, a.model);
    }
    return fmt::to_string(out);
  }
  static std::string json(const std::vector<OperatorRow>& rows,
                          const std::vector<OperatorAnswer>& answers) {
    return operators_json(rows, answers) + "\n";
  }

  DeviceOptions device_;
  ModelOptions model_;
  std::string input_, output_;
};

const Registration<Command> kKernel(
    {.name = "kernel",
     .summary = "How long single operators take on a device, a table at a time",
     .source = "",
     .parameters = {}},
    [] { return std::make_unique<KernelCommand>(); });

}  // namespace
}  // namespace orrery
