// TempDir: a directory for one test, removed with all in it. LoopDevice: a block device on a file in it.
#pragma once

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/fd.h"

namespace ublkd {

class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "ublkd-test-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string path(const std::string& name) const { return path_ + "/" + name; }

  // A sparse file of this size; its path.
  [[nodiscard]] std::string file(const std::string& name, std::uint64_t bytes) const {
    std::ofstream(path(name)).flush();
    std::filesystem::resize_file(path(name), bytes);
    return path(name);
  }

 private:
  std::string path_;
};

class LoopDevice {
 public:
  // Attaches file; when that is not allowed here, path() is empty and why() says so.
  LoopDevice(const std::string& file, std::uint32_t block_bytes) {
    constexpr int attach_tries_max = 16;  // another test may take the free one first
    Fd control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
    Fd backing(::open(file.c_str(), O_RDWR | O_CLOEXEC));
    if (!control.valid() || !backing.valid()) {
      why_ = std::string("no loop device: ") + std::strerror(errno);
      return;
    }
    for (int i = 0; i < attach_tries_max; ++i) {
      const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
      const std::string name = "/dev/loop" + std::to_string(number);
      device_ = Fd(::open(name.c_str(), O_RDWR | O_CLOEXEC));
      loop_config config{};
      config.fd = static_cast<__u32>(backing.get());
      config.block_size = block_bytes;
      if (device_.valid() && ::ioctl(device_.get(), LOOP_CONFIGURE, &config) == 0) {
        path_ = name;
        return;
      }
      why_ = std::string("no loop device: ") + std::strerror(errno);
      if (errno != EBUSY) return;
    }
  }
  LoopDevice(const LoopDevice&) = delete;
  LoopDevice& operator=(const LoopDevice&) = delete;
  ~LoopDevice() {
    if (!path_.empty()) ::ioctl(device_.get(), LOOP_CLR_FD);
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::string& why() const { return why_; }

 private:
  Fd device_;
  std::string path_;
  std::string why_;
};

}  // namespace ublkd
