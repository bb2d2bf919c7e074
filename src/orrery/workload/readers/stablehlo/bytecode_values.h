#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/workload/mesh.h"
#include "orrery/workload/reader.h"
#include "orrery/workload/readers/stablehlo/bytecode_file.h"
#include "orrery/workload/workload_builder.h"

namespace orrery::stablehlo {

/// One attribute, opened just so far: what it holds is named, not followed, and
/// the data of tensors stays where it is.
struct BytecodeAttribute {
  enum class Kind : uint8_t {
    kUnit,
    kInteger,  ///< Also booleans.
    kReal,
    kString,
    kSymbol,
    kWord,        ///< A member of an enumeration, as MLIR writes it.
    kArray,       ///< `parts`: how many, then the attributes' numbers.
    kDictionary,  ///< `parts`: how many, then pairs of a name's and a value's number.
    kTensor,      ///< `data` of `type`, or of a list of `type` where `is_list`.
    kType,        ///< `type_index`.
    kMeshAxes,    ///< `parts`: the mesh's and the axes' numbers.
    kOther,       ///< Something no one downstream asks for.
  };
  Kind kind = Kind::kOther;
  bool is_list = false;
  int64_t integer = 0;
  double real = 0;
  std::string_view text;  ///< Of strings, symbols, words; of attributes that are text.
  std::string_view data;
  TypeId type;
  uint64_t type_index = 0;
  ByteRange parts;
};

/// Opens the types and attributes of a bytecode file that the builtin and VHLO
/// dialects encode, each type once.
class BytecodeValues {
 public:
  /// All must outlive it.
  BytecodeValues(const Source& source, const BytecodeFile& file, const ReadOptions& options,
                 WorkloadBuilder& builder);

  /// A type named by its number at the cursor.
  TypeId type(ByteCursor& cursor) {
    const size_t at = cursor.offset();
    return type(cursor.varint(), at);
  }
  TypeId type(uint64_t index, size_t at) {
    if (index < types_.size() && type_states_[index] == State::kRead) [[likely]]
      return types_[index];
    return read_type(index, at);
  }
  /// An attribute named by its number at the cursor.
  BytecodeAttribute attribute(ByteCursor& cursor) { return attribute(index(cursor)); }
  BytecodeAttribute attribute(uint64_t index);
  /// The number of an attribute, checked.
  uint64_t index(ByteCursor& cursor) const {
    const size_t at = cursor.offset();
    const uint64_t number = cursor.varint();
    if (number >= file_.attributes.size()) fail_index(at, number);
    return number;
  }
  /// As `index`, where the lowest bit says whether there is one at all.
  std::optional<uint64_t> optional_index(ByteCursor& cursor) const;

  ByteCursor parts(const BytecodeAttribute& attribute) const {
    return ByteCursor(source_, attribute.parts);
  }
  /// A name or the like; fails when the attribute is no string.
  std::string_view string(uint64_t index);

  struct Signature {
    std::vector<TypeId> arguments;
    std::vector<TypeId> results;
  };
  Signature signature(const BytecodeAttribute& function_type);
  /// "f32" of an attribute that is an element type; "" of others.
  std::string_view element_name(const BytecodeAttribute& type);

  /// The integers (or booleans) of a tensor: one when all are the same and it stores only
  /// one. False when they are not integers or more than `most`.
  bool integers(const BytecodeAttribute& tensor, size_t most, std::vector<int64_t>* values) const;
  int64_t element_count(const BytecodeAttribute& tensor) const;
  /// The one number of a floating-point tensor whose elements are all the same.
  std::optional<double> splat_real(const BytecodeAttribute& tensor) const;

  struct MeshAxes {
    std::string_view mesh;
    std::vector<AxisReference> axes;
  };
  MeshAxes mesh_axes(const BytecodeAttribute& attribute);

  /// What a reader recognises of a location: its first name, else file:line.
  std::string location_name(uint64_t index, int depth = 0);

 private:
  enum class State : uint8_t { kUnread, kBeingRead, kRead };

  [[noreturn]] void fail_index(size_t at, uint64_t number) const;
  TypeId read_type(uint64_t index, size_t at);
  TypeId read_type(const BytecodeFile::Entry& entry);
  TypeId read_vhlo_type(ByteCursor cursor);
  TypeId read_builtin_type(ByteCursor cursor);
  TypeId read_tensor_type(ByteCursor& cursor, std::span<const int64_t> bounds);
  std::vector<int64_t> read_bounds(ByteCursor& cursor);
  TypeId read_quantized_type(ByteCursor& cursor);
  TypeId read_tuple(ByteCursor& cursor, bool one_is_itself);
  TypeId complex_of(ByteCursor& cursor);
  TypeId element(std::string_view name, const ByteCursor& cursor);
  TypeId without_data(std::string_view name);
  std::vector<TypeId> read_types(ByteCursor& cursor);
  BytecodeAttribute read_vhlo_attribute(ByteCursor cursor);
  BytecodeAttribute read_builtin_attribute(ByteCursor cursor);
  void read_integer(ByteCursor& cursor, BytecodeAttribute* attribute);
  void read_real(ByteCursor& cursor, BytecodeAttribute* attribute);
  ByteRange rest(const ByteCursor& cursor) const {
    return {cursor.offset(), cursor.offset() + cursor.left()};
  }
  std::string_view dialect(const BytecodeFile::Entry& entry) const {
    return file_.dialects[entry.dialect];
  }
  ByteCursor inside(const BytecodeFile::Entry& entry) const {
    return ByteCursor(source_, entry.bytes);
  }

  const Source& source_;
  const BytecodeFile& file_;
  const ReadOptions& options_;
  WorkloadBuilder& builder_;
  std::vector<TypeId> types_;
  std::vector<State> type_states_;
  int depth_ = 0;
};

}  // namespace orrery::stablehlo
