// NvmeDrive: an opened namespace: who may use it, what of it is served, and what it can do.
//
// Thread rule: made on the control thread; constant afterwards.
// Ownership: the generic node's descriptor, the claim inside this daemon, and a part in the exclusive use of the block
//   node that all devices of this daemon on the namespace have together.
// Invariants:
//   1. Every refusal comes before the first I/O command but the self-check's read of one block.
//   2. The range served lies inside the namespace, on its grid, when it is opened.
#pragma once

#include <memory>
#include <optional>

#include "base/fd.h"
#include "targets/nvme/identify.h"
#include "targets/nvme/node.h"
#include "targets/nvme/nvme_options.h"

namespace ublkd {

struct NvmeDrive {
  NvmeNode node;
  NvmeLimits limits;
  NvmeAbilities abilities;       // what sysfs says, where the drive was not to be asked
  NvmeFormat format;
  NvmeDiscardLimits discard;
  std::uint32_t nsid = 0;
  std::uint64_t begin_bytes = 0;
  bool whole = false;  // no length was asked for: to the end of the namespace
  Geometry geometry;
  std::shared_ptr<void> claim;
  std::shared_ptr<void> exclusive;
  Fd fd;
};

[[nodiscard]] Result<NvmeDrive> open_nvme_drive(const NvmeOptions& options, const OpenContext& context);

// The parts of it that need no drive.

// Errors unsupported: metadata, protection, a command set, a block size that are not served.
[[nodiscard]] Result<void> check_format(const NvmeFormat& format, const NvmeLimits& limits, const std::string& path);

struct NvmeSpan {
  std::uint64_t begin_bytes = 0;
  std::uint64_t length_bytes = 0;
};
// Errors invalid: off the grid, outside the namespace, empty.
[[nodiscard]] Result<NvmeSpan> choose_span(const NvmeOptions& options, std::uint64_t size_bytes,
                                           std::uint32_t block_bytes);

// Blocks of one discard command: within the drive's limits, and a whole number of what it deallocates, so that a run of
// them leaves nothing out.
[[nodiscard]] std::uint32_t discard_blocks_max(const NvmeDrive& drive);

// Blocks of one Write Zeroes command.
[[nodiscard]] std::uint32_t zero_blocks_max(const NvmeDrive& drive);

// What the drive can do and the kernel uses: the kernel leaves out what it knows to be broken in a drive.
[[nodiscard]] NvmeAbilities usable_abilities(NvmeAbilities told, const NvmeLimits& limits);

// Of the format, size and read_only are taken from the drive; polled from the option and the driver. Discard and
// write-zeroes are no larger than one command, so that the kernel above splits them and the parts run side by side.
[[nodiscard]] Geometry nvme_geometry(const NvmeDrive& drive, const NvmeOptions& options, const OpenContext& context,
                                     NvmeSpan span);

}  // namespace ublkd
