// What a stated fusion reads, writes and looks like; sizes by hand.

#include "orrery/model/fused_kernel.h"

#include <gtest/gtest.h>

#include "orrery/hardware/catalogue.h"
#include "orrery/model/stack.h"
#include "orrery/workload/reader.h"

namespace orrery {
namespace {

/// The only launch of an HLO module whose entry is one fusion of `body`.
Kernel fusion(const std::string& parameters, const std::string& result, const std::string& body) {
  const std::string text = "HloModule m, is_scheduled=true\n\n%f (" + parameters + ") -> " +
                           result + " {\n" + body + "}\n\nENTRY %main (" + parameters + ") -> " +
                           result + " {\n" + body.substr(0, body.find("  //\n")) +
                           "  ROOT %fusion = " + result +
                           " fusion(%a, %b), kind=kLoop, calls=%f\n}\n";
  const Workload w = read_workload(Source::from_memory("m.hlo", text), {});
  const Device device = Catalogue(std::string(ORRERY_SOURCE_DIR) + "/hardware").device("h200");
  const FusionRules rules = Registry<Stack>::instance().at("xla", "stack").create()->rules();
  const Program program = lower(w, device, rules);
  EXPECT_EQ(program.launches.size(), 1u);
  return program.launches.empty() ? Kernel{} : program.launches[0].kernel;
}

TEST(FusedKernel, ReadsAndComputesNoMoreThanTheSlice) {
  const Kernel k = fusion("a: f32[1024,256], b: f32[256]", "f32[1,256]",
                          "  %a = f32[1024,256]{1,0} parameter(0)\n"
                          "  %b = f32[256]{0} parameter(1)\n  //\n"
                          "  %w = f32[1024,256]{1,0} broadcast(%b), dimensions={1}\n"
                          "  %s = f32[1024,256]{1,0} add(%a, %w)\n"
                          "  ROOT %r = f32[1,256]{1,0} slice(%s), slice={[3:4], [0:256]}\n");
  const auto& shape = std::get<FusionShape>(k.shape);
  EXPECT_EQ(shape.elements, 256);
  EXPECT_EQ(shape.operations, 1);
  EXPECT_EQ(shape.does, FusionShape::kSlices);
  // A row of a, and of b the share of the broadcast that is wanted.
  EXPECT_NEAR(k.cost.bytes_read, 256 * 4 + 1, 1e-9);
  EXPECT_EQ(k.cost.bytes_written, 256 * 4);
  EXPECT_EQ(k.cost.vector_flops, 256);
}

TEST(FusedKernel, AnUpdateInPlaceMovesTheUpdate) {
  const Kernel k = fusion("a: bf16[4096,128], b: bf16[1,128]", "bf16[4096,128]",
                          "  %a = bf16[4096,128]{1,0} parameter(0)\n"
                          "  %b = bf16[1,128]{1,0} parameter(1)\n  //\n"
                          "  %z = s32[] constant(0)\n"
                          "  %n = bf16[1,128]{1,0} negate(%b)\n"
                          "  ROOT %r = bf16[4096,128]{1,0} dynamic-update-slice(%a, %n, %z, %z)\n");
  const auto& shape = std::get<FusionShape>(k.shape);
  EXPECT_EQ(shape.elements, 128);
  EXPECT_EQ(shape.does, FusionShape::kUpdates);
  EXPECT_EQ(k.cost.bytes_read, 128 * 2);
  EXPECT_EQ(k.cost.bytes_written, 128 * 2);
}

TEST(FusedKernel, AnUpdateLargerThanItsTableCostsWhatItAdds) {
  // 4,096 rows are added into a table of two: as many additions as elements, no more.
  const Kernel k =
      fusion("a: f32[2,64], b: f32[4096,64]", "f32[2,64]",
             "  %a = f32[2,64]{1,0} parameter(0)\n"
             "  %b = f32[4096,64]{1,0} parameter(1)\n  //\n"
             "  %i = s32[4096,1]{1,0} iota(), iota_dimension=0\n"
             "  ROOT %r = f32[2,64]{1,0} scatter(%a, %i, %b), update_window_dims={1}, "
             "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
             "index_vector_dim=1, to_apply=%g\n}\n\n%g (x: f32[], y: f32[]) -> f32[] {\n"
             "  %x = f32[] parameter(0)\n  %y = f32[] parameter(1)\n"
             "  ROOT %s = f32[] add(%x, %y)\n");
  EXPECT_EQ(k.cost.vector_flops, 4096 * 64 + 4096);  // and the indices counted up
  EXPECT_EQ(std::get<FusionShape>(k.shape).does, FusionShape::kScatters);
}

TEST(FusedKernel, ReductionsAreRowsAsTheyLieInMemory) {
  // Over the middle of three dimensions, of which the first is the fastest: 64 neighbours apart.
  const Kernel k =
      fusion("a: f32[64,100,32], b: f32[]", "f32[64,32]",
             "  %a = f32[64,100,32]{0,1,2} parameter(0)\n"
             "  %b = f32[] parameter(1)\n  //\n"
             "  ROOT %r = f32[64,32]{0,1} reduce(%a, %b), dimensions={1}, to_apply=%g\n"
             "}\n\n%g (x: f32[], y: f32[]) -> f32[] {\n"
             "  %x = f32[] parameter(0)\n  %y = f32[] parameter(1)\n"
             "  ROOT %s = f32[] add(%x, %y)\n");
  const auto& shape = std::get<FusionShape>(k.shape);
  EXPECT_EQ(shape.rows, 64 * 32);
  EXPECT_EQ(shape.columns, 100);
  EXPECT_EQ(shape.inner, 64);
  EXPECT_EQ(shape.reductions, 1);
  EXPECT_EQ(shape.does & FusionShape::kNormalizes, 0);
  EXPECT_EQ(k.family, KernelFamily::kReduction);
}

TEST(FusedKernel, PiecesOfAConcatenationAreCounted) {
  const Kernel k = fusion("a: bf16[8,16], b: bf16[8,16]", "bf16[24,16]",
                          "  %a = bf16[8,16]{1,0} parameter(0)\n"
                          "  %b = bf16[8,16]{1,0} parameter(1)\n  //\n"
                          "  ROOT %r = bf16[24,16]{1,0} concatenate(%a, %b, %a), dimensions={0}\n");
  EXPECT_EQ(std::get<FusionShape>(k.shape).pieces, 3);
  EXPECT_EQ(k.cost.bytes_written, 24 * 16 * 2);
  EXPECT_EQ(k.cost.bytes_read, 2 * 8 * 16 * 2);
}

TEST(FusedKernel, AProductKeepsItsShapeAndTakesTheTraffic) {
  const Kernel k = fusion("a: bf16[64,128], b: bf16[128,32]", "f32[64,32]",
                          "  %a = bf16[64,128]{1,0} parameter(0)\n"
                          "  %b = bf16[128,32]{1,0} parameter(1)\n  //\n"
                          "  %d = f32[64,32]{1,0} dot(%a, %b), lhs_contracting_dims={1}, "
                          "rhs_contracting_dims={0}\n"
                          "  ROOT %r = f32[64,32]{1,0} negate(%d)\n");
  const auto& p = std::get<ProductShape>(k.shape);
  EXPECT_TRUE(p.compiled);
  EXPECT_EQ(p.m, 64);
  EXPECT_EQ(p.n, 32);
  EXPECT_EQ(p.k, 128);
  EXPECT_EQ(k.cost.matrix_flops, 2.0 * 64 * 32 * 128);
  EXPECT_EQ(k.cost.vector_flops, 64 * 32);
  EXPECT_EQ(k.cost.bytes_read, (64 * 128 + 128 * 32) * 2);
  EXPECT_EQ(k.cost.bytes_written, 64 * 32 * 4);
  EXPECT_EQ(p.aligned, 16);  // rows of 256 and 64 bytes
}

TEST(FusedKernel, AProductIsAsAlignedAsItsRows) {
  // Rows of a are 258 bytes, or 128 where its other axis is innermost; those of b 64.
  const auto aligned = [](const std::string& order) {
    const Kernel k = fusion("a: bf16[64,129], b: bf16[129,32]", "f32[64,32]",
                            "  %a = bf16[64,129]" + order + " parameter(0)\n" +
                                "  %b = bf16[129,32]{1,0} parameter(1)\n  //\n"
                                "  ROOT %d = f32[64,32]{1,0} dot(%a, %b), "
                                "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n");
    return std::get<ProductShape>(k.shape).aligned;
  };
  EXPECT_EQ(aligned("{1,0}"), 2);
  EXPECT_EQ(aligned("{0,1}"), 16);
}

/// Rows of [4, 8, 128] shifted by their largest element, after `masked` was added to them.
Kernel shifted_rows(const std::string& masked) {
  return fusion("a: f32[4,8,128], b: f32[8,128]", "f32[4,8,128]",
                "  %a = f32[4,8,128]{2,1,0} parameter(0)\n"
                "  %b = f32[8,128]{1,0} parameter(1)\n  //\n" +
                    masked +
                    "  %x = f32[4,8,128]{2,1,0} add(%a, %w)\n"
                    "  %i = f32[] constant(-inf)\n"
                    "  %m = f32[4,8]{1,0} reduce(%x, %i), dimensions={2}, to_apply=%g\n"
                    "  %s = f32[4,8,128]{2,1,0} broadcast(%m), dimensions={0,1}\n"
                    "  ROOT %r = f32[4,8,128]{2,1,0} subtract(%x, %s)\n"
                    "}\n\n%g (x: f32[], y: f32[]) -> f32[] {\n"
                    "  %x = f32[] parameter(0)\n  %y = f32[] parameter(1)\n"
                    "  ROOT %s = f32[] maximum(%x, %y)\n");
}

TEST(FusedKernel, RowsThatShareAPlaneAreMasked) {
  const Kernel masked =
      shifted_rows("  %w = f32[4,8,128]{2,1,0} broadcast(%b), dimensions={1,2}\n");
  EXPECT_EQ(std::get<FusionShape>(masked.shape).does,
            FusionShape::kNormalizes | FusionShape::kMasks);
  // A number a row does not vary along it.
  const Kernel scaled = shifted_rows(
      "  %c = f32[8]{0} slice(%b), slice={[0:8], [0:1]}\n"
      "  %w = f32[4,8,128]{2,1,0} broadcast(%c), dimensions={1}\n");
  EXPECT_EQ(std::get<FusionShape>(scaled.shape).does & FusionShape::kMasks, 0);
}

}  // namespace
}  // namespace orrery
