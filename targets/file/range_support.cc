#include "targets/file/range_support.h"

#include <fcntl.h>
#include <liburing.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "abi/io_uring_extra.h"
#include "targets/file/backing_geometry.h"

namespace ublkd {

namespace {

constexpr std::uint64_t range_bytes_max = std::uint64_t{2} << 30;  // below 4 GiB, on every granularity
constexpr std::uint32_t granularity_bytes_max = 1024 * 1024;
constexpr std::uint64_t probe_gap_bytes = std::uint64_t{1} << 30;

// A hole far behind the end changes nothing: there is no data, and the size is kept.
bool can_punch(int fd) {
  struct stat st {};
  if (::fstat(fd, &st) != 0) return false;
  const auto begin =
      (static_cast<std::uint64_t>(st.st_size) & ~std::uint64_t{page_bytes - 1}) + probe_gap_bytes;
  return ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin), page_bytes) ==
         0;
}

// The kernel's answer to a discard of 0 bytes: EINVAL where it knows the command and the device can
// discard, EOPNOTSUPP else (block/ioctl.c, blkdev_cmd_discard).
bool knows_discard_command(int fd) {
  io_uring ring{};
  if (::io_uring_queue_init(1, &ring, 0) != 0) return false;
  io_uring_sqe* sqe = ::io_uring_get_sqe(&ring);
  ::io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, nullptr, 0, 0);
  sqe->cmd_op = BLOCK_URING_CMD_DISCARD;
  io_uring_cqe* cqe = nullptr;
  const bool known =
      ::io_uring_submit(&ring) == 1 && ::io_uring_wait_cqe(&ring, &cqe) == 0 && cqe->res == -EINVAL;
  ::io_uring_queue_exit(&ring);
  return known;
}

dev_t device_of(int fd) {
  struct stat st {};
  return ::fstat(fd, &st) == 0 ? st.st_rdev : 0;
}

}  // namespace

DiscardMethod probe_discard(const Backing& backing) {
  const int fd = backing.fd.get();
  if (backing.geometry.read_only) return DiscardMethod::none;
  if (backing.kind == BackingKind::regular)
    return can_punch(fd) ? DiscardMethod::punch_hole : DiscardMethod::none;
  const bool able = queue_attribute(device_of(fd), "discard_max_bytes").value_or(0) > 0;
  return able && knows_discard_command(fd) ? DiscardMethod::block_command : DiscardMethod::none;
}

std::uint32_t discard_granularity(const Backing& backing) {
  struct stat st {};
  if (::fstat(backing.fd.get(), &st) != 0) return backing.geometry.logical_block_bytes;
  const std::uint64_t bytes = backing.kind == BackingKind::regular
                                  ? static_cast<std::uint64_t>(st.st_blksize)
                                  : queue_attribute(st.st_rdev, "discard_granularity").value_or(0);
  if (!std::has_single_bit(bytes)) return backing.geometry.logical_block_bytes;
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(bytes, backing.geometry.logical_block_bytes, granularity_bytes_max));
}

void offer_ranges(Geometry& geometry, DiscardMethod method, std::uint32_t granularity_bytes) {
  if (geometry.read_only) return;
  geometry.write_zeroes_bytes_max = range_bytes_max;
  if (method == DiscardMethod::none) return;
  geometry.discard_bytes_max = range_bytes_max;
  geometry.discard_granularity_bytes = granularity_bytes;
}

}  // namespace ublkd
