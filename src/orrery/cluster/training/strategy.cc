#include "orrery/cluster/training/strategy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "orrery/base/error.h"
#include "orrery/base/nearest.h"

namespace orrery {
namespace {

/// Of a rank's micro-batch; so that sizes of scores fit 64 bits.
constexpr int64_t kMostTokens = int64_t{1} << 28;

void check_heads(const Strategy& s, const TransformerDescription& model,
                 std::vector<std::string>& found) {
  for (const Layer& layer : model.layers) {
    int64_t heads = 0;
    if (const auto* a = std::get_if<SoftmaxAttention>(&layer.mixer)) heads = a->heads;
    if (const auto* a = std::get_if<LatentAttention>(&layer.mixer)) heads = a->heads;
    if (const auto* a = std::get_if<CompressedAttention>(&layer.mixer)) heads = a->heads;
    if (heads % s.tensor != 0) {
      found.push_back(fmt::format("{} attention heads do not divide by --tp {}", heads, s.tensor));
      return;
    }
    const auto* m = std::get_if<StateSpace>(&layer.mixer);
    if (m == nullptr) continue;
    if (m->heads % s.tensor == 0 && (m->groups % s.tensor == 0 || s.tensor % m->groups == 0))
      continue;
    found.push_back(fmt::format("{} state-space heads in {} groups do not divide by --tp {}",
                                m->heads, m->groups, s.tensor));
    return;
  }
}

constexpr std::array<std::pair<Recompute, std::string_view>, 5> kRecomputes = {
    {{Recompute::kNone, "none"},
     {Recompute::kSelective, "selective"},
     {Recompute::kExperts, "experts"},
     {Recompute::kFull, "full"},
     {Recompute::kOperators, "operators"}}};

uint32_t bit(Module module) { return uint32_t{1} << static_cast<unsigned>(module); }

}  // namespace

bool computes_again(const Strategy& s, Module module) {
  switch (s.recompute) {
    case Recompute::kSelective:
      return module == Module::kCoreAttention;
    case Recompute::kExperts:
      return module == Module::kExperts;
    case Recompute::kModules:
      return (s.modules & bit(module)) != 0;
    default:
      return false;
  }
}

std::string recompute_in_words(const Strategy& s) {
  for (const auto& [recompute, word] : kRecomputes)
    if (s.recompute == recompute) return std::string(word);
  std::vector<std::string_view> words;
  for (size_t i = 0; i < kModuleNames.size(); ++i)
    if ((s.modules & (uint32_t{1} << i)) != 0) words.push_back(kModuleNames[i]);
  return fmt::format("{}", fmt::join(words, ","));
}

void set_recompute(Strategy& s, const std::string& words) {
  s.modules = 0;
  for (const auto& [recompute, word] : kRecomputes)
    if (words == word) {
      s.recompute = recompute;
      return;
    }
  s.recompute = Recompute::kModules;
  for (size_t begin = 0; begin <= words.size();) {
    const size_t end = std::min(words.find(',', begin), words.size());
    const std::string word = words.substr(begin, end - begin);
    const auto found = std::ranges::find(kModuleNames, word);
    if (found == kModuleNames.end()) {
      std::vector<std::string> names(kModuleNames.begin(), kModuleNames.end());
      const bool alone = begin == 0 && end == words.size();
      for (const auto& [recompute, name] : kRecomputes) {
        if (word == name)
          throw_usage(fmt::format("recomputation '{}' stands alone, not in a list", word));
        if (alone) names.emplace_back(name);
      }
      throw_usage(fmt::format("unknown recomputation '{}'{}; known: {}", word,
                              suggestion(word, names), fmt::join(names, ", ")));
    }
    s.modules |= uint32_t{1} << static_cast<unsigned>(found - kModuleNames.begin());
    begin = end + 1;
  }
}

int64_t most_experts(const TransformerDescription& model) {
  int64_t experts = 0;
  for (const Layer& layer : model.layers)
    if (const auto* moe = std::get_if<MixtureOfExperts>(&layer.feed_forward))
      experts = std::max(experts, moe->experts);
  return experts;
}

std::vector<std::string> faults(const Strategy& s, const TransformerDescription& model) {
  std::vector<std::string> found;
  const auto layers = static_cast<int>(model.layers.size());
  // As a real number: the product of three sizes need not fit an integer.
  const double ranks = static_cast<double>(s.tensor) * s.pipeline * s.context;
  if (ranks > s.gpus || s.gpus % static_cast<int>(ranks) != 0) {
    found.push_back(fmt::format("{} GPUs do not divide by tp {} × pp {} × cp {} = {:.0f}", s.gpus,
                                s.tensor, s.pipeline, s.context, ranks));
    return found;
  }
  if (s.global_batch % (s.micro_batch * s.data()) != 0)
    found.push_back(
        fmt::format("a global batch of {} sequences does not divide by micro-batch {} × dp {} = {}",
                    s.global_batch, s.micro_batch, s.data(), s.micro_batch * s.data()));
  if (s.micro_batch * s.length / s.context > kMostTokens)
    found.push_back(fmt::format("a micro-batch of {} × {} tokens is more than {} on a rank",
                                s.micro_batch, s.length, kMostTokens));
  check_heads(s, model, found);
  if (s.length % (int64_t{s.context} * 2) != 0 && s.context > 1)
    found.push_back(fmt::format("{} tokens do not divide by 2 × cp {}: each rank takes two parts",
                                s.length, s.context));
  if (s.sequence && s.tensor == 1) found.emplace_back("sequence parallelism needs --tp above 1");
  if (s.sequence && s.length / s.context % s.tensor != 0)
    found.push_back(fmt::format("{} tokens of a rank do not divide by tp {} (sequence parallel)",
                                s.length / s.context, s.tensor));
  if (s.pipeline * s.chunks > layers + 2)
    found.push_back(
        fmt::format("{} layers do not fill pp {} × {} chunks", layers, s.pipeline, s.chunks));
  if (s.chunks > 1 && s.pipeline == 1)
    found.emplace_back("several chunks a stage (--vpp) need --pp above 1");
  if (s.chunks > 1 && s.micro_batches() % s.pipeline != 0)
    found.push_back(
        fmt::format("interleaving (--vpp {}) needs micro-batches ({}) that divide by pp {}",
                    s.chunks, s.micro_batches(), s.pipeline));
  if (s.schedule == PipelineSchedule::kZeroBubble && s.chunks > 1)
    found.emplace_back("the zero-bubble schedule takes one chunk a stage");
  const int64_t experts = most_experts(model);
  if (s.expert > 1 && experts == 0) found.emplace_back("--ep needs a model with experts");
  if (s.expert > 1 && experts > 0 && experts % s.expert != 0)
    found.push_back(fmt::format("{} experts do not divide by --ep {}", experts, s.expert));
  if (s.data() * s.context * s.tensor % s.expert != 0)
    found.push_back(fmt::format("dp {} × cp {} × tp {} ranks of a stage do not divide by --ep {}",
                                s.data(), s.context, s.tensor, s.expert));
  if (s.plain_first + s.plain_last > layers)
    found.push_back(fmt::format("{} and {} layers in 16 bits are more than the model's {}",
                                s.plain_first, s.plain_last, layers));
  if (s.narrow_weights && s.precision != TrainingPrecision::kFP8 &&
      s.precision != TrainingPrecision::kMXFP8)
    found.emplace_back("weights in eight bits alone (--weights fp8) need --dtype fp8 or mxfp8");
  if (s.zero == 3 && s.pipeline > 1)
    found.emplace_back(
        "ZeRO-3 with a pipeline gathers all weights for every micro-batch: give "
        "--zero 1 or --pp 1");
  return found;
}

std::string in_words(const Strategy& s) {
  std::vector<std::string> words;
  const auto add = [&](std::string_view name, int64_t value) {
    if (value > 1) words.push_back(fmt::format("{} {}", name, value));
  };
  add("tp", s.tensor);
  add("pp", s.pipeline);
  add("vpp", s.chunks);
  add("cp", s.context);
  add("dp", s.data());
  add("ep", s.expert);
  if (s.sequence) words.emplace_back("sequence parallel");
  if (s.zero > 0) words.push_back(fmt::format("zero {}", s.zero));
  words.push_back(fmt::format("micro-batch {}", s.micro_batch));
  if (s.recompute == Recompute::kExperts)
    words.emplace_back("experts recomputed");
  else if (s.recompute == Recompute::kModules)
    words.push_back(recompute_in_words(s) + " recomputed");
  else if (s.recompute != Recompute::kNone)
    words.push_back(recompute_in_words(s) + " recompute");
  if (s.plain_first + s.plain_last > 0 && is_narrow(s.precision))
    words.push_back(fmt::format("{} layers in 16 bits", s.plain_first + s.plain_last));
  if (!s.once_a_node && s.expert > 1) words.emplace_back("all-to-all dispatch");
  add("tokens predicted", s.further_tokens > 0 ? s.further_tokens + 1 : 0);
  return fmt::format("{}", fmt::join(words, ", "));
}

std::vector<int> layers_by_chunk(int layers, int stages, int chunks) {
  const int count = stages * chunks;
  std::vector<int> by_chunk(static_cast<size_t>(count), layers / count);
  const int over = layers % count;
  if (over == 0) return by_chunk;
  if (count > 1 && (layers + 2) % count == 0) {
    std::fill(by_chunk.begin(), by_chunk.end(), (layers + 2) / count);
    --by_chunk.front();
    --by_chunk.back();
    return by_chunk;
  }
  const auto first = static_cast<size_t>((count - over) / 2);
  for (size_t i = 0; i < static_cast<size_t>(over); ++i) ++by_chunk[first + i];
  return by_chunk;
}

namespace {

/// Megatron-LM before Transformer Engine and its distributed optimiser.
void as_in_2021(Strategy& s) {
  s.fused_attention = s.overlap_gradients = s.overlap_parameters = false;
  s.overlap_pipeline = s.overlap_tensor = s.fused_gradients = false;
  s.wide_gradients = true;
  s.zero = 0;
}

}  // namespace

const std::vector<Framework>& frameworks() {
  static const std::vector<Framework> all = {
      {"megatron-core",
       "Megatron-Core with Transformer Engine: fused attention, distributed optimiser, traffic of "
       "data and pipeline ranks, and sums over tensor ranks in the backward pass, behind compute",
       "NVIDIA Megatron-LM, core r0.13, and Megatron-Bridge's recipes",
       [](Strategy& s) {
         s.fused_attention = s.overlap_gradients = s.overlap_parameters = true;
         s.overlap_pipeline = s.overlap_sums = s.wide_gradients = true;
         s.zero = std::max(s.zero, 1);
       }},
      {"megatron-2021",
       "Megatron-LM of 2021: attention as products and softmax, no traffic behind compute, "
       "gradients added up in fp32 by kernels of their own and all-reduced at the end of the step",
       "Narayanan et al. 2021 (arXiv:2104.04473)", as_in_2021},
      {"megatron-2022",
       "Megatron-LM of 2022: as that of 2021, but sums over tensor ranks in the backward pass run "
       "behind weight gradients",
       "Korthikanti et al. 2022 (arXiv:2205.05198), section 6.2; gradients as in Megatron-LM's "
       "megatron/mpu/layers.py at commit 02bb1f5c",
       [](Strategy& s) {
         as_in_2021(s);
         s.overlap_sums = true;
       }},
      {"maxtext",
       "MaxText's fsdp axis under XLA with attention written out: weights sharded over all data "
       "ranks, scores and logits in 32 bits",
       "github.com/AI-Hypercomputer/maxtext, attention=dot_product",
       [](Strategy& s) {
         s.fused_attention = s.wide_gradients = false;
         s.wide_scores = s.overlap_gradients = s.overlap_parameters = s.graphs = true;
         s.zero = 3;
       }},
      {"megatron-fsdp",
       "Megatron-Core's layers, with weights, gradients and optimiser sharded over all data ranks "
       "in buffers of their own, gradients in 16 bits",
       "NVIDIA Megatron-LM, megatron/core/distributed/fsdp",
       [](Strategy& s) {
         s.fused_attention = s.overlap_gradients = s.overlap_parameters = true;
         s.wide_gradients = s.fused_gradients = false;
         s.zero = 3;
       }},
      {"fsdp",
       "PyTorch FSDP: weights, gradients and optimiser sharded over all data ranks, "
       "gathered a layer ahead of their use and copied into place, gradients in 16 bits; "
       "operators one by one",
       "Zhao et al. 2023 (arXiv:2304.11277); PyTorch 2.6, torch/distributed/fsdp/_fully_shard",
       [](Strategy& s) {
         s.fused_attention = s.overlap_gradients = s.overlap_parameters = true;
         s.wide_gradients = s.fused_gradients = false;
         s.eager = s.copied_shards = true;
         s.loss = LossKernel::kOperators;
         s.zero = 3;
       }},
      {"torchtitan",
       "torchtitan: FSDP2 as fsdp, weights kept once gathered where there is a pipeline, tensor "
       "ranks by DTensor, which keeps sequences it gathered, a loss of PyTorch's operators",
       "github.com/pytorch/torchtitan, December 2024 (9dec370), and torch.distributed of that "
       "month",
       [](Strategy& s) {
         s.fused_attention = s.overlap_gradients = s.overlap_parameters = s.torch_native = true;
         s.eager = s.copied_shards = true;
         // Gradients are added up over micro-batches in 32 bits.
         s.wide_gradients = s.pipeline > 1;
         s.fused_gradients = false;
         s.loss = LossKernel::kOperators;
         s.zero = s.pipeline > 1 ? 1 : 3;
       }},
  };
  return all;
}

const Framework& framework(std::string_view name) {
  std::vector<std::string> names;
  for (const Framework& f : frameworks()) {
    if (f.name == name) return f;
    names.emplace_back(f.name);
  }
  throw_usage(fmt::format("unknown framework '{}'{}", name, suggestion(name, names)));
}

}  // namespace orrery
