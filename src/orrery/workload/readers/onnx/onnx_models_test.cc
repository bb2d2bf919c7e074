// Whole exported models: shapes, FLOPs and parameters against figures worked
// out by hand.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
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
      double depth = static_cast<double>(
          kernel.dims[static_cast<size_t>(op.integer(Attr::kKernelInput, 1))]);
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
    // Every value the file declares on the way agrees too.
    for (const std::string& note : w.notes())
      EXPECT_EQ(note.find("is declared"), std::string::npos) << note;
  }
  EXPECT_GE(files, 6u);
}

INSTANTIATE_TEST_SUITE_P(Onnx, RealModel, ::testing::Values("torch", "light"));

// He et al. 2015 give 3.8·10⁹ multiply-adds for the original strides; with the
// stride on the 3×3 convolution, as PyTorch has it, convolutions are 4,087,136,256
// and the classifier 2,048,000 (sum over the 53 layers by hand).
TEST(OnnxModels, ResNet50CountsAsByHand) {
  ORRERY_SHARED_DATA_OR_SKIP(path, "onnx/torch/resnet50_b1.onnx");
  const Workload w = read(path);
  EXPECT_EQ(multiply_adds(w), 4'087'136'256.0 + 2'048'000);
  // torchvision's 25,557,032 less the 2·26,560 scales and shifts of batch
  // normalisation, folded into the convolutions here; their biases, all zero
  // after folding, share one... see the test of parameter roles below.
  EXPECT_EQ(inputs(w), std::set<std::string>{"x"});
}

}  // namespace
}  // namespace orrery
