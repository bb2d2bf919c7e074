#include "orrery/hardware/catalogue.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "orrery/base/shared_data_for_test.h"
#include "orrery/hardware/cluster_reader.h"
#include "orrery/hardware/component.h"
#include "orrery/hardware/schema.h"

namespace orrery {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

const Catalogue& catalogue() {
  static const Catalogue loaded(ORRERY_SOURCE_DIR "/hardware");
  return loaded;
}

/// A folder for files of a user's own, gone after the test.
class OwnFiles : public testing::Test {
 protected:
  OwnFiles()
      : folder_(fs::temp_directory_path() /
                fmt::format("orrery-{}-{}",
                            testing::UnitTest::GetInstance()->current_test_info()->name(),
                            testing::UnitTest::GetInstance()->random_seed())) {
    fs::create_directories(folder_);
  }
  ~OwnFiles() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    const fs::path path = folder_ / name;
    std::ofstream(path) << text;
    return path.string();
  }
  fs::path folder() const { return folder_; }

 private:
  fs::path folder_;
};

template <class Function>
Error error_from(Function function) {
  try {
    function();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "no error was thrown";
  return {ErrorKind::kInternal, ""};
}

Error device_error(const std::string& name, const std::vector<Override>& overrides = {}) {
  return error_from([&] { catalogue().device(name, overrides); });
}

// The files

TEST(CatalogueFiles, HoldAllPromisedDevices) {
  const auto names = catalogue().names();
  for (const char* name : {"v100-pcie-32gb",
                           "v100-sxm-16gb",
                           "v100-sxm-32gb",
                           "t4",
                           "p4",
                           "p100",
                           "a100-pcie-40gb",
                           "a100-sxm-40gb",
                           "a100-pcie-80gb",
                           "a100-sxm-80gb",
                           "a30",
                           "a10",
                           "a40",
                           "l4",
                           "l40s",
                           "rtx-3090",
                           "rtx-4090",
                           "rtx-pro-6000",
                           "h100-pcie",
                           "h100-sxm",
                           "h100-nvl",
                           "h200",
                           "gh200",
                           "b200",
                           "b300",
                           "gb200",
                           "mi100",
                           "mi210",
                           "mi250x",
                           "mi300x",
                           "tpu-v2",
                           "tpu-v3",
                           "tpu-v4",
                           "tpu-v5e",
                           "tpu-v5p",
                           "tpu-v6e",
                           "tpu-v7",
                           "gaudi2",
                           "gaudi3",
                           "xeon-platinum-8480c",
                           "epyc-9654"})
    EXPECT_THAT(names, testing::Contains(name));
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

TEST(CatalogueFiles, AllLoadAndCiteEveryFigure) {
  for (const std::string& name : catalogue().names()) {
    SCOPED_TRACE(name);
    for (char c : name)
      EXPECT_TRUE(std::islower(static_cast<unsigned char>(c)) != 0 ||
                  std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '-');
    const Device device = catalogue().device(name);
    EXPECT_EQ(device.name, name);
    EXPECT_GT(device.compute_units, 0);
    EXPECT_GE(device.main_memory().capacity.value, 8e9);
    EXPECT_GE(device.main_memory().bandwidth.value, 100e9);
    const auto figures = catalogue().figures(name);
    EXPECT_GT(figures.size(), 6U);
    for (const CitedFigure& figure : figures)
      EXPECT_GT(figure.source.size(), 10U) << figure.path << " cites too little";
  }
}

TEST(CatalogueFiles, ComputeUnitsMatchTheirSharedMemoriesAndRegisters) {
  for (const std::string& name : catalogue().names()) {
    const Device device = catalogue().device(name);
    for (const char* name_of_level : {"shared", "registers", "l1"}) {
      const MemoryLevel* level = device.level(name_of_level);
      if (level == nullptr) continue;
      EXPECT_EQ(level->instances, device.compute_units) << name << " " << name_of_level;
    }
  }
}

TEST(CatalogueFiles, NarrowTypesAreNotSlowerThanWideOnes) {
  for (const std::string& name : catalogue().names()) {
    const Device d = catalogue().device(name);
    const auto at_least = [&](ElementType narrow, ElementType wide) {
      if (d.matrix[narrow].value == 0) return;
      EXPECT_GE(d.matrix[narrow].value, d.matrix[wide].value)
          << name << " " << mlir_name(narrow) << " against " << mlir_name(wide);
    };
    at_least(ElementType::kF16, ElementType::kTF32);
    at_least(ElementType::kF8E4M3FN, ElementType::kBF16);
    at_least(ElementType::kF4E2M1FN, ElementType::kF8E4M3FN);
  }
}

/// Peak = units x FLOP a clock and unit x clock.
struct RateCheck {
  const char* device;
  double matrix_fp16_per_clock;  ///< Dense FLOP a clock and SM, 32-bit accumulation; 0: none.
  double vector_fp32_per_clock;
};

class PublishedRates : public testing::TestWithParam<RateCheck> {};

TEST_P(PublishedRates, FollowFromUnitsAndClock) {
  const RateCheck& check = GetParam();
  const Device d = catalogue().device(check.device);
  const double matrix = d.compute_units * check.matrix_fp16_per_clock * d.matrix_clock.value;
  EXPECT_NEAR(d.matrix[ElementType::kF16].value, matrix, 0.02 * matrix);
  const double vector = d.compute_units * check.vector_fp32_per_clock * d.clock.value;
  EXPECT_NEAR(d.vector[ElementType::kF32].value, vector, 0.02 * vector);
}

// FLOP a clock and SM by white paper: P100 (2016) 64 lanes; V100 (2017) 8 tensor
// cores of 64 multiply-adds; Turing (2018) the same; A100 (2020) 4 of 256; GA102
// (2021) 4 of 128, GeForce at half of it with 32-bit accumulation; H100 (2022) 4
// of 512; Ada (2023) as GA102; RTX Blackwell PRO (2025) as Ada. B200: 4 of 1,024,
// whose clock is itself derived, so that only its vector rate is a check.
INSTANTIATE_TEST_SUITE_P(
    Nvidia, PublishedRates,
    testing::Values(RateCheck{"p100", 0, 128}, RateCheck{"p4", 0, 256},
                    RateCheck{"v100-sxm-16gb", 1024, 128}, RateCheck{"v100-sxm-32gb", 1024, 128},
                    RateCheck{"v100-pcie-16gb", 1024, 128}, RateCheck{"v100-pcie-32gb", 1024, 128},
                    RateCheck{"t4", 1024, 128}, RateCheck{"a100-sxm-40gb", 2048, 128},
                    RateCheck{"a100-sxm-80gb", 2048, 128}, RateCheck{"a100-pcie-40gb", 2048, 128},
                    RateCheck{"a100-pcie-80gb", 2048, 128}, RateCheck{"a30", 2048, 128},
                    RateCheck{"a10", 1024, 256}, RateCheck{"a40", 1024, 256},
                    RateCheck{"rtx-3090", 512, 256}, RateCheck{"rtx-4090", 512, 256},
                    RateCheck{"l4", 1024, 256}, RateCheck{"l40s", 1024, 256},
                    RateCheck{"rtx-pro-6000", 1024, 256},
                    RateCheck{"rtx-pro-6000-server", 1024, 256}, RateCheck{"h100-sxm", 4096, 256},
                    RateCheck{"h100-pcie", 4096, 256}, RateCheck{"h100-nvl", 4096, 256},
                    RateCheck{"h200", 4096, 256}, RateCheck{"gh200", 4096, 256},
                    RateCheck{"gh200-144gb", 4096, 256}, RateCheck{"b200", 8192, 256},
                    RateCheck{"gb200", 8192, 256}, RateCheck{"b300", 8192, 256}),
    [](const auto& info) {
      std::string name = info.param.device;
      for (char& c : name)
        if (c == '-') c = '_';
      return name;
    });

TEST(PublishedArrays, FollowFromTheirShapeAndClock) {
  // Two FLOP a cell and clock. TPU v2, v3: CACM 2020; v4: ISCA 2023; v5e, v5p: Google
  // Cloud's rates over the clocks of How to Scale Your Model (2025).
  for (const char* name : {"tpu-v2", "tpu-v3", "tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e"}) {
    const Device d = catalogue().device(name);
    const double peak = 2.0 * d.array_rows * d.array_columns * d.arrays * d.clock.value;
    EXPECT_NEAR(d.matrix[ElementType::kBF16].value, peak, 0.01 * peak) << name;
  }
}

TEST(PublishedRatesOfAmd, FollowFromUnitsAndClock) {
  // FLOP a clock and CU by the CDNA white papers: vector fp32 128 (CDNA, CDNA 2), 256
  // (CDNA 3, 4: dual issue); matrix fp16 1,024, 1,024, 2,048 and 4,096.
  struct Check {
    const char* name;
    double matrix;
    double vector;
  };
  for (const Check& check :
       {Check{"mi100", 1024, 128}, Check{"mi210", 1024, 128}, Check{"mi250", 1024, 128},
        Check{"mi250x", 1024, 128}, Check{"mi250-gcd", 1024, 128}, Check{"mi250x-gcd", 1024, 128},
        Check{"mi300x", 2048, 256}, Check{"mi325x", 2048, 256}, Check{"mi355x", 4096, 256}}) {
    const Device d = catalogue().device(check.name);
    const double matrix = d.compute_units * check.matrix * d.clock.value;
    EXPECT_NEAR(d.matrix[ElementType::kF16].value, matrix, 0.01 * matrix) << check.name;
    const double vector = d.compute_units * check.vector * d.clock.value;
    EXPECT_NEAR(d.vector[ElementType::kF32].value, vector, 0.01 * vector) << check.name;
  }
}

// Values from data sheets

TEST(SpotValues, H200) {
  // NVIDIA H200 data sheet (2024): 141 GB at 4.8 TB/s, 1,979 TFLOPS bf16 and 3,958 fp8
  // with sparsity, NVLink 900 GB/s in both directions, 700 W.
  const Device d = catalogue().device("h200");
  EXPECT_EQ(d.title, "NVIDIA H200 SXM 141 GB");
  EXPECT_EQ(d.kind, "gpu");
  EXPECT_EQ(d.vendor, "NVIDIA");
  EXPECT_EQ(d.architecture, "hopper");
  EXPECT_EQ(d.compute_units, 132);
  EXPECT_EQ(d.clock.value, 1.98e9);
  EXPECT_EQ(d.matrix_clock.value, 1.83e9);
  EXPECT_EQ(d.main_memory().name, "hbm");
  EXPECT_EQ(d.main_memory().capacity.value, 141e9);
  EXPECT_EQ(d.main_memory().bandwidth.value, 4.8e12);
  EXPECT_NEAR(d.matrix[ElementType::kBF16].value, 1979e12 / 2, 0.2e12);
  EXPECT_NEAR(d.matrix[ElementType::kF8E4M3FN].value, 3958e12 / 2, 0.2e12);
  EXPECT_EQ(d.matrix[ElementType::kF8E5M2].value, d.matrix[ElementType::kF8E4M3FN].value);
  EXPECT_EQ(d.matrix[ElementType::kF4E2M1FN].value, 0);
  EXPECT_DOUBLE_EQ(d.vector[ElementType::kF32].value, 66.9e12);
  EXPECT_EQ(d.level("l2")->capacity.value, 62'914'560);
  EXPECT_EQ(d.level("shared")->capacity.value, 228 * 1024);
  EXPECT_EQ(d.level("shared")->instances, 132);
  EXPECT_EQ(d.level("vmem"), nullptr);
  ASSERT_FALSE(d.links.empty());
  EXPECT_EQ(d.links.front().name, "nvlink");
  EXPECT_EQ(d.links.front().bandwidth.value, 450e9);
  EXPECT_EQ(d.links.front().count, 18);
  EXPECT_EQ(d.power_limit.value, 700);
  EXPECT_EQ(d.usable_memory.value, 150'109'880'320);
  EXPECT_TRUE(d.gaps.empty());
}

TEST(SpotValues, GeForceBoardsHaveNoCheckBitsAndOneIsLikeTheL40S) {
  EXPECT_FALSE(catalogue().device("rtx-4090").check_bits);
  EXPECT_FALSE(catalogue().device("rtx-3090").check_bits);
  EXPECT_EQ(catalogue().device("rtx-4090").kernels_like, "l40s");
  for (const char* inherits : {"l40s", "l4"}) {
    EXPECT_TRUE(catalogue().device(inherits).check_bits) << inherits;
    EXPECT_EQ(catalogue().device(inherits).kernels_like, "") << inherits;
  }
}

TEST(SpotValues, H200AgreesWithTheMeasuredMachine) {
  ORRERY_SHARED_DATA_OR_SKIP(path, "h200/calibration.json");
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const Device d = catalogue().device("h200");
  EXPECT_THAT(text.str(), HasSubstr(fmt::format("\"sms\": {}", d.compute_units)));
  EXPECT_THAT(text.str(),
              HasSubstr(fmt::format("\"l2_bytes\": {:.0f}", d.level("l2")->capacity.value)));
  EXPECT_THAT(text.str(), HasSubstr(fmt::format("\"mem\": {:.0f}", d.usable_memory.value)));
}

TEST(SpotValues, A100Sxm80) {
  // NVIDIA A100 data sheet (2021): 2,039 GB/s, 312 TFLOPS bf16, 624 TOPS int8, 156 TFLOPS
  // tf32, 19.5 TFLOPS fp64 on tensor cores, 400 W; white paper: 40 MB of L2.
  const Device d = catalogue().device("a100-sxm-80gb");
  EXPECT_EQ(d.main_memory().bandwidth.value, 2.039e12);
  EXPECT_EQ(d.matrix[ElementType::kBF16].value, 312e12);
  EXPECT_EQ(d.matrix[ElementType::kS8].value, 624e12);
  EXPECT_EQ(d.matrix[ElementType::kU8].value, 624e12);
  EXPECT_EQ(d.matrix[ElementType::kTF32].value, 156e12);
  EXPECT_EQ(d.matrix[ElementType::kF64].value, 19.5e12);
  EXPECT_EQ(d.level("l2")->capacity.value, 40 * 1048576.0);
  EXPECT_EQ(d.power_limit.value, 400);
}

TEST(SpotValues, V100PcieHasNoNvlink) {
  // NVIDIA V100 data sheet (2020): 112 TFLOPS, 900 GB/s, 250 W, PCIe only.
  const Device d = catalogue().device("v100-pcie-32gb");
  EXPECT_EQ(d.matrix[ElementType::kF16].value, 112e12);
  EXPECT_EQ(d.matrix[ElementType::kBF16].value, 0);
  ASSERT_EQ(d.links.size(), 1U);
  EXPECT_EQ(d.links.front().name, "pcie");
}

TEST(SpotValues, Mi300x) {
  // AMD MI300X data sheet (2023): 304 CUs, 1,307.4 TFLOPS bf16, 2,614.9 fp8, 192 GB at
  // 5.3 TB/s, 750 W; CDNA 3 white paper: 256 MB of Infinity Cache at 17.2 TB/s.
  const Device d = catalogue().device("mi300x");
  EXPECT_EQ(d.compute_units, 304);
  EXPECT_EQ(d.matrix[ElementType::kF8E4M3FNUZ].value, 2614.9e12);
  EXPECT_EQ(d.main_memory().bandwidth.value, 5.3e12);
  ASSERT_GE(d.memory.size(), 3U);
  EXPECT_EQ(d.memory[1].name, "infinity_cache");
  EXPECT_EQ(d.memory[1].bandwidth.value, 17.2e12);
  EXPECT_EQ(d.memory[2].name, "l2");
  EXPECT_EQ(d.memory[2].instances, 8);
  EXPECT_EQ(d.memory.back().name, "registers");
}

TEST(SpotValues, TpuV5p) {
  // Google Cloud documentation (2025): 459 TFLOPS bf16, 95 GiB at 2,765 GB/s, 1,200 GB/s of
  // inter-chip bandwidth in both directions.
  const Device d = catalogue().device("tpu-v5p");
  EXPECT_EQ(d.kind, "tpu");
  EXPECT_EQ(d.matrix[ElementType::kBF16].value, 459e12);
  EXPECT_EQ(d.main_memory().capacity.value, 95 * 1073741824.0);
  EXPECT_EQ(d.links.front().name, "ici");
  EXPECT_EQ(d.links.front().bandwidth.value, 600e9);
}

TEST(SpotValues, GapsNameWhatIsNotPublished) {
  // Google states neither clock, vector rates nor power of TPU7x.
  EXPECT_THAT(catalogue().device("tpu-v7").gaps,
              ElementsAre(HasSubstr("compute.clock.boost"), HasSubstr("compute.vector.fp32"),
                          HasSubstr("compute.special"), HasSubstr("power.limit")));
}

// Names, paths, inheritance

TEST(Names, UnknownOnesAreUsageErrorsWithTheNearest) {
  const Error near = device_error("H20");
  EXPECT_EQ(near.kind(), ErrorKind::kUsage);
  EXPECT_STREQ(near.what(), "unknown device 'H20'; did you mean 'h200', 'gh200' or 'gh200-144gb'?");
  const Error far = device_error("toaster");
  EXPECT_EQ(far.kind(), ErrorKind::kUsage);
  EXPECT_THAT(far.what(), HasSubstr("unknown device 'toaster'; there is: a10, a100-pcie-40gb, "));
  EXPECT_EQ(device_error("").kind(), ErrorKind::kUsage);
}

TEST(Names, MissingFolderIsAnInputError) {
  const Error error = error_from([] { Catalogue("/no/such/folder").device("h200"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_THAT(error.what(), HasSubstr("/no/such/folder: cannot read the hardware catalogue"));
}

TEST_F(OwnFiles, InheritFromTheCatalogueAndChangeALine) {
  const std::string path = write("fat-h200.yaml",
                                 "inherits: h200\n"
                                 "sources: {plan: our wish}\n"
                                 "memory: {source: plan, capacity: 282 GB}\n");
  const Device d = catalogue().device(path);
  EXPECT_EQ(d.name, "fat-h200");
  EXPECT_EQ(d.main_memory().capacity.value, 282e9);
  EXPECT_EQ(d.main_memory().bandwidth.value, 4.8e12);
}

TEST_F(OwnFiles, InheritByRelativePath) {
  write("parent.yaml", "inherits: t4\ntitle: Parent\n");
  const std::string path = write("child.yaml", "inherits: ./parent.yaml\n");
  EXPECT_EQ(catalogue().device(path).title, "Parent");
  EXPECT_EQ(catalogue().device(write("by-name.yaml", "inherits: parent.yaml\n")).title, "Parent");
}

TEST_F(OwnFiles, CyclesAreFound) {
  const std::string own = write("own.yaml", "title: x\ninherits: own.yaml\n");
  EXPECT_EQ(std::string(device_error(own).what()),
            own + ":2:11: 'own.yaml' inherits from itself by way of 1 file(s)");
  const std::string a = write("a.yaml", "inherits: b.yaml\n");
  const std::string b =
      write("b.yaml", "inherits: ./../" + folder().filename().string() + "/a.yaml\n");
  EXPECT_THAT(device_error(a).what(), HasSubstr("b.yaml:1:11: "));
  EXPECT_THAT(device_error(a).what(), HasSubstr("inherits from itself by way of 2 file(s)"));
}

TEST_F(OwnFiles, LongChainsAreRefused) {
  std::string last = "t4";
  for (int i = 0; i < 20; ++i) {
    const std::string name = fmt::format("link{}.yaml", i);
    write(name, "inherits: " + last + "\n");
    last = name;
  }
  const Error error = device_error((folder() / last).string());
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_THAT(error.what(), HasSubstr("inherits over more than 16 files"));
}

TEST_F(OwnFiles, MissingParentsNameTheLine) {
  const std::string path = write("orphan.yaml", "title: x\ninherits: h20\n");
  const Error error = device_error(path);
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(std::string(error.what()), path +
                                           ":2:11: cannot inherit: unknown device 'h20'; did you "
                                           "mean 'h200', 'gh200' or 'gh200-144gb'?");
  const std::string lost = write("lost.yaml", "inherits: gone.yaml\n");
  EXPECT_THAT(device_error(lost).what(), HasSubstr("lost.yaml:1:11: cannot inherit: "));
  EXPECT_THAT(device_error(lost).what(), HasSubstr("gone.yaml: no such file"));
}

TEST_F(OwnFiles, ErrorsInAParentKeepItsPlace) {
  write("bad.yaml", "inherits: t4\ntitel: x\n");
  const std::string path = write("child.yaml", "inherits: bad.yaml\n");
  EXPECT_THAT(device_error(path).what(),
              HasSubstr("bad.yaml:2:1: unknown key 'titel' at the top; did you mean 'title'?"));
}

TEST_F(OwnFiles, PathsThatAreNoDescriptionAreInputErrors) {
  EXPECT_EQ(device_error("/no/such.yaml").kind(), ErrorKind::kInput);
  EXPECT_EQ(device_error(folder().string()).kind(), ErrorKind::kInput);
  EXPECT_EQ(device_error("/dev/zero").kind(), ErrorKind::kInput);
  const std::string large = write("large.yaml", std::string((1 << 20) + 1, '#'));
  EXPECT_THAT(device_error(large).what(), HasSubstr("1048577 bytes"));
}

// What-ifs

TEST(WhatIf, ChangesOneFigure) {
  const Device d =
      catalogue().device("h200", {{"memory.bandwidth", "6TB/s"}, {"power.idle", "80 W"}});
  EXPECT_EQ(d.main_memory().bandwidth.value, 6e12);
  EXPECT_EQ(d.idle_power.value, 80);
  EXPECT_EQ(d.main_memory().capacity.value, 141e9);
  EXPECT_TRUE(d.gaps.empty());
  bool found = false;
  for (const CitedFigure& f : catalogue().figures("h200", {{"memory.bandwidth", "6TB/s"}}))
    if (f.path == "memory.bandwidth") {
      found = true;
      EXPECT_EQ(f.text, "6TB/s");
      EXPECT_EQ(f.source, "what-if");
    }
  EXPECT_TRUE(found);
}

TEST(WhatIf, ABoardHeldToLessPowerIsTheSameBoard) {
  const Device d = catalogue().device("h200", {{"power.limit", "500 W"}});
  EXPECT_EQ(d.power_limit.value, 500);
  EXPECT_EQ(d.rated_power.value, 700);
  ASSERT_NE(d.as_described, nullptr);
  EXPECT_EQ(d.as_described->power_limit.value, 700);
  EXPECT_EQ(catalogue().device("h200").as_described, nullptr);
  EXPECT_EQ(catalogue().device("h200").rated_power.value, 700);
}

TEST(WhatIf, SaysThatPeakRatesDoNotFollowUnitsAndClocks) {
  const Device d = catalogue().device("h200", {{"compute.units", "264"}});
  EXPECT_EQ(d.compute_units, 264);
  EXPECT_THAT(d.gaps, ElementsAre(HasSubstr("what-if compute.units = 264: peak rates")));
}

TEST(WhatIf, FaultsAreUsageErrors) {
  const auto message = [](const std::string& path, const std::string& text) {
    const Error error = device_error("h200", {{path, text}});
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return std::string(error.what());
  };
  EXPECT_EQ(message("memory.bandwith", "6 TB/s"),
            "nothing in h200 is called 'memory.bandwith'; did you mean 'memory.bandwidth', "
            "'memory.l1.bandwidth' or 'memory.l2.bandwidth'?");
  EXPECT_EQ(message("q", "1"),
            "nothing in h200 is called 'q'; at the top there are: compute, "
            "memory, links, power");
  EXPECT_EQ(message("memory.bandwidth", "6"),
            "memory.bandwidth: '6' has no unit; write it out, e.g. '4.8 TB/s'");
  EXPECT_EQ(message("memory.bandwidth", "6 GB"),
            "memory.bandwidth: '6 GB' has the unit 'GB'; expected one like '4.8 TB/s'");
  EXPECT_THAT(message("memory.bandwidth", "-6 TB/s"), HasSubstr("out of range"));
  EXPECT_EQ(message("power", "1 W"),
            "'power' is a section; set one of its keys: power.limit, power.idle, power.reference");
  EXPECT_EQ(message("title", "Mine"), "'title' is not a quantity; only quantities can be set");
  EXPECT_EQ(message("links.ici.count", "4"),
            "h200 has no 'links.ici'; to add it, set links.ici.bandwidth too");
}

TEST(WhatIf, MayAddALink) {
  const Device d =
      catalogue().device("h200", {{"links.ici.count", "4"}, {"links.ici.bandwidth", "100 GB/s"}});
  EXPECT_EQ(d.links.size(), 3U);
}

// What the command line prints

TEST(Listings, HaveOneLineADevice) {
  const auto rows = catalogue().list();
  ASSERT_EQ(rows.size(), catalogue().names().size());
  for (const Listing& row : rows) {
    if (row.name != "h100-sxm") continue;
    EXPECT_EQ(row.title, "NVIDIA H100 SXM5 80 GB");
    EXPECT_EQ(row.kind, "gpu");
    EXPECT_EQ(row.memory.value, 80e9);
    EXPECT_EQ(row.bandwidth.value, 3.35e12);
    EXPECT_EQ(row.bf16.value, 989.4e12);
    EXPECT_EQ(row.power.value, 700);
  }
}

TEST(Figures, FollowTheSchemasOrder) {
  std::vector<std::string> paths;
  for (const CitedFigure& f : catalogue().figures("tpu-v7")) paths.push_back(f.path);
  EXPECT_THAT(paths, ElementsAre("compute.units", "compute.matrix.bf16", "compute.matrix.fp8",
                                 "memory.technology", "memory.capacity", "memory.bandwidth",
                                 "links.ici.bandwidth", "links.ici.count"));
}

TEST(Documentation, HoldsTheSchema) {
  std::stringstream text;
  text << std::ifstream(ORRERY_SOURCE_DIR "/docs/hardware.md").rdbuf();
  EXPECT_THAT(text.str(), HasSubstr(schema_markdown()))
      << "docs/hardware.md is older than schema.cc; its table should be:\n"
      << schema_markdown();
}

TEST(Documentation, HoldsTheKeysOfTiers) {
  std::stringstream text;
  text << std::ifstream(ORRERY_SOURCE_DIR "/docs/hardware.md").rdbuf();
  EXPECT_THAT(text.str(), HasSubstr(tier_markdown()))
      << "docs/hardware.md is older than cluster_reader.cc; its table should be:\n"
      << tier_markdown();
}

TEST(Documentation, ExampleLoads) {
  std::stringstream text;
  text << std::ifstream(ORRERY_SOURCE_DIR "/docs/hardware.md").rdbuf();
  const std::string page = text.str();
  const std::string opening = "```yaml\n";
  int examples = 0;
  for (size_t at = page.find(opening); at != std::string::npos; at = page.find(opening, at)) {
    at += opening.size();
    const size_t end = page.find("```", at);
    ASSERT_NE(end, std::string::npos);
    const Source source = Source::from_memory("example.yaml", page.substr(at, end - at));
    const std::string example = page.substr(at, end - at);
    if (example.find("fabric:") == std::string::npos) {
      EXPECT_NO_THROW(catalogue().device_from(source)) << example;
    } else {
      EXPECT_NO_THROW(catalogue().cluster_from(source)) << example;
    }
    ++examples;
    at = end;
  }
  EXPECT_EQ(examples, 4);
}

}  // namespace
}  // namespace orrery
