#include "orrery/model/priority_fusion.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <queue>

namespace orrery {
namespace {

// XLA's own constants (gpu_performance_model_base.h, gpu_fusible.h).
constexpr double kLaunchSeconds = 1e-6;
constexpr double kOverlap = 0.95;
constexpr double kL2Speedup = 2.5;
constexpr double kL1Speedup = 8;
constexpr double kL1Bytes = 2048;             ///< Counted on, per core.
constexpr double kBytesPerClock = 32;         ///< A core's memory transaction.
constexpr double kSignificantReduction = 16;  ///< Elements a result; smaller ones run in loops.
constexpr size_t kMostOperands = 96;
/// Operations in a kernel, in place of XLA's limit on the code it emits.
constexpr size_t kMostOperations = 256;
/// Places an element can be computed from that are told apart; further ones count as the last.
constexpr size_t kMostPlaces = 32;
constexpr double kElementsPerBlock = 512;  ///< 128 threads of four.
constexpr double kConcatenationWork = 6;   ///< An element: a comparison and a branch.

}  // namespace

class PriorityFusion::Queue {
 public:
  Queue(const Workload& w, const Device& device, const FusionGraph& graph,
        const std::vector<bool>& held, const std::vector<bool>& closed)
      : w_(w),
        g_(graph),
        held_(held),
        closed_(closed),
        kernels_(graph.nodes.size()),
        readers_(graph.values.size()),
        version_(graph.nodes.size(), 0),
        producers_(graph.nodes.size()),
        seen_node_(graph.nodes.size(), 0),
        place_of_node_(graph.nodes.size(), 0),
        seen_value_(graph.values.size(), 0),
        place_of_value_(graph.values.size(), 0) {
    bandwidth_ = std::max(1.0, device.main_memory().bandwidth.value);
    cores_ = std::max(1.0, static_cast<double>(device.compute_units));
    // Where no clock is published, one block may take all there is.
    clock_ = device.clock.value > 0 ? device.clock.value : bandwidth_ / kBytesPerClock;
    const double rate = device.vector[ElementType::kF32].value;
    work_per_core_ = (rate > 0 ? rate : 10 * bandwidth_) / cores_;
    if (const MemoryLevel* l2 = device.level("l2")) l2_bytes_ = l2->capacity.value;
  }

  void run() {
    for (uint32_t n = 0; n < kernels_.size(); ++n) {
      const FusionNode& node = g_.nodes[n];
      if (node.kind == FusionKind::kControl) continue;
      producers_[n].eligible = !held_[n] && node.kind == FusionKind::kFusible &&
                               node.outputs.size() == 1 &&
                               node.code != Opcode::k_dynamic_update_slice;
      kernels_[n].stored = true;
      measure(n);
    }
    for (uint32_t n = 0; n < kernels_.size(); ++n) attach(n);
    for (uint32_t n = 0; n < kernels_.size(); ++n) prioritise(n);
    while (!queue_.empty()) {
      const Candidate next = queue_.top();
      queue_.pop();
      if (version_[next.node] == next.version) fuse(next.node);
    }
  }

  bool stored(uint32_t n) const { return kernels_[n].stored; }

  bool pays_to_return(uint32_t n, uint32_t reader) const {
    const Kernel& producer = kernels_[n];
    if (!producer.stored || !kernels_[reader].stored) return true;
    const uint32_t value = g_.nodes[n].outputs[0];
    const Access* link = find(kernels_[reader], value);
    if (link == nullptr) return true;
    const double blocks = this->blocks(reader, std::min(producer.bits, kernels_[reader].bits));
    // By then constants are part of the kernels that use them.
    double alone = producer.write;
    double inside = 0;
    for (const Access& a : producer.operands) {
      const double read = a.times * bytes(a.value);
      alone += read_seconds(bytes(a.value), read, producer.blocks);
      inside += read_seconds(bytes(a.value), link->times * read, blocks);
    }
    const double fused = together(producer.work * link->times, blocks, inside) + producer.write;
    return fused <=
           kLaunchSeconds + together(producer.work, producer.blocks, alone) +
               read_seconds(bytes(value), link->times * bytes(value), kernels_[reader].blocks);
  }

 private:
  struct Access {
    uint32_t value = 0;
    uint32_t places = 0;      ///< From where it is read, a bit each; bit 0: the result's elements.
    double times = 0;         ///< How often the whole of it is read.
    uint32_t slot = kNoNode;  ///< Among the readers of the value.
  };
  using Accesses = SmallVector<Access, 3>;
  using Places = SmallVector<float, 6>;
  /// Of a value: a kernel that reads it.
  struct Reader {
    uint32_t kernel = 0;
    double saved = 0;  ///< By computing the value in it.
    bool refuses = false;
    bool live = true;
  };
  /// What its readers tell of a kernel.
  struct Producer {
    bool eligible = false;
    uint32_t readers = 0;
    uint32_t refusals = 0;
    double saved = 0;
  };
  /// A kernel is known by the node whose result it stores.
  struct Kernel {
    IdList nodes;  ///< What else it computes, ascending.
    Accesses operands;
    Places places;        ///< How often each is computed.
    bool stored = false;  ///< Not fused into others.
    double work = 0;
    double numbers = 0;  ///< Bytes of constants of one number, wherever they are used.
    double blocks = 1;
    double write = 0;    ///< Seconds.
    double seconds = 0;  ///< In all.
    double bits = 64;    ///< Of the narrowest element it reads.
    bool reduces = false;
    bool updates = false;  ///< Writes into its first operand.
  };
  struct Candidate {
    double saved = 0;
    uint32_t node = 0;
    uint32_t version = 0;
    bool operator<(const Candidate& other) const {
      return saved != other.saved ? saved < other.saved : node < other.node;
    }
  };

  double elements(uint32_t value) const {
    return static_cast<double>(g_.values[value].type->elements);
  }
  double bytes(uint32_t value) const { return static_cast<double>(g_.values[value].type->bytes); }

  double work(const FusionNode& node) const {
    if (node.outputs.empty()) return 0;
    const uint32_t out = node.outputs[0];
    const ElementType element = g_.values[out].type->element;
    if (node.kind == FusionKind::kReduction) {
      if (node.inputs.empty()) return 0;
      return xla_work(Opcode::k_add, element) *
             std::max(0.0, elements(node.inputs[0]) - elements(out));
    }
    if (node.code == Opcode::k_concatenate) return kConcatenationWork * elements(out);
    return is_elementwise(node.code) ? xla_work(node.code, element) * elements(out) : 0;
  }

  /// How often an operation that is not elementwise reads the whole of an operand for its result.
  double reads(const FusionNode& node, size_t input) const {
    const double in = std::max(1.0, elements(node.inputs[input]));
    const double out = node.outputs.empty() ? in : elements(node.outputs[0]);
    switch (node.code) {
      case Opcode::k_broadcast:
      case Opcode::k_broadcast_in_dim:
        return out / in;
      case Opcode::k_dynamic_update_slice:
        return input == 0 ? 0 : 1;
      case Opcode::k_reduce_window: {
        if (node.inserted) return 1;
        double window = 1;
        for (int64_t size : w_.view(node.op).integers(Attr::kWindowSize))
          window *= static_cast<double>(size);
        return window * out / in;
      }
      default:
        return is_sliced_read(node.code) && input == 0 ? std::min(1.0, out / in) : 1;
    }
  }

  static double times(const Places& places, uint32_t mask) {
    double sum = 0;
    for (; mask != 0; mask &= mask - 1)
      sum += static_cast<double>(places[static_cast<size_t>(std::countr_zero(mask))]);
    return sum;
  }

  /// What a kernel reads, writes and computes.
  void measure(uint32_t k) {
    Kernel& kernel = kernels_[k];
    ++visit_;
    const size_t count = kernel.nodes.size() + 1;
    const auto member = [&](size_t i) { return i + 1 < count ? kernel.nodes[i] : k; };
    masks_.assign(count, 0);
    own_.assign(count, kNone);
    for (size_t i = 0; i < count; ++i) {
      place_of_node_[member(i)] = static_cast<uint32_t>(i);
      seen_node_[member(i)] = visit_;
    }
    kernel.operands.clear();
    own_of_operand_.clear();
    kernel.places = {1};
    kernel.work = kernel.numbers = 0;
    kernel.reduces = kernel.updates = false;
    masks_[count - 1] = 1;
    for (size_t i = count; i-- > 0;) {
      const FusionNode& node = g_.nodes[member(i)];
      const double computed = times(kernel.places, masks_[i]);
      kernel.work += computed * work(node);
      if (node.kind == FusionKind::kReduction && !node.outputs.empty() && !node.inputs.empty())
        kernel.reduces |= elements(node.inputs[0]) >=
                          kSignificantReduction * std::max(1.0, elements(node.outputs[0]));
      kernel.updates |=
          node.code == Opcode::k_dynamic_update_slice || node.code == Opcode::k_scatter;
      for (size_t input = 0; input < node.inputs.size(); ++input) {
        const uint32_t v = node.inputs[input];
        if (g_.values[v].splat) {
          if (is_elementwise(node.code))
            kernel.numbers += computed * elements(node.outputs[0]) * bits(v) / 8;
          continue;
        }
        const uint32_t producer = g_.values[v].producer;
        const bool inside = producer != kNoNode && seen_node_[producer] == visit_;
        if (!inside && seen_value_[v] != visit_) {
          seen_value_[v] = visit_;
          place_of_value_[v] = static_cast<uint32_t>(kernel.operands.size());
          kernel.operands.push_back({.value = v});
          own_of_operand_.push_back(kNone);
        }
        uint32_t& mask =
            inside ? masks_[place_of_node_[producer]] : kernel.operands[place_of_value_[v]].places;
        if (is_elementwise(node.code)) {
          mask |= masks_[i];
          continue;
        }
        uint8_t& own =
            inside ? own_[place_of_node_[producer]] : own_of_operand_[place_of_value_[v]];
        if (own == kNone) {
          if (kernel.places.size() < kMostPlaces) kernel.places.push_back(0);
          own = static_cast<uint8_t>(kernel.places.size() - 1);
        }
        kernel.places[own] += static_cast<float>(computed * reads(node, input));
        mask |= uint32_t{1} << own;
      }
    }
    const FusionNode& root = g_.nodes[k];
    double written = 0;
    for (uint32_t v : root.outputs) written += bytes(v);
    if (root.code == Opcode::k_dynamic_update_slice && root.inputs.size() > 1)
      written = bytes(root.inputs[1]);
    kernel.write = written / bandwidth_;
    kernel.bits = 64;
    for (const Access& a : kernel.operands) kernel.bits = std::min(kernel.bits, bits(a.value));
    kernel.blocks = blocks(k, kernel.bits);
    double memory = kernel.write + read_seconds(0, kernel.numbers, kernel.blocks);
    for (Access& a : kernel.operands) {
      a.times = times(kernel.places, a.places);
      memory += read_seconds(bytes(a.value), a.times * bytes(a.value), kernel.blocks);
    }
    kernel.seconds = together(kernel.work, kernel.blocks, memory);
  }

  double bits(uint32_t value) const {
    const double count = elements(value);
    return count > 0 ? 8 * bytes(value) / count : 64;
  }

  /// Blocks of threads of a kernel whose narrowest operand has so many bits: of a reduction along
  /// rows one a row, short ones several to a block; across them one for the columns that 32 lanes
  /// read at once.
  double blocks(uint32_t k, double bits) const {
    const FusionNode& root = g_.nodes[k];
    double made = 1;
    for (uint32_t v : root.outputs) made = std::max(made, elements(v));
    if (root.kind != FusionKind::kReduction || root.inputs.empty())
      return std::ceil(made / kElementsPerBlock);
    if (root.along_rows)
      return std::ceil(made * std::min(1.0, elements(root.inputs[0]) / made / kElementsPerBlock));
    const std::vector<int64_t>& dims = g_.values[root.outputs[0]].type->dims;
    const int64_t columns = dims.empty() ? 1 : dims.back();
    int64_t wide = bits <= 16 ? 128 : 64;
    while (wide > 32 && columns % wide != 0) wide /= 2;
    return std::ceil(made / static_cast<double>(wide));
  }

  double read_seconds(double size, double total, double blocks) const {
    const double most = blocks * clock_ * kBytesPerClock;
    const double first = std::min(size, total);
    double again = bandwidth_;
    if (first < l2_bytes_) again *= kL2Speedup;
    if (first < std::min(l2_bytes_, kL1Bytes * cores_)) again *= kL1Speedup;
    return first / std::min(bandwidth_, most) + (total - first) / std::min(again, most);
  }

  double together(double work, double blocks, double memory) const {
    const double compute = work / (work_per_core_ * std::min(blocks, cores_));
    return compute + memory - kOverlap * std::min(compute, memory);
  }

  /// Of `reader` with `producer` computed in it.
  double fused_seconds(const Kernel& producer, uint32_t value, uint32_t into) const {
    const Kernel& reader = kernels_[into];
    const Access* link = find(reader, value);
    const double blocks = this->blocks(into, std::min(producer.bits, reader.bits));
    double memory =
        reader.write + read_seconds(0, producer.numbers * link->times + reader.numbers, blocks);
    for (const Access& a : producer.operands) {
      double total = a.times * link->times;
      if (const Access* shared = find(reader, a.value)) {
        total += shared->times;
        if (a.places & 1) total -= times(reader.places, shared->places & link->places);
      }
      memory += read_seconds(bytes(a.value), total * bytes(a.value), blocks);
    }
    for (const Access& a : reader.operands)
      if (a.value != value && find(producer, a.value) == nullptr)
        memory += read_seconds(bytes(a.value), a.times * bytes(a.value), blocks);
    return together(producer.work * link->times + reader.work, blocks, memory);
  }
  static const Access* find(const Kernel& kernel, uint32_t value) {
    for (const Access& a : kernel.operands)
      if (a.value == value) return &a;
    return nullptr;
  }

  bool can_fuse(uint32_t n, uint32_t into) const {
    const FusionNode& node = g_.nodes[n];
    const Kernel& producer = kernels_[n];
    const Kernel& reader = kernels_[into];
    if (closed_[into]) return false;
    if (reader.reduces && node.code == Opcode::k_transpose) return false;
    if (producer.operands.size() + reader.operands.size() > kMostOperands ||
        producer.nodes.size() + reader.nodes.size() > kMostOperations)
      return false;
    const auto writes_into = [&](uint32_t m) {
      const FusionNode& update = g_.nodes[m];
      return (update.code == Opcode::k_dynamic_update_slice || update.code == Opcode::k_scatter) &&
             update.inputs[0] == node.outputs[0];
    };
    return !reader.updates || (!writes_into(into) &&
                               std::none_of(reader.nodes.begin(), reader.nodes.end(), writes_into));
  }

  /// The kernel that makes `value` and may be computed elsewhere, or none.
  uint32_t candidate(uint32_t value) const {
    const uint32_t n = g_.values[value].producer;
    return n != kNoNode && producers_[n].eligible && kernels_[n].stored ? n : kNoNode;
  }

  /// Makes a kernel known to what it reads.
  void attach(uint32_t k) {
    for (Access& a : kernels_[k].operands) {
      const uint32_t n = candidate(a.value);
      if (n == kNoNode) continue;
      if (a.slot == kNoNode) {
        a.slot = static_cast<uint32_t>(readers_[a.value].size());
        readers_[a.value].push_back({.kernel = k});
        ++producers_[n].readers;
      }
      weigh(n, readers_[a.value][a.slot]);
    }
  }
  void detach(const Access& a) {
    const uint32_t n = candidate(a.value);
    if (n == kNoNode || a.slot == kNoNode) return;
    Reader& reader = readers_[a.value][a.slot];
    reader.live = false;
    --producers_[n].readers;
    producers_[n].refusals -= reader.refuses ? 1 : 0;
    producers_[n].saved -= reader.saved;
  }
  /// Finds anew what computing `n` in one of its readers saves.
  void weigh(uint32_t n, Reader& reader) {
    Producer& producer = producers_[n];
    producer.refusals -= reader.refuses ? 1 : 0;
    producer.saved -= reader.saved;
    reader.refuses = !can_fuse(n, reader.kernel);
    reader.saved = reader.refuses
                       ? 0
                       : kernels_[reader.kernel].seconds -
                             fused_seconds(kernels_[n], g_.nodes[n].outputs[0], reader.kernel);
    producer.refusals += reader.refuses ? 1 : 0;
    producer.saved += reader.saved;
  }

  void prioritise(uint32_t n) {
    ++version_[n];
    const Producer& producer = producers_[n];
    if (!producer.eligible || !kernels_[n].stored || producer.readers == 0 || producer.refusals > 0)
      return;
    const double saved = kLaunchSeconds + kernels_[n].seconds + producer.saved;
    if (saved >= 0) queue_.push({saved, n, version_[n]});
  }

  void fuse(uint32_t n) {
    const uint32_t value = g_.nodes[n].outputs[0];
    const Kernel producer = std::move(kernels_[n]);
    kernels_[n] = {};
    for (const Access& a : producer.operands) detach(a);
    IdList changed;
    for (const Reader& reader : readers_[value]) {
      if (!reader.live) continue;
      const uint32_t r = reader.kernel;
      merged_.clear();
      std::set_union(producer.nodes.begin(), producer.nodes.end(), kernels_[r].nodes.begin(),
                     kernels_[r].nodes.end(), std::back_inserter(merged_));
      const auto at = std::lower_bound(merged_.begin(), merged_.end(), n);
      if (at == merged_.end() || *at != n) merged_.insert(at, n);
      kernels_[r].nodes = merged_;
      before_ = std::move(kernels_[r].operands);
      measure(r);
      for (Access& a : kernels_[r].operands)
        for (const Access& b : before_)
          if (a.value == b.value) a.slot = b.slot;
      attach(r);
      changed.push_back(r);
      for (const Access& a : kernels_[r].operands)
        if (candidate(a.value) != kNoNode) changed.push_back(g_.values[a.value].producer);
      if (producers_[r].eligible)
        for (Reader& further : readers_[g_.nodes[r].outputs[0]])
          if (further.live) weigh(r, further);
    }
    readers_[value].clear();
    std::sort(changed.begin(), changed.end());
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    for (uint32_t c : changed) prioritise(c);
  }

  static constexpr uint8_t kNone = UINT8_MAX;

  const Workload& w_;
  const FusionGraph& g_;
  const std::vector<bool> held_;
  const std::vector<bool> closed_;
  double bandwidth_ = 1;
  double cores_ = 1;
  double clock_ = 1;
  double work_per_core_ = 1;
  double l2_bytes_ = 0;
  std::vector<Kernel> kernels_;                  ///< By the node that makes the result.
  std::vector<SmallVector<Reader, 2>> readers_;  ///< By value.
  std::vector<uint32_t> version_;                ///< Of each kernel's place in the queue.
  std::vector<Producer> producers_;
  std::priority_queue<Candidate> queue_;
  // Of `measure`: the last visit that met a node or value, and its place in the kernel.
  uint32_t visit_ = 0;
  std::vector<uint32_t> seen_node_, place_of_node_, seen_value_, place_of_value_;
  std::vector<uint32_t> masks_;
  std::vector<uint8_t> own_, own_of_operand_;
  IdList merged_;
  Accesses before_;
};

double xla_work(Opcode code, ElementType element) {
  constexpr double kOther = 3;
  constexpr double kConversions = 2 * kOther;
  const bool half = element == ElementType::kF16;
  const bool brief = element == ElementType::kBF16;
  if (element != ElementType::kF32 && !half && !brief)
    return code == Opcode::k_divide && element == ElementType::kS32 ? 297 : kOther;
  // What has no instruction for bf16 is computed in fp32, between conversions.
  const double converted = brief ? kConversions : 0;
  switch (code) {
    case Opcode::k_add:
    case Opcode::k_subtract:
      return brief ? kOther : 7;
    case Opcode::k_multiply:
      return half ? 7 : kOther;
    case Opcode::k_divide:
      return half ? 43 : 19 + converted;
    case Opcode::k_exponential:
      return half ? 102 : brief ? kOther : 79;
    case Opcode::k_exponential_minus_one:
      return half ? 217 : 190 + converted;
    case Opcode::k_log:
      return half ? 182 : brief ? kOther : 166;
    case Opcode::k_log_plus_one:
      return half ? 245 : 229 + converted;
    case Opcode::k_logistic:  // 1 / (1 + exp(−x))
      return kOther + xla_work(Opcode::k_exponential, element) + xla_work(Opcode::k_add, element) +
             xla_work(Opcode::k_divide, element);
    case Opcode::k_rsqrt:
    case Opcode::k_sqrt:
      return half ? 95 : 75 + converted;
    case Opcode::k_cbrt:
      return half ? 201 : 178 + converted;
    case Opcode::k_tanh:
      return half ? 502 : 467 + converted;
    case Opcode::k_power:
      return half ? 526 : 510 + converted;
    case Opcode::k_atan2:
      return half ? 451 : 431 + converted;
    case Opcode::k_sine:
      return half ? 993 : 958 + converted;
    case Opcode::k_cosine:
      return half ? 997 : 978 + converted;
    default:
      return kOther;
  }
}

PriorityFusion::PriorityFusion(const Workload& workload, const Device& device,
                               const FusionGraph& graph, const std::vector<bool>& held,
                               const std::vector<bool>& closed)
    : queue_(std::make_unique<Queue>(workload, device, graph, held, closed)) {
  queue_->run();
}
PriorityFusion::~PriorityFusion() = default;

bool PriorityFusion::stored(uint32_t node) const { return queue_->stored(node); }
bool PriorityFusion::pays_to_return(uint32_t producer, uint32_t reader) const {
  return queue_->pays_to_return(producer, reader);
}

}  // namespace orrery
