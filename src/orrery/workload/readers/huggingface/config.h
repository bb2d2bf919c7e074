#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/source.h"

namespace orrery::huggingface {

/// The most layers and the largest single size a description may state; the deepest
/// published model has 126 layers.
inline constexpr int64_t kMaxLayers = 2'000;
inline constexpr int64_t kMaxSize = int64_t{1} << 31;

/// One JSON object of a model description, read by name. Fields are looked up
/// under several spellings, the first present one counts; `null` is absent.
/// A field of a wrong type or out of range throws `kInput` at its place in the
/// file, saying what was expected and what was found.
class Config {
 public:
  /// Parses the whole file. Python's `NaN` and `Infinity` are read as null, as
  /// configuration files hold them and nothing here needs their value.
  static Config parse(std::shared_ptr<const Source> source);

  using Names = std::initializer_list<std::string_view>;

  bool has(std::string_view name) const;
  /// A whole number from 1 to kMaxSize.
  int64_t size(Names names) const;
  int64_t size_or(Names names, int64_t otherwise) const;
  /// A whole number from 0 to kMaxSize; 0 is how configurations say "none".
  int64_t count_or(Names names, int64_t otherwise) const;
  double real_or(Names names, double otherwise) const;
  bool flag_or(Names names, bool otherwise) const;
  std::string text_or(Names names, std::string_view otherwise) const;
  /// Empty when absent.
  std::vector<std::string> texts(Names names) const;
  /// Whole numbers (booleans count as 0 and 1); empty when absent.
  std::vector<int64_t> numbers(Names names) const;
  bool is_list(std::string_view name) const;
  /// Entry `layer` of a list with one for every layer.
  int64_t number_at(std::string_view name, int64_t layer) const;
  std::string text_at(std::string_view name, int64_t layer) const;
  /// Whether a list of layers names this one; no when it is absent.
  bool lists_layer(std::string_view name, int64_t layer) const;
  bool is_text(std::string_view name) const;
  /// A nested object; nothing when absent.
  std::optional<Config> object(std::string_view name) const;
  /// A list of objects; empty when absent.
  std::vector<Config> objects(std::string_view name) const;
  /// The names in this object, sorted.
  std::vector<std::string> names() const;

  const Source& source() const { return *source_; }
  /// Throws `kInput` where `name` stands in the file.
  [[noreturn]] void fail(std::string_view name, std::string message) const;

 private:
  struct Node;
  const Node& entry(std::string_view name, int64_t layer, Node& place) const;
  Config(std::shared_ptr<const Source> source, std::shared_ptr<const Node> node);
  int64_t whole(Names names, int64_t least, std::optional<int64_t> otherwise) const;

  std::shared_ptr<const Source> source_;
  std::shared_ptr<const Node> node_;
};

}  // namespace orrery::huggingface
