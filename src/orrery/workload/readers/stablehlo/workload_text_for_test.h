#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "orrery/base/element_type.h"
#include "orrery/workload/workload.h"

namespace orrery::stablehlo {

/// A workload as lines that can be compared: all that costs and simulations see, nothing of
/// how it was stored. Operations' names (from locations) are left out: text is usually
/// printed without them.
class WorkloadText {
 public:
  explicit WorkloadText(const Workload& workload) : w_(workload) {}

  std::vector<std::string> lines() {
    line("{} partitions, {} replicas, entry {}", w_.partitions(), w_.replicas(),
         w_.entry().valid() ? w_.string(w_.function(w_.entry()).name) : "none");
    std::vector<const Function*> functions;
    for (const Function& f : w_.functions()) functions.push_back(&f);
    std::sort(functions.begin(), functions.end(), [&](const Function* a, const Function* b) {
      return w_.string(a->name) < w_.string(b->name);
    });
    for (const Function* f : functions) function(*f);
    std::vector<std::string> notes(w_.notes().begin(), w_.notes().end());
    std::sort(notes.begin(), notes.end());
    for (const std::string& note : notes) line("note: {}", note);
    return lines_;
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    lines_.push_back(std::string(indent_, ' ') + fmt::format(format, std::forward<Args>(args)...));
  }

  std::string type(const Type& type) const {
    if (type.kind == Type::Kind::kToken) return "token";
    if (type.kind == Type::Kind::kTuple) {
      std::string text = "tuple<";
      for (const TypeId m : type.members) text += this->type(w_.type(m)) + ",";
      return text + ">";
    }
    return fmt::format("{}[{}]{}", mlir_name(type.element), fmt::join(type.dims, ","),
                       type.expressed == ElementType::kNone
                           ? std::string()
                           : fmt::format("for {}", mlir_name(type.expressed)));
  }
  std::string sharding(ShardingId id) const {
    return id.valid() ? " sharding " + w_.shardings()[id.index].text : std::string();
  }

  void function(const Function& f) {
    values_.clear();
    line("function {}{}", w_.string(f.name), f.body.valid() ? "" : ", declared");
    indent_ += 2;
    if (f.body.valid()) {
      line("{}", f.is_public ? "public" : "private");
      const Region& body = w_.region(f.body);
      for (uint32_t i = 0; i < body.argument_count; ++i) {
        const ArgumentInfo& info = f.arguments[i];
        line("argument {}: {}{} donated {} alias {} role {}", number(body.first_argument + i),
             type(w_.type(ValueId{body.first_argument + i})), sharding(info.sharding), info.donated,
             info.aliased_output, static_cast<int>(info.role));
      }
      operations(body);
    }
    for (size_t i = 0; i < f.result_types.size(); ++i)
      line("result: {}{} {}", type(w_.type(f.result_types[i])),
           i < f.results.size() ? sharding(f.results[i].sharding) : "",
           i < f.results.size() ? w_.string(f.results[i].name) : "");
    indent_ -= 2;
  }

  size_t number(uint32_t value) { return values_.try_emplace(value, values_.size()).first->second; }

  /// Pretty text names a reducer of one operation; generic text and bytecode spell it out.
  std::optional<Opcode> reducer(const Op& op) const {
    if (op.code != Opcode::k_reduce || !op.first_region.valid()) return std::nullopt;
    const Region& body = w_.region(op.first_region);
    if (body.argument_count != 2 || body.end_op - body.first_op != 2) return std::nullopt;
    const Op& inner = w_.ops()[body.first_op];
    const auto operands = w_.operands(inner);
    if (inner.attribute_count != 0 || operands.size() != 2 ||
        operands[0].index != body.first_argument || operands[1].index != body.first_argument + 1)
      return std::nullopt;
    return inner.code;
  }

  void operations(const Region& region) {
    for_each_op(w_, region, [&](OpId id) {
      const Op& op = w_.op(id);
      std::vector<size_t> operands;
      for (const ValueId v : w_.operands(op)) operands.push_back(number(v.index));
      std::string results;
      for (uint32_t i = 0; i < op.result_count; ++i)
        results += fmt::format(" {}:{}", number(op.first_result + i),
                               type(w_.type(ValueId{op.first_result + i})));
      std::map<int, std::string> attributes;  // by the number of the key
      for (const Attribute& a : w_.attributes(op)) attributes[static_cast<int>(a.key)] = value(a);
      const auto named = reducer(op);
      if (named) attributes[static_cast<int>(Attr::kReducer)] = name(*named);
      line("{} ({}) ->{}{{{}}}", name(op.code), fmt::join(operands, ","), results, attributes);
      if (named) return;
      indent_ += 2;
      for (RegionId r = op.first_region; r.valid(); r = w_.region(r).next) {
        const Region& inner = w_.region(r);
        std::string arguments;
        for (uint32_t i = 0; i < inner.argument_count; ++i)
          arguments += fmt::format(" {}:{}", number(inner.first_argument + i),
                                   type(w_.type(ValueId{inner.first_argument + i})));
        line("region{}", arguments);
        operations(inner);
      }
      indent_ -= 2;
    });
  }

  std::string value(const Attribute& a) const {
    switch (a.kind) {
      case Attribute::Kind::kInt:
        return std::to_string(a.integer);
      case Attribute::Kind::kReal:
        return fmt::format("{}", static_cast<float>(a.real));  // text has the digits of a float
      case Attribute::Kind::kInts:
        return fmt::format("[{}]", fmt::join(w_.integers(a), ","));
      case Attribute::Kind::kString:
        return std::string(w_.string(StringId{a.index}));
      case Attribute::Kind::kFunction:
        return "@" + std::string(w_.string(w_.function(FunctionId{a.index}).name));
      case Attribute::Kind::kSharding:
        return sharding(ShardingId{a.index});
    }
    return {};
  }

  const Workload& w_;
  std::vector<std::string> lines_;
  size_t indent_ = 0;
  std::map<uint32_t, size_t> values_;
};

}  // namespace orrery::stablehlo
