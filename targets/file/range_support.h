// RangeSupport: how discard and write-zeroes reach a backing.
//
// Thread rule: control thread.
// What zeroes a range, in order of preference, the next one when the backing answers EOPNOTSUPP:
//
//   may deallocate:    fallocate PUNCH_HOLE -> zeroes written
//   no_unmap:          fallocate ZERO_RANGE -> zeroes written
//
// fallocate(2) promises that both read back as zeroes, on files and on block devices. Discard makes
// no promise on block devices; on files it is PUNCH_HOLE, too.
#pragma once

#include <cstdint>

#include "targets/file/backing.h"

namespace ublkd {

enum class DiscardMethod : std::uint8_t { none, punch_hole, block_command };

// Finds out without touching data: fallocate past the end of a file, an empty command on a block
// device. none on a read-only backing.
[[nodiscard]] DiscardMethod probe_discard(const Backing& backing);

// Adds to geometry what the method offers. Write-zeroes is offered on everything writable.
void offer_ranges(Geometry& geometry, DiscardMethod method, std::uint32_t granularity_bytes);

// The backing's own allocation unit, on our grid.
[[nodiscard]] std::uint32_t discard_granularity(const Backing& backing);

}  // namespace ublkd
