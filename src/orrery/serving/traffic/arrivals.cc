#include "orrery/serving/traffic/arrivals.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "orrery/base/error.h"

namespace orrery {
namespace {

enum Stream : uint64_t { kGaps, kLengths, kPrefixes };

class Arrivals final : public RequestSource {
 public:
  Arrivals(const ArrivalProcess& process, int64_t count, LengthSampler lengths, uint64_t seed,
           SharedPrefixes prefixes)
      : process_(process),
        left_(count),
        lengths_(std::move(lengths)),
        prefixes_(prefixes),
        gap_random_(seed, kGaps),
        length_random_(seed, kLengths),
        prefix_random_(seed, kPrefixes) {
    next_ = Seconds(0) + gap(Seconds(0));
  }

  Seconds next_arrival() const override { return left_ > 0 ? next_ : kNever; }

  Request take() override {
    Request request;
    request.arrival = next_;
    const RequestLengths lengths = lengths_.draw(length_random_);
    request.prompt = lengths.prompt;
    request.output = lengths.output;
    if (prefixes_.tokens > 0) {
      request.prefix = static_cast<uint64_t>(prefix_random_.integer(1, prefixes_.count));
      request.prefix_tokens = prefixes_.tokens;
      request.prompt += prefixes_.tokens;
    }
    --left_;
    next_ += gap(next_);
    return request;
  }

 private:
  /// By thinning where the rate swings (Lewis and Shedler, 1979).
  Seconds gap(Seconds from) {
    const double most = process_.rate * (1 + process_.swing);
    double at = from.value;
    while (true) {
      at += unit_gap() / most;
      if (process_.swing == 0) break;
      const double phase = at / process_.period.value;
      const double turn = 2 * std::numbers::pi * (phase - std::floor(phase));
      const double share = (1 + process_.swing * portable_sin(turn)) / (1 + process_.swing);
      if (gap_random_.uniform() < share) break;
    }
    return Seconds(at - from.value);
  }

  double unit_gap() {
    if (process_.variation == 0) return 1;
    if (process_.variation == 1) return gap_random_.exponential();
    const double shape = 1 / (process_.variation * process_.variation);
    return gap_random_.gamma(shape) / shape;
  }

  ArrivalProcess process_;
  int64_t left_;
  LengthSampler lengths_;
  SharedPrefixes prefixes_;
  RandomStream gap_random_;
  RandomStream length_random_;
  RandomStream prefix_random_;
  Seconds next_;
};

}  // namespace

std::unique_ptr<RequestSource> make_arrivals(const ArrivalProcess& process, int64_t count,
                                             LengthSampler lengths, uint64_t seed,
                                             SharedPrefixes prefixes) {
  if (!(process.rate > 0 && process.rate <= 1e9))
    throw_usage(fmt::format("requests a second must be more than 0, not {}", process.rate));
  if (!(process.variation >= 0 && process.variation <= 100))
    throw_usage(
        fmt::format("coefficient of variation of the gaps must lie between 0 and 100, not "
                    "{}",
                    process.variation));
  if (!(process.swing >= 0 && process.swing <= 1))
    throw_usage(fmt::format("swing of the rate must lie between 0 and 1, not {}", process.swing));
  if (!(process.period.value > 0)) throw_usage("period of the swing must be more than 0");
  if (count < 1) throw_usage(fmt::format("number of requests must be 1 or more, not {}", count));
  if (prefixes.tokens < 0 || prefixes.tokens > kLongestRequest || prefixes.count < 1)
    throw_usage("a shared prefix has 0 tokens or more, and there is 1 at least");
  return std::make_unique<Arrivals>(process, count, std::move(lengths), seed, prefixes);
}

}  // namespace orrery
