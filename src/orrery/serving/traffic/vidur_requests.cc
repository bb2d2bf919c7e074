#include "orrery/serving/traffic/vidur_requests.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "orrery/base/error.h"
#include "orrery/serving/traffic/lengths.h"

namespace orrery {
namespace {

/// MT19937 (Matsumoto and Nishimura 1998), seeded by an array of one word as Python does.
class PythonRandom {
 public:
  explicit PythonRandom(uint32_t seed) {
    fill(19650218U);
    size_t i = 1;
    for (size_t k = kWords; k > 0; --k) {
      words_[i] = (words_[i] ^ (mixed(i) * 1664525U)) + seed;
      advance(i);
    }
    for (size_t k = kWords - 1; k > 0; --k) {
      words_[i] = (words_[i] ^ (mixed(i) * 1566083941U)) - static_cast<uint32_t>(i);
      advance(i);
    }
    words_[0] = 0x80000000U;
  }

  /// Of [0, 1), 53 bits.
  double uniform() {
    const uint32_t high = next() >> 5U, low = next() >> 6U;
    return (high * 67108864.0 + low) / 9007199254740992.0;
  }

 private:
  static constexpr size_t kWords = 624, kMiddle = 397;

  void fill(uint32_t seed) {
    words_[0] = seed;
    for (size_t i = 1; i < kWords; ++i)
      words_[i] = 1812433253U * (words_[i - 1] ^ (words_[i - 1] >> 30U)) + static_cast<uint32_t>(i);
  }
  uint32_t mixed(size_t i) const { return words_[i - 1] ^ (words_[i - 1] >> 30U); }
  void advance(size_t& i) {
    if (++i < kWords) return;
    words_[0] = words_[kWords - 1];
    i = 1;
  }
  uint32_t next() {
    if (at_ == kWords) {
      for (size_t i = 0; i < kWords; ++i) {
        const uint32_t y = (words_[i] & 0x80000000U) | (words_[(i + 1) % kWords] & 0x7fffffffU);
        words_[i] = words_[(i + kMiddle) % kWords] ^ (y >> 1U) ^ ((y & 1U) != 0 ? 0x9908b0dfU : 0U);
      }
      at_ = 0;
    }
    uint32_t y = words_[at_++];
    y ^= y >> 11U;
    y ^= (y << 7U) & 0x9d2c5680U;
    y ^= (y << 15U) & 0xefc60000U;
    return y ^ (y >> 18U);
  }

  std::array<uint32_t, kWords> words_{};
  size_t at_ = kWords;
};

class VidurSource final : public RequestSource {
 public:
  explicit VidurSource(const VidurRequests& requests)
      : requests_(requests), random_(requests.seed), left_(requests.count) {
    draw();
  }

  Seconds next_arrival() const override { return left_ > 0 ? request_.arrival : kNever; }
  Request take() override {
    const Request taken = request_;
    if (--left_ > 0) draw();
    return taken;
  }

 private:
  void draw() {
    const double gap = -std::log(1 - random_.uniform()) / requests_.rate;
    request_.arrival += Seconds(std::min(gap, 3 / requests_.rate));
    const auto least = static_cast<double>(requests_.least);
    const double total = least + (static_cast<double>(requests_.most) - least) * random_.uniform();
    const double output = std::ceil(total / (1 + requests_.ratio));
    request_.output = std::max(1, static_cast<int32_t>(output));
    request_.prompt = std::max(1, static_cast<int32_t>(total - output));
  }

  VidurRequests requests_;
  PythonRandom random_;
  int64_t left_;
  Request request_;
};

}  // namespace

std::unique_ptr<RequestSource> make_vidur_requests(const VidurRequests& requests) {
  if (!(requests.rate > 0)) throw_usage("a rate of requests is above 0");
  if (requests.count < 1) throw_usage("there are no requests");
  if (requests.least < 1 || requests.most < requests.least || requests.most > kLongestRequest ||
      !(requests.ratio >= 0))
    throw_usage("lengths like VIDUR's are LEAST-MOST:RATIO, each 1 or more");
  return std::make_unique<VidurSource>(requests);
}

}  // namespace orrery
