// The kernel's ublk words, as our own definitions: control commands, I/O commands, descriptors.
// Source: Linux include/uapi/linux/ublk_cmd.h and Documentation/block/ublk.rst; a test compares
// values and offsets with that header where it is installed.
#pragma once

#include <sys/ioctl.h>

#include <cstddef>
#include <cstdint>

namespace ublkd::abi {

// Control command, in the 80-byte command area of a 128-byte SQE.
struct CtrlCmd {
  std::uint32_t dev_id;
  std::uint16_t queue_id;  // 0xffff unless the command is for one queue
  std::uint16_t len;       // of the buffer at addr
  std::uint64_t addr;
  std::uint64_t data;
  std::uint16_t dev_path_len;
  std::uint16_t pad;
  std::uint32_t reserved;
};
static_assert(sizeof(CtrlCmd) == 32 && offsetof(CtrlCmd, addr) == 8 && offsetof(CtrlCmd, data) == 16);

struct DevInfo {
  std::uint16_t nr_hw_queues;
  std::uint16_t queue_depth;
  std::uint16_t state;
  std::uint16_t io_desc_size;  // UBLK_F_IO_DESC_SIZE only; 0 on older kernels
  std::uint32_t max_io_buf_bytes;
  std::uint32_t dev_id;
  std::int32_t ublksrv_pid;
  std::uint32_t pad1;
  std::uint64_t flags;
  std::uint64_t ublksrv_flags;  // ours: the kernel keeps it and gives it back
  std::uint32_t owner_uid;
  std::uint32_t owner_gid;
  std::uint64_t reserved1;
  std::uint64_t reserved2;
};
static_assert(sizeof(DevInfo) == 64 && offsetof(DevInfo, flags) == 24);

// One per slot, written by the kernel, mapped read-only.
struct IoDesc {
  std::uint32_t op_flags;  // op in bits 0-7, flags in place: test op_flags & io_f_x, never shift
  std::uint32_t nr_sectors;
  std::uint64_t start_sector;
  std::uint64_t addr;
};
static_assert(sizeof(IoDesc) == 24);

// I/O command, in the 16-byte command area of a 64-byte SQE.
struct IoCmd {
  std::uint16_t q_id;
  std::uint16_t tag;
  std::int32_t result;
  std::uint64_t addr;
};
static_assert(sizeof(IoCmd) == 16);

// Batch command (since 7.0), in the same area: of the elements at sqe->addr.
struct BatchIo {
  std::uint16_t q_id;
  std::uint16_t flags;
  std::uint16_t nr_elem;
  std::uint8_t elem_bytes;
  std::uint8_t reserved;
  std::uint64_t reserved2;
};
static_assert(sizeof(BatchIo) == 16);

// One request of a batch; buf_addr is there with batch_f_has_buf_addr only.
struct BatchElement {
  std::uint16_t tag;
  std::uint16_t buf_index;  // with automatic buffer registration
  std::int32_t result;      // commit only
  std::uint64_t buf_addr;
};
static_assert(sizeof(BatchElement) == 16 && offsetof(BatchElement, buf_addr) == 8);

inline constexpr std::uint16_t batch_f_has_buf_addr = 1u << 1;

struct ParamBasic {
  std::uint32_t attrs;
  std::uint8_t logical_bs_shift;
  std::uint8_t physical_bs_shift;
  std::uint8_t io_opt_shift;
  std::uint8_t io_min_shift;
  std::uint32_t max_sectors;
  std::uint32_t chunk_sectors;
  std::uint64_t dev_sectors;
  std::uint64_t virt_boundary_mask;
};
struct ParamDiscard {
  std::uint32_t discard_alignment;
  std::uint32_t discard_granularity;
  std::uint32_t max_discard_sectors;
  std::uint32_t max_write_zeroes_sectors;
  std::uint16_t max_discard_segments;
  std::uint16_t reserved0;
};
struct ParamDevt {
  std::uint32_t char_major, char_minor, disk_major, disk_minor;
};
struct ParamZoned {
  std::uint32_t max_open_zones, max_active_zones, max_zone_append_sectors;
  std::uint8_t reserved[20];
};
struct ParamDmaAlign {
  std::uint32_t alignment;
  std::uint8_t pad[4];
};
// What a request's memory may look like; a field of 0 is undefined behaviour of the kernel.
struct ParamSegment {
  std::uint64_t seg_boundary_mask;
  std::uint32_t max_segment_size;
  std::uint16_t max_segments;
  std::uint8_t pad[2];
};
// Parameters up to the segments (since 6.15). The kernel takes any length, and ignores types it does not know and
// what a shorter struct does not have.
struct Params {
  std::uint32_t len;
  std::uint32_t types;
  ParamBasic basic;
  ParamDiscard discard;
  ParamDevt devt;
  ParamZoned zoned;
  ParamDmaAlign dma;
  ParamSegment seg;
};
static_assert(offsetof(Params, basic) == 8 && offsetof(Params, discard) == 40 && offsetof(Params, devt) == 60 &&
              offsetof(Params, zoned) == 76 && offsetof(Params, dma) == 108 && offsetof(Params, seg) == 120 &&
              sizeof(Params) == 136);

inline constexpr std::uint32_t param_basic = 1u << 0;
inline constexpr std::uint32_t param_discard = 1u << 1;
inline constexpr std::uint32_t param_dma_align = 1u << 4;
inline constexpr std::uint32_t param_segment = 1u << 5;

inline constexpr std::uint32_t attr_read_only = 1u << 0;
inline constexpr std::uint32_t attr_rotational = 1u << 1;
inline constexpr std::uint32_t attr_volatile_cache = 1u << 2;
inline constexpr std::uint32_t attr_fua = 1u << 3;

inline constexpr std::uint32_t u_cmd_get_queue_affinity = _IOR('u', 0x01, CtrlCmd);
inline constexpr std::uint32_t u_cmd_get_dev_info = _IOR('u', 0x02, CtrlCmd);
inline constexpr std::uint32_t u_cmd_add_dev = _IOWR('u', 0x04, CtrlCmd);
inline constexpr std::uint32_t u_cmd_del_dev = _IOWR('u', 0x05, CtrlCmd);
inline constexpr std::uint32_t u_cmd_start_dev = _IOWR('u', 0x06, CtrlCmd);
inline constexpr std::uint32_t u_cmd_stop_dev = _IOWR('u', 0x07, CtrlCmd);
inline constexpr std::uint32_t u_cmd_set_params = _IOWR('u', 0x08, CtrlCmd);
inline constexpr std::uint32_t u_cmd_get_params = _IOR('u', 0x09, CtrlCmd);
inline constexpr std::uint32_t u_cmd_get_features = _IOR('u', 0x13, CtrlCmd);
inline constexpr std::uint32_t u_cmd_del_dev_async = _IOR('u', 0x14, CtrlCmd);
inline constexpr std::uint32_t u_cmd_update_size = _IOWR('u', 0x15, CtrlCmd);
inline constexpr std::uint32_t u_cmd_try_stop_dev = _IOWR('u', 0x17, CtrlCmd);

inline constexpr std::uint32_t u_io_fetch_req = _IOWR('u', 0x20, IoCmd);
inline constexpr std::uint32_t u_io_commit_and_fetch_req = _IOWR('u', 0x21, IoCmd);

inline constexpr std::uint32_t u_io_prep_io_cmds = _IOWR('u', 0x25, BatchIo);
inline constexpr std::uint32_t u_io_commit_io_cmds = _IOWR('u', 0x26, BatchIo);
inline constexpr std::uint32_t u_io_fetch_io_cmds = _IOWR('u', 0x27, BatchIo);

inline constexpr std::int32_t io_res_ok = 0;
inline constexpr std::int32_t io_res_abort = -19;  // -ENODEV: the slot will not be fetched again

inline constexpr std::uint32_t io_op_read = 0;
inline constexpr std::uint32_t io_op_write = 1;
inline constexpr std::uint32_t io_op_flush = 2;
inline constexpr std::uint32_t io_op_discard = 3;
inline constexpr std::uint32_t io_op_write_zeroes = 5;
inline constexpr std::uint32_t io_op_mask = 0xff;
inline constexpr std::uint32_t io_f_fua = 1u << 13;
inline constexpr std::uint32_t io_f_nounmap = 1u << 15;

inline constexpr std::uint64_t f_cmd_ioctl_encode = 1ull << 6;
inline constexpr std::uint64_t f_update_size = 1ull << 10;
inline constexpr std::uint64_t f_auto_buf_reg = 1ull << 11;
inline constexpr std::uint64_t f_batch_io = 1ull << 15;

inline constexpr std::uint16_t dev_state_dead = 0;
inline constexpr std::uint16_t dev_state_live = 1;

// Descriptor maps of the queues lie this far apart on /dev/ublkcN, whatever the depth: a
// stride made from the real depth would map queue 0 for every queue.
inline constexpr std::uint64_t desc_stride_bytes(std::uint64_t desc_bytes, std::uint64_t page) {
  const std::uint64_t bytes = 4096 * desc_bytes;
  return (bytes + page - 1) / page * page;
}

}  // namespace ublkd::abi
