#include "orrery/cluster/training/step.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "orrery/model/composition.h"

namespace orrery {

/// A strategy's work: a kind of part for each distinct layer, then embedding and head.
struct TrainingModel::Parts {
  std::vector<RankWork> works;
  std::vector<int> chunk_layers;            ///< Layers by chunk.
  std::vector<std::vector<double>> counts;  ///< Of each part, by stage.
  size_t embedding = 0, head = 0;
};

namespace {

/// The three passes of one part, timed.
struct PartTime {
  struct PassTime {
    Seconds kernels;
    Seconds gaps;
    std::array<Seconds, kTrafficCauseCount> exposed{}, traffic{};
    Seconds exposed_sum() const {
      return std::accumulate(exposed.begin(), exposed.end(), Seconds());
    }
    Seconds total() const { return kernels + gaps + exposed_sum(); }
  };
  PassTime forward, backward, again;
};

/// Sums relative spreads of what may err together.
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

size_t index(TrafficCause cause) { return static_cast<size_t>(cause); }

}  // namespace

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
  for (const Layer& kind : kinds_)
    parts.works.push_back(
        layer_work(kind, model_, strategy, cluster_.node_size(), constants_, gaps));
  if (strategy.zero == 3)
    for (size_t i = 0; i < kinds_.size(); ++i) {
      // Gathered a layer ahead of its use, twice; gradients leave as soon as they are there.
      RankWork& w = parts.works[i];
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
    }
  parts.embedding = parts.works.size();
  parts.works.push_back(embedding_work(model_, strategy));
  parts.head = parts.works.size();
  parts.works.push_back(head_work(model_, strategy, constants_));

  const auto stages = static_cast<size_t>(strategy.pipeline);
  parts.chunk_layers =
      layers_by_chunk(static_cast<int>(model_.layers.size()), strategy.pipeline, strategy.chunks);
  parts.counts.assign(parts.works.size(), std::vector<double>(stages, 0));
  size_t layer = 0;
  for (size_t chunk = 0; chunk < parts.chunk_layers.size(); ++chunk)
    for (int i = 0; i < parts.chunk_layers[chunk]; ++i)
      ++parts.counts[static_cast<size_t>(kind_of_[layer++])][chunk % stages];
  parts.counts[parts.embedding].front() = 1;
  parts.counts[parts.head].back() = 1;
  return parts;
}

RankMemory TrainingModel::memory_of(const Parts& parts, const Strategy& s) const {
  const auto stages = static_cast<size_t>(s.pipeline);
  RankMemory most;
  for (size_t stage = 0; stage < stages; ++stage) {
    double dense = 0, experts = 0, kept = 0, working = 0;
    for (size_t i = 0; i < parts.works.size(); ++i) {
      const double n = parts.counts[i][stage];
      if (n == 0) continue;
      const RankWork& w = parts.works[i];
      dense += n * w.dense_parameters;
      experts += n * w.expert_parameters;
      // Of head and embedding one micro-batch is in flight at a time.
      if (i < parts.embedding)
        kept += n * w.kept_bytes;
      else
        working = std::max(working, w.kept_bytes);
      working = std::max(working, w.working_bytes);
    }
    // 1F1B holds as many micro-batches as there are stages behind; interleaving a share more
    // (Korthikanti et al. 2022, sec. 4.2.3).
    const auto m = static_cast<double>(s.micro_batches());
    double flight = m;
    if (s.schedule != PipelineSchedule::kGpipe) {
      const auto behind = static_cast<double>(stages - stage);
      flight = behind;
      if (s.chunks > 1) flight += static_cast<double>(stages - 1) / s.chunks;
      flight = std::min(flight, m);
    }
    const double dense_shards = s.zero > 0 ? s.dense_replicas() : 1;
    const double expert_shards = s.zero > 0 ? s.expert_replicas() : 1;
    const double shared = dense / dense_shards + experts / expert_shards;
    const double gradient = s.wide_gradients ? 4 : 2;
    RankMemory here;
    here.weights = Bytes(2 * (s.zero == 3 ? shared : dense + experts));
    here.gradients = Bytes(gradient * (s.zero >= 2 ? shared : dense + experts));
    here.optimizer = Bytes(12 * shared);  // 32-bit weights and two moments
    here.activations = Bytes(kept * flight);
    here.working = Bytes(working);
    here.other = constants_.context;
    if (s.zero == 3) {
      // Two layers are gathered at a time, with the gradients of one.
      double largest = 0;
      for (size_t i = 0; i < parts.embedding; ++i)
        largest =
            std::max(largest, parts.works[i].dense_parameters + parts.works[i].expert_parameters);
      here.working += Bytes(largest * (2 * 2 + gradient));
    }
    if (here.total() > most.total()) most = here;
  }
  return most;
}

RankMemory TrainingModel::memory(const Strategy& strategy) const {
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

StepEstimate TrainingModel::evaluate(const Strategy& s) const {
  std::vector<std::string> none;
  const Parts parts = parts_of(s, none);
  const auto m = static_cast<double>(s.micro_batches());
  const auto stages = static_cast<size_t>(s.pipeline);

  // Every launch of a mean rank's step, so that one clock can be found for all.
  Program program;
  std::vector<Kernel> kernels;
  std::vector<double> counts;
  struct Span {
    size_t begin, end;
  };
  std::vector<std::array<Span, 3>> spans;
  const auto add = [&](const Pass& pass, double count) {
    const size_t begin = program.launches.size();
    for (const Launch& launch : pass.launches) {
      program.launches.push_back(launch);
      program.launches.back().count *= count;
      kernels.push_back(launch.kernel);
      counts.push_back(program.launches.back().count * launch.times);
    }
    return Span{begin, program.launches.size()};
  };
  for (size_t i = 0; i < parts.works.size(); ++i) {
    const double mean = std::accumulate(parts.counts[i].begin(), parts.counts[i].end(), 0.0) /
                        static_cast<double>(stages) * m;
    const RankWork& w = parts.works[i];
    spans.push_back({add(w.forward, mean), add(w.backward, mean), add(w.again, mean)});
  }
  double dense = 0, experts = 0, mean_dense = 0, mean_experts = 0;
  for (size_t stage = 0; stage < stages; ++stage) {
    double d = 0, e = 0;
    for (size_t i = 0; i < parts.works.size(); ++i) {
      d += parts.counts[i][stage] * parts.works[i].dense_parameters;
      e += parts.counts[i][stage] * parts.works[i].expert_parameters;
    }
    mean_dense += d / static_cast<double>(stages);
    mean_experts += e / static_cast<double>(stages);
    if (d + e > dense + experts) dense = d, experts = e;
  }
  const double updated = (s.zero > 0 ? dense / s.dense_replicas() : dense) +
                         (s.zero > 0 ? experts / s.expert_replicas() : experts);
  const Span optimizer = add(optimizer_pass(updated, s.wide_gradients), 1);

  StepEstimate answer;
  TrafficError traffic_error;
  std::vector<Estimate> estimates(kernels.size());
  kernels_->predict(kernels, OperatingPoint{}, estimates);

  const auto pass_time = [&](const Pass& pass, const Span& span) {
    PartTime::PassTime t;
    double launches = 0;
    for (size_t i = span.begin; i < span.end; ++i) {
      const Launch& launch = pass.launches[i - span.begin];
      t.kernels += estimates[i].seconds * (launch.count * launch.times);
      launches += launch.count;
    }
    t.gaps = constants_.gap * launches;
    const Seconds host = constants_.host * launches;
    if (!s.graphs && host > t.kernels + t.gaps) t.gaps = host - t.kernels;
    Seconds free = t.kernels;  // compute that traffic can still hide behind
    for (const Traffic& traffic : pass.traffic) {
      const CollectiveEstimate c = collectives_->predict(traffic.call);
      const Seconds time = c.estimate.seconds * traffic.count;
      const Seconds hidden = std::min(time * traffic.hidden_behind, free);
      free = free - hidden;
      t.kernels += hidden * constants_.slowdown;
      t.traffic[index(traffic.cause)] += time;
      t.exposed[index(traffic.cause)] += time - hidden;
      traffic_error.add(c.estimate, (time - hidden).value * m);
    }
    return t;
  };

  std::vector<PartTime> times(parts.works.size());
  std::vector<Seconds> forward(stages), backward(stages);
  size_t slowest = 0;
  Seconds bubble, pipeline;
  const auto place = [&] {
    traffic_error = {};
    for (size_t i = 0; i < parts.works.size(); ++i)
      times[i] = {pass_time(parts.works[i].forward, spans[i][0]),
                  pass_time(parts.works[i].backward, spans[i][1]),
                  pass_time(parts.works[i].again, spans[i][2])};
    Seconds sum;
    for (size_t stage = 0; stage < stages; ++stage) {
      forward[stage] = backward[stage] = Seconds();
      for (size_t i = 0; i < parts.works.size(); ++i) {
        const double n = parts.counts[i][stage];
        forward[stage] += times[i].forward.total() * n;
        backward[stage] += (times[i].backward.total() + times[i].again.total()) * n;
      }
      sum += forward[stage] + backward[stage];
      if (forward[stage] + backward[stage] > forward[slowest] + backward[slowest]) slowest = stage;
    }
    bubble = (sum - forward[slowest] - backward[slowest]) / s.chunks;
    if (s.schedule == PipelineSchedule::kZeroBubble) {
      Seconds weights;
      for (size_t i = 0; i < parts.works.size(); ++i)
        weights +=
            times[i].backward.kernels * parts.works[i].weight_share * parts.counts[i][slowest];
      bubble = std::max(Seconds(), bubble - weights * 2 * (s.pipeline - 1.0));
    }
  };
  place();

  // Sends between stages: in a filling pipeline all of them stand in the way, later only those
  // that nothing hides.
  if (s.pipeline > 1) {
    // Each tensor rank sends its share, and where sequences are not split they put the shares
    // together again (Narayanan et al. 2021, sec. 4.1).
    const Bytes whole(static_cast<double>(s.micro_batch * s.length * model_.hidden) * 2 /
                      s.context);
    const CollectiveCall call = {CollectiveKind::kSendReceive,
                                 whole / s.tensor,
                                 {2, s.tensor * s.context * s.data()},
                                 ElementType::kBF16};
    CollectiveEstimate c = collectives_->predict(call);
    if (s.tensor > 1 && !s.sequence)
      c.estimate.seconds +=
          collectives_
              ->predict({CollectiveKind::kAllGather, whole, {s.tensor, 1}, ElementType::kBF16})
              .estimate.seconds;
    const double sends = 2 * m * s.chunks;
    const double filling = 2.0 * (s.pipeline - 1);
    const double shown = s.overlap_pipeline && s.chunks > 1 ? filling : sends + filling;
    pipeline = c.estimate.seconds * shown;
    answer.traffic[index(TrafficCause::kPipeline)] = c.estimate.seconds * (sends + filling);
    traffic_error.add(c.estimate, pipeline.value);
  }

  // Sums of gradients and gathering of weights over data ranks.
  Seconds gradients, parameters, all_gradients, all_parameters;
  if (s.zero < 3)
    for (const auto& [held, group] :
         {std::pair(dense, RankGroup{s.dense_replicas(), s.tensor}),
          std::pair(experts, RankGroup{s.expert_replicas(), s.expert})}) {
      if (group.size <= 1 || held <= 0) continue;
      const double bytes = held * (s.wide_gradients ? 4 : 2);
      const auto time = [&](CollectiveKind kind, double size) {
        const CollectiveEstimate c = collectives_->predict(
            {kind, Bytes(size), group,
             s.wide_gradients && kind != CollectiveKind::kAllGather ? ElementType::kF32
                                                                    : ElementType::kBF16});
        return c.estimate;
      };
      const Estimate sum =
          time(s.zero > 0 ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce, bytes);
      const Seconds window = s.overlap_gradients ? backward[slowest] : Seconds();
      const double last = std::min(1.0, constants_.bucket.value / bytes);
      const Seconds shown = std::max(sum.seconds - window, sum.seconds * last);
      all_gradients += sum.seconds;
      gradients += shown;
      traffic_error.add(sum, shown.value);
      if (s.zero > 0) {
        const Estimate gather = time(CollectiveKind::kAllGather, held * 2);
        const Seconds behind = s.overlap_parameters ? forward[slowest] : Seconds();
        const Seconds seen = std::max(gather.seconds - behind, gather.seconds * last);
        all_parameters += gather.seconds;
        parameters += seen;
        traffic_error.add(gather, seen.value);
      }
    }

  const auto finish = [&] {
    answer.forward = answer.backward = answer.again = answer.gaps = Seconds();
    const Seconds send_time = answer.traffic[index(TrafficCause::kPipeline)];
    answer.exposed = {};
    answer.traffic = {};
    for (size_t i = 0; i < parts.works.size(); ++i) {
      const double n = parts.counts[i][slowest] * m;
      answer.forward += times[i].forward.kernels * n;
      answer.backward += times[i].backward.kernels * n;
      answer.again += times[i].again.kernels * n;
      for (const PartTime::PassTime* p : {&times[i].forward, &times[i].backward, &times[i].again}) {
        answer.gaps += p->gaps * n;
        for (size_t cause = 0; cause < kTrafficCauseCount; ++cause) {
          answer.exposed[cause] += p->exposed[cause] * n;
          answer.traffic[cause] += p->traffic[cause] * n;
        }
      }
    }
    answer.exposed[index(TrafficCause::kPipeline)] += pipeline;
    answer.traffic[index(TrafficCause::kPipeline)] = send_time;
    answer.exposed[index(TrafficCause::kGradients)] += gradients;
    answer.traffic[index(TrafficCause::kGradients)] += all_gradients;
    answer.exposed[index(TrafficCause::kParameters)] += parameters;
    answer.traffic[index(TrafficCause::kParameters)] += all_parameters;
    answer.bubble = bubble;
    answer.optimizer = Seconds();
    for (size_t i = optimizer.begin; i < optimizer.end; ++i)
      answer.optimizer += estimates[i].seconds;
    answer.step.value = answer.compute() + answer.gaps + answer.exposed_communication() +
                        answer.bubble + answer.optimizer;
  };
  finish();

  // The clock that the mean rank's power allows, while it waits and while it computes.
  Seconds busy;
  for (size_t i = 0; i < kernels.size(); ++i) busy += estimates[i].seconds * counts[i];
  const StepState state =
      kernels_->settle(kernels, counts, std::max(Seconds(), answer.step.value - busy),
                       {OperatingPoint::Regime::kSustained, {}}, estimates);
  answer.clock = state.clock;
  answer.energy = state.energy * s.gpus;
  place();
  finish();

  adjust(program.launches, estimates);
  LaunchCosts costs;
  costs.gap = constants_.gap;
  costs.structure_spread = constants_.structure_spread;
  const Composition composed = compose(program, estimates, costs);
  // All that scales with kernels, waiting included, errs as they do.
  const double scaled = (answer.compute() + answer.gaps + answer.bubble + answer.optimizer).value;
  const double base = composed.step.value.value;
  const double traffic = std::sqrt(traffic_error.variance()) * kNinetyPercent;
  const auto reach = [&](double kernel_part) {
    return std::sqrt(kernel_part * kernel_part + traffic * traffic);
  };
  answer.step.low =
      Seconds(std::max(0.0, answer.step.value.value -
                                reach(scaled * std::max(0.0, 1 - composed.step.low.value / base))));
  answer.step.high = answer.step.value +
                     Seconds(reach(scaled * std::max(0.0, composed.step.high.value / base - 1)));

  double flops = 0;
  for (size_t i = 0; i < parts.works.size(); ++i)
    flops += parts.works[i].model_flops *
             std::accumulate(parts.counts[i].begin(), parts.counts[i].end(), 0.0);
  answer.model_flops = flops * s.context * m * s.data();
  answer.parameters = (mean_dense * s.tensor + mean_experts * s.expert) * s.pipeline;
  answer.memory = memory_of(parts, s);
  return answer;
}

}  // namespace orrery
