// Tables of single operators: rows to kernels, blocks of kernels to estimates.

#include <fmt/format.h>

#include <stdexcept>

#include "orrery/api/append_new.h"
#include "orrery/api/measured_rows.h"
#include "orrery/api/model_choice.h"
#include "orrery/api/session.h"
#include "orrery/base/csv.h"
#include "orrery/base/number_text.h"
#include "orrery/base/parse_number.h"
#include "orrery/kernel/clock_range.h"
#include "orrery/kernel/operator_kernel.h"

namespace orrery {
namespace {

/// Rows predicted together: many of every class of kernels, and few enough for a core's
/// second-level cache.
constexpr size_t kBlock = 2048;

/// What of a row a message is about, in the order of `OperatorRow::cells`.
enum class Cell : uint8_t { kOp, kDtype, kParams, kClock };
constexpr size_t kCells = 4;

/// Of what `operator_kernel` says.
Cell cell_at_fault(std::string_view message) {
  if (message.starts_with("op:")) return Cell::kOp;
  return message.starts_with("dtype:") ? Cell::kDtype : Cell::kParams;
}

/// Kernels of a few rows with the clocks they run at, and their intervals.
class OperatorBlock {
 public:
  OperatorBlock(const Catalogue& catalogue, const std::string& data_folder,
                const KernelRequest& request)
      : point_(request.point), kernels_(kBlock), points_(kBlock), estimates_(kBlock) {
    const Device device = catalogue.device(request.device, request.overrides);
    require_kernel_stack(request.stack, device, data_folder);
    require_clock(point_, device);
    if (point_.clock.value > 0 && point_.regime == OperatingPoint::Regime::kSustained)
      throw_usage(
          "the regime 'sustained' asks for the clock that the power limit allows, 'sm_mhz' fixes "
          "it: give one of them");
    clocks_ = clock_range(device);
    predictor_ = bind_choice(request, device, request.stack, data_folder, catalogue);
    gaps_ = device.gaps;
    append_new(gaps_, predictor_->gaps(point_));
  }

  const Predictor& predictor() const { return *predictor_; }
  const std::vector<std::string>& gaps() const { return gaps_; }
  size_t size() const { return size_; }
  bool full() const { return size_ == kBlock; }
  void clear() { size_ = 0; }

  /// `location` gives where a cell of the row is.
  template <class Location>
  void add(std::string_view op, std::string_view dtype, std::string_view params, double sm_mhz,
           const Location& location) {
    try {
      kernels_[size_] = operator_kernel(op, dtype, params);
    } catch (const std::invalid_argument& e) {
      throw Error(ErrorKind::kInput, location(cell_at_fault(e.what())), e.what());
    }
    points_[size_] = point_;
    if (sm_mhz != 0) {
      if (!clocks_.has(sm_mhz))
        throw Error(ErrorKind::kInput, location(Cell::kClock),
                    "sm_mhz: " + clocks_.refusal(sm_mhz));
      points_[size_].clock = Hertz(sm_mhz * 1e6);
    }
    note_gaps(op, dtype, kernels_[size_]);
    ++size_;
  }
  void predict() {
    predictor_->predict(std::span(kernels_).first(size_),
                        OperatingPoints(std::span(points_).first(size_)),
                        std::span(estimates_).first(size_));
  }
  TimeInterval at(size_t row) const { return interval(estimates_[row]); }

 private:
  /// Kernels of one operator, type and shape of work have the same gaps.
  void note_gaps(std::string_view op, std::string_view dtype, const Kernel& kernel) {
    const auto alike = [&](const Known& k) {
      return k.op == op && k.dtype == dtype && k.shape == kernel.shape.index();
    };
    if (!known_.empty() && alike(known_[last_])) return;
    last_ = static_cast<size_t>(std::ranges::find_if(known_, alike) - known_.begin());
    if (last_ < known_.size()) return;
    known_.push_back({std::string(op), std::string(dtype), kernel.shape.index()});
    append_new(gaps_, predictor_->gaps(kernel));
  }

  struct Known {
    std::string op, dtype;
    size_t shape;
  };
  std::vector<Known> known_;
  size_t last_ = 0;
  std::vector<std::string> gaps_;
  OperatingPoint point_;
  ClockRange clocks_;
  std::unique_ptr<Predictor> predictor_;
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
  /// 0: not said.
  double sm_mhz() const {
    if (clock_ < 0) return 0;
    const std::string_view text = reader_.field(static_cast<size_t>(clock_));
    if (text.empty()) return 0;
    const auto mhz = parse_number<double>(text);
    if (!mhz || !(*mhz > 0))
      throw Error(ErrorKind::kInput, location(Cell::kClock),
                  fmt::format("sm_mhz: '{}' is not a clock in MHz", text.substr(0, 60)));
    return *mhz;
  }
  SourceLocation location(Cell cell) const {
    switch (cell) {
      case Cell::kOp:
        return reader_.location(op_);
      case Cell::kDtype:
        return reader_.location(dtype_);
      case Cell::kClock:
        if (clock_ >= 0) return reader_.location(static_cast<size_t>(clock_));
        [[fallthrough]];
      case Cell::kParams:
        break;
    }
    return reader_.location(params_);
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
    row.sm_mhz = columns.sm_mhz();
    row.line = reader.line();
    for (size_t cell = 0; cell < kCells; ++cell) {
      const SourceLocation at = columns.location(static_cast<Cell>(cell));
      row.cells.push_back({at.line, at.column});
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

OperatorAnswers Session::predict_operators(const KernelRequest& request,
                                           const std::vector<OperatorRow>& rows) const {
  OperatorBlock block(catalogue_, data_folder_, request);
  OperatorAnswers answers;
  answers.kernels.reserve(rows.size());
  for (const OperatorRow& row : rows) {
    block.add(row.op, row.dtype, row.params, row.sm_mhz, [&](Cell cell) -> SourceLocation {
      const auto c = static_cast<size_t>(cell);
      if (c >= row.cells.size()) return {request.table, row.line, 0};
      return {request.table, row.cells[c].line, row.cells[c].column};
    });
    if (!block.full() && &row != &rows.back()) continue;
    block.predict();
    for (size_t i = 0; i < block.size(); ++i) {
      const TimeInterval t = block.at(i);
      answers.kernels.push_back({t.value.value * 1e6, t.low.value * 1e6, t.high.value * 1e6,
                                 std::string(block.predictor().name())});
    }
    block.clear();
  }
  answers.gaps = block.gaps();
  return answers;
}

std::vector<std::string> Session::predict_table(
    const KernelRequest& request, const Source& table,
    const std::function<void(std::string_view)>& write) const {
  OperatorBlock block(catalogue_, data_folder_, request);
  CsvReader reader(table);
  const OperatorColumns columns(reader);
  const std::string last_field = "," + csv_field(block.predictor().name()) + "\n";

  for (const char* ours : {"predicted_us", "low_us", "high_us", "model"})
    if (const int at = reader.column(ours); at >= 0)
      throw Error(ErrorKind::kInput, reader.location(static_cast<size_t>(at)),
                  fmt::format("column '{}' is there already: take the columns of an earlier "
                              "prediction, predicted_us, low_us, high_us and model, out",
                              ours));
  std::string text;
  for (const std::string& name : reader.header()) text += csv_field(name) + ",";
  text += "predicted_us,low_us,high_us,model\n";
  write(text);

  std::vector<std::string_view> records(kBlock);
  while (true) {
    block.clear();
    size_t longest = 0;
    while (!block.full() && reader.next()) {
      records[block.size()] = reader.record();
      longest += reader.record().size() + 3 * (1 + kLongestNumber) + last_field.size();
      block.add(columns.op(), columns.dtype(), columns.params(), columns.sm_mhz(),
                [&](Cell cell) { return columns.location(cell); });
    }
    if (block.size() == 0) return block.gaps();
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
