#pragma once

#include <string>

#include "orrery/api/step_detail.h"

namespace orrery {

/// Steps on a made-up device, kernel by kernel, each with the time it is to take.
class StepForTest {
 public:
  struct Rates {
    double gigaflops = 0;
    double gigabytes = 0;
  };
  struct Work {
    Opcode code = Opcode::k_add;
    double gflop = 0;
    double gbyte = 0;
  };

  StepForTest(const std::string& name, const Rates& rates) {
    device_.name = name;
    device_.kind = "asic";  // no floor
    device_.vector.set(ElementType::kF32, FlopsPerSecond(rates.gigaflops * 1e9));
    device_.memory.push_back({"hbm", Bytes(1e12), BytesPerSecond(rates.gigabytes * 1e9), 1});
  }

  /// One kernel that takes `seconds`, and `cool` in a burst (as long unless given).
  StepDetail run(const Work& work, double seconds, double cool = 0) const {
    StepDetail step;
    step.device = device_;
    step.stack = step.kernels_of = "xla";
    step.kernel_model = "tile";
    add(step, work, seconds, cool);
    return step;
  }
  void add(StepDetail& step, const Work& work, double seconds, double cool = 0) const {
    Launch launch;
    launch.kernel.code = work.code;
    launch.kernel.family = family_of(work.code);
    launch.kernel.cost.vector_flops = work.gflop * 1e9;
    launch.kernel.cost.vector_type = ElementType::kF32;
    launch.kernel.cost.bytes_read = work.gbyte * 1e9;
    step.launches.push_back(launch);
    Estimate estimate;
    estimate.seconds = Seconds(seconds);
    step.estimates.push_back(estimate);
    if (cool > 0) estimate.seconds = Seconds(cool);
    step.cool.push_back(estimate);
    compose_again(step);
  }
  /// After a change to the launches, the estimates or the costs.
  static void compose_again(StepDetail& step) {
    Program program;
    program.launches = step.launches;
    step.total = compose(program, step.estimates, step.costs);
  }

 private:
  Device device_;
};

}  // namespace orrery
