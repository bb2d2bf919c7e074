// Whole exported models: shapes, FLOPs and parameters against figures worked
// out by hand.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "orrery/base/shared_data_for_test.h"
#include "orrery/workload/reader.h"
#include "orrery/workload/readers/onnx/model.h"

namespace orrery {
namespace {

Workload read(const std::string& path) { return read_workload(Source::from_file(path), {}); }

/// Multiply-adds of convolutions and dot products, from types and attributes alone.
double multiply_adds(const Workload& w) {
  double total = 0;
  for (uint32_t i = 0; i < w.ops().size(); ++i) {
    const OpView op = w.view(OpId{i});
    if (op.code() == Opcode::k_convolution) {
      const Type& kernel = op.operand_type(1);
      double depth =
          static_cast<double>(kernel.dims[static_cast<size_t>(op.integer(Attr::kKernelInput, 1))]);
      for (int64_t d : op.integers(Attr::kKernelSpatial))
        depth *= static_cast<double>(kernel.dims[static_cast<size_t>(d)]);
      total += static_cast<double>(op.result_type(0).elements) * depth;
    } else if (op.code() == Opcode::k_dot_general) {
      double depth = 1;
      for (int64_t d : op.integers(Attr::kLhsContracting))
        depth *= static_cast<double>(op.operand_type(0).dims[static_cast<size_t>(d)]);
      total += static_cast<double>(op.result_type(0).elements) * depth;
    }
  }
  return total;
}

int64_t parameters(const Workload& w) {
  const Function& f = w.function(w.entry());
  const Region& body = w.region(f.body);
  int64_t total = 0;
  for (uint32_t i = 0; i < body.argument_count; ++i)
    if (f.arguments[i].role == Role::kParameter)
      total += w.type(ValueId{body.first_argument + i}).elements;
  return total;
}

std::set<std::string> inputs(const Workload& w) {
  std::set<std::string> names;
  for (const ArgumentInfo& info : w.function(w.entry()).arguments)
    if (info.role == Role::kInput) names.emplace(w.string(info.name));
  return names;
}

class RealModel : public ::testing::TestWithParam<const char*> {};

TEST_P(RealModel, IsReadWithoutUnknownOperationsAndWithTheDeclaredOutputs) {
  ORRERY_SHARED_DATA_OR_SKIP(folder, std::string("onnx/") + GetParam());
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".onnx") continue;
    SCOPED_TRACE(entry.path().filename());
    ++files;
    const Source source = Source::from_file(entry.path());
    const Workload w = read_workload(source, {});
    EXPECT_EQ(w.format(), "onnx");
    for (const Op& op : w.ops()) EXPECT_NE(op.code, Opcode::k_unknown);
    const onnx::Model model = onnx::parse_model(source);
    const Function& main = w.function(w.entry());
    ASSERT_EQ(main.result_types.size(), model.graph.outputs.size());
    for (size_t i = 0; i < main.result_types.size(); ++i) {
      std::vector<int64_t> declared;
      for (const auto& dim : model.graph.outputs[i].type.dims) declared.push_back(*dim.value);
      EXPECT_EQ(w.type(main.result_types[i]).dims, declared);
      EXPECT_EQ(w.type(main.result_types[i]).element, model.graph.outputs[i].type.element);
    }
    // PyTorch's exports declare every value on the way.
    for (const std::string& note : w.notes())
      EXPECT_EQ(note.find("is declared"), std::string::npos) << note;
  }
  EXPECT_GE(files, 6u);
}

INSTANTIATE_TEST_SUITE_P(Onnx, RealModel, ::testing::Values("torch", "light"));

// Multiply-adds by hand: He et al. 2015, Table 1, with the stride on the 3×3
// convolution as PyTorch has it, sum to 4,087,136,256 over the 53 convolutions;
// the classifier is 2048·1000.
TEST(OnnxModels, ResNet50CountsAsByHand) {
  ORRERY_SHARED_DATA_OR_SKIP(path, "onnx/torch/resnet50_b1.onnx");
  EXPECT_EQ(multiply_adds(read(path)), 4'087'136'256.0 + 2'048'000);
}

// BERT-base on 128 tokens, per layer: four 768×768 projections, two 768×3072
// ones, and 12 heads of scores and weighted sums; then the pooler on one token.
TEST(OnnxModels, BertBaseCountsAsByHand) {
  ORRERY_SHARED_DATA_OR_SKIP(path, "onnx/torch/bert_base_b1_s128.onnx");
  const double projections = 128.0 * (4 * 768 * 768 + 2 * 768 * 3072);
  const double attention = 2.0 * 12 * 128 * 128 * 64;
  EXPECT_EQ(multiply_adds(read(path)), 12 * (projections + attention) + 768 * 768);
}

// VGG-19 (Simonyan & Zisserman 2014): 19,632,062,464 multiply-adds, the sum over
// sixteen 3×3 convolutions (19,508,428,800) and three matrices (123,633,664).
TEST(OnnxModels, Vgg19CountsAsByHand) {
  ORRERY_SHARED_DATA_OR_SKIP(path, "onnx/light/light_vgg19.onnx");
  EXPECT_EQ(multiply_adds(read(path)), 19'508'428'800.0 + 123'633'664);
}

struct Published {
  const char* file;
  int64_t parameters;  ///< As torchvision or Hugging Face state them.
  int64_t folded;      ///< What this exporter left out, reckoned beside each.
  std::set<std::string> inputs;
};

class ParameterCount : public ::testing::TestWithParam<Published> {};

TEST_P(ParameterCount, IsThePublishedOneLessWhatTheExporterFolded) {
  const Published& p = GetParam();
  ORRERY_SHARED_DATA_OR_SKIP(path, std::string("onnx/torch/") + p.file);
  const Workload w = read(path);
  EXPECT_EQ(parameters(w), p.parameters - p.folded);
  EXPECT_EQ(inputs(w), p.inputs);
}

// The exporter folds batch normalisation into convolutions, drops biases that
// are zero and keeps equal tensors once.
INSTANTIATE_TEST_SUITE_P(
    Onnx, ParameterCount,
    ::testing::Values(
        // Scale and shift of 26,560 channels.
        Published{"resnet50_b1.onnx", 25'557'032, 2 * 26'560, {"x"}},
        // 17,056 channels, and the classifier's zero bias.
        Published{"mobilenet_v2_b1.onnx", 3'504'872, 2 * 17'056 + 1000, {"x"}},
        // 21,008 channels; zero biases of the squeeze (380) and excite (8,960)
        // convolutions and of the classifier.
        Published{"efficientnet_b0_b1.onnx", 5'288'548, 2 * 21'008 + 380 + 8'960 + 1000, {"x"}},
        // 24 of 25 equal norms (weight and bias), 12 zero output biases, the zero
        // class token and classifier bias.
        Published{"vit_b_16_b1.onnx", 86'567'656, 24 * 2 * 768 + 12 * 768 + 768 + 1000, {"x"}},
        // 24 of 25 equal norm weights; of 25 + 60 + 1 zero vectors of 768 one stays.
        Published{"bert_base_b1_s128.onnx",
                  109'482'240,
                  (24 + 85) * 768,
                  {"expand", "expand_2", "input_ids", "slice_1"}},
        // Two layers of Llama-2-7B with embedding and head, whose tables of
        // cosines, sines (four of 64·128) and masks (two of 64·64) became inputs too.
        Published{"llama_2layers_b1_s64.onnx",
                  2 * 32'000 * 4'096LL + 2 * (4 * 4'096 * 4'096 + 3 * 4'096 * 11'008) + 5 * 4'096,
                  -(4 * 64 * 128 + 2 * 64 * 64),
                  {"input_ids"}}));

}  // namespace
}  // namespace orrery
