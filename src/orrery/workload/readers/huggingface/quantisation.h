#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "orrery/workload/readers/huggingface/config.h"
#include "orrery/workload/zoo/network.h"

namespace orrery::huggingface {

/// Which weights of a model are quantised, and how: from `quantization_config`
/// (fp8, mxfp4, gptq, awq, compressed-tensors, modelopt, bitsandbytes) or from
/// ModelOpt's `hf_quant_config.json` beside the configuration. A method or
/// number format that is not known is refused (`kInput`) by its name.
class Quantisation {
 public:
  /// Nothing is quantised.
  Quantisation() = default;
  /// `config` is the whole description; `text` its language part, which may hold
  /// the quantisation too. Reads the file beside where neither does.
  static Quantisation read(const Config& config, const Config& text);

  /// The format of the module called `name` in the checkpoint, such as
  /// "layers.3.self_attn.q_proj", "lm_head" or "layers.3.mlp.experts.up_proj"
  /// (an expert's own number left out).
  WeightFormat format(std::string_view name) const;
  /// Whether any weight is.
  bool any() const {
    return base_.storage != ElementType::kNone || !own_.empty() || !own_patterns_.empty();
  }
  /// Type of the KV cache; kNone: the model's.
  ElementType cache_type() const { return cache_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void read_config(const Config& quantization);
  void read_modelopt(const Config& quantization);
  void read_groups(const Config& groups);
  void read_layers(const Config& layers);
  void exclude(const std::vector<std::string>& patterns);
  bool excluded(std::string_view name) const;
  bool covers(const std::string& pattern, std::string_view name) const;

  WeightFormat base_;                                  ///< Of what nothing else names.
  std::unordered_map<std::string, WeightFormat> own_;  ///< By module.
  std::vector<std::pair<std::string, WeightFormat>> own_patterns_;
  std::unordered_set<std::string> excluded_names_;
  std::vector<std::string> excluded_patterns_;  ///< With wildcards, or "re:…".
  /// Those that name their layer, "layers.3.self_attn*": looked at for it alone.
  std::unordered_map<std::string, std::vector<std::string>> excluded_in_layer_;
  bool experts_only_ = false;
  ElementType cache_ = ElementType::kNone;
  std::vector<std::string> notes_;
  std::string file_;
  mutable int64_t comparisons_ = 0;  ///< Bounds what hostile lists of patterns can cost.
};

/// Whether a shell-like pattern ('*' is any text) covers all of `text`.
bool matches_wildcard(std::string_view pattern, std::string_view text);
/// Whether a regular expression of the kind quantisation lists use covers `text`
/// from its start: literals, `\.`, `.`, `.*`, `.+`, `\d+`, `(a|b)`, `$`.
/// Nothing when it uses more than that.
std::optional<bool> matches_expression(std::string_view expression, std::string_view text);

}  // namespace orrery::huggingface
