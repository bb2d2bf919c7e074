// How whole graphs are read: folding, open dimensions, control flow, functions,
// what an operator is translated to, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "orrery/workload/reader.h"
#include "orrery/workload/readers/onnx/protobuf_for_test.h"

namespace orrery {
namespace {

using namespace onnx::testing;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Workload read(const std::string& text, const ReadOptions& options = {}) {
  return read_workload(Source::from_memory("m.onnx", text), options);
}

std::string error(const std::string& text, const ReadOptions& options = {}) {
  try {
    read(text, options);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInput) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "was read";
  return "";
}

ReadOptions bind(const std::string& name, int64_t size) {
  ReadOptions options;
  options.bindings[name] = size;
  return options;
}

Sizes result(const Workload& w, size_t i = 0) {
  return w.type(w.function(w.entry()).result_types[i]).dims;
}

int64_t count(const Workload& w, Opcode code) {
  return std::count_if(w.ops().begin(), w.ops().end(),
                       [&](const Op& op) { return op.code == code; });
}

OpView first(const Workload& w, Opcode code) {
  for (uint32_t i = 0; i < w.ops().size(); ++i)
    if (w.ops()[i].code == code) return w.view(OpId{i});
  throw std::runtime_error("no " + std::string(name(code)));
}

Sizes integers_of(const OpView& op, Attr key) {
  const auto span = op.integers(key);
  return {span.begin(), span.end()};
}

Message output(const char* name) { return Message().bytes(1, name); }

// --- folding and open dimensions ----------------------------------------------

/// x[batch, sequence, 8] reshaped to [batch, sequence·8] by arithmetic on Shape(x).
std::string shape_arithmetic() {
  return model({.nodes = {node("Shape", {"x"}, {"s"}), node("Gather", {"s", "zero"}, {"b"}),
                          node("Slice", {"s", "one", "three"}, {"rest"}),
                          node("ReduceProd", {"rest"}, {"p"}, {attribute("keepdims", int64_t{1})}),
                          node("Unsqueeze", {"b", "axes"}, {"b1"}),
                          node("Concat", {"b1", "p"}, {"t"}, {attribute("axis", int64_t{0})}),
                          node("Reshape", {"x", "t"}, {"y"})},
                .initializers = {integers("zero", {0}, {}), integers("one", {1}),
                                 integers("three", {3}), integers("axes", {0})},
                .inputs = {value_info("x", kFloat, {-1, -2, 8})},
                .outputs = {output("y")},
                .values = {}});
}

TEST(OnnxReader, FoldsWhatShapesAreComputedFrom) {
  ReadOptions options = bind("batch", 4);
  options.bindings["sequence"] = 16;
  const Workload w = read(shape_arithmetic(), options);
  EXPECT_EQ(result(w), (Sizes{4, 128}));
  // Nothing but the view is left.
  ASSERT_EQ(w.ops().size(), 2u);
  EXPECT_EQ(w.ops()[0].code, Opcode::k_reshape);
  EXPECT_EQ(w.string(w.ops()[0].name), "the_Reshape");
  EXPECT_EQ(w.view(OpId{0}).string(Attr::kScope), "the_Reshape");
}

TEST(OnnxReader, AsksForOpenDimensionsByName) {
  EXPECT_THAT(error(shape_arithmetic()), HasSubstr("--bind batch=VALUE"));
  EXPECT_THAT(error(shape_arithmetic(), bind("batch", 4)), HasSubstr("--bind sequence=VALUE"));
  const std::string unnamed = model({.nodes = {node("Relu", {"x"}, {"y"})},
                                     .initializers = {},
                                     .inputs = {value_info("x", kFloat, {-3, 2})},
                                     .outputs = {output("y")},
                                     .values = {}});
  EXPECT_THAT(error(unnamed), HasSubstr("--bind '?'=VALUE"));
  EXPECT_EQ(result(read(unnamed, bind("?", 7))), (Sizes{7, 2}));
}

TEST(OnnxReader, TakesDataDependentSizesFromTheFileOrAsks) {
  GraphParts parts{.nodes = {node("NonZero", {"x"}, {"i"}), node("Transpose", {"i"}, {"y"})},
                   .initializers = {},
                   .inputs = {value_info("x", kFloat, {5, 6})},
                   .outputs = {output("y")},
                   .values = {}};
  EXPECT_THAT(error(model(parts)),
              ::testing::AllOf(HasSubstr("node 'the_NonZero'"), HasSubstr("--bind i.1=VALUE")));
  EXPECT_EQ(result(read(model(parts), bind("i.1", 9))), (Sizes{9, 2}));
  parts.values = {value_info("i", kInt64, {2, 4})};
  EXPECT_EQ(result(read(model(parts))), (Sizes{4, 2}));
}

// --- what operators become --------------------------------------------------------

TEST(OnnxReader, ConvolutionsKeepTheirGeometry) {
  const Workload w = read(model(
      {.nodes = {node("Conv", {"x", "w", "b"}, {"y"},
                      {attribute("group", int64_t{4}), attribute("pads", Sizes{1, 2, 3, 4}),
                       attribute("strides", Sizes{2, 1}), attribute("dilations", Sizes{1, 2})})},
       .initializers = {tensor("w", kFloat, {16, 2, 3, 3}), tensor("b", kFloat, {16})},
       .inputs = {value_info("x", kFloat, {1, 8, 10, 10})},
       .outputs = {output("y")},
       .values = {}}));
  const OpView conv = first(w, Opcode::k_convolution);
  EXPECT_EQ(conv.integer(Attr::kFeatureGroups, 0), 4);
  EXPECT_EQ(conv.integer(Attr::kKernelOutput, -1), 0);
  EXPECT_EQ(conv.integer(Attr::kKernelInput, -1), 1);
  EXPECT_EQ(integers_of(conv, Attr::kPaddingLow), (Sizes{1, 2}));
  EXPECT_EQ(integers_of(conv, Attr::kPaddingHigh), (Sizes{3, 4}));
  EXPECT_EQ(integers_of(conv, Attr::kWindowStrides), (Sizes{2, 1}));
  EXPECT_EQ(integers_of(conv, Attr::kWindowDilation), (Sizes{1, 2}));
  EXPECT_EQ(conv.result_type(0).dims, (Sizes{1, 16, 6, 12}));
  EXPECT_EQ(count(w, Opcode::k_add), 1);
  const Function& main = w.function(w.entry());
  ASSERT_EQ(main.arguments.size(), 3u);
  EXPECT_EQ(main.arguments[0].role, Role::kInput);
  EXPECT_EQ(main.arguments[1].role, Role::kParameter);
  EXPECT_EQ(w.string(main.arguments[1].name), "w");
}

TEST(OnnxReader, TransposedProductsAreDimensionNumbers) {
  const Workload w = read(
      model({.nodes = {node("Gemm", {"a", "b"}, {"y"},
                            {attribute("transA", int64_t{1}), attribute("transB", int64_t{1})})},
             .initializers = {},
             .inputs = {value_info("a", kFloat, {4, 3}), value_info("b", kFloat, {5, 4})},
             .outputs = {output("y")},
             .values = {}}));
  const OpView dot = first(w, Opcode::k_dot_general);
  EXPECT_EQ(integers_of(dot, Attr::kLhsContracting), Sizes{0});
  EXPECT_EQ(integers_of(dot, Attr::kRhsContracting), Sizes{1});
  EXPECT_EQ(count(w, Opcode::k_transpose), 0);
}

TEST(OnnxReader, AMatMulThatBroadcastsMovesNothing) {
  // [2,1,3,4]·[5,4,6]: 2 is free on the left, 5 on the right.
  const Workload w = read(
      model({.nodes = {node("MatMul", {"a", "b"}, {"y"})},
             .initializers = {},
             .inputs = {value_info("a", kFloat, {2, 1, 3, 4}), value_info("b", kFloat, {5, 4, 6})},
             .outputs = {output("y")},
             .values = {}}));
  const OpView dot = first(w, Opcode::k_dot_general);
  EXPECT_EQ(dot.result_type(0).dims, (Sizes{2, 3, 5, 6}));
  // In memory 2, 5, 3, 6: the order asked for.
  EXPECT_EQ(dot.result_type(0).minor_to_major, (Sizes{3, 1, 2, 0}));
  EXPECT_EQ(count(w, Opcode::k_transpose) + count(w, Opcode::k_broadcast_in_dim), 0);
  EXPECT_EQ(result(w), (Sizes{2, 5, 3, 6}));
}

// --- control flow -------------------------------------------------------------------

Message loop_body() {
  return graph({.nodes = {node("Identity", {"go"}, {"go_on"}), node("MatMul", {"h", "w"}, {"next"}),
                          node("Tanh", {"next"}, {"put_out"})},
                .initializers = {},
                .inputs = {value_info("i", kInt64, {}), value_info("go", kBool, {}),
                           value_info("h", kFloat, {2, 4})},
                .outputs = {output("go_on"), output("next"), output("put_out")},
                .values = {}});
}

TEST(OnnxReader, LoopsKeepTheirBodyAndTripCount) {
  const Workload w =
      read(model({.nodes = {node("Loop", {"m", "", "x"}, {"y", "all"},
                                 {graph_attribute("body", loop_body())})},
                  .initializers = {integers("m", {5}, {}), tensor("w", kFloat, {4, 4})},
                  .inputs = {value_info("x", kFloat, {2, 4})},
                  .outputs = {output("y"), output("all")},
                  .values = {}}));
  const OpView loop = first(w, Opcode::k_while);
  EXPECT_EQ(loop.integer(Attr::kTripCount, -1), 5);
  EXPECT_EQ(loop.bodies().size(), 2u);
  EXPECT_EQ(count(w, Opcode::k_dot_general), 1);
  EXPECT_EQ(result(w, 0), (Sizes{2, 4}));
  EXPECT_EQ(result(w, 1), (Sizes{5, 2, 4}));
}

TEST(OnnxReader, ALoopThatDataEndsIsCountedAsAsked) {
  const std::string text =
      model({.nodes = {node("Loop", {"m", "", "x"}, {"y"}, {graph_attribute("body", loop_body())})},
             .initializers = {tensor("w", kFloat, {4, 4})},
             .inputs = {value_info("m", kInt64, {}), value_info("x", kFloat, {2, 4})},
             .outputs = {output("y")},
             .values = {}});
  ReadOptions options;
  options.trip_count = 7;
  EXPECT_EQ(first(read(text, options), Opcode::k_while).integer(Attr::kTripCount, -1), 7);
}

TEST(OnnxReader, ScansSliceAndStack) {
  const Message body =
      graph({.nodes = {node("Add", {"state", "element"}, {"sum"})},
             .initializers = {},
             .inputs = {value_info("state", kFloat, {4}), value_info("element", kFloat, {4})},
             .outputs = {output("sum"), output("sum")},
             .values = {}});
  const Workload w = read(model(
      {.nodes = {node(
           "Scan", {"x0", "x"}, {"last", "all"},
           {graph_attribute("body", body), attribute("num_scan_inputs", int64_t{1}),
            attribute("scan_input_axes", Sizes{1}), attribute("scan_output_axes", Sizes{-1})})},
       .initializers = {},
       .inputs = {value_info("x0", kFloat, {4}), value_info("x", kFloat, {4, 9})},
       .outputs = {output("last"), output("all")},
       .values = {}}));
  EXPECT_EQ(first(w, Opcode::k_while).integer(Attr::kTripCount, -1), 9);
  EXPECT_EQ(result(w, 0), Sizes{4});
  EXPECT_EQ(result(w, 1), (Sizes{4, 9}));
}

TEST(OnnxReader, AnIfWithAKnownConditionIsInlined) {
  const auto branch = [](const char* op) {
    return graph({.nodes = {node(op, {"x"}, {"r"})},
                  .initializers = {},
                  .inputs = {},
                  .outputs = {output("r")},
                  .values = {}});
  };
  GraphParts parts{.nodes = {node("If", {"c"}, {"y"},
                                  {graph_attribute("then_branch", branch("Tanh")),
                                   graph_attribute("else_branch", branch("Exp"))})},
                   .initializers = {},
                   .inputs = {value_info("c", kBool, {}), value_info("x", kFloat, {3})},
                   .outputs = {output("y")},
                   .values = {}};
  const Workload open = read(model(parts));
  EXPECT_EQ(first(open, Opcode::k_if).bodies().size(), 2u);
  parts.inputs.erase(parts.inputs.begin());
  parts.initializers = {tensor("c", kBool, {}).varint(5, 0)};
  const Workload known = read(model(parts));
  EXPECT_EQ(count(known, Opcode::k_if), 0);
  EXPECT_EQ(count(known, Opcode::k_exponential), 1);
  EXPECT_EQ(count(known, Opcode::k_tanh), 0);
}

// 2·T·B·4H·(I + H) FLOPs: 4H·I for the inputs, 4H·H for the state, each step.
TEST(OnnxReader, AnLstmDoesItsProducts) {
  constexpr int64_t kSteps = 7, kBatch = 2, kInput = 5, kHidden = 3;
  const Workload w = read(
      model({.nodes = {node("LSTM", {"x", "w", "r"}, {"y"}, {attribute("hidden_size", kHidden)})},
             .initializers = {tensor("w", kFloat, {1, 4 * kHidden, kInput}),
                              tensor("r", kFloat, {1, 4 * kHidden, kHidden})},
             .inputs = {value_info("x", kFloat, {kSteps, kBatch, kInput})},
             .outputs = {output("y")},
             .values = {}}));
  const OpView loop = first(w, Opcode::k_while);
  EXPECT_EQ(loop.integer(Attr::kTripCount, 0), kSteps);
  int64_t outside = 0, inside = 0;
  for (uint32_t i = 0; i < w.ops().size(); ++i) {
    const OpView op = w.view(OpId{i});
    if (op.code() != Opcode::k_dot_general) continue;
    const int64_t depth =
        op.operand_type(0).dims[static_cast<size_t>(op.integers(Attr::kLhsContracting)[0])];
    (i > loop.id().index ? inside : outside) += op.result_type(0).elements * depth;
  }
  EXPECT_EQ(outside, kSteps * kBatch * 4 * kHidden * kInput);
  EXPECT_EQ(inside, kBatch * 4 * kHidden * kHidden);
  EXPECT_EQ(count(w, Opcode::k_logistic), 3);
  EXPECT_EQ(count(w, Opcode::k_tanh), 2);
}

// --- functions and unknown operators ------------------------------------------------

Message leaky_function(std::vector<Message> nodes) {
  Message f =
      Message().bytes(1, "Leaky").bytes(4, "a").bytes(4, "unused").bytes(5, "b").bytes(6, "slope");
  for (const Message& n : nodes) f.message(7, n);
  return f.message(9, Message().bytes(1, "").varint(2, 22)).bytes(10, "local");
}

TEST(OnnxReader, FunctionsAreInlinedWithTheirAttributes) {
  const Message reference = Message().bytes(1, "alpha").bytes(21, "slope").varint(20, 1);
  const Workload w =
      read(model({.nodes = {node("Leaky", {"x"}, {"y"}, {attribute("slope", 0.25f)}, "local")},
                  .initializers = {},
                  .inputs = {value_info("x", kFloat, {2, 3})},
                  .outputs = {output("y")},
                  .values = {}},
                 22, {leaky_function({node("LeakyRelu", {"a"}, {"b"}, {reference})})}));
  EXPECT_EQ(result(w), (Sizes{2, 3}));
  bool found = false;
  for (uint32_t i = 0; i < w.ops().size(); ++i)
    found |= w.view(OpId{i}).real(Attr::kRealValue, 0) == 0.25;
  EXPECT_TRUE(found);
}

TEST(OnnxReader, RecursiveFunctionsAreRefused) {
  EXPECT_THAT(error(model({.nodes = {node("Leaky", {"x"}, {"y"}, {}, "local")},
                           .initializers = {},
                           .inputs = {value_info("x", kFloat, {2})},
                           .outputs = {output("y")},
                           .values = {}},
                          22, {leaky_function({node("Leaky", {"a"}, {"b"}, {}, "local")})})),
              HasSubstr("calls itself"));
}

TEST(OnnxReader, FunctionsThatMultiplyAreBounded) {
  // Thirty functions, each calling the next twice: 2^30 nodes.
  std::vector<Message> functions;
  for (int i = 0; i < 30; ++i) {
    const std::string next = "F" + std::to_string(i + 1);
    Message f = Message().bytes(1, "F" + std::to_string(i)).bytes(4, "a").bytes(5, "c");
    if (i == 29)
      f.message(7, node("Relu", {"a"}, {"c"}));
    else
      f.message(7, node(next, {"a"}, {"b"}, {}, "l")).message(7, node(next, {"b"}, {"c"}, {}, "l"));
    functions.push_back(f.message(9, Message().bytes(1, "").varint(2, 22)).bytes(10, "l"));
  }
  EXPECT_THAT(error(model({.nodes = {node("F0", {"x"}, {"y"}, {}, "l")},
                           .initializers = {},
                           .inputs = {value_info("x", kFloat, {2})},
                           .outputs = {output("y")},
                           .values = {}},
                          22, functions)),
              HasSubstr("more than 250000 nodes"));
}

TEST(OnnxReader, UnknownOperatorsNeedDeclaredTypes) {
  GraphParts parts{
      .nodes = {node("Mystery", {"x"}, {"m"}, {}, "com.example"), node("Relu", {"m"}, {"y"})},
      .initializers = {},
      .inputs = {value_info("x", kFloat, {2})},
      .outputs = {output("y")},
      .values = {}};
  EXPECT_THAT(error(model(parts)), HasSubstr("com.example.Mystery is not known"));
  parts.values = {value_info("m", kFloat, {6})};
  const Workload w = read(model(parts));
  EXPECT_EQ(first(w, Opcode::k_unknown).string(Attr::kTarget), "com.example.Mystery");
  EXPECT_THAT(w.notes(), ElementsAre(HasSubstr("com.example.Mystery is not known")));
  EXPECT_EQ(result(w), Sizes{6});
}

TEST(OnnxReader, SequencesAreFollowed) {
  const Workload w = read(model(
      {.nodes = {node("SplitToSequence", {"x"}, {"s"}), node("SequenceAt", {"s", "at"}, {"a"}),
                 node("SequenceInsert", {"s", "a"}, {"t"}),
                 node("ConcatFromSequence", {"t"}, {"y"}, {attribute("axis", int64_t{0})})},
       .initializers = {integers("at", {-1}, {})},
       .inputs = {value_info("x", kFloat, {3, 4})},
       .outputs = {output("y")},
       .values = {}}));
  EXPECT_EQ(result(w), (Sizes{4, 4}));
}

TEST(OnnxReader, InputsHaveTheRolesTheirUsesGiveThem) {
  const Workload w =
      read(model({.nodes = {node("MatMul", {"x", "w"}, {"k"}), node("Add", {"k", "bias"}, {"kb"}),
                            node("Concat", {"past_key_values.0.key", "kb"}, {"all"},
                                 {attribute("axis", int64_t{1})}),
                            node("Add", {"all", "attention_mask"}, {"y"})},
                  .initializers = {},
                  .inputs = {value_info("x", kFloat, {2, 3}), value_info("w", kFloat, {3, 4}),
                             value_info("bias", kFloat, {4}),
                             value_info("past_key_values.0.key", kFloat, {2, 5}),
                             value_info("attention_mask", kFloat, {2, 9})},
                  .outputs = {output("y")},
                  .values = {}}));
  std::vector<Role> roles;
  for (const ArgumentInfo& info : w.function(w.entry()).arguments) roles.push_back(info.role);
  EXPECT_THAT(roles, ElementsAre(Role::kInput, Role::kParameter, Role::kParameter, Role::kCache,
                                 Role::kInput));
}

// --- what is refused ------------------------------------------------------------------

struct Refusal {
  const char* name;
  std::string text;
  const char* message;
};

std::string relu_of(const Message& input,
                    std::vector<Message> nodes = {node("Relu", {"x"}, {"y"})}) {
  return model({.nodes = std::move(nodes),
                .initializers = {},
                .inputs = {input},
                .outputs = {output("y")},
                .values = {}});
}

std::string deep_model(int depth) {
  Message inner = graph({.nodes = {node("Relu", {"x"}, {"r"})},
                         .initializers = {},
                         .inputs = {},
                         .outputs = {output("r")},
                         .values = {}});
  for (int i = 0; i < depth; ++i)
    inner = graph(
        {.nodes = {node(
             "If", {"c"}, {"r"},
             {graph_attribute("then_branch", inner),
              graph_attribute("else_branch", inner.text().size() < 200 ? inner : Message())})},
         .initializers = {},
         .inputs = {},
         .outputs = {output("r")},
         .values = {}});
  return Message().varint(1, 10).message(7, inner).text();
}

class Refused : public ::testing::TestWithParam<Refusal> {};

TEST_P(Refused, WithTheReason) {
  EXPECT_THAT(error(GetParam().text), HasSubstr(GetParam().message));
}

const Message kTwoByThree = value_info("x", kFloat, {2, 3});

INSTANTIATE_TEST_SUITE_P(
    Onnx, Refused,
    ::testing::Values(
        Refusal{"Empty", "", "without a graph"},
        Refusal{"Truncated", relu_of(kTwoByThree).substr(0, 20), "m.onnx: byte 2: field 7 is"},
        Refusal{"WrongWireType", Message().varint(1, 10).varint(7, 3).text(),
                "field 7 has wire type 0; a string or message was expected"},
        Refusal{"Cycle",
                relu_of(kTwoByThree, {node("Add", {"x", "b"}, {"a"}), node("Relu", {"a"}, {"b"}),
                                      node("Relu", {"a"}, {"y"})}),
                "'b' is not defined before it"},
        Refusal{"DefinedTwice",
                relu_of(kTwoByThree, {node("Relu", {"x"}, {"y"}), node("Tanh", {"x"}, {"y"})}),
                "'y' is defined twice"},
        Refusal{"MissingOutput", relu_of(kTwoByThree, {node("Relu", {"x"}, {"z"})}),
                "'y' is defined by no node"},
        Refusal{"AttributeType",
                relu_of(kTwoByThree, {node("Softmax", {"x"}, {"y"}, {attribute("axis", 1.0f)})}),
                "attribute 'axis' must be an integer"},
        Refusal{
            "AxisOutside",
            relu_of(kTwoByThree, {node("Softmax", {"x"}, {"y"}, {attribute("axis", int64_t{2})})}),
            "axis 2 is outside"},
        Refusal{"MissingInput", relu_of(kTwoByThree, {node("Add", {"x"}, {"y"})}),
                "input 1 is missing"},
        Refusal{
            "NoBroadcast",
            relu_of(kTwoByThree, {node("Transpose", {"x"}, {"t"}), node("Add", {"x", "t"}, {"y"})}),
            "do not broadcast together"},
        Refusal{"NoOperator", relu_of(kTwoByThree, {Message().bytes(1, "x").bytes(2, "y")}),
                "without an operator"},
        Refusal{"TooManyOutputs", relu_of(kTwoByThree, {node("Relu", {"x"}, {"y", "z"})}),
                "output 'z' is not one"},
        Refusal{
            "UnknownType",
            relu_of(Message().bytes(1, "x").message(2,
                                                    Message().message(1, Message().varint(1, 99)))),
            "data type 99 is not known"},
        Refusal{"NegativeSize",
                model({.nodes = {},
                       .initializers = {tensor("w", kFloat, {2, -3})},
                       .inputs = {},
                       .outputs = {},
                       .values = {}}),
                "negative dimension -3"},
        Refusal{"HugeTensor",
                model({.nodes = {},
                       .initializers = {tensor("w", kFloat, {1LL << 40, 1LL << 40})},
                       .inputs = {},
                       .outputs = {},
                       .values = {}}),
                "more than 2^48 elements"},
        Refusal{"ShortData",
                model({.nodes = {node("Reshape", {"x", "s"}, {"y"})},
                       .initializers = {integers("s", {2}, {3})},
                       .inputs = {kTwoByThree},
                       .outputs = {output("y")},
                       .values = {}}),
                "tensor 's' has 1 elements where its shape needs 3"},
        Refusal{"ReshapeByData",
                model({.nodes = {node("Reshape", {"x", "s"}, {"y"})},
                       .initializers = {},
                       .inputs = {kTwoByThree, value_info("s", kInt64, {2})},
                       .outputs = {output("y")},
                       .values = {}}),
                "the shape ('s') depends on data"},
        Refusal{"TooDeep", deep_model(40), "nested more than 32 deep"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace orrery
