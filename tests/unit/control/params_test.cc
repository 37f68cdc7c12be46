#include "control/params.h"

#include <gtest/gtest.h>

namespace ublkd {
namespace {

Geometry disk() {
  Geometry g;
  g.size_bytes = 1 << 20;
  g.logical_block_bytes = 512;
  g.physical_block_bytes = 4096;
  g.io_min_bytes = 4096;
  g.io_opt_bytes = 1 << 20;
  g.volatile_cache = true;
  g.fua = true;
  g.discard_bytes_max = 1u << 31;
  g.discard_granularity_bytes = 4096;
  g.write_zeroes_bytes_max = 1u << 30;
  return g;
}

TEST(Params, SaysTheGeometryInTheKernelsUnits) {
  const abi::Params p = params_of(disk());
  EXPECT_EQ(p.basic.dev_sectors, 2048u);
  EXPECT_EQ(p.basic.logical_bs_shift, 9);
  EXPECT_EQ(p.basic.physical_bs_shift, 12);
  EXPECT_EQ(p.basic.io_min_shift, 12);
  EXPECT_EQ(p.basic.io_opt_shift, 20);
  EXPECT_EQ(p.basic.max_sectors, 1024u);
  EXPECT_EQ(p.basic.attrs, abi::attr_volatile_cache | abi::attr_fua);
  EXPECT_EQ(p.discard.max_discard_sectors, 1u << 22);
  EXPECT_EQ(p.discard.max_write_zeroes_sectors, 1u << 21);
  EXPECT_EQ(p.discard.max_discard_segments, 1);
  EXPECT_EQ(p.types, abi::param_basic | abi::param_discard | abi::param_dma_align);
}

TEST(Params, AReadOnlyDeviceOffersNoDiscard) {
  Geometry g = disk();
  g.read_only = true;
  const abi::Params p = params_of(g);
  EXPECT_EQ(p.types & abi::param_discard, 0u);
  EXPECT_NE(p.basic.attrs & abi::attr_read_only, 0u);
}

// A block device without discard is served so; the kernel refuses a granularity of 0.
TEST(Params, WriteZeroesWithoutDiscardHasAGranularity) {
  Geometry g = disk();
  g.discard_bytes_max = 0;
  g.discard_granularity_bytes = 0;
  const abi::Params p = params_of(g);
  EXPECT_EQ(p.types & abi::param_discard, abi::param_discard);
  EXPECT_EQ(p.discard.discard_granularity, 512u);
  EXPECT_EQ(p.discard.max_discard_sectors, 0u);
}

TEST(Params, AnOddOptimalSizeIsRoundedDownToAShift) {
  Geometry g = disk();
  g.io_opt_bytes = 3 << 19;
  EXPECT_EQ(params_of(g).basic.io_opt_shift, 20);
}

TEST(Params, TheLayoutOfMemoryIsPassedOn) {
  Geometry g = disk();
  g.segments_max = 129;
  g.segment_bytes_max = 1 << 16;
  g.segment_boundary_mask = 0xffff;
  abi::Params p = params_of(g);
  EXPECT_EQ(p.types & abi::param_segment, abi::param_segment);
  EXPECT_EQ(p.seg.max_segments, 129);
  EXPECT_EQ(p.seg.max_segment_size, 1u << 16);
  EXPECT_EQ(p.seg.seg_boundary_mask, 0xffffu);
  g.virt_boundary_mask = 4095;
  p = params_of(g);
  EXPECT_EQ(p.basic.virt_boundary_mask, 4095u);
  EXPECT_EQ(p.seg.max_segment_size, 0xffffffffu) << "the kernel refuses both";
}

}  // namespace
}  // namespace ublkd
