#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "orrery/workload/readers/hlo/attribute_rules.h"
#include "orrery/workload/readers/hlo/instruction_names.h"
#include "orrery/workload/readers/hlo/library_calls.h"
#include "orrery/workload/readers/hlo/replica_groups.h"
#include "orrery/workload/readers/hlo/syntax.h"
#include "orrery/workload/workload_builder.h"

namespace orrery::hlo {

/// Functions by name, with the place where each was first called: a computation
/// may be called before its text comes, but not without one.
class Computations {
 public:
  Computations(WorkloadBuilder& builder, const Source& source)
      : builder_(&builder), source_(&source) {}
  FunctionId called(std::string_view name);
  /// Throws `kInput` at the first call of a computation that never came.
  void check_all_defined() const;

 private:
  WorkloadBuilder* builder_;
  const Source* source_;
  std::vector<size_t> called_at_;  ///< By function; SIZE_MAX: not called.
};

/// Translates attributes of instructions into those of the builder's open
/// operation. Keeps what repeats from one instruction to the next.
class InstructionAttributes {
 public:
  InstructionAttributes(WorkloadBuilder& builder, const Source& source, Computations& computations)
      : builder_(&builder), source_(&source), computations_(&computations) {}

  /// Sets all of `attributes` on the open operation.
  void set(InstructionKind kind, std::span<const AttributeText> attributes,
           std::span<const ValueId> operands, TypeId result);

  ShardingId sharding(std::string_view text);
  /// Where in the model, from `metadata`; empty when it does not say. Lives until
  /// the next call.
  std::string_view scope(std::string_view metadata);

 private:
  void set_one(InstructionKind kind, const AttributeRule& rule, const AttributeText& text);
  void set_integers(InstructionKind kind, const AttributeRule& rule, const AttributeText& text);
  void set_branches(InstructionKind kind, const AttributeText& text);
  void set_window(std::string_view value);
  void set_dim_labels(std::string_view value);
  void set_padding(std::string_view value);
  void set_slices(std::string_view value);
  void set_precision(std::string_view value);
  void set_algorithm(std::string_view value);
  void set_aliases(std::string_view value);
  void set_replica_groups(std::string_view value);
  void set_backend_config(InstructionKind kind, std::string_view value);
  MeshId mesh(std::string_view text, Mesh mesh);
  Cursor cursor(std::string_view text) const { return Cursor(*source_, text); }
  void note_unknown(std::string_view key);

  WorkloadBuilder* builder_;
  const Source* source_;
  Computations* computations_;
  std::unordered_map<std::string_view, ShardingId> shardings_;
  std::unordered_map<std::string, MeshId> meshes_;
  std::unordered_map<std::string_view, ReplicaGroups> groups_;
  size_t ranks_kept_ = 0;
  size_t unknown_keys_ = 0;
  // Of the instruction being translated.
  std::vector<int64_t> numbers_;
  std::vector<int64_t> branches_;
  int64_t group_size_ = 0;
  ConvolutionCall convolution_ = ConvolutionCall::kForward;
  std::string_view target_;
  std::string_view config_;
  std::string unescaped_target_;
  std::string unescaped_config_;
  std::string unescaped_scope_;
};

}  // namespace orrery::hlo
