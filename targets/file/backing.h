// Backing: the opened file or block device, what part of it is served, and what it can do.
//
// Thread rule: made on the control thread; constant afterwards.
// Ownership: owns the descriptor, with it the file lock or the exclusive use of the block device, and
//   the claim inside this daemon.
// Invariants:
//   1. begin_bytes and geometry.size_bytes are multiples of geometry.logical_block_bytes, which is
//      at least what direct I/O, or the block device, demands.
//   2. begin_bytes + size_bytes was inside the backing when it was opened. It may shrink later: data
//      that is not there is an error when it is read, never old memory.
//   3. A descriptor opened read-only is never used for anything else, and leaves all time stamps.
//   4. A file that was created for a device that never came to serve goes with this object.
#pragma once

#include <memory>
#include <string>

#include "base/fd.h"
#include "targets/file/create_file.h"
#include "targets/file/file_options.h"
#include "targets/file/range_lock.h"
#include "ublkd/target.h"

namespace ublkd {

enum class BackingKind : std::uint8_t { regular, block };

struct Backing {
  BackingKind kind = BackingKind::regular;
  bool direct = false;
  std::uint64_t begin_bytes = 0;
  Geometry geometry;
  std::string path;
  std::shared_ptr<void> claim;
  Fd fd;
  CreatedFile created;  // holds something until the device's first queue is opened
  RangeLock lock;  // regular files; after fd, so that it goes first
};

[[nodiscard]] Result<Backing> open_backing(const FileOptions& options, const OpenContext& context);

}  // namespace ublkd
