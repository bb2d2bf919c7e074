#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "orrery/workload/readers/hlo/cursor.h"
#include "orrery/workload/readers/hlo/name_table.h"
#include "orrery/workload/workload_builder.h"

namespace orrery::hlo {

/// Reads shapes: `f32[8,128]{1,0:T(8,128)S(1)}`, `(bf16[2], s32[])`, `token[]`,
/// `f32[<=10,?]`. A spelling seen before is looked up, not read again.
class ShapeReader {
 public:
  /// `open_size`: what an unbounded dimension `?` stands for, where the user said.
  ShapeReader(WorkloadBuilder& builder, std::optional<int64_t> open_size)
      : builder_(&builder), open_size_(open_size) {}

  TypeId read(Cursor& cursor) { return read(cursor, 0); }

 private:
  TypeId read(Cursor& cursor, int depth);
  TypeId read_tuple(Cursor& cursor, int depth);
  TypeId read_array(std::string_view element, std::string_view dims, std::string_view layout,
                    const Source& source, size_t offset);
  void read_dims(Cursor cursor, std::vector<int64_t>& dims);
  void read_layout(Cursor cursor, std::vector<int64_t>& minor_to_major);

  WorkloadBuilder* builder_;
  std::optional<int64_t> open_size_;
  NameTable known_;
};

}  // namespace orrery::hlo
