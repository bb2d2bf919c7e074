#include "orrery/cluster/vllm/custom_all_reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace orrery {

std::string_view vllm_custom_kernel(const Cluster& cluster, const CollectiveCall& call,
                                    const GroupPlace& place) {
  constexpr double kKibi = 1024;
  constexpr double kMebi = 1024 * kKibi;
  if (call.kind != CollectiveKind::kAllReduce || place.nodes > 1 || place.ranks > 8 ||
      place.ranks % 2 != 0 || std::fmod(call.bytes.value, 16) != 0)
    return "";
  // Without NVLink two GPUs reach each other over PCIe, more do not.
  if (place.inside->name == "pcie" && place.ranks > 2) return "";
  // vLLM 0.24, vllm/distributed/device_communicators/all_reduce_utils.py: with symmetric memory on
  // Hopper; else below 8 MiB.
  const bool hopper = cluster.device.architecture == "hopper";
  const bool taken = hopper ? call.bytes.value <= (place.ranks == 4 ? 32 : 64) * kMebi
                            : call.bytes.value < 8 * kMebi;
  if (!taken) return "";
  if (place.ranks == 2) return "one-shot";
  return call.bytes.value < (place.ranks == 4 ? 512 : 256) * kKibi ? "one-shot" : "two-shot";
}

namespace {

constexpr double kUnmeasuredSpread = 0.2;

class CustomPredictor final : public CollectivePredictor {
 public:
  CustomPredictor(const Cluster& cluster, const CollectiveBinding& binding, bool eager)
      : model_(cluster, load_link_fit(cluster, binding.data, "vllm"), binding, vllm_custom_kernel),
        nccl_(Registry<CollectiveLibrary>::instance()
                  .at("nccl", "library")
                  .create()
                  ->bind(cluster, binding)),
        own_(model_.fit().system == cluster.device.name),
        eager_(eager) {}

  CollectiveEstimate predict(const CollectiveCall& call) const override {
    const GroupPlace place = place_group(model_.cluster(), call.group);
    // Only all-reduces of one node were measured here; the rest is NCCL's as it is.
    if (call.kind != CollectiveKind::kAllReduce || place.nodes > 1 || place.ranks == 1)
      return nccl_->predict(call);
    const NcclModel::Choice choice = model_.choose(call, place);
    CollectiveEstimate answer;
    answer.algorithm = model_.algorithm_name(choice.algorithm);
    const bool custom = answer.algorithm.ends_with("-shot");
    answer.protocol = custom ? "" : name(choice.protocol);
    answer.channels = custom ? 0 : model_.channels(choice, call, place);
    answer.sent = model_.work(choice, call, place).wire_inside;
    Seconds time = model_.time(choice, call, place);
    if (eager_) time = eager_time(time, answer.algorithm, call.bytes);
    answer.estimate.seconds = time;
    const LinkSpread& spread =
        model_.fit().spreads[static_cast<size_t>(model_.measured(choice, call.kind))]
                            [static_cast<size_t>(choice.protocol)];
    answer.estimate.skew = static_cast<float>(spread.skew);
    answer.estimate.own_spread = static_cast<float>(spread.spread);
    if (!own_)
      answer.estimate.loadings[static_cast<size_t>(ErrorFactor::kDevice)] = kUnmeasuredSpread;
    return answer;
  }

  CollectiveTrust trust(const CollectiveCall& call) const override {
    const bool here = call.kind == CollectiveKind::kAllReduce &&
                      place_group(model_.cluster(), call.group).nodes == 1;
    return here ? trust_of(model_.fit(), model_.cluster(), call) : nccl_->trust(call);
  }

  std::vector<std::string> gaps() const override {
    std::vector<std::string> list = nccl_->gaps();
    if (!own_)
      list.push_back(
          fmt::format("vLLM's all-reduce was not measured on {}; constants of {} systems",
                      model_.cluster().device.name, model_.fit().system));
    return list;
  }
  std::vector<std::pair<std::string, std::string>> provenance() const override {
    return {{"library", eager_ ? "vllm-eager" : "vllm-custom"},
            {"constants", fmt::format("{} over {}", model_.fit().system, model_.fit().fabric)}};
  }

 private:
  Seconds eager_time(Seconds graph, std::string_view algorithm, Bytes bytes) const {
    const LinkFit& fit = model_.fit();
    auto host = fit.eager_host_us.find(algorithm);
    if (host == fit.eager_host_us.end()) host = fit.eager_host_us.find("other");
    const double least = host == fit.eager_host_us.end() ? 0 : host->second * 1e-6;
    const double memory = model_.cluster().device.main_memory().bandwidth.value;
    const double copy =
        fit.eager_copy_share > 0 ? 2 * bytes.value / (fit.eager_copy_share * memory) : 0;
    return Seconds(std::max(least, graph.value + copy));
  }

  NcclModel model_;
  std::unique_ptr<CollectivePredictor> nccl_;
  bool own_;
  bool eager_;
};

class CustomLibrary final : public CollectiveLibrary {
 public:
  explicit CustomLibrary(bool eager) : eager_(eager) {}
  std::unique_ptr<CollectivePredictor> bind(const Cluster& cluster,
                                            const CollectiveBinding& binding) const override {
    return std::make_unique<CustomPredictor>(cluster, binding, eager_);
  }

 private:
  bool eager_;
};

const Registration<CollectiveLibrary> kCustom(
    {.name = "vllm-custom",
     .summary = "vLLM's own all-reduce in a CUDA graph: one-shot for small buffers, two-shot for "
                "larger ones, NCCL beyond and for all else",
     .source = "vLLM 0.14 and 0.24; aiconfigurator's times of A100, H100, H200 and L40S",
     .parameters = {}},
    [] { return std::make_unique<CustomLibrary>(false); });
const Registration<CollectiveLibrary> kEager(
    {.name = "vllm-eager",
     .summary = "The same launched by the host one by one: the longer of the host's time and the "
                "graph's with a copy of the buffer, 2 S / memory bandwidth",
     .source = "vLLM 0.14 and 0.24; aiconfigurator's times of A100, H100, H200 and L40S",
     .parameters = {}},
    [] { return std::make_unique<CustomLibrary>(true); });

}  // namespace
}  // namespace orrery
