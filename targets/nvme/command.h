// NVMe I/O commands as io_uring passes them through: pure functions that fill a zeroed command.
//
// Thread rule: any thread.
// Source: NVM Express NVM command set specification 1.0, section 3; include/uapi/linux/nvme_ioctl.h.
#pragma once

#include <linux/nvme_ioctl.h>

#include <cstdint>

namespace ublkd {

enum class NvmeOpcode : std::uint8_t { flush = 0x00, write = 0x01, read = 0x02, write_zeroes = 0x08, dataset = 0x09 };
[[nodiscard]] const char* nvme_opcode_name(NvmeOpcode opcode);

// Blocks one command reaches at most: their count is 16 bits, less one.
inline constexpr std::uint32_t nvme_blocks_max = 65536;

// A run of logical blocks of a namespace.
struct NvmeExtent {
  std::uint64_t lba = 0;
  std::uint32_t blocks = 0;  // 1 .. nvme_blocks_max; of a discard any number
};

// The bytes a command reads or writes: an address here, or the offset in a registered buffer.
struct NvmeData {
  std::uint64_t address = 0;
  std::uint32_t bytes = 0;
};

enum class NvmeDurable : std::uint8_t { no, yes };       // Force Unit Access
enum class NvmeDeallocate : std::uint8_t { no, may };    // whether zeroed blocks may be deallocated

// opcode: read or write. Precondition: data.bytes is exactly what the extent holds.
void fill_transfer(nvme_uring_cmd& cmd, NvmeOpcode opcode, NvmeExtent extent, NvmeData data, NvmeDurable durable);
void fill_write_zeroes(nvme_uring_cmd& cmd, NvmeExtent extent, NvmeDurable durable, NvmeDeallocate deallocate);
void fill_flush(nvme_uring_cmd& cmd);

// What a dataset management command points to: it must stay until the command has ended.
struct NvmeRange {
  std::uint32_t attributes;
  std::uint32_t blocks;
  std::uint64_t lba;
};
static_assert(sizeof(NvmeRange) == 16);

// Deallocates the one range that lies at this address; the drive may round it to what it deallocates.
void fill_deallocate(nvme_uring_cmd& cmd, std::uint64_t range_address);

}  // namespace ublkd
