// BatchIo: the batch commands of one ublk queue (UBLK_F_BATCH_IO): one CQE brings the slots of many new requests, one
// SQE gives many results back.
//
//   PREP_IO_CMDS     once: where each slot's data goes
//   FETCH_IO_CMDS    multishot: a CQE each time there are new requests, their slots in a provided buffer
//   COMMIT_IO_CMDS   once a turn: the results of the turn, and with them the slots
//
// The kernel reads the elements of a command when it is submitted; until its CQE they are left as they are:
//
//   elements_  [ ..... | committed, CQE not seen | this turn's | ..... ]   3 x slots: so many in a row are always free
//                       oldest_                   begin_     end_
//
// Thread rule: made and destroyed by the control thread; else the hardware queue's thread.
// Invariants:
//   1. A slot is in one element at most: not more than `slots` of them are in use.
//   2. Commits end in the order they were submitted.
// Source: Documentation/block/ublk.rst, "Batch I/O"; include/uapi/linux/ublk_cmd.h.
#pragma once

#include <liburing.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "abi/ublk_cmd.h"
#include "base/fd.h"
#include "ring/ring.h"
#include "ublkd/request.h"

namespace ublkd {

struct BatchIoSpec {
  std::uint16_t queue_id = 0;
  std::uint32_t slots = 0;
  bool zero_copy = false;
  std::uint32_t first_buffer = 0;  // zero_copy: slot 0's place in the table of registered buffers
};

class BatchIo {
 public:
  // Buffers for the slots of new requests: as many CQEs can be unseen before the kernel ends the fetch with ENOBUFS.
  static constexpr std::uint32_t buffers = 32;
  static constexpr std::uint32_t slots_per_buffer = 128;  // the kernel gives no more at once

  // Error no_memory.
  [[nodiscard]] static Result<std::unique_ptr<BatchIo>> make(const BatchIoSpec& spec);

  // Provides the buffers to the ring, as this group.
  [[nodiscard]] Result<void> start(Ring& ring, std::uint16_t group);
  void stop(Ring& ring);

  // These fill a zeroed SQE but for fd, flags that name the file, and user_data.
  void fill_prep(io_uring_sqe& sqe, std::span<const Request> requests);
  void fill_fetch(io_uring_sqe& sqe) const;

  // Slots of new requests that a fetch's CQE brought (result > 0); valid until given back.
  [[nodiscard]] std::span<const std::uint16_t> slots_of(std::int32_t result, std::uint32_t cqe_flags) const;
  void give_back(std::uint32_t cqe_flags);

  // A result of this turn, and all of them as one command.
  void add(const Request& rq, std::int32_t result);
  void fill_commit(io_uring_sqe& sqe);
  // A commit's CQE: how many slots are the kernel's again, and how many of the rest it refused for good (then 1, the
  // first that was not taken). What is left over is part of this turn's results.
  struct Committed {
    std::uint32_t taken = 0;
    std::uint32_t refused = 0;
  };
  [[nodiscard]] Committed committed(std::int32_t result);
  [[nodiscard]] bool has_results() const { return end_ != begin_; }

 private:
  struct Commit {
    std::uint32_t begin = 0, count = 0;
  };
  explicit BatchIo(const BatchIoSpec& spec);
  [[nodiscard]] std::uint32_t element_bytes() const { return spec_.zero_copy ? 8 : sizeof(abi::BatchElement); }
  [[nodiscard]] std::byte* element(std::uint32_t i) const { return elements_ + std::size_t{i} * element_bytes(); }
  void put_element(std::uint32_t i, const Request& rq, std::int32_t result);
  void begin_results();
  void fill(io_uring_sqe& sqe, std::uint32_t op, std::uint32_t begin, std::uint32_t count) const;

  BatchIoSpec spec_;
  Mapping memory_;  // the ring of buffers, the buffers, the elements
  io_uring_buf_ring* ring_ = nullptr;
  std::byte* buffers_ = nullptr;
  std::byte* elements_ = nullptr;
  std::uint16_t group_ = 0;
  std::uint32_t begin_ = 0;  // of this turn's results
  std::uint32_t end_ = 0;
  std::vector<Commit> commits_;  // a ring of those whose CQE was not seen; a power of two above slots
  std::uint32_t oldest_ = 0;
  std::uint32_t newest_ = 0;  // one past
};

}  // namespace ublkd
