// ApiServer: answers the local API on a unix stream socket. Service: what it asks.
//
// Thread rule: everything on the one thread that runs the io_context.
// Ownership: the io_context and the Service outlive every run of the io_context; sessions end by
//   themselves after close(), also when the ApiServer is gone.
// Invariants:
//   1. One coroutine per client; a client that waits for a slow verb, sends nothing or reads
//      nothing holds up no other.
//   2. Requests of one client are answered in order.
//   3. No exception leaves a session, and no input ends the server.
//   4. The socket is never connectable with more rights than socket_mode.
#pragma once

#include <sys/types.h>

#include <utility>  // first: Asio 1.74 uses std::exchange without including it

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "api/wire.h"
#include "ublkd/result.h"

namespace ublkd::api {

inline constexpr mode_t socket_mode = 0600;

class Service {
 public:
  virtual ~Service() = default;
  // Result of one verb. Runs on the io_context's thread and must not block it.
  virtual boost::asio::awaitable<Result<nlohmann::json>> call(std::string verb, nlohmann::json args) = 0;
};

struct ApiLimits {
  std::size_t connections_max = 64;
  std::size_t line_bytes_max = api::line_bytes_max;
  // For a client to send a whole line, and to take a reply. The time a verb runs does not count.
  std::chrono::milliseconds client_time_max{30'000};
};

class ApiServer {
 public:
  ApiServer(boost::asio::io_context& io, std::string path, Service& service, ApiLimits limits = {});
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;
  ~ApiServer();  // closes

  // Binds and starts to accept. The socket of a dead daemon is replaced; error busy when a live one
  // answers there, exists when the path is something else.
  [[nodiscard]] Result<void> listen();

  // Ends all connections and removes the socket. A verb in progress runs on; its reply is dropped.
  void close();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ublkd::api
