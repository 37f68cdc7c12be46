#include "targets/file/create_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

namespace ublkd {

namespace {

constexpr unsigned file_mode = 0600;  // a device's data is its owner's business
constexpr int interrupted_max = 16;   // restarts of one fallocate by signals

}  // namespace

CreatedFile::~CreatedFile() {
  if (!fd_.valid()) return;
  struct stat made {};
  struct stat named {};
  if (::fstat(fd_.get(), &made) != 0 || ::lstat(path_.c_str(), &named) != 0) return;
  if (made.st_dev == named.st_dev && made.st_ino == named.st_ino) ::unlink(path_.c_str());
}

Result<CreatedFile> CreatedFile::make(const std::string& path, std::uint64_t size_bytes, CreateMode mode) {
  auto fd = open_file(path, O_RDWR | O_CREAT | O_EXCL, file_mode);
  if (!fd) {
    fd.error().operation = "create";
    return Unexpected(fd.error());
  }
  CreatedFile file(path, std::move(*fd));
  if (auto r = file.fill(size_bytes, mode); !r) return Unexpected(r.error());
  if (auto r = file.make_durable(); !r) return Unexpected(r.error());
  return file;
}

Result<void> CreatedFile::fill(std::uint64_t size_bytes, CreateMode mode) {
  const auto size = static_cast<off_t>(size_bytes);
  if (mode == CreateMode::sparse) {
    if (::ftruncate(fd_.get(), size) == 0) return {};
    return fail_errno(errno, fmt::format("create with {} bytes", size_bytes), path_);
  }
  int rc = -1;
  for (int i = 0; i < interrupted_max && rc != 0; ++i) {
    rc = ::fallocate(fd_.get(), 0, 0, size);
    if (rc != 0 && errno != EINTR) break;
  }
  if (rc == 0) return {};
  return fail_errno(errno, fmt::format("preallocate {} bytes for", size_bytes), path_,
                    errno == EOPNOTSUPP ? "this file system cannot preallocate; use create: sparse"
                                        : "the file was removed again");
}

// The name is part of what the user asked for: without the directory's fsync it may be gone after a
// power cut, and all data that FLUSH made durable with it.
Result<void> CreatedFile::make_durable() {
  if (::fsync(fd_.get()) != 0) return fail_errno(errno, "fsync", path_);
  const std::string directory = std::filesystem::path(path_).parent_path().string();
  auto dir = open_file(directory.empty() ? "." : directory, O_RDONLY | O_DIRECTORY);
  if (!dir) return Unexpected(dir.error());
  if (::fsync(dir->get()) != 0 && errno != EINVAL)  // EINVAL: this file system has no such thing
    return fail_errno(errno, "fsync", directory);
  return {};
}

}  // namespace ublkd
