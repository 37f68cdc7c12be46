// QueuePort: what a target's queue object may ask of the hardware queue that serves it.
//
// Thread rule: the queue's thread only.
// Invariants:
//   1. complete() is called exactly once for each request taken; a second call ends the process.
//   2. An SQE taken by sqe() is filled completely before the next call into the port and always
//      submitted: decide first, take the entry after.
#pragma once

#include <array>
#include <cstdint>

#include "ublkd/request.h"

struct io_uring_sqe;

namespace ublkd {

[[noreturn]] void check_failed(const char* expression, const char* file, int line);

// Always on: guards memory and data against our own mistakes. Never for input.
#define UBLKD_CHECK(x) \
  do { \
    if (__builtin_expect(!(x), 0)) ::ublkd::check_failed(#x, __FILE__, __LINE__); \
  } while (0)

inline constexpr std::size_t backing_files_max = 4;

// How an SQE names a backing file: its registered slot where there is one, else the descriptor.
struct FileRef {
  std::int32_t fd = -1;
  std::uint8_t sqe_flags = 0;  // IOSQE_FIXED_FILE or 0; or'ed into sqe->flags
};

class QueuePort {
 public:
  QueuePort() = default;
  QueuePort(const QueuePort&) = delete;
  QueuePort& operator=(const QueuePort&) = delete;

  // A zeroed SQE whose CQE comes back as on_cqe(rq, step, ...). step: 0..255, the target's own.
  // Never null. Everything but user_data is the target's to fill.
  [[nodiscard]] virtual io_uring_sqe* sqe(Request& rq, std::uint8_t step) = 0;

  // The same of 128 bytes, all zero, for commands that need them. Only where the target's type has big_entries.
  [[nodiscard]] virtual io_uring_sqe* sqe_big(Request& rq, std::uint8_t step) = 0;

  // An SQE whose CQE nobody waits for (a cancel); its result is dropped.
  [[nodiscard]] virtual io_uring_sqe* sqe_unwatched() = 0;

  // The user_data that sqe(rq, step) carries, to name it in a cancel.
  [[nodiscard]] virtual std::uint64_t user_data(const Request& rq, std::uint8_t step) const = 0;

  // Asks for on_deadline() at the first turn at or after this CLOCK_MONOTONIC time. The earliest
  // asked time counts; it is forgotten when on_deadline is called.
  virtual void wake_at(std::uint64_t deadline_ns) = 0;

  // CLOCK_MONOTONIC, read once per turn.
  [[nodiscard]] std::uint64_t now_ns() const { return *now_ns_; }

  // The i-th of Target::backing_fds().
  [[nodiscard]] FileRef file(std::size_t i) const { return files_[i]; }

  // Whether all data of rq is registered with the ring: READ_FIXED, WRITE_FIXED and fixed commands with buf_index
  // buffer(rq) then save the kernel finding and pinning its pages. With zero copy it always is, and rq.data is null.
  [[nodiscard]] bool data_is_registered(const Request& rq) const { return rq.length_bytes <= registered_bytes_; }

  // What an SQE calls the byte at `offset` of rq's data. With zero copy the offset itself: the kernel registers a
  // request's pages from address 0 on.
  [[nodiscard]] static std::uint64_t address(const Request& rq, std::uint32_t offset) {
    return reinterpret_cast<std::uint64_t>(rq.data) + offset;
  }
  [[nodiscard]] std::uint16_t buffer(const Request& rq) const {
    return static_cast<std::uint16_t>(first_buffer_ + raw(rq.slot));
  }

  // Ends rq: error is 0 or -errno. A read's data is full when error is 0.
  void complete(Request& rq, std::int32_t error) {
    UBLKD_CHECK(rq.state == RequestState::started);
    rq.state = RequestState::done;
    rq.error = error;
    done_->push_back(rq);
  }

 protected:
  ~QueuePort() = default;
  RequestList* done_ = nullptr;
  const std::uint64_t* now_ns_ = nullptr;
  std::array<FileRef, backing_files_max> files_{};
  std::uint32_t registered_bytes_ = 0;  // at the front of each slot's data; 0: none
  std::uint32_t first_buffer_ = 0;      // slot 0's place in the ring's table of registered buffers
};

}  // namespace ublkd
