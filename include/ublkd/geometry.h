// Geometry: what a target says of itself; the engine advertises exactly this to the kernel.
#pragma once

#include <cstdint>

namespace ublkd {

struct Geometry {
  std::uint64_t size_bytes = 0;               // multiple of logical_block_bytes
  std::uint32_t logical_block_bytes = 512;    // power of two, 512 .. 4096
  std::uint32_t physical_block_bytes = 512;   // >= logical
  std::uint32_t io_min_bytes = 512;
  std::uint32_t io_opt_bytes = 0;             // 0: none
  std::uint32_t io_bytes_max = 512 * 1024;    // one read or write; >= 4096, multiple of 4096
  std::uint32_t dma_alignment = 511;          // mask for buffer addresses
  bool read_only = false;
  bool volatile_cache = false;  // flush is needed for durability
  bool fua = false;             // the target honours request_flag::fua itself
  bool rotational = false;
  // Discard and write-zeroes: 0 bytes max means not offered. Caps stay below 4 GiB.
  std::uint64_t discard_bytes_max = 0;
  std::uint32_t discard_granularity_bytes = 0;
  std::uint64_t write_zeroes_bytes_max = 0;
  std::uint32_t depth = 0;                 // requests the backend can take at once; 0: no limit
  std::uint32_t sqes_per_request = 0;      // most SQEs one request has outstanding in the ring
  bool pins_data = false;  // its I/O pins the pages of the data: it gains from registered memory
  bool zero_copy = false;  // it works on data that has no address here, only a registered buffer (QueuePort::address)
  bool polled = false;     // its commands go to the ring whose completions are polled for; rules zero_copy out
  // How the data of a request may lie in memory, for targets that hand the application's own pages to a drive: the
  // kernel above splits by these, and what still breaks them is copied there in silence. 0: no limit.
  std::uint64_t virt_boundary_mask = 0;     // a segment begins, but for the first, and ends, but for the last, on it
  std::uint32_t segments_max = 0;           // at most 65535
  std::uint32_t segment_bytes_max = 0;      // >= 4096
  std::uint64_t segment_boundary_mask = 0;  // power of two, less one; >= 4095
};

}  // namespace ublkd
