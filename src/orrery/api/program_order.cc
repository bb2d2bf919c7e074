#include "orrery/api/program_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <deque>
#include <set>
#include <unordered_map>

namespace orrery {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// "model.py:12"
bool is_place_in_file(std::string_view text) {
  const size_t colon = text.rfind(':');
  return colon != std::string_view::npos && is_number(text.substr(colon + 1)) &&
         text.find('.') < colon;
}

/// Calls and loop bodies that are entered for each launch, at most.
constexpr double kVisitsOfALaunch = 16;

class Walk {
 public:
  Walk(const Workload& workload, std::span<const Launch> launches, ProgramOrder& order)
      : w_(workload),
        launches_(launches),
        order_(order),
        absolute_(workload.format() == "hlo"),
        names_operations_(workload.format() != "zoo" && workload.format() != "huggingface"),
        left_(launches.size()) {
    find_regions();
    find_anchors();
    visits_left_ = static_cast<double>(w_.regions().size()) + kVisitsOfALaunch * total_left_;
  }

  void run() {
    if (w_.entry().valid() && w_.function(w_.entry()).body.valid())
      visit(w_.function(w_.entry()).body, 0);
    // What no walk reaches still takes its time.
    for (uint32_t i = 0; i < launches_.size(); ++i)
      while (left_[i] > 0)
        emit(i, launches_[i].op.valid() ? part_of(launches_[i].op, 0) : 0,
             order_.folded ? left_[i] : std::min(1.0, left_[i]));
  }

 private:
  void find_regions() {
    region_of_.assign(w_.ops().size(), UINT32_MAX);
    for (uint32_t r = 0; r < w_.regions().size(); ++r)
      for_each_op(w_, w_.regions()[r], [&](OpId op) { region_of_[op.index] = r; });
  }

  /// A kernel runs where its last operation stands but is named after another of it: in
  /// each region launches are in the order they run, so none goes before its predecessor.
  void find_anchors() {
    std::unordered_map<uint32_t, uint32_t> latest;  // by region
    for (uint32_t i = 0; i < launches_.size(); ++i) {
      if (launches_[i].count <= 0) continue;
      left_[i] = launches_[i].count;
      total_left_ += left_[i];
      const uint32_t op = launches_[i].op.index;
      if (!launches_[i].op.valid() || op >= region_of_.size()) continue;  // belongs to none
      std::deque<uint32_t>& queue = queues_[op];
      if (queue.empty()) {
        uint32_t& last = latest.emplace(region_of_[op], op).first->second;
        last = std::max(last, op);
        anchors_[last].push_back(op);
      }
      queue.push_back(i);
    }
  }

  /// Whether anything is launched in `region` or in what it calls.
  bool runs(RegionId region) {
    const auto [at, added] = runs_.emplace(region.index, false);
    if (!added) return at->second;
    bool found = false;
    for_each_op(w_, w_.region(region), [&](OpId op) {
      found = found || anchors_.contains(op.index);
      for (RegionId body : w_.view(op).bodies()) found = runs(body) || found;
    });
    runs_[region.index] = found;
    return found;
  }

  struct Event {
    OpId op;
    std::vector<RegionId> bodies;
    double times = 1;
  };
  const std::vector<Event>& events(RegionId region) {
    const auto [at, added] = events_.emplace(region.index, std::vector<Event>{});
    if (!added) return at->second;
    std::vector<Event> found;
    for_each_op(w_, w_.region(region), [&](OpId id) {
      Event event{id, {}, 1};
      const OpView op = w_.view(id);
      for (RegionId body : op.bodies())
        if (runs(body)) event.bodies.push_back(body);
      if (op.code() == Opcode::k_while)
        event.times = static_cast<double>(std::max<int64_t>(0, op.integer(Attr::kTripCount, 1)));
      if (!event.bodies.empty() || anchors_.contains(id.index)) found.push_back(std::move(event));
    });
    return events_[region.index] = std::move(found);
  }

  void visit(RegionId region, uint32_t part) {
    if (order_.folded && !visited_.insert(region.index).second) return;
    if (--visits_left_ < 0 || total_left_ <= 0) return;
    std::map<std::string, int> calls;
    // References into an unordered map stay valid while it grows.
    const bool is_entry = region == w_.function(w_.entry()).body;
    for (const Event& event : events(region)) {
      if (is_entry) step_ = event.op;
      if (!event.bodies.empty()) {
        const uint32_t inner = part_of_body(event, part, calls);
        const double times = order_.folded ? 1 : event.times;
        for (double i = 0; i < times && visits_left_ > 0 && total_left_ > 0; ++i)
          for (RegionId body : event.bodies) visit(body, inner);
      }
      const auto anchored = anchors_.find(event.op.index);
      if (anchored == anchors_.end()) continue;
      for (uint32_t op : anchored->second) fire(op, part);
    }
  }

  void fire(uint32_t op, uint32_t part) {
    std::deque<uint32_t>& queue = queues_[op];
    while (!queue.empty() && left_[queue.front()] <= 0) queue.pop_front();
    if (queue.empty()) return;
    // An operation may take several kernels, one behind the other; the same one again is that of
    // another call.
    const uint32_t first = queue.front();
    for (uint32_t launch = first; launch < launches_.size() && launches_[launch].op.index == op &&
                                  launches_[launch].count == launches_[first].count;
         ++launch) {
      if (launch > first && launches_[launch].kernel == launches_[first].kernel) break;
      if (left_[launch] <= 0) continue;
      const double count = order_.folded ? left_[launch] : std::min(1.0, left_[launch]);
      emit(launch, part_of(OpId{op}, part), count);
    }
  }

  void emit(uint32_t launch, uint32_t part, double count) {
    order_.launches.push_back({launch, part, count, step_});
    left_[launch] -= count;
    total_left_ -= count;
  }

  std::string_view scope(const OpView& op) const {
    const std::string_view scope = op.string(Attr::kScope);
    return scope.empty() && w_.format() == "stablehlo" ? w_.string(op.raw().name) : scope;
  }

  uint32_t part_of(OpId id, uint32_t part) {
    if (absolute_) part = 0;
    const std::string_view text = scope(w_.view(id));
    if (text.empty()) return part;
    for (const std::string& name : split_scope(text, names_operations_))
      part = order_.parts.child(part, name);
    return part;
  }

  uint32_t part_of_body(const Event& event, uint32_t part, std::map<std::string, int>& calls) {
    const OpView op = w_.view(event.op);
    const FunctionId callee = op.callee();
    if (op.code() == Opcode::k_while) {
      // The operations of a named loop name it themselves.
      if (!scope(op).empty()) return part;
      return order_.parts.child(part, fmt::format("loop of {:.0f}", event.times));
    }
    if (!callee.valid() || absolute_) return part;
    if (!names_operations_ && !scope(op).empty()) return part_of(event.op, part);
    part = part_of(event.op, part);
    std::string name(w_.string(w_.function(callee).name));
    if (const int before = calls[name]++; before > 0 && !order_.folded)
      name += fmt::format(" #{}", before + 1);
    return order_.parts.child(part, name);
  }

  const Workload& w_;
  std::span<const Launch> launches_;
  ProgramOrder& order_;
  const bool absolute_;          ///< Names of operations tell the whole way from the entry.
  const bool names_operations_;  ///< The last part of a name is the operation itself.
  std::vector<double> left_;     ///< Of each launch, how often it is still to run.
  double total_left_ = 0;
  /// Branches that are not taken run nothing, but their loops and calls would be followed
  /// however often they say. What is not reached within this is placed at the end.
  double visits_left_ = 0;
  OpId step_;
  std::vector<uint32_t> region_of_;
  std::unordered_map<uint32_t, std::deque<uint32_t>> queues_;    ///< Launches by their operation.
  std::unordered_map<uint32_t, std::vector<uint32_t>> anchors_;  ///< Where those run.
  std::unordered_map<uint32_t, bool> runs_;
  std::unordered_map<uint32_t, std::vector<Event>> events_;
  std::set<uint32_t> visited_;
};

}  // namespace

uint32_t PartTree::child(uint32_t parent, std::string_view name) {
  const auto [at, added] =
      known_.emplace(std::pair(parent, std::string(name)), static_cast<uint32_t>(parts_.size()));
  if (added) parts_.push_back({std::string(name), parent});
  return at->second;
}

std::vector<std::string> split_scope(std::string_view scope, bool names_operation) {
  std::vector<std::string> parts;
  if (is_place_in_file(scope)) {
    parts.emplace_back(scope.substr(scope.rfind('/') + 1));
    return parts;
  }
  while (!scope.empty()) {
    const size_t end = std::min(scope.find('/'), scope.size());
    const std::string_view part = scope.substr(0, end);
    scope.remove_prefix(std::min(end + 1, scope.size()));
    if (part.empty()) continue;
    if (names_operation && scope.empty()) break;
    if (is_number(part) && !parts.empty())
      parts.back() += "." + std::string(part);
    else
      parts.emplace_back(part);
  }
  return parts;
}

ProgramOrder order_program(const Workload& workload, std::span<const Launch> launches,
                           double most) {
  ProgramOrder order{{}, PartTree(workload.name()), false};
  double total = 0;
  for (const Launch& launch : launches) total += launch.count;
  order.folded = total > most;
  Walk(workload, launches, order).run();
  return order;
}

}  // namespace orrery
