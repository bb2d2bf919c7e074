#include "orrery/workload/readers/huggingface/quantisation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace orrery::huggingface {
namespace {

/// Characters compared before a list of patterns counts as hostile: ten times what
/// the longest list among published models takes.
constexpr int64_t kMaxComparisons = 200'000'000;

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Checkpoints prefix the same module differently ("model.", "backbone.",
/// "model.language_model.") and list every expert: what stands before "layers."
/// and the expert's number are dropped.
std::string canonical(std::string_view name) {
  const size_t layers = name.find("layers.");
  if (layers != std::string_view::npos && (layers == 0 || name[layers - 1] == '.') &&
      name.substr(0, layers).find("mtp") == std::string_view::npos)
    name = name.substr(layers);
  else if (const size_t head = name.find("lm_head"); head != std::string_view::npos && head > 0)
    name = name.substr(head);
  std::string result;
  bool after_experts = false;
  while (!name.empty()) {
    const size_t dot = name.find('.');
    const std::string_view part = name.substr(0, dot);
    if (!(after_experts && is_number(part))) {
      if (!result.empty()) result += '.';
      result += part;
    }
    after_experts = part == "experts";
    name = dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1);
  }
  return result;
}

/// "3" of "layers.3.self_attn"; empty where no single layer is named.
std::string layer_of(std::string_view name) {
  constexpr std::string_view kStart = "layers.";
  if (!name.starts_with(kStart)) return {};
  const size_t dot = name.find('.', kStart.size());
  if (dot == std::string_view::npos) return {};
  const std::string_view layer = name.substr(kStart.size(), dot - kStart.size());
  return is_number(layer) ? std::string(layer) : std::string();
}

bool is_pattern(std::string_view text) {
  return text.starts_with("re:") || text.find('*') != std::string_view::npos;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// --- number formats ---------------------------------------------------------

/// fp8 weights and activations with one scale a tensor (block 0) or a block.
WeightFormat fp8(int64_t block_in, int64_t block_out, bool dynamic_activations,
                 ElementType scale = ElementType::kF32) {
  WeightFormat format;
  format.storage = ElementType::kF8E4M3FN;
  format.compute = ElementType::kF8E4M3FN;
  format.scale = scale;
  format.block_in = block_in;
  format.block_out = block_out;
  format.dynamic_activation_scales = dynamic_activations;
  return format;
}

/// fp4 weights with an fp8 scale every 16 inputs; activations too unless weight-only.
WeightFormat nvfp4(int64_t group, bool weight_only) {
  WeightFormat format;
  format.storage = ElementType::kF4E2M1FN;
  format.compute = weight_only ? ElementType::kNone : ElementType::kF4E2M1FN;
  format.scale = ElementType::kF8E4M3FN;
  format.block_in = group;
  format.block_out = 1;
  format.dynamic_activation_scales = !weight_only;
  return format;
}

/// OCP microscaling: a power-of-two scale every 32 inputs. Weight-only for fp4, as
/// gpt-oss and Kimi K3 are published (their activations stay bf16).
WeightFormat mxfp4() {
  WeightFormat format;
  format.storage = ElementType::kF4E2M1FN;
  format.scale = ElementType::kF8E8M0FNU;
  format.block_in = 32;
  format.block_out = 1;
  return format;
}

WeightFormat mxfp8() { return fp8(32, 1, true, ElementType::kF8E8M0FNU); }

/// Integer weights in groups of inputs; activations keep their type.
WeightFormat grouped_integer(int64_t bits, int64_t group, bool zero_points, ElementType scale) {
  WeightFormat format;
  format.storage = bits == 8 ? ElementType::kS8 : ElementType::kS4;
  format.scale = scale;
  format.block_in = group;
  format.block_out = 1;
  format.zero_points = zero_points;
  return format;
}

/// int8 weights with a scale an output, activations quantised row by row.
WeightFormat int8() {
  WeightFormat format;
  format.storage = ElementType::kS8;
  format.compute = ElementType::kS8;
  format.scale = ElementType::kF32;
  format.block_out = 1;
  format.dynamic_activation_scales = true;
  return format;
}

/// ModelOpt's names; `kInput` for others.
WeightFormat modelopt_format(const Config& config, const std::string& algorithm, int64_t group) {
  if (algorithm == "FP8") return fp8(0, 0, false);
  if (algorithm == "FP8_PER_CHANNEL_PER_TOKEN" || algorithm == "FP8_PC_PT") return fp8(0, 1, true);
  if (algorithm == "FP8_PB_WO" || algorithm == "FP8_BLOCK") return fp8(128, 128, true);
  if (algorithm == "NVFP4" || algorithm == "NVFP4_AWQ")
    return nvfp4(group == 0 ? 16 : group, false);
  if (algorithm == "W4A16_NVFP4" || algorithm == "NVFP4_W4A16")
    return nvfp4(group == 0 ? 16 : group, true);
  if (algorithm == "MXFP8") return mxfp8();
  if (algorithm == "MXFP4" || algorithm == "W4A16_MXFP4") return mxfp4();
  if (algorithm == "W4A16_AWQ" || algorithm == "INT4_AWQ" || algorithm == "W4A16")
    return grouped_integer(4, group == 0 ? 128 : group, false, ElementType::kBF16);
  if (algorithm == "W4A8_AWQ") {
    WeightFormat format = grouped_integer(4, group == 0 ? 128 : group, false, ElementType::kBF16);
    format.compute = ElementType::kF8E4M3FN;
    return format;
  }
  if (algorithm == "W8A16") return grouped_integer(8, 0, false, ElementType::kBF16);
  if (algorithm == "W8A8_SQ_PER_CHANNEL" || algorithm == "INT8_SQ" || algorithm == "INT8")
    return int8();
  config.fail("quant_algo", fmt::format("quantisation '{}' is not supported", algorithm));
}

/// A group of compressed-tensors: how many bits, which kind, how scaled.
WeightFormat group_format(const Config& group) {
  const std::optional<Config> weights = group.object("weights");
  if (!weights) return {};
  const int64_t bits = weights->size_or({"num_bits"}, 8);
  const std::string kind = weights->text_or({"type"}, "int");
  const std::string strategy = weights->text_or({"strategy"}, "");
  const int64_t size = weights->count_or({"group_size"}, 0);
  const std::optional<Config> activations = group.object("input_activations");
  const bool dynamic =
      activations && !activations->is_text("dynamic") && activations->flag_or({"dynamic"}, false);
  const std::string layout = group.text_or({"format"}, "");
  if (kind == "float" && bits == 8) {
    if (strategy == "block") {
      const std::vector<int64_t> block = weights->numbers({"block_structure"});
      return fp8(block.size() == 2 ? block[1] : 128, block.size() == 2 ? block[0] : 128, true);
    }
    if (size == 32) return mxfp8();
    WeightFormat format = fp8(0, strategy == "channel" ? 1 : 0, dynamic);
    if (!activations) format.compute = ElementType::kNone;
    return format;
  }
  if (kind == "float" && bits == 4) {
    if (layout.find("mxfp4") != std::string::npos || size == 32) return mxfp4();
    return nvfp4(size == 0 ? 16 : size, !activations);
  }
  if (kind == "int" && (bits == 4 || bits == 8)) {
    if (bits == 8 && activations) return int8();
    WeightFormat format =
        grouped_integer(bits, size, !weights->flag_or({"symmetric"}, true), ElementType::kBF16);
    if (activations) format.compute = ElementType::kS8;
    return format;
  }
  weights->fail(
      "num_bits",
      fmt::format("quantised weights of {} bits of type '{}' are not supported", bits, kind));
}

/// A type of the KV cache: "FP8", or {"num_bits": 8, "type": "float"}.
ElementType cache_type(const Config& config, std::string_view name) {
  if (!config.has(name)) return ElementType::kNone;
  std::string algorithm;
  if (config.is_text(name)) {
    algorithm = config.text_or({name}, "");
  } else if (const std::optional<Config> scheme = config.object(name)) {
    algorithm = fmt::format("{}{}", scheme->text_or({"type"}, "float") == "int" ? "INT" : "FP",
                            scheme->size_or({"num_bits"}, 8));
  }
  if (algorithm == "FP8") return ElementType::kF8E4M3FN;
  if (algorithm == "INT8") return ElementType::kS8;
  if (algorithm == "NVFP4" || algorithm == "FP4") return ElementType::kF4E2M1FN;
  if (algorithm == "none" || algorithm == "auto" || algorithm.empty()) return ElementType::kNone;
  config.fail(name, fmt::format("a KV cache of type '{}' is not supported", algorithm));
}

/// ModelOpt writes its description beside config.json: `hf_quant_config.json`, or
/// `NAME_hf_quant_config.json` beside `NAME_config.json`.
std::optional<std::string> file_beside(const std::string& path) {
  constexpr std::string_view kEnd = "config.json";
  if (!path.ends_with(kEnd) || path.ends_with("hf_quant_config.json")) return std::nullopt;
  std::string beside = path.substr(0, path.size() - kEnd.size()) + "hf_quant_config.json";
  std::error_code error;
  if (!std::filesystem::is_regular_file(beside, error)) return std::nullopt;
  return beside;
}

}  // namespace

bool matches_wildcard(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::optional<bool> matches_expression(std::string_view expression, std::string_view text) {
  // One step of the expression: alternatives (usually one character or "any"),
  // and how often. Positions in `text` that can be reached are kept as a set, so
  // that time stays within expression × text.
  std::vector<bool> reached(text.size() + 1);
  reached[0] = true;
  size_t i = 0;
  while (i < expression.size()) {
    if (expression[i] == '^' && i == 0) {
      ++i;
      continue;
    }
    if (expression[i] == '$' && i + 1 == expression.size()) {
      return static_cast<bool>(reached[text.size()]);
    }
    std::vector<std::string_view> words;
    bool any = false, digit = false;
    std::string literal;
    if (expression[i] == '.') {
      any = true;
      ++i;
    } else if (expression[i] == '(') {
      const size_t close = expression.find(')', i);
      if (close == std::string_view::npos) return std::nullopt;
      std::string_view inside = expression.substr(i + 1, close - i - 1);
      if (inside.starts_with("?:")) inside = inside.substr(2);
      if (inside.find_first_of("([{*+?\\.^$") != std::string_view::npos) return std::nullopt;
      for (;;) {
        const size_t bar = inside.find('|');
        words.push_back(inside.substr(0, bar));
        if (bar == std::string_view::npos) break;
        inside = inside.substr(bar + 1);
      }
      i = close + 1;
    } else if (expression[i] == '\\') {
      if (i + 1 >= expression.size()) return std::nullopt;
      const char c = expression[i + 1];
      if (c == 'd')
        digit = true;
      else if (std::isalnum(static_cast<unsigned char>(c)) != 0)
        return std::nullopt;
      else
        literal = c;
      i += 2;
    } else if (std::string_view("[]{}*+?|)^$").find(expression[i]) != std::string_view::npos) {
      return std::nullopt;
    } else {
      literal = expression[i++];
    }
    if (words.empty()) words.push_back(literal);
    char repeat = 0;
    if (i < expression.size() &&
        std::string_view("*+?").find(expression[i]) != std::string_view::npos)
      repeat = expression[i++];
    if (repeat != 0 && words.size() > 1) return std::nullopt;

    std::vector<bool> next(text.size() + 1);
    for (size_t t = 0; t <= text.size(); ++t) {
      if (!reached[t] && !((repeat == '*' || repeat == '+') && next[t])) continue;
      if (reached[t] && (repeat == '*' || repeat == '?')) next[t] = true;
      if (any || digit) {
        if (t < text.size() && (any || std::isdigit(static_cast<unsigned char>(text[t])) != 0))
          next[t + 1] = true;
      } else {
        for (const std::string_view word : words)
          if (text.substr(t).starts_with(word)) next[t + word.size()] = true;
      }
    }
    reached = std::move(next);
  }
  return std::find(reached.begin(), reached.end(), true) != reached.end();
}

Quantisation Quantisation::read(const Config& config, const Config& text) {
  Quantisation quantisation;
  quantisation.file_ = config.source().name();
  for (const Config* part : {&config, &text}) {
    if (const std::optional<Config> own = part->object("quantization_config")) {
      quantisation.read_config(*own);
      return quantisation;
    }
  }
  if (const std::optional<std::string> beside = file_beside(config.source().name())) {
    const Config file = Config::parse(std::make_shared<Source>(Source::from_file(*beside)));
    if (const std::optional<Config> own = file.object("quantization"))
      quantisation.read_modelopt(*own);
    else
      file.source().fail(0, "'quantization' is missing");
  }
  return quantisation;
}

void Quantisation::read_config(const Config& config) {
  const std::string method = lower(config.text_or(
      {"quant_method"}, config.has("quant_algo") || config.has("config_groups") ? "modelopt" : ""));
  if (method == "fp8") {
    const std::vector<int64_t> block = config.numbers({"weight_block_size"});
    const ElementType scale =
        config.text_or({"scale_fmt"}, "") == "ue8m0" && config.has("moe_quant_algo")
            ? ElementType::kF8E8M0FNU
            : ElementType::kF32;
    base_ = block.size() == 2
                ? fp8(block[1], block[0], true, scale)
                : fp8(0, 0, config.text_or({"activation_scheme"}, "dynamic") == "dynamic");
    exclude(config.texts({"modules_to_not_convert"}));
    // nn.Linear alone is converted, and never the head unless asked.
    excluded_names_.insert("lm_head");
    if (const std::optional<Config> layers = config.object("quantized_layers"))
      read_layers(*layers);
  } else if (method == "mxfp4") {
    base_ = mxfp4();
    experts_only_ = true;
    exclude(config.texts({"modules_to_not_convert"}));
  } else if (method == "gptq" || method == "awq") {
    const int64_t bits = config.size_or({"bits", "w_bit"}, 4);
    if (bits != 4 && bits != 8)
      config.fail("bits", fmt::format("{} weights of {} bits are not supported", method, bits));
    const bool zero_points = method == "awq" ? config.flag_or({"zero_point"}, true) : true;
    int64_t group = 128;
    // -1 is one group for all inputs.
    if (config.has("group_size") && config.real_or({"group_size"}, 128) < 0)
      group = 0;
    else
      group = config.size_or({"group_size", "q_group_size"}, 128);
    base_ = grouped_integer(bits, group, zero_points, ElementType::kF16);
    exclude(config.texts({"modules_to_not_convert"}));
    excluded_names_.insert("lm_head");
  } else if (method == "compressed-tensors" || method == "modelopt") {
    read_modelopt(config);
  } else if (method == "bitsandbytes") {
    if (config.flag_or({"load_in_4bit"}, false))
      base_ = grouped_integer(4, 64, false, ElementType::kF32);
    else
      base_ = int8();
    exclude(config.texts({"llm_int8_skip_modules"}));
    excluded_names_.insert("lm_head");
  } else {
    config.fail("quantization_config",
                method.empty()
                    ? std::string("'quant_method' is missing")
                    : fmt::format("quantisation method '{}' is not supported; there is: awq, "
                                  "bitsandbytes, compressed-tensors, fp8, gptq, modelopt, mxfp4",
                                  method));
  }
}

void Quantisation::read_modelopt(const Config& config) {
  const std::string algorithm = config.text_or({"quant_algo"}, "");
  const int64_t group = config.count_or({"group_size"}, 0);
  const std::optional<Config> layers = config.object("quantized_layers");
  const std::optional<Config> groups = config.object("config_groups");
  if (layers) read_layers(*layers);
  if (!algorithm.empty() && algorithm != "MIXED_PRECISION")
    base_ = modelopt_format(config, algorithm, group);
  else if (!layers && groups)
    read_groups(*groups);
  else if (!layers)
    config.fail("quantization_config",
                "neither 'quant_algo' nor 'config_groups' says how weights are kept");
  // ModelOpt leaves the head alone unless it is named.
  excluded_names_.insert("lm_head");
  exclude(config.texts({"exclude_modules"}));
  exclude(config.texts({"ignore"}));
  for (const std::string_view name : {"kv_cache_quant_algo", "kv_cache_scheme"})
    if (const ElementType type = huggingface::cache_type(config, name); type != ElementType::kNone)
      cache_ = type;
}

void Quantisation::read_groups(const Config& groups) {
  for (const std::string& name : groups.names()) {
    const std::optional<Config> group = groups.object(name);
    if (!group) continue;
    const WeightFormat format = group_format(*group);
    std::vector<std::string> targets = group->texts({"targets"});
    if (targets.empty()) targets.emplace_back("Linear");
    for (const std::string& target : targets) {
      if (target == "Linear")
        base_ = format;
      else if (is_pattern(target))
        own_patterns_.emplace_back(target.starts_with("re:") ? target : canonical(target), format);
      else
        own_[canonical(target)] = format;
    }
  }
}

void Quantisation::read_layers(const Config& layers) {
  for (const std::string& name : layers.names()) {
    const std::string module = canonical(name);
    if (own_.contains(module)) continue;
    const std::optional<Config> layer = layers.object(name);
    if (!layer) continue;
    own_[module] = modelopt_format(*layer, layer->text_or({"quant_algo"}, ""),
                                   layer->count_or({"group_size"}, 0));
  }
}

void Quantisation::exclude(const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    if (!is_pattern(pattern)) {
      excluded_names_.insert(canonical(pattern));
    } else if (pattern.starts_with("re:")) {
      if (!matches_expression(std::string_view(pattern).substr(3), ""))
        notes_.push_back(
            fmt::format("quantisation: the expression '{}' was not understood; what it "
                        "excludes is taken as quantised",
                        pattern));
      excluded_patterns_.push_back(pattern);
    } else {
      std::string module = canonical(pattern);
      if (const std::string layer = layer_of(module); !layer.empty())
        excluded_in_layer_[layer].push_back(std::move(module));
      else
        excluded_patterns_.push_back(std::move(module));
    }
  }
}

bool Quantisation::covers(const std::string& pattern, std::string_view name) const {
  comparisons_ += static_cast<int64_t>(pattern.size() * name.size());
  if (comparisons_ > kMaxComparisons)
    throw_input(file_, "the patterns that say what is quantised are too many to be meant");
  if (pattern.starts_with("re:"))
    return matches_expression(std::string_view(pattern).substr(3), name).value_or(false);
  // "model.layers.*.self_attn" names a module; what is below it counts too.
  return matches_wildcard(pattern, name) || matches_wildcard(pattern + ".*", name);
}

bool Quantisation::excluded(std::string_view name) const {
  // A plain entry covers the module it names anywhere in a path, and all below:
  // "gate" covers "layers.3.mlp.gate" but not "gate_proj".
  std::vector<size_t> starts{0};
  for (size_t i = 0; i < name.size(); ++i)
    if (name[i] == '.') starts.push_back(i + 1);
  for (size_t first = 0; first < starts.size(); ++first)
    for (size_t last = first; last < starts.size(); ++last) {
      const size_t end = last + 1 < starts.size() ? starts[last + 1] - 1 : name.size();
      if (excluded_names_.contains(std::string(name.substr(starts[first], end - starts[first]))))
        return true;
    }
  const auto covered = [&](const std::string& pattern) { return covers(pattern, name); };
  const auto own_layer = excluded_in_layer_.find(layer_of(name));
  if (own_layer != excluded_in_layer_.end() &&
      std::any_of(own_layer->second.begin(), own_layer->second.end(), covered))
    return true;
  return std::any_of(excluded_patterns_.begin(), excluded_patterns_.end(), covered);
}

WeightFormat Quantisation::format(std::string_view name) const {
  const bool expert = name.find(".experts") != std::string_view::npos;
  if (experts_only_ && !expert) return {};
  // The longest path that names it wins: a weight before its module.
  for (std::string_view path = name; !own_.empty();) {
    if (const auto found = own_.find(std::string(path)); found != own_.end()) return found->second;
    const size_t dot = path.rfind('.');
    if (dot == std::string_view::npos) break;
    path = path.substr(0, dot);
  }
  if (excluded(name)) return {};
  for (const auto& [pattern, format] : own_patterns_)
    if (covers(pattern, name)) return format;
  return base_;
}

}  // namespace orrery::huggingface
