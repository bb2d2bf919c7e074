#include "orrery/workload/chakra/node.h"

namespace orrery::chakra {

std::string_view name(NodeType type) {
  static constexpr std::string_view kNames[kNodeTypes] = {
      "INVALID_NODE", "METADATA_NODE",  "MEM_LOAD_NODE",  "MEM_STORE_NODE",
      "COMP_NODE",    "COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE"};
  return kNames[static_cast<size_t>(type)];
}

std::string_view name(Collective kind) {
  static constexpr std::string_view kNames[kCollectives] = {
      "all-reduce", "reduce",         "all-gather",           "gather", "scatter", "broadcast",
      "all-to-all", "reduce-scatter", "reduce-scatter-block", "barrier"};
  return kNames[static_cast<size_t>(kind)];
}

namespace {

Attribute of_number(std::string name, ValueType type, uint64_t bits) {
  Attribute a;
  a.name = std::move(name);
  a.type = type;
  a.numbers = {bits};
  return a;
}

}  // namespace

Attribute Attribute::of_int64(std::string name, int64_t value) {
  return of_number(std::move(name), ValueType::kInt64, static_cast<uint64_t>(value));
}

Attribute Attribute::of_uint64(std::string name, uint64_t value) {
  return of_number(std::move(name), ValueType::kUint64, value);
}

Attribute Attribute::of_bool(std::string name, bool value) {
  return of_number(std::move(name), ValueType::kBool, value ? 1 : 0);
}

Attribute Attribute::of_string(std::string name, std::string value) {
  Attribute a;
  a.name = std::move(name);
  a.type = ValueType::kString;
  a.texts = {std::move(value)};
  return a;
}

bool Attribute::is_whole() const {
  return !list && type >= ValueType::kInt32 && type <= ValueType::kBool;
}

const Attribute* Node::find(std::string_view attribute) const {
  for (const Attribute& a : attributes)
    if (a.name == attribute) return &a;
  return nullptr;
}

}  // namespace orrery::chakra
