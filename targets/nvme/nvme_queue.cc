#include "targets/nvme/nvme_queue.h"

#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "abi/io_uring_extra.h"
#include "ublkd/segments.h"

namespace ublkd {

namespace {

constexpr std::uint64_t ns_per_ms = 1'000'000;

// scratch[0].
struct Progress {
  std::uint32_t bytes;   // done
  std::uint16_t tries;   // of the piece in hand, because the drive said so
  std::uint8_t waits;    // in a row, for the way to the drive
  std::uint8_t waiting;  // on the list of those that wait
};
static_assert(sizeof(Progress) == sizeof(std::uint64_t));

Progress progress(const Request& rq) {
  Progress p;
  std::memcpy(&p, &rq.scratch[0], sizeof p);
  return p;
}
void set_progress(Request& rq, const Progress& p) { std::memcpy(&rq.scratch[0], &p, sizeof p); }

std::uint64_t& interrupted_ns(Request& rq) { return rq.scratch[1]; }  // 0: it is not
std::uint64_t& due_ns(Request& rq) { return rq.scratch[2]; }

// Puts the range where the drive reads it while the command runs; a request stays where it is. Returns its address.
std::uint64_t place_range(Request& rq, NvmeExtent extent) {
  const NvmeRange range{0, extent.blocks, extent.lba};
  std::memcpy(&rq.scratch[2], &range, sizeof range);
  return reinterpret_cast<std::uint64_t>(&rq.scratch[2]);
}

NvmeOpcode opcode_of(Op op) {
  switch (op) {
    case Op::read: return NvmeOpcode::read;
    case Op::write: return NvmeOpcode::write;
    case Op::flush: return NvmeOpcode::flush;
    case Op::discard: return NvmeOpcode::dataset;
    case Op::write_zeroes: return NvmeOpcode::write_zeroes;
  }
  UBLKD_CHECK(false);
}

std::uint32_t clamped(std::uint64_t bytes) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

void NvmeQueue::queue_rqs(RequestList& list) {
  while (!list.empty()) {
    Request& rq = list.pop_front();
    rq.scratch[0] = rq.scratch[1] = 0;
    send(rq);
  }
}

std::uint64_t NvmeQueue::lba_of(const Request& rq) const {
  return service_.begin_lba + ((rq.offset_bytes + progress(rq).bytes) >> service_.lba_shift);
}

// Memory of ours lies in pages that may be anywhere, so each one touched is a segment; how the memory behind a
// registered buffer lies is the kernel's knowledge, which splits by the device's limits.
std::uint32_t NvmeQueue::transfer_piece_bytes(const Request& rq, std::uint32_t rest) const {
  const std::uint64_t counted = std::uint64_t{nvme_blocks_max} << service_.lba_shift;
  std::uint64_t bytes = std::min<std::uint64_t>({rest, service_.transfer_bytes_max, counted});
  if (rq.data == nullptr || service_.segments_max == 0) return clamped(bytes);
  const std::uint64_t in_page = QueuePort::address(rq, progress(rq).bytes) & (page_bytes - 1);
  if (segments_touched(in_page, bytes, page_shift) > service_.segments_max)
    bytes = ((std::uint64_t{service_.segments_max} << page_shift) - in_page) & ~(counted / nvme_blocks_max - 1);
  return clamped(bytes);
}

std::uint32_t NvmeQueue::piece_bytes(const Request& rq) const {
  const std::uint32_t rest = rq.length_bytes - progress(rq).bytes;
  switch (rq.op) {
    case Op::read:
    case Op::write: return transfer_piece_bytes(rq, rest);
    case Op::discard: return std::min(rest, clamped(std::uint64_t{service_.discard_blocks_max} << service_.lba_shift));
    case Op::write_zeroes:
      return std::min(rest, clamped(std::uint64_t{service_.zero_blocks_max} << service_.lba_shift));
    case Op::flush: return 0;
  }
  UBLKD_CHECK(false);
}

void NvmeQueue::send(Request& rq) {
  if (is_gone()) return port_.complete(rq, -ENODEV);
  io_uring_sqe& sqe = *port_.sqe_big(rq, 0);
  const FileRef file = port_.file(0);
  sqe.opcode = IORING_OP_URING_CMD;
  sqe.fd = file.fd;
  sqe.flags = file.sqe_flags;
  sqe.cmd_op = NVME_URING_CMD_IO;
  nvme_uring_cmd cmd{};
  fill(cmd, sqe, rq);
  std::memcpy(sqe.cmd, &cmd, sizeof cmd);
}

void NvmeQueue::fill(nvme_uring_cmd& cmd, io_uring_sqe& sqe, Request& rq) {
  cmd.nsid = service_.nsid;
  const std::uint32_t bytes = piece_bytes(rq);
  const NvmeExtent extent{lba_of(rq), bytes >> service_.lba_shift};
  const NvmeDurable durable = (rq.flags & request_flag::fua) != 0 ? NvmeDurable::yes : NvmeDurable::no;
  switch (rq.op) {
    case Op::read:
    case Op::write:
      if (port_.data_is_registered(rq)) {
        sqe.rw_flags = IORING_URING_CMD_FIXED;
        sqe.buf_index = port_.buffer(rq);
      }
      return fill_transfer(cmd, opcode_of(rq.op), extent, {QueuePort::address(rq, progress(rq).bytes), bytes}, durable);
    case Op::flush: return fill_flush(cmd);
    case Op::discard: return fill_deallocate(cmd, place_range(rq, extent));
    case Op::write_zeroes:
      return fill_write_zeroes(
          cmd, extent, durable,
          (rq.flags & request_flag::no_unmap) != 0 ? NvmeDeallocate::no : service_.zeroes);
  }
}

void NvmeQueue::on_cqe(Request& rq, std::uint8_t, std::int32_t result) {
  if (result == 0) [[likely]]
    done(rq);
  else
    failed(rq, result);
}

void NvmeQueue::done(Request& rq) {
  Progress p = progress(rq);
  p.bytes += piece_bytes(rq);
  if (p.bytes == rq.length_bytes) [[likely]]
    return port_.complete(rq, 0);
  if (rq.aborting != 0) return port_.complete(rq, -EIO);
  p.tries = 0;
  p.waits = 0;
  set_progress(rq, p);
  interrupted_ns(rq) = 0;
  send(rq);
}

void NvmeQueue::failed(Request& rq, std::int32_t result) {
  const NvmeStatus status(result);
  events_.record(result, opcode_of(rq.op), lba_of(rq));
  NvmeNext next = rq.aborting != 0 || is_gone() ? NvmeNext::fail : nvme_next(status, service_.single_path);
  Progress p = progress(rq);
  if (next == NvmeNext::again) {
    if (p.tries < service_.retries_max) {
      ++p.tries;
      set_progress(rq, p);
      events_.retried.add(1);
      const std::uint32_t delay = status.retry_delay();
      const std::uint64_t asked_ns = delay == 0 ? 0 : service_.retry_delay_ms[delay - 1] * ns_per_ms;
      const std::uint64_t ns = std::min(asked_ns, service_.retry_time_ns);  // a drive may ask for 109 minutes
      return ns == 0 ? send(rq) : wait(rq, ns);
    }
  } else if (next == NvmeNext::wait && wait_for_path(rq)) {
    return;
  }
  port_.complete(rq, status.error());
}

bool NvmeQueue::wait_for_path(Request& rq) {
  const std::uint64_t now = port_.now_ns();
  if (interrupted_ns(rq) == 0) interrupted_ns(rq) = now;
  if (now - interrupted_ns(rq) >= service_.retry_time_ns) return false;
  Progress p = progress(rq);
  const std::uint64_t ns = std::min(wait_first_ns << p.waits, wait_longest_ns);
  if (ns < wait_longest_ns) ++p.waits;
  set_progress(rq, p);
  events_.retried.add(1);
  events_.waited.add(1);
  wait(rq, ns);
  return true;
}

void NvmeQueue::wait(Request& rq, std::uint64_t ns) {
  Progress p = progress(rq);
  p.waiting = 1;
  set_progress(rq, p);
  due_ns(rq) = port_.now_ns() + ns;
  wake_for(rq);
  waiting_.push_back(rq);
}

void NvmeQueue::wake_for(Request& rq) { port_.wake_at(std::min(due_ns(rq), port_.now_ns() + look_ns)); }

void NvmeQueue::on_deadline() {
  RequestList all = waiting_;
  waiting_.clear();
  while (!all.empty()) {
    Request& rq = all.pop_front();
    if (due_ns(rq) > port_.now_ns() && !is_gone()) {
      wake_for(rq);
      waiting_.push_back(rq);
      continue;
    }
    Progress p = progress(rq);
    p.waiting = 0;
    set_progress(rq, p);
    send(rq);
  }
}

// The driver cannot cancel a command: one that is at the drive ends by itself, or by the driver's own timeout.
void NvmeQueue::abort(Request& rq) {
  if (progress(rq).waiting == 0) return;
  RequestList rest;
  while (!waiting_.empty()) {
    Request& other = waiting_.pop_front();
    if (&other != &rq) rest.push_back(other);
  }
  waiting_ = rest;
  port_.complete(rq, -EIO);
}

}  // namespace ublkd
