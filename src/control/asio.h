// The part of Boost.Asio that the control thread uses.
#pragma once

#include <utility>  // first: Asio 1.74 uses std::exchange without including it

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>

namespace ublkd {

namespace asio = boost::asio;

template <typename T>
using Task = asio::awaitable<T>;

using Deadline = std::chrono::steady_clock::time_point;
inline Deadline after(std::chrono::milliseconds d) { return std::chrono::steady_clock::now() + d; }

// Something that happens once. Waiters and notify() on the io_context's thread.
class Event {
 public:
  explicit Event(asio::io_context& io) : timer_(io) {}
  void notify() {
    happened_ = true;
    timer_.cancel();
  }
  [[nodiscard]] bool happened() const { return happened_; }
  // True when it happened before the deadline. One waiter at a time.
  Task<bool> wait_until(Deadline deadline) {
    if (!happened_) {
      timer_.expires_at(deadline);
      boost::system::error_code ignored;
      co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    co_return happened_;
  }

 private:
  asio::steady_timer timer_;
  bool happened_ = false;
};

}  // namespace ublkd
