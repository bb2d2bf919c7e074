#include "orrery/hardware/cluster_reader.h"

#include <gtest/gtest.h>

#include "orrery/hardware/catalogue.h"

namespace orrery {
namespace {

const Catalogue& catalogue() {
  static const Catalogue kCatalogue(ORRERY_SOURCE_DIR "/hardware");
  return kCatalogue;
}

Cluster read(const std::string& text, const std::vector<Override>& overrides = {}) {
  return catalogue().cluster_from(Source::from_memory("my.yaml", text), overrides);
}

std::string fault(const std::string& text, const std::vector<Override>& overrides = {}) {
  try {
    read(text, overrides);
  } catch (const Error& e) {
    return e.what();
  }
  return "read";
}

const std::string kHead = "title: Mine\ndevice: h100-sxm\nsources: {me: a test}\n";

TEST(ClusterReader, ReadsTiersInsideFirst) {
  const Cluster c = read(kHead +
                         "fabric:\n  source: me\n"
                         "  nvlink: {shape: switch, size: 4, bandwidth: 450 GB/s, links: 18, "
                         "latency: 0.5 us, reduces: yes}\n"
                         "  net: {shape: fat-tree, size: 16, bandwidth: 400 Gb/s, group: 4, "
                         "oversubscription: 3}\n");
  EXPECT_EQ(c.name, "my");
  EXPECT_EQ(c.device.name, "h100-sxm");
  ASSERT_EQ(c.tiers.size(), 2);
  EXPECT_EQ(c.node_size(), 4);
  EXPECT_EQ(c.largest(), 64);
  EXPECT_DOUBLE_EQ(c.tiers[0].bandwidth.value, 450e9);
  EXPECT_DOUBLE_EQ(c.tiers[0].latency.value, 0.5e-6);
  EXPECT_TRUE(c.tiers[0].reduces);
  EXPECT_DOUBLE_EQ(c.tiers[1].bandwidth.value, 50e9);
  EXPECT_EQ(c.tiers[1].shape, FabricShape::kFatTree);
  EXPECT_EQ(c.tiers[1].group, 4);
  EXPECT_EQ(c.tiers[1].oversubscription, 3);
  EXPECT_FALSE(c.tiers[1].reduces);
  ASSERT_EQ(c.gaps.size(), 1);  // the network's latency
}

TEST(ClusterReader, ReadsToriRingsDragonfliesAndGraphs) {
  const Cluster torus = read(kHead +
                             "fabric: {ici: {source: me, shape: torus, dimensions: 4x8x2, "
                             "bandwidth: 300 GB/s, links: 6}}\n");
  EXPECT_EQ(torus.tiers[0].size, 64);
  EXPECT_EQ(torus.tiers[0].dimensions, (std::vector<int>{4, 8, 2}));
  const Cluster fly = read(kHead +
                           "fabric: {f: {source: me, shape: dragonfly, size: 64, group: 8, "
                           "bandwidth: 25 GB/s}}\n");
  EXPECT_EQ(fly.tiers[0].shape, FabricShape::kDragonfly);
  const Cluster graph = read(kHead +
                             "fabric:\n  mesh:\n    source: me\n    shape: graph\n    size: 3\n"
                             "    bandwidth: 50 GB/s\n    drawn:\n"
                             "      - {from: 0, to: 3, bandwidth: 25 GB/s, latency: 1 us}\n"
                             "      - {from: 1, to: 3, bandwidth: 25 GB/s}\n"
                             "      - {from: 2, to: 3, bandwidth: 25 GB/s}\n");
  ASSERT_EQ(graph.tiers[0].drawn.size(), 3);
  EXPECT_EQ(graph.tiers[0].drawn[0].to, 3);
  EXPECT_DOUBLE_EQ(graph.tiers[0].drawn[0].latency.value, 1e-6);
}

TEST(ClusterReader, SaysWhereAFileIsWrong) {
  EXPECT_EQ(fault(kHead + "fabric:\n  a: {source: me, shape: switch, size: 8}\n"),
            "my.yaml:5:3: fabric.a: 'bandwidth' is missing (Of one member into this tier, in one "
            "direction, all its links together)");
  EXPECT_EQ(
      fault(kHead + "fabric:\n  a: {shape: switch, size: 8, bandwidth: 1 GB/s}\n").substr(0, 51),
      "my.yaml:5:14: 'fabric.a.shape' has no source; give ");
  EXPECT_EQ(fault(kHead + "fabric:\n  a: {source: me, shape: switch, size: 8, bandwidth: 1 GB}\n")
                .substr(0, 37),
            "my.yaml:5:54: fabric.a.bandwidth: '1 ");
  EXPECT_NE(
      fault(kHead + "fabric:\n  a: {source: me, shap: switch}\n").find("did you mean 'shape'"),
      std::string::npos);
  EXPECT_NE(fault(kHead + "fabric:\n  a: {source: me, shape: torus, size: 8, bandwidth: 1 GB/s}\n")
                .find("16x16x16"),
            std::string::npos);
  EXPECT_NE(fault(kHead + "fabric:\n  a: {source: me, shape: torus, dimensions: 4y4, bandwidth: 1 "
                          "GB/s}\n")
                .find("'4y4'"),
            std::string::npos);
  EXPECT_NE(fault(kHead + "fabric:\n  a: {source: me, shape: graph, size: 3, bandwidth: 1 GB/s, "
                          "drawn: [{from: 0, to: 1, bandwidth: 1 GB/s}]}\n")
                .find("no links join member 2"),
            std::string::npos);
  EXPECT_EQ(fault("title: Mine\ndevice: h101\nsources: {me: a}\nfabric: {a: {source: me, shape: "
                  "switch, size: 2, bandwidth: 1 GB/s}}\n")
                .substr(0, 36),
            "my.yaml:2:9: unknown device 'h101'; ");
  EXPECT_EQ(fault("title: Mine\n").substr(0, 12), "my.yaml:1:1:");
  EXPECT_NE(fault("inherits: my.yaml\n").find("inherits from itself"), std::string::npos);
}

TEST(ClusterReader, InheritsTierByTier) {
  const Cluster meta = catalogue().cluster("meta-grand-teton-h100");
  EXPECT_EQ(meta.largest(), 24576);
  ASSERT_EQ(meta.tiers.size(), 2);
  EXPECT_EQ(meta.tiers[1].name, "roce");
  EXPECT_EQ(meta.tiers[1].oversubscription, 7);
  const Cluster selene = catalogue().cluster("selene");
  EXPECT_EQ(selene.tiers[1].size, 560);
  EXPECT_DOUBLE_EQ(selene.tiers[1].bandwidth.value, 200e9);
}

TEST(ClusterReader, WhatIfsAddressFabricAndDevice) {
  const Cluster c = catalogue().cluster(
      "dgx-h100", {{"fabric.nvlink.bandwidth", "900 GB/s"}, {"device.memory.bandwidth", "6 TB/s"}});
  EXPECT_DOUBLE_EQ(c.tiers[0].bandwidth.value, 900e9);
  EXPECT_DOUBLE_EQ(c.device.main_memory().bandwidth.value, 6e12);
  const Cluster pod = catalogue().cluster("tpu-v5e-pod", {{"fabric.ici.dimensions", "8x16"}});
  EXPECT_EQ(pod.tiers[0].size, 128);
  const auto usage = [](const char* path, const char* value) {
    try {
      catalogue().cluster("dgx-h100", {{path, value}});
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kUsage);
      return e.message();
    }
    return std::string();
  };
  EXPECT_NE(usage("memory.speed", "6 TB/s").find("'memory.speed' is no figure of its device"),
            std::string::npos);
  // Without a word of whose it is, a device's figure is the device's.
  EXPECT_DOUBLE_EQ(catalogue()
                       .cluster("dgx-h100", {{"memory.bandwidth", "6 TB/s"}})
                       .device.main_memory()
                       .bandwidth.value,
                   6e12);
  EXPECT_NE(usage("fabric.nvlnk.bandwidth", "6 TB/s").find("fabric.nvlink.bandwidth"),
            std::string::npos);
  EXPECT_NE(usage("fabric.nvlink.bandwidth", "6").find("fabric.nvlink.bandwidth"),
            std::string::npos);
}

TEST(ClusterReader, DevicesAndClustersAreNotMistaken) {
  const auto message = [](auto ask) {
    try {
      ask();
    } catch (const Error& e) {
      return e.message();
    }
    return std::string();
  };
  EXPECT_NE(message([] { catalogue().cluster("h100-sxm"); }).find("as dgx-h100"),
            std::string::npos);
  EXPECT_NE(message([] { catalogue().device("dgx-h100"); }).find("as its h100-sxm"),
            std::string::npos);
  EXPECT_NE(message([] { catalogue().cluster("dgx-h10"); }).find("dgx-h100"), std::string::npos);
  EXPECT_TRUE(catalogue().is_cluster("dgx-h100"));
  EXPECT_FALSE(catalogue().is_cluster("h100-sxm"));
}

/// Data sheets: eight rails of 200, 400 and 800 Gb/s, and 72 adapters a rack.
TEST(ClusterCatalogue, KnowsTheClustersOfADevice) {
  for (const char* device : {"h100-sxm", "b200", "no-such-device"}) {
    std::vector<std::string> listed;
    for (const ClusterListing& listing : catalogue().list_clusters())
      if (listing.device == device) listed.push_back(listing.name);
    EXPECT_EQ(catalogue().clusters_of(device), listed) << device;
  }
  EXPECT_TRUE(catalogue().clusters_of("no-such-device").empty());
  EXPECT_FALSE(catalogue().clusters_of("h100-sxm").empty());
}

TEST(ClusterCatalogue, HoldsWhatDataSheetsSay) {
  const auto outside = [](const char* name) {
    return catalogue().cluster(name).tiers[1].bandwidth.value / 1e9;
  };
  EXPECT_DOUBLE_EQ(outside("dgx-a100"), 8 * 200 / 8.0);
  EXPECT_DOUBLE_EQ(outside("dgx-h100"), 8 * 400 / 8.0);
  EXPECT_DOUBLE_EQ(outside("dgx-h200"), 8 * 400 / 8.0);
  EXPECT_DOUBLE_EQ(outside("dgx-b200"), 8 * 400 / 8.0);
  EXPECT_DOUBLE_EQ(outside("dgx-b300"), 8 * 800 / 8.0);
  EXPECT_DOUBLE_EQ(outside("gb200-nvl72"), 72 * 400 / 8.0);
  EXPECT_DOUBLE_EQ(outside("gb300-nvl72"), 72 * 800 / 8.0);
  // A tier's bandwidth is that of the device's own links.
  for (const ClusterListing& listing : catalogue().list_clusters()) {
    const Cluster c = catalogue().cluster(listing.name);
    for (const Link& link : c.device.links)
      if (link.name == c.tiers[0].name && c.name != "tpu-v3-8") {
        EXPECT_NEAR(c.tiers[0].bandwidth.value / link.bandwidth.value, 1, 1e-9) << c.name;
      }
    EXPECT_FALSE(catalogue().cluster_figures(listing.name).empty());
  }
}

}  // namespace
}  // namespace orrery
