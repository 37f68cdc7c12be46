// A server with a scripted service on a socket in a temporary directory, and raw clients for it.
#pragma once

#include <stdlib.h>

#include "api/server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "api/unix_address.h"
#include "base/fd.h"

namespace ublkd::api {

class TempDir {
 public:
  TempDir() {
    char name[] = "/tmp/ublkd-api-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Verbs: ping, echo (its args), fail, throw, hold (answers only after another client's release).
class ScriptedService : public Service {
 public:
  explicit ScriptedService(boost::asio::io_context& io) : gate_(io) {
    gate_.expires_at(gate_.expiry().max());
  }

  boost::asio::awaitable<Result<nlohmann::json>> call(std::string verb, nlohmann::json args) override {
    if (verb == "ping") co_return nlohmann::json("pong");
    if (verb == "echo") co_return args;
    if (verb == "fail") co_return fail(ErrorKind::busy, "delete", "ublkb0", "it is mounted");
    if (verb == "throw") throw std::runtime_error("thrown by the service");
    if (verb == "release") {
      release();
      co_return nlohmann::json("released");
    }
    if (verb == "hold") {
      boost::system::error_code ec;
      co_await gate_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, ec));
      co_return nlohmann::json("held");
    }
    co_return fail(ErrorKind::invalid, "verb", verb, "unknown");
  }

  // On the io_context's thread.
  void release() { gate_.cancel(); }

 private:
  boost::asio::steady_timer gate_;
};

// Blocking client. A receive that takes 20 s fails its test instead of hanging it.
class RawClient {
 public:
  explicit RawClient(const std::string& path) {
    auto address = unix_address(path);
    fd_ = Fd(::socket(AF_UNIX, SOCK_STREAM, 0));
    const timeval patience{20, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    connected_ = ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) == 0;
  }
  [[nodiscard]] bool connected() const { return connected_; }
  void send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t n = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  // Next line without its end; empty at the end of the connection.
  std::string line() {
    for (;;) {
      const std::size_t end = input_.find('\n');
      if (end != std::string::npos) {
        std::string l = input_.substr(0, end);
        input_.erase(0, end + 1);
        return l;
      }
      char chunk[4096];
      const ssize_t n = ::recv(fd_.get(), chunk, sizeof chunk, 0);
      if (n <= 0) return {};
      input_.append(chunk, static_cast<std::size_t>(n));
    }
  }
  nlohmann::json reply() { return nlohmann::json::parse(line(), nullptr, false); }
  // Whether the server ends the connection before it sends anything more.
  bool ended() { return line().empty(); }
  void hang_up() { fd_.reset(); }

 private:
  Fd fd_;
  bool connected_ = false;
  std::string input_;
};

class ApiTest : public ::testing::Test {
 protected:
  ~ApiTest() override { stop(); }

  Result<void> start(ApiLimits limits = {}) {
    server = std::make_unique<ApiServer>(io, path, service, limits);
    auto listening = server->listen();
    if (listening) thread = std::thread([this] { io.run(); });
    return listening;
  }
  // Closes as the daemon does and waits until nothing of the server is left to run.
  void stop() {
    if (!thread.joinable()) return;
    boost::asio::post(io, [this] { server->close(); });
    thread.join();
  }

  TempDir dir;
  std::string path = dir / "ublkd.sock";
  boost::asio::io_context io;
  ScriptedService service{io};
  std::unique_ptr<ApiServer> server;
  std::thread thread;
};

}  // namespace ublkd::api
