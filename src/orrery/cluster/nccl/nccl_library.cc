#include "orrery/cluster/nccl/nccl_library.h"

#include <fmt/format.h>

#include <algorithm>

#include "orrery/cluster/nccl/tuning.h"

namespace orrery {
namespace {

NcclTopology::Generation generation_of(const Device& device) {
  if (device.architecture == "volta") return NcclTopology::kVolta;
  if (device.architecture == "hopper") return NcclTopology::kHopper;
  if (device.architecture == "blackwell") return NcclTopology::kBlackwell;
  return NcclTopology::kAmpere;
}

/// Channels over a network (NCCL 2.27, src/graph/connect.cc): two an adapter, four where a Hopper
/// has less than eight adapters, 16 at most.
double net_channels(const Cluster& cluster, const GroupPlace& place) {
  const double adapters = std::max(1.0, std::floor(static_cast<double>(place.outside->links) *
                                                   place.per_node / cluster.node_size()));
  const bool hopper = generation_of(cluster.device) >= NcclTopology::kHopper;
  return std::min(16.0, adapters * (hopper ? 4 : 2));
}

/// One standard deviation as a prior: how far hosts and their networks differ at least, and as
/// much again of the device where its own links were not measured.
constexpr double kNetSpread = 0.2;
constexpr double kUnmeasuredSpread = 0.2;

}  // namespace

NcclModel::NcclModel(const Cluster& cluster, LinkFit fit, const CollectiveBinding& binding,
                     CustomKernels custom)
    : cluster_(cluster), fit_(std::move(fit)), custom_(custom) {
  const auto& registry = Registry<CollectiveAlgorithm>::instance();
  for (const auto& entry : registry.entries()) {
    Algorithm algorithm{entry.description.name, entry.create(), false, true, {}, {}};
    for (const Protocol p : {Protocol::kLL, Protocol::kLL128, Protocol::kSimple})
      algorithm.in_nccl |= algorithm.code->in_nccl(p);
    if (!algorithm.in_nccl && custom == nullptr) continue;
    algorithm.allowed = binding.algorithm.empty() || binding.algorithm == algorithm.name;
    for (size_t k = 0; k < kMeasuredKindCount; ++k)
      for (size_t p = 0; p < kProtocolCount; ++p)
        algorithm.constants[k][p] =
            fit_.of(static_cast<MeasuredKind>(k), algorithm.name, static_cast<Protocol>(p));
    for (size_t k = 0; k < kCollectiveKindCount; ++k)
      for (size_t p = 0; p < kProtocolCount; ++p) {
        const auto protocol = static_cast<Protocol>(p);
        algorithm.network[k][p] = fit_.network.of(static_cast<CollectiveKind>(k), algorithm.name,
                                                  protocol, algorithm.code->net_share(protocol));
      }
    algorithms_.push_back(std::move(algorithm));
  }
  if (!binding.algorithm.empty() && std::none_of(algorithms_.begin(), algorithms_.end(),
                                                 [](const auto& a) { return a.allowed; })) {
    std::vector<std::string> names;
    for (const Algorithm& a : algorithms_) names.push_back(a.name);
    throw_usage(fmt::format("nccl has no algorithm '{}'{}", binding.algorithm,
                            suggestion(binding.algorithm, names)));
  }
  if (!binding.protocol.empty()) {
    bool known = false;
    for (size_t p = 0; p < kProtocolCount; ++p) {
      allowed_[p] = name(static_cast<Protocol>(p)) == binding.protocol;
      known |= allowed_[p];
    }
    if (!known)
      throw_usage(fmt::format("nccl has no protocol '{}'{}", binding.protocol,
                              suggestion(binding.protocol, {"ll", "ll128", "simple"})));
  } else {
    // NCCL trusts LL128 to keep its lines whole over NVLink of data-centre parts alone.
    const std::string& generation = cluster_.device.architecture;
    allowed_[static_cast<size_t>(Protocol::kLL128)] =
        cluster_.tiers.front().name == "nvlink" &&
        (generation == "volta" || generation == "ampere" || generation == "hopper" ||
         generation == "blackwell");
  }
}

NcclTopology NcclModel::topology(const GroupPlace& place) const {
  NcclTopology t;
  t.generation = generation_of(cluster_.device);
  t.nvlink = place.inside->name != "pcie";
  t.bus_bandwidth = place.inside_bandwidth.value * fit_.bus_share / 1e9;
  t.net_bandwidth = place.outside_bandwidth.value / 1e9;
  t.channels = t.nvlink ? 24 : 2;
  t.ll_scale = fit_.ll_scale;
  t.nvls_bandwidth = t.bus_bandwidth * fit_.nvls_share;
  return t;
}

NcclModel::Choice NcclModel::choose(const CollectiveCall& call, const GroupPlace& place) const {
  if (custom_ != nullptr) {
    if (const std::string_view own = custom_(cluster_, call, place); !own.empty())
      for (size_t a = 0; a < algorithms_.size(); ++a)
        if (algorithms_[a].name == own) return {a, Protocol::kSimple};
  }
  const NcclTopology known = topology(place);
  Choice best;
  double least = INFINITY;
  for (size_t a = 0; a < algorithms_.size(); ++a) {
    const Algorithm& algorithm = algorithms_[a];
    if (!algorithm.in_nccl || !algorithm.allowed ||
        !algorithm.code->takes(call.kind, place, call.type))
      continue;
    for (size_t p = 0; p < kProtocolCount; ++p) {
      const auto protocol = static_cast<Protocol>(p);
      if (!allowed_[p] || !algorithm.code->in_nccl(protocol)) continue;
      const double cost = algorithm.code->nccl_cost(call.kind, call.bytes, place, protocol, known);
      if (cost < least) {
        least = cost;
        best = {a, protocol};
      }
    }
  }
  if (least == INFINITY)
    throw_usage(
        place.inside->shape == FabricShape::kTorus
            ? fmt::format("nccl has no algorithm for a torus, which '{}' of {} is; --library "
                          "alpha-beta runs {} there",
                          place.inside->name, cluster_.name, with_article(call.kind))
            : fmt::format("the algorithm and protocol forced do not take {} of {} ranks on {}",
                          with_article(call.kind), call.group.size, cluster_.name));
  return best;
}

CollectiveWork NcclModel::work(const Choice& choice, const CollectiveCall& call,
                               const GroupPlace& place) const {
  return algorithms_[choice.algorithm].code->work(call.kind, call.bytes, place, choice.protocol);
}

Seconds NcclModel::physical(const Choice& choice, const CollectiveCall& call,
                            const GroupPlace& place) const {
  return physical(choice, call, place,
                  algorithms_[choice.algorithm].network[static_cast<size_t>(call.kind)]
                                                       [static_cast<size_t>(choice.protocol)]);
}

Seconds NcclModel::physical(const Choice& choice, const CollectiveCall& call,
                            const GroupPlace& place, const NetworkConstants& network) const {
  const Algorithm& algorithm = algorithms_[choice.algorithm];
  const Protocol protocol = choice.protocol;
  const CollectiveWork work = this->work(choice, call, place);
  const LinkConstants& c = algorithm.constants[static_cast<size_t>(measured(choice, call.kind))]
                                              [static_cast<size_t>(protocol)];
  const double inside = c.share * place.inside_bandwidth.value;
  double wire = work.wire_inside.value / inside;
  double latency = c.launch_us;
  double fill = 0;
  if (place.nodes > 1) {
    const double outside = network.share * place.outside_bandwidth.value;
    wire = std::max(wire, work.wire_outside.value / outside);
    latency += network.wait_us + work.hops_inside * network.hop * c.hop_us +
               work.hops_outside * algorithm.code->net_hop(protocol);
    // The first chunk comes through hop by hop before all of them work at once. Inside a node
    // the fitted hops hold it.
    const double channels = net_channels(cluster_, place);
    const double chunk =
        std::min(algorithm.code->chunk(protocol).value, call.bytes.value / channels);
    fill = channels * chunk * (work.hops_inside / inside + work.hops_outside / outside);
  } else {
    latency += work.hops_inside * c.hop_us;
  }
  return Seconds(latency * 1e-6 + fill + wire);
}

Seconds NcclModel::time(const Choice& choice, const CollectiveCall& call,
                        const GroupPlace& place) const {
  const Seconds plain = physical(choice, call, place);
  if (place.nodes > 1 || !is_measured(call.kind)) return plain;
  const MeasuredKind kind = measured(choice, call.kind);
  double left = fit_.correction(kind, place.ranks, call.bytes.value);
  if (bit_width(call.type) <= 8) left += fit_.byte_correction(kind, place.ranks, choice.protocol);
  constexpr double kLast = 1ULL << (LinkFit::kFirstOctave + LinkFit::kOctaves - 1);
  if (call.bytes.value <= kLast) return plain * std::exp(left);
  // Beyond what was measured, at the rate of its last octave.
  const auto at = [&](double bytes) {
    CollectiveCall other = call;
    other.bytes = Bytes(bytes);
    return time(choice, other, place);
  };
  const Seconds last = at(kLast);
  return last + (last - at(kLast / 2)) * ((call.bytes.value - kLast) / (kLast / 2));
}

int NcclModel::channels(const Choice& choice, const CollectiveCall& call,
                        const GroupPlace& place) const {
  // NCCL 2.27, src/enqueue.cc: a channel more for so many bytes, by threads and bytes of each.
  constexpr std::array<double, kProtocolCount> kBytes = {512 * 8, 640 * 8, 512 * 64};
  const double most = place.nodes > 1 ? net_channels(cluster_, place) : topology(place).channels;
  double each = kBytes[static_cast<size_t>(choice.protocol)];
  if (choice.protocol == Protocol::kLL) each *= place.ranks;
  return static_cast<int>(std::clamp(std::ceil(call.bytes.value / each), 1.0, most));
}

namespace {

class NcclPredictor final : public CollectivePredictor {
 public:
  NcclPredictor(const Cluster& cluster, const CollectiveBinding& binding)
      : model_(cluster, load_link_fit(cluster, binding.data, "nccl"), binding),
        own_(model_.fit().system == cluster.device.name) {}

  CollectiveEstimate predict(const CollectiveCall& call) const override {
    const GroupPlace place = place_group(model_.cluster(), call.group);
    CollectiveEstimate answer;
    if (place.ranks == 1) {
      answer.algorithm = "none";
      return answer;
    }
    const NcclModel::Choice choice = model_.choose(call, place);
    const CollectiveWork work = model_.work(choice, call, place);
    answer.algorithm = model_.algorithm_name(choice.algorithm);
    answer.protocol = name(choice.protocol);
    answer.channels = model_.channels(choice, call, place);
    answer.sent = work.wire_inside + work.wire_outside / place.per_node;
    answer.estimate.seconds = model_.time(choice, call, place);
    const auto& spreads =
        model_.fit().spreads[static_cast<size_t>(model_.measured(choice, call.kind))];
    const LinkSpread& spread = spreads[static_cast<size_t>(choice.protocol)];
    answer.estimate.skew = static_cast<float>(spread.skew);
    answer.estimate.own_spread = static_cast<float>(spread.spread);
    auto& loadings = answer.estimate.loadings;
    if (!own_ || !is_measured(call.kind))
      loadings[static_cast<size_t>(ErrorFactor::kDevice)] = kUnmeasuredSpread;
    if (place.nodes > 1)
      loadings[static_cast<size_t>(ErrorFactor::kCalibration)] =
          static_cast<float>(std::max(kNetSpread, model_.fit().network.spread));
    return answer;
  }

  CollectiveTrust trust(const CollectiveCall& call) const override {
    return trust_of(model_.fit(), model_.cluster(), call);
  }

  std::vector<std::string> gaps() const override {
    std::vector<std::string> list = model_.cluster().gaps;
    const FabricTier& inside = model_.cluster().tiers.front();
    if (!own_)
      list.push_back(fmt::format(
          "collectives of {} over {} were not measured; constants of {} systems, scaled by the "
          "link's bandwidth",
          model_.cluster().device.name, inside.name, model_.fit().system));
    else if (std::abs(inside.bandwidth.value / model_.fit().bandwidth - 1) > 1e-6)
      list.push_back(fmt::format("constants of {} were measured at {} of {}, and are scaled",
                                 inside.name, format_si(model_.fit().bandwidth, "B/s"),
                                 model_.cluster().device.name));
    if (model_.cluster().tiers.size() > 1)
      list.emplace_back(
          model_.fit().network.constants.empty()
              ? "over several nodes latencies are NCCL's own tuning constants, not measured ones"
              : "over several nodes constants are of logs of two nodes of H100 and of B200; hosts "
                "differ");
    return list;
  }

  std::vector<std::pair<std::string, std::string>> provenance() const override {
    return {{"library", "nccl"},
            {"constants", fmt::format("{} over {}", model_.fit().system, model_.fit().fabric)}};
  }

 private:
  NcclModel model_;
  bool own_;
};

class NcclLibrary final : public CollectiveLibrary {
 public:
  std::unique_ptr<CollectivePredictor> bind(const Cluster& cluster,
                                            const CollectiveBinding& binding) const override {
    return std::make_unique<NcclPredictor>(cluster, binding);
  }
};

const Registration<CollectiveLibrary> kNccl(
    {.name = "nccl",
     .summary = "NCCL's algorithm and protocol of least cost by its own tuning model; the time is "
                "launch + hops · λ + the slower of inside and outside bytes / bandwidth, with "
                "constants fitted to measured tables",
     .source = "NCCL 2.27 (src/graph/tuning.cc, src/enqueue.cc); nccl-tests' times of A100, H100, "
               "H200 and L40S",
     .parameters = {}},
    [] { return std::make_unique<NcclLibrary>(); });

}  // namespace
}  // namespace orrery
