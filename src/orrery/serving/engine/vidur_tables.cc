#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "orrery/base/error.h"
#include "orrery/base/nearest.h"
#include "orrery/serving/engine/step_table_reader.h"

namespace orrery {
namespace {

constexpr std::string_view kTimes = "time_stats.", kMedian = ".median";
constexpr double kMilli = 1e3;  // µs

const std::vector<std::string> kLayers = {"emb",
                                          "input_layernorm",
                                          "post_attention_layernorm",
                                          "attn_pre_proj",
                                          "attn_rope",
                                          "attn_post_proj",
                                          "mlp_up_proj",
                                          "mlp_act",
                                          "mlp_down_proj",
                                          "add"};
const std::vector<std::string> kAttention = {"attn_prefill", "attn_decode", "attn_kv_cache_save",
                                             "attn_input_reshape", "attn_output_reshape"};
const std::vector<std::string> kExperts = {"moe_gating", "moe_shuffling", "moe_grouped_gemm",
                                           "moe_expert_up_proj", "moe_expert_down_proj"};
const std::vector<std::string> kNetwork = {"all_reduce", "send_recv"};

/// The operator of a column of medians; empty: it is none.
std::string_view operator_of(std::string_view column) {
  if (!column.starts_with(kTimes) || !column.ends_with(kMedian) ||
      column.size() <= kTimes.size() + kMedian.size())
    return {};
  column.remove_prefix(kTimes.size());
  column.remove_suffix(kMedian.size());
  return column;
}

/// Rows of one operator; those of the same sizes are averaged.
class Repeats {
 public:
  void add(const CsvReader& reader, size_t column, std::array<int64_t, 2> sizes, double value) {
    constexpr double kApart = 2, kResolution = 10;  // µs: clocks of profilers tick in one
    const auto [at, fresh] = seen_.try_emplace(sizes);
    Mean& mean = at->second;
    if (fresh) {
      mean.first = value;
      mean.line = reader.line();
    } else if (const double low = std::min(value, mean.first), high = std::max(value, mean.first);
               high > kApart * low && high - low > kResolution) {
      fail_at(reader, column,
              fmt::format("line {} has these sizes with {} ms, this one with {}", mean.line,
                          mean.first / kMilli, value / kMilli));
    }
    mean.sum += value;
    ++mean.count;
  }
  bool empty() const { return seen_.empty(); }
  RaggedGrid grid(size_t sizes) const {
    std::vector<RaggedGrid::Point> points;
    for (const auto& [at, mean] : seen_)
      points.push_back({{at[0], at[1]}, mean.sum / static_cast<double>(mean.count), mean.line});
    return {sizes, std::move(points)};
  }

 private:
  struct Mean {
    double first = 0, sum = 0;
    int64_t count = 0, line = 0;
  };
  std::map<std::array<int64_t, 2>, Mean> seen_;
};

/// A table of VIDUR's with what its rows must say of the model and the layout.
class ProfilerTable {
 public:
  explicit ProfilerTable(const Source& source) : source_(source), reader_(source) {}

  const Source& source() const { return source_; }
  const CsvReader& reader() const { return reader_; }
  size_t column(std::string_view name) const { return reader_.required_column(name); }

  /// Every row must have this in the column.
  void require(std::string_view column, int64_t size, std::string_view whose) {
    required_.push_back({reader_.required_column(column), size, false, std::string(whose)});
  }
  void require(std::string_view column, bool flag, std::string_view whose) {
    required_.push_back({reader_.required_column(column), flag ? 1 : 0, true, std::string(whose)});
  }
  /// Rows that have something else in the column are passed over, …
  void select(std::string_view column, int64_t size) {
    const size_t at = reader_.required_column(column);
    if (selected_.empty()) stated_ = reader_.location(at);
    selected_.push_back({at, size, false, {}});
    others_.emplace_back();
  }

  bool next() {
    while (reader_.next()) {
      for (const Condition& c : required_)
        if (const int64_t found = c.flag ? flag(c.column) : size_field(reader_, c.column);
            found != c.value)
          fail_at(
              reader_, c.column,
              fmt::format("'{}' is {}, of {} it is {}", reader_.header()[c.column],
                          reader_.field(c.column), c.whose,
                          c.flag ? (c.value == 1 ? "True" : "False") : fmt::format("{}", c.value)));
      bool wanted = true;
      for (size_t i = 0; i < selected_.size(); ++i) {
        const int64_t found = size_field(reader_, selected_[i].column);
        if (others_[i].size() < kMostNamed) others_[i].insert(found);
        wanted = wanted && found == selected_[i].value;
      }
      if (!wanted) continue;
      ++rows_;
      return true;
    }
    return false;
  }
  /// … and there must be others.
  void finish() const {
    if (rows_ > 0) return;
    if (others_.empty() || others_.front().empty()) throw_input(source_.name(), "no row");
    std::vector<std::string> wants, has;
    for (size_t i = 0; i < selected_.size(); ++i) {
      const std::string& column = reader_.header()[selected_[i].column];
      wants.push_back(fmt::format("{} {}", column, selected_[i].value));
      has.push_back(fmt::format("{} {}", column, fmt::join(others_[i], ", ")));
    }
    throw Error(ErrorKind::kInfeasible, stated_,
                fmt::format("no row has {}, as the layout asks; there is {}",
                            fmt::join(wants, " and "), fmt::join(has, "; ")));
  }

  bool flag(size_t column) const {
    const std::string_view text = reader_.field(column);
    if (text == "True" || text == "true" || text == "1") return true;
    if (text != "False" && text != "false" && text != "0")
      fail_at(reader_, column,
              fmt::format("expected True or False as '{}', found '{}'", reader_.header()[column],
                          text));
    return false;
  }

  std::optional<size_t> times_of(std::string_view what) const {
    const int found = reader_.column(fmt::format("{}{}{}", kTimes, what, kMedian));
    return found < 0 ? std::nullopt : std::optional<size_t>(static_cast<size_t>(found));
  }
  /// The median in microseconds, within what the row has as the least and the most; nothing: it was
  /// not measured.
  std::optional<double> time(std::optional<size_t> column) const {
    if (!column || reader_.field(*column).empty()) return std::nullopt;
    const double median = time_field(reader_, *column, kMilli);
    const std::string& header = reader_.header()[*column];
    const std::string stem = header.substr(0, header.size() - kMedian.size());
    for (const bool least : {true, false}) {
      const int other = reader_.column(stem + (least ? ".min" : ".max"));
      if (other < 0 || reader_.field(static_cast<size_t>(other)).empty()) continue;
      const double bound = time_field(reader_, static_cast<size_t>(other), kMilli);
      constexpr double kRounding = 1e-6;
      if (least ? median < bound - kRounding : median > bound + kRounding)
        fail_at(reader_, *column,
                fmt::format("the median {} is {} the {} {}", reader_.field(*column),
                            least ? "below" : "above", least ? "least," : "most,",
                            reader_.field(static_cast<size_t>(other))));
    }
    return median;
  }

 private:
  static constexpr size_t kMostNamed = 16;
  struct Condition {
    size_t column;
    int64_t value;
    bool flag;
    std::string whose;
  };
  const Source& source_;
  CsvReader reader_;
  std::vector<Condition> required_, selected_;
  std::vector<std::set<int64_t>> others_;
  SourceLocation stated_;  ///< The header of the first that is selected by.
  int64_t rows_ = 0;
};

/// The first of its kind among the model's layers.
template <class Kind>
const Kind* first_mixer(const TransformerDescription& model) {
  for (const Layer& layer : model.layers)
    if (const auto* found = std::get_if<Kind>(&layer.mixer)) return found;
  return nullptr;
}
template <class Kind>
const Kind* first_feed_forward(const TransformerDescription& model) {
  for (const Layer& layer : model.layers)
    if (const auto* found = std::get_if<Kind>(&layer.feed_forward)) return found;
  return nullptr;
}

void read_layers(ProfilerTable& table, const ProfiledEngine& engine, StepTables& tables) {
  const TransformerDescription& model = engine.model;
  // 'vocab_size' is padded there, and no time depends on it.
  table.require("n_embd", model.hidden, model.name);
  if (const auto* attention = first_mixer<SoftmaxAttention>(model)) {
    table.require("n_head", attention->heads, model.name);
    table.require("n_kv_head", attention->key_value_heads, model.name);
  }
  const auto* dense = first_feed_forward<DenseFeedForward>(model);
  if (dense != nullptr) {
    table.require("n_expanded_embd", dense->inner, model.name);
    table.require("use_gated_mlp", dense->gated, model.name);
  }
  table.select("num_tensor_parallel_workers", engine.layout.tensor);
  const size_t tokens = table.column("num_tokens");
  std::vector<std::pair<EngineOperator, std::optional<size_t>>> single = {
      {EngineOperator::kEmbedding, table.times_of("emb")},
      {EngineOperator::kQueryKeyValue, table.times_of("attn_pre_proj")},
      {EngineOperator::kRotation, table.times_of("attn_rope")},
      {EngineOperator::kAttentionOutput, table.times_of("attn_post_proj")}};
  if (dense != nullptr) {
    single.emplace_back(EngineOperator::kUp, table.times_of("mlp_up_proj"));
    single.emplace_back(EngineOperator::kActivation, table.times_of("mlp_act"));
    single.emplace_back(EngineOperator::kDown, table.times_of("mlp_down_proj"));
  }
  const std::array norms = {table.times_of("input_layernorm"),
                            table.times_of("post_attention_layernorm")};
  const std::optional<size_t> add = table.times_of("add");
  std::map<EngineOperator, Repeats> found;
  while (table.next()) {
    const std::array<int64_t, 2> sizes = {size_field(table.reader(), tokens), 0};
    for (const auto& [what, column] : single)
      if (const auto time = table.time(column))
        found[what].add(table.reader(), *column, sizes, *time);
    double sum = 0, count = 0;
    size_t at = 0;
    for (const auto& column : norms)
      if (const auto time = table.time(column)) {
        sum += *time;
        ++count;
        at = *column;
      }
    if (count > 0)
      found[EngineOperator::kNorm].add(table.reader(), at, sizes,
                                       sum / count + table.time(add).value_or(0));
  }
  table.finish();
  for (const auto& [what, times] : found) put_operator(tables, table.source(), what, times.grid(1));
}

void read_attention(ProfilerTable& table, const ProfiledEngine& engine, StepTables& tables) {
  const TransformerDescription& model = engine.model;
  table.require("n_embd", model.hidden, model.name);
  if (const auto* attention = first_mixer<SoftmaxAttention>(model)) {
    table.require("n_q_head", attention->heads, model.name);
    table.require("n_kv_head", attention->key_value_heads, model.name);
  }
  table.select("num_tensor_parallel_workers", engine.layout.tensor);
  const size_t is_prefill = table.column("is_prefill"), batch = table.column("batch_size"),
               chunk = table.column("prefill_chunk_size"), cached = table.column("kv_cache_size");
  const auto prefill = table.times_of("attn_prefill"), decode = table.times_of("attn_decode"),
             save = table.times_of("attn_kv_cache_save");
  const std::array reshapes = {table.times_of("attn_input_reshape"),
                               table.times_of("attn_output_reshape")};
  Repeats prompts, next;
  const CsvReader& reader = table.reader();
  while (table.next()) {
    const bool prompt = table.flag(is_prefill);
    const int64_t sequences = size_field(reader, batch), queries = size_field(reader, chunk),
                  context = size_field(reader, cached);
    if (prompt && sequences != 1)
      fail_at(reader, batch, "a prompt's chunk is timed alone: its 'batch_size' must be 1");
    if (prompt ? queries == 0 : queries > 0)
      fail_at(reader, chunk,
              fmt::format("'prefill_chunk_size' is {} where 'is_prefill' is {}", queries,
                          reader.field(is_prefill)));
    if (sequences == 0) fail_at(reader, batch, "'batch_size' must be 1 at least");
    const auto column = prompt ? prefill : decode;
    auto time = table.time(column);
    if (!time) continue;
    double all = *time + table.time(save).value_or(0);
    for (const auto& reshape : reshapes) all += table.time(reshape).value_or(0);
    // A next token looks at itself too, which is not cached yet.
    if (prompt)
      prompts.add(reader, *column, {queries, context}, all);
    else
      next.add(reader, *column, {sequences, context + 1}, all);
  }
  table.finish();
  if (prompts.empty() || next.empty())
    throw_input(table.source().name(),
                fmt::format("no time of {}", prompts.empty() ? "a prompt's chunk (attn_prefill)"
                                                             : "next tokens (attn_decode)"));
  put_attention(tables, table.source(), prompts.grid(2), next.grid(2));
  tables.attention_writes = save.has_value();
}

void read_experts(ProfilerTable& table, const ProfiledEngine& engine, StepTables& tables) {
  const TransformerDescription& model = engine.model;
  const auto* m = first_feed_forward<MixtureOfExperts>(model);
  if (m == nullptr)
    throw_input(table.source().name(), fmt::format("{} has no experts", model.name));
  table.require("num_experts", m->experts, model.name);
  table.require("router_topk", m->active, model.name);
  table.require("hidden_dim", m->latent > 0 ? m->latent : model.hidden, model.name);
  table.require("expert_hidden_dim", m->inner, model.name);
  table.require("use_gated", m->gated, model.name);
  const ServingLayout& layout = engine.layout;
  table.select("num_tensor_parallel_workers", layout.expert_tensor > 0
                                                  ? layout.expert_tensor
                                                  : layout.stage_devices() / layout.expert);
  table.select("expert_parallel_size", layout.expert);
  const size_t tokens = table.column("num_tokens"),
               products = table.column("time_stats.moe_grouped_gemm.median");
  const auto gating = table.times_of("moe_gating"), shuffling = table.times_of("moe_shuffling");
  Repeats routing, experts;
  while (table.next()) {
    const std::array<int64_t, 2> sizes = {size_field(table.reader(), tokens), 0};
    if (const auto time = table.time(gating)) routing.add(table.reader(), *gating, sizes, *time);
    if (const auto time = table.time(products))
      experts.add(table.reader(), products, sizes, *time + table.time(shuffling).value_or(0));
  }
  table.finish();
  if (experts.empty()) throw_input(table.source().name(), "no time of moe_grouped_gemm");
  put_experts(tables, table.source(), experts.grid(2));
  tables.experts_of_rank = true;
  if (!routing.empty())
    put_operator(tables, table.source(), EngineOperator::kRouter, routing.grid(1));
}

void read_network(ProfilerTable& table, std::string_view what, StepTables& tables) {
  const auto times = table.times_of(what);
  const size_t size = table.column("size"), workers = table.column("num_workers"),
               per_node = table.column("devices_per_node"), kind = table.column("collective");
  const CollectiveKind collective =
      what == "all_reduce" ? CollectiveKind::kAllReduce : CollectiveKind::kSendReceive;
  std::map<std::pair<int64_t, int64_t>, Repeats> found;
  const CsvReader& reader = table.reader();
  while (table.next()) {
    if (reader.field(kind) != what)
      fail_at(reader, kind,
              fmt::format("'collective' is '{}' in a table of {}", reader.field(kind), what));
    const int64_t devices = size_field(reader, workers), near = size_field(reader, per_node);
    if (devices < 2) fail_at(reader, workers, "'num_workers' must be 2 at least");
    if (near < 1 || near > devices)
      fail_at(reader, per_node,
              fmt::format("'devices_per_node' must lie between 1 and the {} workers", devices));
    const int64_t bytes = size_field(reader, size);
    if (const auto time = table.time(times))
      found[{devices, near}].add(reader, *times, {bytes, 0}, *time);
  }
  table.finish();
  for (const CollectiveTimes& known : tables.collectives)
    if (known.kind == collective)
      throw_input(table.source().name(),
                  fmt::format("another table has times of {} already", name(collective)));
  for (const auto& [devices, repeats] : found)
    tables.collectives.push_back(
        {collective, devices.first, devices.second, repeats.grid(1), table.source().name()});
}

}  // namespace

bool is_vidur_table(const CsvReader& reader) {
  return std::ranges::any_of(reader.header(),
                             [](const std::string& name) { return name.starts_with(kTimes); });
}

void read_vidur_table(const Source& source, const ProfiledEngine& engine, StepTables& tables) {
  ProfilerTable table(source);
  const CsvReader& reader = table.reader();
  const std::array kinds = {&kLayers, &kAttention, &kExperts, &kNetwork};
  const std::vector<std::string>* kind = nullptr;
  std::string_view first;
  for (size_t c = 0; c < reader.header().size(); ++c) {
    const std::string_view what = operator_of(reader.header()[c]);
    if (what.empty()) continue;
    const auto its = std::ranges::find_if(kinds, [&](const std::vector<std::string>* names) {
      return std::ranges::find(*names, what) != names->end();
    });
    if (its == kinds.end()) {
      std::vector<std::string> known;
      for (const auto* names : kinds) known.insert(known.end(), names->begin(), names->end());
      fail_at(reader, c, fmt::format("no operator '{}' is known{}", what, suggestion(what, known)));
    }
    if (kind != nullptr && kind != *its)
      fail_at(reader, c, fmt::format("times of '{}' and of '{}' in one table", first, what));
    kind = *its;
    first = what;
  }
  if (kind == nullptr)
    throw Error(ErrorKind::kInput, {source.name(), 1, 1}, "no column 'time_stats.OPERATOR.median'");
  if (kind == &kLayers)
    read_layers(table, engine, tables);
  else if (kind == &kAttention)
    read_attention(table, engine, tables);
  else if (kind == &kExperts)
    read_experts(table, engine, tables);
  else
    read_network(table, first, tables);
}

}  // namespace orrery
