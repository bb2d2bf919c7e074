#include "orrery/cluster/astra/custom_steps.h"

#include <fmt/format.h>

#include "orrery/base/error.h"

namespace orrery::astra {

using chakra::NodeType;
using chakra::TraceNode;

CustomSteps::CustomSteps(Machine& machine, Agenda& agenda, int rank, uint32_t stream,
                         const chakra::Trace& trace, StepPort& port)
    : machine_(&machine),
      agenda_(&agenda),
      rank_(rank),
      stream_(stream),
      trace_(&trace),
      port_(port),
      left_(trace.nodes().size()) {
  for (uint32_t i = 0; i < trace.nodes().size(); ++i) waits_.push_back(trace.dependencies(i));
  if (left_ == 0) throw_input(trace.file(), "a custom collective without nodes");
}

void CustomSteps::start() {
  std::vector<uint32_t> ready;
  for (uint32_t i = 0; i < waits_.size(); ++i)
    if (waits_[i] == 0) ready.push_back(i);
  issue_all(ready);
}

void CustomSteps::issue_all(const std::vector<uint32_t>& nodes) {
  for (uint32_t node : nodes) issue(node);
}

void CustomSteps::issue(uint32_t index) {
  const TraceNode& node = trace_->nodes()[index];
  const Handler handler = {Handler::Kind::kCustom, static_cast<uint32_t>(rank_), stream_, index};
  const bool send = node.type == NodeType::kCommSend;
  if (send || node.type == NodeType::kCommRecv) {
    const int peer = send ? node.destination : node.source;
    if (peer < 0 || peer >= machine_->ranks || peer == rank_)
      trace_->fail(index, fmt::format("{}: no other rank {} to {}", trace_->named(index), peer,
                                      send ? "send to" : "receive from"));
    if (send)
      machine_->transport.send(rank_, peer, node.tag, node.comm_bytes, handler);
    else
      machine_->transport.receive(peer, rank_, node.tag, node.comm_bytes, handler);
  } else if (node.type == NodeType::kComp) {
    const uint64_t delay = node.duration_us == 0 ? 1 : node.duration_us * 1000;
    agenda_->schedule(delay, {RankEvent::Kind::kCustomDone, stream_, index, 0});
  } else {
    trace_->fail(index, fmt::format("{}: a {} in a custom collective is not modelled",
                                    trace_->named(index), name(node.type)));
  }
}

void CustomSteps::node_done(uint32_t node) {
  --left_;
  std::vector<uint32_t> ready;
  for (uint32_t child : trace_->children(node))
    if (--waits_[child] == 0) ready.push_back(child);
  issue_all(ready);
  if (left_ == 0) port_.finish();
}

void CustomSteps::released() { throw_internal("a custom collective hands nothing over"); }
void CustomSteps::received() { throw_internal("a custom collective receives by node"); }

}  // namespace orrery::astra
