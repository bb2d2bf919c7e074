#ifdef ORRERY_NS3

#include <fmt/format.h>
#include <ns3/callback.h>
#include <ns3/drop-tail-queue.h>
#include <ns3/node.h>
#include <ns3/packet.h>
#include <ns3/point-to-point-channel.h>
#include <ns3/point-to-point-net-device.h>
#include <ns3/simulator.h>
#include <ns3/tag.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <mutex>

#include "orrery/base/error.h"
#include "orrery/cluster/network/joint_system.h"
#include "orrery/cluster/network/network.h"
#include "orrery/cluster/network/turns.h"

namespace orrery::fabric {
namespace {

/// The largest payload of InfiniBand.
constexpr double kPacketBytes = 4096;

/// PPP's header, which ns-3 adds to each packet; taken off the payload.
constexpr uint32_t kHeaderBytes = 2;

/// Packets times hops: about ten minutes.
constexpr double kMostHops = 2e8;

/// Which flow a packet belongs to and how many links lie behind it.
class FlowTag final : public ns3::Tag {
 public:
  static ns3::TypeId GetTypeId() {
    static const ns3::TypeId id =
        ns3::TypeId("orrery::FlowTag").SetParent<ns3::Tag>().AddConstructor<FlowTag>();
    return id;
  }
  ns3::TypeId GetInstanceTypeId() const override { return GetTypeId(); }
  uint32_t GetSerializedSize() const override { return 9; }
  void Serialize(ns3::TagBuffer buffer) const override {
    buffer.WriteU32(flow);
    buffer.WriteU32(hop);
    buffer.WriteU8(last ? 1 : 0);
  }
  void Deserialize(ns3::TagBuffer buffer) override {
    flow = buffer.ReadU32();
    hop = buffer.ReadU32();
    last = buffer.ReadU8() != 0;
  }
  void Print(std::ostream& out) const override { out << flow << ':' << hop; }

  uint32_t flow = 0, hop = 0;
  bool last = false;
};

/// Flows cut into packets that every link passes on in the order they come. A link takes the
/// packets of the flows that start on it in turn, one at a time.
class PacketRun {
 public:
  PacketRun(const Topology& topology, const JointSystem& joint)
      : s_(joint.system),
        turns_(joint.system),
        sent_(joint.system.bytes.size()),
        arrived_(joint.system.bytes.size()),
        runs_(joint.system.bytes.size()),
        feeders_(joint.links.size()) {
    lay(topology, joint.links);
  }

  void run() {
    for (int i = 0; i < s_.size(); ++i)
      ns3::Simulator::Schedule(ns3::Seconds(s_.start[static_cast<size_t>(i)]),
                               &PacketRun::try_start, this, i);
    ns3::Simulator::Run();
  }

  double sent(size_t flow) const { return sent_[flow]; }
  double arrived(size_t flow) const { return arrived_[flow]; }
  int64_t packets() const { return packets_; }

 private:
  struct Feeder {
    ns3::Ptr<ns3::PointToPointNetDevice> device;
    struct Waiting {
      int flow = 0;
      double left = 0;
    };
    std::deque<Waiting> waiting;
    bool busy = false;
  };

  /// A cable has a device at either end, each with the rate of its own direction.
  void lay(const Topology& topology, const std::vector<int>& links) {
    std::map<int, ns3::Ptr<ns3::Node>> nodes;
    std::map<std::pair<int, int>, ns3::Ptr<ns3::PointToPointNetDevice>> opposite;
    const auto node = [&](int vertex) {
      ns3::Ptr<ns3::Node>& made = nodes[vertex];
      if (made == nullptr) made = ns3::CreateObject<ns3::Node>();
      return made;
    };
    const auto device = [&](int vertex, const NetworkLink& link) {
      auto made = ns3::CreateObject<ns3::PointToPointNetDevice>();
      auto queue = ns3::CreateObject<ns3::DropTailQueue<ns3::Packet>>();
      queue->SetMaxSize(ns3::QueueSize(ns3::QueueSizeUnit::PACKETS, UINT32_MAX));
      made->SetQueue(queue);
      made->SetDataRate(ns3::DataRate(static_cast<uint64_t>(link.bandwidth.value * 8)));
      made->SetAddress(ns3::Mac48Address::Allocate());
      node(vertex)->AddDevice(made);
      made->SetReceiveCallback(ns3::MakeCallback(&PacketRun::receive, this));
      made->TraceConnectWithoutContext("PhyTxEnd", ns3::MakeCallback(&PacketRun::left, this));
      return made;
    };
    for (size_t l = 0; l < links.size(); ++l) {
      const NetworkLink& link = topology.links()[static_cast<size_t>(links[l])];
      auto& own = opposite[{link.from, link.to}];
      if (own == nullptr) {
        auto channel = ns3::CreateObject<ns3::PointToPointChannel>();
        channel->SetAttribute("Delay", ns3::TimeValue(ns3::Seconds(link.latency.value)));
        own = device(link.from, link);
        auto& other = opposite[{link.to, link.from}];
        other = device(link.to, link);
        own->Attach(channel);
        other->Attach(channel);
      }
      own->SetDataRate(ns3::DataRate(static_cast<uint64_t>(link.bandwidth.value * 8)));
      feeders_[l].device = own;
    }
  }

  Feeder& first_feeder(size_t flow) {
    return feeders_[static_cast<size_t>(s_.link[static_cast<size_t>(s_.first_link[flow])])];
  }

  void try_start(int flow) {
    const auto i = static_cast<size_t>(flow);
    const double now = ns3::Simulator::Now().GetSeconds();
    if (runs_[i] != 0 || s_.start[i] > now + 1e-12 || !turns_.may_start(flow)) return;
    if (s_.first_link[i] == s_.first_link[i + 1]) {
      sent_[i] = arrived_[i] = now;
      wake([&](std::vector<int>& woken) {
        turns_.send(flow, woken);
        turns_.arrive(flow, woken);
      });
      return;
    }
    runs_[i] = 1;
    Feeder& feeder = first_feeder(i);
    feeder.waiting.push_back({flow, s_.bytes[i]});
    if (!feeder.busy) feed(&feeder);
  }

  void feed(Feeder* feeder) {
    if (feeder->waiting.empty()) {
      feeder->busy = false;
      return;
    }
    feeder->busy = true;
    Feeder::Waiting next = feeder->waiting.front();
    feeder->waiting.pop_front();
    const double size = std::min(next.left, kPacketBytes);
    next.left -= size;
    FlowTag tag;
    tag.flow = static_cast<uint32_t>(next.flow);
    tag.last = next.left <= 0;
    auto packet = ns3::Create<ns3::Packet>(
        std::max(static_cast<uint32_t>(std::ceil(size)), kHeaderBytes) - kHeaderBytes);
    packet->AddPacketTag(tag);
    if (!tag.last) feeder->waiting.push_back(next);
    ++packets_;
    pass_on(feeder->device, packet);
  }

  static void pass_on(const ns3::Ptr<ns3::PointToPointNetDevice>& device,
                      const ns3::Ptr<ns3::Packet>& packet) {
    constexpr uint16_t kIpv4 = 0x0800;  // Any type that PPP has a number for.
    if (!device->Send(packet, device->GetBroadcast(), kIpv4))
      throw_internal("ns-3 dropped a packet");
  }

  /// A link has put a packet's last bit on the wire.
  void left(ns3::Ptr<const ns3::Packet> packet) {
    FlowTag tag;
    if (!packet->PeekPacketTag(tag) || tag.hop != 0) return;
    const size_t flow = tag.flow;
    // Later in the same instant, once ns-3 has set the device free.
    ns3::Simulator::ScheduleNow(&PacketRun::feed, this, &first_feeder(flow));
    if (!tag.last) return;
    runs_[flow] = 0;
    sent_[flow] = ns3::Simulator::Now().GetSeconds();
    wake([&](std::vector<int>& woken) { turns_.send(static_cast<int>(flow), woken); });
  }

  bool receive(ns3::Ptr<ns3::NetDevice> /*device*/, ns3::Ptr<const ns3::Packet> packet,
               uint16_t /*protocol*/, const ns3::Address& /*from*/) {
    FlowTag tag;
    ns3::Ptr<ns3::Packet> copy = packet->Copy();
    copy->RemovePacketTag(tag);
    const size_t flow = tag.flow;
    const auto way = s_.links_of(static_cast<int>(flow));
    if (++tag.hop < way.size()) {
      copy->AddPacketTag(tag);
      pass_on(feeders_[static_cast<size_t>(way[tag.hop])].device, copy);
    } else if (tag.last) {
      arrived_[flow] = ns3::Simulator::Now().GetSeconds();
      wake([&](std::vector<int>& woken) { turns_.arrive(static_cast<int>(flow), woken); });
    }
    return true;
  }

  template <class Count>
  void wake(Count count) {
    std::vector<int> woken;
    count(woken);
    for (const int flow : woken) ns3::Simulator::ScheduleNow(&PacketRun::try_start, this, flow);
  }

  const FlowSystem& s_;
  Turns turns_;
  std::vector<double> sent_, arrived_;
  std::vector<char> runs_;
  std::vector<Feeder> feeders_;
  int64_t packets_ = 0;
};

class PacketNetwork final : public Network {
 public:
  NetworkAnswer run(const Topology& topology, const std::vector<Job>& jobs,
                    const NetworkOptions& /*options*/) const override {
    // ns-3 has one simulator a process.
    static std::mutex one_at_a_time;
    const std::lock_guard<std::mutex> lock(one_at_a_time);
    static const bool resolution = (ns3::Time::SetResolution(ns3::Time::PS), true);
    (void)resolution;

    NetworkAnswer answer;
    answer.rank_finish.resize(static_cast<size_t>(topology.ranks()));
    answer.job_finish.resize(jobs.size());
    answer.link_bytes.resize(topology.links().size());
    std::vector<RemainingJob> all;
    for (size_t j = 0; j < jobs.size(); ++j) {
      std::vector<double> ready(static_cast<size_t>(topology.ranks()), 0);
      for (size_t r = 0; r < std::min(ready.size(), jobs[j].ready.size()); ++r)
        ready[r] = jobs[j].ready[r].value;
      all.push_back({j, 0, std::move(ready)});
    }
    const JointSystem joint = join_phases(topology, jobs, all);
    count_bytes(joint, answer);

    PacketRun packets(topology, joint);
    packets.run();
    ns3::Simulator::Destroy();
    answer.work.flows = joint.system.size();
    answer.work.events = packets.packets();
    const auto finish = [&](size_t job, int rank, double time) {
      Seconds& of_rank = answer.rank_finish[static_cast<size_t>(rank)];
      of_rank = std::max(of_rank, Seconds(time));
      answer.job_finish[job] = std::max(answer.job_finish[job], Seconds(time));
      answer.time = std::max(answer.time, Seconds(time));
    };
    for (const JointSystem::Part& part : joint.parts)
      for (size_t i = 0; i < part.phase.transfers.size(); ++i) {
        const size_t flow = static_cast<size_t>(part.first) + i;
        finish(part.job, part.phase.transfers[i].source, packets.sent(flow));
        finish(part.job, part.phase.transfers[i].destination, packets.arrived(flow));
      }
    return answer;
  }

 private:
  static void count_bytes(const JointSystem& joint, NetworkAnswer& answer) {
    const FlowSystem& s = joint.system;
    double hops = 0;
    for (int i = 0; i < s.size(); ++i) {
      const auto at = static_cast<size_t>(i);
      const double bytes = s.bytes[at] * static_cast<double>(s.repeat[at]);
      for (const int l : s.links_of(i)) {
        answer.link_bytes[static_cast<size_t>(joint.links[static_cast<size_t>(l)])] += Bytes(bytes);
        hops += static_cast<double>(s.repeat[at]) * std::ceil(s.bytes[at] / kPacketBytes);
      }
    }
    if (hops > kMostHops)
      throw_infeasible(
          fmt::format("{:.0f} million packets over links are too many for ns-3; use "
                      "the flow network",
                      hops / 1e6));
  }
};

const Registration<Network> kPacket(
    {.name = "packet",
     .summary = "packets of 4 KiB through ns-3: links pass them on whole, first come first served, "
                "and lose none; t = bytes / bandwidth + Σ over hops (packet / bandwidth + latency) "
                "where nothing else is on the way",
     .source = "Riley and Henderson, The ns-3 network simulator, 2010; ns-3.37",
     .parameters = {{"packet", kPacketBytes, "bytes of a packet (InfiniBand's largest)"}}},
    [] { return std::make_unique<PacketNetwork>(); });

}  // namespace
}  // namespace orrery::fabric

#endif  // ORRERY_NS3
