#pragma once

#include <string>
#include <vector>

#include "orrery/api/train.h"

namespace CLI {
class App;
}

namespace orrery {

/// What every command about training asks: the model, the cluster, the batch, and how a strategy
/// of whatever sizes is run.
class TrainingOptions {
 public:
  void declare(CLI::App& app, TrainingQuestion& question);
  void declare_how(CLI::App& app, TrainingQuestion& question);
  /// What the texts say, put into the question; `kUsage` where they say nothing.
  void resolve(TrainingQuestion& question) const;

 private:
  const CLI::App* app_ = nullptr;
  std::vector<std::string> sets_;
  std::string dtype_ = "bf16", schedule_ = "1f1b", attention_, gradients_, dispatch_, moments_,
              weights_, loss_;
};

}  // namespace orrery
