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
  /// A compiler chose its kernel by trying, from a library or its own, perhaps with
  /// neighbours fused into it.
  bool compiled = false;
  /// Bytes at which all rows of a compiled product's operands begin: the power of two, 16 at most.
  uint8_t aligned = 16;
  float filled = 1;  ///< Share of the first operand that is not zero by construction.
  bool operator==(const ProductShape&) const = default;
};

struct ConvolutionShape {
  int64_t batch = 1, channels = 1, height = 1, width = 1;
  int64_t features = 1, out_height = 1, out_width = 1;
  int64_t window_height = 1, window_width = 1, stride = 1, groups = 1;
  bool channels_last = true;
  /// Sizes are always those of the forward convolution.
  enum class Computes : uint8_t { kOutput, kInputGradient, kFilterGradient };
  Computes computes = Computes::kOutput;
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

/// Operations that a compiler wrote one kernel for: loops over elements, perhaps with
/// reductions, moves and look-ups among them.
struct FusionShape {
  /// What is among the operations.
  enum Does : uint8_t {
    kNormalizes = 1,  ///< Uses a reduction's result on what was reduced.
    kUpdates = 2,     ///< Writes a part of a buffer that is there already.
    kGathers = 4,
    kScatters = 8,
    kWindows = 16,  ///< Reduces windows that may overlap.
    kSlices = 32,   ///< Or pads.
    kMasks = 64,    ///< Shares a plane that varies along the reduced axis, as a mask, between rows.
  };
  int64_t elements = 1;                      ///< Of the largest tensor inside.
  int64_t rows = 1, columns = 1, inner = 1;  ///< Of the largest reduction; 1 column: there is none.
  int64_t run = 0;          ///< Bytes side by side where a transposition reads; 0: there is none.
  uint16_t operations = 0;  ///< That compute.
  uint16_t inputs = 0, outputs = 0, reductions = 0;
  uint16_t pieces = 0;  ///< That a concatenation puts together.
  uint8_t does = 0;
  bool operator==(const FusionShape&) const = default;
};

using KernelShape = std::variant<std::monostate, ProductShape, ConvolutionShape, AttentionShape,
                                 RowShape, MoveShape, LookupShape, FusionShape>;

}  // namespace orrery
