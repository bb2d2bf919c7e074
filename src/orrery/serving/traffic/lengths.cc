#include "orrery/serving/traffic/lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orrery/base/error.h"

namespace orrery {
namespace {

void check(const LengthLaw& law, std::string_view what) {
  if (law.least < 1 || law.most < law.least || law.most > kLongestRequest)
    throw_usage(
        fmt::format("{} tokens must lie between 1 and {}, from the least to the most: {} "
                    "… {}",
                    what, kLongestRequest, law.least, law.most));
  const bool has_mean =
      law.kind == LengthLaw::Kind::kFixed || law.kind == LengthLaw::Kind::kLogNormal;
  if (has_mean && !(law.mean >= 1 && law.mean <= static_cast<double>(kLongestRequest)))
    throw_usage(fmt::format("{} tokens must be 1 or more on average, not {}", what, law.mean));
  if (law.kind == LengthLaw::Kind::kLogNormal && !(law.variation >= 0 && law.variation < 1e3))
    throw_usage(fmt::format("coefficient of variation of {} tokens must be 0 or more, not {}", what,
                            law.variation));
  if (law.kind == LengthLaw::Kind::kZipf) {
    if (!(law.exponent > 0 && law.exponent < 30))
      throw_usage(fmt::format("exponent of {} tokens must lie between 0 and 30, not {}", what,
                              law.exponent));
    if (law.most - law.least > 1'000'000)
      throw_usage(fmt::format("Zipf's law of {} tokens needs the most of them", what));
  }
}

/// Sums of the law's probabilities, up to each length.
std::vector<double> zipf_sums(const LengthLaw& law) {
  std::vector<double> sums;
  double sum = 0;
  for (int64_t n = law.least; n <= law.most; ++n) {
    sum += portable_exp(-law.exponent * portable_log(static_cast<double>(n - law.least + 1)));
    sums.push_back(sum);
  }
  return sums;
}

int32_t cut(double tokens, const LengthLaw& law) {
  return static_cast<int32_t>(std::clamp(std::floor(tokens + 0.5), static_cast<double>(law.least),
                                         static_cast<double>(law.most)));
}

}  // namespace

LengthSampler::Law::Law(const LengthLaw& law, std::string_view what) : law(law) {
  check(law, what);
  if (law.kind == LengthLaw::Kind::kZipf) sums = zipf_sums(law);
  if (law.kind == LengthLaw::Kind::kLogNormal) {
    const double square = portable_log(1 + law.variation * law.variation);
    sigma = std::sqrt(square);
    mu = portable_log(law.mean) - square / 2;
  }
}

int32_t LengthSampler::Law::draw(RandomStream& random) const {
  switch (law.kind) {
    case LengthLaw::Kind::kFixed:
      return cut(law.mean, law);
    case LengthLaw::Kind::kUniform:
      return static_cast<int32_t>(random.integer(law.least, law.most));
    case LengthLaw::Kind::kZipf: {
      const double at = random.uniform() * sums.back();
      const auto found = std::upper_bound(sums.begin(), sums.end() - 1, at);
      return static_cast<int32_t>(law.least + (found - sums.begin()));
    }
    case LengthLaw::Kind::kLogNormal:
      return cut(portable_exp(std::clamp(mu + sigma * random.normal(), -600.0, 600.0)), law);
  }
  throw_internal("a law of lengths that is none");
}

LengthSampler::LengthSampler(const LengthLaw& prompt, const LengthLaw& output)
    : prompt_(prompt, "prompt"), output_(output, "output") {}

LengthSampler LengthSampler::uniform_total(int64_t least, int64_t most, double ratio) {
  if (!(ratio > 0 && ratio < 1e9))
    throw_usage(fmt::format("prompt tokens to an output token must be more than 0, not {}", ratio));
  if (least < 2) throw_usage("a request has a prompt token and an output token: two at least");
  LengthLaw total;
  total.kind = LengthLaw::Kind::kUniform;
  total.least = least;
  total.most = most;
  LengthSampler sampler(total, {});
  sampler.ratio_ = ratio;
  return sampler;
}

LengthSampler LengthSampler::empirical(std::vector<RequestLengths> pairs) {
  if (pairs.empty()) throw_usage("there are no requests to draw lengths from");
  LengthSampler sampler({}, {});
  sampler.pairs_ = std::move(pairs);
  return sampler;
}

RequestLengths LengthSampler::draw(RandomStream& random) const {
  if (!pairs_.empty())
    return pairs_[static_cast<size_t>(random.integer(0, static_cast<int64_t>(pairs_.size()) - 1))];
  if (ratio_ == 0) {
    const int32_t prompt = prompt_.draw(random);
    return {prompt, output_.draw(random)};
  }
  const int32_t total = prompt_.draw(random);
  const auto share = static_cast<int32_t>(std::ceil(total / (1 + ratio_)));
  const int32_t output = std::clamp(share, 1, total - 1);
  return {total - output, output};
}

}  // namespace orrery
