#include "orrery/cli/training_options.h"

#include <CLI/CLI.hpp>

#include "orrery/cli/command.h"

namespace orrery {

void TrainingOptions::declare(CLI::App& app, TrainingQuestion& question) {
  app.add_option("MODEL", question.model,
                 "A language model of the zoo, or the config.json of a Hugging Face model")
      ->required();
  app.add_option("--on", question.cluster, "The cluster (see 'orrery hardware'), or a YAML file")
      ->type_name("CLUSTER")
      ->required();
  declare_set(app, sets_);
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
  app.add_option("--framework", question.framework,
                 "Whose defaults hold: megatron-core, megatron-2021, fsdp, maxtext")
      ->type_name("NAME")
      ->capture_default_str();
}

void TrainingOptions::resolve(TrainingQuestion& question) const {
  question.strategy.precision = training_precision(dtype_);
  question.overrides = read_overrides(sets_);
}

}  // namespace orrery
