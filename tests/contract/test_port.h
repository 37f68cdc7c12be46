// TestPort: a queue port on a real io_uring, small enough to be trusted by reading it.
//
// Thread rule: one thread.
// Invariants (checked; a broken one ends the test program):
//   1. A request that completes has no entry of its own left in the ring.
//   2. A CQE belongs to a request that is started.
#pragma once

#include <liburing.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ublkd/target.h"

namespace ublkd {

// How SQEs name the backing's files, and with them the rig's memory.
enum class FileNames : std::uint8_t { descriptors, registered };

enum class Entries : std::uint8_t { small, big };

class TestPort final : public QueuePort {
 public:
  static constexpr unsigned ring_entries = 64;

  // Error: this machine refuses io_uring.
  [[nodiscard]] static Result<std::unique_ptr<TestPort>> make(const std::vector<int>& fds, FileNames names,
                                                              Entries entries);
  ~TestPort();

  io_uring_sqe* sqe(Request& rq, std::uint8_t step) override;
  io_uring_sqe* sqe_big(Request& rq, std::uint8_t step) override;
  io_uring_sqe* sqe_unwatched() override;
  [[nodiscard]] std::uint64_t user_data(const Request& rq, std::uint8_t step) const override;
  void wake_at(std::uint64_t deadline_ns) override;

  // Table that request.index points into; the port keeps the reference.
  void set_table(std::vector<Request*> table) {
    table_ = std::move(table);
    in_ring_.assign(table_.size(), 0);
  }

  // Registers one page at the front of each request's data; data[i] is that of slot i.
  [[nodiscard]] Result<void> register_memory(const std::vector<std::byte*>& data);

  // Submits, waits for an answer, a deadline or wait_ns, and hands to queue what has come.
  void turn(TargetQueue& queue, std::uint64_t wait_ns);

  // What completed since the last call.
  [[nodiscard]] RequestList take_done();
  void read_clock();

 private:
  TestPort();
  io_uring_sqe* entry();
  void wait(std::uint64_t wait_ns);
  void deliver(TargetQueue& queue, std::uint64_t user_data_value, std::int32_t result);

  io_uring ring_{};
  bool ring_made_ = false;
  Entries entries_ = Entries::small;
  std::vector<Request*> table_;
  std::vector<std::uint32_t> in_ring_;  // entries of each request, by index
  RequestList done_list_;
  std::uint64_t now_ = 0;
  std::uint64_t wake_ns_ = time_never_ns;
};

}  // namespace ublkd
