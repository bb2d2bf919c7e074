#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/workload/zoo/language_model.h"
#include "orrery/workload/zoo/network.h"

// What the files that build a language model share; not for others.

namespace orrery::language_model {

/// One run of the model as asked for.
struct Pass {
  Network& net;
  const TransformerDescription& model;
  Phase phase = Phase::kForward;
  int64_t batch = 1;
  int64_t tokens = 1;     ///< New ones a sequence.
  int64_t context = 0;    ///< Length of the caches in decoding.
  bool causal = true;     ///< Scores above the diagonal are skipped.
  WeightFormat fallback;  ///< Of projections that the description leaves plain.

  bool decoding() const { return phase == Phase::kDecode; }
  bool gives_caches() const { return phase == Phase::kPrefill; }
  bool training() const { return phase == Phase::kTrain; }
  ElementType cache_type() const;
  WeightFormat format(const WeightFormat& described) const;
  LinearOptions linear(const Projection& projection) const;
};

/// What a layer is given beside the hidden states.
struct Surroundings {
  Tensor position;      ///< Decoding: the new token's slot, an s32 scalar.
  Tensor cosine, sine;  ///< For mixers that rotate.
};

struct NamedTensor {
  std::string name;
  Tensor value;
};

struct Mixed {
  Tensor output;
  std::vector<NamedTensor> caches;  ///< What prefill leaves for decoding.
};

/// Elements of a head that `mixer` rotates; 0: none.
int64_t rotary_size(const Mixer& mixer);
/// x [batch, tokens, hidden], normalised.
Mixed mix(const Pass& pass, const Mixer& mixer, const Tensor& x, const Surroundings& around);
/// `residual` is what x was before its norm.
Tensor feed_forward(const Pass& pass, const FeedForward& part, const Tensor& x,
                    const Tensor& residual);

// Parts of these.
Mixed softmax_attention(const Pass& pass, const SoftmaxAttention& a, const Tensor& x,
                        const Surroundings& around);
Mixed latent_attention(const Pass& pass, const LatentAttention& a, const Tensor& x,
                       const Surroundings& around);
Mixed compressed_attention(const Pass& pass, const CompressedAttention& a, const Tensor& x,
                           const Surroundings& around);
Mixed delta_attention(const Pass& pass, const DeltaAttention& a, const Tensor& x);
Mixed state_space(const Pass& pass, const StateSpace& s, const Tensor& x);

Tensor activate(Network& net, Activation activation, const Tensor& x);
Tensor norm(const Pass& pass, const Tensor& x, std::string_view name);
/// x [b, s, groups, in] through a matrix of its own a group: [b, s, groups, out].
Tensor grouped_projection(const Pass& pass, const Tensor& x, std::string_view name, int64_t out,
                          const WeightFormat& format);
/// Index scores [b, s, t] of queries [b, s, h, d] against keys [b, t, d], the heads
/// weighed by `weights` [b, s, h] where valid, and the choice of the best `selected`.
void choose(const Pass& pass, const Tensor& queries, const Tensor& keys, const Tensor& weights,
            int64_t selected, int64_t block);

/// The product of sizes; std::invalid_argument past 2^40, which is no width.
int64_t width(std::initializer_list<int64_t> sizes);

}  // namespace orrery::language_model
