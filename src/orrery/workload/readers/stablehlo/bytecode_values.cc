#include "orrery/workload/readers/stablehlo/bytecode_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>

#include "orrery/workload/readers/stablehlo/translation.h"
#include "orrery/workload/readers/stablehlo/vhlo.h"

namespace orrery::stablehlo {
namespace {

constexpr int kMaxDepth = 200;
constexpr int kMaxLocationDepth = 16;

constexpr std::string_view kDirections[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
constexpr std::string_view kPrecisions[] = {"DEFAULT", "HIGH", "HIGHEST"};

template <size_t kCount>
std::string_view word(const std::string_view (&words)[kCount], ByteCursor& cursor,
                      std::string_view what) {
  const size_t at = cursor.offset();
  const uint64_t index = cursor.varint();
  if (index >= kCount) cursor.source().fail(at, fmt::format("{} {} is not known", what, index));
  return words[index];
}

bool is_signed(ElementType type) {
  return (type >= ElementType::kS2 && type <= ElementType::kS64) || type == ElementType::kIndex;
}

/// Bytes an element takes in a dense attribute: types of fewer bits take one.
size_t stored_width(ElementType type) {
  return std::max<size_t>(1, static_cast<size_t>(bit_width(type)) / 8);
}

/// The integer that `bits` stand for, the unused ones above being anything.
int64_t extend(uint64_t bits, ElementType type) {
  if (type == ElementType::kBool) return static_cast<int64_t>(bits & 1);
  const int unused = 64 - std::max(1, bit_width(type));
  if (unused <= 0) return static_cast<int64_t>(bits);
  return is_signed(type) ? static_cast<int64_t>(bits << unused) >> unused
                         : static_cast<int64_t>(bits << unused >> unused);
}

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    value |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  return value;
}

/// The bits of a number as MLIR stores it: a byte up to 8, else a zigzag varint.
uint64_t read_bits(ByteCursor& cursor, int width) {
  return width <= 8 ? cursor.byte() : static_cast<uint64_t>(cursor.signed_varint());
}

}  // namespace

BytecodeValues::BytecodeValues(const Source& source, const BytecodeFile& file,
                               const ReadOptions& options, WorkloadBuilder& builder)
    : source_(source),
      file_(file),
      options_(options),
      builder_(builder),
      types_(file.types.size()),
      type_states_(file.types.size(), State::kUnread) {}

// --- types ------------------------------------------------------------------

TypeId BytecodeValues::read_type(uint64_t index, size_t at) {
  if (index >= types_.size()) source_.fail(at, fmt::format("type {} of {}", index, types_.size()));
  if (type_states_[index] == State::kBeingRead || ++depth_ > kMaxDepth)
    source_.fail(at, "a type that holds itself, or types nested deeper than 200 levels");
  type_states_[index] = State::kBeingRead;
  types_[index] = read_type(file_.types[index]);
  type_states_[index] = State::kRead;
  --depth_;
  return types_[index];
}

TypeId BytecodeValues::read_type(const BytecodeFile::Entry& entry) {
  try {
    if (!entry.encoded) {
      std::string_view text = source_.text().substr(entry.bytes.begin, entry.bytes.size());
      text = text.substr(0, text.find('\0'));
      if (const auto known = element_type_from_mlir(text)) return builder_.tensor_type(*known, {});
      return without_data(text);
    }
    if (dialect(entry) == "vhlo") return read_vhlo_type(inside(entry));
    if (dialect(entry) == "builtin") return read_builtin_type(inside(entry));
  } catch (const std::invalid_argument& e) {
    source_.fail(entry.bytes.begin, e.what());
  }
  source_.fail(entry.bytes.begin,
               fmt::format("a type that dialect '{}' encodes its own way, which is not known here",
                           dialect(entry)));
}

TypeId BytecodeValues::without_data(std::string_view name) {
  builder_.add_note(
      fmt::format("values of type {} are taken as having no data", name.substr(0, name.find('<'))));
  return builder_.token_type();
}

TypeId BytecodeValues::element(std::string_view name, const ByteCursor& cursor) {
  const auto known = element_type_from_mlir(name);
  if (!known) cursor.fail(fmt::format("'{}' is not an element type", name));
  return builder_.tensor_type(*known, {});
}

TypeId BytecodeValues::read_vhlo_type(ByteCursor cursor) {
  const size_t at = cursor.offset();
  const uint64_t code = cursor.varint();
  if (const std::string_view name = vhlo_element(code); !name.empty()) return element(name, cursor);
  switch (code) {
    case vhlo_type::kComplex:
      return complex_of(cursor);
    case vhlo_type::kRankedTensor:
    case vhlo_type::kRankedBuffer:
      return read_tensor_type(cursor, {});
    case vhlo_type::kRankedTensorWithEncoding:
      return read_tensor_type(cursor, read_bounds(cursor));
    case vhlo_type::kTuple:
      return read_tuple(cursor, false);
    case vhlo_type::kFuture:
      return read_tuple(cursor, true);
    case vhlo_type::kUniformQuantized:
    case vhlo_type::kUniformQuantizedPerAxis:
      return read_quantized_type(cursor);
    case vhlo_type::kUnrankedTensor: {
      const Type element_type = builder_.type(type(cursor));
      return builder_.tensor_type(element_type.element, std::array{kDynamic}, {},
                                  element_type.expressed);
    }
    case vhlo_type::kWitness:
      return without_data("!shape.witness");
    case vhlo_type::kToken:
    case vhlo_type::kNone:
    case vhlo_type::kFunction:
      return builder_.token_type();
    default:
      source_.fail(at, fmt::format("VHLO type {} is not known: newer than StableHLO 1.20", code));
  }
}

TypeId BytecodeValues::read_builtin_type(ByteCursor cursor) {
  const size_t at = cursor.offset();
  const uint64_t code = cursor.varint();
  switch (code) {
    case builtin_type::kInteger: {
      // The width, then two bits: 0 says nothing of the sign, 1 signed, 2 unsigned.
      const uint64_t coded = cursor.varint();
      return element(fmt::format("{}{}", (coded & 3) == 2 ? "ui" : "i", coded >> 2), cursor);
    }
    case builtin_type::kIndex:
      return element("index", cursor);
    case builtin_type::kBFloat16:
      return element("bf16", cursor);
    case builtin_type::kFloat16:
      return element("f16", cursor);
    case builtin_type::kFloat32:
      return element("f32", cursor);
    case builtin_type::kFloat64:
      return element("f64", cursor);
    case builtin_type::kComplex:
      return complex_of(cursor);
    case builtin_type::kRankedTensor:
      return read_tensor_type(cursor, {});
    case builtin_type::kTuple:
      return read_tuple(cursor, false);
    case builtin_type::kNone:
    case builtin_type::kFunction:
      return builder_.token_type();
    default:
      source_.fail(at, fmt::format("builtin type {} is not one of a StableHLO program", code));
  }
}

/// Sizes, then the element type.
TypeId BytecodeValues::read_tensor_type(ByteCursor& cursor, std::span<const int64_t> bounds) {
  const uint64_t rank = cursor.count();
  if (rank > 64) cursor.fail("more than 64 dimensions");
  std::vector<int64_t> dims(rank);
  const auto bound = options_.bindings.find("?");
  for (size_t i = 0; i < rank; ++i) {
    dims[i] = cursor.signed_varint();
    // MLIR once wrote -1 for an open size, now the smallest number there is.
    if (dims[i] == INT64_MIN || dims[i] == -1) {
      dims[i] = bound == options_.bindings.end() ? kDynamic : bound->second;
      if (dims[i] == kDynamic && i < bounds.size() && bounds[i] >= 0) {
        dims[i] = bounds[i];
        builder_.add_note("bounded dynamic dimensions are taken at their bound");
      }
    }
  }
  const Type element_type = builder_.type(type(cursor));
  if (element_type.kind != Type::Kind::kTensor || element_type.rank() != 0)
    cursor.fail("a tensor of something that is no element type");
  return builder_.tensor_type(element_type.element, dims, {}, element_type.expressed);
}

/// Of a tensor's encoding; empty when it is something else.
std::vector<int64_t> BytecodeValues::read_bounds(ByteCursor& cursor) {
  const BytecodeFile::Entry& entry = file_.attributes[index(cursor)];
  std::vector<int64_t> bounds;
  if (!entry.encoded || dialect(entry) != "vhlo") return bounds;
  ByteCursor encoding = inside(entry);
  if (encoding.varint() != vhlo_attribute::kTypeExtensions) return bounds;
  bounds.resize(encoding.count());
  for (int64_t& b : bounds) b = encoding.signed_varint();
  return bounds;
}

/// Flags, what is stored, what it stands for. Scales and zero points do not matter here.
TypeId BytecodeValues::read_quantized_type(ByteCursor& cursor) {
  const bool holds_sign = (cursor.varint() & 1) != 0;
  ElementType stored = builder_.type(type(cursor)).element;
  const ElementType expressed = builder_.type(type(cursor)).element;
  if (!holds_sign && is_signed(stored)) {
    const auto as_unsigned = element_type_from_mlir(fmt::format("u{}", mlir_name(stored)));
    if (as_unsigned) stored = *as_unsigned;
  }
  return builder_.tensor_type(stored, {}, {}, expressed);
}

std::vector<TypeId> BytecodeValues::read_types(ByteCursor& cursor) {
  std::vector<TypeId> members(cursor.count());
  for (TypeId& m : members) m = type(cursor);
  return members;
}

TypeId BytecodeValues::read_tuple(ByteCursor& cursor, bool one_is_itself) {
  const std::vector<TypeId> members = read_types(cursor);
  return one_is_itself && members.size() == 1 ? members[0] : builder_.tuple_type(members);
}

TypeId BytecodeValues::complex_of(ByteCursor& cursor) {
  const ElementType part = builder_.type(type(cursor)).element;
  if (part != ElementType::kF32 && part != ElementType::kF64)
    cursor.fail("expected complex<f32> or complex<f64>");
  return builder_.tensor_type(part == ElementType::kF32 ? ElementType::kC64 : ElementType::kC128,
                              {});
}

// --- attributes -------------------------------------------------------------

void BytecodeValues::fail_index(size_t at, uint64_t number) const {
  source_.fail(at, fmt::format("attribute {} of {}", number, file_.attributes.size()));
}

std::optional<uint64_t> BytecodeValues::optional_index(ByteCursor& cursor) const {
  const size_t at = cursor.offset();
  const auto [number, present] = cursor.flagged();
  if (!present) return std::nullopt;
  if (number >= file_.attributes.size()) fail_index(at, number);
  return number;
}

BytecodeAttribute BytecodeValues::attribute(uint64_t index) {
  const BytecodeFile::Entry& entry = file_.attributes[index];
  if (entry.encoded && dialect(entry) == "vhlo") return read_vhlo_attribute(inside(entry));
  if (entry.encoded && dialect(entry) == "builtin") return read_builtin_attribute(inside(entry));
  BytecodeAttribute other;
  if (!entry.encoded) {
    other.text = source_.text().substr(entry.bytes.begin, entry.bytes.size());
    other.text = other.text.substr(0, other.text.find('\0'));
  }
  return other;
}

BytecodeAttribute BytecodeValues::read_vhlo_attribute(ByteCursor cursor) {
  using Kind = BytecodeAttribute::Kind;
  BytecodeAttribute result;
  const size_t at = cursor.offset();
  const uint64_t code = cursor.varint();
  switch (code) {
    case vhlo_attribute::kArray:
      result.kind = Kind::kArray;
      result.parts = rest(cursor);
      break;
    case vhlo_attribute::kDictionary:
      result.kind = Kind::kDictionary;
      result.parts = rest(cursor);
      break;
    case vhlo_attribute::kBoolean:
      result.kind = Kind::kInteger;
      result.integer = cursor.varint() != 0 ? 1 : 0;
      break;
    case vhlo_attribute::kInteger:
      read_integer(cursor, &result);
      break;
    case vhlo_attribute::kFloat:
      read_real(cursor, &result);
      break;
    case vhlo_attribute::kString:
      result.kind = Kind::kString;
      result.text = file_.string(cursor);
      break;
    case vhlo_attribute::kTensor:
      result.kind = Kind::kTensor;
      result.type = type(cursor);
      result.data = cursor.bytes(cursor.varint());
      break;
    case vhlo_attribute::kType:
      result.kind = Kind::kType;
      result.type_index = cursor.varint();
      break;
    case vhlo_attribute::kComparisonDirection:
      result.kind = Kind::kWord;
      result.text = word(kDirections, cursor, "comparison direction");
      break;
    case vhlo_attribute::kPrecision:
      result.kind = Kind::kWord;
      result.text = word(kPrecisions, cursor, "precision");
      break;
    case vhlo_attribute::kReplicaGroupMeshAxes:
      result.kind = Kind::kMeshAxes;
      result.parts = rest(cursor);
      break;
    case vhlo_attribute::kComparisonType:
    case vhlo_attribute::kCustomCallApiVersion:
    case vhlo_attribute::kFftType:
    case vhlo_attribute::kOutputOperandAlias:
    case vhlo_attribute::kRngAlgorithm:
    case vhlo_attribute::kRngDistribution:
    case vhlo_attribute::kTranspose:
    case vhlo_attribute::kTypeExtensions:
    case vhlo_attribute::kResultAccuracyMode:
    case vhlo_attribute::kResultAccuracy:
    case vhlo_attribute::kSubAxisInfo:
    case vhlo_attribute::kAxisReference:
      break;
    default:
      source_.fail(at,
                   fmt::format("VHLO attribute {} is not known: newer than StableHLO 1.20", code));
  }
  return result;
}

BytecodeAttribute BytecodeValues::read_builtin_attribute(ByteCursor cursor) {
  using Kind = BytecodeAttribute::Kind;
  BytecodeAttribute result;
  switch (cursor.varint()) {
    case builtin_attribute::kArray:
      result.kind = Kind::kArray;
      result.parts = rest(cursor);
      break;
    case builtin_attribute::kDictionary:
      result.kind = Kind::kDictionary;
      result.parts = rest(cursor);
      break;
    case builtin_attribute::kString:
    case builtin_attribute::kStringWithType:
      result.kind = Kind::kString;
      result.text = file_.string(cursor);
      break;
    case builtin_attribute::kFlatSymbolReference:
      result.kind = Kind::kSymbol;
      result.text = string(index(cursor));
      break;
    case builtin_attribute::kType:
      result.kind = Kind::kType;
      result.type_index = cursor.varint();
      break;
    case builtin_attribute::kUnit:
      result.kind = Kind::kUnit;
      break;
    case builtin_attribute::kInteger:
      read_integer(cursor, &result);
      break;
    case builtin_attribute::kFloat:
      read_real(cursor, &result);
      break;
    case builtin_attribute::kDenseArray: {
      result.kind = Kind::kTensor;
      result.is_list = true;
      result.type = type(cursor);
      result.integer = static_cast<int64_t>(std::min<uint64_t>(cursor.varint(), INT64_MAX));
      result.data = cursor.bytes(cursor.varint());
      break;
    }
    case builtin_attribute::kDenseElements:
      result.kind = Kind::kTensor;
      result.type = type(cursor);
      result.data = cursor.bytes(cursor.varint());
      break;
    default:
      break;
  }
  return result;
}

/// A type, then the number.
void BytecodeValues::read_integer(ByteCursor& cursor, BytecodeAttribute* attribute) {
  attribute->type = type(cursor);
  const ElementType element = builder_.type(attribute->type).element;
  if (!is_integer(element) && element != ElementType::kBool)
    cursor.fail("an integer of a type that has none");
  attribute->kind = BytecodeAttribute::Kind::kInteger;
  attribute->integer = extend(read_bits(cursor, bit_width(element)), element);
}

void BytecodeValues::read_real(ByteCursor& cursor, BytecodeAttribute* attribute) {
  attribute->type = type(cursor);
  const ElementType element = builder_.type(attribute->type).element;
  if (!is_float(element)) cursor.fail("a real number of a type that has none");
  const auto real = real_from_bits(read_bits(cursor, bit_width(element)), element);
  if (!real) return;
  attribute->kind = BytecodeAttribute::Kind::kReal;
  attribute->real = *real;
}

std::string_view BytecodeValues::string(uint64_t index) {
  const BytecodeFile::Entry& entry = file_.attributes[index];
  if (entry.encoded && (dialect(entry) == "vhlo" || dialect(entry) == "builtin")) {
    ByteCursor cursor = inside(entry);
    const uint64_t code = cursor.varint();
    const bool vhlo = dialect(entry) == "vhlo";
    if (code == (vhlo ? uint64_t{vhlo_attribute::kString} : uint64_t{builtin_attribute::kString}) ||
        (!vhlo && code == builtin_attribute::kStringWithType))
      return file_.string(cursor);
  }
  source_.fail(entry.bytes.begin, "expected a string");
}

BytecodeValues::Signature BytecodeValues::signature(const BytecodeAttribute& function_type) {
  const uint64_t number = function_type.type_index;
  if (function_type.kind == BytecodeAttribute::Kind::kType && number < file_.types.size()) {
    const BytecodeFile::Entry& entry = file_.types[number];
    const bool vhlo = dialect(entry) == "vhlo";
    if (entry.encoded && (vhlo || dialect(entry) == "builtin")) {
      ByteCursor cursor = inside(entry);
      const uint64_t code = cursor.varint();
      if (code == (vhlo ? uint64_t{vhlo_type::kFunction} : uint64_t{builtin_type::kFunction})) {
        Signature signature;
        signature.arguments = read_types(cursor);
        signature.results = read_types(cursor);
        return signature;
      }
    }
    source_.fail(entry.bytes.begin, "expected a function type");
  }
  source_.fail(file_.program.begin, "a function whose type is no type");
}

std::string_view BytecodeValues::element_name(const BytecodeAttribute& type) {
  if (type.kind != BytecodeAttribute::Kind::kType || type.type_index >= file_.types.size())
    return {};
  const BytecodeFile::Entry& entry = file_.types[type.type_index];
  if (!entry.encoded || dialect(entry) != "vhlo") return {};
  ByteCursor cursor = inside(entry);
  return vhlo_element(cursor.varint());
}

int64_t BytecodeValues::element_count(const BytecodeAttribute& tensor) const {
  return tensor.is_list ? tensor.integer : builder_.type(tensor.type).elements;
}

bool BytecodeValues::integers(const BytecodeAttribute& tensor, size_t most,
                              std::vector<int64_t>* values) const {
  values->clear();
  const ElementType element = builder_.type(tensor.type).element;
  if (!is_integer(element) && element != ElementType::kBool) return false;
  const auto count = static_cast<size_t>(std::max<int64_t>(0, element_count(tensor)));
  const std::string_view data = tensor.data;
  const auto malformed = [&] {
    source_.fail(static_cast<size_t>(data.data() - source_.text().data()),
                 fmt::format("{} bytes of data for {} elements of {}", data.size(), count,
                             mlir_name(element)));
  };
  if (count == 0) {
    if (!data.empty()) malformed();
    return true;
  }
  // Booleans are packed by bits, all ones where each is true; once they took a byte each.
  if (element == ElementType::kBool && data.size() == (count + 7) / 8 && data.size() != count) {
    if (count > most) return false;
    for (size_t i = 0; i < count; ++i)
      values->push_back((static_cast<uint8_t>(data[i / 8]) >> (i % 8)) & 1);
    if (std::equal(values->begin() + 1, values->end(), values->begin())) values->resize(1);
    return true;
  }
  const size_t width = stored_width(element);
  if (data.size() == width) {
    values->push_back(extend(little_endian(data), element));
    return true;
  }
  if (element == ElementType::kBool && data.size() == 1) {
    values->push_back(data[0] != 0 ? 1 : 0);
    return true;
  }
  if (count > data.size() || data.size() != count * width) malformed();
  if (count > most) return false;
  for (size_t i = 0; i < count; ++i)
    values->push_back(extend(little_endian(data.substr(i * width, width)), element));
  return true;
}

std::optional<double> BytecodeValues::splat_real(const BytecodeAttribute& tensor) const {
  const ElementType element = builder_.type(tensor.type).element;
  if (!is_float(element) || tensor.data.size() != stored_width(element)) return std::nullopt;
  return real_from_bits(little_endian(tensor.data), element);
}

BytecodeValues::MeshAxes BytecodeValues::mesh_axes(const BytecodeAttribute& attribute) {
  MeshAxes result;
  ByteCursor cursor = parts(attribute);
  result.mesh = string(index(cursor));
  const BytecodeAttribute list = this->attribute(cursor);
  if (list.kind != BytecodeAttribute::Kind::kArray) cursor.fail("expected a list of mesh axes");
  ByteCursor axes = parts(list);
  const uint64_t number = axes.count();
  if (number > 64) axes.fail("more than 64 mesh axes");
  for (uint64_t i = 0; i < number; ++i) {
    // A name, whether it is a part of the axis, and which.
    ByteCursor axis = inside(file_.attributes[index(axes)]);
    if (axis.varint() != vhlo_attribute::kAxisReference) axis.fail("expected a mesh axis");
    AxisReference reference;
    reference.name = std::string(string(index(axis)));
    if (axis.varint() != 0) {
      ByteCursor part = inside(file_.attributes[index(axis)]);
      if (part.varint() != vhlo_attribute::kSubAxisInfo) part.fail("expected a part of an axis");
      reference.pre_size = part.signed_varint();
      reference.size = part.signed_varint();
    }
    result.axes.push_back(std::move(reference));
  }
  return result;
}

std::string BytecodeValues::location_name(uint64_t index, int depth) {
  const BytecodeFile::Entry& entry = file_.attributes[index];
  if (depth > kMaxLocationDepth || !entry.encoded || dialect(entry) != "builtin") return {};
  ByteCursor cursor = inside(entry);
  switch (cursor.varint()) {
    case builtin_attribute::kNameLocation:
      return std::string(string(this->index(cursor)));
    case builtin_attribute::kFileLocation: {
      const std::string_view file = string(this->index(cursor));
      return fmt::format("{}:{}", file, cursor.varint());
    }
    case builtin_attribute::kCallSiteLocation:
      return location_name(this->index(cursor), depth + 1);
    case builtin_attribute::kFusedLocation:
    case builtin_attribute::kFusedLocationWithMetadata:
      return cursor.varint() == 0 ? std::string() : location_name(this->index(cursor), depth + 1);
    default:
      return {};
  }
}

}  // namespace orrery::stablehlo
