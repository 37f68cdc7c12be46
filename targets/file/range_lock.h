// RangeLock: an OFD lock (fcntl(2)) on a range of a regular file, against other processes and other
// opens of the same file.
//
// Thread rule: control thread.
// Ownership: borrows the descriptor, which must outlive it. The lock is given back here and not by
//   close: a ring that still holds the file as a registered one would keep it locked after close.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "ublkd/result.h"

namespace ublkd {

enum class LockKind : std::uint8_t { shared, exclusive };

class RangeLock {
 public:
  RangeLock() = default;
  RangeLock(RangeLock&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), begin_(other.begin_), length_(other.length_) {}
  RangeLock& operator=(RangeLock&& other) noexcept;
  ~RangeLock() { reset(); }

  // Error busy: somebody else has a lock that does not go with it. On a file system without locks
  // the result holds nothing, and a warning is logged.
  [[nodiscard]] static Result<RangeLock> take(int fd, LockKind kind, std::uint64_t begin_bytes,
                                              std::uint64_t length_bytes, const std::string& path);
  [[nodiscard]] bool held() const { return fd_ >= 0; }

 private:
  RangeLock(int fd, std::uint64_t begin_bytes, std::uint64_t length_bytes)
      : fd_(fd), begin_(begin_bytes), length_(length_bytes) {}
  void reset();

  int fd_ = -1;
  std::uint64_t begin_ = 0;
  std::uint64_t length_ = 0;
};

}  // namespace ublkd
