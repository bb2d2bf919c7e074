// One small model an operator: result types against the operator's definition.
#include <gtest/gtest.h>

#include <sstream>

#include "orrery/workload/reader.h"
#include "orrery/workload/readers/onnx/operator.h"
#include "orrery/workload/readers/onnx/protobuf_for_test.h"

namespace orrery {
namespace {

using namespace onnx::testing;  // NOLINT(google-build-using-namespace)

Workload read(const std::string& text, const ReadOptions& options = {}) {
  return read_workload(Source::from_memory("m.onnx", text), options);
}

std::vector<Sizes> results(const Workload& w) {
  std::vector<Sizes> shapes;
  for (TypeId type : w.function(w.entry()).result_types) shapes.push_back(w.type(type).dims);
  return shapes;
}

/// A model of one node over float inputs x0, x1, … and the given constants.
struct OneNode {
  std::string op_type;
  std::vector<Sizes> inputs;
  std::vector<Message> attributes = {};
  std::vector<Sizes> constants = {};  ///< int64 vectors c0, c1, … after the inputs.
  size_t outputs = 1;
  int64_t opset = 22;
  std::string domain = {};
  DataType type = kFloat;

  std::string text() const {
    GraphParts parts;
    std::vector<std::string> names, produced;
    for (size_t i = 0; i < inputs.size(); ++i) {
      names.push_back("x" + std::to_string(i));
      parts.inputs.push_back(value_info(names.back(), type, inputs[i]));
    }
    for (size_t i = 0; i < constants.size(); ++i) {
      names.push_back("c" + std::to_string(i));
      parts.initializers.push_back(integers(names.back(), constants[i]));
    }
    for (size_t i = 0; i < outputs; ++i) {
      produced.push_back("y" + std::to_string(i));
      parts.outputs.push_back(Message().bytes(1, produced.back()));
    }
    parts.nodes = {node(op_type, names, produced, attributes, domain)};
    return model(parts, opset);
  }
};

struct Case {
  OneNode node;
  std::vector<Sizes> expected;
};

class OperatorShape : public ::testing::TestWithParam<Case> {};

TEST_P(OperatorShape, FollowsTheDefinition) {
  const Case& test = GetParam();
  EXPECT_EQ(results(read(test.node.text())), test.expected) << test.node.op_type;
}

const Sizes kImage = {2, 8, 10, 12};

INSTANTIATE_TEST_SUITE_P(
    Onnx, OperatorShape,
    ::testing::Values(
        // Elementwise.
        Case{{"Add", {{3, 1, 5}, {4, 1}}}, {{3, 4, 5}}},
        Case{{"Where", {{2, 1}, {3}, {1, 1, 1}}}, {{1, 2, 3}}},
        Case{{"Max", {{2, 1}, {3}, {2, 3}}}, {{2, 3}}},
        Case{{"PRelu", {{2, 8, 4, 4}, {8, 1, 1}}}, {{2, 8, 4, 4}}},
        Case{{"Add",
              {{2, 3, 4, 5}, {3}},
              {attribute("broadcast", int64_t{1}), attribute("axis", int64_t{1})},
              {},
              1,
              6},
             {{2, 3, 4, 5}}},
        Case{{"Clip", {{2, 3}}, {attribute("min", 0.0f), attribute("max", 6.0f)}, {}, 1, 6},
             {{2, 3}}},
        // Shapes.
        Case{{"Reshape", {{2, 3, 4}}, {}, {{0, -1}}}, {{2, 12}}},
        Case{{"Flatten", {{2, 3, 4}}, {attribute("axis", int64_t{2})}}, {{6, 4}}},
        Case{{"Squeeze", {{1, 3, 1}}, {}, {{-1}}}, {{1, 3}}},
        Case{{"Unsqueeze", {{3, 4}}, {}, {{0, -1}}}, {{1, 3, 4, 1}}},
        Case{{"Transpose", {{2, 3, 4}}}, {{4, 3, 2}}},
        Case{{"Transpose", {{2, 3, 4}}, {attribute("perm", Sizes{1, 0, 2})}}, {{3, 2, 4}}},
        Case{{"Concat", {{2, 3}, {2, 5}}, {attribute("axis", int64_t{-1})}}, {{2, 8}}},
        Case{{"Split", {{7, 2}}, {attribute("num_outputs", int64_t{3})}, {}, 3},
             {{3, 2}, {3, 2}, {1, 2}}},
        Case{{"Expand", {{3, 1}}, {}, {{2, 1, 6}}}, {{2, 3, 6}}},
        Case{{"Tile", {{2, 3}}, {}, {{2, 4}}}, {{4, 12}}},
        Case{{"Pad", {{2, 3}}, {}, {{1, 0, 2, -1}}}, {{5, 2}}},
        Case{{"DepthToSpace", {{1, 8, 2, 3}}, {attribute("blocksize", int64_t{2})}},
             {{1, 2, 4, 6}}},
        Case{{"SpaceToDepth", {{1, 2, 4, 6}}, {attribute("blocksize", int64_t{2})}},
             {{1, 8, 2, 3}}},
        Case{{"CenterCropPad", {{20, 8, 3}}, {}, {{10, 10, 3}}}, {{10, 10, 3}}},
        Case{{"ConstantOfShape", {}, {}, {{4, 5}}}, {{4, 5}}},
        // Slices and gathers.
        Case{{"Slice", {{20, 10, 5}}, {}, {{0, 0}, {3, 10}, {0, 1}, {1, 3}}}, {{3, 4, 5}}},
        Case{{"Slice", {{20, 10}}, {}, {{-1}, {-1000}, {0}, {-3}}}, {{7, 10}}},
        Case{{"Slice",
              {{20, 10}},
              {attribute("starts", Sizes{2}), attribute("ends", Sizes{-2})},
              {},
              1,
              9},
             {{16, 10}}},
        Case{{"Gather", {{5, 4, 3}}, {attribute("axis", int64_t{1})}, {{0, 2}}}, {{5, 2, 3}}},
        Case{{"Compress", {{3, 2}}, {attribute("axis", int64_t{0})}, {{1, 0, 1}}}, {{2, 2}}},
        Case{{"Trilu", {{3, 4, 5}}}, {{3, 4, 5}}}, Case{{"EyeLike", {{4, 5}}}, {{4, 5}}},
        // Convolutions: out = (in + pads − dilation·(k−1) − 1)/stride + 1.
        Case{{"Conv",
              {kImage, {16, 8, 3, 3}, {16}},
              {attribute("pads", Sizes{1, 1, 1, 1}), attribute("strides", Sizes{2, 2})}},
             {{2, 16, 5, 6}}},
        Case{{"Conv",
              {kImage, {8, 1, 3, 3}},
              {attribute("group", int64_t{8}), attribute("dilations", Sizes{2, 2})}},
             {{2, 8, 6, 8}}},
        Case{{"Conv",
              {kImage, {4, 8, 4, 4}},
              {attribute("auto_pad", "SAME_UPPER"), attribute("strides", Sizes{3, 3})}},
             {{2, 4, 4, 4}}},
        Case{{"ConvTranspose",
              {{1, 8, 3, 3}, {8, 2, 3, 3}},
              {attribute("strides", Sizes{3, 2}), attribute("group", int64_t{2})}},
             {{1, 4, 9, 7}}},
        Case{{"ConvTranspose",
              {{1, 1, 3, 3}, {1, 2, 3, 3}},
              {attribute("strides", Sizes{3, 2}), attribute("output_shape", Sizes{10, 8})}},
             {{1, 2, 10, 8}}},
        Case{{"DeformConv", {{1, 2, 5, 5}, {4, 2, 3, 3}, {1, 18, 3, 3}}}, {{1, 4, 3, 3}}},
        // Products.
        Case{{"Gemm",
              {{3, 4}, {5, 3}, {5}},
              {attribute("transA", int64_t{1}), attribute("transB", int64_t{1})}},
             {{4, 5}}},
        Case{{"MatMul", {{2, 1, 3, 4}, {5, 4, 6}}}, {{2, 5, 3, 6}}},
        Case{{"MatMul", {{3, 4}, {5, 4, 6}}}, {{5, 3, 6}}},
        Case{{"MatMul", {{4}, {5, 4, 6}}}, {{5, 6}}}, Case{{"MatMul", {{5, 3, 4}, {4}}}, {{5, 3}}},
        Case{{"MatMul", {{4}, {4}}}, {{}}},
        Case{{"Einsum", {{2, 3, 4}, {2, 4, 5}}, {attribute("equation", "bij,bjk->bik")}},
             {{2, 3, 5}}},
        Case{{"Einsum", {{2, 3, 4}, {5, 4}}, {attribute("equation", "...j,kj->k...")}},
             {{5, 2, 3}}},
        Case{{"Einsum", {{3, 3}}, {attribute("equation", "ii->i")}}, {{3}}},
        Case{{"Einsum", {{3, 4}}, {attribute("equation", "ba")}}, {{4, 3}}},
        Case{{"Einsum", {{2, 3}, {3, 4}, {4, 5}}, {attribute("equation", "ab,bc,cd->ad")}},
             {{2, 5}}},
        // Windows. The third is the ceil_mode example of the specification: a 4×4
        // image, kernel 3, stride 2.
        Case{{"MaxPool",
              {kImage},
              {attribute("kernel_shape", Sizes{3, 3}), attribute("strides", Sizes{2, 2})},
              {},
              2},
             {{2, 8, 4, 5}, {2, 8, 4, 5}}},
        Case{{"AveragePool",
              {kImage},
              {attribute("kernel_shape", Sizes{2, 2}), attribute("auto_pad", "SAME_LOWER")}},
             {{2, 8, 10, 12}}},
        Case{{"MaxPool",
              {{1, 1, 4, 4}},
              {attribute("kernel_shape", Sizes{3, 3}), attribute("strides", Sizes{2, 2}),
               attribute("ceil_mode", int64_t{1})}},
             {{1, 1, 2, 2}}},
        Case{{"GlobalAveragePool", {kImage}}, {{2, 8, 1, 1}}},
        Case{{"LpPool", {kImage}, {attribute("kernel_shape", Sizes{2, 2})}}, {{2, 8, 9, 11}}},
        Case{{"GridSample", {kImage, {2, 5, 6, 2}}}, {{2, 8, 5, 6}}},
        Case{{"Upsample",
              {{1, 1, 2, 2}},
              {Message()
                   .bytes(1, "scales")
                   .float32(7, 1)
                   .float32(7, 1)
                   .float32(7, 2)
                   .float32(7, 3)
                   .varint(20, 6)},
              {},
              1,
              7},
             {{1, 1, 4, 6}}},
        Case{{"Col2Im", {{1, 5 * 4, 9}}, {}, {{5, 5}, {2, 2}}}, {{1, 5, 5, 5}}},
        Case{{"AffineGrid", {{2, 2, 3}}, {}, {{2, 3, 5, 6}}}, {{2, 5, 6, 2}}},
        // Reductions and normalisations.
        Case{{"ReduceMean", {{3, 2, 4}}, {attribute("keepdims", int64_t{0})}, {{1}}}, {{3, 4}}},
        Case{{"ReduceSum", {{3, 2, 4}}}, {{1, 1, 1}}},
        Case{{"ReduceSum", {{3, 2, 4}}, {attribute("noop_with_empty_axes", int64_t{1})}},
             {{3, 2, 4}}},
        Case{{"ReduceLogSumExp",
              {{3, 2, 4}},
              {attribute("axes", Sizes{0, 2}), attribute("keepdims", int64_t{0})},
              {},
              1,
              13},
             {{2}}},
        Case{{"ArgMax",
              {{3, 4}},
              {attribute("axis", int64_t{1}), attribute("keepdims", int64_t{0})}},
             {{3}}},
        Case{{"TopK", {{3, 9}}, {}, {{4}}, 2}, {{3, 4}, {3, 4}}},
        Case{{"CumSum", {{3, 9}}, {}, {{0}}}, {{3, 9}}}, Case{{"Hardmax", {{3, 9}}}, {{3, 9}}},
        Case{{"LayerNormalization",
              {{2, 3, 4}, {3, 4}, {3, 4}},
              {attribute("axis", int64_t{1})},
              {},
              3},
             {{2, 3, 4}, {2, 1, 1}, {2, 1, 1}}},
        Case{{"BatchNormalization",
              {kImage, {8}, {8}, {8}, {8}},
              {attribute("training_mode", int64_t{1})},
              {},
              3},
             {kImage, {8}, {8}}},
        Case{{"GroupNormalization", {kImage, {8}, {8}}, {attribute("num_groups", int64_t{2})}},
             {kImage}},
        Case{{"LRN", {kImage}, {attribute("size", int64_t{5})}}, {kImage}},
        Case{{"SoftmaxCrossEntropyLoss", {{3, 5}}, {}, {{0, 1, 2}}, 2}, {{}, {3, 5}}},
        // Attention: three dimensions with head counts, and four.
        Case{{"Attention",
              {{2, 4, 24}, {2, 6, 8}, {2, 6, 12}},
              {attribute("q_num_heads", int64_t{3}), attribute("kv_num_heads", int64_t{1})},
              {},
              1,
              23},
             {{2, 4, 36}}},
        Case{{"Attention", {{2, 3, 4, 8}, {2, 3, 6, 8}, {2, 3, 6, 10}}, {}, {}, 1, 23},
             {{2, 3, 4, 10}}},
        Case{{"RMSNormalization", {{2, 8}, {8}}, {}, {}, 1, 23}, {{2, 8}}},
        Case{{"LinearAttention",
              {{2, 5, 16}, {2, 5, 8}, {2, 5, 12}},
              {attribute("q_num_heads", int64_t{4}), attribute("kv_num_heads", int64_t{2})},
              {},
              2,
              27},
             {{2, 5, 24}, {2, 2, 4, 6}}},
        Case{{"CausalConvWithState", {{2, 6, 9}, {6, 1, 4}}, {}, {}, 2, 27},
             {{2, 6, 9}, {2, 6, 3}}},
        Case{{"DFT",
              {{1, 10, 10, 1}},
              {attribute("onesided", int64_t{1}), attribute("axis", int64_t{1})},
              {},
              1,
              17},
             {{1, 6, 10, 2}}},
        // Recurrent: [directions, 4·hidden, …] weights.
        Case{{"LSTM",
              {{7, 2, 5}, {1, 12, 5}, {1, 12, 3}},
              {attribute("hidden_size", int64_t{3})},
              {},
              3},
             {{7, 1, 2, 3}, {1, 2, 3}, {1, 2, 3}}},
        Case{{"GRU",
              {{7, 2, 5}, {2, 9, 5}, {2, 9, 3}, {2, 18}},
              {attribute("direction", "bidirectional"), attribute("hidden_size", int64_t{3})},
              {},
              2},
             {{7, 2, 2, 3}, {2, 2, 3}}},
        Case{{"RNN", {{2, 7, 5}, {1, 3, 5}, {1, 3, 3}}, {attribute("layout", int64_t{1})}, {}, 2},
             {{2, 7, 1, 3}, {2, 1, 3}}},
        // com.microsoft.
        Case{{"SkipLayerNormalization",
              {{2, 4, 8}, {2, 4, 8}, {8}, {8}},
              {},
              {},
              1,
              22,
              "com.microsoft"},
             {{2, 4, 8}}},
        Case{{"Attention",
              {{2, 4, 8}, {8, 24}, {24}},
              {attribute("num_heads", int64_t{2})},
              {},
              1,
              22,
              "com.microsoft"},
             {{2, 4, 8}}},
        Case{{"MultiHeadAttention",
              {{2, 4, 8}, {2, 6, 8}, {2, 6, 12}},
              {attribute("num_heads", int64_t{2})},
              {},
              1,
              22,
              "com.microsoft"},
             {{2, 4, 12}}},
        Case{{"GroupQueryAttention",
              {{2, 4, 24}, {2, 4, 8}, {2, 4, 8}, {2, 1, 5, 8}, {2, 1, 5, 8}},
              {attribute("num_heads", int64_t{3}), attribute("kv_num_heads", int64_t{1})},
              {},
              3,
              22,
              "com.microsoft"},
             {{2, 4, 24}, {2, 1, 9, 8}, {2, 1, 9, 8}}},
        Case{{"FastGelu", {{2, 8}, {8}}, {}, {}, 1, 22, "com.microsoft"}, {{2, 8}}},
        Case{{"RotaryEmbedding",
              {{2, 4, 8}, {2, 4}, {16, 4}, {16, 4}},
              {},
              {},
              1,
              22,
              "com.microsoft"},
             {{2, 4, 8}}},
        Case{{"MatMulNBits",
              {{2, 4, 32}, {6, 1, 16}, {6}},
              {attribute("K", int64_t{32}), attribute("N", int64_t{6}),
               attribute("block_size", int64_t{32})},
              {},
              1,
              22,
              "com.microsoft"},
             {{2, 4, 6}}}));

// Every operator of ai.onnx up to operator set 27, deprecated ones with them.
TEST(OnnxOperators, AllOfTheDefaultDomainHaveARule) {
  std::istringstream names(R"(
    Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh Attention
    AveragePool BatchNormalization Bernoulli BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr
    BitwiseXor BlackmanWindow Cast CastLike CausalConvWithState Ceil Celu CenterCropPad Clip
    Col2Im Compress Concat ConcatFromSequence Constant ConstantOfShape Conv ConvInteger
    ConvTranspose Cos Cosh CumProd CumSum DFT DeformConv DepthToSpace DequantizeLinear Det Div
    Dropout DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU
    Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool
    Greater GreaterOrEqual GridSample GroupNormalization HammingWindow HannWindow HardSigmoid
    HardSwish Hardmax Identity If ImageDecoder InstanceNormalization IsInf IsNaN LRN LSTM
    LayerNormalization LeakyRelu Less LessOrEqual LinearAttention Log LogSoftmax Loop
    LpNormalization LpPool MatMul MatMulInteger Max MaxPool MaxRoiPool MaxUnpool Mean
    MeanVarianceNormalization MelWeightMatrix Min Mish Mod Mul Multinomial Neg
    NegativeLogLikelihoodLoss NonMaxSuppression NonZero Not OneHot Optional OptionalGetElement
    OptionalHasElement Or PRelu Pad Pow QLinearConv QLinearMatMul QuantizeLinear
    RMSNormalization RNN RandomNormal RandomNormalLike RandomUniform RandomUniformLike Range
    Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin
    ReduceProd ReduceSum ReduceSumSquare RegexFullMatch Relu Reshape Resize ReverseSequence
    RoiAlign RotaryEmbedding Round STFT Scan Scatter ScatterElements ScatterND Selu SequenceAt
    SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap
    Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax SoftmaxCrossEntropyLoss Softplus
    Softsign SpaceToDepth Split SplitToSequence Sqrt Squeeze StringConcat StringNormalizer
    StringSplit Sub Sum Swish Tan Tanh TensorScatter TfIdfVectorizer ThresholdedRelu Tile TopK
    Transpose Trilu Unique Unsqueeze Upsample Where Xor)");
  size_t count = 0;
  for (std::string name; names >> name; ++count)
    EXPECT_NE(onnx::find_rule("", name), nullptr) << name;
  EXPECT_EQ(count, 202u);
  EXPECT_EQ(onnx::find_rule("", "NoSuchOperator"), nullptr);
  EXPECT_EQ(onnx::find_rule("ai.onnx.ml", "Abs"), nullptr);
}

}  // namespace
}  // namespace orrery
