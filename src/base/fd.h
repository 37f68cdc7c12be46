// Fd: owns one file descriptor. Mapping: owns one mmap. Plain values, any thread.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "ublkd/result.h"

namespace ublkd {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Fd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

class Mapping {
 public:
  Mapping() = default;
  Mapping(void* address, std::size_t bytes) : address_(address), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    if (this != &other) {
      reset();
      address_ = std::exchange(other.address_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
  }
  ~Mapping() { reset(); }

  // Zeroed private memory, reserved now and backed by pages at first touch. Never huge pages, so
  // that a slot's first small request does not take 2 MiB.
  [[nodiscard]] static Result<Mapping> anonymous(std::size_t bytes, const std::string& what);

  // The same, backed by pages now, so that memory which is not there is an error here (no_memory), not a signal later.
  [[nodiscard]] static Result<Mapping> populated(std::size_t bytes, const std::string& what);

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(address_); }
  [[nodiscard]] std::size_t size() const { return bytes_; }
  void reset() {
    if (address_ != nullptr) ::munmap(address_, bytes_);
    address_ = nullptr;
    bytes_ = 0;
  }

 private:
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
};

// open(2) with O_CLOEXEC; the error names the path.
[[nodiscard]] Result<Fd> open_file(const std::string& path, int flags, unsigned mode = 0);

// Whole content of a small file, at most max_bytes; error limit when it is longer.
[[nodiscard]] Result<std::string> read_file(const std::string& path, std::size_t max_bytes);

// Writes text to an existing file (sysfs attributes) in one write.
[[nodiscard]] Result<void> write_attribute(const std::string& path, const std::string& text);

}  // namespace ublkd
