// NvmeQueue: the data path of an NVMe device on one hardware queue: each request is a chain of commands, one at a time.
//
//   queue_rqs -> send -> done:    the next piece, or complete
//                     -> failed:  complete with the error
//                                 send again (the drive said try again)
//                                 wait, then send again (the way to the drive is interrupted)
//
// Thread rule: its hardware queue's thread.
// Invariants:
//   1. A request has at most one command at the drive, and is on waiting_ only when it has none: a command is sent
//      again only after the old one has ended.
//   2. A request completes once: with 0 when all its pieces are done, else with the first error that stands.
//   3. scratch[0]: bytes done, tries and waits. scratch[1]: when its way was first interrupted. scratch[2..3]: the
//      range of a discard that the drive is reading, or when a waiting request is due.
#pragma once

#include <atomic>
#include <array>

#include "targets/nvme/command.h"
#include "targets/nvme/events.h"
#include "ublkd/target.h"

namespace ublkd {

// What all queues of one device share; constant, but for gone.
struct NvmeService {
  std::uint32_t nsid = 0;
  std::uint64_t begin_lba = 0;
  std::uint32_t lba_shift = 9;
  std::uint32_t transfer_bytes_max = 0;  // of a command
  std::uint32_t segments_max = 0;        // pages of our memory that a command may touch; 0: no limit
  std::uint32_t discard_blocks_max = 0xffffffff;
  std::uint32_t zero_blocks_max = nvme_blocks_max;
  NvmeDeallocate zeroes = NvmeDeallocate::no;
  bool single_path = true;
  std::uint32_t retries_max = 5;
  std::uint64_t retry_time_ns = 30'000'000'000;
  std::array<std::uint32_t, 3> retry_delay_ms{};
  std::atomic<bool> gone{false};  // the namespace is no more: everything fails at once
};

class NvmeQueue final : public TargetQueue {
 public:
  static constexpr std::uint64_t wait_first_ns = 10'000'000;
  static constexpr std::uint64_t wait_longest_ns = 1'000'000'000;
  static constexpr std::uint64_t look_ns = 100'000'000;  // so soon those that wait see that the namespace is gone

  NvmeQueue(QueuePort& port, const NvmeService& service, NvmeEvents& events)
      : port_(port), service_(service), events_(events) {}

  void queue_rqs(RequestList& list) override;
  void on_cqe(Request& rq, std::uint8_t step, std::int32_t result) override;
  void on_deadline() override;
  void abort(Request& rq) override;

 private:
  void send(Request& rq);
  void fill(nvme_uring_cmd& cmd, io_uring_sqe& sqe, Request& rq);
  void done(Request& rq);
  void failed(Request& rq, std::int32_t result);
  void wait(Request& rq, std::uint64_t ns);
  void wake_for(Request& rq);
  // Waits for the way to the drive; false when it took too long.
  bool wait_for_path(Request& rq);
  [[nodiscard]] std::uint32_t piece_bytes(const Request& rq) const;
  [[nodiscard]] std::uint32_t transfer_piece_bytes(const Request& rq, std::uint32_t rest) const;
  [[nodiscard]] std::uint64_t lba_of(const Request& rq) const;
  [[nodiscard]] bool is_gone() const { return service_.gone.load(std::memory_order_relaxed); }

  QueuePort& port_;
  const NvmeService& service_;
  NvmeEvents& events_;
  RequestList waiting_;  // in no order
};

}  // namespace ublkd
