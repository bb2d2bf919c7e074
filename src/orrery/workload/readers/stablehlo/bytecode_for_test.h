#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "orrery/base/error.h"
#include "orrery/workload/reader.h"

/// Writes just enough MLIR bytecode for tests to state their modules.
namespace orrery::stablehlo::testing {

/// Bytes by their numbers.
inline std::string bytes(std::initializer_list<int> values) {
  std::string text;
  for (const int v : values) text += static_cast<char>(v);
  return text;
}

inline std::string varint(uint64_t value) {
  int more = 0;
  while (more < 8 && value >> (7 * (more + 1)) != 0) ++more;
  std::string text;
  if (more == 8) {
    text += '\0';
    for (int i = 0; i < 8; ++i) text += static_cast<char>(value >> (8 * i));
    return text;
  }
  const uint64_t coded = ((value << 1) | 1) << more;
  for (int i = 0; i <= more; ++i) text += static_cast<char>(coded >> (8 * i));
  return text;
}
inline std::string signed_varint(int64_t value) {
  return varint(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63));
}
/// Numbers one after the other.
inline std::string varints(std::initializer_list<uint64_t> values) {
  std::string text;
  for (const uint64_t v : values) text += varint(v);
  return text;
}
/// How many, then each.
inline std::string list(std::initializer_list<uint64_t> values) {
  return varint(values.size()) + varints(values);
}
inline std::string sizes(std::initializer_list<int64_t> values) {
  std::string text = varint(values.size());
  for (const int64_t v : values) text += signed_varint(v);
  return text;
}
inline std::string section(int kind, const std::string& inside) {
  return bytes({kind}) + varint(inside.size()) + inside;
}

/// A file in the making. What is added gets the next number of its kind.
class Module {
 public:
  uint64_t version = 6;

  uint64_t string(std::string_view text) {
    for (uint64_t i = 0; i < strings_.size(); ++i)
      if (strings_[i] == text) return i;
    strings_.emplace_back(text);
    return strings_.size() - 1;
  }
  uint64_t operation(std::string_view dialect, std::string_view name) {
    operations_.push_back({this->dialect(dialect), string(name)});
    return operations_.size() - 1;
  }
  uint64_t attribute(std::string_view dialect, std::string encoding, bool encoded = true) {
    attributes_.push_back({this->dialect(dialect), std::move(encoding), encoded});
    return attributes_.size() - 1;
  }
  uint64_t type(std::string_view dialect, std::string encoding, bool encoded = true) {
    types_.push_back({this->dialect(dialect), std::move(encoding), encoded});
    return types_.size() - 1;
  }
  uint64_t properties(std::string attributes) {
    properties_.push_back(std::move(attributes));
    return properties_.size() - 1;
  }

  // VHLO's, by their codes.
  uint64_t text(std::string_view value) { return attribute("vhlo", varints({14, string(value)})); }
  uint64_t integer(uint64_t type, int64_t value) {
    return attribute("vhlo", varints({9, type}) + signed_varint(value));
  }
  uint64_t tensor(uint64_t type, std::string_view data) {
    return attribute("vhlo", varints({15, type, data.size()}) + std::string(data));
  }
  uint64_t tensor_type(std::initializer_list<int64_t> dims, uint64_t element) {
    return type("vhlo", varint(20) + sizes(dims) + varint(element));
  }
  uint64_t unknown_location() { return attribute("builtin", varint(15)); }

  /// An operation: its number, location, properties or none (-1), results, operands.
  static std::string op(uint64_t name, uint64_t location, int64_t properties,
                        std::initializer_list<uint64_t> result_types,
                        std::initializer_list<uint64_t> operands, const std::string& regions = "") {
    const int parts = (properties >= 0 ? 0x40 : 0) | (result_types.size() > 0 ? 0x02 : 0) |
                      (operands.size() > 0 ? 0x04 : 0) | (regions.empty() ? 0 : 0x10);
    std::string text = varint(name) + bytes({parts}) + varint(location);
    if (properties >= 0) text += varint(static_cast<uint64_t>(properties));
    if (result_types.size() > 0) text += list(result_types);
    if (operands.size() > 0) text += list(operands);
    return text + regions;
  }
  /// A region of one block; types of arguments without locations.
  static std::string region(uint64_t values, std::initializer_list<uint64_t> arguments,
                            const std::vector<std::string>& operations) {
    std::string text =
        varints({1, values, operations.size() << 1 | (arguments.size() > 0 ? 1 : 0)});
    if (arguments.size() > 0) {
      text += varint(arguments.size());
      for (const uint64_t type : arguments) text += varint(type << 1);
      text += '\0';  // uses in their natural order
    }
    for (const std::string& operation : operations) text += operation;
    return text;
  }
  /// One isolated region, as functions and modules have it.
  static std::string isolated(const std::string& region) {
    return varint(1 << 1 | 1) + section(4, region);
  }
  static std::string inlined(std::initializer_list<std::string> regions) {
    std::string text = varint(regions.size() << 1);
    for (const std::string& region : regions) text += region;
    return text;
  }

  /// The whole file around the top-level operations.
  std::string file(const std::vector<std::string>& operations) {
    std::string dialects = varint(dialects_.size());
    for (const uint64_t name : dialects_) dialects += varint(version >= 1 ? name << 1 : name);
    if (version >= 4) dialects += varint(operations_.size());
    for (const auto& [dialect, name] : operations_)
      dialects += varints({dialect, 1, version >= 5 ? name << 1 | 1 : name});
    std::string offsets = varints({attributes_.size(), types_.size()});
    std::string entries;
    for (const auto* kind : {&attributes_, &types_}) {
      for (const Entry& e : *kind) {
        offsets += varints({e.dialect, 1, e.encoding.size() << 1 | (e.encoded ? 1 : 0)});
        entries += e.encoding;
      }
    }
    std::string program = varint(operations.size() << 1);
    for (const std::string& operation : operations) program += operation;
    std::string lengths = varint(strings_.size());
    std::string texts;
    for (size_t i = strings_.size(); i-- > 0;) lengths += varint(strings_[i].size() + 1);
    for (const std::string& s : strings_) texts += s + '\0';
    std::string properties = varint(properties_.size());
    for (const std::string& p : properties_) properties += varint(p.size()) + p;
    std::string whole = "ML\xEFR" + varint(version) + "StableHLO_v1.0.0" + '\0';
    whole += section(1, dialects) + section(3, offsets) + section(2, entries) +
             section(4, program) + section(0, lengths + texts);
    if (version >= 5) whole += section(8, properties);
    return whole;
  }

 private:
  struct Entry {
    uint64_t dialect = 0;
    std::string encoding;
    bool encoded = true;
  };
  uint64_t dialect(std::string_view name) {
    const uint64_t spelled = string(name);
    for (uint64_t i = 0; i < dialects_.size(); ++i)
      if (dialects_[i] == spelled) return i;
    dialects_.push_back(spelled);
    return dialects_.size() - 1;
  }

  std::vector<std::string> strings_;
  std::vector<uint64_t> dialects_;
  std::vector<std::pair<uint64_t, uint64_t>> operations_;
  std::vector<Entry> attributes_;
  std::vector<Entry> types_;
  std::vector<std::string> properties_;
};

/// A module with one function, `main`, whose body the test writes.
class OneFunction : public Module {
 public:
  OneFunction()
      : location(unknown_location()),
        module(operation("builtin", "module")),
        function(operation("vhlo", "func_v1")),
        end(operation("vhlo", "return_v1")) {}

  /// `values` is how many arguments and results there are in all.
  std::string file(std::initializer_list<uint64_t> arguments,
                   std::initializer_list<uint64_t> results, uint64_t values,
                   const std::vector<std::string>& operations) {
    const uint64_t signature = type("vhlo", varint(8) + list(arguments) + list(results));
    const uint64_t none = attribute("vhlo", varints({1, 0}));
    const uint64_t whole = properties(varints(
        {none, attribute("vhlo", varints({17, signature})), none, text("main"), text("public")}));
    const std::string body = region(values, arguments, operations);
    const std::string main =
        op(function, location, static_cast<int64_t>(whole), {}, {}, isolated(body));
    std::vector<std::string> all = beside;
    all.push_back(main);
    return Module::file({op(module, location, -1, {}, {}, isolated(region(0, {}, all)))});
  }

  uint64_t location;
  uint64_t module;
  uint64_t function;
  uint64_t end;
  std::vector<std::string> beside;  ///< Operations before the function.
};

inline Workload read_bytes(std::string file, const ReadOptions& options = {}) {
  return read_workload(Source::from_memory("test.mlir.bc", std::move(file)), options);
}
/// The message of the error that reading gives, without the file's name; "" when it is read.
inline std::string error_of_bytes(std::string file) {
  try {
    read_bytes(std::move(file));
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kInput ? error.message() : "not an input error";
  }
  return "";
}

}  // namespace orrery::stablehlo::testing
