#include "orrery/serving/traffic/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "orrery/base/error.h"
#include "orrery/base/random_stream.h"

namespace orrery {
namespace {

constexpr uint64_t kAdapterStream = 32;
constexpr int32_t kMostAdapters = 1 << 20;

class AdaptedRequests final : public RequestSource {
 public:
  AdaptedRequests(std::unique_ptr<RequestSource> source, const AdapterMix& mix, uint64_t seed)
      : source_(std::move(source)), seed_(seed) {
    double sum = 0;
    up_to_.reserve(static_cast<size_t>(mix.count));
    for (int32_t i = 1; i <= mix.count; ++i)
      up_to_.push_back(sum += portable_exp(-mix.skew * portable_log(i)));
  }

  Seconds next_arrival() const override { return source_->next_arrival(); }
  Request take() override {
    Request request = source_->take();
    // Conversations and requests draw from streams of their own.
    const uint64_t who = request.conversation > 0 ? 2 * request.conversation + 1 : 2 * taken_++;
    const double at =
        RandomStream(mixed_bits(seed_, kAdapterStream), who).uniform() * up_to_.back();
    const auto found = std::upper_bound(up_to_.begin(), up_to_.end(), at) - up_to_.begin();
    request.adapter =
        static_cast<uint32_t>(1 + std::min(static_cast<size_t>(found), up_to_.size() - 1));
    return request;
  }
  void ended(uint32_t tag, Seconds now) override { source_->ended(tag, now); }

 private:
  std::unique_ptr<RequestSource> source_;
  uint64_t seed_;
  uint64_t taken_ = 0;
  std::vector<double> up_to_;  ///< Σ of the weights.
};

}  // namespace

std::unique_ptr<RequestSource> with_adapters(std::unique_ptr<RequestSource> source,
                                             const AdapterMix& mix, uint64_t seed) {
  if (mix.count < 1 || mix.count > kMostAdapters)
    throw_usage(fmt::format("adapters must be 1 to {}, not {}", kMostAdapters, mix.count));
  if (!(mix.skew >= 0 && mix.skew <= 4))
    throw_usage(fmt::format("the skew of adapters must lie between 0 and 4, not {}", mix.skew));
  return std::make_unique<AdaptedRequests>(std::move(source), mix, seed);
}

}  // namespace orrery
