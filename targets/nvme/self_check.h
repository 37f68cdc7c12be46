// One read of one block, the way the queues will read: what is refused is refused here, with a reason.
//
// Thread rule: control thread; blocks until the drive answers, self_check_seconds at most.
#pragma once

#include <cstdint>
#include <string>

#include "ublkd/result.h"

namespace ublkd {

inline constexpr int self_check_seconds = 40;  // the driver's own timeout is 30

// Errors: unsupported (the kernel's io_uring, or the ring's entries), permission (which right), timeout, io. A block
// that cannot be read is a warning.
[[nodiscard]] Result<void> nvme_self_check(int fd, std::uint32_t nsid, std::uint64_t lba, std::uint32_t block_bytes,
                                           const std::string& path);

}  // namespace ublkd
