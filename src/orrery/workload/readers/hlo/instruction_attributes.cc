#include "orrery/workload/readers/hlo/instruction_attributes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "orrery/workload/readers/hlo/values.h"

namespace orrery::hlo {
namespace {

using Form = AttributeRule::Form;

// Distinct replica groups of one module, all ranks together: a thousand layouts
// of four thousand devices. The short form of groups is no way to fill memory.
constexpr size_t kMaxRanksKept = size_t{1} << 22;
// Notes are for people.
constexpr size_t kMaxUnknownKeys = 16;

bool is_contraction(Opcode code) { return op_class(code) == OpClass::kContraction; }

}  // namespace

FunctionId Computations::called(std::string_view name) {
  const FunctionId id = builder_->declare_function(name);
  if (called_at_.size() <= id.index) called_at_.resize(id.index + 1, SIZE_MAX);
  if (called_at_[id.index] == SIZE_MAX)
    called_at_[id.index] = static_cast<size_t>(name.data() - source_->text().data());
  return id;
}

void Computations::check_all_defined() const {
  for (uint32_t i = 0; i < called_at_.size(); ++i) {
    if (called_at_[i] != SIZE_MAX && !builder_->has_body(FunctionId{i}))
      source_->fail(called_at_[i],
                    fmt::format("there is no computation '{}'",
                                builder_->string(builder_->function(FunctionId{i}).name)));
  }
}

void InstructionAttributes::set(InstructionKind kind, std::span<const AttributeText> attributes,
                                std::span<const ValueId> operands, TypeId result) {
  branches_.clear();
  target_ = config_ = {};
  group_size_ = 0;
  convolution_ = ConvolutionCall::kForward;
  if (kind.code == Opcode::k_custom_call) {
    // What window and dim_labels mean depends on the target, which comes after them.
    for (const AttributeText& text : attributes)
      if (text.key == "custom_call_target")
        convolution_ = convolution_call(cursor(text.value).quoted("a string"));
  }
  for (const AttributeText& text : attributes) {
    if (const AttributeRule* rule = attribute_rule(text.key))
      set_one(kind, *rule, text);
    else
      note_unknown(text.key);
  }
  if (!branches_.empty()) builder_->set_ints(Attr::kBranches, branches_);
  if (kind.code == Opcode::k_custom_call)
    describe_library_call(*builder_, operands, result, target_, config_);
  if (kind.code == Opcode::k_all_to_all) {
    // One operand is split among its group; several go to one rank each.
    const int64_t parts = operands.size() > 1 ? static_cast<int64_t>(operands.size()) : group_size_;
    if (parts > 0) builder_->set_int(Attr::kSplitCount, parts);
  }
}

void InstructionAttributes::set_one(InstructionKind kind, const AttributeRule& rule,
                                    const AttributeText& text) {
  const std::string_view value = text.value;
  switch (rule.form) {
    case Form::kNothing:
      return;
    case Form::kInteger: {
      const int64_t number = cursor(value).integer("a number");
      builder_->set_int(rule.attr, number);
      if (rule.attr == Attr::kFeatureGroups && number > 1 &&
          convolution_ == ConvolutionCall::kInputGradient)
        builder_->add_note("input gradients of grouped convolutions are counted as if ungrouped");
      return;
    }
    case Form::kFlag:
      builder_->set_int(rule.attr, read_flag(cursor(value)) ? 1 : 0);
      return;
    case Form::kReal: {
      double number = 0;
      const auto [stopped, problem] =
          std::from_chars(value.data(), value.data() + value.size(), number);
      if (problem != std::errc() || stopped != value.data() + value.size())
        cursor(value).fail_expected("a real number");
      builder_->set_real(rule.attr, number);
      return;
    }
    case Form::kIntegers:
      set_integers(kind, rule, text);
      return;
    case Form::kOneInteger:
      builder_->set_ints(rule.attr, {cursor(value).integer("a dimension's number")});
      return;
    case Form::kWord:
      builder_->set_string(rule.attr, cursor(value).word());
      return;
    case Form::kText:
      unescaped_target_ = unescape(cursor(value).quoted("a string"));
      target_ = unescaped_target_;
      builder_->set_string(rule.attr, target_);
      return;
    case Form::kComputation:
      // Some versions repeat the start's computation on its update and done.
      if (kind.part == AsyncPart::kUpdate || kind.part == AsyncPart::kDone) return;
      builder_->set_function(rule.attr, computations_->called(cursor(value).name("a computation")));
      return;
    case Form::kBranches:
      set_branches(kind, text);
      return;
    case Form::kMetadata:
      if (const std::string_view where = scope(value); !where.empty())
        builder_->set_string(rule.attr, where);
      return;
    case Form::kPairs:
      numbers_.clear();
      read_pairs(cursor(value), numbers_);
      builder_->set_ints(rule.attr, numbers_);
      return;
    case Form::kSharding:
      builder_->set_sharding(rule.attr, sharding(value));
      return;
    case Form::kAlgorithm:
      if (is_contraction(kind.code)) set_algorithm(value);  // Else that of a random generator.
      return;
    case Form::kAliases:
      set_aliases(value);
      return;
    case Form::kBackendConfig:
      set_backend_config(kind, value);
      return;
    case Form::kDimLabels:
      set_dim_labels(value);
      return;
    case Form::kPadding:
      set_padding(value);
      return;
    case Form::kPrecision:
      set_precision(value);
      return;
    case Form::kReplicaGroups:
      set_replica_groups(value);
      return;
    case Form::kSlices:
      set_slices(value);
      return;
    case Form::kWindow:
      set_window(value);
      return;
  }
}

void InstructionAttributes::set_integers(InstructionKind kind, const AttributeRule& rule,
                                         const AttributeText& text) {
  // A collective-permute that works in place lists slices under this key too.
  if (rule.attr == Attr::kSliceSizes && op_class(kind.code) == OpClass::kCollective) return;
  numbers_.clear();
  read_integers(cursor(text.value), numbers_);
  if (kind.code == Opcode::k_all_to_all && rule.attr == Attr::kDimensions) {
    if (numbers_.size() != 1) cursor(text.value).fail_expected("one dimension");
    builder_->set_int(Attr::kSplitDimension, numbers_.front());
    builder_->set_int(Attr::kConcatDimension, numbers_.front());
    return;
  }
  builder_->set_ints(rule.attr, numbers_);
}

void InstructionAttributes::set_branches(InstructionKind kind, const AttributeText& text) {
  Cursor at = cursor(text.value);
  if (text.key == "true_computation" || text.key == "false_computation") {
    const FunctionId branch = computations_->called(at.name("a computation"));
    branches_.resize(2, branch.index);
    branches_[text.key == "true_computation" ? 0 : 1] = branch.index;
    return;
  }
  std::vector<FunctionId> called;
  at.expect('{', "before computations");
  if (!at.accept('}')) {
    do {
      called.push_back(computations_->called(at.name("a computation")));
    } while (at.accept(','));
    at.expect('}', "or ',' between computations");
  }
  if (text.key == "branch_computations") {
    for (const FunctionId branch : called) branches_.push_back(branch.index);
  } else if (called.size() == 1 && kind.part != AsyncPart::kDone) {
    builder_->set_function(Attr::kCallee, called.front());
  } else if (called.size() > 1) {
    builder_->add_note("custom calls with several computations: what those compute is not counted");
  }
}

void InstructionAttributes::set_window(std::string_view value) {
  Window window;
  read_window(cursor(value), window);
  const auto set = [&](Attr key, const std::vector<int64_t>& list) {
    if (!list.empty()) builder_->set_ints(key, list);
  };
  if (convolution_ == ConvolutionCall::kInputGradient) {
    // The gradient slides over the output spread by the stride.
    builder_->set_ints(Attr::kWindowSize, window.size);
    set(Attr::kBaseDilation, window.strides);
    set(Attr::kWindowDilation, window.window_dilation);
    return;
  }
  if (convolution_ == ConvolutionCall::kKernelGradient) {
    // The output's gradient slides over the input; it is the kernel, of its own size.
    set(Attr::kWindowStrides, window.window_dilation);
    set(Attr::kWindowDilation, window.strides);
    return;
  }
  builder_->set_ints(Attr::kWindowSize, window.size);
  set(Attr::kWindowStrides, window.strides);
  set(Attr::kBaseDilation, window.base_dilation);
  set(Attr::kWindowDilation, window.window_dilation);
  set(Attr::kPaddingLow, window.padding.low);
  set(Attr::kPaddingHigh, window.padding.high);
}

void InstructionAttributes::set_dim_labels(std::string_view value) {
  ConvolutionDimensions dims = read_dim_labels(cursor(value));
  if (convolution_ == ConvolutionCall::kInputGradient) {
    std::swap(dims.input, dims.output);
    std::swap(dims.kernel.batch, dims.kernel.feature);
  } else if (convolution_ == ConvolutionCall::kKernelGradient) {
    // Sums over the batch: it takes the place of the features, and they its.
    std::swap(dims.input.batch, dims.input.feature);
    std::swap(dims.kernel, dims.output);
  }
  builder_->set_int(Attr::kInputBatch, dims.input.batch);
  builder_->set_int(Attr::kInputFeature, dims.input.feature);
  builder_->set_ints(Attr::kInputSpatial, dims.input.spatial);
  builder_->set_int(Attr::kKernelInput, dims.kernel.batch);
  builder_->set_int(Attr::kKernelOutput, dims.kernel.feature);
  builder_->set_ints(Attr::kKernelSpatial, dims.kernel.spatial);
  builder_->set_int(Attr::kOutputBatch, dims.output.batch);
  builder_->set_int(Attr::kOutputFeature, dims.output.feature);
  builder_->set_ints(Attr::kOutputSpatial, dims.output.spatial);
}

void InstructionAttributes::set_padding(std::string_view value) {
  Padding padding;
  read_padding(cursor(value), padding);
  builder_->set_ints(Attr::kPaddingLow, padding.low);
  builder_->set_ints(Attr::kPaddingHigh, padding.high);
  builder_->set_ints(Attr::kPaddingInterior, padding.interior);
}

void InstructionAttributes::set_slices(std::string_view value) {
  Slices slices;
  read_slices(cursor(value), slices);
  builder_->set_ints(Attr::kStart, slices.start);
  builder_->set_ints(Attr::kLimit, slices.limit);
  builder_->set_ints(Attr::kStride, slices.stride);
}

void InstructionAttributes::set_precision(std::string_view value) {
  int64_t highest = 0;
  Cursor at = cursor(value);
  at.expect('{', "before precisions");
  do {
    const std::string_view precision = at.word();
    if (precision == "high") {
      highest = std::max<int64_t>(highest, 1);
    } else if (precision == "highest") {
      highest = 2;
    } else if (precision != "default" && precision != "packed_nibble") {
      at.fail(fmt::format("unknown precision '{}'", precision));
    }
  } while (at.accept(','));
  at.expect('}', "or ',' between precisions");
  builder_->set_int(Attr::kPrecision, highest);
}

void InstructionAttributes::set_algorithm(std::string_view value) {
  if (const auto type = algorithm_compute_type(value))
    builder_->set_int(Attr::kComputeType, static_cast<int64_t>(*type));
  if (const int passes = algorithm_passes(value); passes > 1)
    builder_->add_note(
        fmt::format("dots of {} passes (algorithm …_x{}) are counted as one pass", passes, passes));
}

void InstructionAttributes::set_aliases(std::string_view value) {
  numbers_.clear();
  for (const Alias& alias : read_aliases(cursor(value))) {
    if (alias.nested)
      builder_->add_note("aliases inside nested tuples are counted by their outermost member");
    numbers_.push_back(alias.output);
    numbers_.push_back(alias.operand);
  }
  builder_->set_ints(Attr::kOutputAliases, numbers_);
}

void InstructionAttributes::set_replica_groups(std::string_view value) {
  auto found = groups_.find(value);
  if (found == groups_.end()) {
    found = groups_.emplace(value, read_replica_groups(cursor(value))).first;
    ranks_kept_ += found->second.ranks.size();
    if (ranks_kept_ > kMaxRanksKept)
      cursor(value).fail(
          fmt::format("the module's replica groups list more than {} ranks", kMaxRanksKept));
  }
  const ReplicaGroups& groups = found->second;
  if (groups.sizes.empty()) return;
  builder_->set_ints(Attr::kReplicaGroups, groups.ranks);
  group_size_ = groups.group_size();
  builder_->set_int(Attr::kReplicaGroupSize, group_size_);
  if (groups.ragged()) builder_->set_ints(Attr::kRaggedGroups, groups.sizes);
}

void InstructionAttributes::set_backend_config(InstructionKind kind, std::string_view value) {
  Cursor at = cursor(value);
  if (at.next_is('"')) {
    unescaped_config_ = unescape(at.quoted("a string"));
    config_ = unescaped_config_;
  } else {
    config_ = value;
  }
  builder_->set_string(Attr::kConfig, config_);
  if (kind.code != Opcode::k_while) return;
  if (const auto count = known_trip_count(config_)) builder_->set_int(Attr::kTripCount, *count);
}

ShardingId InstructionAttributes::sharding(std::string_view text) {
  const auto known = shardings_.find(text);
  if (known != shardings_.end()) return known->second;
  Sharding sharding;
  sharding.text = std::string(text);
  if (text.starts_with("{mesh[")) {  // `{mesh['d'=8], [{'d'}, {}]}`
    Cursor at = cursor(text);
    at.expect('{', "before a sharding");
    const size_t offset = at.offset();
    Mesh devices = read_mesh(at);
    const std::string_view written = at.since(offset);
    at.accept(',');
    at.at_end();
    const size_t start = at.offset() - static_cast<size_t>(text.data() - source_->text().data());
    sharding.text = std::string(text.substr(start, text.size() - 1 - start));
    std::ranges::replace(sharding.text, '\'', '"');
    if (devices.axes.empty()) {  // `{mesh[], replicated}` says the same as `{replicated}`.
      sharding.text = fmt::format("{{{}}}", sharding.text);
    } else {
      sharding.form = Sharding::Form::kShardy;
      sharding.mesh = mesh(written, std::move(devices));
    }
  }
  const ShardingId id = builder_->add_sharding(std::move(sharding));
  shardings_.emplace(text, id);
  return id;
}

MeshId InstructionAttributes::mesh(std::string_view text, Mesh mesh) {
  const auto [found, added] = meshes_.emplace(std::string(text), MeshId{});
  if (added) {
    mesh.name = meshes_.size() == 1 ? "mesh" : fmt::format("mesh_{}", meshes_.size() - 1);
    found->second = builder_->add_mesh(std::move(mesh));
  }
  return found->second;
}

std::string_view InstructionAttributes::scope(std::string_view metadata) {
  const std::string_view op_name = read_op_name(cursor(metadata));
  if (op_name.find('\\') == std::string_view::npos) return op_name;
  unescaped_scope_ = unescape(op_name);
  return unescaped_scope_;
}

void InstructionAttributes::note_unknown(std::string_view key) {
  if (unknown_keys_ == kMaxUnknownKeys) return;
  ++unknown_keys_;
  builder_->add_note(fmt::format("attribute '{}' of HLO is not known here and was left out", key));
}

}  // namespace orrery::hlo
