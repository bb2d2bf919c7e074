#include "orrery/kernel/measured_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <unordered_map>

#include "orrery/base/csv.h"
#include "orrery/base/gzip.h"
#include "orrery/base/nearest.h"
#include "orrery/kernel/operator_kernel.h"
#include "orrery/learn/statistics.h"

namespace orrery {
namespace {

constexpr double kSecondsPerMicrosecond = 1e-6;
constexpr double kSecondsPerMillisecond = 1e-3;
constexpr double kHertzPerMegahertz = 1e6;
/// No board of today draws more.
constexpr double kMostWatts = 1e5;

/// FNV-1a of the texts with a byte between them, its bits mixed so that any of them
/// can split a table (the finalizer of MurmurHash3).
uint64_t stable_hash(std::initializer_list<std::string_view> texts) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (std::string_view text : texts) {
    for (char c : text) add(static_cast<unsigned char>(c));
    add(0xff);
  }
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccd;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53;
  return hash ^ (hash >> 33);
}

/// One spelling of each element type; others (fp8_block) have but one.
std::string_view canonical_dtype(std::string_view dtype) {
  const auto type = element_type_from_user(dtype);
  return type ? mlir_name(*type) : dtype;
}

/// Names with numbers for them, in the order they came.
class Names {
 public:
  explicit Names(std::vector<std::string>& names) : names_(names) {}

  std::optional<uint16_t> number(std::string_view name) {
    if (!names_.empty() && names_[last_] == name) return static_cast<uint16_t>(last_);
    const auto [at, added] = numbers_.try_emplace(std::string(name), names_.size());
    if (added) {
      if (names_.size() > UINT16_MAX) return std::nullopt;
      names_.emplace_back(name);
    }
    last_ = at->second;
    return static_cast<uint16_t>(last_);
  }

 private:
  std::vector<std::string>& names_;
  std::unordered_map<std::string, size_t> numbers_;
  size_t last_ = 0;
};

/// A row of the file and what every format needs from it.
class RowReader {
 public:
  RowReader(const CsvReader& csv, const ClockRange& clocks, MeasuredTable& table)
      : csv_(csv),
        clocks_(clocks),
        table_(table),
        operations_(table.operations),
        sources_(table.sources),
        devices_(table.devices) {}

  std::string_view text(size_t column) const { return csv_.field(column); }
  std::string_view text(int column) const { return text(static_cast<size_t>(column)); }

  [[noreturn]] void fail(size_t column, const std::string& message) const {
    throw Error(ErrorKind::kInput, csv_.location(column),
                fmt::format("{}: {}", csv_.header()[column], message));
  }

  double time(size_t column, double seconds_per_unit) const {
    const double value = number(column).value_or(0);
    if (!(value > 0))
      fail(column, fmt::format("'{}' is not a time: expected {} above zero", shown(column),
                               seconds_per_unit == kSecondsPerMicrosecond ? "microseconds"
                                                                          : "milliseconds"));
    return value * seconds_per_unit;
  }

  /// An empty cell or a missing column is zero: not recorded.
  double optional_quantity(int column, double most, const char* what) const {
    if (column < 0 || text(column).empty()) return 0;
    const double value = number(static_cast<size_t>(column)).value_or(-1);
    if (!(value >= 0 && value <= most))
      fail(static_cast<size_t>(column),
           fmt::format("'{}' is not {}", shown(static_cast<size_t>(column)), what));
    return value;
  }
  double watts(int column) const { return optional_quantity(column, kMostWatts, "a power in W"); }
  double hertz(int column) const {
    const double mhz =
        optional_quantity(column, std::numeric_limits<double>::max(), "a clock in MHz");
    if (mhz > 0 && !clocks_.has(mhz)) fail(static_cast<size_t>(column), clocks_.refusal(mhz));
    return mhz * kHertzPerMegahertz;
  }

  int64_t size(size_t column) const {
    const std::string_view field = text(column);
    int64_t value = 0;
    const auto [end, status] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (status != std::errc() || end != field.data() + field.size() || value < 0)
      fail(column, fmt::format("'{}' is not a size: expected a whole number", shown(column)));
    return value;
  }

  /// `params` must be canonical: names sorted, defaults left out.
  MeasuredRow kernel(std::string_view op, std::string_view dtype, std::string_view params) {
    MeasuredRow row;
    row.kernel = operator_kernel(op, dtype, params);
    identify(row, op, dtype, params);
    return row;
  }
  void identify(MeasuredRow& row, std::string_view op, std::string_view dtype,
                std::string_view canonical_params) {
    if (dtype != dtype_) {  // looking through all spellings takes longer than the rest
      dtype_ = dtype;
      canonical_dtype_ = canonical_dtype(dtype);
    }
    row.key = stable_hash({op, canonical_dtype_, canonical_params});
    row.line = static_cast<uint32_t>(csv_.line());
    name_.assign(op).append(" ").append(dtype);
    row.operation = number_of(operations_, name_);
  }

  void add(const MeasuredRow& row) { table_.rows.push_back(row); }
  void add_empty(double seconds) { empty_.push_back(seconds); }
  double median_empty() const { return empty_.empty() ? 0 : median(empty_); }
  uint16_t source(std::string_view name) { return number_of(sources_, name); }
  uint16_t device(std::string_view name) { return number_of(devices_, name); }

  /// What `operator_kernel` says is wrong, at the cell it names where the table has it.
  [[noreturn]] void fail_kernel(const std::invalid_argument& error) const {
    const std::string_view message = error.what();
    const size_t colon = message.find(':');
    const int column = colon == std::string_view::npos ? -1 : csv_.column(message.substr(0, colon));
    throw Error(ErrorKind::kInput, csv_.location(column < 0 ? 0 : static_cast<size_t>(column)),
                std::string(message));
  }

 private:
  std::optional<double> number(size_t column) const {
    const std::string_view field = text(column);
    double value = 0;
    const auto [end, status] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (status != std::errc() || end != field.data() + field.size() || !std::isfinite(value))
      return std::nullopt;
    return value;
  }
  /// Cells may be megabytes long.
  std::string_view shown(size_t column) const { return text(column).substr(0, 60); }

  uint16_t number_of(Names& names, std::string_view name) {
    const auto found = names.number(name);
    if (!found)
      throw Error(ErrorKind::kInput, csv_.location(0),
                  fmt::format("more than {} different names in one table", UINT16_MAX));
    return *found;
  }

  const CsvReader& csv_;
  const ClockRange& clocks_;
  MeasuredTable& table_;
  Names operations_, sources_, devices_;
  std::vector<double> empty_;
  std::string name_, dtype_, canonical_dtype_;
};

/// How one format's rows become measurements.
class Format {
 public:
  virtual ~Format() = default;
  /// Says of the table what holds for all of its rows.
  virtual void describe(MeasuredTable& table) const = 0;
  virtual void read(RowReader& row) = 0;
};

// ------------------------------------------------------------------ this project's own

/// A parameter that may be left out: what it then is, a value or another parameter's.
struct Default {
  std::string_view op, name, value, same_as = {};
};

/// The defaults of `operator_kernel`.
constexpr auto kDefaults = std::to_array<Default>({{"conv2d", "groups", "1"},
                                                   {"conv2d", "layout", "\"nhwc\""},
                                                   {"conv2d", "pad", "0"},
                                                   {"conv2d", "s", {}, "r"},
                                                   {"conv2d", "stride", "1"},
                                                   {"grouped_gemm", "skew", "0"},
                                                   {"moe", "ep", "1"},
                                                   {"moe", "skew", "0"},
                                                   {"moe", "tp", "1"},
                                                   {"reduce_max", "axis", "-1"},
                                                   {"reduce_sum", "axis", "-1"},
                                                   {"sdpa", "causal", "false"},
                                                   {"sdpa", "dv", {}, "d"},
                                                   {"sdpa", "kv", {}, "h"},
                                                   {"sdpa", "paged", "false"},
                                                   {"sdpa", "t", {}, "s"},
                                                   {"sdpa", "window", "0"},
                                                   {"topk", "k", "8"}});

/// The same text for every way to write the same parameters: names sorted, no spaces,
/// defaults left out.
class CanonicalParameters {
 public:
  /// `params` is what `operator_kernel` took: a flat JSON object of numbers, flags, names
  /// and lists of integers.
  std::string_view of(std::string_view op, std::string_view dtype, std::string_view params) {
    scan(params);
    for (Member& m : members_) normalise(m);
    text_ = '{';
    for (const Member& m : members_) {
      if (is_default(m, op, dtype)) continue;
      if (text_.size() > 1) text_ += ',';
      text_.append("\"").append(m.name).append("\":").append(m.value);
    }
    text_ += '}';
    return text_;
  }

 private:
  struct Member {
    std::string_view name;
    std::string value;
  };

  /// Sorted by name.
  void scan(std::string_view text) {
    members_.clear();
    size_t at = 0;
    while (true) {
      const size_t open = text.find('"', at);
      if (open == std::string_view::npos) return;
      const size_t close = text.find('"', open + 1);
      const size_t value = text.find_first_not_of(": \t\r\n", close + 1);
      const char first = text[value];
      const size_t last = first == '"'   ? text.find('"', value + 1)
                          : first == '[' ? text.find(']', value)
                                         : text.find_first_of(",}", value) - 1;
      const std::string_view name = text.substr(open + 1, close - open - 1);
      const auto place =
          std::lower_bound(members_.begin(), members_.end(), name,
                           [](const Member& m, std::string_view n) { return m.name < n; });
      members_.insert(place, {name, std::string(text.substr(value, last + 1 - value))});
      at = last + 1;
    }
  }

  static void normalise(Member& m) {
    std::erase_if(m.value, [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; });
    if (m.name == "causal" || m.name == "paged") {
      if (m.value != "true") m.value = m.value == "false" || m.value == "0" ? "false" : "true";
    } else if (m.value[0] != '"' && m.value.find_first_of(".eE") != std::string::npos) {
      double number = 0;
      std::from_chars(m.value.data(), m.value.data() + m.value.size(), number);
      m.value = fmt::format("{}", number);
    }
  }

  bool is_default(const Member& m, std::string_view op, std::string_view dtype) const {
    if (m.name == "kv_dtype")
      return canonical_dtype(std::string_view(m.value).substr(1, m.value.size() - 2)) ==
             canonical_dtype(dtype);
    return std::any_of(kDefaults.begin(), kDefaults.end(), [&](const Default& d) {
      if (d.name != m.name || d.op != op) return false;
      if (d.same_as.empty()) return m.value == d.value;
      return std::any_of(members_.begin(), members_.end(), [&](const Member& other) {
        return other.name == d.same_as && other.value == m.value;
      });
    });
  }

  std::vector<Member> members_;
  std::string text_;
};

class OrreryFormat final : public Format {
 public:
  explicit OrreryFormat(const CsvReader& csv)
      : op_(csv.required_column("op")),
        dtype_(csv.required_column("dtype")),
        params_(csv.required_column("params")) {
    if (csv.column("burst_us") >= 0 || csv.column("sustained_us") >= 0) {
      points_ = {{csv.required_column("burst_us"), csv.column("burst_mhz"), -1,
                  OperatingPoint::Regime::kBurst},
                 {csv.required_column("sustained_us"), csv.column("sustained_mhz"),
                  csv.column("sustained_watts"), OperatingPoint::Regime::kSustained}};
      return;
    }
    points_ = {{csv.required_column("us"), csv.column("sm_mhz"), csv.column("watts"),
                OperatingPoint::Regime::kBurst}};
    case_ = csv.column("case");
    least_ = csv.column("us_min");
    most_ = csv.column("us_max");
  }

  void describe(MeasuredTable& table) const override {
    table.time_unit = MeasuredTable::TimeUnit::kMicroseconds;
  }

  void read(RowReader& in) override {
    const std::string_view op = in.text(op_), dtype = in.text(dtype_), params = in.text(params_);
    if (op == "empty") {
      if (params != "{}") in.fail(params_, "empty takes no parameters: expected {}");
      in.add_empty(in.time(points_[0].microseconds, kSecondsPerMicrosecond));
      return;
    }
    MeasuredRow row;
    row.kernel = operator_kernel(op, dtype, params);
    in.identify(row, op, dtype, canonical_.of(op, dtype, params));
    if (case_ >= 0) {
      row.group = stable_hash({in.text(case_)});
      row.key = stable_hash({op, dtype, canonical_.of(op, dtype, params), in.text(case_)});
    }
    row.source = in.source("orrery");
    row.device = in.device("");
    for (const Point& point : points_) {
      row.seconds = in.time(point.microseconds, kSecondsPerMicrosecond);
      row.sm_hz = in.hertz(point.megahertz);
      row.watts = in.watts(point.watts);
      row.regime = point.regime;
      in.add(row);
    }
    check_spread(in, row.seconds);
  }

 private:
  struct Point {
    size_t microseconds;
    int megahertz, watts;
    OperatingPoint::Regime regime;
  };

  /// The three times are rounded, each for itself.
  void check_spread(RowReader& in, double seconds) const {
    constexpr double kRounding = 1.001;
    for (const bool upper : {false, true}) {
      const int column = upper ? most_ : least_;
      if (column < 0 || in.text(column).empty()) continue;
      const double bound = in.time(static_cast<size_t>(column), kSecondsPerMicrosecond);
      if (upper ? bound * kRounding < seconds : bound > seconds * kRounding)
        in.fail(static_cast<size_t>(column),
                fmt::format("'{}' us is {} than the time itself, '{}'", in.text(column),
                            upper ? "less" : "more", in.text(points_[0].microseconds)));
    }
  }

  size_t op_, dtype_, params_;
  std::vector<Point> points_;
  CanonicalParameters canonical_;
  int case_ = -1, least_ = -1, most_ = -1;
};

// ------------------------------------------------------------------ aiconfigurator

struct Renamed {
  std::string_view theirs, ours;
};

/// What `table` calls `name`; fails with the names there are.
template <size_t N>
std::string_view renamed(const std::array<Renamed, N>& table, const RowReader& in, size_t column) {
  const std::string_view name = in.text(column);
  for (const Renamed& r : table)
    if (r.theirs == name) return r.ours;
  std::vector<std::string> known;
  known.reserve(N);
  for (const Renamed& r : table) known.emplace_back(r.theirs);
  in.fail(column, fmt::format("'{}' is not known{}", name.substr(0, 60), suggestion(name, known)));
}

constexpr auto kQuantizations = std::to_array<Renamed>({{"bfloat16", "bf16"},
                                                        {"float16", "fp16"},
                                                        {"fp8", "fp8"},
                                                        {"fp8_block", "fp8_block"},
                                                        {"int8", "int8"},
                                                        {"sq", "int8"},
                                                        {"int4_wo", "int4_weight"},
                                                        {"w4a16_mxfp4", "fp4_weight"},
                                                        {"nvfp4", "fp4"}});

class AiconfiguratorFormat final : public Format {
 public:
  explicit AiconfiguratorFormat(const CsvReader& csv)
      : op_(csv.required_column("op_name")),
        latency_(csv.required_column("latency")),
        kernel_source_(csv.column("kernel_source")),
        power_(csv.column("power")) {
    if (csv.column("gemm_dtype") >= 0) {
      dtype_ = csv.required_column("gemm_dtype");
      columns_ = sizes(csv, {"m", "n", "k"});
      read_ = &AiconfiguratorFormat::gemm;
      operators_ = {"gemm"};
    } else if (csv.column("attn_dtype") >= 0) {
      dtype_ = csv.required_column("attn_dtype");
      kv_dtype_ = csv.required_column("kv_cache_dtype");
      columns_ =
          sizes(csv, {"batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "step"});
      window_ = csv.column("window_size");
      read_ = &AiconfiguratorFormat::attention;
      operators_ = {"context_attention", "generation_attention"};
    } else if (csv.column("moe_dtype") >= 0) {
      dtype_ = csv.required_column("moe_dtype");
      columns_ = sizes(csv, {"num_tokens", "hidden_size", "inter_size", "topk", "num_experts",
                             "moe_tp_size", "moe_ep_size"});
      distribution_ = csv.required_column("distribution");
      read_ = &AiconfiguratorFormat::moe;
      operators_ = {"moe"};
    } else {
      csv.required_column("gemm_dtype");
    }
  }

  /// It times vLLM's layers, which take 16-bit activations whatever their weights, on the
  /// same operands again and again.
  void describe(MeasuredTable& table) const override {
    table.time_unit = MeasuredTable::TimeUnit::kMilliseconds;
    table.quantizes = true;
    table.warm = true;
  }

  void read(RowReader& in) override {
    if (std::find(operators_.begin(), operators_.end(), in.text(op_)) == operators_.end())
      in.fail(op_, fmt::format("'{}' is not known{}", in.text(op_).substr(0, 60),
                               suggestion(in.text(op_), operators_)));
    params_.clear();
    MeasuredRow row = (this->*read_)(in);
    row.seconds = in.time(latency_, kSecondsPerMillisecond);
    row.watts = in.watts(power_);
    source_.assign("aiconfigurator");
    if (kernel_source_ >= 0) source_.append("/").append(in.text(kernel_source_));
    row.source = in.source(source_);
    row.device = in.device("");
    in.add(row);
  }

 private:
  static std::vector<size_t> sizes(const CsvReader& csv,
                                   std::initializer_list<std::string_view> names) {
    std::vector<size_t> columns;
    for (std::string_view name : names) columns.push_back(csv.required_column(name));
    return columns;
  }
  template <class... Values>
  void append(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(params_), format, std::forward<Values>(values)...);
  }

  MeasuredRow gemm(RowReader& in) {
    append(R"({{"k":{},"m":{},"n":{}}})", in.size(columns_[2]), in.size(columns_[0]),
           in.size(columns_[1]));
    return in.kernel("gemm", renamed(kQuantizations, in, dtype_), params_);
  }

  /// Context: `isl` new tokens attend to themselves. Generation: one query, its own key
  /// after `step` earlier ones.
  MeasuredRow attention(RowReader& in) {
    const int64_t heads = in.size(columns_[2]), kv_heads = in.size(columns_[3]),
                  head = in.size(columns_[4]), step = in.size(columns_[5]);
    const bool context = in.text(op_) == "context_attention";
    const int64_t queries = in.size(columns_[1]);
    if (context && step != 0)
      in.fail(columns_[5], "context attention after earlier tokens is not known");
    const int64_t keys = context ? queries : step + 1;
    const int64_t window = window_ < 0 ? 0 : in.size(static_cast<size_t>(window_));
    const std::string_view dtype = renamed(kQuantizations, in, dtype_);
    const std::string_view kv_dtype = renamed(kQuantizations, in, kv_dtype_);
    append(R"({{"b":{})", in.size(columns_[0]));
    if (context) append(R"(,"causal":true)");
    append(R"(,"d":{},"h":{})", head, heads);
    // aiconfigurator writes 0 where every query head has its own.
    if (kv_heads != heads && kv_heads != 0) append(R"(,"kv":{})", kv_heads);
    if (kv_dtype != dtype) append(R"(,"kv_dtype":"{}")", kv_dtype);
    append(R"(,"paged":true,"s":{})", queries);
    if (keys != queries) append(R"(,"t":{})", keys);
    if (window != 0) append(R"(,"window":{})", window);
    append("}}");
    return in.kernel("sdpa", dtype, params_);
  }

  MeasuredRow moe(RowReader& in) {
    const int64_t tensor_parallel = in.size(columns_[5]), expert_parallel = in.size(columns_[6]);
    const double skew = skew_of(in);
    append("{{");
    if (expert_parallel != 1) append(R"("ep":{},)", expert_parallel);
    append(R"("experts":{},"hidden":{},"inter":{})", in.size(columns_[4]), in.size(columns_[1]),
           in.size(columns_[2]));
    if (skew != 0) append(R"(,"skew":{})", skew);
    append(R"(,"tokens":{},"topk":{})", in.size(columns_[0]), in.size(columns_[3]));
    if (tensor_parallel != 1) append(R"(,"tp":{})", tensor_parallel);
    append("}}");
    return in.kernel("moe", renamed(kQuantizations, in, dtype_), params_);
  }

  /// The exponent of the experts' loads: power_law_1.2 is 1.2.
  double skew_of(const RowReader& in) const {
    const std::string_view name = in.text(distribution_);
    if (name == "balanced" || name == "uniform") return 0;
    constexpr std::string_view kPowerLaw = "power_law_";
    if (name.starts_with(kPowerLaw)) {
      const std::string_view exponent = name.substr(kPowerLaw.size());
      double value = 0;
      const auto [end, status] =
          std::from_chars(exponent.data(), exponent.data() + exponent.size(), value);
      if (status == std::errc() && end == exponent.data() + exponent.size() && value >= 0 &&
          value <= 10)
        return value;
    }
    in.fail(distribution_,
            fmt::format("'{}' is not known: expected balanced, uniform or power_law_EXPONENT",
                        name.substr(0, 60)));
  }

  size_t op_, latency_;
  int kernel_source_, power_;
  size_t dtype_ = 0, kv_dtype_ = 0, distribution_ = 0;
  int window_ = -1;
  std::vector<size_t> columns_;
  std::vector<std::string> operators_;
  MeasuredRow (AiconfiguratorFormat::*read_)(RowReader&) = nullptr;
  std::string params_, source_;
};

// ------------------------------------------------------------------ NeuSight

constexpr auto kNeusightRowOperators = std::to_array<Renamed>({{"add", "add"},
                                                               {"mul", "mul"},
                                                               {"div", "div"},
                                                               {"pow", "pow"},
                                                               {"addu", "add_scalar"},
                                                               {"mulu", "mul_scalar"},
                                                               {"divu", "div_scalar"},
                                                               {"powu", "pow_scalar"},
                                                               {"relu", "relu"},
                                                               {"gelu", "gelu"},
                                                               {"tanh", "tanh"},
                                                               {"softmax", "softmax"},
                                                               {"ln", "layernorm"}});
constexpr auto kNeusightProducts = std::to_array<Renamed>({{"linear", "gemm"}, {"bmm", "bmm"}});
constexpr auto kNeusightConvolutions = std::to_array<Renamed>({{"conv", "conv2d"}});

class NeusightFormat final : public Format {
 public:
  explicit NeusightFormat(const CsvReader& csv)
      : op_(csv.required_column("op")),
        device_(csv.required_column("device")),
        latency_(csv.required_column("latency_ms")),
        b_(csv.required_column("B")) {
    if (csv.column("Kernel_Szie") >= 0) {
      for (const char* name :
           {"Input_Channel", "Output_Channel", "Kernel_Szie", "Input_Size", "Stride", "Padding"})
        columns_.push_back(csv.required_column(name));
      read_ = &NeusightFormat::convolution;
    } else if (csv.column("M") >= 0) {
      for (const char* name : {"M", "N", "K"}) columns_.push_back(csv.required_column(name));
      read_ = &NeusightFormat::product;
    } else {
      columns_ = {csv.required_column("H")};
      read_ = &NeusightFormat::rows;
    }
  }

  void describe(MeasuredTable& table) const override {
    table.time_unit = MeasuredTable::TimeUnit::kMilliseconds;
    table.eager = true;
  }

  void read(RowReader& in) override {
    MeasuredRow row = (this->*read_)(in);
    row.seconds = in.time(latency_, kSecondsPerMillisecond);
    row.source = in.source("neusight");
    row.device = in.device(in.text(device_));
    in.add(row);
  }

 private:
  /// Its N is summed over: [B, M, N]·[B, N, K].
  MeasuredRow product(RowReader& in) {
    const std::string_view op = renamed(kNeusightProducts, in, op_);
    const int64_t batch = in.size(b_), m = in.size(columns_[0]), k = in.size(columns_[1]),
                  n = in.size(columns_[2]);
    if (op == "bmm")
      params_ = fmt::format(R"({{"b":{},"k":{},"m":{},"n":{}}})", batch, k, m, n);
    else if (batch == 1)
      params_ = fmt::format(R"({{"k":{},"m":{},"n":{}}})", k, m, n);
    else
      in.fail(b_, "linear has a batch of 1; its rows are counted by M");
    return in.kernel(op, "fp32", params_);
  }

  MeasuredRow convolution(RowReader& in) {
    const int64_t window = in.size(columns_[2]), image = in.size(columns_[3]),
                  stride = in.size(columns_[4]), pad = in.size(columns_[5]);
    params_ = fmt::format(R"({{"c":{},"h":{},"k":{},"layout":"nchw","n":{})", in.size(columns_[0]),
                          image, in.size(columns_[1]), in.size(b_));
    if (pad != 0) params_ += fmt::format(R"(,"pad":{})", pad);
    params_ += fmt::format(R"(,"r":{})", window);
    if (stride != 1) params_ += fmt::format(R"(,"stride":{})", stride);
    params_ += fmt::format(R"(,"w":{}}})", image);
    return in.kernel(renamed(kNeusightConvolutions, in, op_), "fp32", params_);
  }

  MeasuredRow rows(RowReader& in) {
    params_ = fmt::format(R"({{"shape":[{},{}]}})", in.size(b_), in.size(columns_[0]));
    return in.kernel(renamed(kNeusightRowOperators, in, op_), "fp32", params_);
  }

  size_t op_, device_, latency_, b_;
  std::vector<size_t> columns_;
  MeasuredRow (NeusightFormat::*read_)(RowReader&) = nullptr;
  std::string params_;
};

std::unique_ptr<Format> recognised(const CsvReader& csv, const Source& source) {
  if (csv.column("op_name") >= 0) return std::make_unique<AiconfiguratorFormat>(csv);
  if (csv.column("latency_ms") >= 0) return std::make_unique<NeusightFormat>(csv);
  if (csv.column("op") >= 0 && csv.column("dtype") >= 0 && csv.column("params") >= 0)
    return std::make_unique<OrreryFormat>(csv);
  source.fail(0,
              "not a table of measured kernels: expected the columns op, dtype, params and us "
              "(or those of aiconfigurator's or NeuSight's tables)");
}

}  // namespace

MeasuredTable read_measured_table(const Source& file, const ClockRange& clocks) {
  const Source source = inflated(file);
  CsvReader csv(source);
  const std::unique_ptr<Format> format = recognised(csv, source);
  MeasuredTable table;
  table.file = source.name();
  format->describe(table);
  RowReader reader(csv, clocks, table);
  while (csv.next()) {
    if (table.rows.size() >= kMostMeasuredRows)
      throw Error(ErrorKind::kInput, csv.location(0),
                  fmt::format("more than {} measured rows in one table", kMostMeasuredRows));
    try {
      format->read(reader);
    } catch (const std::invalid_argument& error) {
      reader.fail_kernel(error);
    }
  }
  table.empty_seconds = reader.median_empty();
  if (table.rows.empty()) source.fail(source.text().size(), "a table without rows");
  return table;
}

MeasuredTable read_measured_table(const std::filesystem::path& path, const ClockRange& clocks) {
  return read_measured_table(Source::from_file(path.string()), clocks);
}

std::string catalogue_name(std::string_view reported) {
  // What cudaGetDeviceProperties and hipGetDeviceProperties say.
  static constexpr auto kReported = std::to_array<Renamed>({
      {"Tesla P4", "p4"},
      {"Tesla P100-PCIE-16GB", "p100"},
      {"Tesla T4", "t4"},
      {"Tesla V100-PCIE-16GB", "v100-pcie-16gb"},
      {"Tesla V100-PCIE-32GB", "v100-pcie-32gb"},
      {"Tesla V100-SXM2-16GB", "v100-sxm-16gb"},
      {"Tesla V100-SXM2-32GB", "v100-sxm-32gb"},
      {"NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"},
      {"NVIDIA A100 80GB PCIe", "a100-pcie-80gb"},
      {"NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"},
      {"NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"},
      {"NVIDIA H100 PCIe", "h100-pcie"},
      {"NVIDIA H100 80GB HBM3", "h100-sxm"},
      {"NVIDIA H200", "h200"},
      {"NVIDIA L4", "l4"},
      {"NVIDIA L40S", "l40s"},
      {"AMD Instinct MI100", "mi100"},
      {"AMD Instinct MI210", "mi210"},
      {"AMD Instinct MI250", "mi250-gcd"},
      {"AMD Instinct MI300X", "mi300x"},
  });
  for (const Renamed& r : kReported)
    if (r.theirs == reported) return std::string(r.ours);
  return std::string(reported);
}

MeasuredTable rows_on_device(const MeasuredTable& table, std::string_view device) {
  std::vector<bool> wanted;
  for (const std::string& name : table.devices)
    wanted.push_back(name.empty() || name == device || catalogue_name(name) == device);
  MeasuredTable found = table;
  std::erase_if(found.rows, [&](const MeasuredRow& row) { return !wanted[row.device]; });
  return found;
}

}  // namespace orrery
