#include "targets/file/range_lock.h"

#include <fcntl.h>

#include <cerrno>

#include "base/log.h"

namespace ublkd {

namespace {

int set_lock(int fd, short type, std::uint64_t begin_bytes, std::uint64_t length_bytes) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(begin_bytes);
  range.l_len = static_cast<off_t>(length_bytes);
  return ::fcntl(fd, F_OFD_SETLK, &range);
}

}  // namespace

RangeLock& RangeLock::operator=(RangeLock&& other) noexcept {
  if (this == &other) return *this;
  reset();
  fd_ = std::exchange(other.fd_, -1);
  begin_ = other.begin_;
  length_ = other.length_;
  return *this;
}

void RangeLock::reset() {
  if (fd_ >= 0) set_lock(fd_, F_UNLCK, begin_, length_);
  fd_ = -1;
}

Result<RangeLock> RangeLock::take(int fd, LockKind kind, std::uint64_t begin_bytes,
                                  std::uint64_t length_bytes, const std::string& path) {
  const short type = kind == LockKind::exclusive ? F_WRLCK : F_RDLCK;
  if (set_lock(fd, type, begin_bytes, length_bytes) == 0) return RangeLock(fd, begin_bytes, length_bytes);
  if (errno == EAGAIN || errno == EACCES)
    return fail(ErrorKind::busy, "lock", path, "another process, or another device, has this range locked");
  log_warning("{}; nothing keeps other processes from using it", errno_error(errno, "lock", path).text());
  return RangeLock();
}

}  // namespace ublkd
