#include "orrery/workload/zoo/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "orrery/base/error.h"
#include "orrery/workload/zoo/workload_checks_for_test.h"

namespace orrery {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr ElementType kBF16 = ElementType::kBF16;

struct Argument {
  std::string name;
  Role role;
  const Type* type;
  bool donated;
};

std::vector<Argument> entry_arguments(const Workload& w) {
  std::vector<Argument> all;
  const Function& f = w.function(w.entry());
  for (uint32_t i = 0; i < f.arguments.size(); ++i)
    all.push_back({std::string(w.string(f.arguments[i].name)), f.arguments[i].role,
                   &w.type(ValueId{w.region(f.body).first_argument + i}), f.arguments[i].donated});
  return all;
}

std::vector<OpView> ops_of(const Workload& w, Opcode code) {
  std::vector<OpView> found;
  for (uint32_t i = 0; i < w.ops().size(); ++i)
    if (w.ops()[i].code == code) found.push_back(w.view(OpId{i}));
  return found;
}

std::string error_of(const std::function<void()>& run, ErrorKind kind) {
  try {
    run();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(Network, LayersAreRecordedOnceAndCalledWithTheirOwnParameters) {
  Network net("test", "mlp", {});
  Tensor x = net.input("x", kBF16, {2, 8});
  int recorded = 0;
  x = net.repeat("layer", 5, {x}, [&](const Tensors& in) -> Tensors {
    ++recorded;
    const auto in_mlp = net.scope("mlp");
    return {net.linear(net.relu(net.linear(in[0], "up", 32)), "down", 8, {.bias = true})};
  })[0];
  net.output("y", x);
  EXPECT_EQ(net.parameter_count(), 5 * (8 * 32 + 32 * 8 + 8));
  const Workload w = net.finish();
  expect_well_formed(w);
  EXPECT_EQ(recorded, 1);
  EXPECT_EQ(w.functions().size(), 2u);
  EXPECT_EQ(ops_of(w, Opcode::k_call).size(), 5u);
  const auto arguments = entry_arguments(w);
  ASSERT_EQ(arguments.size(), 1u + 5 * 3);
  EXPECT_EQ(arguments[1].name, "layer.0.mlp.up.weight");
  EXPECT_EQ(arguments[15].name, "layer.4.mlp.down.bias");
  EXPECT_EQ(arguments[15].role, Role::kParameter);
  EXPECT_DOUBLE_EQ(matrix_flops(w), 5 * 2 * (2.0 * 2 * 8 * 32));
  EXPECT_EQ(ops_of(w, Opcode::k_dot_general)[0].string(Attr::kScope), "mlp");
}

TEST(Network, LayersOfSeveralKindsAlternate) {
  Network net("test", "hybrid", {});
  Tensor x = net.input("x", kBF16, {2, 8});
  for (int i = 0; i < 8; ++i) {
    const bool wide = i % 4 == 3;
    x = net.layer(wide ? "wide" : "narrow", "layers." + std::to_string(i), {x},
                  [&](const Tensors& in) -> Tensors {
                    return {net.linear(net.linear(in[0], "up", wide ? 64 : 16), "down", 8)};
                  })[0];
  }
  net.output("y", x);
  EXPECT_EQ(net.parameter_count(), 6 * 2 * 8 * 16 + 2 * 2 * 8 * 64);
  EXPECT_EQ(net.finish().functions().size(), 3u);
}

TEST(Network, CachesAreDonatedToTheirNewValues) {
  Network net("test", "decode", {});
  const Tensor position = net.input("position", ElementType::kS32, {});
  Tensor x = net.input("x", kBF16, {2, 1, 4, 16});
  x = net.repeat("layer", 3, {x, position}, [&](const Tensors& in) -> Tensors {
    const Tensor k =
        net.update_cache(net.cache("key", {2, 33, 2, 16}), net.slice(in[0], 2, 0, 2), in[1]);
    const Tensor v = net.update_cache(net.cache("value", {2, 33, 2, 16}, ElementType::kF8E4M3FN),
                                      net.slice(in[0], 2, 0, 2), in[1]);
    return {net.attention(in[0], k, net.convert(v, kBF16), {.causal = true})};
  })[0];
  net.output("y", x);
  const Workload w = net.finish();
  expect_well_formed(w);
  int caches = 0;
  for (const Argument& a : entry_arguments(w)) {
    if (a.role != Role::kCache) continue;
    ++caches;
    EXPECT_TRUE(a.donated);
  }
  EXPECT_EQ(caches, 6);
  for (const OpView& op : ops_of(w, Opcode::k_dynamic_update_slice)) {
    EXPECT_EQ(op.integer(Attr::kInPlace, 0), 1);
    EXPECT_EQ(op.operand_count(), 2u + 4);
    EXPECT_EQ(op.operand_type(1).element, op.operand_type(0).element);
  }
}

TEST(Network, AttentionSeesHeadsAsViewsAndKeepsItsSettings) {
  Network net("test", "attention", {});
  const Tensor q = net.input("q", kBF16, {2, 10, 8, 24});
  const Tensor k = net.input("k", kBF16, {2, 20, 2, 24});
  const Tensor v = net.input("v", kBF16, {2, 20, 2, 16});
  const Tensor y = net.attention(q, k, v, {.causal = true, .window = 5});
  EXPECT_THAT(y.dims(), ElementsAre(2, 10, 8, 16));
  net.output("y", y);
  const Workload w = net.finish();
  EXPECT_TRUE(ops_of(w, Opcode::k_transpose).empty());
  const OpView op = ops_of(w, Opcode::k_attention).at(0);
  EXPECT_THAT(op.operand_type(0).dims, ElementsAre(2, 8, 10, 24));
  EXPECT_THAT(op.operand_type(2).dims, ElementsAre(2, 2, 20, 16));
  EXPECT_THAT(op.result_type(0).dims, ElementsAre(2, 8, 10, 16));
  // In memory: head size, then heads, then tokens.
  EXPECT_THAT(op.operand_type(0).minor_to_major, ElementsAre(3, 1, 2, 0));
  EXPECT_EQ(op.integer(Attr::kCausal, 0), 1);
  EXPECT_EQ(op.integer(Attr::kWindow, 0), 5);
  EXPECT_EQ(op.integer(Attr::kHeads, 0), 8);
  EXPECT_EQ(op.integer(Attr::kKeyValueHeads, 0), 2);
}

TEST(Network, QuantisedWeightsCarryTheirScales) {
  Network net("test", "quantised", {});
  const Tensor x = net.input("x", kBF16, {4, 256});
  // GPTQ: 4-bit weights in groups of 128 with zero points, multiplied in bf16.
  LinearOptions gptq;
  gptq.format = {.storage = ElementType::kU4,
                 .block_in = 128,
                 .block_out = 1,
                 .scale = ElementType::kF16,
                 .zero_points = true};
  const Tensor y = net.linear(x, "gptq", 512, gptq);
  // DeepSeek: fp8 both sides, 128×128 blocks, activation scales found at run time.
  LinearOptions fp8;
  fp8.format = {.storage = ElementType::kF8E4M3FN,
                .compute = ElementType::kF8E4M3FN,
                .block_in = 128,
                .block_out = 128,
                .scale = ElementType::kF32,
                .dynamic_activation_scales = true};
  net.output("z", net.linear(y, "fp8", 384, fp8));
  EXPECT_EQ(net.parameter_count(), 256 * 512 + 512 * 384);
  const Workload w = net.finish();

  std::map<std::string, const Type*> types;
  for (const Argument& a : entry_arguments(w)) {
    types[a.name] = a.type;
    if (a.name != "x") {
      EXPECT_EQ(a.role, Role::kParameter) << a.name;
    }
  }
  EXPECT_EQ(types.at("gptq.weight")->bytes, 256 * 512 / 2);
  EXPECT_THAT(types.at("gptq.weight_scale")->dims, ElementsAre(2, 512));
  EXPECT_EQ(types.at("gptq.weight_zero_point")->element, ElementType::kU4);
  EXPECT_THAT(types.at("fp8.weight_scale")->dims, ElementsAre(4, 3));
  const auto dots = ops_of(w, Opcode::k_scaled_dot);
  ASSERT_EQ(dots.size(), 2u);
  EXPECT_EQ(dots[0].integer(Attr::kComputeType, -1), static_cast<int64_t>(kBF16));
  EXPECT_EQ(dots[0].operand_type(0).element, kBF16);
  EXPECT_EQ(dots[1].operand_type(0).element, ElementType::kF8E4M3FN);
  EXPECT_THAT(dots[1].operand_type(3).dims, ElementsAre(4, 1));  // One scale a row.
  EXPECT_EQ(dots[1].result_type(0).element, kBF16);
}

TEST(Network, QuantisedWeightsAreNotTrained) {
  Network net("test", "quantised", {.training = true});
  LinearOptions options;
  options.format.storage = ElementType::kS4;
  options.format.scale = kBF16;
  EXPECT_THAT(error_of(
                  [&] {
                    net.linear(net.input("x", kBF16, {4, 8}), "l", 8, options);
                  },
                  ErrorKind::kUsage),
              HasSubstr("quantised"));
}

TEST(Network, ExpertsTrainAtThreeTimesTheirForward) {
  const auto build = [](bool training) {
    Network net("test", "moe", {.training = training});
    Tensor x = net.parameter("x", {64, 32});
    x = net.layer("moe", "moe", {x}, [&](const Tensors& in) -> Tensors {
      const Routing routing =
          net.route(net.linear(in[0], "router", 16), {.k = 4, .renormalise = true});
      const Tensor rows = net.dispatch(in[0], routing);
      const Tensor up = net.grouped_linear(rows, "up", 16, 128, routing, {.bias = true});
      return {net.combine(net.grouped_linear(net.silu(up), "down", 16, 32, routing), routing)};
    })[0];
    if (training)
      net.minimise_mean_squared_error(x, net.input("target", kBF16, x.dims()));
    else
      net.output("y", x);
    Workload w = net.finish();
    expect_well_formed(w);
    return w;
  };
  // The router, and 64·4 rows through 32×128 and back.
  const double forward = 2.0 * 64 * 32 * 16 + 2 * (2.0 * 256 * 32 * 128);
  EXPECT_DOUBLE_EQ(matrix_flops(build(false)), forward);
  const Workload w = build(true);
  EXPECT_DOUBLE_EQ(matrix_flops(w), 3 * forward);
  expect_updates_every_parameter(w);
}

TEST(Network, FusedAttentionAndLinearAttentionHaveBackwardOperations) {
  Network net("test", "mixers", {.training = true});
  const Tensor q = net.parameter("q", {2, 10, 8, 24});
  const Tensor k = net.parameter("k", {2, 10, 2, 24});
  const Tensor v = net.parameter("v", {2, 10, 2, 16});
  const Tensor sinks = net.parameter("sinks", {8});
  const Tensor mixed = net.attention(q, k, v, {.causal = true, .sinks = sinks});
  const Tensor gate = net.parameter("gate", {2, 10, 8});
  const LinearAttention scanned = net.linear_attention(q, q, mixed, {gate}, 64);
  net.minimise_mean_squared_error(scanned.output,
                                  net.input("target", kBF16, scanned.output.dims()));
  const Workload w = net.finish();
  expect_well_formed(w);
  expect_updates_every_parameter(w);
  const OpView backward = ops_of(w, Opcode::k_attention_backward).at(0);
  ASSERT_EQ(backward.operand_count(), 5u);  // d result, q, k, v, sinks.
  ASSERT_EQ(backward.result_count(), 4u);
  EXPECT_THAT(backward.operand_type(0).dims, ElementsAre(2, 8, 10, 16));
  EXPECT_THAT(backward.result_type(1).dims, ElementsAre(2, 2, 10, 24));
  EXPECT_THAT(backward.result_type(3).dims, ElementsAre(8));
  EXPECT_EQ(backward.integer(Attr::kCausal, 0), 1);
  const OpView scan = ops_of(w, Opcode::k_linear_attention_backward).at(0);
  EXPECT_EQ(scan.result_count(), 4u);
  EXPECT_EQ(scan.integer(Attr::kWindow, 0), 64);
}

TEST(Network, NormalisationsGiveTheGradientsOfTheirWeights) {
  Network net("test", "norms", {.training = true});
  Tensor x = net.input("x", kBF16, {2, 4, 4, 32});
  x = net.convolution(x, "stem", 32, {1, 1});
  x = net.batch_norm(x, "batch");
  x = net.group_norm(x, "group", 8);
  x = net.layer_norm(x, "layer");
  x = net.rms_norm(x, "rms");
  x = net.layer_norm(x, "plain", 1e-6, false);
  net.minimise_mean_squared_error(x, net.input("target", kBF16, x.dims()));
  const Workload w = net.finish();
  expect_well_formed(w);
  expect_updates_every_parameter(w);
  std::vector<uint32_t> results;
  for (const OpView& op : ops_of(w, Opcode::k_normalization_backward))
    results.push_back(op.result_count());
  EXPECT_THAT(results, ElementsAre(1, 2, 3, 3));  // plain, rms, layer, group: in reverse order.
  EXPECT_EQ(ops_of(w, Opcode::k_batch_norm_grad).at(0).result_count(), 3u);
}

TEST(Network, BackwardKeepsWhatItNeedsAndNoViews) {
  Network net("test", "kept", {.training = true});
  Tensor x = net.input("x", kBF16, {4, 6});
  x = net.layer("layer", "layer.0", {x}, [&](const Tensors& in) -> Tensors {
    const Tensor up = net.linear(in[0], "up", 8);
    const Tensor view = net.reshape(net.relu(up), {2, 2, 8});
    return {net.linear(view, "down", 3)};
  })[0];
  net.minimise_mean_squared_error(x, net.input("target", kBF16, x.dims()));
  const Workload w = net.finish();
  for (const Function& f : w.functions()) {
    // The output, and the relu's result: its reshaped view is made again, `up` is not needed.
    if (w.string(f.name) == "layer") {
      EXPECT_EQ(f.result_types.size(), 2u);
    }
    // Only the two weights get gradients: the network's input needs none.
    if (w.string(f.name) == "layer.backward") {
      EXPECT_EQ(f.result_types.size(), 2u);
    }
  }
}

TEST(Network, TypesOfWeightsAndActivationsMayDiffer) {
  Network net("test", "mixed", {.weights = ElementType::kF32, .activations = kBF16});
  net.output("y", net.linear(net.input("x", kBF16, {4, 8}), "l", 8, {.bias = true}));
  const Workload w = net.finish();
  const OpView dot = ops_of(w, Opcode::k_dot_general).at(0);
  EXPECT_EQ(dot.operand_type(1).element, ElementType::kF32);
  EXPECT_EQ(dot.result_type(0).element, kBF16);
  EXPECT_EQ(dot.integer(Attr::kComputeType, -1), static_cast<int64_t>(kBF16));
}

TEST(NetworkErrors, SayWhatIsWrong) {
  Network net("test", "errors", {});
  const Tensor x = net.input("x", kBF16, {2, 8});
  EXPECT_THAT(error_of(
                  [&] {
                    net.layer("outer", "outer", {},
                              [&](const Tensors&) -> Tensors { return {net.relu(x)}; });
                  },
                  ErrorKind::kInternal),
              HasSubstr("pass it as an input"));
  EXPECT_THAT(error_of([&] { net.matmul(x, x); }, ErrorKind::kInternal), HasSubstr("sizes differ"));
  EXPECT_THAT(error_of(
                  [&] {
                    net.reshape(x, {3, 3});
                  },
                  ErrorKind::kInternal),
              HasSubstr("reshape"));
  EXPECT_THAT(error_of([&] { net.slice(x, 1, 4, 9); }, ErrorKind::kInternal), HasSubstr("slice"));
  EXPECT_THAT(
      error_of([&] { net.add(x, net.constant(1, ElementType::kF32)); }, ErrorKind::kInternal),
      HasSubstr("convert"));
  const auto identity = [](const Tensors& in) -> Tensors { return {in[0]}; };
  net.layer("kind", "a", {x}, identity);
  EXPECT_THAT(error_of([&] { net.layer("kind", "b", {net.reshape(x, {16})}, identity); },
                       ErrorKind::kInternal),
              HasSubstr("input 0"));
  EXPECT_THAT(error_of(
                  [&] {
                    net.parameter("huge", {1 << 30, 1 << 30});
                  },
                  ErrorKind::kUsage),
              HasSubstr("huge"));
  EXPECT_THAT(error_of([&] { net.parameter("empty", {0}); }, ErrorKind::kUsage),
              HasSubstr("empty"));
  net.cache("forgotten", {4});
  EXPECT_THAT(error_of([&] { net.finish(); }, ErrorKind::kInternal), HasSubstr("forgotten"));
}

TEST(NetworkErrors, AHugeLayerCountEndsInAnError) {
  Network net("test", "deep", {});
  EXPECT_THAT(error_of(
                  [&] {
                    net.repeat("layer", INT64_MAX, {net.input("x", kBF16, {2, 8})},
                               [&](const Tensors& in) -> Tensors {
                                 Tensor x = in[0];
                                 for (int i = 0; i < 50; ++i)
                                   x = net.linear(x, "l" + std::to_string(i), 8);
                                 return {x};
                               });
                  },
                  ErrorKind::kUsage),
              HasSubstr("more than"));
}

}  // namespace
}  // namespace orrery
