#pragma once

#include <cstdint>
#include <variant>

#include "orrery/base/element_type.h"

namespace orrery {

/// What an implementation on real hardware depends on beyond a kernel's loops, by
/// kind of kernel. A kernel without one is elementwise over its largest tensor.

/// batch × [m,k]·[k,n]. A grouped product (experts) has `groups` weight matrices
/// and its rows, m in all, spread over them as (i+1)^-skew. Of a whole mixture-of-experts
/// block, both products, `choices` says how many experts a token goes to and `ranks`
/// over how many devices the experts are spread; m counts one device's rows, one at least,
/// and `tokens` those that choose, on all devices.
struct ProductShape {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  int64_t groups = 1;
  int32_t choices = 0;  ///< 0: not such a block.
  int32_t ranks = 1;
  float skew = 0;
  ElementType weight = ElementType::kNone;  ///< Stored type of the second operand.
  int32_t scale_block = 0;                  ///< Elements along k that share a scale; 0: all.
  int64_t tokens = 0;
  bool operator==(const ProductShape&) const = default;
};

struct ConvolutionShape {
  int64_t batch = 1, channels = 1, height = 1, width = 1;
  int64_t features = 1, out_height = 1, out_width = 1;
  int64_t window_height = 1, window_width = 1, stride = 1, groups = 1;
  bool channels_last = true;
  bool operator==(const ConvolutionShape&) const = default;
};

struct AttentionShape {
  int64_t batch = 1, heads = 1, kv_heads = 1, queries = 1, keys = 1;
  int64_t head = 1, value_head = 1;
  int64_t window = 0;  ///< Keys a query sees at most; 0: all.
  bool causal = false;
  bool paged = false;
  ElementType kv = ElementType::kNone;  ///< Stored type of keys and values.
  bool operator==(const AttentionShape&) const = default;
};

/// `rows` independent runs of `columns` elements; neighbours in a run lie `inner`
/// elements apart. Norms, softmax, reductions, scans, sorts.
struct RowShape {
  int64_t rows = 1, columns = 1, inner = 1;
  bool compares = false;  ///< A reduction to the largest or smallest instead of the sum.
  bool operator==(const RowShape&) const = default;
};

/// A reordering of `elements`: contiguous runs as read and as written (`move_shape`
/// in describe.h says which).
struct MoveShape {
  int64_t elements = 1, read_run = 1, write_run = 1;
  bool operator==(const MoveShape&) const = default;
};

/// `count` rows of `width` elements read from (or added into) a table.
struct LookupShape {
  int64_t count = 1, width = 1, table_rows = 1;
  bool accumulate = false;  ///< Added into the table; else read from it.
  bool operator==(const LookupShape&) const = default;
};

using KernelShape = std::variant<std::monostate, ProductShape, ConvolutionShape, AttentionShape,
                                 RowShape, MoveShape, LookupShape>;

}  // namespace orrery
