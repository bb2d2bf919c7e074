#include "orrery/hardware/device_reader.h"

#include <gtest/gtest.h>

#include <string>

namespace orrery {
namespace {

DeviceTree no_parent(const std::string& name, const SourceLocation& where) {
  throw Error(ErrorKind::kInput, where, "no parent " + name);
}

DeviceTree read(const std::string& text) {
  return read_device(Source::from_memory("own/toy.yaml", text), no_parent);
}

std::string error_of(const std::string& text) {
  try {
    read(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInput);
    return e.what();
  }
  return "no error";
}

/// A whole file; errors are planted by replacing one of its lines.
const char* const kToy =
    "title: Toy\n"                                 // line 1
    "kind: gpu\n"                                  // line 2
    "vendor: Acme\n"                               // line 3
    "architecture: toy\n"                          // line 4
    "sources:\n"                                   // line 5
    "  sheet: Acme Toy data sheet, 2024\n"         // line 6
    "  own: measured, 2025\n"                      // line 7
    "compute:\n"                                   // line 8
    "  source: sheet\n"                            // line 9
    "  units: 4\n"                                 // line 10
    "  vector: {fp32: 1 TFLOP/s}\n"                // line 11
    "memory:\n"                                    // line 12
    "  source: sheet\n"                            // line 13
    "  technology: HBM3\n"                         // line 14
    "  capacity: 8 GB\n"                           // line 15
    "  bandwidth: {value: 1 TB/s, source: own}\n"  // line 16
    "power: {source: sheet, limit: 50 W}\n";       // line 17

std::string with(const std::string& line, const std::string& other) {
  std::string text = kToy;
  const size_t at = text.find(line);
  EXPECT_NE(at, std::string::npos) << line;
  return text.replace(at, line.size(), other);
}

TEST(DeviceReader, ReadsFiguresWithTheirSources) {
  const DeviceTree tree = read(kToy);
  EXPECT_EQ(tree.name, "toy");
  EXPECT_EQ(tree.words.at("vendor"), "Acme");
  EXPECT_EQ(tree.root.value("compute.units"), 4);
  EXPECT_EQ(tree.root.value("compute.vector.fp32"), 1e12);
  EXPECT_EQ(tree.root.value("memory.capacity"), 8e9);
  EXPECT_EQ(tree.root.figure("memory.capacity")->source, "Acme Toy data sheet, 2024");
  EXPECT_EQ(tree.root.figure("compute.vector.fp32")->source, "Acme Toy data sheet, 2024");
  EXPECT_EQ(tree.root.figure("memory.bandwidth")->source, "measured, 2025");
  EXPECT_EQ(tree.root.figure("memory.bandwidth")->where.line, 16);
  EXPECT_EQ(tree.root.value("power.idle"), 0);
}

TEST(DeviceReader, UnknownKeysNameTheNearest) {
  EXPECT_EQ(error_of(with("  capacity: 8 GB", "  capcity: 8 GB")),
            "own/toy.yaml:15:3: unknown key 'capcity' in 'memory'; did you mean 'capacity'?");
  EXPECT_EQ(error_of(with("vendor: Acme", "vendr: Acme")),
            "own/toy.yaml:3:1: unknown key 'vendr' at the top; did you mean 'vendor'?");
  EXPECT_EQ(error_of(with("limit: 50 W", "colour: red")),
            "own/toy.yaml:17:24: unknown key 'colour' in 'power'; allowed: limit, idle, reference, "
            "source");
  EXPECT_EQ(error_of(with("{value: 1 TB/s, source: own}", "{value: 1 TB/s, unit: own}")),
            "own/toy.yaml:16:30: unknown key 'unit' in the figure 'memory.bandwidth'; allowed: "
            "value, source");
  EXPECT_EQ(error_of(with("power: {source: sheet, limit: 50 W}", "power.limit: 50 W")),
            "own/toy.yaml:17:1: unknown key 'power.limit' at the top; did you mean 'power'?");
}

TEST(DeviceReader, QuantitiesNeedTheirUnit) {
  EXPECT_EQ(error_of(with("8 GB", "8")),
            "own/toy.yaml:15:13: memory.capacity: '8' has no unit; write it out, e.g. '141 GB'");
  EXPECT_EQ(error_of(with("8 GB", "8 W")),
            "own/toy.yaml:15:13: memory.capacity: '8 W' has the unit 'W'; expected one like "
            "'141 GB'");
  EXPECT_EQ(error_of(with("units: 4", "units: 4 GB")),
            "own/toy.yaml:10:10: compute.units: '4 GB' is a count and takes no unit");
  EXPECT_EQ(error_of(with("units: 4", "units: four")),
            "own/toy.yaml:10:10: compute.units: 'four' is not a quantity; expected one like '132'");
  EXPECT_EQ(error_of(with("units: 4", "units: [4]")),
            "own/toy.yaml:10:10: 'compute.units' takes a quantity");
}

TEST(DeviceReader, RefusesAbsurdValues) {
  EXPECT_EQ(error_of(with("8 GB", "-8 GB")),
            "own/toy.yaml:15:13: memory.capacity: '-8 GB' is out of range; memory.capacity goes "
            "from 1 B to 1 PB");
  EXPECT_EQ(error_of(with("units: 4", "units: 0")),
            "own/toy.yaml:10:10: compute.units: '0' is out of range; compute.units goes from 1 to "
            "1,000,000");
  EXPECT_EQ(error_of(with("units: 4", "units: 4.5")),
            "own/toy.yaml:10:10: compute.units: '4.5' is not a whole number");
  EXPECT_EQ(
      error_of(with("50 W", "nan W")),
      "own/toy.yaml:17:31: power.limit: 'nan W' is not a quantity; expected one like '700 W'");
  EXPECT_EQ(error_of(with("50 W", "1e300 TW")),
            "own/toy.yaml:17:31: power.limit: '1e300 TW' is out of range; power.limit goes from "
            "1 uW to 1 MW");
}

TEST(DeviceReader, FiguresNeedASource) {
  EXPECT_EQ(error_of(with("  source: sheet\n  units", "  units")),
            "own/toy.yaml:9:10: 'compute.units' has no source; give its section 'source: KEY', or "
            "write {value: 4, source: KEY}");
  EXPECT_EQ(error_of(with("source: own", "source: mine")),
            "own/toy.yaml:16:38: no source is called 'mine'; 'sources' has: own, sheet");
  EXPECT_EQ(error_of(with("own: measured, 2025", "own: ''")),
            "own/toy.yaml:7:8: an empty citation");
}

TEST(DeviceReader, NamesWhatIsMissing) {
  EXPECT_EQ(error_of(with("kind: gpu\n", "")),
            "own/toy.yaml:1:1: 'kind' is missing (What sort of machine)");
  EXPECT_EQ(error_of(with("  capacity: 8 GB\n", "")),
            "own/toy.yaml:12:1: 'memory.capacity' is missing (As the vendor states it)");
  EXPECT_EQ(error_of(with("  vector: {fp32: 1 TFLOP/s}\n", "")),
            "own/toy.yaml:8:1: 'compute' states no peak rate, neither in 'matrix' nor in 'vector'");
  EXPECT_EQ(error_of(with("  bandwidth:", "  l2: {instances: 2}\n  bandwidth:")),
            "own/toy.yaml:16:3: 'memory.l2.capacity' is missing (Of one instance)");
  EXPECT_EQ(error_of(with("bandwidth: {value: 1 TB/s, source: own}", "bandwidth: {source: own}")),
            "own/toy.yaml:16:14: 'memory.bandwidth' lacks its 'value'");
}

TEST(DeviceReader, ChecksTypesAndChoices) {
  EXPECT_EQ(error_of(with("kind: gpu", "kind: toaster")),
            "own/toy.yaml:2:7: 'kind' cannot be 'toaster'; it is one of gpu, tpu, asic, cpu");
  EXPECT_EQ(error_of(with("kind: gpu", "kind: [gpu]")), "own/toy.yaml:2:7: 'kind' takes a text");
  EXPECT_EQ(error_of(with("technology: HBM3", "technology: HBM9")).substr(0, 64),
            "own/toy.yaml:14:15: 'memory.technology' cannot be 'HBM9'; it is ");
  EXPECT_EQ(error_of(with("vector: {fp32: 1 TFLOP/s}", "vector: 1 TFLOP/s")),
            "own/toy.yaml:11:11: 'compute.vector' is a section and takes a map");
  EXPECT_EQ(error_of("- a\n- b\n"),
            "own/toy.yaml:1:1: a map was expected that begins with 'title:' or 'inherits:'");
  EXPECT_EQ(error_of(""),
            "own/toy.yaml:1:1: a map was expected that begins with 'title:' or 'inherits:'");
  EXPECT_EQ(error_of(with("units: 4", "units: 4\n  units: 5")),
            "own/toy.yaml:11:3: the key 'units' stands twice, first in line 10");
  EXPECT_EQ(error_of(with("limit: 50 W", "limit:")),
            "own/toy.yaml:17:24: 'power.limit' has no value, and none to take away");
}

DeviceTree toy_parent(const std::string&, const SourceLocation&) { return read(kToy); }

DeviceTree child(const std::string& text) {
  return read_device(Source::from_memory("child.yaml", text), toy_parent);
}

TEST(DeviceReader, ChildChangesOnlyWhatItStates) {
  const DeviceTree tree =
      child("inherits: toy\nsources: {mine: guess}\nmemory: {source: mine, capacity: 16 GB}\n");
  EXPECT_EQ(tree.name, "child");
  EXPECT_EQ(tree.words.at("title"), "Toy");
  EXPECT_EQ(tree.root.value("memory.capacity"), 16e9);
  EXPECT_EQ(tree.root.figure("memory.capacity")->source, "guess");
  EXPECT_EQ(tree.root.value("memory.bandwidth"), 1e12);
  EXPECT_EQ(tree.root.figure("memory.bandwidth")->source, "measured, 2025");
  EXPECT_EQ(tree.root.value("compute.units"), 4);
}

TEST(DeviceReader, ChildUsesItsParentsSourcesButNotItsSections) {
  EXPECT_EQ(child("inherits: toy\npower: {limit: {value: 60 W, source: own}}\n")
                .root.figure("power.limit")
                ->source,
            "measured, 2025");
  try {
    child("inherits: toy\npower: {limit: 60 W}\n");
    FAIL() << "a changed figure needs its own source";
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()).substr(0, 16), "child.yaml:2:16:");
  }
}

TEST(DeviceReader, TildeTakesAway) {
  EXPECT_EQ(child("inherits: toy\npower: ~\n").root.part("power"), nullptr);
  EXPECT_EQ(child("inherits: toy\npower: {limit: ~}\n").root.figure("power.limit"), nullptr);
  try {
    child("inherits: toy\nmemory: {capacity: ~}\n");
    FAIL() << "a required figure was taken away";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "child.yaml:2:1: 'memory.capacity' is missing (As the vendor states it)");
  }
}

}  // namespace
}  // namespace orrery
