#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "orrery/base/random_stream.h"

namespace orrery {

/// Tokens of one request.
struct RequestLengths {
  int32_t prompt = 1;
  int32_t output = 1;
};

/// No request is longer: what a kernel or an integer could not hold is refused at the door.
inline constexpr int64_t kLongestRequest = 1 << 28;

/// How one of the two lengths is drawn; all draws are cut to `least` … `most`.
struct LengthLaw {
  enum class Kind : uint8_t {
    kFixed,    ///< `mean`.
    kUniform,  ///< `least` … `most`, each alike.
    kZipf,  ///< P(n) ∝ (n − least + 1)^−`exponent` of `least` … `most`, a million at most.
    kLogNormal,  ///< exp(μ + σ z) of mean `mean` and coefficient of variation `variation`.
  };
  Kind kind = Kind::kFixed;
  double mean = 1;
  double variation = 1;
  double exponent = 1;
  int64_t least = 1;
  int64_t most = kLongestRequest;
};

/// Draws lengths of requests.
class LengthSampler {
 public:
  /// Throws `kUsage` for laws that cannot be drawn from.
  LengthSampler(const LengthLaw& prompt, const LengthLaw& output);
  /// As VIDUR's generator: a total uniform in `least` … `most`, of which 1 in `ratio` + 1 tokens is
  /// output.
  static LengthSampler uniform_total(int64_t least, int64_t most, double ratio);
  /// Those of the pairs given, each as likely. Throws `kUsage` when there are none.
  static LengthSampler empirical(std::vector<RequestLengths> pairs);

  RequestLengths draw(RandomStream& random) const;

 private:
  struct Law {
    Law(const LengthLaw& law, std::string_view what);
    int32_t draw(RandomStream& random) const;

    LengthLaw law;
    double mu = 0;
    double sigma = 0;
    std::vector<double> sums;
  };

  Law prompt_;
  Law output_;
  double ratio_ = 0;  ///< Not 0: `prompt_` is the law of the total.
  std::vector<RequestLengths> pairs_;
};

}  // namespace orrery
