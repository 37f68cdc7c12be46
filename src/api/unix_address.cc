#include "api/unix_address.h"

#include <cerrno>
#include <cstring>

namespace ublkd::api {

Result<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return fail(ErrorKind::limit, "socket path", path,
                "must have 1 to " + std::to_string(sizeof address.sun_path - 1) + " bytes");
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Result<Fd> unix_connect(const std::string& path) {
  auto address = unix_address(path);
  if (!address) return Unexpected(address.error());
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return fail_errno(errno, "create socket for", path);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    if (errno == EAGAIN) return fail(ErrorKind::busy, "connect", path, "too many clients wait there already");
    return fail_errno(errno, "connect", path);
  }
  return fd;
}

}  // namespace ublkd::api
