// FakePort: a queue port without a ring. Keeps what a target asks for and plays back scripted answers.
//
// Thread rule: one thread, as a target queue.
// Invariants (each is checked, and ends the test program):
//   1. A request completes only when none of its entries is unanswered.
//   2. An answer is given once, for an entry that was taken.
#pragma once

#include <liburing.h>

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "ublkd/target.h"

namespace ublkd {

class FakePort final : public QueuePort {
 public:
  struct Entry {
    Request* rq = nullptr;  // null: unwatched
    std::uint8_t step = 0;
    bool answered = false;
    io_uring_sqe* sqe = nullptr;
  };

  explicit FakePort(std::int32_t fd = -1) {
    done_ = &done_list_;
    now_ns_ = &now_;
    files_[0].fd = fd;
  }

  io_uring_sqe* sqe(Request& rq, std::uint8_t step) override { return &add(&rq, step); }
  io_uring_sqe* sqe_big(Request& rq, std::uint8_t step) override { return &add(&rq, step); }
  io_uring_sqe* sqe_unwatched() override { return &add(nullptr, 0); }
  [[nodiscard]] std::uint64_t user_data(const Request& rq, std::uint8_t step) const override {
    return (std::uint64_t{rq.index} << 8) | step;
  }
  void wake_at(std::uint64_t deadline_ns) override {
    if (deadline_ns < wake_ns_) wake_ns_ = deadline_ns;
  }

  // The target's requests that are done, in order; the list is empty afterwards.
  std::vector<Request*> take_done() {
    std::vector<Request*> done;
    while (!done_list_.empty()) {
      Request& rq = done_list_.pop_front();
      for (const Entry& e : entries_) UBLKD_CHECK(e.rq != &rq || e.answered);
      rq.state = RequestState::idle;
      done.push_back(&rq);
    }
    return done;
  }

  // Answers the oldest unanswered watched entry.
  void answer(TargetQueue& queue, std::int32_t result) {
    for (Entry& e : entries_) {
      if (e.rq == nullptr || e.answered) continue;
      e.answered = true;
      queue.on_cqe(*e.rq, e.step, result);
      return;
    }
    UBLKD_CHECK(false);
  }

  // Moves time to now_ns and delivers the deadline when one has come.
  void advance_to(TargetQueue& queue, std::uint64_t now_ns) {
    now_ = now_ns;
    if (wake_ns_ > now_) return;
    wake_ns_ = time_never_ns;
    queue.on_deadline();
  }

  // From now on data lies in registered memory: all of it (no data has an address then), or a first part.
  void register_data(std::uint32_t bytes, std::uint32_t first_buffer) {
    registered_bytes_ = bytes;
    first_buffer_ = first_buffer;
  }

  [[nodiscard]] const std::deque<Entry>& entries() const { return entries_; }
  [[nodiscard]] const Entry& last() const { return entries_.back(); }
  [[nodiscard]] std::uint64_t wake_ns() const { return wake_ns_; }
  [[nodiscard]] std::size_t unanswered() const {
    std::size_t n = 0;
    for (const Entry& e : entries_) n += e.rq != nullptr && !e.answered ? 1 : 0;
    return n;
  }

 private:
  io_uring_sqe& add(Request* rq, std::uint8_t step) {
    sqes_.emplace_back();
    entries_.push_back({rq, step, false, sqes_.back().data()});
    return sqes_.back()[0];
  }

  RequestList done_list_;
  std::uint64_t now_ = 1;
  std::uint64_t wake_ns_ = time_never_ns;
  std::deque<Entry> entries_;
  std::deque<std::array<io_uring_sqe, 2>> sqes_;  // of 128 bytes; a deque: their addresses hold
};

}  // namespace ublkd
