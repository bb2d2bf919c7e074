#include "orrery/hardware/catalogue.h"

#include <gtest/gtest.h>

namespace orrery {
namespace {
TEST(Catalogue, H200) {
  const Catalogue catalogue(ORRERY_SOURCE_DIR "/hardware");
  const Device d = catalogue.device("h200");
  EXPECT_EQ(d.main_memory().bandwidth.value, 4.8e12);
}
}  // namespace
}  // namespace orrery
