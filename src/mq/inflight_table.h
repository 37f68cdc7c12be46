// InflightTable: the requests that hold a tag, by tag; what a scanner on another thread may know of them.
//
//   start: deadline, request, then mark (odd: in flight)      end: mark (even: free), then request
//                                |release                          |release
//   scan:                        +-> mark (acquire), deadline, mark again unchanged -> {tag, mark} to the owner
//
// The mark is generation and state in one word, published last: a scanner that sees a request in flight sees its
// deadline, never its predecessor's. (The kernel's blk_mq_start_request publishes without such an order.) A scanner
// never follows a pointer and never ends a request: it posts {tag, mark} to the owner, which compares and aborts.
//
// Thread rule: start, end, find on the hardware queue's thread; scan on any.
// Invariants: a tag's mark is odd exactly while its request is in flight; a mark names one start of one tag, until the
//   31-bit generation has gone round.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "ublkd/queue_port.h"

namespace ublkd {

class InflightTable {
 public:
  explicit InflightTable(std::uint32_t depth) : depth_(depth), entries_(new Entry[depth]) {}

  [[nodiscard]] std::uint32_t depth() const { return depth_; }

  // deadline_ns: CLOCK_MONOTONIC; time_never_ns: none.
  void start(Tag tag, Request& rq, std::uint64_t deadline_ns) {
    Entry& e = entries_[raw(tag)];
    // Release pairs with the acquire in scan: with this deadline, the end of the tag's last request is seen.
    e.deadline_ns.store(deadline_ns, std::memory_order_release);
    e.request = &rq;
    // Release pairs with the acquire in scan: with the mark, this deadline is seen.
    e.mark.store(e.mark.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  // Ends rq's time under its tag; checks that the tag is its own.
  void end(Tag tag, const Request& rq) {
    Entry& e = entries_[raw(tag)];
    UBLKD_CHECK(e.request == &rq);
    e.mark.store(e.mark.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    e.request = nullptr;
  }

  // The request of that tag; null when it is free.
  [[nodiscard]] Request* at(Tag tag) const { return entries_[raw(tag)].request; }

  // The request that mark named, null when it has ended since.
  [[nodiscard]] Request* find(Tag tag, std::uint32_t mark) const {
    const Entry& e = entries_[raw(tag)];
    return e.mark.load(std::memory_order_relaxed) == mark ? e.request : nullptr;
  }

  // Calls found(tag, mark) for each request whose deadline is before now_ns.
  template <typename F>
  void scan(std::uint64_t now_ns, F&& found) const {
    for (std::uint32_t t = 0; t < depth_; ++t) {
      const Entry& e = entries_[t];
      const std::uint32_t mark = e.mark.load(std::memory_order_acquire);
      if ((mark & 1) == 0) continue;
      // A deadline of a later start would come with the end of this one, which the second look at the mark sees.
      const std::uint64_t deadline = e.deadline_ns.load(std::memory_order_acquire);
      if (deadline < now_ns && e.mark.load(std::memory_order_relaxed) == mark)
        found(Tag(static_cast<std::uint16_t>(t)), mark);
    }
  }

 private:
  struct Entry {
    std::atomic<std::uint32_t> mark{0};
    std::atomic<std::uint64_t> deadline_ns{0};
    Request* request = nullptr;
  };
  std::uint32_t depth_;
  std::unique_ptr<Entry[]> entries_;
};

}  // namespace ublkd
