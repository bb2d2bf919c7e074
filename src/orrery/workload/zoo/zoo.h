#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "orrery/workload/reader.h"
#include "orrery/workload/workload.h"
#include "orrery/workload/zoo/network.h"

namespace orrery {

struct TransformerDescription;

/// A question a model leaves open that changes what is computed or counted.
struct Choice {
  std::string name;
  std::string default_value;
  std::vector<std::string> values;  ///< What is allowed; empty: any.
  std::string meaning;
};

/// The answers to `declared` given in `BuildOptions::choices`, with defaults for
/// the rest. An undeclared name or a value that is not allowed is `kUsage`.
class Choices {
 public:
  Choices(std::vector<Choice> declared, const std::map<std::string, std::string>& given);
  const std::string& operator[](std::string_view name) const;
  bool is(std::string_view name, std::string_view value) const { return (*this)[name] == value; }

 private:
  std::vector<std::pair<std::string, std::string>> answers_;
};

/// Those of every model that can be trained: optimizer=adamw|sgd|none, master_weights=yes|no.
std::vector<Choice> training_choices();

enum class Phase : uint8_t { kForward, kPrefill, kDecode, kTrain };

/// The phase named in `options`; `kUsage` for another word, and for decode where
/// `decodes` is false.
Phase read_phase(const BuildOptions& options, bool decodes);
/// `options.dtype` or `otherwise`; `kUsage` for what is not a floating-point type.
ElementType read_dtype(const BuildOptions& options, ElementType otherwise);
/// A size someone asked for: `given`, or `otherwise` when that is 0. `kUsage`
/// when not within 1 … `most`.
int64_t read_size(std::string_view what, int64_t given, int64_t otherwise, int64_t most);

/// A choice that is a whole number within 1 … `most`, else `kUsage`.
int64_t read_number(const Choices& choices, std::string_view name, int64_t most);
/// The batch size: 1 … 2^20.
int64_t read_batch(const BuildOptions& options);
/// What `options` and the training choices say about any network: tf32 is fp32
/// tensors multiplied in TF32. `library` as in NetworkOptions.
NetworkOptions read_network_options(const BuildOptions& options, const Choices& choices,
                                    ElementType dtype_otherwise, std::string_view library = {});
/// Checks the sizes of a model's description, which may come from a file: each must
/// lie within 1 … 2^24, so that sums and products of a few stay exact.
void require_sizes(std::string_view model,
                   std::initializer_list<std::pair<std::string_view, int64_t>> sizes);
/// For models without tokens: `kUsage` when a sequence or context length was given.
void refuse_sequence(const BuildOptions& options);

/// One model that can be had by name.
struct ZooModel {
  std::string name = {};    ///< "resnet-50"
  std::string title = {};   ///< "ResNet-50, 224×224 images"
  std::string family = {};  ///< "resnet"
  std::vector<Choice> choices = {};
  std::vector<std::string> phases = {};
  int64_t published_parameters = 0;  ///< 0: none published.
  std::string source = {};           ///< Of the parameter count and the architecture.
  std::function<Workload(const BuildOptions&)> build = {};
  std::shared_ptr<const TransformerDescription> language_model = {};  ///< Of those that are one.
};

/// The models by name, in order. A family's file adds its own with a
/// namespace-scope `ZooRegistration`.
const std::vector<ZooModel>& zoo_models();
const ZooModel* find_zoo_model(std::string_view name);
/// `kUsage`, with the nearest names, when there is none of that name.
Workload build_zoo_model(std::string_view name, const BuildOptions& options);

struct ZooRegistration {
  explicit ZooRegistration(std::vector<ZooModel> models);
};

}  // namespace orrery
