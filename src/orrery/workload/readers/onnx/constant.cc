#include "orrery/workload/readers/onnx/constant.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "orrery/base/protobuf_wire.h"

namespace orrery::onnx {
namespace {

int64_t saturate(double value) {
  constexpr double kTwoTo63 = 9223372036854775808.0;
  if (std::isnan(value)) return 0;
  if (value >= kTwoTo63) return INT64_MAX;
  if (value <= -kTwoTo63) return INT64_MIN;
  return static_cast<int64_t>(value);
}

double half_to_double(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const double mantissa = bits & 0x3ff;
  double magnitude = 0;
  if (exponent == 0x1f)
    magnitude = mantissa == 0 ? HUGE_VAL : std::nan("");
  else if (exponent == 0)
    magnitude = std::ldexp(mantissa, -24);
  else
    magnitude = std::ldexp(mantissa + 1024, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

double bfloat16_to_double(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

/// Of 8-bit and wider integers: the value of its low bits in the type's sign.
int64_t narrow(ElementType element, uint64_t bits) {
  switch (element) {
    case ElementType::kBool:
      return bits != 0 ? 1 : 0;
    case ElementType::kS8:
      return static_cast<int8_t>(bits);
    case ElementType::kS16:
      return static_cast<int16_t>(bits);
    case ElementType::kS32:
      return static_cast<int32_t>(bits);
    case ElementType::kU8:
      return static_cast<uint8_t>(bits);
    case ElementType::kU16:
      return static_cast<uint16_t>(bits);
    case ElementType::kU32:
      return static_cast<uint32_t>(bits);
    default:
      return static_cast<int64_t>(bits);
  }
}

void decode_raw(Constant& constant, std::string_view raw) {
  const auto width = static_cast<size_t>(bit_width(constant.element)) / 8;
  const size_t count = constant.size();
  for (size_t i = 0; i < count; ++i) {
    uint64_t bits = 0;
    for (size_t b = 0; b < width; ++b)
      bits |= static_cast<uint64_t>(static_cast<uint8_t>(raw[i * width + b])) << (8 * b);
    switch (constant.element) {
      case ElementType::kF16:
        constant.reals[i] = half_to_double(static_cast<uint16_t>(bits));
        break;
      case ElementType::kBF16:
        constant.reals[i] = bfloat16_to_double(static_cast<uint16_t>(bits));
        break;
      case ElementType::kF32:
        constant.reals[i] = std::bit_cast<float>(static_cast<uint32_t>(bits));
        break;
      case ElementType::kF64:
        constant.reals[i] = std::bit_cast<double>(bits);
        break;
      default:
        constant.integers[i] = narrow(constant.element, bits);
    }
  }
}

/// Fills `constant` from the typed fields; the number of elements found.
size_t decode_typed(const Source& source, const Tensor& tensor, Constant& constant) {
  constexpr auto kLimit = static_cast<size_t>(kMaxConstantElements);
  std::vector<int64_t> integers;
  std::vector<float> floats;
  std::vector<double> doubles;
  ProtobufReader message(source, tensor.typed);
  while (message.next()) {
    switch (message.field()) {
      case 4:
        message.append_float32(floats, kLimit);
        break;
      case 5:
      case 7:
      case 11:
        message.append_int64(integers, kLimit);
        break;
      case 10:
        message.append_float64(doubles, kLimit);
        break;
      default:
        message.skip();
    }
  }
  const size_t count = constant.size();
  switch (constant.element) {
    case ElementType::kF32:
      for (size_t i = 0; i < std::min(count, floats.size()); ++i) constant.reals[i] = floats[i];
      return floats.size();
    case ElementType::kF64:
      for (size_t i = 0; i < std::min(count, doubles.size()); ++i) constant.reals[i] = doubles[i];
      return doubles.size();
    default:
      break;
  }
  for (size_t i = 0; i < std::min(count, integers.size()); ++i) {
    const auto bits = static_cast<uint64_t>(integers[i]);
    if (constant.element == ElementType::kF16)
      constant.reals[i] = half_to_double(static_cast<uint16_t>(bits));
    else if (constant.element == ElementType::kBF16)
      constant.reals[i] = bfloat16_to_double(static_cast<uint16_t>(bits));
    else
      constant.integers[i] = narrow(constant.element, bits);
  }
  return integers.size();
}

/// The bytes of an external tensor; nothing when they cannot be had.
std::optional<std::string> read_external(const Source& source, const Tensor& tensor, size_t bytes) {
  namespace fs = std::filesystem;
  const fs::path location(tensor.location);
  if (location.empty() || location.is_absolute()) return std::nullopt;
  for (const fs::path& part : location)
    if (part == "..") return std::nullopt;
  const fs::path path = fs::path(source.name()).parent_path() / location;
  std::error_code error;
  if (!fs::is_regular_file(path, error) || error) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file.seekg(tensor.external_offset)) return std::nullopt;
  std::string content(bytes, '\0');
  if (!file.read(content.data(), static_cast<std::streamsize>(bytes))) return std::nullopt;
  return content;
}

}  // namespace

int64_t Constant::integer(size_t i) const { return is_real() ? saturate(reals[i]) : integers[i]; }

Constant Constant::zeros(ElementType element, Dims dims) {
  Constant constant;
  constant.element = element;
  size_t count = 1;
  for (int64_t d : dims) count *= static_cast<size_t>(d);
  constant.dims = std::move(dims);
  if (constant.is_real())
    constant.reals.resize(count);
  else
    constant.integers.resize(count);
  return constant;
}

Constant Constant::scalar(ElementType element, int64_t value) {
  Constant constant = zeros(element, {});
  constant.set(0, value);
  return constant;
}

Constant Constant::vector(std::vector<int64_t> values) {
  Constant constant;
  constant.element = ElementType::kS64;
  constant.dims = {static_cast<int64_t>(values.size())};
  constant.integers = std::move(values);
  return constant;
}

void Constant::set(size_t i, double value) {
  if (is_real())
    reals[i] = value;
  else if (element == ElementType::kBool)
    integers[i] = value != 0 ? 1 : 0;
  else
    integers[i] = saturate(value);
}

void Constant::set(size_t i, int64_t value) {
  if (is_real())
    reals[i] = static_cast<double>(value);
  else if (element == ElementType::kBool)
    integers[i] = value != 0 ? 1 : 0;
  else
    integers[i] = value;
}

void Constant::copy(size_t i, const Constant& source, size_t from) {
  if (is_real())
    reals[i] = source.reals[from];
  else
    integers[i] = source.integers[from];
}

bool is_foldable(ElementType element) {
  switch (element) {
    case ElementType::kBool:
    case ElementType::kS8:
    case ElementType::kS16:
    case ElementType::kS32:
    case ElementType::kS64:
    case ElementType::kU8:
    case ElementType::kU16:
    case ElementType::kU32:
    case ElementType::kU64:
    case ElementType::kF16:
    case ElementType::kBF16:
    case ElementType::kF32:
    case ElementType::kF64:
      return true;
    default:
      return false;
  }
}

std::optional<Constant> decode(const Source& source, const Tensor& tensor) {
  const int64_t elements = tensor.elements(source);
  if (tensor.sparse || elements > kMaxConstantElements || !is_foldable(tensor.element))
    return std::nullopt;
  Constant constant = Constant::zeros(tensor.element, tensor.dims);
  const auto count = static_cast<size_t>(elements);
  const size_t bytes = count * static_cast<size_t>(bit_width(tensor.element)) / 8;
  if (tensor.external) {
    const auto content = read_external(source, tensor, bytes);
    if (!content) return std::nullopt;
    decode_raw(constant, *content);
    return constant;
  }
  if (!tensor.raw.empty() || (tensor.typed.empty() && count == 0)) {
    if (tensor.raw.size() != bytes)
      fail_at_byte(source, tensor.offset,
                   fmt::format("tensor '{}' has {} bytes of data where its shape needs {}",
                               tensor.name, tensor.raw.size(), bytes));
    decode_raw(constant, tensor.raw);
    return constant;
  }
  // Weights are sometimes taken out of a file, leaving their shapes.
  if (tensor.typed.empty()) return std::nullopt;
  const size_t found = decode_typed(source, tensor, constant);
  if (found != count)
    fail_at_byte(source, tensor.offset,
                 fmt::format("tensor '{}' has {} elements where its shape needs {}", tensor.name,
                             found, count));
  return constant;
}

}  // namespace orrery::onnx
