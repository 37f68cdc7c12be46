// Request: one block request on its way from the kernel's slot to a target and back.
//
// Thread rule: owned by one hardware queue's thread from arrival to commit.
// Ownership: the engine owns every Request; a target owns it from taking it off the list given to
//   queue_rqs until it calls QueuePort::complete on it.
// Invariants:
//   1. A request is on at most one list.
//   2. state goes idle -> arrived -> started -> done -> idle, and never another way, but for a
//      request that fails its checks (arrived -> done) and a leftover (started -> arrived).
//   3. It has a tag exactly while started, or done but not yet reaped.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ublkd/units.h"

namespace ublkd {

enum class Op : std::uint8_t { read, write, flush, discard, write_zeroes };
inline constexpr std::size_t op_count = 5;
[[nodiscard]] const char* op_name(Op op);

enum class RequestState : std::uint8_t { idle, arrived, started, done };

namespace request_flag {
inline constexpr std::uint8_t fua = 1;       // durable when it completes
inline constexpr std::uint8_t no_unmap = 2;  // write_zeroes must not deallocate
}  // namespace request_flag

inline constexpr std::size_t request_scratch_words = 4;

struct alignas(64) Request {
  Request* next = nullptr;
  std::byte* data = nullptr;         // length_bytes of I/O memory; write: filled; read: to be filled. Null: zero copy
  std::uint64_t offset_bytes = 0;    // on the device
  std::uint32_t length_bytes = 0;    // 0 for flush
  std::int32_t error = 0;            // 0 or -errno; valid when done
  Op op = Op::read;
  std::uint8_t flags = 0;            // request_flag
  RequestState state = RequestState::idle;
  std::uint8_t aborting = 0;         // abort() was called; targets start no further step
  Tag tag = tag_none;
  Slot slot{};
  std::uint32_t index = 0;           // this request's place in its hardware queue's table
  std::uint32_t dirty_bytes = 0;     // prefix of data that an earlier write may have left non-zero
  void* owner = nullptr;             // the engine's DeviceState
  std::uint64_t arrived_ns = 0;      // CLOCK_MONOTONIC at the turn it arrived in
  std::uint32_t order = 0;           // arrival turn, for first come first served
  std::uint32_t generation = 0;      // engine's use
  std::uint64_t scratch[request_scratch_words] = {};  // the target's, between queue_rqs and complete
};
static_assert(sizeof(Request) == 128);

// Singly linked FIFO of requests; does not own them.
class RequestList {
 public:
  [[nodiscard]] bool empty() const { return head_ == nullptr; }
  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] Request* front() const { return head_; }

  void push_back(Request& rq) {
    rq.next = nullptr;
    *(head_ == nullptr ? &head_ : &tail_->next) = &rq;
    tail_ = &rq;
    ++size_;
  }
  void push_front(Request& rq) {
    rq.next = head_;
    if (head_ == nullptr) tail_ = &rq;
    head_ = &rq;
    ++size_;
  }
  // Precondition: not empty.
  Request& pop_front() {
    Request& rq = *head_;
    head_ = rq.next;
    rq.next = nullptr;
    --size_;
    return rq;
  }
  // Moves all of other behind this list; other is empty afterwards.
  void splice_back(RequestList& other) {
    if (other.empty()) return;
    *(head_ == nullptr ? &head_ : &tail_->next) = other.head_;
    tail_ = other.tail_;
    size_ += other.size_;
    other.clear();
  }
  // Moves all of other before this list.
  void splice_front(RequestList& other) {
    other.splice_back(*this);
    *this = other;
    other.clear();
  }
  // Cuts off the first n requests, 1 <= n <= size(), of which last is the n-th.
  RequestList split_front(Request& last, std::uint32_t n) {
    RequestList cut;
    cut.head_ = head_;
    cut.tail_ = &last;
    cut.size_ = n;
    head_ = last.next;
    size_ -= n;
    last.next = nullptr;
    return cut;
  }
  // Forgets the requests without touching them.
  void clear() {
    head_ = tail_ = nullptr;
    size_ = 0;
  }

 private:
  Request* head_ = nullptr;
  Request* tail_ = nullptr;  // valid while head_ is not null
  std::uint32_t size_ = 0;
};

}  // namespace ublkd
