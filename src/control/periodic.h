// Periodic: work that the control thread does at intervals while there is any to do; no timer runs otherwise.
//
// Thread rule: the thread of the io_context.
// Ownership: the io_context outlives it; the functions must be callable as long as it lives.
#pragma once

#include <functional>
#include <optional>

#include "control/asio.h"

namespace ublkd {

class Periodic {
 public:
  // interval: how long until work is due, asked anew after each; nothing: not before the next wake().
  Periodic(asio::io_context& io, std::function<std::optional<std::chrono::nanoseconds>()> interval,
           std::function<void()> work)
      : timer_(io), interval_(std::move(interval)), work_(std::move(work)) {}

  // The interval may have become another, or there may be work now. Never puts off what is due earlier.
  void wake() {
    const auto interval = interval_();
    if (!interval) return;
    const auto at = std::chrono::steady_clock::now() + *interval;
    if (!armed_ || at < timer_.expiry()) arm(at);
  }

 private:
  void arm(Deadline at) {
    armed_ = true;
    timer_.expires_at(at);  // ends an earlier wait
    timer_.async_wait([this](const boost::system::error_code& ec) {
      if (ec) return;  // another one, or *this is gone
      armed_ = false;
      work_();
      wake();
    });
  }

  asio::steady_timer timer_;
  std::function<std::optional<std::chrono::nanoseconds>()> interval_;
  std::function<void()> work_;
  bool armed_ = false;
};

}  // namespace ublkd
