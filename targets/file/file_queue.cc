#include "targets/file/file_queue.h"

#include <fcntl.h>
#include <liburing.h>
#include <linux/fs.h>

#include <algorithm>
#include <cerrno>

#include "abi/io_uring_extra.h"

namespace ublkd {

namespace {

std::uint64_t& moved_bytes(Request& rq) {
  return rq.scratch[0];
}
std::uint64_t moved_bytes(const Request& rq) {
  return rq.scratch[0];
}
std::uint64_t& idle_parts(Request& rq) {
  return rq.scratch[1];
}
std::uint64_t& step_in_ring(Request& rq) {
  return rq.scratch[2];
}

std::uint32_t rest_bytes(const Request& rq) {
  return rq.length_bytes - static_cast<std::uint32_t>(moved_bytes(rq));
}

bool is_transfer(FileStep step) {
  return step == FileStep::transfer || step == FileStep::write_zeroes;
}

bool transient(std::int32_t error) {
  return error == -EAGAIN || error == -EINTR;
}

// What a request ends with. EAGAIN and the like would make the block layer try for ever, and
// ECANCELED means nothing to it.
std::int32_t final_error(std::int32_t error) {
  return transient(error) || error == -ECANCELED ? -EIO : error;
}

}  // namespace

void FileQueue::queue_rqs(RequestList& list) {
  while (!list.empty()) start(list.pop_front());
}

void FileQueue::start(Request& rq) {
  moved_bytes(rq) = 0;
  idle_parts(rq) = 0;
  switch (rq.op) {
    case Op::read:
    case Op::write: return submit(rq, FileStep::transfer);
    case Op::flush: return submit(rq, FileStep::flush);
    case Op::discard: return submit(rq, FileStep::discard);
    case Op::write_zeroes: return submit(rq, zero_step(rq));
  }
  UBLKD_CHECK(false);
}

FileStep FileQueue::zero_step(const Request& rq) const {
  if ((rq.flags & request_flag::no_unmap) != 0)
    return zero_range_refused_ ? FileStep::write_zeroes : FileStep::zero_range;
  return punch_hole_refused_ ? FileStep::write_zeroes : FileStep::punch_hole;
}

void FileQueue::submit(Request& rq, FileStep step) {
  step_in_ring(rq) = static_cast<std::uint64_t>(step);
  const FileRef file = port_.file(0);
  io_uring_sqe& sqe = *port_.sqe(rq, static_cast<std::uint8_t>(step));
  sqe.fd = file.fd;
  sqe.flags = file.sqe_flags;
  switch (step) {
    case FileStep::transfer: return fill_transfer(sqe, rq);
    case FileStep::write_zeroes: return fill_zeroes(sqe, rq);
    case FileStep::discard: return fill_discard(sqe, rq);
    case FileStep::punch_hole: return fill_fallocate(sqe, rq, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
    case FileStep::zero_range: return fill_fallocate(sqe, rq, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE);
    case FileStep::flush:
      sqe.opcode = IORING_OP_FSYNC;
      sqe.fsync_flags = IORING_FSYNC_DATASYNC;
      return;
  }
  UBLKD_CHECK(false);
}

void FileQueue::fill_transfer(io_uring_sqe& sqe, const Request& rq) const {
  if (port_.data_is_registered(rq)) {
    sqe.opcode = rq.op == Op::read ? IORING_OP_READ_FIXED : IORING_OP_WRITE_FIXED;
    sqe.buf_index = port_.buffer(rq);
  } else {
    sqe.opcode = rq.op == Op::read ? IORING_OP_READ : IORING_OP_WRITE;
  }
  sqe.off = service_.begin_bytes + rq.offset_bytes + moved_bytes(rq);
  sqe.addr = reinterpret_cast<std::uintptr_t>(rq.data + moved_bytes(rq));
  sqe.len = rest_bytes(rq);
  if (rq.op == Op::write && (rq.flags & request_flag::fua) != 0) sqe.rw_flags = RWF_DSYNC;
}

void FileQueue::fill_zeroes(io_uring_sqe& sqe, const Request& rq) const {
  sqe.opcode = IORING_OP_WRITE;
  sqe.off = service_.begin_bytes + rq.offset_bytes + moved_bytes(rq);
  sqe.addr = reinterpret_cast<std::uintptr_t>(service_.zeroes.data());
  sqe.len = static_cast<std::uint32_t>(std::min<std::size_t>(service_.zeroes.size(), rest_bytes(rq)));
}

void FileQueue::fill_discard(io_uring_sqe& sqe, const Request& rq) const {
  if (service_.discard == DiscardMethod::punch_hole)
    return fill_fallocate(sqe, rq, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
  sqe.opcode = IORING_OP_URING_CMD;
  sqe.cmd_op = BLOCK_URING_CMD_DISCARD;
  sqe.addr = service_.begin_bytes + rq.offset_bytes;
  sqe.addr3 = rq.length_bytes;
}

void FileQueue::fill_fallocate(io_uring_sqe& sqe, const Request& rq, int mode) const {
  sqe.opcode = IORING_OP_FALLOCATE;
  sqe.off = service_.begin_bytes + rq.offset_bytes;
  sqe.addr = rq.length_bytes;
  sqe.len = static_cast<std::uint32_t>(mode);
}

void FileQueue::on_cqe(Request& rq, std::uint8_t step_number, std::int32_t result) {
  const auto step = static_cast<FileStep>(step_number);
  UBLKD_CHECK(step_in_ring(rq) == step_number);
  if (result < 0) return failed(rq, step, result);
  if (is_transfer(step)) return moved(rq, step, static_cast<std::uint32_t>(result));
  finish(rq, step);
}

void FileQueue::moved(Request& rq, FileStep step, std::uint32_t bytes) {
  if (bytes == 0 || bytes > rest_bytes(rq)) return port_.complete(rq, -EIO);
  const std::uint64_t before_bytes = moved_bytes(rq);
  std::uint64_t now_bytes = before_bytes + bytes;
  if (now_bytes == rq.length_bytes) return finish(rq, step);
  // Direct I/O cannot go on from inside a block: the part that is begun is moved again as a whole.
  if (service_.direct) now_bytes -= now_bytes % service_.block_bytes;
  moved_bytes(rq) = now_bytes;
  if (now_bytes > before_bytes) idle_parts(rq) = 0;
  again(rq, step);
}

void FileQueue::failed(Request& rq, FileStep step, std::int32_t error) {
  if (transient(error)) return again(rq, step);
  if (error == -EOPNOTSUPP && (step == FileStep::punch_hole || step == FileStep::zero_range)) {
    (step == FileStep::punch_hole ? punch_hole_refused_ : zero_range_refused_) = true;
    return again(rq, FileStep::write_zeroes);
  }
  port_.complete(rq, final_error(error));
}

void FileQueue::again(Request& rq, FileStep step) {
  if (rq.aborting != 0 || idle_parts(rq) >= idle_parts_max) return port_.complete(rq, -EIO);
  ++idle_parts(rq);
  submit(rq, step);
}

void FileQueue::finish(Request& rq, FileStep step) {
  const bool zeroed = rq.op == Op::write_zeroes && step != FileStep::flush;
  if (!zeroed || (rq.flags & request_flag::fua) == 0) return port_.complete(rq, 0);
  idle_parts(rq) = 0;
  again(rq, FileStep::flush);  // a range has no RWF_DSYNC
}

void FileQueue::abort(Request& rq) {
  rq.aborting = 1;
  const auto step = static_cast<std::uint8_t>(step_in_ring(rq));
  const std::uint64_t name = port_.user_data(rq, step);
  io_uring_sqe& sqe = *port_.sqe_unwatched();
  sqe.opcode = IORING_OP_ASYNC_CANCEL;
  sqe.fd = -1;
  sqe.addr = name;
}

}  // namespace ublkd
