#include "orrery/hardware/catalogue.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iostream>

namespace orrery {
TEST(Catalogue, All) {
  const Catalogue catalogue(ORRERY_SOURCE_DIR "/hardware");
  for (auto& n : catalogue.names()) {
    try {
      auto d = catalogue.device(n);
      std::cout << fmt::format(
          "{:22} {:5} {:8.1f} GB {:8.1f} GB/s bf16 {:8.1f} fp32 {:6.1f} {:5} W gaps {}\n", d.name,
          d.compute_units, d.main_memory().capacity.value / 1e9,
          d.main_memory().bandwidth.value / 1e9, d.matrix[ElementType::kBF16].value / 1e12,
          d.vector[ElementType::kF32].value / 1e12, d.power_limit.value, d.gaps.size());
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
}
}  // namespace orrery
