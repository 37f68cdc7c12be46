// segments_touched: into how many segments a range of virtually contiguous memory falls.
//
//   unit     |        |        |        |        |
//   range         [========================]          offset_in_unit: from the unit's begin to the range's
//   touched      1        2        3        4
//
// Our I/O memory is virtually contiguous, and nothing is known of what lies beside a unit physically: each unit is a
// segment. A request is split only when this count exceeds a limit. (linux-block, on registered buffers of io_uring:
// count segments by a shift, without a division or a walk over the pages.)
//
// The unit is: the huge page (shift 21 or 30) for buffers of hugetlbfs, else the page (12); for PRP entries of NVMe the
// controller's own memory page, CC.MPS (NVMe base specification, "PRP Entry and List"), 12 and up.
// Limits in bytes, such as MDTS or max_sectors, are no limits of segments.
//
// Thread rule: a plain function.
#pragma once

#include <cstdint>

#include "ublkd/queue_port.h"
#include "ublkd/units.h"

namespace ublkd {

inline constexpr std::uint32_t page_shift = 12;
static_assert(page_bytes == 1u << page_shift);
inline constexpr std::uint32_t segment_unit_shift_max = 30;

// unit_shift: 0 .. segment_unit_shift_max; offset_in_unit: 0 .. unit - 1; length_bytes: 1 .. device_bytes_max.
constexpr std::uint64_t segments_touched(std::uint64_t offset_in_unit, std::uint64_t length_bytes,
                                         std::uint32_t unit_shift) {
  UBLKD_CHECK(unit_shift <= segment_unit_shift_max);
  const std::uint64_t unit_bytes = std::uint64_t{1} << unit_shift;
  UBLKD_CHECK(offset_in_unit < unit_bytes && length_bytes >= 1 && length_bytes <= device_bytes_max);
  return (offset_in_unit + length_bytes + unit_bytes - 1) >> unit_shift;
}

}  // namespace ublkd
