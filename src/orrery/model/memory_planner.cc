#include "orrery/model/memory_planner.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

namespace orrery {
namespace {

using Home = MemoryGraph::Home;

constexpr uint32_t kNone = UINT32_MAX;
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
/// Pairs of buffers alive together up to which packing is tried: some hundredths of a second.
constexpr uint64_t kMostPairs = uint64_t{1} << 20;
/// Results' memories that are tried for one temporary.
constexpr size_t kMostTries = 256;

int64_t add(int64_t a, int64_t b) { return a > kMost - b ? kMost : a + b; }

int64_t round_up(int64_t bytes, int64_t alignment) {
  return add(bytes, (alignment - bytes % alignment) % alignment);
}

struct Span {
  uint32_t start = kNone;  ///< First and last place in the order, both included.
  uint32_t end = 0;
};

/// Sets of buffers that are one memory.
class SharedSets {
 public:
  explicit SharedSets(size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), 0u);
  }
  uint32_t find(uint32_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(uint32_t a, uint32_t b) {
    a = find(a), b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<uint32_t> parent_;
};

/// A program's steps in 64 parts, a bit each: most spans that clash are told apart by their bits.
class StepParts {
 public:
  explicit StepParts(size_t steps) : part_(steps / kParts + 1) {}
  /// Parts inside a span, not those where it begins or ends.
  uint64_t inside(Span span) const { return bits(span.start / part_ + 1, span.end / part_); }
  /// … and with those.
  uint64_t touched(Span span) const { return bits(span.start / part_, span.end / part_ + 1); }

 private:
  static constexpr size_t kParts = 64;
  /// Bits from `first` up to, not including, `end`.
  static uint64_t bits(size_t first, size_t end) {
    if (first >= end) return 0;
    return (~uint64_t{0} << first) & (~uint64_t{0} >> (kParts - end));
  }
  size_t part_;  ///< Steps that one bit stands for.
};

/// The memory of a result or of an argument that was given away: when it is taken, by whom.
class ReusedMemory {
 public:
  void take(Span span, uint32_t buffer, const StepParts& parts) {
    Taken& taken = taken_[span.start];
    if (taken.end <= span.end) taken = {span.end, buffer};
    filled_ |= parts.inside(span);
  }

  /// Whether something is there in one of these parts throughout.
  bool fills(uint64_t parts) const { return (filled_ & parts) != 0; }

  /// Whether it is free throughout `span`. `may_touch(later, earlier)` says whether
  /// one buffer may take the place of another in the step where the other dies.
  template <class MayTouch>
  bool is_free(Span span, uint32_t buffer, MayTouch&& may_touch) const {
    for (auto at = taken_.upper_bound(span.end); at != taken_.begin();) {
      --at;
      const auto& [start, taken] = *at;
      if (taken.end < span.start) return true;
      const bool follows = start < span.start && taken.end == span.start;
      const bool precedes = start > span.start && start == span.end;
      if (!(follows && may_touch(buffer, taken.buffer)) &&
          !(precedes && may_touch(taken.buffer, buffer)))
        return false;
    }
    return true;
  }

 private:
  struct Taken {
    uint32_t end = 0;
    uint32_t buffer = 0;
  };
  uint64_t filled_ = 0;
  std::map<uint32_t, Taken> taken_;
};

/// A block of the one allocation of temporaries.
struct Block {
  Span span;
  int64_t bytes = 0;
};

/// A buffer in a block: of several, the first takes the place and the others follow.
struct Tenancy {
  Span span;
  uint32_t block = 0;
};

/// Blocks by their start, and below each node the latest end of those placed: finds
/// the placed blocks that live during a span.
class PlacedBlocks {
 public:
  explicit PlacedBlocks(std::span<const Block> blocks)
      : blocks_(blocks), by_start_(blocks.size()), place_(blocks.size()) {
    std::iota(by_start_.begin(), by_start_.end(), 0u);
    std::stable_sort(by_start_.begin(), by_start_.end(), [&](uint32_t a, uint32_t b) {
      return blocks_[a].span.start < blocks_[b].span.start;
    });
    for (uint32_t i = 0; i < by_start_.size(); ++i) place_[by_start_[i]] = i;
    while (leaves_ < blocks.size()) leaves_ *= 2;
    latest_end_.assign(2 * leaves_, -1);
  }
  void add(uint32_t block) {
    for (size_t node = leaves_ + place_[block]; node > 0; node /= 2)
      latest_end_[node] = std::max(latest_end_[node], int64_t{blocks_[block].span.end});
  }
  template <class Visitor>
  void for_each_during(Span span, Visitor&& visit) const {
    const auto after = std::upper_bound(
        by_start_.begin(), by_start_.end(), span.end,
        [&](uint32_t time, uint32_t block) { return time < blocks_[block].span.start; });
    visit_below(1, 0, leaves_, static_cast<size_t>(after - by_start_.begin()), span.start, visit);
  }

 private:
  template <class Visitor>
  void visit_below(size_t node, size_t first, size_t end, size_t limit, uint32_t since,
                   Visitor&& visit) const {
    if (first >= limit || latest_end_[node] < int64_t{since}) return;
    if (end - first == 1) return visit(by_start_[first]);
    const size_t middle = (first + end) / 2;
    visit_below(2 * node, first, middle, limit, since, visit);
    visit_below(2 * node + 1, middle, end, limit, since, visit);
  }

  std::span<const Block> blocks_;
  std::vector<uint32_t> by_start_;
  std::vector<uint32_t> place_;
  size_t leaves_ = 1;
  std::vector<int64_t> latest_end_;
};

/// Places blocks in the order given, each into the smallest gap that holds it. The size of all.
int64_t pack(std::span<const Block> blocks, std::span<const uint32_t> order, int64_t alignment) {
  PlacedBlocks placed(blocks);
  std::vector<int64_t> offset(blocks.size());
  std::vector<std::pair<int64_t, int64_t>> alive;  // offset, end
  int64_t size = 0;
  for (uint32_t b : order) {
    const Block& block = blocks[b];
    alive.clear();
    placed.for_each_during(block.span, [&](uint32_t other) {
      alive.emplace_back(offset[other], add(offset[other], blocks[other].bytes));
    });
    std::sort(alive.begin(), alive.end());
    int64_t best = kMost;
    int64_t best_gap = kMost;
    int64_t free_from = 0;
    for (const auto& [from, to] : alive) {
      const int64_t gap = from - free_from;
      if (gap >= block.bytes && gap < best_gap) {
        best = free_from;
        best_gap = gap;
      }
      free_from = std::max(free_from, round_up(to, alignment));
    }
    offset[b] = best_gap == kMost ? free_from : best;
    size = std::max(size, add(offset[b], block.bytes));
    placed.add(b);
  }
  return size;
}

/// How long blocks live, in times that memory is taken or given back meanwhile.
struct BlockLives {
  std::vector<uint64_t> whole;
  std::vector<uint64_t> first;  ///< Of the block's first tenant alone.
};

/// XLA's clock: in each step buffers are taken, those that are given back soonest first, and
/// then others are given back, those that were taken first before the others.
BlockLives lives_in_events(std::span<const Tenancy> tenancies, size_t block_count, size_t steps) {
  std::vector<uint32_t> taken(tenancies.size());
  std::iota(taken.begin(), taken.end(), 0u);
  std::stable_sort(taken.begin(), taken.end(), [&](uint32_t a, uint32_t b) {
    const Span &one = tenancies[a].span, &other = tenancies[b].span;
    return std::pair(one.start, one.end) < std::pair(other.start, other.end);
  });
  std::vector<uint32_t> given_back = taken;
  std::stable_sort(given_back.begin(), given_back.end(), [&](uint32_t a, uint32_t b) {
    return tenancies[a].span.end < tenancies[b].span.end;
  });

  constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  std::vector<uint64_t> start(block_count, kNever), taken_at(tenancies.size());
  std::vector<uint32_t> first_tenant(block_count, kNone);
  BlockLives lives{std::vector<uint64_t>(block_count), std::vector<uint64_t>(block_count)};
  uint64_t now = 0;
  size_t next_taken = 0, next_given = 0;
  for (uint32_t step = 0; step < steps; ++step) {
    for (; next_taken < taken.size() && tenancies[taken[next_taken]].span.start == step;
         ++next_taken) {
      const uint32_t t = taken[next_taken];
      const uint32_t block = tenancies[t].block;
      if (start[block] == kNever) {
        start[block] = now;
        first_tenant[block] = t;
      }
      taken_at[t] = now++;
    }
    for (; next_given < given_back.size() && tenancies[given_back[next_given]].span.end == step;
         ++next_given) {
      const uint32_t t = given_back[next_given];
      const uint32_t block = tenancies[t].block;
      lives.whole[block] = std::max(lives.whole[block], now - start[block]);
      if (first_tenant[block] == t) lives.first[block] = now - taken_at[t];
      ++now;
    }
  }
  return lives;
}

int64_t smallest_packing(std::span<const Block> blocks, std::span<const Tenancy> tenancies,
                         int64_t alignment, size_t steps, int64_t without_holes) {
  // Of each block: those that start no later than it ends, less those that end before it starts.
  std::vector<uint64_t> starts(steps + 2), ends(steps + 2);
  for (const Block& block : blocks) {
    ++starts[block.span.start + 1];
    ++ends[block.span.end + 1];
  }
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  uint64_t pairs = 0;
  for (const Block& block : blocks) pairs += starts[block.span.end + 1] - ends[block.span.start];
  if (pairs > kMostPairs) return without_holes;

  const BlockLives lives = lives_in_events(tenancies, blocks.size(), steps);
  std::vector<uint32_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto first_by = [&](const std::vector<uint64_t>& length, bool by_size) {
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      if (by_size && blocks[a].bytes != blocks[b].bytes) return blocks[a].bytes > blocks[b].bytes;
      if (length[a] != length[b]) return length[a] > length[b];
      if (blocks[a].bytes != blocks[b].bytes) return blocks[a].bytes > blocks[b].bytes;
      return a < b;
    });
  };
  first_by(lives.first, true);
  const int64_t largest_first = pack(blocks, order, alignment);
  first_by(lives.whole, false);
  return std::min(largest_first, pack(blocks, order, alignment));
}

/// Lives, shared memories and overwritten operands: what is common to counting and placing.
class Lives {
 public:
  Lives(const MemoryGraph& graph, std::span<const uint32_t> order)
      : steps_(order.size()), span_(graph.buffers().size()), sets_(span_.size()) {
    const auto buffers = graph.buffers();
    for (uint32_t place = 0; place < order.size(); ++place) {
      for (const MemoryGraph::Use& use : graph.uses(graph.steps()[order[place]])) {
        Span& span = span_[use.buffer];
        span.start = std::min(span.start, place);
        span.end = std::max(span.end, place);
      }
    }
    for (uint32_t b = 0; b < buffers.size(); ++b) {
      if (buffers[b].home != Home::kTemporary) span_[b].start = 0;
      if (buffers[b].home == Home::kConstant) span_[b].end = last();
      if (buffers[b].is_result) span_[b].end = last();
    }
    for (const auto& [one, other] : graph.shared()) sets_.join(one, other);
    members_.resize(buffers.size());
    overwrites_.assign(graph.overwrites().begin(), graph.overwrites().end());
    std::stable_sort(overwrites_.begin(), overwrites_.end(),
                     [](const auto& a, const auto& b) { return a.result < b.result; });
    for (uint32_t b = 0; b < buffers.size(); ++b) members_[b] = sets_.find(b);
    set_size_.assign(buffers.size(), 0);
    set_count_.assign(buffers.size(), 0);
    set_result_.assign(buffers.size(), false);
    set_argument_.assign(buffers.size(), kNone);
    set_constant_.assign(buffers.size(), false);
    for (uint32_t b = 0; b < buffers.size(); ++b) {
      const uint32_t set = members_[b];
      ++set_count_[set];
      set_size_[set] = std::max(set_size_[set], buffers[b].bytes);
      set_result_[set] = set_result_[set] || buffers[b].is_result;
      set_constant_[set] = set_constant_[set] || buffers[b].home == Home::kConstant;
      if (buffers[b].home == Home::kArgument && set_argument_[set] == kNone) set_argument_[set] = b;
    }
  }

  uint32_t last() const { return steps_ == 0 ? 0 : static_cast<uint32_t>(steps_ - 1); }
  uint32_t set(uint32_t buffer) const { return members_[buffer]; }
  Span span(uint32_t buffer) const { return span_[buffer]; }
  int64_t bytes(uint32_t set) const { return set_size_[set]; }
  bool is_single(uint32_t set) const { return set_count_[set] == 1; }
  bool is_result(uint32_t set) const { return set_result_[set]; }
  bool is_argument(uint32_t set) const { return set_argument_[set] != kNone; }
  bool is_constant(uint32_t set) const { return set_constant_[set]; }
  bool is_temporary(uint32_t set) const {
    return !is_result(set) && !is_argument(set) && !is_constant(set);
  }
  /// The operands that `result` may overwrite.
  std::span<const MemoryGraph::Overwrite> overwritten_by(uint32_t result) const {
    const auto [first, end] =
        std::equal_range(overwrites_.begin(), overwrites_.end(), MemoryGraph::Overwrite{result},
                         [](const auto& a, const auto& b) { return a.result < b.result; });
    return {first, end};
  }
  bool may_overwrite(uint32_t result, uint32_t operand) const {
    const auto pairs = overwritten_by(result);
    return std::any_of(pairs.begin(), pairs.end(),
                       [&](const auto& pair) { return pair.operand == operand; });
  }

  /// Blocks of the buffers for which `is_placed(set)` is false: shared sets
  /// and chains of overwritten operands are one. `block_of` gets each set's block,
  /// `tenancies` each buffer's time there.
  template <class IsPlaced>
  std::vector<Block> blocks(IsPlaced&& is_placed, std::vector<uint32_t>& block_of,
                            std::vector<Tenancy>& tenancies) const {
    std::vector<uint32_t> by_start;
    for (uint32_t b = 0; b < members_.size(); ++b)
      if (span_[b].start != kNone && bytes(members_[b]) > 0 && !is_placed(members_[b]))
        by_start.push_back(b);
    std::stable_sort(by_start.begin(), by_start.end(),
                     [&](uint32_t a, uint32_t b) { return span_[a].start < span_[b].start; });
    block_of.assign(members_.size(), kNone);
    std::vector<bool> taken_over(members_.size(), false);
    std::vector<Block> blocks;
    for (uint32_t b : by_start) {
      const uint32_t set = members_[b];
      if (block_of[set] == kNone && is_single(set)) {
        for (const auto& [result, operand, through_view] : overwritten_by(b)) {
          const uint32_t old = members_[operand];
          if (through_view || block_of[old] == kNone || !is_single(old) || taken_over[operand] ||
              span_[operand].end != span_[b].start || span_[operand].start >= span_[b].start)
            continue;
          taken_over[operand] = true;
          block_of[set] = block_of[old];
          break;
        }
      }
      if (block_of[set] == kNone) {
        block_of[set] = static_cast<uint32_t>(blocks.size());
        blocks.emplace_back();
      }
      tenancies.push_back({span_[b], block_of[set]});
      Block& block = blocks[block_of[set]];
      block.bytes = std::max(block.bytes, bytes(set));
      block.span.start = std::min(block.span.start, span_[b].start);
      block.span.end = std::max(block.span.end, span_[b].end);
    }
    return blocks;
  }

 private:
  size_t steps_;
  std::vector<Span> span_;
  SharedSets sets_;
  std::vector<uint32_t> members_;
  std::vector<MemoryGraph::Overwrite> overwrites_;
  std::vector<int64_t> set_size_;
  std::vector<uint32_t> set_count_;
  std::vector<bool> set_result_;
  std::vector<uint32_t> set_argument_;
  std::vector<bool> set_constant_;
};

void add_scratch(const MemoryGraph& graph, std::span<const uint32_t> order,
                 std::vector<Block>& blocks, std::vector<Tenancy>& tenancies) {
  for (uint32_t place = 0; place < order.size(); ++place) {
    const int64_t bytes = graph.steps()[order[place]].scratch;
    if (bytes == 0) continue;
    tenancies.push_back({{place, place}, static_cast<uint32_t>(blocks.size())});
    blocks.push_back({{place, place}, bytes});
  }
}

std::vector<int64_t> live_at_each_step(std::span<const Block> blocks, size_t steps) {
  // Sums of bytes near the largest integer: starts and ends apart, so that neither goes below 0.
  std::vector<__int128> change(steps + 1);
  for (const Block& block : blocks) {
    change[block.span.start] += block.bytes;
    change[block.span.end + 1] -= block.bytes;
  }
  std::vector<int64_t> live(steps);
  __int128 sum = 0;
  for (size_t i = 0; i < steps; ++i) {
    sum += change[i];
    live[i] = sum > kMost ? kMost : static_cast<int64_t>(sum);
  }
  return live;
}

/// Puts temporaries into free time of results' memory, largest first, each into
/// the smallest that is free, its operands' first. Tells which sets have a place.
std::vector<bool> place_in_results(const MemoryGraph& graph, const Lives& lives) {
  const auto buffers = graph.buffers();
  std::vector<bool> placed(buffers.size(), false);
  // Members of one set stand together.
  std::vector<uint32_t> by_set(buffers.size()), first(buffers.size() + 1);
  for (uint32_t b = 0; b < buffers.size(); ++b) ++first[lives.set(b) + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  {
    std::vector<uint32_t> next(first.begin(), first.end() - 1);
    for (uint32_t b = 0; b < buffers.size(); ++b) by_set[next[lives.set(b)]++] = b;
  }
  const auto members = [&](uint32_t set) {
    return std::span(by_set).subspan(first[set], first[set + 1] - first[set]);
  };
  std::vector<uint32_t> sets;
  for (uint32_t b = 0; b < buffers.size(); ++b)
    if (lives.set(b) == b && lives.bytes(b) > 0) sets.push_back(b);
  std::stable_sort(sets.begin(), sets.end(), [&](uint32_t a, uint32_t b) {
    if (lives.bytes(a) != lives.bytes(b)) return lives.bytes(a) > lives.bytes(b);
    return lives.is_result(a) && !lives.is_result(b);
  });

  const StepParts parts(lives.last() + 1);
  std::vector<ReusedMemory> memories;
  std::vector<uint32_t> memory_of(buffers.size(), kNone);  // by set
  const auto may_touch = [&](uint32_t later, uint32_t earlier) {
    return lives.may_overwrite(later, earlier);
  };
  const auto take = [&](uint32_t set, uint32_t memory) {
    memory_of[set] = memory;
    for (uint32_t b : members(set))
      if (lives.span(b).start != kNone) memories[memory].take(lives.span(b), b, parts);
  };
  for (uint32_t set : sets) {
    if (lives.is_result(set)) {
      // A memory that is never free is of no use.
      if (members(set).size() == 1 && lives.span(set).start == 0) continue;
      memories.emplace_back();
      take(set, static_cast<uint32_t>(memories.size() - 1));
      continue;
    }
    if (!lives.is_temporary(set)) continue;
    uint64_t touched = 0;
    for (uint32_t b : members(set))
      if (lives.span(b).start != kNone) touched |= parts.touched(lives.span(b));
    const auto fits = [&](uint32_t memory) {
      if (memories[memory].fills(touched)) return false;
      for (uint32_t b : members(set))
        if (lives.span(b).start != kNone && !memories[memory].is_free(lives.span(b), b, may_touch))
          return false;
      return true;
    };
    uint32_t found = kNone;
    for (uint32_t b : members(set)) {
      for (const auto& [result, operand, through_view] : lives.overwritten_by(b)) {
        const uint32_t memory = memory_of[lives.set(operand)];
        if (found == kNone && memory != kNone && fits(memory)) found = memory;
      }
    }
    size_t tries = 0;
    for (size_t m = memories.size(); m-- > 0 && found == kNone && tries < kMostTries; ++tries)
      if (fits(static_cast<uint32_t>(m))) found = static_cast<uint32_t>(m);
    if (found == kNone) continue;
    take(set, found);
    placed[set] = true;
  }
  return placed;
}

}  // namespace

uint32_t MemoryGraph::add_buffer(Home home, int64_t bytes, uint32_t label) {
  buffers_.push_back({std::max<int64_t>(bytes, 0), label, home, false});
  return static_cast<uint32_t>(buffers_.size() - 1);
}

uint32_t MemoryGraph::add_step(uint32_t label) {
  Step step;
  step.label = label;
  step.first_use = step.end_use = static_cast<uint32_t>(uses_.size());
  steps_.push_back(step);
  return static_cast<uint32_t>(steps_.size() - 1);
}

BufferPlan plan_buffers(const MemoryGraph& graph, std::span<const uint32_t> order,
                        const MemoryLayout& layout) {
  BufferPlan plan;
  const auto buffers = graph.buffers();
  const Lives lives(graph, order);
  for (uint32_t b = 0; b < buffers.size(); ++b) {
    const uint32_t set = lives.set(b);
    if (buffers[b].home == Home::kArgument) plan.arguments = add(plan.arguments, buffers[b].bytes);
    if (buffers[b].home == Home::kConstant) plan.constants = add(plan.constants, buffers[b].bytes);
    if (!buffers[b].is_result) continue;
    if (buffers[b].home == Home::kTemporary) plan.results = add(plan.results, buffers[b].bytes);
    if (lives.is_argument(set)) plan.aliased = add(plan.aliased, buffers[b].bytes);
  }

  std::vector<bool> placed;
  if (layout.temporaries_in_results) placed = place_in_results(graph, lives);
  std::vector<uint32_t> block_of;
  std::vector<Tenancy> tenancies;
  std::vector<Block> blocks = lives.blocks(
      [&](uint32_t set) { return !lives.is_temporary(set) || (!placed.empty() && placed[set]); },
      block_of, tenancies);
  const size_t block_count = blocks.size();
  add_scratch(graph, order, blocks, tenancies);

  plan.temporaries_live = live_at_each_step(blocks, order.size());
  const auto most = std::max_element(plan.temporaries_live.begin(), plan.temporaries_live.end());
  if (most != plan.temporaries_live.end()) {
    plan.live_temporaries = *most;
    plan.peak_step = static_cast<uint32_t>(most - plan.temporaries_live.begin());
  }
  plan.temporaries =
      smallest_packing(blocks, tenancies, layout.alignment, order.size(), plan.live_temporaries);
  for (const MemoryGraph::Step& step : graph.steps())
    if (step.tables > 0)
      plan.temporaries = add(plan.temporaries, round_up(step.tables, layout.alignment));

  // Who holds memory at the peak: of a block of several buffers, the one alive there.
  std::vector<bool> counted(block_count, false);
  std::vector<bool> set_counted(buffers.size(), false);
  for (uint32_t b = 0; b < buffers.size(); ++b) {
    const uint32_t set = lives.set(b);
    MemoryHolder holder{buffers[b].label, buffers[b].home, buffers[b].is_result, false,
                        lives.bytes(set)};
    if (buffers[b].bytes == 0) continue;
    if (lives.is_temporary(set)) {
      const uint32_t block = block_of[set];
      const Span span = lives.span(b);
      if (block == kNone || counted[block] || span.start > plan.peak_step ||
          span.end < plan.peak_step)
        continue;
      counted[block] = true;
    } else {
      if (set_counted[set]) continue;
      set_counted[set] = true;
    }
    plan.holders.push_back(holder);
  }
  if (!order.empty()) {
    const MemoryGraph::Step& step = graph.steps()[order[plan.peak_step]];
    if (step.scratch > 0)
      plan.holders.push_back({step.label, Home::kTemporary, false, true, step.scratch});
  }
  std::stable_sort(plan.holders.begin(), plan.holders.end(),
                   [](const MemoryHolder& a, const MemoryHolder& b) { return a.bytes > b.bytes; });
  return plan;
}

int64_t live_bytes(const MemoryGraph& graph, std::span<const uint32_t> order) {
  const Lives lives(graph, order);
  std::vector<uint32_t> block_of;
  std::vector<Tenancy> tenancies;
  std::vector<Block> blocks =
      lives.blocks([&](uint32_t set) { return lives.is_argument(set) || lives.is_constant(set); },
                   block_of, tenancies);
  add_scratch(graph, order, blocks, tenancies);
  const std::vector<int64_t> live = live_at_each_step(blocks, order.size());
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

}  // namespace orrery
