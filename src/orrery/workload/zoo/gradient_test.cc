#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "orrery/workload/zoo/interpreter_for_test.h"
#include "orrery/workload/zoo/network.h"
#include "orrery/workload/zoo/workload_checks_for_test.h"

// Every derived gradient against finite differences of the loss.

namespace orrery {
namespace {

using ::testing::HasSubstr;

constexpr ElementType kF32 = ElementType::kF32;

NetworkOptions gradients_only() {
  NetworkOptions options;
  options.weights = options.activations = kF32;
  options.training = true;
  options.optimizer = OptimizerKind::kNone;
  options.fused_attention = false;
  return options;
}

/// Builds `body` (from parameters to a prediction), trains it towards zero, and
/// compares every gradient with central differences.
void expect_gradients(const std::function<Tensor(Network&)>& body,
                      NetworkOptions options = gradients_only()) {
  Network net("test", "gradient", options);
  const Tensor y = body(net);
  net.minimise_mean_squared_error(y, net.input("target", kF32, y.dims()));
  const Workload w = net.finish();
  expect_well_formed(w);

  const Function& main = w.function(w.entry());
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(0.2, 1.5);
  std::vector<Array> arguments;
  for (uint32_t i = 0; i < main.arguments.size(); ++i) {
    const Type& type = w.type(ValueId{w.region(main.body).first_argument + i});
    Array a = Array::filled(type.dims, 0);
    for (size_t k = 0; k < a.values.size(); ++k)
      a.values[k] =
          is_integer(type.element) ? static_cast<double>((k * 5 + 1) % 3) : uniform(random);
    arguments.push_back(std::move(a));
  }
  Interpreter interpreter(w);
  const std::vector<Array> results = interpreter.run(arguments);
  const auto result = [&](const std::string& name) -> const Array& {
    for (size_t i = 0; i < main.results.size(); ++i)
      if (w.string(main.results[i].name) == name) return results[i];
    ADD_FAILURE() << "no result '" << name << "'";
    return results[0];
  };
  const auto loss = [&]() { return interpreter.run(arguments)[0].values[0]; };
  int checked = 0;
  for (uint32_t i = 0; i < main.arguments.size(); ++i) {
    if (main.arguments[i].role != Role::kParameter) continue;
    const std::string name(w.string(main.arguments[i].name));
    const Array& gradient = result("gradient." + name);
    ASSERT_EQ(gradient.dims, arguments[i].dims) << name;
    for (size_t k = 0; k < arguments[i].values.size(); k += 1 + arguments[i].values.size() / 6) {
      constexpr double kStep = 1e-5;
      double& x = arguments[i].values[k];
      const double before = x;
      x = before + kStep;
      const double above = loss();
      x = before - kStep;
      const double below = loss();
      x = before;
      const double numeric = (above - below) / (2 * kStep);
      EXPECT_NEAR(gradient.values[k], numeric, 1e-6 + 1e-5 * std::abs(numeric))
          << name << "[" << k << "]";
      ++checked;
    }
  }
  EXPECT_GT(checked, 0);
}

TEST(Gradient, Linear) {
  expect_gradients([](Network& net) {
    return net.linear(net.parameter("x", {2, 3, 4}), "l", 5, {.bias = true});
  });
  expect_gradients([](Network& net) {
    return net.linear(net.parameter("x", {2, 3, 4}), "l", 5, {.order = WeightOrder::kOutIn});
  });
}

TEST(Gradient, DotGeneralInEveryArrangement) {
  expect_gradients([](Network& net) {  // Batching and contracting dimensions in odd places.
    return net.dot_general(net.parameter("a", {2, 3, 4, 5}), net.parameter("b", {4, 6, 2, 3}),
                           {0, 2}, {2, 0}, {1}, {3});
  });
  expect_gradients([](Network& net) {  // Two contracted dimensions in different order.
    return net.dot_general(net.parameter("a", {2, 3, 4}), net.parameter("b", {5, 4, 3}), {}, {},
                           {1, 2}, {2, 1});
  });
  expect_gradients([](Network& net) {
    return net.matmul(net.parameter("a", {2, 3, 4}), net.parameter("b", {2, 4, 5}));
  });
}

TEST(Gradient, Convolution) {
  for (const ChannelOrder order : {ChannelOrder::kLast, ChannelOrder::kFirst}) {
    NetworkOptions options = gradients_only();
    options.channel_order = order;
    const Dims image = order == ChannelOrder::kLast ? Dims{2, 6, 3, 4} : Dims{2, 4, 6, 3};
    for (const int64_t groups : {1, 2, 4})
      for (const int64_t stride : {1, 2})
        for (const int64_t dilation : {1, 2})
          expect_gradients(
              [&](Network& net) {
                return net.convolution(net.parameter("x", image), "c", 4, {3, 2},
                                       {.stride = {stride, 1},
                                        .padding_low = {1, 0},
                                        .padding_high = {2, 1},
                                        .dilation = {dilation, 1},
                                        .groups = groups,
                                        .bias = true});
              },
              options);
  }
}

TEST(Gradient, CausalConvolutionOverASequence) {
  expect_gradients([](Network& net) {
    return net.convolution(net.parameter("x", {2, 5, 3}), "c", 3, {4},
                           {.padding_low = {3}, .padding_high = {0}, .groups = 3});
  });
}

TEST(Gradient, PoolingAndResizing) {
  const Dims image = {1, 6, 5, 2};
  expect_gradients([&](Network& net) {
    return net.max_pool(net.parameter("x", image),
                        {.window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  });
  expect_gradients([&](Network& net) {
    return net.average_pool(net.parameter("x", image),
                            {.window = {3, 2}, .stride = {2, 1}, .padding = {1, 0}});
  });
  expect_gradients(
      [&](Network& net) { return net.global_average_pool(net.parameter("x", image)); });
  expect_gradients([&](Network& net) { return net.resize(net.parameter("x", image), 2); });
}

TEST(Gradient, Elementwise) {
  using Unary = Tensor (Network::*)(const Tensor&);
  for (const Unary f :
       {&Network::relu, &Network::relu6, &Network::gelu, &Network::quick_gelu, &Network::silu,
        &Network::tanh, &Network::sigmoid, &Network::exponential, &Network::log,
        &Network::log_plus_one, &Network::softplus, &Network::rsqrt, &Network::sqrt,
        &Network::square, &Network::sine, &Network::cosine, &Network::negate})
    expect_gradients([&](Network& net) {
      // Both signs and both sides of relu6's bounds, where the function is defined.
      const Tensor x = net.parameter("x", {7});
      const bool positive_only = f == &Network::log || f == &Network::sqrt ||
                                 f == &Network::rsqrt || f == &Network::log_plus_one;
      return (net.*f)(positive_only ? x : net.scale(net.offset(x, -0.9), 11));
    });
  using Binary = Tensor (Network::*)(const Tensor&, const Tensor&);
  for (const Binary f : {&Network::add, &Network::subtract, &Network::multiply, &Network::divide,
                         &Network::maximum, &Network::minimum})
    expect_gradients([&](Network& net) {  // With broadcasting on both sides.
      return (net.*f)(net.parameter("a", {2, 1, 4}), net.parameter("b", {3, 1}));
    });
  expect_gradients([](Network& net) {
    const Tensor a = net.parameter("a", {5});
    const Tensor b = net.parameter("b", {5});
    return net.select(net.compare(a, net.constant(0.8, kF32), "GT"), a, b);
  });
}

TEST(Gradient, Shapes) {
  expect_gradients([](Network& net) { return net.reshape(net.parameter("x", {2, 6}), {3, -1}); });
  expect_gradients([](Network& net) {
    return net.transpose(net.parameter("x", {2, 3, 4}), {2, 0, 1});
  });
  expect_gradients([](Network& net) {
    return net.permuted_view(net.permuted_view(net.parameter("x", {2, 3, 4}), {2, 0, 1}),
                             {1, 2, 0});
  });
  expect_gradients([](Network& net) {
    return net.concatenate({net.parameter("a", {2, 1}), net.parameter("b", {2, 3})}, 1);
  });
  expect_gradients([](Network& net) { return net.slice(net.parameter("x", {4, 5}), 1, 1, 4); });
  expect_gradients([](Network& net) {
    const Tensors parts = net.split(net.parameter("x", {2, 6}), 1, {1, 2, 3});
    return net.concatenate({parts[2], parts[0]}, 1);  // The middle one has no gradient.
  });
  expect_gradients([](Network& net) {
    return net.pad(net.parameter("x", {2, 2}), {1, 0}, {0, 2});
  });
  expect_gradients([](Network& net) {
    return net.broadcast(net.parameter("x", {3, 1}), {2, 3, 4});
  });
  expect_gradients([](Network& net) {
    return net.reduce_sum(net.parameter("x", {2, 3, 4}), {0, -1});
  });
  expect_gradients([](Network& net) { return net.reduce_mean(net.parameter("x", {2, 3}), {1}); });
  expect_gradients([](Network& net) { return net.cumsum(net.parameter("x", {2, 4}), 1); });
}

TEST(Gradient, SoftmaxAndEmbedding) {
  expect_gradients([](Network& net) { return net.softmax(net.parameter("x", {2, 3, 4}), 1); });
  expect_gradients([](Network& net) {
    return net.embedding(net.parameter("table", {3, 4}),
                         net.input("ids", ElementType::kS32, {2, 5}));
  });
}

TEST(Gradient, UnfusedAttentionWithGroupsMaskBiasAndSinks) {
  expect_gradients([](Network& net) {
    const Tensor q = net.parameter("q", {2, 3, 4, 5});
    const Tensor k = net.parameter("k", {2, 6, 2, 5});
    const Tensor v = net.parameter("v", {2, 6, 2, 3});  // Narrower than the keys, as in MLA.
    return net.attention(q, k, v);
  });
  expect_gradients([](Network& net) {
    const Tensor x = net.parameter("x", {1, 5, 4, 2});
    const Tensor bias = net.parameter("bias", {1, 4, 5, 5});
    return net.attention(
        x, x, x, {.causal = true, .window = 3, .bias = bias, .sinks = net.parameter("s", {4})});
  });
}

TEST(Gradient, Rotary) {
  expect_gradients([](Network& net) {
    const Network::Rotary r = net.rotary_tables(3, 4, 10000);
    return net.rotary(net.parameter("x", {2, 3, 2, 6}), r.cosine, r.sine);
  });
}

TEST(Gradient, RoutingDispatchAndCombine) {
  for (const auto scores : {RoutingOptions::Scores::kSoftmax, RoutingOptions::Scores::kSigmoid,
                            RoutingOptions::Scores::kLogits})
    for (const bool corrected : {false, true})
      expect_gradients([&](Network& net) {
        const Tensor x = net.parameter("x", {4, 3});
        RoutingOptions options{.k = 2, .scores = scores, .renormalise = true, .scale = 2.5};
        if (corrected) options.correction_bias = net.buffer("bias", {5});
        const Routing routing = net.route(net.linear(x, "router", 5), options);
        return net.combine(net.square(net.dispatch(x, routing)), routing);
      });
}

TEST(Gradient, LayersNestedRepeatedAndShared) {
  expect_gradients([](Network& net) {
    const Tensor shared = net.parameter("shared", {4});
    // The first call's input needs no gradient, the others' do: two backward functions.
    Tensor x = net.input("x", kF32, {2, 4});
    x = net.repeat("layer", 3, {x, shared}, [&](const Tensors& in) -> Tensors {
      const Tensor y = net.layer("inner", "inner", {in[0]}, [&](const Tensors& inner) -> Tensors {
        return {net.tanh(net.linear(inner[0], "up", 4))};
      })[0];
      return {net.add(net.multiply(y, in[1]), net.reshape(net.reshape(in[0], {8}), {2, 4}))};
    })[0];
    return net.multiply(x, shared);
  });
}

TEST(Gradient, LayerWithSeveralOutputsSomeUnused) {
  expect_gradients([](Network& net) {
    const Tensor x = net.parameter("x", {3});
    const auto body = [&](const Tensors& in) -> Tensors {
      return {net.square(in[0]), net.exponential(in[0]), net.negate(in[0])};
    };
    const Tensors a = net.layer("f", "a", {x}, body);
    const Tensors b = net.layer("f", "b", {a[1]}, body);
    return net.add(a[0], b[2]);
  });
}

TEST(Gradient, CrossEntropyOfTheClassifier) {
  NetworkOptions options = gradients_only();
  Network net("test", "classifier", options);
  const Tensor logits = net.linear(net.input("x", kF32, {4, 3}), "head", 5);
  net.minimise_cross_entropy(logits, net.input("labels", ElementType::kS32, {4}));
  const Workload w = net.finish();
  std::vector<Array> arguments = {Array::filled({4, 3}, 0), Array::filled({3, 5}, 0),
                                  Array::filled({4}, 0)};
  for (size_t i = 0; i < 12; ++i) arguments[0].values[i] = 0.1 * static_cast<double>(i % 5);
  for (size_t i = 0; i < 15; ++i) arguments[1].values[i] = std::sin(static_cast<double>(i));
  arguments[2].values = {0, 3, 4, 1};
  Interpreter interpreter(w);
  const std::vector<Array> results = interpreter.run(arguments);
  // By hand: the mean over rows of log Σ exp(logit) - logit[label].
  double expected = 0;
  for (size_t row = 0; row < 4; ++row) {
    double sum = 0;
    double target = 0;
    for (size_t c = 0; c < 5; ++c) {
      double logit = 0;
      for (size_t k = 0; k < 3; ++k)
        logit += arguments[0].values[row * 3 + k] * arguments[1].values[k * 5 + c];
      sum += std::exp(logit);
      if (static_cast<double>(c) == arguments[2].values[row]) target = logit;
    }
    expected += (std::log(sum) - target) / 4;
  }
  EXPECT_NEAR(results[0].values[0], expected, 1e-12);
  for (size_t k = 0; k < 15; ++k) {
    constexpr double kStep = 1e-5;
    std::vector<Array> moved = arguments;
    moved[1].values[k] += kStep;
    const double above = interpreter.run(moved)[0].values[0];
    moved[1].values[k] -= 2 * kStep;
    const double below = interpreter.run(moved)[0].values[0];
    EXPECT_NEAR(results[1].values[k], (above - below) / (2 * kStep), 1e-8);
  }
}

TEST(Gradient, AdamWStepIsTheTextbooks) {
  NetworkOptions options = gradients_only();
  options.optimizer = OptimizerKind::kAdamW;
  Network net("test", "adamw", options);
  const Tensor parameter = net.parameter("p", {1});
  net.minimise_mean_squared_error(parameter, net.input("target", kF32, {1}));
  const Workload w = net.finish();
  const double p = 2;
  const double m = 0.3;
  const double v = 0.5;
  const double g = 2 * (p - 1.5);  // d (p - 1.5)² / dp
  const auto results = Interpreter(w).run({Array::filled({1}, p), Array::filled({1}, 1.5),
                                           Array::filled({1}, m), Array::filled({1}, v)});
  const double m1 = 0.9 * m + 0.1 * g;
  const double v1 = 0.999 * v + 0.001 * g * g;
  ASSERT_EQ(results.size(), 4u);  // The loss, then the updates.
  EXPECT_NEAR(results[1].values[0], p - 1e-3 * (m1 / (std::sqrt(v1) + 1e-8) + 0.01 * p), 1e-12);
  EXPECT_NEAR(results[2].values[0], m1, 1e-12);
  EXPECT_NEAR(results[3].values[0], v1, 1e-12);
}

TEST(Gradient, AnOperationWithoutARuleIsNamed) {
  Network net("test", "no rule", gradients_only());
  const Tensor x = net.parameter("x", {4});
  const Tensor y =
      net.emit({.code = Opcode::k_digamma, .operands = {x}, .results = {{kF32, {4}}}})[0];
  net.minimise_mean_squared_error(y, net.input("target", kF32, {4}));
  try {
    net.finish();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInternal);
    EXPECT_THAT(e.what(), HasSubstr("no gradient rule for 'digamma'"));
  }
}

TEST(Gradient, AParameterThatNothingReachesIsNamed) {
  Network net("test", "unreached", gradients_only());
  net.parameter("forgotten", {4});
  net.minimise_mean_squared_error(net.parameter("x", {4}), net.input("target", kF32, {4}));
  try {
    net.finish();
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("'forgotten'"));
  }
}

}  // namespace
}  // namespace orrery
