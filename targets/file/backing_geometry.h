// What a backing demands and says of itself: direct I/O alignment, block sizes, the served range.
//
// Thread rule: control thread. All functions look and change nothing.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>

#include "targets/file/backing.h"

namespace ublkd {

struct DirectAlignment {
  std::uint32_t offset_bytes = 0;  // of file offset and length; 0: no direct I/O
  std::uint32_t memory_bytes = 0;  // of the buffer
};

// Of a descriptor opened with O_DIRECT: by statx(2) STATX_DIOALIGN (since 6.1), else by the block
// device's logical block, else by trying. Alignments above page_bytes count as none.
[[nodiscard]] DirectAlignment direct_alignment(int fd);

struct GeometryInput {
  const FileOptions& options;
  const OpenContext& context;
  DirectAlignment align;
  const struct stat& st;
  std::uint64_t backing_bytes;
};

// Fills begin_bytes and geometry, but for discard and write-zeroes (range_support.h). Errors invalid:
// a block size below the backing's, an offset off the grid, a range that is not inside the backing.
[[nodiscard]] Result<void> set_geometry(Backing& backing, const GeometryInput& in);

// What a block device takes without splitting it; 0: not known, no limit.
struct SplitLimits {
  std::uint64_t segments_max = 0;
  std::uint64_t io_bytes_max = 0;
};

// The largest read or write, a multiple of page_bytes, that is no more than io_bytes_max (itself such a multiple) and
// never split: neither for its length nor, from a buffer that begins on a page, for the pages it touches. At least one
// page.
[[nodiscard]] std::uint32_t unsplit_io_bytes(std::uint32_t io_bytes_max, const SplitLimits& limits);

// A number from /sys/dev/block/MAJOR:MINOR/queue/NAME, of the whole disk for a partition; empty when
// there is none.
[[nodiscard]] std::optional<std::uint64_t> queue_attribute(dev_t device, const std::string& name);

}  // namespace ublkd
