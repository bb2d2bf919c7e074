// Reads the `config.json` of a Hugging Face model and builds the model's workload.

#include <fmt/format.h>

#include <filesystem>

#include "orrery/base/nearest.h"
#include "orrery/workload/reader.h"
#include "orrery/workload/readers/huggingface/config.h"
#include "orrery/workload/readers/huggingface/families.h"

namespace orrery {
namespace {

class HuggingFaceReader : public Reader {
 public:
  bool recognises(const Source& source) const override {
    const std::string_view text = source.text();
    const size_t first = text.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos || text[first] != '{') return false;
    for (const std::string_view key : {"\"model_type\"", "\"architectures\"", "\"text_config\""})
      if (text.find(key) != std::string_view::npos) return true;
    return source.name().ends_with("config.json");
  }

  bool builds_models() const override { return true; }

  Workload read(const Source& source, const ReadOptions& options) const override {
    const auto config = huggingface::Config::parse(std::make_shared<const Source>(source));
    const huggingface::Model model = huggingface::describe(config);
    try {
      if (const auto* bert = std::get_if<BertDescription>(&model))
        return build_bert(*bert, options.build);
      if (const auto* vit = std::get_if<VitDescription>(&model))
        return build_vit(*vit, options.build);
      if (const auto* t5 = std::get_if<T5Description>(&model)) return build_t5(*t5, options.build);
      return build_language_model(std::get<TransformerDescription>(model), options.build,
                                  "huggingface");
    } catch (const std::invalid_argument& e) {
      throw_input(source.name(),
                  std::string("the model does not fit into any memory: ") + e.what());
    }
  }
};

const Registration<Reader> kRegistration{
    {"huggingface",
     "the config.json of a Hugging Face model, built for a phase, batch and length",
     "huggingface.co/docs/transformers",
     {}},
    [] { return std::make_unique<HuggingFaceReader>(); }};

}  // namespace

TransformerDescription load_language_model(const std::string& path_or_zoo_name) {
  std::error_code absent;
  if (!std::filesystem::exists(path_or_zoo_name, absent)) {
    std::vector<std::string> names;
    for (const ZooModel& model : zoo_models())
      if (model.language_model != nullptr) {
        if (model.name == path_or_zoo_name) return *model.language_model;
        names.push_back(model.name);
      }
    throw_usage(fmt::format("'{}' is neither a file nor a language model of the zoo{}",
                            path_or_zoo_name, suggestion(path_or_zoo_name, names)));
  }
  const auto source = std::make_shared<const Source>(Source::from_file(path_or_zoo_name));
  huggingface::Model model = huggingface::describe(huggingface::Config::parse(source));
  if (auto* description = std::get_if<TransformerDescription>(&model))
    return std::move(*description);
  throw_input(source->name(), "describes no decoder-only language model");
}

}  // namespace orrery
