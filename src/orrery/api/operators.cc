// Tables of single operators: rows to kernels, blocks of kernels to estimates.

#include <fmt/format.h>

#include <stdexcept>

#include "orrery/api/measured_rows.h"
#include "orrery/api/model_choice.h"
#include "orrery/api/session.h"
#include "orrery/base/csv.h"
#include "orrery/base/number_text.h"
#include "orrery/base/parse_number.h"
#include "orrery/kernel/operator_kernel.h"

namespace orrery {
namespace {

/// Rows predicted together: many of every class of kernels, and few enough for a core's
/// second-level cache.
constexpr size_t kBlock = 2048;

std::unique_ptr<Predictor> bind(const Catalogue& catalogue, const std::string& data_folder,
                                const KernelRequest& request) {
  const Device device = catalogue.device(request.device, request.overrides);
  require_kernel_stack(request.stack, device, data_folder);
  return bind_choice(request, device, request.stack, data_folder, catalogue);
}

/// Kernels of a few rows with the clocks they run at, and their intervals.
class OperatorBlock {
 public:
  OperatorBlock(const Predictor& predictor, const KernelRequest& request)
      : predictor_(predictor),
        request_(request),
        kernels_(kBlock),
        points_(kBlock),
        estimates_(kBlock) {}

  size_t size() const { return size_; }
  bool full() const { return size_ == kBlock; }
  void clear() { size_ = 0; }

  void add(std::string_view op, std::string_view dtype, std::string_view params, double sm_mhz,
           int64_t line) {
    try {
      kernels_[size_] = operator_kernel(op, dtype, params);
    } catch (const std::invalid_argument& e) {
      throw Error(ErrorKind::kInput, {request_.table, line, 0}, e.what());
    }
    points_[size_] = request_.point;
    if (sm_mhz > 0) points_[size_].clock = Hertz(sm_mhz * 1e6);
    ++size_;
  }
  void predict() {
    predictor_.predict(std::span(kernels_).first(size_),
                       OperatingPoints(std::span(points_).first(size_)),
                       std::span(estimates_).first(size_));
  }
  TimeInterval at(size_t row) const { return interval(estimates_[row]); }

 private:
  const Predictor& predictor_;
  const KernelRequest& request_;
  std::vector<Kernel> kernels_;
  std::vector<OperatingPoint> points_;
  std::vector<Estimate> estimates_;
  size_t size_ = 0;
};

/// Where a table of operators has what.
class OperatorColumns {
 public:
  explicit OperatorColumns(const CsvReader& reader)
      : reader_(reader),
        op_(reader.required_column("op")),
        dtype_(reader.required_column("dtype")),
        params_(reader.required_column("params")),
        clock_(reader.column("sm_mhz")) {}

  std::string_view op() const { return reader_.field(op_); }
  std::string_view dtype() const { return reader_.field(dtype_); }
  std::string_view params() const { return reader_.field(params_); }
  double sm_mhz(const std::string& table) const {
    if (clock_ < 0) return 0;
    const std::string_view text = reader_.field(static_cast<size_t>(clock_));
    if (text.empty()) return 0;
    const auto mhz = parse_number<double>(text);
    if (!mhz || !(*mhz >= 1 && *mhz <= 1e5))
      throw Error(ErrorKind::kInput, {table, reader_.line(), 0},
                  fmt::format("sm_mhz: '{}' is not a clock in MHz", text));
    return *mhz;
  }

 private:
  const CsvReader& reader_;
  size_t op_, dtype_, params_;
  int clock_;
};

}  // namespace

std::vector<OperatorRow> read_operators(const Source& table) {
  CsvReader reader(table);
  const OperatorColumns columns(reader);
  std::vector<OperatorRow> rows;
  while (reader.next()) {
    OperatorRow row;
    row.op = columns.op();
    row.dtype = columns.dtype();
    row.params = columns.params();
    row.sm_mhz = columns.sm_mhz(table.name());
    row.line = reader.line();
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<OperatorAnswer> Session::predict_operators(const KernelRequest& request,
                                                       const std::vector<OperatorRow>& rows) const {
  const auto predictor = bind(catalogue_, data_folder_, request);
  OperatorBlock block(*predictor, request);
  std::vector<OperatorAnswer> answers;
  answers.reserve(rows.size());
  for (const OperatorRow& row : rows) {
    block.add(row.op, row.dtype, row.params, row.sm_mhz, row.line);
    if (!block.full() && &row != &rows.back()) continue;
    block.predict();
    for (size_t i = 0; i < block.size(); ++i) {
      const TimeInterval t = block.at(i);
      answers.push_back({t.value.value * 1e6, t.low.value * 1e6, t.high.value * 1e6,
                         std::string(predictor->name())});
    }
    block.clear();
  }
  return answers;
}

void Session::predict_table(const KernelRequest& request, const Source& table,
                            const std::function<void(std::string_view)>& write) const {
  const auto predictor = bind(catalogue_, data_folder_, request);
  CsvReader reader(table);
  const OperatorColumns columns(reader);
  const std::string last_field = "," + csv_field(predictor->name()) + "\n";

  std::string text;
  for (const std::string& name : reader.header()) text += csv_field(name) + ",";
  text += "predicted_us,low_us,high_us,model\n";
  write(text);

  OperatorBlock block(*predictor, request);
  std::vector<std::string_view> records(kBlock);
  while (true) {
    block.clear();
    size_t longest = 0;
    while (!block.full() && reader.next()) {
      records[block.size()] = reader.record();
      longest += reader.record().size() + 3 * (1 + kLongestNumber) + last_field.size();
      block.add(columns.op(), columns.dtype(), columns.params(), columns.sm_mhz(request.table),
                reader.line());
    }
    if (block.size() == 0) return;
    block.predict();
    if (text.size() < longest) text.resize(longest);
    char* at = text.data();
    for (size_t i = 0; i < block.size(); ++i) {
      const TimeInterval t = block.at(i);
      at = std::ranges::copy(records[i], at).out;
      for (const Seconds seconds : {t.value, t.low, t.high}) {
        *at++ = ',';
        at = write_number(at, seconds.value * 1e6);
      }
      at = std::ranges::copy(last_field, at).out;
    }
    write({text.data(), static_cast<size_t>(at - text.data())});
  }
}

}  // namespace orrery
