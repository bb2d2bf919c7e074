#include "orrery/api/asynchronous_collectives.h"

#include <algorithm>
#include <map>

namespace orrery {
namespace {

bool starts(const OpView& op) {
  return op.integer(Attr::kAsync, 0) == 1 || op.code() == Opcode::k_async_start;
}
bool ends(const OpView& op) {
  return op.integer(Attr::kAsync, 0) == 2 || op.code() == Opcode::k_async_done;
}

}  // namespace

AsynchronousCollectives::AsynchronousCollectives(const Workload& w, const Program& program,
                                                 const std::vector<bool>& collectives)
    : launches_(program.launches.size()) {
  std::vector<uint32_t> region_of(w.ops().size(), UINT32_MAX);
  std::vector<uint32_t> function_of(w.ops().size(), UINT32_MAX);
  for (uint32_t r = 0; r < w.regions().size(); ++r)
    for_each_op(w, w.regions()[r], [&](OpId id) { region_of[id.index] = r; });
  for (uint32_t f = 0; f < w.functions().size(); ++f) {
    if (!w.functions()[f].body.valid()) continue;
    const Region& body = w.region(w.functions()[f].body);
    std::fill(function_of.begin() + body.first_op, function_of.begin() + body.end_op, f);
  }
  std::map<uint32_t, uint32_t> start_of_value, end_of_start, start_of_callee;
  for (uint32_t i = 0; i < w.ops().size(); ++i) {
    const OpView op = w.view(OpId{i});
    uint32_t start = UINT32_MAX;
    if (starts(op)) {
      start = i;
      if (const FunctionId callee = op.callee();
          op.code() == Opcode::k_async_start && callee.valid())
        start_of_callee.emplace(callee.index, i);
    } else if ((ends(op) || op.code() == Opcode::k_async_update) && op.operand_count() > 0) {
      const auto from = start_of_value.find(op.operand(0).index);
      if (from == start_of_value.end()) continue;
      start = from->second;
      if (ends(op)) end_of_start.emplace(start, i);
    }
    if (start == UINT32_MAX || ends(op)) continue;
    for (uint32_t k = 0; k < op.result_count(); ++k) start_of_value[op.result(k).index] = start;
  }

  struct Window {
    size_t launch;
    uint32_t start;
    uint32_t end;
  };
  std::map<uint32_t, std::vector<Window>> by_region;
  std::vector<bool> asynchronous(launches_);
  for (size_t l = 0; l < launches_; ++l) {
    if (!collectives[l]) continue;
    uint32_t start = program.launches[l].op.index;
    if (!starts(w.view(OpId{start}))) {
      const auto from = start_of_callee.find(function_of[start]);
      if (from == start_of_callee.end()) continue;
      start = from->second;
    }
    const auto end = end_of_start.find(start);
    if (end == end_of_start.end() || region_of[end->second] != region_of[start]) continue;
    by_region[region_of[start]].push_back({l, start, end->second});
    asynchronous[l] = true;
    ++count_;
  }

  for (const auto& [r, windows] : by_region) {
    const Region& region = w.regions()[r];
    const double runs = std::max(1e-300, program.launches[windows.front().launch].count);
    std::vector<Event> events;
    for (size_t l = 0; l < launches_; ++l) {
      const Launch& launch = program.launches[l];
      if (launch.op.index < region.first_op || launch.op.index >= region.end_op) continue;
      // One of an inner region is as long as what its own region leaves of it.
      if (asynchronous[l] && region_of[launch.op.index] == r) continue;
      const double times = launch.count / runs;
      events.push_back({launch.op.index,
                        collectives[l] ? Event::Kind::kCollective : Event::Kind::kKernel, l,
                        collectives[l] ? times : times * launch.times,
                        collectives[l] ? 0 : times * launch.hidden.value});
    }
    for (const Window& window : windows) {
      events.push_back({window.start, Event::Kind::kStart, window.launch, 1, 0});
      events.push_back({window.end, Event::Kind::kDone, window.launch, 1, 0});
    }
    std::ranges::stable_sort(events, {}, &Event::op);
    regions_.push_back(std::move(events));
  }
  std::ranges::stable_sort(regions_, [](const auto& a, const auto& b) {
    return a.back().op - a.front().op < b.back().op - b.front().op;
  });
}

void AsynchronousCollectives::hide(std::span<Estimate> estimates) const {
  std::vector<double> finish(launches_);
  for (const std::vector<Event>& events : regions_) {
    double compute = 0, network = 0;
    for (const Event& e : events) {
      Seconds& own = estimates[e.launch].seconds;
      switch (e.kind) {
        case Event::Kind::kKernel:
          compute += std::max(0.0, own.value * e.times - e.hidden);
          break;
        case Event::Kind::kCollective:
          compute = network = std::max(compute, network) + own.value * e.times;
          break;
        case Event::Kind::kStart:
          network = finish[e.launch] = std::max(compute, network) + own.value;
          break;
        case Event::Kind::kDone: {
          const double wait = std::max(0.0, finish[e.launch] - compute);
          own = Seconds(wait);
          compute += wait;
          break;
        }
      }
    }
  }
}

}  // namespace orrery
