#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "orrery/workload/reader.h"
#include "orrery/workload/readers/stablehlo/bytecode_file.h"
#include "orrery/workload/readers/stablehlo/bytecode_values.h"
#include "orrery/workload/readers/stablehlo/translation.h"
#include "orrery/workload/workload_builder.h"

namespace orrery::stablehlo {

/// Reads portable StableHLO artifacts, MLIR bytecode of the VHLO dialect, into the
/// same workload as the text they stand for. Operations are built as they are met;
/// what several share (types, attributes, places in the model) is opened once.
class BytecodeReader {
 public:
  /// Both must outlive it.
  BytecodeReader(const Source& source, const ReadOptions& options);
  Workload read();

 private:
  using OpName = Translation::OpName;

  /// An operation as the file's table names it.
  struct Name {
    std::string_view dialect;
    std::string_view local;          ///< As written: "dot_general_v2".
    std::string_view operation;      ///< Without VHLO's version.
    std::optional<OpName> resolved;  ///< Once it was met.
    bool is_module = false;
    bool is_function = false;
  };

  /// One attribute as `Translation` takes it, ready to be set on many operations.
  struct Setting {
    enum class Kind : uint8_t { kAttribute, kConstant, kRealConstant, kMeshAxes };
    Kind kind = Kind::kAttribute;
    std::string_view name;
    const AttributeRule* rule = nullptr;  ///< Of an operation's attribute.
    AttributeValue value;
    size_t first_integer = 0;  ///< Into `integers_`.
    size_t integer_count = 0;
    size_t mesh_axes = 0;  ///< Into `mesh_axes_`.
  };
  struct Settings {
    uint64_t name = UINT64_MAX;  ///< Of the operations they are for.
    size_t first = 0;
    size_t count = 0;
  };

  /// The head of an operation: all but its regions.
  struct Head {
    size_t offset = 0;
    uint64_t name = 0;
    uint64_t location = 0;
    std::optional<uint64_t> dictionary;
    std::optional<uint64_t> properties;
    uint64_t region_count = 0;
    bool isolated = false;
  };

  /// The values of an isolated region and those inside it, by number.
  struct Scope {
    struct Region {
      size_t first = 0;  ///< Into `values`.
      size_t next = 0;   ///< The one to be defined next.
    };
    std::vector<ValueId> values;
    std::vector<Region> open;
  };

  /// Guards every recursion of the format.
  class Depth;

  void read_names();
  Head read_head(ByteCursor& cursor);
  void skip_use_lists(ByteCursor& cursor, uint64_t values);
  /// Calls `read` with a cursor at the regions, which are a section of their own when
  /// they are isolated; then the cursor stands behind them.
  template <class Read>
  void at_regions(ByteCursor& cursor, const Head& head, Read&& read);
  void read_top_level(ByteCursor& cursor);
  void read_module(ByteCursor& cursor, const Head& head);
  void read_function(ByteCursor& cursor, const Head& head);
  void read_operation(ByteCursor& cursor);
  void read_region(ByteCursor& cursor);
  uint64_t open_region(ByteCursor& cursor, uint64_t blocks);
  void close_region();
  /// Gives the number of operations; the types of its arguments go to `block_types_`.
  uint64_t read_block_header(ByteCursor& cursor);
  void define(ValueId value, const ByteCursor& cursor);
  std::optional<Opcode> simple_reducer(ByteCursor& cursor, const Head& head);
  OpName resolve(uint64_t name, size_t offset);
  void name_operation(OpId op, uint64_t location);

  using NamedAttributes = std::vector<std::pair<std::string_view, uint64_t>>;
  NamedAttributes named_attributes(const Head& head);
  NamedAttributes entries(const BytecodeAttribute& dictionary);
  Settings settings(const Head& head, bool from_properties);
  void add_setting(const Name& name, std::string_view attribute, uint64_t index, int depth);
  Setting open_value(std::string_view attribute, uint64_t index);
  bool open_constant(uint64_t index, Setting* setting);
  void keep_integers(Setting* setting);
  bool is_default(const Name& name, const Setting& setting) const;
  void apply(const Setting& setting);
  void apply(const NamedAttributes& attributes);
  /// Counts work that the file's length does not bound.
  void charge(size_t work, const char* what);

  const Source source_;
  const ReadOptions& options_;
  WorkloadBuilder builder_;
  Translation translation_;
  BytecodeFile file_;
  BytecodeValues values_;

  std::deque<std::string> spellings_;  ///< Text that the file spells otherwise.
  std::vector<Name> names_;
  std::unordered_map<uint64_t, Settings> known_settings_;
  std::vector<Settings> last_settings_;  ///< By properties: mostly one operation has them.
  std::vector<Setting> settings_;
  std::vector<int64_t> integers_;
  std::vector<BytecodeValues::MeshAxes> mesh_axes_;
  std::vector<StringId> location_names_;
  std::vector<bool> location_known_;
  std::vector<Scope> scopes_;
  size_t reserved_values_ = 0;
  size_t work_ = 0;
  int depth_ = 0;

  // Scratch of the operation or value being read.
  std::vector<ValueId> operands_;
  std::vector<TypeId> result_types_;
  std::vector<TypeId> block_types_;
  std::vector<int64_t> scratch_;
};

}  // namespace orrery::stablehlo
