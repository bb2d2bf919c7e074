#include <gtest/gtest.h>

#include "orrery/hardware/catalogue.h"
#include "orrery/kernel/kernel_model.h"

namespace orrery {
namespace {

std::string chosen_for(const Device& device) {
  return std::string(Registry<KernelModel>::instance()
                         .at("auto", "kernel model")
                         .create()
                         ->bind(device, {.stack = "xla"})
                         ->name());
}

Device catalogued(const char* name) {
  return Catalogue(std::string(ORRERY_SOURCE_DIR) + "/hardware").device(name);
}

TEST(AutoModel, TakesTileForGpus) {
  EXPECT_EQ(chosen_for(catalogued("h200")), "tile");
  EXPECT_EQ(chosen_for(catalogued("mi300x")), "tile");
  EXPECT_EQ(chosen_for(catalogued("p4")), "tile");
}

TEST(AutoModel, TakesTheRooflineWhereNothingElseFits) {
  EXPECT_EQ(chosen_for(catalogued("epyc-9654")), "roofline");
  Device unknown_rates = catalogued("h200");
  unknown_rates.vector = {};
  EXPECT_EQ(chosen_for(unknown_rates), "roofline");
}

TEST(AutoModel, TakesSystolicForArraysOnceThereIsOne) {
  const bool registered = Registry<KernelModel>::instance().find("systolic") != nullptr;
  const Device tpu = catalogued("tpu-v4");
  ASSERT_GT(tpu.array_rows, 0);
  EXPECT_EQ(chosen_for(tpu), registered ? "systolic" : "roofline");
}

}  // namespace
}  // namespace orrery
