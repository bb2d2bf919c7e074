#include "orrery/api/asynchronous_collectives.h"

#include <gtest/gtest.h>

#include "orrery/api/module_collectives.h"
#include "orrery/api/session.h"
#include "orrery/workload/reader.h"

namespace orrery {
namespace {

/// Four products between, before and after two gathers of a computation.
std::string module(const std::string& lines) {
  return "HloModule m, is_scheduled=true, num_partitions=8\n\n"
         "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, "
         "b)\n}\n\n"
         "scatters {\n  p = f32[1024,1024]{1,0} parameter(0)\n  ROOT r = f32[128,1024]{1,0} "
         "reduce-scatter(p), replica_groups={{0,1,2,3,4,5,6,7}}, dimensions={0}, "
         "to_apply=sum\n}\n\n"
         "ENTRY main {\n  x = f32[1024,1024]{1,0} parameter(0)\n  y = f32[128,1024]{1,0} "
         "parameter(1)\n" +
         lines + "}\n";
}

struct Times {
  double network = 0;  ///< What the program waits for collectives.
  double kernels = 0;
  size_t asynchronous = 0;
};

/// Every kernel takes 1 ms, every collective 2.5 ms.
Times times_of(const std::string& lines) {
  const Workload w = read_workload(Source::from_memory("m.hlo", module(lines)), {});
  const Program program = lower(w, Session().catalogue().device("h200"), {});
  std::vector<bool> collectives;
  std::vector<Estimate> estimates(program.launches.size());
  for (size_t i = 0; i < program.launches.size(); ++i) {
    collectives.push_back(collective_call(w, program.launches[i].op).has_value());
    estimates[i].seconds = Seconds(collectives[i] ? 2.5e-3 : 1e-3);
  }
  const AsynchronousCollectives found(w, program, collectives);
  found.hide(estimates);
  Times times;
  times.asynchronous = found.size();
  for (size_t i = 0; i < estimates.size(); ++i)
    (collectives[i] ? times.network : times.kernels) += estimates[i].seconds.value;
  return times;
}

constexpr const char* kDot = "dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";

TEST(AsynchronousCollectives, HideBehindWhatRunsBetweenStartAndDone) {
  const Times times = times_of(
      "  s = (f32[128,1024]{1,0}, f32[1024,1024]{1,0}) all-gather-start(y), "
      "replica_groups={{0,1,2,3,4,5,6,7}}, dimensions={0}\n"
      "  d1 = f32[1024,1024]{1,0} " +
      std::string(kDot) + "  d2 = f32[1024,1024]{1,0} " + kDot +
      "  g = f32[1024,1024]{1,0} all-gather-done(s)\n"
      "  d3 = f32[1024,1024]{1,0} dot(g, d1), lhs_contracting_dims={1}, "
      "rhs_contracting_dims={0}\n"
      "  ROOT t = (f32[1024,1024]{1,0}, f32[1024,1024]{1,0}) tuple(d2, d3)\n");
  EXPECT_EQ(times.asynchronous, 1u);
  EXPECT_NEAR(times.kernels, 3e-3, 1e-12);
  EXPECT_NEAR(times.network, 0.5e-3, 1e-12);  // 2.5 ms less the two kernels between
}

TEST(AsynchronousCollectives, WaitForOneAnotherOnTheirStream) {
  const Times times = times_of(
      "  s = (f32[128,1024]{1,0}, f32[1024,1024]{1,0}) all-gather-start(y), "
      "replica_groups={{0,1,2,3,4,5,6,7}}, dimensions={0}\n"
      "  a = ((f32[1024,1024]{1,0}), f32[128,1024]{1,0}) async-start(x), calls=scatters\n"
      "  d1 = f32[1024,1024]{1,0} " +
      std::string(kDot) +
      "  g = f32[1024,1024]{1,0} all-gather-done(s)\n"
      "  d2 = f32[1024,1024]{1,0} " +
      kDot +
      "  r = f32[128,1024]{1,0} async-done(a), calls=scatters\n"
      "  ROOT t = (f32[1024,1024]{1,0}, f32[1024,1024]{1,0}, f32[1024,1024]{1,0}, "
      "f32[128,1024]{1,0}) tuple(d1, d2, g, r)\n");
  EXPECT_EQ(times.asynchronous, 2u);
  // The second ends at 5 ms: two kernels and a wait of 1.5 ms for the first, then 1.5 ms more.
  EXPECT_NEAR(times.network, 3e-3, 1e-12);
}

TEST(AsynchronousCollectives, OthersAreAwaitedWhereTheyStand) {
  const Times times = times_of(
      "  g = f32[1024,1024]{1,0} all-gather(y), replica_groups={{0,1,2,3,4,5,6,7}}, "
      "dimensions={0}\n  d1 = f32[1024,1024]{1,0} " +
      std::string(kDot) + "  ROOT t = (f32[1024,1024]{1,0}, f32[1024,1024]{1,0}) tuple(d1, g)\n");
  EXPECT_EQ(times.asynchronous, 0u);
  EXPECT_NEAR(times.network, 2.5e-3, 1e-12);
}

TEST(AsynchronousCollectives, AGatherThatIsStartedCarriesItsResultAlone) {
  const Workload w = read_workload(
      Source::from_memory(
          "m.hlo", module("  s = (f32[128,1024]{1,0}, f32[1024,1024]{1,0}) all-gather-start(y), "
                          "replica_groups={{0,1,2,3,4,5,6,7}}, dimensions={0}\n"
                          "  ROOT g = f32[1024,1024]{1,0} all-gather-done(s)\n")),
      {});
  std::vector<double> bytes;
  for (uint32_t i = 0; i < w.ops().size(); ++i)
    if (const auto call = collective_call(w, OpId{i}))
      if (call->call.kind == CollectiveKind::kAllGather) bytes.push_back(call->call.bytes.value);
  EXPECT_EQ(bytes, std::vector<double>{1024 * 1024 * 4});
}

}  // namespace
}  // namespace orrery
