#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace orrery {

/// A k-d tree (Bentley, CACM 18(9), 1975): the points nearest to a query in time that grows
/// with the logarithm of their number.
class NearestPoints {
 public:
  static constexpr size_t kMostDimensions = 8;
  static constexpr uint32_t kNone = ~uint32_t{0};

  struct Found {
    float squared_distance = 0;
    uint32_t point = 0;  ///< As numbered by the caller.
  };

  NearestPoints() = default;
  /// `points` holds one point of `dimensions` (1 to kMostDimensions) after the other.
  NearestPoints(std::span<const float> points, size_t dimensions);

  size_t size() const { return numbers_.size(); }

  /// Fills `found` with the points nearest to `query`, nearest first, of equally near ones
  /// the lower number; `left_out` is passed over. Gives back how many there are.
  size_t find(std::span<const float> query, std::span<Found> found,
              uint32_t left_out = kNone) const;

 private:
  struct Node {
    uint32_t begin, end;  ///< Points of a leaf; of an inner node all below it.
    uint32_t higher = 0;  ///< The second child; the first follows its parent. 0: a leaf.
    uint32_t dimension = 0;
    float border = 0;
  };
  struct Search;

  void split(std::span<const float> points, uint32_t begin, uint32_t end);
  void visit(Search& search, uint32_t node) const;

  size_t dimensions_ = 0;
  std::vector<uint32_t> numbers_;   ///< In the tree's order.
  std::vector<float> coordinates_;  ///< Likewise.
  std::vector<Node> nodes_;
};

}  // namespace orrery
