#include "orrery/serving/engine/step_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <utility>

#include "orrery/base/error.h"
#include "orrery/base/nearest.h"
#include "orrery/serving/engine/step_table_reader.h"

namespace orrery {
namespace {

constexpr int64_t kLargestSize = int64_t{1} << 40;
constexpr double kLongestTime = 1e12;  // µs

using LayerNames = std::vector<std::pair<std::string, EngineOperator>>;
const LayerNames kDense = {
    {"gate_up_proj", EngineOperator::kUp},        {"act_fn", EngineOperator::kActivation},
    {"down_proj", EngineOperator::kDown},         {"layernorm", EngineOperator::kNorm},
    {"qkv_proj", EngineOperator::kQueryKeyValue}, {"qk_norm", EngineOperator::kQueryKeyNorm},
    {"rotary_emb", EngineOperator::kRotation},    {"o_proj", EngineOperator::kAttentionOutput},
    {"embedding", EngineOperator::kEmbedding},    {"final_layernorm", EngineOperator::kFinalNorm}};
const LayerNames kPerSequence = {{"lm_head", EngineOperator::kHead},
                                 {"sampler", EngineOperator::kSampler}};

double microseconds(const CsvReader& reader, size_t column) {
  return time_field(reader, column, 1);
}

RaggedGrid grid_of(const Source& source, size_t sizes, std::vector<RaggedGrid::Point> points) {
  if (points.empty()) return {};
  RaggedGrid grid(sizes, std::move(points));
  if (grid.repeated() > 0)
    throw Error(ErrorKind::kInput, {source.name(), grid.repeated(), 1},
                "an earlier line has these sizes already");
  return grid;
}

/// A table of layers by name and one size.
void read_layers(const Source& source, std::string_view size, const LayerNames& layers,
                 StepTables& tables) {
  CsvReader reader(source);
  const size_t layer = reader.required_column("layer"), at = reader.required_column(size),
               time = reader.required_column("time_us");
  std::map<EngineOperator, std::vector<RaggedGrid::Point>> points;
  while (reader.next()) {
    const std::string_view name = reader.field(layer);
    const auto found = std::ranges::find(layers, name, &LayerNames::value_type::first);
    if (found == layers.end()) {
      std::vector<std::string> names;
      for (const auto& [known, what] : layers) names.push_back(known);
      fail_at(reader, layer,
              fmt::format("no layer '{}' is known{}; there is {}", name,
                          did_you_mean(nearest(name, names)), fmt::join(names, ", ")));
    }
    points[found->second].push_back(
        {{size_field(reader, at)}, microseconds(reader, time), reader.line()});
  }
  if (points.empty()) throw_input(source.name(), "no row");
  for (auto& [what, of_layer] : points)
    put_operator(tables, source, what, grid_of(source, 1, std::move(of_layer)));
}

void read_attention(const Source& source, StepTables& tables) {
  CsvReader reader(source);
  const std::array columns = {
      reader.required_column("prefill_chunk"), reader.required_column("kv_prefill"),
      reader.required_column("n_decode"), reader.required_column("kv_decode")};
  const size_t time = reader.required_column("time_us");
  std::vector<RaggedGrid::Point> prompts, next, mixed;
  while (reader.next()) {
    RaggedGrid::Point point;
    for (size_t i = 0; i < columns.size(); ++i) point.sizes[i] = size_field(reader, columns[i]);
    point.value = microseconds(reader, time);
    point.line = reader.line();
    const auto [chunk, context, sequences, length] = point.sizes;
    if (chunk > 0 && sequences > 0) {
      mixed.push_back(point);
    } else if (chunk > 0) {
      prompts.push_back(point);
    } else if (sequences > 0) {
      point.sizes = {sequences, length};
      next.push_back(point);
    } else {
      fail_at(reader, columns[0], "neither a prompt's chunk nor a sequence's next token");
    }
  }
  if (prompts.empty() || next.empty())
    throw_input(source.name(),
                fmt::format("no row of {} alone", prompts.empty() ? "a prompt's chunk (n_decode 0)"
                                                                  : "next tokens (prefill_chunk "
                                                                    "0)"));
  put_attention(tables, source, grid_of(source, 2, std::move(prompts)),
                grid_of(source, 2, std::move(next)));
  tables.mixed = grid_of(source, 4, std::move(mixed));
  tables.attention_writes = true;
}

void read_experts(const Source& source, StepTables& tables) {
  CsvReader reader(source);
  const size_t tokens = reader.required_column("tokens"),
               experts = reader.required_column("activated_experts"),
               time = reader.required_column("time_us");
  std::vector<RaggedGrid::Point> points;
  while (reader.next())
    points.push_back({{size_field(reader, tokens), size_field(reader, experts)},
                      microseconds(reader, time),
                      reader.line()});
  if (points.empty()) throw_input(source.name(), "no row");
  put_experts(tables, source, grid_of(source, 2, std::move(points)));
  tables.experts_route = true;
}

}  // namespace

void fail_at(const CsvReader& reader, size_t column, std::string message) {
  throw Error(ErrorKind::kInput, reader.location(column), std::move(message));
}

double number_field(const CsvReader& reader, size_t column) {
  const std::string_view text = reader.field(column);
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size() || text.empty())
    fail_at(reader, column,
            fmt::format("expected a number as '{}', found '{}'", reader.header()[column], text));
  return value;
}

int64_t size_field(const CsvReader& reader, size_t column) {
  const double value = number_field(reader, column);
  if (!(value >= 0 && value <= static_cast<double>(kLargestSize)) || value != std::floor(value))
    fail_at(reader, column,
            fmt::format("'{}' must be a whole number between 0 and {}, not '{}'",
                        reader.header()[column], kLargestSize, reader.field(column)));
  return static_cast<int64_t>(value);
}

double time_field(const CsvReader& reader, size_t column, double microseconds) {
  const double value = number_field(reader, column) * microseconds;
  if (!(value >= 0 && value <= kLongestTime))
    fail_at(reader, column,
            fmt::format("'{}' must be {} between 0 and {}, not '{}'", reader.header()[column],
                        microseconds == 1 ? "microseconds" : "milliseconds",
                        kLongestTime / microseconds, reader.field(column)));
  return value;
}

void put_operator(StepTables& tables, const Source& source, EngineOperator what, RaggedGrid times) {
  if (!tables.operators.emplace(what, std::move(times)).second)
    throw_input(source.name(), fmt::format("another table has times of {} already", name(what)));
}

void put_attention(StepTables& tables, const Source& source, RaggedGrid prompts, RaggedGrid next) {
  if (!tables.prompts.empty())
    throw_input(source.name(), "another table has times of attention already");
  tables.prompts = std::move(prompts);
  tables.next = std::move(next);
}

void put_experts(StepTables& tables, const Source& source, RaggedGrid experts) {
  if (!tables.experts.empty())
    throw_input(source.name(), "another table has times of experts already");
  tables.experts = std::move(experts);
}

void read_step_table(const Source& source, const ProfiledEngine& engine, StepTables& tables) {
  const CsvReader reader(source);
  const auto has = [&](std::string_view column) { return reader.column(column) >= 0; };
  if (is_vidur_table(reader))
    read_vidur_table(source, engine, tables);
  else if (has("prefill_chunk"))
    read_attention(source, tables);
  else if (has("activated_experts"))
    read_experts(source, tables);
  else if (has("layer") && has("sequences"))
    read_layers(source, "sequences", kPerSequence, tables);
  else if (has("layer"))
    read_layers(source, "tokens", kDense, tables);
  else
    throw Error(ErrorKind::kInput, {source.name(), 1, 1},
                fmt::format("no table of step times is known by these columns: {}; one has "
                            "'time_stats.OPERATOR.median' (VIDUR, Frontier), 'layer', "
                            "'prefill_chunk' or 'activated_experts' (LLMServingSim)",
                            fmt::join(reader.header(), ", ")));
}

StepTables read_step_tables(const std::vector<std::string>& paths, const ProfiledEngine& engine) {
  namespace fs = std::filesystem;
  const bool experts = std::ranges::any_of(engine.model.layers, [](const Layer& layer) {
    return std::holds_alternative<MixtureOfExperts>(layer.feed_forward);
  });
  StepTables tables;
  const auto read = [&](const std::string& path) {
    read_step_table(Source::from_file(path), engine, tables);
  };
  for (const std::string& path : paths) {
    std::error_code unreadable;
    if (fs::is_directory(path, unreadable)) {
      std::vector<std::string> files;
      for (const auto& entry : fs::directory_iterator(path, unreadable))
        if (entry.path().extension() == ".csv") files.push_back(entry.path().string());
      if (files.empty()) throw_input(path, "no .csv in this folder");
      std::ranges::sort(files);
      for (const std::string& file : files) read(file);
    } else if (path.ends_with(".csv") || fs::exists(path, unreadable)) {
      read(path);
    } else {
      for (const char* kind : {"_dense.csv", "_attention.csv", "_per_sequence.csv"})
        read(path + kind);
      if (experts) read(path + "_moe.csv");
    }
  }
  return tables;
}

}  // namespace orrery
