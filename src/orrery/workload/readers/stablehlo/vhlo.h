#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace orrery::stablehlo {

/// VHLO is StableHLO as portable artifacts spell it: every operation, attribute and
/// type carries a version, and defaults are written out (openxla/stablehlo
/// docs/vhlo.md). These tables hold versions 0.9 to 1.20.

/// "dot_general" of "dot_general_v2"; the name itself where there is no version.
std::string_view without_version(std::string_view operation);

/// The attributes of an operation in the order its properties have, which is that of
/// the alphabet; nothing for an operation (with its version) that has none here.
std::optional<std::vector<std::string_view>> vhlo_properties(std::string_view operation);

/// Codes in VHLO's encoding of attributes.
namespace vhlo_attribute {
enum Code : uint64_t {
  kArray = 1,
  kBoolean = 2,
  kComparisonDirection = 3,
  kComparisonType = 4,
  kCustomCallApiVersion = 5,
  kDictionary = 6,
  kFftType = 7,
  kFloat = 8,
  kInteger = 9,
  kOutputOperandAlias = 10,
  kPrecision = 11,
  kRngAlgorithm = 12,
  kRngDistribution = 13,
  kString = 14,
  kTensor = 15,
  kTranspose = 16,
  kType = 17,
  kTypeExtensions = 18,
  kResultAccuracyMode = 19,
  kResultAccuracy = 20,
  kSubAxisInfo = 21,
  kAxisReference = 22,
  kReplicaGroupMeshAxes = 23,
};
}  // namespace vhlo_attribute

/// Codes in VHLO's encoding of types that hold other types; element types alone are
/// in `vhlo_element`.
namespace vhlo_type {
enum Code : uint64_t {
  kComplex = 1,
  kFunction = 8,
  kRankedTensor = 20,
  kRankedTensorWithEncoding = 21,
  kToken = 22,
  kTuple = 23,
  kUniformQuantized = 24,
  kUnrankedTensor = 25,
  kWitness = 26,
  kUniformQuantizedPerAxis = 30,
  kNone = 33,
  kRankedBuffer = 41,
  kFuture = 42,
};
}  // namespace vhlo_type

/// "f32" of code 4 …, as MLIR writes the element type; "" for other types.
std::string_view vhlo_element(uint64_t code);

/// Codes of the builtin dialect's attributes and types (mlir/IR/BuiltinDialectBytecode.td).
namespace builtin_attribute {
enum Code : uint64_t {
  kArray = 0,
  kDictionary = 1,
  kString = 2,
  kStringWithType = 3,
  kFlatSymbolReference = 4,
  kSymbolReference = 5,
  kType = 6,
  kUnit = 7,
  kInteger = 8,
  kFloat = 9,
  kCallSiteLocation = 10,
  kFileLocation = 11,
  kFusedLocation = 12,
  kFusedLocationWithMetadata = 13,
  kNameLocation = 14,
  kUnknownLocation = 15,
  kDenseResource = 16,
  kDenseArray = 17,
  kDenseElements = 18,
};
}  // namespace builtin_attribute
namespace builtin_type {
enum Code : uint64_t {
  kInteger = 0,
  kIndex = 1,
  kFunction = 2,
  kBFloat16 = 3,
  kFloat16 = 4,
  kFloat32 = 5,
  kFloat64 = 6,
  kComplex = 9,
  kNone = 12,
  kRankedTensor = 13,
  kTuple = 15,
  kUnrankedTensor = 18,
};
}  // namespace builtin_type

/// What StableHLO means where VHLO spells a default out, so that both read the same.
enum class VhloDefault { kNone, kZero, kMinusOne, kEmpty, kAllZero, kAllOne };
VhloDefault vhlo_default(std::string_view operation, std::string_view attribute);

}  // namespace orrery::stablehlo
