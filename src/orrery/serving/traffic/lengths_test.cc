#include "orrery/serving/traffic/lengths.h"

#include <gtest/gtest.h>

#include <cmath>

#include "orrery/base/error.h"

namespace orrery {
namespace {

constexpr int kDraws = 100000;

TEST(Lengths, AreFixedOrUniform) {
  LengthLaw prompt;
  prompt.mean = 128;
  LengthLaw output;
  output.kind = LengthLaw::Kind::kUniform;
  output.least = 10;
  output.most = 20;
  const LengthSampler sampler(prompt, output);
  RandomStream random(1);
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    const RequestLengths l = sampler.draw(random);
    EXPECT_EQ(l.prompt, 128);
    EXPECT_GE(l.output, 10);
    EXPECT_LE(l.output, 20);
    sum += l.output;
  }
  EXPECT_NEAR(sum / kDraws, 15, 0.05);
}

TEST(Lengths, AreLogNormalWithTheirMean) {
  LengthLaw law;
  law.kind = LengthLaw::Kind::kLogNormal;
  law.mean = 1000;
  law.variation = 0.5;
  const LengthSampler sampler(law, law);
  RandomStream random(1);
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = sampler.draw(random).prompt;
    sum += x;
    squares += x * x;
  }
  const double mean = sum / kDraws;
  EXPECT_NEAR(mean, 1000, 8);
  EXPECT_NEAR(std::sqrt(squares / kDraws - mean * mean) / mean, 0.5, 0.01);
}

TEST(Lengths, FollowZipfsLaw) {
  LengthLaw law;
  law.kind = LengthLaw::Kind::kZipf;
  law.exponent = 1;
  law.least = 4;
  law.most = 6;
  const LengthSampler sampler(law, {});
  RandomStream random(1);
  std::vector<double> counts(3);
  for (int i = 0; i < kDraws; ++i) ++counts[static_cast<size_t>(sampler.draw(random).prompt - 4)];
  // 1 : 1/2 : 1/3.
  EXPECT_NEAR(counts[0] / kDraws, 6.0 / 11, 0.01);
  EXPECT_NEAR(counts[1] / kDraws, 3.0 / 11, 0.01);
  EXPECT_NEAR(counts[2] / kDraws, 2.0 / 11, 0.01);
}

TEST(Lengths, DivideAUniformTotal) {
  // VIDUR's reference run: 128 … 512 tokens at 20 to 1 has 304 and 16 on average.
  const LengthSampler sampler = LengthSampler::uniform_total(128, 512, 20);
  RandomStream random(1);
  double prompts = 0;
  double outputs = 0;
  for (int i = 0; i < kDraws; ++i) {
    const RequestLengths l = sampler.draw(random);
    EXPECT_GE(l.prompt + l.output, 128);
    EXPECT_LE(l.prompt + l.output, 512);
    prompts += l.prompt;
    outputs += l.output;
  }
  EXPECT_NEAR(prompts / kDraws, 304, 1.5);
  EXPECT_NEAR(outputs / kDraws, 15.7, 0.2);
}

TEST(Lengths, AreThoseSeen) {
  const LengthSampler sampler = LengthSampler::empirical({{1, 2}, {3, 4}});
  RandomStream random(1);
  int first = 0;
  for (int i = 0; i < 1000; ++i) {
    const RequestLengths l = sampler.draw(random);
    EXPECT_EQ(l.output, l.prompt + 1);
    if (l.prompt == 1) ++first;
  }
  EXPECT_NEAR(first, 500, 60);
  EXPECT_THROW(LengthSampler::empirical({}), Error);
}

TEST(Lengths, RefuseWhatCannotBeDrawn) {
  LengthLaw law;
  law.mean = 0;
  EXPECT_THROW(LengthSampler(law, {}), Error);
  law = {};
  law.least = 5;
  law.most = 4;
  EXPECT_THROW(LengthSampler(law, {}), Error);
  law = {};
  law.kind = LengthLaw::Kind::kZipf;
  EXPECT_THROW(LengthSampler(law, {}), Error);
  law = {};
  law.kind = LengthLaw::Kind::kLogNormal;
  law.mean = 10;
  law.variation = NAN;
  EXPECT_THROW(LengthSampler(law, {}), Error);
  EXPECT_THROW(LengthSampler::uniform_total(1, 10, 1), Error);
  EXPECT_THROW(LengthSampler::uniform_total(2, 10, 0), Error);
}

}  // namespace
}  // namespace orrery
