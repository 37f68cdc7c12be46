// Blocking system calls off the control thread.
//
// run_blocking(io, what, limit, f) runs f on a thread of its own and resumes the caller with its
// result, or with error timeout after limit: f's thread then goes on alone and its result is
// dropped. For rare, slow calls only (sysfs attributes that freeze a queue, opening a backing).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "control/asio.h"
#include "ublkd/result.h"

namespace ublkd {

template <typename T>
Task<Result<T>> run_blocking(asio::io_context& io, std::string what, std::chrono::milliseconds limit,
                             std::function<Result<T>()> f) {
  struct Shared {
    explicit Shared(asio::io_context& context) : event(context), post_to(&context) {}
    Event event;
    std::optional<Result<T>> result;
    // Taken by whoever comes first: the thread, to post its result, or the waiter, to give up.
    // Acquire-release, so that the giver-up knows no post follows.
    std::atomic<asio::io_context*> post_to;
  };
  auto shared = std::make_shared<Shared>(io);
  std::thread([shared, f = std::move(f)]() mutable {
    auto result = std::make_shared<Result<T>>(f());
    asio::io_context* context = shared->post_to.exchange(nullptr, std::memory_order_acq_rel);
    if (context == nullptr) return;
    asio::post(*context, [shared, result] {
      shared->result = std::move(*result);
      shared->event.notify();
    });
  }).detach();
  bool done = co_await shared->event.wait_until(after(limit));
  if (!done && shared->post_to.exchange(nullptr, std::memory_order_acq_rel) == nullptr)
    done = co_await shared->event.wait_until(Deadline::max());  // the post is on its way
  if (!done)
    co_return fail(ErrorKind::timeout, what, "",
                   "no answer within " + std::to_string(limit.count()) + " ms; it may still happen");
  co_return std::move(*shared->result);
}

}  // namespace ublkd
