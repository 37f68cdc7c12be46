// CreatedFile: makes a new backing file, durable by name, and removes it again unless it is kept.
//
// Thread rule: control thread.
// Invariant: only a file that this object made, and that path still names, is ever removed.
#pragma once

#include <string>
#include <utility>

#include "base/fd.h"
#include "targets/file/file_options.h"

namespace ublkd {

class CreatedFile {
 public:
  CreatedFile() = default;
  CreatedFile(CreatedFile&& other) noexcept : path_(std::move(other.path_)), fd_(std::move(other.fd_)) {}
  CreatedFile& operator=(CreatedFile&& other) noexcept {  // other ends what this one held
    std::swap(path_, other.path_);
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~CreatedFile();

  // Makes the file. Error exists when the name is taken; nothing is left behind on any error.
  [[nodiscard]] static Result<CreatedFile> make(const std::string& path, std::uint64_t size_bytes,
                                                CreateMode mode);
  // The file stays.
  void keep() { fd_.reset(); }

 private:
  CreatedFile(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  [[nodiscard]] Result<void> fill(std::uint64_t size_bytes, CreateMode mode);
  [[nodiscard]] Result<void> make_durable();

  std::string path_;
  Fd fd_;  // valid: the file goes with this object
};

}  // namespace ublkd
