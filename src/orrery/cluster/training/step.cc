#include "orrery/cluster/training/step.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "orrery/cluster/training/layer_builder.h"
#include "orrery/kernel/power.h"
#include "orrery/model/composition.h"
#include "orrery/model/torch/torch_kernels.h"

namespace orrery {

/// A strategy's work: a part for each distinct layer, again for those in 16 bits, then embedding,
/// head and what predicts further tokens.
struct TrainingModel::Parts {
  std::vector<RankWork> works;
  std::vector<std::vector<double>> counts;    ///< Of each part, by stage.
  std::vector<std::vector<double>> by_chunk;  ///< … by chunk, as `layers_by_chunk` has them.
  size_t embedding = 0, head = 0, further = 0;
};

namespace {

/// What predicts further tokens makes the last chunk longer, so that the others are filled first,
/// as Megatron-Bridge lays DeepSeek-V3 out: 61 layers over 16 chunks are 15 of four and one of one.
std::vector<int> layers_before_further_tokens(int layers, int count) {
  const int full = (layers + count - 1) / count;
  std::vector<int> by_chunk(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i)
    by_chunk[static_cast<size_t>(i)] = std::clamp(layers - i * full, 0, full);
  return by_chunk;
}

size_t index(TrafficCause cause) { return static_cast<size_t>(cause); }

/// Spreads of exposed traffic, in seconds: own ones are independent, shared ones are not.
struct TrafficError {
  double own = 0, shared = 0;

  void add(const Estimate& e, double seconds) {
    own += std::pow(seconds * e.own_spread, 2);
    double variance = 0;
    for (const float loading : e.loadings) variance += std::pow(static_cast<double>(loading), 2);
    shared += seconds * std::sqrt(variance);
  }
  double variance() const { return own + shared * shared; }
};

/// What the largest of `count` numbers is expected to be that are spread normally, in standard
/// deviations (Blom 1958, alpha 3/8): its quantile found by halving.
double largest_of(int count) {
  if (count <= 1) return 0;
  const double rank = (count - 0.375) / (count + 0.25);
  double low = 0, high = 10;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::numbers::sqrt2) / 2 < rank ? low : high) = middle;
  }
  return low;
}

/// What was gathered is copied apart into weights, in both passes, and gradients together into
/// what is sent.
void add_copies_of_shards(RankWork& w, double parameters, double bytes_of_gradient) {
  if (parameters <= 0) return;
  const auto copy = [&](Pass& pass, double written) {
    Launch launch;
    launch.kernel =
        torch_kernels::loop(Opcode::k_add, KernelFamily::kElementwise, ElementType::kBF16,
                            std::max<int64_t>(1, static_cast<int64_t>(parameters)), parameters * 2,
                            parameters * written, 0);
    pass.launches.push_back(launch);
  };
  copy(w.forward, 2);
  copy(w.backward, 2);
  copy(w.backward, bytes_of_gradient);
}

RankMemory largest(const std::vector<RankMemory>& stages) {
  return *std::ranges::max_element(
      stages, [](const RankMemory& a, const RankMemory& b) { return a.total() < b.total(); });
}

}  // namespace

void PassTime::add(const PassTime& other, double count) {
  kernels += other.kernels * count;
  gaps += other.gaps * count;
  for (size_t i = 0; i < kTrafficCauseCount; ++i) {
    exposed[i] += other.exposed[i] * count;
    traffic[i] += other.traffic[i] * count;
  }
}

Seconds StepEstimate::exposed_communication() const {
  return std::accumulate(exposed.begin(), exposed.end(), Seconds());
}

TrainingModel::TrainingModel(TransformerDescription model, Cluster cluster,
                             std::shared_ptr<const Predictor> kernels,
                             std::shared_ptr<const CollectivePredictor> collectives,
                             TrainingConstants constants)
    : model_(std::move(model)),
      cluster_(std::move(cluster)),
      kernels_(std::move(kernels)),
      collectives_(std::move(collectives)),
      constants_(constants) {
  for (const Layer& layer : model_.layers) {
    const auto found = std::ranges::find(kinds_, layer);
    kind_of_.push_back(static_cast<int>(found - kinds_.begin()));
    if (found == kinds_.end()) kinds_.push_back(layer);
  }
}

TrainingModel::Parts TrainingModel::parts_of(const Strategy& strategy,
                                             std::vector<std::string>& gaps) const {
  Parts parts;
  const auto add_layers = [&](const Strategy& s) {
    for (const Layer& kind : kinds_)
      parts.works.push_back(layer_work(kind, model_, s, cluster_.node_size(), constants_, gaps));
  };
  add_layers(strategy);
  const bool mixed =
      strategy.plain_first + strategy.plain_last > 0 && is_narrow(strategy.precision);
  if (mixed) {
    Strategy plain = strategy;
    plain.precision = TrainingPrecision::kBF16;
    add_layers(plain);
  }
  parts.embedding = parts.works.size();
  parts.works.push_back(embedding_work(model_, strategy));
  parts.head = parts.works.size();
  parts.works.push_back(head_work(model_, strategy, constants_));
  parts.further = parts.works.size();
  if (strategy.further_tokens > 0)
    parts.works.push_back(
        further_token_work(model_, strategy, cluster_.node_size(), constants_, gaps));

  if (strategy.zero == 3)
    for (RankWork& w : parts.works) {
      // Weights are gathered a layer ahead of their use, twice; gradients leave as soon as they are
      // there.
      const RankGroup group = {strategy.dense_replicas(), strategy.tensor};
      const RankGroup experts = {strategy.expert_replicas(), strategy.expert};
      const double gradient = strategy.wide_gradients ? 4 : 2;
      const auto add = [&](Pass& pass, CollectiveKind kind, double parameters, RankGroup ranks,
                           double bytes, TrafficCause cause, bool hides) {
        if (parameters <= 0 || ranks.size <= 1) return;
        pass.traffic.push_back({{kind, Bytes(parameters * bytes), ranks, ElementType::kBF16},
                                1,
                                cause,
                                hides ? 1.0 : 0.0});
      };
      for (const auto& [parameters, ranks] :
           {std::pair(w.dense_parameters, group), std::pair(w.expert_parameters, experts)}) {
        add(w.forward, CollectiveKind::kAllGather, parameters, ranks, 2, TrafficCause::kParameters,
            strategy.overlap_parameters);
        add(w.backward, CollectiveKind::kAllGather, parameters, ranks, 2, TrafficCause::kParameters,
            strategy.overlap_parameters);
        add(w.backward, CollectiveKind::kReduceScatter, parameters, ranks, gradient,
            TrafficCause::kGradients, strategy.overlap_gradients);
      }
      if (strategy.copied_shards)
        add_copies_of_shards(w,
                             (group.size > 1 ? w.dense_parameters : 0) +
                                 (experts.size > 1 ? w.expert_parameters : 0),
                             gradient);
    }

  const auto stages = static_cast<size_t>(strategy.pipeline);
  const auto all = static_cast<int>(model_.layers.size());
  const int chunks = strategy.pipeline * strategy.chunks;
  // So that no more than the last one is left without layers.
  const bool fills_the_others = (all + chunks - 1) / chunks * (chunks - 2) < all;
  const std::vector<int> by_chunk = strategy.further_tokens > 0 && fills_the_others
                                        ? layers_before_further_tokens(all, chunks)
                                        : layers_by_chunk(all, strategy.pipeline, strategy.chunks);
  parts.counts.assign(parts.works.size(), std::vector<double>(stages, 0));
  parts.by_chunk.assign(parts.works.size(), std::vector<double>(by_chunk.size(), 0));
  const auto count = [&](size_t part, size_t chunk) {
    ++parts.by_chunk[part][chunk];
    ++parts.counts[part][chunk % stages];
  };
  int layer = 0;
  for (size_t chunk = 0; chunk < by_chunk.size(); ++chunk)
    for (int i = 0; i < by_chunk[chunk]; ++i, ++layer) {
      const bool plain = is_narrow(strategy.precision) &&
                         (layer < strategy.plain_first || layer >= all - strategy.plain_last);
      count(static_cast<size_t>(kind_of_[static_cast<size_t>(layer)]) + (plain ? kinds_.size() : 0),
            chunk);
    }
  count(parts.embedding, 0);
  count(parts.head, by_chunk.size() - 1);
  for (int i = 0; i < strategy.further_tokens; ++i) count(parts.further, by_chunk.size() - 1);
  return parts;
}

std::vector<RankMemory> TrainingModel::memory_of(const Parts& parts, const Strategy& s) const {
  const auto stages = static_cast<size_t>(s.pipeline);
  std::vector<RankMemory> by_stage;
  for (size_t stage = 0; stage < stages; ++stage) {
    double dense = 0, experts = 0, narrow = 0, kept = 0, working = 0, at_loss = 0;
    for (size_t i = 0; i < parts.works.size(); ++i) {
      const double n = parts.counts[i][stage];
      if (n == 0) continue;
      const RankWork& w = parts.works[i];
      dense += n * w.dense_parameters;
      experts += n * w.expert_parameters;
      narrow += n * w.narrow_parameters;
      // Of head and embedding one micro-batch is in flight at a time; blocks of further tokens are
      // layers.
      if (i < parts.embedding || i == parts.further) kept += n * w.kept_bytes;
      if (i == parts.head)
        at_loss = w.kept_bytes + w.working_bytes;
      else
        working = std::max(working, w.working_bytes + (i == parts.embedding ? w.kept_bytes : 0));
    }
    // 1F1B holds as many micro-batches as there are stages behind. Interleaving, stage r of p has
    // 2·(p − r − 1) + (v − 1)·p chunks of v behind it when it begins to alternate, and one at hand:
    // on the first stage a share more than 1F1B (Korthikanti et al. 2022, sec. 4.2.3), on the last
    // nearly as many (Megatron-Core, pipeline_parallel/schedules.py).
    const auto m = static_cast<double>(s.micro_batches());
    double flight = m;
    if (s.schedule != PipelineSchedule::kGpipe) {
      const auto all = static_cast<double>(stages), before = static_cast<double>(stage);
      // … and one more where experts' traffic hides behind another micro-batch.
      const double more = s.overlap_experts ? 1 : 0;
      flight = s.chunks > 1 ? all + (all - 1 - 2 * before + more) / s.chunks : all - before;
      flight = std::min(flight, m);
    }
    const double dense_shards = s.zero > 0 ? s.dense_replicas() : 1;
    const double expert_shards = s.zero > 0 ? s.expert_replicas() : 1;
    const double shared = dense / dense_shards + experts / expert_shards;
    const double gradient = s.wide_gradients ? 4 : 2;
    RankMemory here;
    const double narrowed = s.narrow_weights ? narrow / (dense + experts) : 0;
    here.weights = Bytes((2 - narrowed) * (s.zero == 3 ? shared : dense + experts));
    here.gradients = Bytes(gradient * (s.zero >= 2 ? shared : dense + experts));
    if (s.torch_native && s.zero > 0 && s.zero < 3) here.gradients += Bytes(kWide * shared);
    // 32-bit weights and two moments.
    here.optimizer = Bytes((s.narrow_moments ? 4 + 2 * 2 : 4 + 2 * 4) * shared);
    here.activations = Bytes(kept * flight);
    here.working = Bytes(std::max(working, at_loss));
    here.other = constants_.context;
    if (s.zero == 3) {
      // Two layers are gathered at a time, with the gradients of one; at the loss the first of the
      // backward pass is. Embedding and head are one more group, which stays from the forward pass
      // on (PyTorch's fully_shard of a root module, and torchtitan's parallelize_llama).
      double largest = 0;
      for (size_t i = 0; i < parts.embedding; ++i)
        largest =
            std::max(largest, parts.works[i].dense_parameters + parts.works[i].expert_parameters);
      const double root =
          parts.works[parts.embedding].dense_parameters + parts.works[parts.head].dense_parameters;
      here.working =
          Bytes(2 * root + std::max(working + largest * (2 * 2 + gradient), at_loss + largest * 2));
    }
    if (s.torch_native && stages > 1) {
      // Between stages, of every micro-batch: what comes in, and the gradient of what goes out.
      // What went out is held until the step ends; logits are put together then
      // (torch.distributed.pipelining, `output_chunks` of stages).
      const bool last = stage + 1 == stages;
      const double sent = kHalf * static_cast<double>(s.micro_batch * s.length * model_.hidden) /
                          (s.context * (s.sequence ? s.tensor : 1));
      const double logits = parts.works[parts.head].result_bytes;
      const double held = m * (last ? logits : sent);
      if (last) here.working = Bytes(std::max(here.working.value - logits, held));
      here.working += Bytes((stage == 0 || last ? 1 : 2) * m * sent + held);
    }
    by_stage.push_back(here);
  }
  return by_stage;
}

RankMemory TrainingModel::memory(const Strategy& strategy) const {
  return largest(memory_by_stage(strategy));
}

std::vector<RankMemory> TrainingModel::memory_by_stage(const Strategy& strategy) const {
  std::vector<std::string> none;
  return memory_of(parts_of(strategy, none), strategy);
}

std::vector<std::string> TrainingModel::gaps(const Strategy& strategy) const {
  std::vector<std::string> found;
  const Parts parts = parts_of(strategy, found);
  const auto add = [&](const std::vector<std::string>& more) {
    for (const std::string& gap : more)
      if (std::ranges::find(found, gap) == found.end()) found.push_back(gap);
  };
  for (const RankWork& work : parts.works)
    for (const Pass* pass : {&work.forward, &work.backward})
      for (const Launch& launch : pass->launches) add(kernels_->gaps(launch.kernel));
  add(collectives_->gaps());
  add(cluster_.gaps);
  return found;
}

std::vector<std::pair<std::string, std::string>> TrainingModel::provenance() const {
  std::vector<std::pair<std::string, std::string>> found = {
      {"kernel model", std::string(kernels_->name())}};
  for (const auto& more : {kernels_->provenance(), collectives_->provenance()})
    found.insert(found.end(), more.begin(), more.end());
  found.emplace_back("training constants", "data/training/constants.yaml");
  return found;
}

/// One strategy's step, from the launches of all its parts to its interval.
class TrainingModel::Evaluation {
 public:
  Evaluation(const TrainingModel& model, const Strategy& strategy, const Parts& parts,
             const Stragglers& stragglers)
      : m_(model),
        s_(strategy),
        parts_(parts),
        pipelines_(pipeline_paces(strategy, stragglers, model.cluster_.node_size())),
        micro_batches_(static_cast<double>(strategy.micro_batches())),
        stages_(static_cast<size_t>(strategy.pipeline)) {}

  StepEstimate run() {
    collect();
    m_.kernels_->predict(kernels_, OperatingPoint{}, alone_);
    place();
    // The clock that the mean rank's work allows the card that draws most.
    Seconds busy;
    for (size_t i = 0; i < kernels_.size(); ++i) busy += alone_[i].seconds * counts_[i];
    OperatingPoint point{OperatingPoint::Regime::kSustained, {}};
    point.draw = std::exp(m_.constants_.card_spread * largest_of(s_.gpus));
    const Seconds rests = long_rests();
    const Seconds waits = std::max(Seconds(), answer_.step.value - busy - rests);
    const StepState state = m_.kernels_->settle(kernels_, counts_, waits, point, alone_);
    const StepState resting = m_.kernels_->settle({}, {}, rests, point, {});
    place();
    answer_.clock = state.clock;
    answer_.power_gap = state.gap;
    answer_.energy = (state.energy + resting.energy) * s_.gpus;
    find_interval();
    count_model();
    answer_.memory = largest(m_.memory_of(parts_, s_));
    return answer_;
  }

  /// What `run` found, by stage and chunk.
  StepCosts costs() const {
    StepCosts costs = once_;
    costs.stages.assign(stages_, std::vector<ChunkTimes>(static_cast<size_t>(s_.chunks)));
    for (size_t stage = 0; stage < stages_; ++stage)
      for (size_t chunk = 0; chunk < costs.stages[stage].size(); ++chunk)
        for (size_t i = 0; i < parts_.works.size(); ++i) {
          const double n = parts_.by_chunk[i][chunk * stages_ + stage];
          const auto& times = timed_[timed_as_[stage]].parts[i];
          ChunkTimes& here = costs.stages[stage][chunk];
          here.forward.add(times[0], n);
          here.backward.add(times[1], n);
          here.again.add(times[2], n);
          here.weights += times[1].kernels * (parts_.works[i].weight_share * n);
        }
    return costs;
  }

 private:
  struct Span {
    size_t begin = 0, end = 0;
  };
  /// All parts at one pace.
  struct Timed {
    Pace pace;
    std::vector<std::array<PassTime, 3>> parts;
    TrafficError error;
  };

  Span add(const Pass& pass, double count) {
    const size_t begin = program_.launches.size();
    for (const Launch& launch : pass.launches) {
      program_.launches.push_back(launch);
      program_.launches.back().count *= count;
      const auto like = std::ranges::find(kernels_, launch.kernel);
      const auto at = static_cast<size_t>(like - kernels_.begin());
      if (like == kernels_.end()) {
        kernels_.push_back(launch.kernel);
        counts_.push_back(0);
      }
      kernel_of_.push_back(at);
      counts_[at] += program_.launches.back().count * launch.times;
    }
    return {begin, program_.launches.size()};
  }

  /// Every launch of a mean rank's step, so that one clock can be found for all; and what the
  /// stage with most weights holds.
  void collect() {
    for (size_t i = 0; i < parts_.works.size(); ++i) {
      const RankWork& w = parts_.works[i];
      const double mean = sum_of(parts_.counts[i]) / static_cast<double>(stages_) * micro_batches_;
      spans_.push_back({add(w.forward, mean), add(w.backward, mean), add(w.again, mean)});
    }
    for (size_t stage = 0; stage < stages_; ++stage) {
      double dense = 0, experts = 0;
      for (size_t i = 0; i < parts_.works.size(); ++i) {
        dense += parts_.counts[i][stage] * parts_.works[i].dense_parameters;
        experts += parts_.counts[i][stage] * parts_.works[i].expert_parameters;
      }
      if (dense + experts > dense_ + experts_) dense_ = dense, experts_ = experts;
    }
    const double updated = s_.zero > 0
                               ? dense_ / s_.dense_replicas() + experts_ / s_.expert_replicas()
                               : dense_ + experts_;
    optimizer_ = add(optimizer_pass(dense_ + experts_, updated, s_), 1);
    alone_.resize(kernels_.size());
  }

  static double sum_of(const std::vector<double>& counts) {
    return std::accumulate(counts.begin(), counts.end(), 0.0);
  }

  const CollectivePredictor& collectives(const SlowNodes* link) const {
    return link != nullptr ? *link->collectives : *m_.collectives_;
  }

  /// Of all launches of one kernel in a pass.
  Seconds time_of(const Kernel& kernel, const Pass& pass, const Span& span,
                  const Pace& pace) const {
    for (size_t i = 0; i < pass.launches.size(); ++i)
      if (pass.launches[i].kernel == kernel)
        return alone_[kernel_of_[span.begin + i]].seconds *
               (pass.launches[i].count * pass.launches[i].times / pace.speed);
    return {};
  }

  PassTime time_of(const Pass& pass, const Span& span, const Pace& pace, TrafficError& error) {
    const TrainingConstants& c = m_.constants_;
    PassTime t;
    double launches = 0;
    for (size_t i = span.begin; i < span.end; ++i) {
      const Launch& launch = pass.launches[i - span.begin];
      t.kernels += alone_[kernel_of_[i]].seconds * (launch.count * launch.times);
      launches += launch.count;
    }
    t.kernels = t.kernels / pace.speed;
    t.gaps = c.gap * launches;
    const Seconds host = c.host * launches;
    if (!s_.graphs && host > t.kernels + t.gaps) t.gaps = host - t.kernels;
    Seconds free = t.kernels;  // compute that traffic can still hide behind
    for (const Traffic& traffic : pass.traffic) {
      const CollectiveEstimate found = collectives(pace.link).predict(traffic.call);
      const Seconds time = found.estimate.seconds * traffic.count;
      Seconds hidden = std::min(time * traffic.hidden_behind, free);
      if (traffic.behind) hidden = std::min(hidden, time_of(*traffic.behind, pass, span, pace));
      free = free - hidden;
      t.kernels += hidden * c.slowdown;
      t.traffic[index(traffic.cause)] += time;
      t.exposed[index(traffic.cause)] += time - hidden;
      error.add(found.estimate, (time - hidden).value * micro_batches_);
    }
    return t;
  }

  Timed timed(const Pace& pace) {
    Timed found;
    found.pace = pace;
    for (size_t i = 0; i < parts_.works.size(); ++i) {
      const RankWork& w = parts_.works[i];
      found.parts.push_back({time_of(w.forward, spans_[i][0], pace, found.error),
                             time_of(w.backward, spans_[i][1], pace, found.error),
                             time_of(w.again, spans_[i][2], pace, found.error)});
    }
    return found;
  }

  /// Of what a rank waits once a step, the part that comes too late or too early to let it compute
  /// faster.
  Seconds long_rests() const {
    Seconds once = answer_.bubble;
    for (const StepCosts::OnceAStep& traffic : once_.data) once += traffic.exposed;
    return once * seen_by_limit(once);
  }

  /// The step of the pipeline that takes longest, from the estimates at hand.
  void place() {
    timed_.clear();
    double speed = 1;
    const SlowNodes* link = nullptr;
    for (const PipelinePace& pipeline : pipelines_)
      for (const Pace& pace : pipeline.stages) {
        speed = std::min(speed, pace.speed);
        if (pace.link != nullptr && (link == nullptr || pace.link->share < link->share))
          link = pace.link;
        if (std::ranges::find(timed_, pace, &Timed::pace) == timed_.end())
          timed_.push_back(timed(pace));
      }
    size_t longest = 0;
    Seconds most(-1);
    for (size_t i = 0; i < pipelines_.size(); ++i) {
      place(pipelines_[i], speed, link);
      if (answer_.step.value > most) most = answer_.step.value, longest = i;
    }
    if (longest + 1 < pipelines_.size()) place(pipelines_[longest], speed, link);
  }

  /// Stages, the pipeline they form, and what runs once a step. Of all data ranks, the slowest
  /// device and the slowest link decide when sums and the optimiser are through.
  void place(const PipelinePace& pipeline, double speed, const SlowNodes* link) {
    answer_ = {};
    once_ = {};
    once_.data_rank = pipeline.data_rank;
    timed_as_.clear();
    for (const Pace& pace : pipeline.stages)
      timed_as_.push_back(
          static_cast<size_t>(std::ranges::find(timed_, pace, &Timed::pace) - timed_.begin()));
    std::vector<Seconds> forward(stages_), backward(stages_);
    size_t slowest = 0;
    Seconds sum;
    for (size_t stage = 0; stage < stages_; ++stage) {
      const auto& times = timed_[timed_as_[stage]].parts;
      for (size_t i = 0; i < parts_.works.size(); ++i) {
        const double n = parts_.counts[i][stage];
        forward[stage] += times[i][0].total() * n;
        backward[stage] += (times[i][1].total() + times[i][2].total()) * n;
      }
      sum += forward[stage] + backward[stage];
      if (forward[stage] + backward[stage] > forward[slowest] + backward[slowest]) slowest = stage;
    }
    once_.slowest = slowest;
    error_ = timed_[timed_as_[slowest]].error;
    const auto& times = timed_[timed_as_[slowest]].parts;
    answer_.bubble = std::max(Seconds(), sum - forward[slowest] - backward[slowest]) / s_.chunks;
    if (s_.schedule == PipelineSchedule::kZeroBubble) {
      Seconds weights;
      for (size_t i = 0; i < parts_.works.size(); ++i)
        weights += times[i][1].kernels * (parts_.works[i].weight_share * parts_.counts[i][slowest]);
      answer_.bubble = std::max(Seconds(), answer_.bubble - weights * (2.0 * (s_.pipeline - 1)));
    }
    for (size_t i = 0; i < parts_.works.size(); ++i) {
      const double n = parts_.counts[i][slowest] * micro_batches_;
      answer_.forward += times[i][0].kernels * n;
      answer_.backward += times[i][1].kernels * n;
      answer_.again += times[i][2].kernels * n;
      for (const PassTime& t : times[i]) {
        answer_.gaps += t.gaps * n;
        for (size_t cause = 0; cause < kTrafficCauseCount; ++cause) {
          answer_.exposed[cause] += t.exposed[cause] * n;
          answer_.traffic[cause] += t.traffic[cause] * n;
        }
      }
    }
    add_sends(collectives(pipeline.slowest_link()));
    if (s_.zero < 3) add_data_traffic(forward[slowest], backward[slowest], collectives(link));
    for (size_t i = optimizer_.begin; i < optimizer_.end; ++i)
      answer_.optimizer += alone_[kernel_of_[i]].seconds;
    answer_.optimizer = answer_.optimizer / speed;
    once_.optimizer = answer_.optimizer;
    answer_.step.value = answer_.compute() + answer_.gaps + answer_.exposed_communication() +
                         answer_.bubble + answer_.optimizer;
  }

  void add_traffic(TrafficCause cause, const Estimate& estimate, Seconds all, Seconds exposed) {
    answer_.traffic[index(cause)] += all;
    answer_.exposed[index(cause)] += exposed;
    error_.add(estimate, exposed.value);
  }

  /// Between stages: in a filling pipeline all sends stand in the way, later those that nothing
  /// hides. Each tensor rank sends its share, and where sequences are not split they put the
  /// shares together again (Narayanan et al. 2021, sec. 4.1).
  void add_sends(const CollectivePredictor& collectives) {
    if (s_.pipeline == 1) return;
    const Bytes whole(static_cast<double>(s_.micro_batch * s_.length * m_.model_.hidden) * 2 /
                      s_.context);
    Estimate send = collectives
                        .predict({CollectiveKind::kSendReceive,
                                  whole / s_.tensor,
                                  {2, s_.tensor * s_.context * s_.data()},
                                  ElementType::kBF16})
                        .estimate;
    if (s_.tensor > 1 && !s_.sequence)
      send.seconds +=
          collectives
              .predict({CollectiveKind::kAllGather, whole, {s_.tensor, 1}, ElementType::kBF16})
              .estimate.seconds;
    const double filling = 2.0 * (s_.pipeline - 1);
    const double sends = 2 * micro_batches_ * s_.chunks + filling;
    const bool hides = s_.overlap_pipeline && s_.chunks > 1;
    once_.send = send.seconds;
    once_.sends_hide = hides;
    add_traffic(TrafficCause::kPipeline, send, send.seconds * sends,
                send.seconds * (hides ? filling : sends));
  }

  /// Sums of gradients behind the last backward pass, gathering of weights behind the first
  /// forward one: what sticks out, one bucket at least, and what the rest slows the pass by.
  void add_data_traffic(Seconds forward, Seconds backward, const CollectivePredictor& collectives) {
    const double width = s_.wide_gradients ? 4 : 2;
    const std::array<std::pair<double, RankGroup>, 2> kinds = {
        {{dense_, {s_.dense_replicas(), s_.tensor}},
         {experts_, {s_.expert_replicas(), s_.expert}}}};
    for (const auto& kind : kinds) {
      const double held = kind.first;
      const RankGroup group = kind.second;
      if (group.size <= 1 || held <= 0) continue;
      const double bucket = std::min(1.0, m_.constants_.bucket.value / (held * width));
      const auto add = [&](TrafficCause cause, CollectiveKind code, double bytes, ElementType type,
                           Seconds window) {
        const Estimate e = collectives.predict({code, Bytes(bytes), group, type}).estimate;
        const Seconds outside = std::max(e.seconds - window, e.seconds * bucket);
        const Seconds exposed = outside + (e.seconds - outside) * m_.constants_.slowdown;
        once_.data.push_back({cause, e.seconds, exposed});
        add_traffic(cause, e, e.seconds, exposed);
      };
      add(TrafficCause::kGradients,
          s_.zero > 0 ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce, held * width,
          s_.wide_gradients ? ElementType::kF32 : ElementType::kBF16,
          s_.overlap_gradients ? backward : Seconds());
      if (s_.zero > 0)
        add(TrafficCause::kParameters, CollectiveKind::kAllGather, held * 2, ElementType::kBF16,
            s_.overlap_parameters ? forward : Seconds());
    }
  }

  /// All that scales with kernels, waiting included, errs as they do; traffic on its own.
  void find_interval() {
    std::vector<Estimate> estimates;
    for (const size_t kernel : kernel_of_) estimates.push_back(alone_[kernel]);
    adjust(program_.launches, estimates);
    LaunchCosts costs;
    costs.gap = m_.constants_.gap;
    costs.structure_spread =
        experts_ > 0 ? m_.constants_.structure_spread_experts : m_.constants_.structure_spread;
    const TimeInterval kernels = compose(program_, estimates, costs).step;
    const double scaled =
        (answer_.compute() + answer_.gaps + answer_.bubble + answer_.optimizer).value;
    const double traffic = std::sqrt(error_.variance()) * kNinetyPercent;
    const auto reach = [&](double share) {
      return Seconds(std::hypot(scaled * std::max(0.0, share), traffic));
    };
    answer_.step.low =
        std::max(Seconds(), answer_.step.value - reach(1 - kernels.low / kernels.value));
    answer_.step.high = answer_.step.value + reach(kernels.high / kernels.value - 1);
  }

  void count_model() {
    double flops = 0, dense = 0, experts = 0;
    for (size_t i = 0; i < parts_.works.size(); ++i) {
      const double n = sum_of(parts_.counts[i]);
      flops += parts_.works[i].model_flops * n;
      dense += parts_.works[i].dense_parameters * n;
      experts += parts_.works[i].expert_parameters * n;
    }
    answer_.model_flops = flops * s_.context * micro_batches_ * s_.data();
    answer_.parameters = dense * s_.tensor + experts * s_.expert;
  }

  const TrainingModel& m_;
  const Strategy& s_;
  const Parts& parts_;
  std::vector<PipelinePace> pipelines_;
  double micro_batches_;
  size_t stages_;
  Program program_;
  std::vector<size_t> kernel_of_;           ///< Of each launch.
  std::vector<Kernel> kernels_;             ///< Those that differ.
  std::vector<double> counts_;              ///< Of each of them in a mean rank's step.
  std::vector<Estimate> alone_;             ///< Of each of them.
  std::vector<std::array<Span, 3>> spans_;  ///< Of each part: forward, backward, again.
  Span optimizer_;
  double dense_ = 0, experts_ = 0;  ///< Parameters of the stage that holds most.
  // Of the pipeline that was placed last:
  std::vector<Timed> timed_;      ///< At each pace there is.
  std::vector<size_t> timed_as_;  ///< Of each stage, which of those.
  TrafficError error_;
  StepCosts once_;  ///< But for its stages.
  StepEstimate answer_;
};

StepEstimate TrainingModel::evaluate(const Strategy& strategy, const Stragglers& stragglers) const {
  std::vector<std::string> none;
  const Parts parts = parts_of(strategy, none);
  return Evaluation(*this, strategy, parts, stragglers).run();
}

StepInDetail TrainingModel::evaluate_in_detail(const Strategy& strategy,
                                               const Stragglers& stragglers) const {
  std::vector<std::string> none;
  const Parts parts = parts_of(strategy, none);
  Evaluation evaluation(*this, strategy, parts, stragglers);
  const StepEstimate estimate = evaluation.run();
  return {estimate, evaluation.costs()};
}

}  // namespace orrery
