#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "orrery/api/session.h"
#include "orrery/base/csv.h"
#include "orrery/base/shared_data_for_test.h"
#include "validation_record.h"

namespace orrery {
namespace {

double number(const CsvTable& table, size_t row, const char* column) {
  return std::strtod(std::string(table.at(row, table.required_column(column))).c_str(), nullptr);
}

/// Whole programs that XLA compiled and an H200 ran. Bytes of arguments, outputs
/// and donated buffers are XLA's to the byte; the step time's error is what
/// data/validation.yaml says it is.
class Accuracy : public testing::TestWithParam<const char*> {};

TEST_P(Accuracy, ProgramsOnH200) {
  ORRERY_SHARED_DATA_OR_SKIP(path, "h200/jax_models.csv");
  const CsvTable table = CsvTable::parse(Source::from_file(path));
  const Session session(ORRERY_SOURCE_DIR "/hardware", ORRERY_SOURCE_DIR "/data");
  Errors errors;
  for (size_t i = 0; i < table.rows(); ++i) {
    const std::string name(table.at(i, table.required_column("case")));
    SCOPED_TRACE(name);
    PredictRequest request;
    request.workload = *shared_data("h200/stablehlo/" + name + ".mlir");
    request.device = "h200";
    request.kernel_model = GetParam();
    const PredictAnswer a = session.predict(request);
    EXPECT_EQ(a.memory.arguments_bytes, number(table, i, "arg_bytes"));
    EXPECT_EQ(a.memory.outputs_bytes, number(table, i, "out_bytes"));
    EXPECT_EQ(a.memory.aliased_bytes, number(table, i, "alias_bytes"));
    errors.add(a.latency_s * 1e6, a.latency_low_s * 1e6, a.latency_high_s * 1e6,
               number(table, i, "pipe_us"));
  }
  errors.check("h200/jax_models.csv", GetParam());
}

/// Single operators at each row's clock.
TEST_P(Accuracy, OperatorsOnH200) {
  ORRERY_SHARED_DATA_OR_SKIP(path, "h200/kernels.csv");
  const CsvTable table = CsvTable::parse(Source::from_file(path));
  const Session session(ORRERY_SOURCE_DIR "/hardware", ORRERY_SOURCE_DIR "/data");
  KernelRequest request;
  request.table = path;
  request.device = "h200";
  request.kernel_model = GetParam();
  std::vector<OperatorRow> rows;
  for (size_t i = 0; i < table.rows(); ++i)
    rows.push_back({std::string(table.at(i, table.required_column("op"))),
                    std::string(table.at(i, table.required_column("dtype"))),
                    std::string(table.at(i, table.required_column("params"))),
                    number(table, i, "sm_mhz"), table.line(i)});
  const auto answers = session.predict_operators(request, rows).kernels;
  Errors errors;
  for (size_t i = 0; i < answers.size(); ++i)
    errors.add(answers[i].predicted_us, answers[i].low_us, answers[i].high_us,
               number(table, i, "us"));
  errors.check("h200/kernels.csv", GetParam());
}

INSTANTIATE_TEST_SUITE_P(Models, Accuracy, testing::Values("roofline", "tile"),
                         [](const auto& model) { return std::string(model.param); });

}  // namespace
}  // namespace orrery
