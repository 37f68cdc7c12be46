// NvmeStatus: how a passthrough command ended, and what that means for its request.
//
// Thread rule: plain values, any thread.
// Source: NVM Express base specification 2.0, figures 93 to 99; drivers/nvme/host/core.c, nvme_error_status and
//   nvme_decide_disposition; drivers/nvme/host/ioctl.c, nvme_uring_cmd_end_io.
#pragma once

#include <cstdint>
#include <string>

namespace ublkd {

// A CQE's result: 0 done; above 0 the drive's status field; below 0 -errno.
class NvmeStatus {
 public:
  explicit constexpr NvmeStatus(std::int32_t result) : result_(result) {}

  [[nodiscard]] constexpr bool from_drive() const { return result_ > 0; }
  [[nodiscard]] constexpr std::uint32_t type() const { return static_cast<std::uint32_t>(result_) >> 8 & 0x7; }
  [[nodiscard]] constexpr std::uint32_t code() const { return static_cast<std::uint32_t>(result_) & 0xff; }
  // Which of the drive's three command retry delays to wait for; 0: none.
  [[nodiscard]] constexpr std::uint32_t retry_delay() const { return static_cast<std::uint32_t>(result_) >> 11 & 0x3; }
  [[nodiscard]] constexpr bool do_not_retry() const { return (static_cast<std::uint32_t>(result_) & 0x4000) != 0; }
  // Type and code, without what may differ from one command to the next; an errno keeps its sign.
  [[nodiscard]] constexpr std::int32_t kind() const { return from_drive() ? result_ & 0x7ff : result_; }

  // -errno, as the kernel's driver makes it of the same status; ENOLINK of all that is the path's.
  [[nodiscard]] std::int32_t error() const;

  // "status 0x281 (type 2, code 0x81): unrecovered read error", "error -4 (Interrupted system call)".
  [[nodiscard]] std::string text() const;

 private:
  std::int32_t result_;
};

inline constexpr std::uint32_t nvme_status_type_media = 2;  // media and data integrity errors

enum class NvmeNext : std::uint8_t {
  fail,   // for good
  again,  // the drive may do it now: a bounded number of times
  wait,   // the way to the drive is interrupted: for a bounded time
};

// single_path: false where -EINVAL may mean that no path to the drive is there (a multipath node has no better word).
[[nodiscard]] NvmeNext nvme_next(NvmeStatus status, bool single_path);

}  // namespace ublkd
