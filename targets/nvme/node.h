// NvmeNode: which namespace a path means, and what the kernel says of it in sysfs.
//
// A namespace has a block node (/dev/nvme0n1) and a generic one (/dev/ng0n1), which stand side by side in sysfs; I/O
// goes to the generic one. With multipath both belong to the subsystem, and hidden disks (nvme0c1n1) are its paths:
//
//   /sys/devices/.../nvme/nvme0/{ng0n1,nvme0n1}
//   /sys/devices/virtual/nvme-subsystem/nvme-subsys0/{ng0n1,nvme0n1}, /sys/block/nvme0c1n1
//
// Thread rule: control thread. Nothing is opened but files of sysfs.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "ublkd/result.h"

namespace ublkd {

// Where to look; other places in tests.
struct NvmeRoots {
  std::string sys = "/sys";
  std::string dev = "/dev";
};

struct NvmeNode {
  std::string path;          // of the generic node
  std::string name;          // "ng0n1"
  std::string block_name;    // "nvme0n1"; there may be no such block device
  std::string folder;        // in sysfs, of both
  dev_t generic_dev = 0;
  dev_t block_dev = 0;       // 0: no block device
  bool multipath = false;
};

enum class NodeKind : std::uint8_t { character, block };

// Errors: not_found, and invalid for anything but a namespace: says what it is and what to give instead.
[[nodiscard]] Result<NvmeNode> find_nvme_node(const std::string& path, const NvmeRoots& roots = {});
[[nodiscard]] Result<NvmeNode> nvme_node_of(const std::string& path, NodeKind kind, dev_t dev, const NvmeRoots& roots);

// Whether the generic node is still the one that was found. What cannot be read for another reason, such as too many
// open files, is taken to be there.
[[nodiscard]] bool nvme_node_is_there(const NvmeNode& node);

// Whether the namespace still has blocks of these bytes and no metadata; true where the kernel does not tell.
[[nodiscard]] bool nvme_format_is(const NvmeNode& node, std::uint32_t block_bytes);

// What the kernel says of the block device. Numbers that it does not tell are 0.
struct NvmeLimits {
  std::uint64_t size_bytes = 0;  // 0: a format that the kernel does not serve, or no block device
  std::optional<std::uint32_t> metadata_bytes;  // told since Linux 6.8
  std::uint32_t command_set = 0;                // 0: NVM
  std::uint32_t logical_block_bytes = 0;
  std::uint32_t physical_block_bytes = 0;
  std::uint32_t io_min_bytes = 0;
  std::uint32_t io_opt_bytes = 0;
  std::uint64_t transfer_bytes_max = 0;
  std::uint32_t segments_max = 0;
  std::uint32_t segment_bytes_max = 0;
  std::uint64_t virt_boundary_mask = 0;
  std::uint32_t dma_alignment = 3;
  std::uint64_t discard_bytes_max = 0;
  std::uint32_t discard_granularity_bytes = 0;
  std::uint64_t write_zeroes_bytes_max = 0;
  std::uint32_t atomic_write_bytes = 0;
  bool volatile_cache = false;
  bool rotational = false;
  bool polled = false;  // the driver has queues for polling
  std::uint32_t queues = 0;
  std::uint32_t tags = 0;  // of one queue: commands it takes at once
};
[[nodiscard]] NvmeLimits nvme_limits(const NvmeNode& node, const NvmeRoots& roots = {});

// Size of the block device now, in bytes; 0 when it is not there.
[[nodiscard]] std::uint64_t nvme_size_bytes(const NvmeNode& node);

// Attribute of the controller, or of the subsystem ("transport", "model"); empty when there is none.
[[nodiscard]] std::string nvme_attribute(const NvmeNode& node, const std::string& name, const NvmeRoots& roots = {});

}  // namespace ublkd
