#include "orrery/workload/zoo/zoo.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "orrery/base/error.h"
#include "orrery/base/nearest.h"

namespace orrery {
namespace {

std::vector<ZooModel>& models() {
  static std::vector<ZooModel> all;
  return all;
}

}  // namespace

Choices::Choices(std::vector<Choice> declared, const std::map<std::string, std::string>& given) {
  for (const auto& [name, value] : given) {
    const auto found = std::ranges::find(declared, name, &Choice::name);
    if (found == declared.end()) {
      std::vector<std::string> known;
      known.reserve(declared.size());
      for (const Choice& c : declared) known.push_back(c.name);
      throw_usage(fmt::format("the model has no choice '{}'{}", name, suggestion(name, known)));
    }
    if (!found->values.empty() && std::ranges::find(found->values, value) == found->values.end())
      throw_usage(fmt::format("{}={} is not allowed; give {}={}", name, value, name,
                              fmt::join(found->values, "|")));
    found->default_value = value;
  }
  for (Choice& c : declared) answers_.emplace_back(std::move(c.name), std::move(c.default_value));
}

const std::string& Choices::operator[](std::string_view name) const {
  for (const auto& [key, value] : answers_)
    if (key == name) return value;
  throw_internal(fmt::format("the choice '{}' was not declared", name));
}

std::vector<Choice> training_choices() {
  return {
      {"optimizer",
       "adamw",
       {"adamw", "sgd", "none"},
       "in training: AdamW with two fp32 moments, plain SGD without momentum, or none (gradients "
       "are returned)"},
      {"master_weights", "no", {"yes", "no"}, "in training: an fp32 copy of narrower weights"}};
}

Phase read_phase(const BuildOptions& options, bool decodes) {
  if (options.phase == "forward") return Phase::kForward;
  if (options.phase == "prefill") return Phase::kPrefill;
  if (options.phase == "train") return Phase::kTrain;
  if (options.phase == "decode") {
    if (decodes) return Phase::kDecode;
    throw_usage(
        "this model generates no tokens: there is no phase 'decode'; give forward, prefill or "
        "train");
  }
  throw_usage(fmt::format("unknown phase '{}'; give forward, prefill, {}train", options.phase,
                          decodes ? "decode or " : "or "));
}

ElementType read_dtype(const BuildOptions& options, ElementType otherwise) {
  if (options.dtype.empty()) return otherwise;
  const auto type = element_type_from_user(options.dtype);
  if (!type || !is_float(*type) || bit_width(*type) < 16)
    throw_usage(
        fmt::format("this model cannot be built with --dtype {}; give fp32, tf32, bf16 or fp16",
                    options.dtype));
  return *type;
}

int64_t read_size(std::string_view what, int64_t given, int64_t otherwise, int64_t most) {
  if (given == 0) given = otherwise;
  if (given < 1 || given > most)
    throw_usage(fmt::format("{} {} is not possible here; allowed are 1 to {}", what, given, most));
  return given;
}

int64_t read_number(const Choices& choices, std::string_view name, int64_t most) {
  const std::string& text = choices[name];
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > most)
    throw_usage(fmt::format("{}={} is not possible here; allowed are 1 to {}", name, text, most));
  return value;
}

int64_t read_batch(const BuildOptions& options) {
  // Beyond any measured batch, and small enough that sizes stay far from overflow.
  constexpr int64_t kMost = int64_t{1} << 20;
  if (options.batch < 1 || options.batch > kMost)
    throw_usage(
        fmt::format("batch {} is not possible here; allowed are 1 to {}", options.batch, kMost));
  return options.batch;
}

NetworkOptions read_network_options(const BuildOptions& options, const Choices& choices,
                                    ElementType dtype_otherwise, std::string_view library) {
  NetworkOptions network;
  network.library = library;
  ElementType dtype = read_dtype(options, dtype_otherwise);
  if (dtype == ElementType::kTF32) {
    network.compute = ElementType::kTF32;
    dtype = ElementType::kF32;
  }
  network.weights = network.activations = dtype;
  network.training = options.phase == "train";
  network.optimizer = choices.is("optimizer", "adamw") ? OptimizerKind::kAdamW
                      : choices.is("optimizer", "sgd") ? OptimizerKind::kSgd
                                                       : OptimizerKind::kNone;
  network.master_weights = choices.is("master_weights", "yes");
  return network;
}

void require_sizes(std::string_view model,
                   std::initializer_list<std::pair<std::string_view, int64_t>> sizes) {
  constexpr int64_t kMost = int64_t{1} << 24;
  for (const auto& [what, size] : sizes)
    if (size < 1 || size > kMost)
      throw_usage(fmt::format("'{}': {} {} is not possible; allowed are 1 to {}", model, what, size,
                              kMost));
}

void refuse_sequence(const BuildOptions& options) {
  if (options.sequence != 0 || options.context != 0)
    throw_usage(
        "this model takes images, not tokens: there is no sequence or context length to give");
}

const std::vector<ZooModel>& zoo_models() { return models(); }

const ZooModel* find_zoo_model(std::string_view name) {
  for (const ZooModel& model : models())
    if (model.name == name) return &model;
  return nullptr;
}

Workload build_zoo_model(std::string_view name, const BuildOptions& options) {
  const ZooModel* model = find_zoo_model(name);
  if (model != nullptr) return model->build(options);
  std::vector<std::string> names;
  names.reserve(models().size());
  for (const ZooModel& m : models()) names.push_back(m.name);
  throw_usage(fmt::format("neither a file nor a model of the zoo: '{}'{} ('orrery zoo' lists all)",
                          name, did_you_mean(nearest(name, names))));
}

ZooRegistration::ZooRegistration(std::vector<ZooModel> added) {
  for (ZooModel& model : added) {
    const auto at = std::ranges::lower_bound(models(), model.name, {}, &ZooModel::name);
    models().insert(at, std::move(model));
  }
}

}  // namespace orrery
