#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "orrery/workload/reader.h"
#include "orrery/workload/readers/stablehlo/name_table.h"
#include "orrery/workload/readers/stablehlo/text_cursor.h"
#include "orrery/workload/readers/stablehlo/translation.h"
#include "orrery/workload/workload_builder.h"

namespace orrery::stablehlo {

/// A one-pass reader of MLIR text with the stablehlo, chlo, func, sdy (and what
/// exporters mix in of mhlo and arith) dialects, pretty and generic forms alike.
/// It knows MLIR's grammar of values, types, attributes and regions, and beyond
/// that only what a pretty form means, so that new attributes do not break it.
class Parser {
 public:
  Parser(const Source& source, const ReadOptions& options);
  Workload parse();

 private:
  // parser.cc: modules, functions, regions, statements.
  void find_modules();
  void parse_top_level();
  void parse_module();
  void parse_function();
  void parse_generic_module(const char* start);
  void parse_generic_function();
  void parse_argument();
  void parse_block_header();
  void parse_region_body();
  void parse_region();
  void parse_alias();
  void parse_mesh();
  void parse_mesh_body(Mesh* mesh);
  void parse_location(std::optional<OpId> op);
  std::string location_name(TextCursor cursor, int depth);
  void resolve_locations();

  // operation.cc: one statement of a body.
  void parse_operation();
  void parse_generic_operation(const char* start);
  void parse_pretty_operation(const char* start);
  void parse_return(const char* start);
  void parse_constant();
  void parse_while();
  void parse_reduce_operands();
  void parse_reducer();
  void parse_scan();
  void check_scanned(std::span<const ValueId> inputs, int64_t dimension, const char* where) const;
  void parse_manual_computation();
  void parse_clauses(Opcode code);
  void parse_clause(Opcode code, std::string_view word);
  void parse_slice_ranges();
  void parse_signature();
  Translation::OpName operation_name(std::string_view written, const char* where);
  ValueId parse_operand();
  void parse_result_names();
  void define_results(OpId op, const char* start);

  // type.cc
  TypeId parse_type();
  TypeId parse_type_uncached();
  TypeId parse_tensor_type();
  void parse_quantized_element(const char* start, ElementType* stored, ElementType* expressed);
  void parse_type_list(std::vector<TypeId>* types);  ///< (a, b) or a single type.

  // attribute.cc
  AttributeValue parse_value(bool typed);
  AttributeValue parse_number();
  void parse_integer_list(char close, bool* all_integers);
  AttributeValue parse_dense();
  void parse_dictionary();
  void parse_struct(std::string_view kind);
  void parse_convolution_dimensions();
  void parse_mesh_axes_groups();
  void apply_constant(std::string_view dense, TypeId type);
  ShardingId parse_shardy_sharding();
  ShardingId parse_shardings_of_results();
  bool alias_text(std::string_view name, std::string_view* text);

  /// Guards every recursion of the grammar.
  class Depth {
   public:
    explicit Depth(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > 200) parser_.cursor_.fail("nested deeper than 200 levels");
    }
    ~Depth() { --parser_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    Parser& parser_;
  };

  TextCursor cursor_;
  const ReadOptions& options_;
  WorkloadBuilder builder_;
  Translation translation_;
  NameTable names_;
  TextMap types_;
  std::unordered_map<std::string_view, std::string_view> attribute_aliases_;
  std::unordered_map<std::string_view, TypeId> type_aliases_;
  size_t alias_bytes_ = 0;  ///< Expanded so far; bounds aliases of aliases of aliases.
  std::vector<std::pair<OpId, std::string_view>> pending_locations_;
  int depth_ = 0;
  std::vector<size_t> splits_;  ///< Where a further module begins.

  // Scratch of the statement being parsed, kept to spare allocations. The
  // statements inside a region use the same, so none is read after a region.
  struct ResultName {
    std::string_view name;
    uint32_t count = 1;
  };
  std::vector<ResultName> result_names_;
  uint32_t result_count_ = 0;
  std::vector<TypeId> signature_results_;
  bool functional_ = false;
  std::vector<int64_t> integers_;
  std::vector<int64_t> second_integers_;
  std::vector<ValueId> inits_;
  std::string_view constant_text_;
};

}  // namespace orrery::stablehlo
