#include "orrery/kernel/operator_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace orrery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using P = OperatorParameter;

constexpr ParameterSet kAll = ~ParameterSet{0};

OperatorParameters read(std::string_view text) { return OperatorParameters("op", kAll, text); }

/// What reading `text`, or asking it for `ask`, is refused with.
std::string refusal(
    std::string_view text, void (*ask)(const OperatorParameters&) = [](const auto&) {},
    ParameterSet known = kAll) {
  try {
    ask(OperatorParameters("op", known, text));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(OperatorParameters, ReadsEachKindOfValue) {
  const OperatorParameters p = read(
      " {\t\"m\" : 1099511627776 ,\r\n\"causal\":true,\"paged\":false, \"skew\": 1.25e0, "
      "\"layout\": \"nchw\", \"shape\": [ 1 ,2, 3], \"order\":[2,0,1], \"axis\": -2, \"b\":0} ");
  EXPECT_EQ(p.size(P::k_m), int64_t{1} << 40);
  EXPECT_TRUE(p.flag(P::k_causal));
  EXPECT_FALSE(p.flag(P::k_paged));
  EXPECT_EQ(p.real(P::k_skew, 0, 2), 1.25);
  EXPECT_EQ(p.text(P::k_layout, ""), "nchw");
  EXPECT_THAT(p.shape(), ElementsAre(1, 2, 3));
  EXPECT_THAT(p.order(3), ElementsAre(2, 0, 1));
  EXPECT_EQ(p.axis(3, 0), 1);
  EXPECT_EQ(p.count(P::k_b, 7), 0);
  EXPECT_FALSE(p.has(P::k_n));
  EXPECT_EQ(p.size(P::k_n, 7), 7);
  EXPECT_EQ(p.text(P::k_kv_dtype, "none"), "none");
}

TEST(OperatorParameters, AKeyGivenTwiceIsRefused) {
  EXPECT_EQ(refusal(R"({"m": 512, "m": 1})"), "params: 'm' is given twice");
  EXPECT_EQ(refusal(R"({"shape": [1, 2], "order": [1, 0], "shape": [1, 2]})"),
            "params: 'shape' is given twice");
}

TEST(OperatorParameters, ASizeIsOneAtLeastACountMayBeZero) {
  const auto size = [](const OperatorParameters& p) { p.size(P::k_stride, 1); };
  EXPECT_EQ(refusal(R"({"stride": 0})", size),
            "params: 'stride' must lie within 1 and 2^40, found 0");
  EXPECT_EQ(refusal(R"({"stride": 2})", size), "");
  const auto count = [](const OperatorParameters& p) { p.count(P::k_pad, 0); };
  EXPECT_EQ(refusal(R"({"pad": 0})", count), "");
  EXPECT_EQ(refusal(R"({"pad": -1})", count), "params: 'pad' must lie within 0 and 2^40, found -1");
}

TEST(OperatorParameters, EveryNameIsFound) {
  for (size_t i = 0; i < kParameterCount; ++i) {
    const auto parameter = static_cast<OperatorParameter>(i);
    EXPECT_EQ(read("{\"" + std::string(name(parameter)) + "\": 5}").size(parameter), 5)
        << name(parameter);
  }
}

TEST(OperatorParameters, RefusesWhatIsNotAJsonObject) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[]",
                           "5",
                           "{\"m\"}",
                           "{\"m\":}",
                           "{\"m\":1",
                           "{\"m\":1,}",
                           "{\"m\":1}}",
                           "{m:1}",
                           "{\"m\":01}",
                           "{\"m\":-}",
                           "{\"m\":1.}",
                           "{\"m\":1e}",
                           "{\"m\":+1}",
                           "{\"m\":tru}",
                           "{\"m\":\"a}",
                           "{\"m\":\"a\\",
                           "{\"shape\":[1}",
                           "{\"shape\":[1,",
                           "{,}",
                           "{\"m\":1 \"n\":2}",
                           "{\"m\":\"a\nb\"}"})
    EXPECT_THAT(refusal(text), HasSubstr("params: expected a JSON object, found '")) << text;
  EXPECT_LT(refusal(std::string(1 << 20, '{')).size(), 200u);
}

TEST(OperatorParameters, RefusesWhatAParameterCannotBe) {
  const auto m = [](const OperatorParameters& p) { p.size(P::k_m); };
  EXPECT_EQ(refusal("{}", m), "params: op needs 'm'");
  EXPECT_EQ(refusal(R"({"m": 1.5})", m), "params: 'm' must be an integer");
  EXPECT_EQ(refusal(R"({"m": "1"})", m), "params: 'm' must be an integer");
  EXPECT_EQ(refusal(R"({"m": [1]})", m), "params: 'm' must be an integer");
  EXPECT_EQ(refusal(R"({"m": 0})", m), "params: 'm' must lie within 1 and 2^40, found 0");
  EXPECT_EQ(refusal(R"({"m": -3})", m), "params: 'm' must lie within 1 and 2^40, found -3");
  EXPECT_EQ(refusal(R"({"m": 1099511627777})", m), "params: 'm' is larger than 2^40");
  EXPECT_EQ(refusal("{\"m\": 1" + std::string(5000, '0') + "}", m),
            "params: 'm' is larger than 2^40");
  EXPECT_THAT(refusal(R"({"m": null})"), HasSubstr("'m' must be a number"));
  EXPECT_THAT(refusal(R"({"m": {"m": 1}})"), HasSubstr("'m' must be a number"));
  EXPECT_EQ(refusal(R"({"shape": [1, 2.5]})"), "params: 'shape' must be a list of integers");
  EXPECT_EQ(refusal(R"({"shape": [[1]]})"), "params: 'shape' must be a list of integers");
  const auto shape = [](const OperatorParameters& p) { p.shape(); };
  for (const char* text :
       {"{}", R"({"shape": []})", R"({"shape": 4})", R"({"shape": [1,1,1,1,1,1,1,1,1]})",
        R"({"shape": [1,1,1,1,1,1,1,1,1,1]})"})
    EXPECT_EQ(refusal(text, shape), "params: op needs 'shape', a list of 1 to 8 sizes") << text;
  EXPECT_EQ(refusal(R"({"shape": [4, 0]})", shape),
            "params: 'shape' must lie within 1 and 2^40, found 0");
  const auto axis = [](const OperatorParameters& p) { p.axis(2, -1); };
  EXPECT_EQ(refusal(R"({"axis": 2})", axis), "params: 'axis' must lie within -2 and 1, found 2");
  EXPECT_EQ(refusal(R"({"axis": true})", axis), "params: 'axis' must be an integer");
  const auto order = [](const OperatorParameters& p) { p.order(2); };
  for (const char* text :
       {"{}", R"({"order": [0]})", R"({"order": [0, 0]})", R"({"order": [0, 2]})",
        R"({"order": [0, -1]})", R"({"order": [0, 1, 2]})", R"({"order": [0, 64]})"})
    EXPECT_EQ(refusal(text, order), "params: op needs 'order', each of 0 to 1 once") << text;
  const auto skew = [](const OperatorParameters& p) { p.real(P::k_skew, 0, 8); };
  EXPECT_THAT(refusal(R"({"skew": 9})", skew), HasSubstr("must lie within 0 and 8, found 9"));
  EXPECT_THAT(refusal(R"({"skew": 1e999})", skew), HasSubstr("must lie within 0 and 8"));
  EXPECT_THAT(refusal(R"({"skew": -0.5})", skew), HasSubstr("must lie within 0 and 8"));
  EXPECT_THAT(refusal(R"({"skew": "a"})", skew), HasSubstr("'skew' must be a number"));
  EXPECT_EQ(refusal(R"({"causal": "yes"})", [](const auto& p) { p.flag(P::k_causal); }),
            "params: 'causal' must be true or false");
  EXPECT_EQ(refusal(R"({"layout": 3})", [](const auto& p) { p.text(P::k_layout, ""); }),
            "params: 'layout' must be a string");
}

TEST(OperatorParameters, RefusesAKeyTheOperatorDoesNotTake) {
  const auto nothing = [](const OperatorParameters&) {};
  constexpr ParameterSet kSome = parameter_set({P::k_m, P::k_causal, P::k_window});
  EXPECT_EQ(refusal(R"({"causl": 1})", nothing, kSome),
            "params: op takes no 'causl'; did you mean 'causal'?");
  EXPECT_EQ(refusal(R"({"vocab": 1})", nothing, kSome),
            "params: op takes no 'vocab'; there is: m, causal, window");
  EXPECT_THAT(refusal("{\"\xff\": 1}", nothing, kSome), HasSubstr("params: op takes no '"));
  EXPECT_LT(refusal("{\"" + std::string(1 << 20, 'x') + "\": 1}", nothing, kSome).size(), 300u);
}

}  // namespace
}  // namespace orrery
