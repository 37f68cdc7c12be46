#include "targets/nvme/self_check.h"

#include <liburing.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/fd.h"
#include "base/log.h"
#include "targets/nvme/command.h"
#include "targets/nvme/status.h"
#include "ublkd/units.h"

namespace ublkd {

namespace {

constexpr int signals_max = 16;  // that interrupt the wait

// A ring with one read in it. When the drive does not answer in time the ring is left to the kernel, with its memory.
struct Check {
  io_uring ring{};
  Mapping data;
  bool made = false;
  ~Check() {
    if (made) ::io_uring_queue_exit(&ring);
  }
};

Result<std::int32_t> wait_answer(std::unique_ptr<Check>& check, const std::string& path) {
  __kernel_timespec limit{self_check_seconds, 0};
  io_uring_cqe* cqe = nullptr;
  int rc = ::io_uring_submit(&check->ring);
  if (rc >= 0) rc = -EINTR;
  for (int signals = 0; rc == -EINTR && signals < signals_max; ++signals)
    rc = ::io_uring_wait_cqe_timeout(&check->ring, &cqe, &limit);
  if (rc == 0) return cqe->res;
  if (rc != -ETIME) return fail_errno(-rc, "send a self-check read to", path);
  static_cast<void>(check.release());
  return fail(ErrorKind::timeout, "read one block of", path,
              "no answer after " + std::to_string(self_check_seconds) + " s; see the kernel's log");
}

std::string reason(std::int32_t result) {
  switch (result) {
    case -EOPNOTSUPP: return "this kernel takes no NVMe commands from io_uring (Linux 5.19)";
    case -EACCES:
      return "the drive does not mark reading as free of side effects, so the kernel asks for CAP_SYS_ADMIN";
    case -EPERM: return "a security policy refuses io_uring commands";
    default: return "the self-check failed: " + NvmeStatus(result).text();
  }
}

}  // namespace

Result<void> nvme_self_check(int fd, std::uint32_t nsid, std::uint64_t lba, std::uint32_t block_bytes,
                             const std::string& path) {
  auto check = std::make_unique<Check>();
  auto data = Mapping::populated(page_bytes, "self-check");
  if (!data) return Unexpected(data.error());
  check->data = std::move(*data);
  if (const int rc = ::io_uring_queue_init(2, &check->ring, IORING_SETUP_SQE128 | IORING_SETUP_CQE32); rc != 0)
    return fail_errno(-rc, "set up io_uring with big entries for", path,
                      rc == -EINVAL ? "this kernel's io_uring has none; NVMe passthrough needs Linux 5.19" : "");
  check->made = true;
  io_uring_sqe* sqe = ::io_uring_get_sqe(&check->ring);
  std::memset(static_cast<void*>(sqe), 0, 2 * sizeof *sqe);
  sqe->opcode = IORING_OP_URING_CMD;
  sqe->fd = fd;
  sqe->cmd_op = NVME_URING_CMD_IO;
  nvme_uring_cmd cmd{};
  cmd.nsid = nsid;
  fill_transfer(cmd, NvmeOpcode::read, {lba, 1}, {reinterpret_cast<std::uint64_t>(check->data.data()), block_bytes},
                NvmeDurable::no);
  std::memcpy(sqe->cmd, &cmd, sizeof cmd);
  const auto answer = wait_answer(check, path);
  if (!answer) return Unexpected(answer.error());
  if (*answer == 0) return {};
  if (const NvmeStatus status(*answer); status.from_drive() && status.type() == nvme_status_type_media) {
    log_warning("{}: LBA {}: {}; it is served all the same", path, lba, status.text());
    return {};  // the way to the drive works, and most of its blocks may
  }
  return fail_errno(-NvmeStatus(*answer).error(), "read one block of", path, reason(*answer));
}

}  // namespace ublkd
