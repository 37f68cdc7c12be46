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
  // Outlives whoever ends first, so it holds nothing of io's.
  struct Shared {
    std::optional<Result<T>> result;
    Event* event = nullptr;  // the waiter's; valid for whoever took post_to
    // Taken by whoever comes first: the thread, to post that it is done, or the waiter, to give up.
    // Acquire-release, so that the giver-up knows no post follows, and the result is seen.
    std::atomic<asio::io_context*> post_to;
  };
  Event event(io);
  auto shared = std::make_shared<Shared>();
  shared->event = &event;
  shared->post_to.store(&io, std::memory_order_relaxed);  // before the thread starts
  std::thread([shared, f = std::move(f)] {
    shared->result = f();
    asio::io_context* context = shared->post_to.exchange(nullptr, std::memory_order_acq_rel);
    if (context != nullptr) asio::post(*context, [shared] { shared->event->notify(); });
  }).detach();
  bool done = co_await event.wait_until(after(limit));
  if (!done && shared->post_to.exchange(nullptr, std::memory_order_acq_rel) == nullptr)
    done = co_await event.wait_until(Deadline::max());  // the post is on its way
  if (!done)
    co_return fail(ErrorKind::timeout, what, "",
                   "no answer within " + std::to_string(limit.count()) + " ms; it may still happen");
  co_return std::move(*shared->result);
}

}  // namespace ublkd
