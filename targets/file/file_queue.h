// FileQueue: the data path of a file target on one hardware queue.
//
// Each request has at most one SQE in the ring. A part that moved less than asked is followed by a
// part for the rest; the request ends when all is moved, or with an error:
//
//   read, write:  transfer ... transfer -> done
//   flush:        flush -> done
//   discard:      discard -> done
//   write_zeroes: punch_hole or zero_range -> done       (EOPNOTSUPP: write_zeroes from now on)
//                 write_zeroes ... write_zeroes -> done  (then flush, when it is FUA)
//
// Thread rule: its hardware queue's thread.
// Invariants:
//   1. scratch[0]: bytes moved. scratch[1]: parts in a row that moved nothing. scratch[2]: the step
//      whose SQE is in the ring, which is what abort cancels.
//   2. A request ends with 0 only when all its bytes were moved. No bytes at all is the end of the
//      backing, -EIO (a read would hand out old memory).
//   3. After aborting is set no further part is started.
#pragma once

#include "targets/file/range_support.h"
#include "ublkd/target.h"

namespace ublkd {

enum class FileStep : std::uint8_t { transfer, flush, discard, punch_hole, zero_range, write_zeroes };

// What all queues of one file target share; constant.
struct FileService {
  std::uint64_t begin_bytes = 0;
  std::uint32_t block_bytes = 512;
  bool direct = false;
  DiscardMethod discard = DiscardMethod::none;
  std::span<const std::byte> zeroes;  // a whole number of blocks
};

class FileQueue final : public TargetQueue {
 public:
  // Parts in a row that move nothing (interrupted, no resources, less than a direct I/O block).
  static constexpr std::uint64_t idle_parts_max = 8;

  FileQueue(QueuePort& port, const FileService& service) : port_(port), service_(service) {}

  void queue_rqs(RequestList& list) override;
  void on_cqe(Request& rq, std::uint8_t step, std::int32_t result) override;
  void abort(Request& rq) override;

 private:
  void start(Request& rq);
  // Puts the SQE of this step for what is left of rq into the ring.
  void submit(Request& rq, FileStep step);
  void fill_transfer(io_uring_sqe& sqe, const Request& rq) const;
  void fill_zeroes(io_uring_sqe& sqe, const Request& rq) const;
  void fill_discard(io_uring_sqe& sqe, const Request& rq) const;
  void fill_fallocate(io_uring_sqe& sqe, const Request& rq, int mode) const;
  // The step that zeroes rq, by what the backing has refused so far.
  [[nodiscard]] FileStep zero_step(const Request& rq) const;

  // A part of a transfer moved so many bytes.
  void moved(Request& rq, FileStep step, std::uint32_t bytes);
  // A step ended with an error.
  void failed(Request& rq, FileStep step, std::int32_t error);
  // Another part, unless too many moved nothing or rq is to be aborted.
  void again(Request& rq, FileStep step);
  // All bytes are where they belong.
  void finish(Request& rq, FileStep step);

  QueuePort& port_;
  const FileService service_;
  bool punch_hole_refused_ = false;
  bool zero_range_refused_ = false;
};

}  // namespace ublkd
