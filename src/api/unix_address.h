// Address of a unix stream socket, and the question whether somebody answers there. Any thread.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "base/fd.h"
#include "ublkd/result.h"

namespace ublkd::api {

// Error limit when path does not fit (107 bytes).
[[nodiscard]] Result<sockaddr_un> unix_address(const std::string& path);

// Non-blocking socket connected to path. A full queue of waiting clients is error busy; nobody
// there is not_found (no such path) or io with ECONNREFUSED (a dead daemon's socket).
[[nodiscard]] Result<Fd> unix_connect(const std::string& path);

}  // namespace ublkd::api
