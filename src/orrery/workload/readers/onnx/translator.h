#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "orrery/workload/reader.h"
#include "orrery/workload/readers/onnx/operator.h"

namespace orrery::onnx {

/// The names visible to a graph's nodes: its own, then those of the graph
/// around it. A function's body starts a fresh chain.
struct Scope {
  Scope* parent = nullptr;
  std::unordered_map<std::string_view, Value> values;
  std::unordered_map<std::string_view, const TypeInfo*> declared;
  const OpsetImports* opsets = nullptr;
  /// In a function's body: the attributes its call gave, by name.
  const std::map<std::string_view, const NodeAttribute*>* attributes = nullptr;
  int depth = 0;

  const Value* find(std::string_view name) const;
  const TypeInfo* find_declared(std::string_view name) const;
};

/// Turns a parsed model into a workload: binds open dimensions, infers every
/// type, folds what shapes are computed from, and runs each operator's rule.
class Translator {
 public:
  Translator(const Source& source, const ReadOptions& options, const Model& model);
  Workload run();

  const Source& source() const { return source_; }
  const ReadOptions& options() const { return options_; }
  /// A name that `--bind` may give a size to.
  void note_open_size(const std::string& name) { known_sizes_.insert(name); }
  WorkloadBuilder& builder() { return builder_; }

  /// Runs a subgraph's nodes in `scope`, which already holds its inputs, and
  /// gives its outputs.
  std::vector<Value> translate_graph(const Graph& graph, Scope& scope);
  void translate_nodes(const std::vector<Node>& nodes, Scope& scope);
  void define(Scope& scope, std::string_view name, Value value, size_t offset);
  /// The size of an open dimension, when one is bound.
  std::optional<int64_t> bound(const Dimension& dimension) const;
  /// What `body` would give for `arguments` (their types; ids are ignored), worked
  /// out in a builder that is thrown away: results carry types only. `visit` sees
  /// them, and the second argument, while that builder lives.
  using ProbeVisitor =
      std::function<void(NodeContext&, const std::vector<Value>& results, ValueId second)>;
  std::vector<Value> probe(NodeContext& context, const Graph& body,
                           const std::vector<Value>& arguments, const ProbeVisitor& visit);
  /// Counts folded elements; false when the model folds implausibly much.
  bool take_fold_budget(size_t elements);

 private:
  using Functions = std::map<std::tuple<std::string_view, std::string_view, std::string_view>,
                             const FunctionDefinition*>;
  using Names = std::unordered_set<std::string_view>;

  /// For probing: the same model and budgets, a builder of its own.
  explicit Translator(const Translator& other);
  Value as_argument(const Value& value);
  void translate_node(const Node& node, Scope& scope);
  void call_function(const Node& node, const FunctionDefinition& function, Scope& scope);
  void translate_unknown(NodeContext& context);
  void declare(Scope& scope, const std::vector<ValueInfo>& infos);
  void define_initializers(const Graph& graph, Scope& scope);
  void add_input(const ValueInfo& input, Role role, Scope& scope);
  void add_parameters(const Graph& graph);
  void add_parameters(const std::vector<Node>& nodes);
  Dims input_dims(const ValueInfo& input) const;
  bool is_used(std::string_view name) const { return uses_->contains(name); }
  /// Notes where the file's own shapes contradict the inferred ones.
  void check_declared(std::string_view name, const Scope& scope);
  int64_t version_of(std::string_view domain, const Scope& scope) const;

  const Source& source_;
  const ReadOptions& options_;
  mutable std::set<std::string> known_sizes_;  ///< Open sizes met: what bindings may name.
  const Model& model_;
  WorkloadBuilder builder_;
  std::shared_ptr<const Functions> functions_;  ///< By domain, name and overload.
  std::unordered_map<const Tensor*, ValueId> parameters_;
  std::shared_ptr<const Names> uses_;  ///< Every name that some node or output reads.
  std::vector<const FunctionDefinition*> call_stack_;
  size_t folded_elements_ = 0;
  size_t translated_nodes_ = 0;
  size_t unused_initializers_ = 0;
  int contradictions_ = 0;
};

}  // namespace orrery::onnx
