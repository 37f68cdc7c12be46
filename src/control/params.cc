#include "control/params.h"

#include <algorithm>
#include <bit>

#include "ublkd/units.h"

namespace ublkd {

namespace {

std::uint8_t shift_of(std::uint64_t power_of_two) {
  return static_cast<std::uint8_t>(std::countr_zero(power_of_two));
}

}  // namespace

abi::Params params_of(const Geometry& g) {
  abi::Params p{};
  p.len = sizeof p;
  p.types = abi::param_basic | abi::param_dma_align;
  p.basic.attrs = (g.read_only ? abi::attr_read_only : 0) | (g.rotational ? abi::attr_rotational : 0) |
                  (g.volatile_cache ? abi::attr_volatile_cache : 0) | (g.fua ? abi::attr_fua : 0);
  p.basic.logical_bs_shift = shift_of(g.logical_block_bytes);
  p.basic.physical_bs_shift = shift_of(g.physical_block_bytes);
  p.basic.io_min_shift = shift_of(std::bit_ceil(std::max(g.io_min_bytes, g.logical_block_bytes)));
  // The kernel takes a shift, so none is said as the smallest unit.
  p.basic.io_opt_shift = g.io_opt_bytes == 0 ? p.basic.io_min_shift : shift_of(std::bit_floor(g.io_opt_bytes));
  p.basic.max_sectors = g.io_bytes_max >> sector_shift;
  p.basic.dev_sectors = g.size_bytes >> sector_shift;
  p.basic.virt_boundary_mask = g.virt_boundary_mask;
  p.dma.alignment = g.dma_alignment;
  if (!g.read_only && (g.discard_bytes_max != 0 || g.write_zeroes_bytes_max != 0)) {
    p.types |= abi::param_discard;
    // The kernel refuses 0 even where only write-zeroes is offered.
    p.discard.discard_granularity = std::max(g.discard_granularity_bytes, g.logical_block_bytes);
    p.discard.max_discard_sectors = static_cast<std::uint32_t>(g.discard_bytes_max >> sector_shift);
    p.discard.max_write_zeroes_sectors = static_cast<std::uint32_t>(g.write_zeroes_bytes_max >> sector_shift);
    p.discard.max_discard_segments = 1;
  }
  if (g.segments_max != 0) {
    p.types |= abi::param_segment;
    p.seg.max_segments = static_cast<std::uint16_t>(std::min(g.segments_max, 0xffffu));
    // With a virtual boundary the kernel takes no limit of a segment's size.
    p.seg.max_segment_size = g.virt_boundary_mask != 0 || g.segment_bytes_max == 0 ? 0xffffffff : g.segment_bytes_max;
    p.seg.seg_boundary_mask = g.segment_boundary_mask == 0 ? 0xffffffff : g.segment_boundary_mask;
  }
  return p;
}

}  // namespace ublkd
