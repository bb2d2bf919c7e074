#include "orrery/workload/zoo/zoo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "orrery/workload/cost.h"
#include "orrery/workload/zoo/transformers.h"
#include "orrery/workload/zoo/workload_checks_for_test.h"

namespace orrery {
namespace {

using ::testing::HasSubstr;

BuildOptions in_phase(const std::string& phase, int64_t batch = 1) {
  BuildOptions options;
  options.phase = phase;
  options.batch = batch;
  return options;
}

TEST(Zoo, HasTheModelsPromised) {
  for (const char* name :
       {"resnet-18", "resnet-50", "resnet-101", "resnet-152", "mobilenet-v2", "bert-base",
        "bert-large", "vit-b-16", "vit-l-16", "stable-diffusion-1.5-unet", "dit-xl-2"})
    EXPECT_NE(find_zoo_model(name), nullptr) << name;
  EXPECT_TRUE(std::ranges::is_sorted(zoo_models(), {}, &ZooModel::name));
}

class EveryVisionModel : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryVisionModel, HasThePublishedParametersInForwardAndTraining) {
  const ZooModel& model = *find_zoo_model(GetParam());
  for (const char* phase : {"forward", "train"}) {
    // BERT is published with its pooler and trained with the language-model head.
    if (model.family == "bert" && phase == std::string("train")) continue;
    const Workload w = model.build(in_phase(phase));
    EXPECT_EQ(count_parameters(w), model.published_parameters) << phase;
  }
}

TEST_P(EveryVisionModel, IsWellFormedInEveryPhase) {
  const ZooModel& model = *find_zoo_model(GetParam());
  for (const std::string& phase : model.phases) {
    const Workload w = model.build(in_phase(phase, 2));
    expect_well_formed(w);
    if (phase == "train") expect_updates_every_parameter(w);
    EXPECT_EQ(w.format(), "zoo");
    EXPECT_EQ(w.name(), model.name);
  }
}

TEST_P(EveryVisionModel, TrainsWithEveryOptimiser) {
  const ZooModel& model = *find_zoo_model(GetParam());
  const auto state_bytes_per_weight = [&](const char* optimizer, const char* master) {
    BuildOptions options = in_phase("train");
    options.choices = {{"optimizer", optimizer}, {"master_weights", master}};
    const Workload w = model.build(options);
    expect_well_formed(w);
    const Function& f = w.function(w.entry());
    double state = 0;
    for (uint32_t i = 0; i < f.arguments.size(); ++i)
      if (f.arguments[i].role == Role::kOptimizerState)
        state += static_cast<double>(w.type(ValueId{w.region(f.body).first_argument + i}).bytes);
    return state / static_cast<double>(count_parameters(w));
  };
  EXPECT_EQ(state_bytes_per_weight("adamw", "no"), 8);    // Two fp32 moments.
  EXPECT_EQ(state_bytes_per_weight("adamw", "yes"), 12);  // And the fp32 weight.
  EXPECT_EQ(state_bytes_per_weight("sgd", "no"), 0);
  EXPECT_EQ(state_bytes_per_weight("none", "no"), 0);
}

TEST_P(EveryVisionModel, CostsWhatTheCountAboveSays) {
  const ZooModel& model = *find_zoo_model(GetParam());
  BuildOptions options = in_phase("forward");
  if (model.family == "t5") options.choices["attention"] = "full";
  const Workload w = model.build(options);
  EXPECT_DOUBLE_EQ(total_cost(w, w.entry()).flops(Unit::kMatrix), matrix_flops(w));
}

TEST_P(EveryVisionModel, TrainingIsThreeTimesForwardLessTheInputsGradient) {
  const ZooModel& model = *find_zoo_model(GetParam());
  BuildOptions forward = in_phase("forward");
  BuildOptions train = in_phase("train");
  if (model.family == "bert") forward.choices = train.choices = {{"head", "mlm"}};
  const double f = matrix_flops(model.build(forward));
  const double t = matrix_flops(model.build(train));
  EXPECT_LE(t, 3 * f);
  EXPECT_GT(t, 2.93 * f);
}

INSTANTIATE_TEST_SUITE_P(Zoo, EveryVisionModel,
                         ::testing::Values("resnet-18", "resnet-50", "resnet-101", "resnet-152",
                                           "mobilenet-v2", "bert-base", "bert-large", "vit-b-16",
                                           "vit-l-16", "stable-diffusion-1.5-unet", "dit-xl-2",
                                           "t5-small", "t5-base"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name)
                             if (c == '-' || c == '.') c = '_';
                           return name;
                         });

/// Multiply-adds of ResNet-50 at 224×224, block by block.
double resnet50_macs() {
  double macs = 112.0 * 112 * 64 * (7 * 7 * 3);
  const int blocks[] = {3, 4, 6, 3};
  double in = 64;
  double side = 56;
  for (int stage = 0; stage < 4; ++stage) {
    const double width = 64 << stage;
    for (int i = 0; i < blocks[stage]; ++i) {
      const bool halves = i == 0 && stage > 0;
      macs += side * side * in * width;  // The 1×1 before the stride.
      if (halves) side /= 2;
      const double pixels = side * side;
      macs += pixels * width * width * 9 + pixels * width * 4 * width;
      if (i == 0) macs += pixels * in * 4 * width;
      in = 4 * width;
    }
  }
  return macs + 2048 * 1000;
}

TEST(ResNet50, FlopsAreTheTextbooks) {
  EXPECT_NEAR(resnet50_macs(), 4.089e9, 0.001e9);  // torchvision: 4.09 GMAC.
  const Workload forward = build_zoo_model("resnet-50", in_phase("forward", 4));
  EXPECT_DOUBLE_EQ(matrix_flops(forward), 4 * 2 * resnet50_macs());
  // Training does each product three times, but no one asks for the pixels' gradient.
  const double stem = 2 * 112.0 * 112 * 64 * (7 * 7 * 3);
  const Workload train = build_zoo_model("resnet-50", in_phase("train", 4));
  EXPECT_DOUBLE_EQ(matrix_flops(train), 4 * (3 * 2 * resnet50_macs() - stem));
}

TEST(ResNet50, KeepsItsBuffersApartFromItsParameters) {
  const Workload w = build_zoo_model("resnet-50", in_phase("train"));
  const Function& f = w.function(w.entry());
  int64_t buffers = 0;
  for (uint32_t i = 0; i < f.arguments.size(); ++i)
    if (f.arguments[i].role == Role::kBuffer) {
      buffers += w.type(ValueId{w.region(f.body).first_argument + i}).elements;
      EXPECT_TRUE(f.arguments[i].donated);
    }
  EXPECT_EQ(buffers, 53'120);  // Mean and variance of 26,560 channels in 53 norms.
}

TEST(ResNet50, IsAsLargeAsTheImageAsked) {
  BuildOptions options = in_phase("forward");
  options.choices["image"] = "448";
  EXPECT_NEAR(matrix_flops(build_zoo_model("resnet-50", options)), 4 * 2 * resnet50_macs(),
              0.01 * 8 * resnet50_macs());
}

TEST(Zoo, FunctionsDoNotGrowWithDepth) {
  for (const char* phase : {"forward", "train"}) {
    EXPECT_EQ(build_zoo_model("resnet-50", in_phase(phase)).functions().size(),
              build_zoo_model("resnet-152", in_phase(phase)).functions().size());
    BertDescription shallow;
    shallow.layers = 2;
    BertDescription deep;
    deep.layers = 48;
    EXPECT_EQ(build_bert(shallow, in_phase(phase)).functions().size(),
              build_bert(deep, in_phase(phase)).functions().size());
  }
}

TEST(Bert, FlopsFollowTheFormula) {
  // 24·B·S·H²·L·(1 + S/6H) in the layers, 2·B·H² in the pooler.
  const double b = 2;
  const double s = 384;
  const double h = 768;
  const double l = 12;
  const double layers = 24 * b * s * h * h * l * (1 + s / (6 * h));
  BuildOptions options = in_phase("forward", 2);
  options.sequence = 384;
  for (const char* fused : {"yes", "no"}) {
    options.choices["fused_attention"] = fused;
    options.choices["head"] = "pooler";
    EXPECT_DOUBLE_EQ(matrix_flops(build_zoo_model("bert-base", options)), layers + 2 * b * h * h);
  }
  // The language-model head: a dense layer and the tied embedding, at every position.
  options.choices["head"] = "mlm";
  const double mlm = layers + 2 * b * s * h * h + 2 * b * s * h * 30522;
  EXPECT_DOUBLE_EQ(matrix_flops(build_zoo_model("bert-base", options)), mlm);
  options.phase = "train";
  EXPECT_DOUBLE_EQ(matrix_flops(build_zoo_model("bert-base", options)), 3 * mlm);
}

TEST(Bert, UpdatesTheTiedEmbeddingOnce) {
  const Workload w = build_zoo_model("bert-base", in_phase("train"));
  // 109,482,240 less the pooler's 590,592, plus transform 590,592 + 1,536 and bias 30,522.
  EXPECT_EQ(count_parameters(w), 109'482'240 + 1'536 + 30'522);
  int updates = 0;
  for (const Op& op : w.ops()) {
    if (op.code != Opcode::k_call) continue;
    const OpView view = w.view(OpId{static_cast<uint32_t>(&op - w.ops().data())});
    if (w.string(w.function(view.callee()).name) == "adamw_bf16_30522x768") ++updates;
  }
  EXPECT_EQ(updates, 1);
}

TEST(DiffusionTransformer, FlopsAreThePapers) {
  // Table 1: 118.64 Gflops for XL/2 at 256×256, which counts a multiply-add as one.
  EXPECT_NEAR(matrix_flops(build_zoo_model("dit-xl-2", in_phase("forward"))) / 2, 118.64e9,
              0.01 * 118.64e9);
}

TEST(StableDiffusion, CachesNothingAndNamesItsWeightsAsDiffusers) {
  const Workload w = build_zoo_model("stable-diffusion-1.5-unet", in_phase("forward"));
  std::set<std::string> names;
  for (const ArgumentInfo& a : w.function(w.entry()).arguments) names.emplace(w.string(a.name));
  for (const char* name :
       {"down_blocks.0.attentions.1.transformer_blocks.0.attn2.to_k.weight",
        "mid_block.resnets.1.conv2.bias", "up_blocks.3.resnets.2.conv_shortcut.weight",
        "time_embedding.linear_2.bias"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST(T5, DecodesWithItsCaches) {
  BuildOptions options = in_phase("decode", 4);
  options.context = 100;
  const Workload w = build_zoo_model("t5-small", options);
  const Function& f = w.function(w.entry());
  double cache = 0;
  for (uint32_t i = 0; i < f.arguments.size(); ++i)
    if (f.arguments[i].role == Role::kCache)
      cache += static_cast<double>(w.type(ValueId{w.region(f.body).first_argument + i}).bytes);
  // Keys and values of 101 decoded and 512 encoded tokens: 6 layers of 512 bf16.
  EXPECT_EQ(cache, 4.0 * 2 * 6 * (101 + 512) * 512 * 2);
}

TEST(T5, ForwardFlopsFollowTheFormula) {
  BuildOptions options = in_phase("forward", 1);
  options.sequence = 128;
  options.choices["attention"] = "full";
  const double s = 128;
  const double h = 512;
  const double encoder = 6 * (2 * s * h * h * 4 + 2 * s * h * 2048 * 2 + 4 * s * s * h);
  const double decoder = 6 * (2 * s * h * h * 8 + 2 * s * h * 2048 * 2 + 2 * 4 * s * s * h);
  EXPECT_DOUBLE_EQ(matrix_flops(build_zoo_model("t5-small", options)),
                   encoder + decoder + 2 * s * h * 32128);
}

// --- wrong requests -------------------------------------------------------------

std::string usage_error(const std::string& model, const BuildOptions& options) {
  try {
    build_zoo_model(model, options);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kUsage) << e.what();
    return e.what();
  }
  ADD_FAILURE() << model << " was built";
  return {};
}

TEST(ZooUsage, RefusesWhatCannotBe) {
  EXPECT_THAT(usage_error("resnet-5", in_phase("forward")), HasSubstr("resnet-50"));
  EXPECT_THAT(usage_error("bert-base", in_phase("decode")), HasSubstr("decode"));
  EXPECT_THAT(usage_error("bert-base", in_phase("backward")), HasSubstr("train"));
  for (int64_t batch : {int64_t{0}, int64_t{-1}, int64_t{1} << 40})
    EXPECT_THAT(usage_error("resnet-50", in_phase("forward", batch)),
                HasSubstr("allowed are 1 to"));
  BuildOptions options = in_phase("forward");
  for (int64_t sequence : {-1, 513, 1 << 30}) {
    options.sequence = sequence;
    EXPECT_THAT(usage_error("bert-base", options), HasSubstr("1 to 512"));
  }
  options.sequence = 128;
  EXPECT_THAT(usage_error("resnet-50", options), HasSubstr("images"));
  options = in_phase("forward");
  options.dtype = "int8";
  EXPECT_THAT(usage_error("resnet-50", options), HasSubstr("bf16"));
  options = in_phase("forward");
  options.choices["colour"] = "red";
  EXPECT_THAT(usage_error("resnet-50", options), HasSubstr("image"));
  options.choices = {{"optimizer", "lion"}};
  EXPECT_THAT(usage_error("resnet-50", options), HasSubstr("adamw|sgd|none"));
  for (const char* image : {"0", "-3", "many", "224x", "99999999999999999999"}) {
    options.choices = {{"image", image}};
    EXPECT_THAT(usage_error("resnet-50", options), HasSubstr("allowed are 1 to"));
  }
  options.choices = {{"latent", "60"}};
  EXPECT_THAT(usage_error("stable-diffusion-1.5-unet", options), HasSubstr("multiple of 8"));
  options.choices = {{"head", "pooler"}};
  options.phase = "train";
  EXPECT_THAT(usage_error("bert-base", options), HasSubstr("head=mlm"));
}

TEST(ZooUsage, ADescriptionThatCannotBeIsRefused) {
  const auto error = [](const auto& build) -> std::string {
    try {
      build();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kUsage) << e.what();
      return e.what();
    }
    return "none";
  };
  for (int64_t heads : {int64_t{0}, int64_t{-4}, INT64_MAX, int64_t{7}}) {
    BertDescription bert;
    bert.heads = heads;
    EXPECT_THAT(error([&] { build_bert(bert, {}); }), HasSubstr("heads"));
    VitDescription vit;
    vit.heads = heads;
    EXPECT_THAT(error([&] { build_vit(vit, {}); }), HasSubstr("heads"));
  }
  T5Description t5;
  t5.head_size = INT64_MAX;
  EXPECT_THAT(error([&] { build_t5(t5, {}); }), HasSubstr("head size"));
  BertDescription bert;
  bert.longest_sequence = 600;
  EXPECT_THAT(error([&] { build_bert(bert, {}); }), HasSubstr("positions"));
  VitDescription vit;
  vit.patch = 15;
  EXPECT_THAT(error([&] { build_vit(vit, {}); }), HasSubstr("patches"));
}

TEST(ZooUsage, ATensorTooLargeToMeanIsRefused) {
  BuildOptions options = in_phase("forward", 1 << 20);
  options.choices["image"] = "16384";
  usage_error("resnet-50", options);
}

TEST(Zoo, BuildsInTheTypeAsked) {
  for (const auto& [dtype, bytes] :
       std::vector<std::pair<std::string, int64_t>>{{"fp32", 4}, {"tf32", 4}, {"", 2}}) {
    BuildOptions options = in_phase("forward");
    options.dtype = dtype;
    const Workload w = build_zoo_model("vit-b-16", options);
    const Function& f = w.function(w.entry());
    int64_t size = 0;
    for (uint32_t i = 0; i < f.arguments.size(); ++i)
      if (f.arguments[i].role == Role::kParameter)
        size += w.type(ValueId{w.region(f.body).first_argument + i}).bytes;
    EXPECT_EQ(size, bytes * 86'567'656);
    bool tf32 = false;
    for (uint32_t i = 0; i < w.ops().size(); ++i)
      tf32 = tf32 || w.view(OpId{i}).integer(Attr::kComputeType, -1) ==
                         static_cast<int64_t>(ElementType::kTF32);
    EXPECT_EQ(tf32, dtype == "tf32");
  }
}

}  // namespace
}  // namespace orrery
