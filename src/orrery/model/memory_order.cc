#include "orrery/model/memory_order.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

namespace orrery {
namespace {

using Home = MemoryGraph::Home;

constexpr uint32_t kNone = UINT32_MAX;

/// Numbers in rows of different lengths, one after the other.
class Rows {
 public:
  /// Rows of the second of each pair, by the first, in the order they stand.
  Rows(size_t count, std::span<const std::pair<uint32_t, uint32_t>> pairs) : starts_(count + 1) {
    for (const auto& [row, value] : pairs) ++starts_[row + 1];
    std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
    values_.resize(pairs.size());
    std::vector<uint32_t> next(starts_.begin(), starts_.end() - 1);
    for (const auto& [row, value] : pairs) values_[next[row]++] = value;
  }
  std::span<const uint32_t> operator[](size_t row) const {
    return std::span(values_).subspan(starts_[row], starts_[row + 1] - starts_[row]);
  }

 private:
  std::vector<uint32_t> starts_;
  std::vector<uint32_t> values_;
};

using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;

/// The step that writes each buffer first; kNone where none does.
std::vector<uint32_t> writers(const MemoryGraph& graph) {
  std::vector<uint32_t> writer(graph.buffers().size(), kNone);
  for (uint32_t s = 0; s < graph.steps().size(); ++s)
    for (const MemoryGraph::Use& use : graph.uses(graph.steps()[s]))
      if (use.writes && writer[use.buffer] == kNone) writer[use.buffer] = s;
  return writer;
}

/// Which steps must have run before a step: the writers of what it reads, and
/// before an update in place the readers of what is updated.
class Dependencies {
 public:
  explicit Dependencies(const MemoryGraph& graph) : Dependencies(graph, before_each(graph)) {}

  /// In the order a step reads.
  std::span<const uint32_t> before(uint32_t step) const { return before_[step]; }
  std::span<const uint32_t> after(uint32_t step) const { return after_[step]; }

 private:
  Dependencies(const MemoryGraph& graph, const Pairs& pairs)
      : before_(graph.steps().size(), pairs), after_(graph.steps().size(), turned(pairs)) {}

  static Pairs turned(const Pairs& pairs) {
    Pairs result;
    result.reserve(pairs.size());
    for (const auto& [then, first] : pairs) result.emplace_back(first, then);
    return result;
  }
  static Pairs before_each(const MemoryGraph& graph) {
    const std::vector<uint32_t> writer = writers(graph);
    Pairs reads;   // buffer, step
    Pairs before;  // step, the one before
    for (uint32_t s = 0; s < graph.steps().size(); ++s) {
      for (const MemoryGraph::Use& use : graph.uses(graph.steps()[s])) {
        if (use.writes) continue;
        if (!graph.shared().empty()) reads.emplace_back(use.buffer, s);
        if (writer[use.buffer] < s) before.emplace_back(s, writer[use.buffer]);
      }
    }
    const Rows readers(graph.buffers().size(), reads);
    for (const auto& [one, other] : graph.shared()) {
      for (const auto& [later, earlier] : {std::pair(one, other), std::pair(other, one)}) {
        const uint32_t s = writer[later];
        if (s == kNone) continue;
        for (uint32_t reader : readers[earlier])
          if (reader < s) before.emplace_back(s, reader);
      }
    }
    // Each once.
    const Rows rows(graph.steps().size(), before);
    std::vector<uint32_t> seen_by(graph.steps().size(), kNone);
    before.clear();
    for (uint32_t s = 0; s < graph.steps().size(); ++s)
      for (uint32_t first : rows[s])
        if (std::exchange(seen_by[first], s) != s) before.emplace_back(s, first);
    return before;
  }

  Rows before_;
  Rows after_;
};

int64_t bytes_written(const MemoryGraph& graph, const MemoryGraph::Step& step) {
  int64_t sum = step.scratch;
  for (const MemoryGraph::Use& use : graph.uses(step)) {
    const MemoryGraph::Buffer& buffer = graph.buffers()[use.buffer];
    if (use.writes && buffer.home == Home::kTemporary)
      sum = sum > std::numeric_limits<int64_t>::max() - buffer.bytes
                ? std::numeric_limits<int64_t>::max()
                : sum + buffer.bytes;
  }
  return sum;
}

/// Steps after all that must come before them, from what nobody reads and then from
/// the results. `comes_first` sorts what a step waits for, and the results.
template <class ComesFirst>
std::vector<uint32_t> backwards(const MemoryGraph& graph, const Dependencies& dependencies,
                                ComesFirst&& comes_first) {
  const size_t count = graph.steps().size();
  const std::vector<uint32_t> writer = writers(graph);
  std::vector<bool> gives_result(count, false);
  std::vector<uint32_t> ends;
  for (uint32_t b : graph.results()) {
    if (writer[b] == kNone) continue;
    gives_result[writer[b]] = true;
    ends.push_back(writer[b]);
  }
  std::stable_sort(ends.begin(), ends.end(), comes_first);

  std::vector<uint32_t> order;
  std::vector<bool> done(count, false), open(count, false);
  std::vector<uint32_t> stack, before;
  const auto visit = [&](uint32_t root) {
    stack.push_back(root);
    while (!stack.empty()) {
      const uint32_t s = stack.back();
      if (done[s] || open[s]) {
        stack.pop_back();
        if (!done[s]) order.push_back(s);
        done[s] = true;
        continue;
      }
      open[s] = true;
      before.assign(dependencies.before(s).begin(), dependencies.before(s).end());
      std::stable_sort(before.begin(), before.end(), comes_first);
      for (size_t i = before.size(); i-- > 0;)
        if (!done[before[i]]) stack.push_back(before[i]);
    }
  };
  for (uint32_t s = 0; s < count; ++s)
    if (!gives_result[s] && dependencies.after(s).empty()) visit(s);
  for (uint32_t s : ends) visit(s);
  return order;
}

std::vector<uint32_t> post_order(const MemoryGraph& graph, const Dependencies& dependencies) {
  return backwards(graph, dependencies, [](uint32_t, uint32_t) { return false; });
}

std::vector<uint32_t> depth_first_order(const MemoryGraph& graph,
                                        const Dependencies& dependencies) {
  const size_t count = graph.steps().size();
  // Sums over all paths: doubles, so that they cannot overflow; both have a bound as XLA's do.
  std::vector<double> fan_out(count), bytes(count);
  double all_bytes = 0;
  for (uint32_t s = 0; s < count; ++s) {
    const size_t users = dependencies.after(s).size();
    fan_out[s] = users == 0 ? 0 : static_cast<double>(users - 1);
    bytes[s] = static_cast<double>(bytes_written(graph, graph.steps()[s]));
    all_bytes += bytes[s];
    for (uint32_t before : dependencies.before(s)) {
      fan_out[s] += fan_out[before];
      bytes[s] += bytes[before];
    }
    fan_out[s] = std::min(fan_out[s], static_cast<double>(count));
    bytes[s] = std::min(bytes[s], all_bytes);
  }
  const auto comes_first = [&](uint32_t a, uint32_t b) {
    if (fan_out[a] != fan_out[b]) return fan_out[a] > fan_out[b];
    if (bytes[a] != bytes[b]) return bytes[a] > bytes[b];
    return a < b;
  };

  return backwards(graph, dependencies, comes_first);
}

std::vector<uint32_t> greedy_order(const MemoryGraph& graph, const Dependencies& dependencies) {
  const auto buffers = graph.buffers();
  const size_t count = graph.steps().size();
  Pairs reads, read_by;  // step and temporary, each once, and the other way round
  std::vector<uint32_t> seen_by(buffers.size(), kNone);
  std::vector<double> freed(count);  // less what it writes
  for (uint32_t s = 0; s < count; ++s) {
    freed[s] = -static_cast<double>(bytes_written(graph, graph.steps()[s]));
    for (const MemoryGraph::Use& use : graph.uses(graph.steps()[s])) {
      if (use.writes || buffers[use.buffer].home != Home::kTemporary ||
          std::exchange(seen_by[use.buffer], s) == s)
        continue;
      reads.emplace_back(s, use.buffer);
      read_by.emplace_back(use.buffer, s);
    }
  }
  const Rows read(count, reads);
  const Rows readers(buffers.size(), read_by);
  // Results have a reader that never comes.
  std::vector<size_t> waiting(buffers.size());
  for (uint32_t b = 0; b < buffers.size(); ++b) {
    waiting[b] = readers[b].size() + (buffers[b].is_result ? 1 : 0);
    if (waiting[b] == 1 && !readers[b].empty())
      freed[readers[b][0]] += static_cast<double>(buffers[b].bytes);
  }

  // By bytes freed, then readers; of equals the one that was ready last.
  using Key = std::tuple<double, size_t, uint64_t>;
  std::map<Key, uint32_t> ready;
  std::vector<Key> key(count);
  enum class State : uint8_t { kWaiting, kReady, kDone };
  std::vector<State> state(count, State::kWaiting);
  uint64_t arrivals = 0;
  const auto enter = [&](uint32_t s) {
    state[s] = State::kReady;
    key[s] = {freed[s], dependencies.after(s).size(), arrivals++};
    ready.emplace(key[s], s);
  };
  std::vector<size_t> waits_for(count);
  for (uint32_t s = 0; s < count; ++s) {
    waits_for[s] = dependencies.before(s).size();
    if (waits_for[s] == 0) enter(s);
  }
  std::vector<uint32_t> order;
  while (!ready.empty()) {
    const auto best = std::prev(ready.end());
    const uint32_t s = best->second;
    ready.erase(best);
    state[s] = State::kDone;
    order.push_back(s);
    for (uint32_t after : dependencies.after(s))
      if (--waits_for[after] == 0) enter(after);
    for (uint32_t b : read[s]) {
      if (--waiting[b] != 1) continue;
      for (uint32_t reader : readers[b]) {
        if (state[reader] == State::kDone) continue;
        freed[reader] += static_cast<double>(buffers[b].bytes);
        if (state[reader] != State::kReady) continue;
        ready.erase(key[reader]);
        enter(reader);
      }
    }
  }
  return order;
}

}  // namespace

std::vector<uint32_t> order_as_written(const MemoryGraph& graph) {
  std::vector<uint32_t> order(graph.steps().size());
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

std::vector<uint32_t> post_order(const MemoryGraph& graph) {
  return post_order(graph, Dependencies(graph));
}
std::vector<uint32_t> depth_first_order(const MemoryGraph& graph) {
  return depth_first_order(graph, Dependencies(graph));
}
std::vector<uint32_t> greedy_order(const MemoryGraph& graph) {
  return greedy_order(graph, Dependencies(graph));
}

std::vector<uint32_t> order_for_memory(const MemoryGraph& graph) {
  const Dependencies dependencies(graph);
  std::vector<uint32_t> best = greedy_order(graph, dependencies);
  int64_t least = live_bytes(graph, best);
  const auto consider = [&](std::vector<uint32_t> order) {
    const int64_t bytes = live_bytes(graph, order);
    if (bytes >= least) return;
    least = bytes;
    best = std::move(order);
  };
  consider(depth_first_order(graph, dependencies));
  consider(post_order(graph, dependencies));
  return best;
}

}  // namespace orrery
