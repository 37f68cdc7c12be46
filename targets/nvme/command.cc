#include "targets/nvme/command.h"

#include "ublkd/queue_port.h"

namespace ublkd {

namespace {

constexpr std::uint32_t force_unit_access = 1u << 30;      // CDW12
constexpr std::uint32_t deallocate_zeroed = 1u << 25;      // CDW12 of Write Zeroes
constexpr std::uint32_t attribute_deallocate = 1u << 2;    // CDW11 of Dataset Management

void set_extent(nvme_uring_cmd& cmd, NvmeOpcode opcode, NvmeExtent extent, NvmeDurable durable) {
  UBLKD_CHECK(extent.blocks >= 1 && extent.blocks <= nvme_blocks_max);
  cmd.opcode = static_cast<std::uint8_t>(opcode);
  cmd.cdw10 = static_cast<std::uint32_t>(extent.lba);
  cmd.cdw11 = static_cast<std::uint32_t>(extent.lba >> 32);
  cmd.cdw12 = (extent.blocks - 1) | (durable == NvmeDurable::yes ? force_unit_access : 0);
}

}  // namespace

const char* nvme_opcode_name(NvmeOpcode opcode) {
  switch (opcode) {
    case NvmeOpcode::flush: return "flush";
    case NvmeOpcode::write: return "write";
    case NvmeOpcode::read: return "read";
    case NvmeOpcode::write_zeroes: return "write zeroes";
    case NvmeOpcode::dataset: return "dataset management";
  }
  return "?";
}

void fill_transfer(nvme_uring_cmd& cmd, NvmeOpcode opcode, NvmeExtent extent, NvmeData data, NvmeDurable durable) {
  set_extent(cmd, opcode, extent, durable);
  cmd.addr = data.address;
  cmd.data_len = data.bytes;
}

void fill_write_zeroes(nvme_uring_cmd& cmd, NvmeExtent extent, NvmeDurable durable, NvmeDeallocate deallocate) {
  set_extent(cmd, NvmeOpcode::write_zeroes, extent, durable);
  if (deallocate == NvmeDeallocate::may) cmd.cdw12 |= deallocate_zeroed;
}

void fill_flush(nvme_uring_cmd& cmd) { cmd.opcode = static_cast<std::uint8_t>(NvmeOpcode::flush); }

void fill_deallocate(nvme_uring_cmd& cmd, std::uint64_t range_address) {
  cmd.opcode = static_cast<std::uint8_t>(NvmeOpcode::dataset);
  cmd.addr = range_address;
  cmd.data_len = sizeof(NvmeRange);
  cmd.cdw10 = 0;  // ranges, less one
  cmd.cdw11 = attribute_deallocate;
}

}  // namespace ublkd
