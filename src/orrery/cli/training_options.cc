#include "orrery/cli/training_options.h"

#include <CLI/CLI.hpp>

#include "orrery/cli/command.h"

namespace orrery {

void TrainingOptions::declare(CLI::App& app, TrainingQuestion& question) {
  app_ = &app;
  app.add_option("MODEL", question.model,
                 "A language model of the zoo, or the config.json of a Hugging Face model")
      ->required();
  app.add_option("--on", question.cluster, "The cluster (see 'orrery hardware'), or a YAML file")
      ->type_name("CLUSTER")
      ->required();
  declare_set(app, sets_, "the fabric's, e.g. fabric.nvlink.bandwidth=900GB/s");
  app.add_option("--global-batch", question.strategy.global_batch,
                 "Sequences of a step, on all devices")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->required();
  app.add_option("--seq", question.strategy.length, "Tokens of a sequence")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str();
  app.add_option("--dtype", dtype_,
                 "Number format of the linear layers: bf16, fp16, fp8, mxfp8, nvfp4")
      ->type_name("T")
      ->capture_default_str();
  app.add_option(
         "--framework", question.framework,
         "Whose defaults hold: megatron-core, megatron-2022, megatron-2021, megatron-fsdp, fsdp, "
         "torchtitan, maxtext")
      ->type_name("NAME")
      ->capture_default_str();
}

void TrainingOptions::declare_how(CLI::App& app, TrainingQuestion& question) {
  Strategy& s = question.strategy;
  app.add_option("--schedule", schedule_, "Order of micro-batches: 1f1b, gpipe, zero-bubble")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--attention", attention_, "One fused kernel, or products and softmax")
      ->type_name("HOW")
      ->check(CLI::IsMember({"fused", "unfused"}));
  app.add_option("--layers", layers_,
                 "What runs between products: fused loops, as of a library or torch.compile, or "
                 "PyTorch's operators one by one [as the framework does it]")
      ->type_name("HOW")
      ->check(CLI::IsMember({"fused", "operators"}));
  app.add_option("--gradients", gradients_, "Number format gradients are summed in")
      ->type_name("T")
      ->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--moments", moments_, "Number format of Adam's two moments [fp32]")
      ->type_name("T")
      ->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--weights", weights_,
                 "What linear layers in 8 bits keep of their weights: fp8, these alone, or as much "
                 "as 16 bits hold (a copy for each pass, or 16 bits) [bf16]")
      ->type_name("T")
      ->check(CLI::IsMember({"bf16", "fp8"}));
  app.add_option("--loss", loss_,
                 "How the loss is computed, which says how much of the logits is held: fp32 (from "
                 "a copy in 32 bits), operators (PyTorch's, one by one), compiled, fused (their "
                 "gradient in their place) [as the framework does it]")
      ->type_name("HOW")
      ->check(CLI::IsMember({"fp32", "operators", "compiled", "fused"}));
  app.add_flag("--overlap-tensor,!--no-overlap-tensor", s.overlap_tensor,
               "Tensor-parallel traffic runs in pieces behind its products");
  app.add_flag("--overlap-experts,!--no-overlap-experts", s.overlap_experts,
               "Tokens travel to experts behind other micro-batches' compute");
  app.add_option("--dispatch", dispatch_,
                 "How tokens travel to experts of other nodes: by-node, once to each node (DeepEP, "
                 "HybridEP), or all-to-all, once to each expert [by-node]")
      ->type_name("HOW")
      ->check(CLI::IsMember({"by-node", "all-to-all"}));
  app.add_flag("--fused-router", s.fused_router,
               "Experts are chosen by a library's fused kernels, not operator by operator");
  app.add_flag("--overlap-gradients,!--no-overlap-gradients", s.overlap_gradients,
               "Gradients are summed behind the backward pass");
  const auto extra = [&](const std::string& name, int& value, const std::string& help) {
    app.add_option(name, value, help)->type_name("N")->check(CLI::Range(0, 1 << 10));
  };
  extra("--plain-first", s.plain_first, "Layers at the beginning that stay in 16 bits");
  extra("--plain-last", s.plain_last, "Layers at the end that stay in 16 bits");
  extra("--mtp", s.further_tokens,
        "Multi-token prediction: tokens predicted beside the next one, a block each");
  app.add_flag("--graphs", s.graphs, "Layers run as CUDA graphs: the host is never late");
}

void TrainingOptions::resolve(TrainingQuestion& question) const {
  question.overrides = read_overrides(sets_);
  Strategy& s = question.strategy;
  s.precision = training_precision(dtype_);
  s.schedule = pipeline_schedule(schedule_);
  s.fused_attention = attention_ != "unfused";
  s.eager = layers_ == "operators";
  s.wide_gradients = gradients_ != "bf16";
  s.narrow_moments = moments_ == "bf16";
  s.narrow_weights = weights_ == "fp8";
  if (!loss_.empty()) s.loss = loss_kernel(loss_);
  s.once_a_node = dispatch_ != "all-to-all";
  for (const char* name : {"zero", "attention", "layers", "overlap-tensor", "overlap-experts",
                           "overlap-gradients", "gradients", "loss"})
    if (const CLI::Option* option = app_->get_option_no_throw("--" + std::string(name));
        option != nullptr && option->count() > 0)
      question.given.emplace_back(name);
}

}  // namespace orrery
