#include "orrery/serving/engine/step_profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "orrery/base/csv.h"
#include "orrery/base/error.h"
#include "orrery/base/nearest.h"

namespace orrery {
namespace {

constexpr double kMicro = 1e-6;
constexpr int64_t kLargestSize = int64_t{1} << 40;
constexpr double kLongestTime = 1e12;  // µs

// How often a layer of a model runs what is measured.
const std::vector<std::pair<std::string, double>> kAttentionLayers = {
    {"layernorm", 2}, {"qkv_proj", 1}, {"qk_norm", 1}, {"rotary_emb", 1}, {"o_proj", 1}};
const std::vector<std::string> kFeedForward = {"gate_up_proj", "act_fn", "down_proj"};
const std::vector<std::string> kOnce = {"embedding", "final_layernorm"};
const std::vector<std::string> kPerSequence = {"lm_head", "sampler"};

std::vector<std::string> dense_names() {
  std::vector<std::string> names = kFeedForward;
  for (const auto& [name, count] : kAttentionLayers) names.push_back(name);
  names.insert(names.end(), kOnce.begin(), kOnce.end());
  return names;
}

[[noreturn]] void fail(const CsvReader& reader, size_t column, std::string message) {
  throw Error(ErrorKind::kInput, reader.location(column), std::move(message));
}

double number_of(const CsvReader& reader, size_t column) {
  const std::string_view text = reader.field(column);
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size() || text.empty())
    fail(reader, column,
         fmt::format("expected a number as '{}', found '{}'", reader.header()[column], text));
  return value;
}

int64_t size_of(const CsvReader& reader, size_t column) {
  const double value = number_of(reader, column);
  if (!(value >= 0 && value <= static_cast<double>(kLargestSize)) || value != std::floor(value))
    fail(reader, column,
         fmt::format("'{}' must be a whole number between 0 and {}, not '{}'",
                     reader.header()[column], kLargestSize, reader.field(column)));
  return static_cast<int64_t>(value);
}

double time_of(const CsvReader& reader, size_t column) {
  const double value = number_of(reader, column);
  if (!(value >= 0 && value <= kLongestTime))
    fail(reader, column,
         fmt::format("'{}' must be microseconds between 0 and {}, not '{}'",
                     reader.header()[column], kLongestTime, reader.field(column)));
  return value;
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
std::map<std::string, RaggedGrid> read_layers(const Source& source, std::string_view size,
                                              const std::vector<std::string>& names) {
  CsvReader reader(source);
  const size_t layer = reader.required_column("layer"), at = reader.required_column(size),
               time = reader.required_column("time_us");
  std::map<std::string, std::vector<RaggedGrid::Point>, std::less<>> points;
  while (reader.next()) {
    const std::string name(reader.field(layer));
    if (std::ranges::find(names, name) == names.end())
      fail(reader, layer,
           fmt::format("no layer '{}' is known{}; there is {}", name,
                       did_you_mean(nearest(name, names)), fmt::join(names, ", ")));
    points[name].push_back({{size_of(reader, at)}, time_of(reader, time), reader.line()});
  }
  std::map<std::string, RaggedGrid> grids;
  for (auto& [name, of_layer] : points)
    grids.emplace(name, grid_of(source, 1, std::move(of_layer)));
  return grids;
}

/// Σ count · layer, at every size that one of them was measured at.
RaggedGrid sum_of(const std::vector<std::pair<const RaggedGrid*, double>>& layers) {
  std::set<double> sizes;
  for (const auto& [layer, count] : layers)
    sizes.insert(layer->first().begin(), layer->first().end());
  std::vector<RaggedGrid::Point> points;
  for (const double size : sizes) {
    RaggedGrid::Point& point = points.emplace_back();
    point.sizes[0] = static_cast<int64_t>(size);
    for (const auto& [layer, count] : layers) point.value += count * layer->at(size);
  }
  return {1, std::move(points)};
}

/// One chunk that stands for all of a step.
struct OneChunk {
  double tokens = 0, context = 0;
};
OneChunk together(const StepShape& shape) {
  double tokens = 0, work = 0;
  for (const PrefillChunk& chunk : shape.prefills) {
    const auto q = static_cast<double>(chunk.tokens);
    tokens += q;
    work += q * (static_cast<double>(chunk.context) + q / 2);
  }
  if (tokens == 0) return {};
  return {tokens, std::max(0.0, work / tokens - tokens / 2)};
}

}  // namespace

void read_dense_times(const Source& source, StepTables& tables) {
  tables.dense_file = source.name();
  tables.dense = read_layers(source, "tokens", dense_names());
}

void read_per_sequence_times(const Source& source, StepTables& tables) {
  tables.per_sequence_file = source.name();
  tables.per_sequence = read_layers(source, "sequences", kPerSequence);
}

void read_attention_times(const Source& source, StepTables& tables) {
  CsvReader reader(source);
  const std::array columns = {
      reader.required_column("prefill_chunk"), reader.required_column("kv_prefill"),
      reader.required_column("n_decode"), reader.required_column("kv_decode")};
  const size_t time = reader.required_column("time_us");
  std::vector<RaggedGrid::Point> prompts, next, mixed;
  while (reader.next()) {
    RaggedGrid::Point point;
    for (size_t i = 0; i < columns.size(); ++i) point.sizes[i] = size_of(reader, columns[i]);
    point.value = time_of(reader, time);
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
      fail(reader, columns[0], "neither a prompt's chunk nor a sequence's next token");
    }
  }
  if (prompts.empty() || next.empty())
    throw_input(source.name(),
                fmt::format("no row of {} alone", prompts.empty() ? "a prompt's chunk (n_decode 0)"
                                                                  : "next tokens (prefill_chunk "
                                                                    "0)"));
  tables.attention_file = source.name();
  tables.prompts = grid_of(source, 2, std::move(prompts));
  tables.next = grid_of(source, 2, std::move(next));
  tables.mixed = grid_of(source, 4, std::move(mixed));
}

void read_expert_times(const Source& source, StepTables& tables) {
  CsvReader reader(source);
  const size_t tokens = reader.required_column("tokens"),
               experts = reader.required_column("activated_experts"),
               time = reader.required_column("time_us");
  std::vector<RaggedGrid::Point> points;
  while (reader.next())
    points.push_back({{size_of(reader, tokens), size_of(reader, experts)},
                      time_of(reader, time),
                      reader.line()});
  if (points.empty()) throw_input(source.name(), "no row");
  tables.experts_file = source.name();
  tables.experts = grid_of(source, 2, std::move(points));
}

StepTables read_step_tables(const std::string& prefix, bool experts) {
  StepTables tables;
  read_dense_times(Source::from_file(prefix + "_dense.csv"), tables);
  read_attention_times(Source::from_file(prefix + "_attention.csv"), tables);
  read_per_sequence_times(Source::from_file(prefix + "_per_sequence.csv"), tables);
  if (experts) read_expert_times(Source::from_file(prefix + "_moe.csv"), tables);
  return tables;
}

StepProfile::StepProfile(const StepTables& tables, const TransformerDescription& model,
                         const ServingLayout& layout, double routing_skew, int compute_units)
    : prompts_(tables.prompts),
      next_(tables.next),
      mixed_(tables.mixed),
      experts_(tables.experts),
      expert_ranks_(layout.expert) {
  const MixtureOfExperts* routed = nullptr;
  double dense = 0;
  int64_t key_value_heads = 0;
  bool normed = false;
  for (const Layer& layer : model.layers) {
    const auto* attention = std::get_if<SoftmaxAttention>(&layer.mixer);
    if (attention == nullptr || attention->window > 0)
      throw_usage(fmt::format(
          "{}: a step profile has one attention for all layers, over all tokens", model.name));
    key_value_heads = attention->key_value_heads;
    normed = normed || attention->norm != QueryKeyNorm::kNone;
    if (const auto* m = std::get_if<MixtureOfExperts>(&layer.feed_forward)) {
      routed = m;
      ++expert_layers_;
    } else {
      ++dense;
    }
  }
  if (compute_units > 0) {
    const double heads = std::ceil(static_cast<double>(key_value_heads) / layout.tensor);
    units_per_sequence_ = heads / compute_units;
    const double smallest = prompts_.first().front();
    constexpr double kLong = 16384;
    alone_us_per_token_ =
        std::max(0.0, prompts_.at(smallest, kLong) - prompts_.at(smallest, 0)) / kLong;
  }
  const auto all = static_cast<double>(model.layers.size());
  layers_ = std::ceil(all / layout.pipeline);
  expert_layers_ *= layers_ / all;
  dense *= layers_ / all;

  std::vector<std::pair<const RaggedGrid*, double>> parts;
  const auto add = [&](const std::map<std::string, RaggedGrid>& from, const std::string& file,
                       const std::string& layer, double count) {
    const auto found = from.find(layer);
    if (found == from.end())
      throw_input(file, fmt::format("no row of '{}', which {} has", layer, model.name));
    parts.emplace_back(&found->second, count);
  };
  for (const auto& [layer, count] : kAttentionLayers)
    if (layer != "qk_norm" || normed) add(tables.dense, tables.dense_file, layer, count * layers_);
  if (dense > 0)
    for (const std::string& layer : kFeedForward)
      add(tables.dense, tables.dense_file, layer, dense);
  for (const std::string& layer : kOnce) add(tables.dense, tables.dense_file, layer, 1);
  tokens_ = sum_of(parts);
  parts.clear();
  for (const std::string& layer : kPerSequence)
    add(tables.per_sequence, tables.per_sequence_file, layer, 1);
  head_ = sum_of(parts);

  if (routed == nullptr) return;
  if (experts_.empty()) throw_input(tables.dense_file, "no table of experts beside it");
  double sum = 0;
  for (int64_t e = 0; e < routed->experts; ++e)
    sum += chosen_.emplace_back(std::pow(static_cast<double>(e + 1), -routing_skew));
  for (double& q : chosen_) q = std::min(1.0, q / sum * static_cast<double>(routed->active));
}

double StepProfile::tokens(int64_t tokens) const {
  return tokens_.at(static_cast<double>(tokens)) * kMicro;
}

double StepProfile::head(int64_t rows) const {
  return head_.at(static_cast<double>(rows)) * kMicro;
}

double StepProfile::experts(int64_t group_tokens) const {
  const auto tokens = static_cast<double>(group_tokens);
  double met = 0;
  for (const double q : chosen_) met += 1 - std::pow(1 - q, tokens);
  return expert_layers_ * experts_.at(tokens / expert_ranks_, met / expert_ranks_) * kMicro;
}

double StepProfile::prompts(const StepShape& shape) const {
  const OneChunk one = together(shape);
  if (one.tokens == 0) return 0;
  double each = 0;
  for (const PrefillChunk& chunk : shape.prefills)
    if (chunk.tokens > 0)
      each += prompts_.at(static_cast<double>(chunk.tokens), static_cast<double>(chunk.context));
  return layers_ * std::min(each, prompts_.at(one.tokens, one.context)) * kMicro;
}

double StepProfile::end_of_longest(const StepShape& shape) const {
  constexpr double kFilled = 0.8;
  const auto sequences = static_cast<double>(shape.decodes);
  const double turns = sequences * units_per_sequence_;
  if (shape.prefills.empty() && turns < kFilled) return 0;
  const double mean = static_cast<double>(shape.decode_context) / sequences;
  const double rest = static_cast<double>(shape.longest_decode) - mean * std::max(1.0, turns / 2);
  return std::max(0.0, rest) * alone_us_per_token_;
}

double StepProfile::next(const StepShape& shape) const {
  if (shape.decodes == 0) return 0;
  const auto sequences = static_cast<double>(shape.decodes);
  const double mean = static_cast<double>(shape.decode_context) / sequences;
  const OneChunk one = together(shape);
  double time = 0;
  if (one.tokens > 0 && !mixed_.empty()) {
    const double chunk = prompts_.at(one.tokens, one.context);
    time = mixed_.at(std::array{one.tokens, one.context, sequences, mean}) - chunk +
           std::max(0.0, end_of_longest(shape) - chunk);
  } else {
    time = std::max(next_.at(sequences, mean) + end_of_longest(shape),
                    next_.at(1, static_cast<double>(shape.longest_decode)));
  }
  return layers_ * std::max(0.0, time) * kMicro;
}

}  // namespace orrery
