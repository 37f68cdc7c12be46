#include "base/fd.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace ublkd {

Result<Mapping> Mapping::anonymous(std::size_t bytes, const std::string& what) {
  void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return fail_errno(errno, "map memory", what);
  ::madvise(p, bytes, MADV_NOHUGEPAGE);
  return Mapping(p, bytes);
}

Result<Mapping> Mapping::populated(std::size_t bytes, const std::string& what) {
  auto mapping = anonymous(bytes, what);
  if (!mapping) return mapping;
  if (::madvise(mapping->data(), bytes, MADV_POPULATE_WRITE) != 0) {
    if (errno != EINVAL) return fail_errno(errno == EFAULT ? ENOMEM : errno, "back memory with pages", what);
    std::memset(mapping->data(), 0, bytes);  // kernels before 5.14
  }
  return mapping;
}

Result<Fd> open_file(const std::string& path, int flags, unsigned mode) {
  Fd fd(::open(path.c_str(), flags | O_CLOEXEC, mode));
  if (!fd.valid()) return fail_errno(errno, "open", path);
  return fd;
}

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  auto fd = open_file(path, O_RDONLY);
  if (!fd) return Unexpected(fd.error());
  std::string text;
  char chunk[4096];
  for (;;) {
    const ssize_t n = ::read(fd->get(), chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(errno, "read", path);
    if (n == 0) return text;
    text.append(chunk, static_cast<std::size_t>(n));
    if (text.size() > max_bytes)
      return fail(ErrorKind::limit, "read", path,
                  "longer than " + std::to_string(max_bytes) + " bytes");
  }
}

Result<void> write_attribute(const std::string& path, const std::string& text) {
  auto fd = open_file(path, O_WRONLY);
  if (!fd) return Unexpected(fd.error());
  const ssize_t n = ::write(fd->get(), text.data(), text.size());
  if (n < 0) return fail_errno(errno, "write '" + text + "' to", path);
  return {};
}

}  // namespace ublkd
