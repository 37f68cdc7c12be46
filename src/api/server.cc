#include "api/server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <set>
#include <utility>

#include "api/unix_address.h"
#include "base/log.h"

namespace ublkd::api {

namespace asio = boost::asio;
using asio::local::stream_protocol;
using boost::system::error_code;
using nlohmann::json;

namespace {

// Wait after a failed accept (out of descriptors, say), which would otherwise be tried again at
// once and for ever.
constexpr std::chrono::milliseconds accept_retry{100};

// One client. Its timer closes the socket when the client takes too long; the pending read or
// write then fails, and the session ends.
struct Connection {
  Connection(stream_protocol::socket s, std::chrono::milliseconds time_max)
      : socket(std::move(s)), timer(socket.get_executor()), client_time_max(time_max) {}

  void shut() {
    error_code ignored;
    timer.cancel(ignored);
    socket.close(ignored);
  }

  stream_protocol::socket socket;
  asio::steady_timer timer;
  std::chrono::milliseconds client_time_max;
  std::string input;
};

void start_clock(const std::shared_ptr<Connection>& connection) {
  connection->timer.expires_after(connection->client_time_max);
  connection->timer.async_wait([weak = std::weak_ptr<Connection>(connection)](error_code ec) {
    if (ec) return;
    if (auto late = weak.lock()) late->shut();
  });
}

void stop_clock(Connection& connection) {
  error_code ignored;
  connection.timer.cancel(ignored);
}

// Whole line without its end, taken off input; input holds at least one end of line.
std::string take_line(std::string& input, std::size_t line_bytes) {
  std::string line = input.substr(0, line_bytes - 1);
  input.erase(0, line_bytes);
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return line;
}

// Answers without waiting: for clients that are turned away.
void answer_at_once(stream_protocol::socket& socket, const Error& error) {
  const std::string reply = reply_line(Unexpected(error));
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(reply), ignored);
}

Error too_many(std::size_t connections_max) {
  return Error{ErrorKind::limit, 0, "too many clients", "",
               "at most " + std::to_string(connections_max) + " at a time; try again"};
}

Error line_too_long(std::size_t bytes_max) {
  return Error{ErrorKind::limit, 0, "request", "",
               "line longer than " + std::to_string(bytes_max) + " bytes"};
}

// Removes a dead daemon's socket, so that path can be bound again.
Result<void> remove_stale(const std::string& path) {
  struct stat st {};
  if (::lstat(path.c_str(), &st) != 0) {
    if (errno == ENOENT) return {};
    return fail_errno(errno, "look at socket", path);
  }
  if (!S_ISSOCK(st.st_mode))
    return fail(ErrorKind::exists, "listen on", path, "something that is no socket is there");
  auto peer = unix_connect(path);
  if (peer || peer.error().kind == ErrorKind::busy)
    return fail(ErrorKind::busy, "listen on", path,
                "another daemon answers there; stop it, or choose another --run-dir");
  if (peer.error().errno_value != ECONNREFUSED) return Unexpected(peer.error());
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno(errno, "remove stale socket", path);
  log_info("replaced stale socket {}", path);
  return {};
}

// Bound and listening socket. The mode is set before listen(), so nobody connects earlier.
Result<Fd> bind_socket(const std::string& path, int backlog) {
  auto address = unix_address(path);
  if (!address) return Unexpected(address.error());
  auto clear = remove_stale(path);
  if (!clear) return Unexpected(clear.error());
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return fail_errno(errno, "create socket for", path);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0)
    return fail_errno(errno, "bind", path);
  if (::chmod(path.c_str(), socket_mode) != 0) return fail_errno(errno, "set mode of", path);
  if (::listen(fd.get(), backlog) != 0) return fail_errno(errno, "listen on", path);
  return fd;
}

}  // namespace

struct ApiServer::State {
  State(asio::io_context& io_in, std::string path_in, Service& service_in, ApiLimits limits_in)
      : io(io_in),
        path(std::move(path_in)),
        service(service_in),
        limits(limits_in),
        acceptor(io),
        retry(io) {}

  static asio::awaitable<void> accept_loop(std::shared_ptr<State> state);
  static asio::awaitable<void> session(std::shared_ptr<State> state, std::shared_ptr<Connection> connection);
  static asio::awaitable<void> serve_lines(std::shared_ptr<State> state,
                                           std::shared_ptr<Connection> connection);
  static asio::awaitable<Result<std::string>> read_line(std::shared_ptr<State> state,
                                                        std::shared_ptr<Connection> connection);
  static asio::awaitable<bool> write_reply(std::shared_ptr<Connection> connection, std::string reply);
  static asio::awaitable<Result<json>> answer(std::shared_ptr<State> state, std::string line);
  void remember_inode();
  void remove_socket();

  asio::io_context& io;
  std::string path;
  Service& service;
  ApiLimits limits;
  stream_protocol::acceptor acceptor;
  asio::steady_timer retry;
  std::set<std::shared_ptr<Connection>> connections;
  dev_t socket_device = 0;
  ino_t socket_inode = 0;
  enum class Phase { idle, open, closed } phase = Phase::idle;
};

void ApiServer::State::remember_inode() {
  struct stat st {};
  if (::lstat(path.c_str(), &st) != 0) return;
  socket_device = st.st_dev;
  socket_inode = st.st_ino;
}

// Only the socket we bound: another daemon may have put its own there since.
void ApiServer::State::remove_socket() {
  struct stat st {};
  if (::lstat(path.c_str(), &st) != 0) return;
  if (st.st_dev == socket_device && st.st_ino == socket_inode) ::unlink(path.c_str());
}

asio::awaitable<void> ApiServer::State::accept_loop(std::shared_ptr<State> state) {
  while (state->phase == Phase::open) {
    error_code ec;
    stream_protocol::socket socket(state->io);
    co_await state->acceptor.async_accept(socket, asio::redirect_error(asio::use_awaitable, ec));
    if (state->phase != Phase::open) co_return;
    if (ec) {
      log_warning("accept on {}: {}", state->path, ec.message());
      state->retry.expires_after(accept_retry);
      error_code ignored;
      co_await state->retry.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
      continue;
    }
    if (state->connections.size() >= state->limits.connections_max) {
      answer_at_once(socket, too_many(state->limits.connections_max));
      continue;
    }
    auto connection = std::make_shared<Connection>(std::move(socket), state->limits.client_time_max);
    state->connections.insert(connection);
    asio::co_spawn(state->io, session(state, connection), asio::detached);
  }
}

asio::awaitable<void> ApiServer::State::session(std::shared_ptr<State> state,
                                                std::shared_ptr<Connection> connection) {
  try {
    co_await serve_lines(state, connection);
  } catch (const std::exception& e) {
    log_error("local API session ended: {}", e.what());
  }
  connection->shut();
  state->connections.erase(connection);
}

asio::awaitable<void> ApiServer::State::serve_lines(std::shared_ptr<State> state,
                                                    std::shared_ptr<Connection> connection) {
  while (state->phase == Phase::open) {
    Result<std::string> line = co_await read_line(state, connection);
    if (!line) {
      // The rest of a line that is too long is not read: the client is told and left.
      if (line.error().kind == ErrorKind::limit) answer_at_once(connection->socket, line.error());
      co_return;
    }
    Result<json> result = co_await answer(state, std::move(*line));
    if (state->phase != Phase::open) co_return;
    std::string reply = reply_line(result);
    const bool sent = co_await write_reply(connection, std::move(reply));
    if (!sent) co_return;
  }
}

// Error limit: too long. Any other error: the client is gone or too slow.
asio::awaitable<Result<std::string>> ApiServer::State::read_line(std::shared_ptr<State> state,
                                                                 std::shared_ptr<Connection> connection) {
  start_clock(connection);
  error_code ec;
  auto buffer = asio::dynamic_buffer(connection->input, state->limits.line_bytes_max);
  const std::size_t bytes = co_await asio::async_read_until(connection->socket, buffer, '\n',
                                                            asio::redirect_error(asio::use_awaitable, ec));
  stop_clock(*connection);
  if (ec == asio::error::not_found) co_return Unexpected(line_too_long(state->limits.line_bytes_max));
  if (ec) co_return fail(ErrorKind::io, "read", "client", ec.message());
  co_return take_line(connection->input, bytes);
}

asio::awaitable<bool> ApiServer::State::write_reply(std::shared_ptr<Connection> connection,
                                                    std::string reply) {
  start_clock(connection);
  error_code ec;
  co_await asio::async_write(connection->socket, asio::buffer(reply),
                             asio::redirect_error(asio::use_awaitable, ec));
  stop_clock(*connection);
  co_return !ec;
}

asio::awaitable<Result<json>> ApiServer::State::answer(std::shared_ptr<State> state, std::string line) {
  auto request = parse_request(line);
  if (!request) co_return Unexpected(request.error());
  std::string fault;
  try {
    Result<json> result = co_await state->service.call(request->verb, std::move(request->args));
    co_return result;
  } catch (const std::exception& e) {
    fault = e.what();
  }
  log_error("verb {}: {}", request->verb, fault);
  co_return fail(ErrorKind::internal, "verb", request->verb, fault);
}

ApiServer::ApiServer(asio::io_context& io, std::string path, Service& service, ApiLimits limits)
    : state_(std::make_shared<State>(io, std::move(path), service, limits)) {}

ApiServer::~ApiServer() {
  close();
}

Result<void> ApiServer::listen() {
  auto fd = bind_socket(state_->path, static_cast<int>(state_->limits.connections_max));
  if (!fd) return Unexpected(fd.error());
  error_code ec;
  const int raw_fd = fd->release();
  state_->acceptor.assign(stream_protocol(), raw_fd, ec);
  if (ec) {
    ::close(raw_fd);
    return fail_errno(ec.value(), "listen on", state_->path);
  }
  state_->remember_inode();
  state_->phase = State::Phase::open;
  asio::co_spawn(state_->io, State::accept_loop(state_), asio::detached);
  return {};
}

void ApiServer::close() {
  if (state_->phase != State::Phase::open) return;
  state_->phase = State::Phase::closed;
  error_code ignored;
  state_->acceptor.close(ignored);
  state_->retry.cancel(ignored);
  state_->remove_socket();
  for (const auto& connection : state_->connections) connection->shut();
}

}  // namespace ublkd::api
