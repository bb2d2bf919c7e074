#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "orrery/workload/attribute.h"
#include "orrery/workload/opcode.h"
#include "orrery/workload/workload_builder.h"
#include "orrery/workload/zoo/network.h"

namespace orrery {

/// "bf16[8,128]", for messages.
std::string describe(const TensorType& type);

/// One function being recorded: what `Network`'s methods append to, what the
/// differentiation reads, and what is emitted at the end.
class Tape {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  enum class ArgumentKind : uint8_t {
    kInput,
    kParameter,
    kScale,
    kBuffer,
    kCache,
    kOptimizerState
  };

  struct Argument {
    ArgumentKind kind = ArgumentKind::kInput;
    std::string name;
    uint32_t value = kNone;
    uint32_t update = kNone;  ///< The value returned in its buffer, if any.
  };

  struct Value {
    TensorType type;
    uint32_t node = kNone;      ///< kNone: an argument.
    uint32_t position = kNone;  ///< Which argument, or which result of the node.
  };

  using Region = Network::RawOp::Region;

  struct Attribute {
    Attr key{};
    std::variant<int64_t, double, Dims, std::string> value;
  };

  struct Node {
    Opcode code = Opcode::k_unknown;
    std::vector<uint32_t> operands;
    std::vector<uint32_t> results;
    std::vector<Attribute> attributes;
    Region region = Region::kNone;
    Tape* callee = nullptr;  ///< Of a call.
    std::string scope;

    const Attribute* find(Attr key) const;
    int64_t integer(Attr key, int64_t otherwise) const;
    const Dims& list(Attr key) const;  ///< Empty when absent.
  };

  explicit Tape(std::string name) : name_(std::move(name)) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  const std::string& name() const { return name_; }
  const std::vector<Argument>& arguments() const { return arguments_; }
  const std::vector<Value>& values() const { return values_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<uint32_t>& outputs() const { return outputs_; }
  const TensorType& type(uint32_t value) const { return values_[value].type; }

  Tensor add_argument(ArgumentKind kind, std::string name, TensorType type);
  Tensors record(Node node, const std::vector<TensorType>& results);
  void add_output(std::string name, const Tensor& value);
  /// The value that `argument`'s buffer holds afterwards; of the same type, and only once.
  void set_update(uint32_t argument, const Tensor& value);

  Tensor tensor(uint32_t value);
  /// The index of a tensor that must be of this tape.
  uint32_t index(const Tensor& tensor) const;

  /// The position among a call's results that holds the callee's inner value
  /// `value`, which is returned from now on for the backward pass.
  uint32_t keep(uint32_t value);
  /// The caller's tensor for result `position` of `call`.
  Tensor call_result(uint32_t call, uint32_t position);

  /// Outputs, then updates in order of arguments, then what is kept.
  std::vector<uint32_t> returned() const;
  /// Of every argument, where its update stands in `returned`; kNone without one.
  std::vector<uint32_t> update_positions() const;

 private:
  friend class Emitter;
  std::string name_;
  std::vector<Argument> arguments_;
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> outputs_;
  std::vector<std::string> output_names_;
  std::vector<uint32_t> kept_;
};

/// Emits `main` as the public entry function, after every function it calls.
void emit_tapes(WorkloadBuilder& builder, const Tape& main);

}  // namespace orrery
