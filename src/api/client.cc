#include "api/client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string_view>

#include "api/unix_address.h"
#include "api/wire.h"
#include "base/clock.h"

namespace ublkd::api {

namespace {

// Replies list up to a few thousand devices; more than this is no answer of ours.
constexpr std::size_t reply_bytes_max = std::size_t{64} << 20;
constexpr std::uint64_t ms_ns = 1'000'000;

// Waits until fd is ready for events; false when deadline_ns passes first.
Result<bool> wait_ready(int fd, short events, std::uint64_t deadline_ns) {
  for (;;) {
    const std::uint64_t now = monotonic_ns();
    if (now >= deadline_ns) return false;
    const std::uint64_t left_ms = (deadline_ns - now + ms_ns - 1) / ms_ns;
    pollfd p{fd, events, 0};
    const int n = ::poll(&p, 1, static_cast<int>(std::min<std::uint64_t>(left_ms, 1'000'000)));
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return fail_errno(errno, "wait for", "daemon");
  }
}

Error late(const std::string& path) {
  return Error{ErrorKind::timeout, 0, "no answer from", path,
               "the daemon may still be at work: see its log (journalctl -u ublkd), or give more --timeout"};
}

// A daemon that turns us away may answer and close before it read our request: a broken pipe is
// then no error yet, the reply says why.
Result<void> send_all(int fd, std::string_view text, const std::string& path, std::uint64_t deadline_ns) {
  while (!text.empty()) {
    const ssize_t n = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (n > 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return {};
    } else if (errno == EAGAIN) {
      auto ready = wait_ready(fd, POLLOUT, deadline_ns);
      if (!ready) return Unexpected(ready.error());
      if (!*ready) return Unexpected(late(path));
    } else if (errno != EINTR) {
      return fail_errno(errno, "write to", path);
    }
  }
  return {};
}

// Appends what has arrived to input; false at the end of the connection.
Result<bool> receive_some(int fd, std::string& input, const std::string& path) {
  char chunk[65536];
  const ssize_t n = ::recv(fd, chunk, sizeof chunk, 0);
  if (n > 0) input.append(chunk, static_cast<std::size_t>(n));
  if (n >= 0) return n > 0;
  if (errno == EAGAIN || errno == EINTR) return true;
  if (errno == ECONNRESET) return false;
  return fail_errno(errno, "read from", path);
}

}  // namespace

Result<ApiClient> ApiClient::connect(const std::string& path) {
  auto fd = unix_connect(path);
  if (fd) return ApiClient(std::move(*fd), path);
  const int e = fd.error().errno_value;
  if (e == ENOENT || e == ECONNREFUSED || e == ENOTDIR)
    return fail(ErrorKind::not_found, "no ublkd answers on", path,
                "start one: systemctl start ublkd, or ublkd &");
  if (e == EACCES || e == EPERM)
    return Unexpected(errno_error(e, "connect", path, "run as the user of the daemon (root)"));
  return Unexpected(fd.error());
}

Result<nlohmann::json> ApiClient::call(const std::string& verb, const nlohmann::json& args,
                                       std::chrono::milliseconds time_max) {
  const std::uint64_t deadline_ns = monotonic_ns() + static_cast<std::uint64_t>(time_max.count()) * ms_ns;
  auto sent = send_all(fd_.get(), request_line(verb, args), path_, deadline_ns);
  if (!sent) return Unexpected(sent.error());
  std::size_t searched = 0;
  for (;;) {
    const std::size_t end = input_.find('\n', searched);
    if (end != std::string::npos) {
      const std::string line = input_.substr(0, end);
      input_.erase(0, end + 1);
      return parse_reply(line);
    }
    searched = input_.size();
    if (searched > reply_bytes_max) return fail(ErrorKind::limit, "reply from", path_, "too long");
    auto ready = wait_ready(fd_.get(), POLLIN, deadline_ns);
    if (!ready) return Unexpected(ready.error());
    if (!*ready) return Unexpected(late(path_));
    auto open = receive_some(fd_.get(), input_, path_);
    if (!open) return Unexpected(open.error());
    if (!*open)
      return fail(ErrorKind::io, "read from", path_, "the daemon closed the connection without an answer");
  }
}

}  // namespace ublkd::api
