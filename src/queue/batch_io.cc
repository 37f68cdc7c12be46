#include "queue/batch_io.h"

#include <bit>
#include <cstring>

#include "abi/io_uring_extra.h"
#include "ublkd/queue_port.h"

namespace ublkd {

namespace {

constexpr std::uint32_t buffer_bytes = BatchIo::slots_per_buffer * sizeof(std::uint16_t);
constexpr std::size_t ring_bytes = BatchIo::buffers * sizeof(io_uring_buf);
static_assert(ring_bytes <= page_bytes && std::has_single_bit(BatchIo::buffers));

std::uint16_t buffer_of(std::uint32_t cqe_flags) {
  return static_cast<std::uint16_t>(cqe_flags >> IORING_CQE_BUFFER_SHIFT);
}

}  // namespace

BatchIo::BatchIo(const BatchIoSpec& spec) : spec_(spec), commits_(std::bit_ceil(spec.slots + 1)) {}

Result<std::unique_ptr<BatchIo>> BatchIo::make(const BatchIoSpec& spec) {
  std::unique_ptr<BatchIo> batch(new BatchIo(spec));
  const std::size_t elements_bytes = std::size_t{3} * spec.slots * batch->element_bytes();
  auto memory = Mapping::populated(page_bytes + buffers * buffer_bytes + elements_bytes, "batch commands");
  if (!memory) return Unexpected(memory.error());
  batch->memory_ = std::move(*memory);
  batch->ring_ = reinterpret_cast<io_uring_buf_ring*>(batch->memory_.data());
  batch->buffers_ = batch->memory_.data() + page_bytes;
  batch->elements_ = batch->buffers_ + buffers * buffer_bytes;
  return batch;
}

Result<void> BatchIo::start(Ring& ring, std::uint16_t group) {
  group_ = group;
  std::memset(static_cast<void*>(ring_), 0, ring_bytes);
  for (std::uint32_t i = 0; i < buffers; ++i)
    io_uring_buf_ring_add(ring_, buffers_ + std::size_t{i} * buffer_bytes, buffer_bytes, static_cast<std::uint16_t>(i),
                          io_uring_buf_ring_mask(buffers), static_cast<int>(i));
  io_uring_buf_ring_advance(ring_, buffers);
  return ring.provide_buffers(ring_, buffers, group_);
}

void BatchIo::stop(Ring& ring) { ring.withdraw_buffers(group_); }

void BatchIo::put_element(std::uint32_t i, const Request& rq, std::int32_t result) {
  const abi::BatchElement e{raw(rq.slot), static_cast<std::uint16_t>(spec_.first_buffer + raw(rq.slot)), result,
                            reinterpret_cast<std::uint64_t>(rq.data)};
  std::memcpy(element(i), &e, element_bytes());
}

void BatchIo::fill(io_uring_sqe& sqe, std::uint32_t op, std::uint32_t begin, std::uint32_t count) const {
  sqe.opcode = IORING_OP_URING_CMD;
  sqe.cmd_op = op;
  sqe.addr = reinterpret_cast<std::uint64_t>(element(begin));
  sqe.len = count * element_bytes();
  const abi::BatchIo cmd{.q_id = spec_.queue_id,
                         .flags = spec_.zero_copy ? std::uint16_t{0} : abi::batch_f_has_buf_addr,
                         .nr_elem = static_cast<std::uint16_t>(count),
                         .elem_bytes = static_cast<std::uint8_t>(element_bytes())};
  std::memcpy(sqe.cmd, &cmd, sizeof cmd);
}

void BatchIo::fill_prep(io_uring_sqe& sqe, std::span<const Request> requests) {
  UBLKD_CHECK(requests.size() == spec_.slots);
  for (std::uint32_t i = 0; i < spec_.slots; ++i) put_element(i, requests[i], 0);
  fill(sqe, abi::u_io_prep_io_cmds, 0, spec_.slots);
  begin_ = end_ = spec_.slots;  // left as they are until the first wrap, long after the command
}

void BatchIo::fill_fetch(io_uring_sqe& sqe) const {
  sqe.opcode = IORING_OP_URING_CMD;
  sqe.cmd_op = abi::u_io_fetch_io_cmds;
  sqe.flags = IOSQE_BUFFER_SELECT;
  sqe.rw_flags = IORING_URING_CMD_MULTISHOT;
  sqe.buf_group = group_;
  const abi::BatchIo cmd{
      .q_id = spec_.queue_id, .nr_elem = slots_per_buffer, .elem_bytes = sizeof(std::uint16_t)};
  std::memcpy(sqe.cmd, &cmd, sizeof cmd);
}

std::span<const std::uint16_t> BatchIo::slots_of(std::int32_t result, std::uint32_t cqe_flags) const {
  const std::uint32_t buffer = buffer_of(cqe_flags);
  UBLKD_CHECK((cqe_flags & IORING_CQE_F_BUFFER) != 0 && buffer < buffers &&
              static_cast<std::uint32_t>(result) <= buffer_bytes);
  return {reinterpret_cast<const std::uint16_t*>(buffers_ + std::size_t{buffer} * buffer_bytes),
          static_cast<std::size_t>(result) / sizeof(std::uint16_t)};
}

void BatchIo::give_back(std::uint32_t cqe_flags) {
  const std::uint16_t buffer = buffer_of(cqe_flags);
  io_uring_buf_ring_add(ring_, buffers_ + std::size_t{buffer} * buffer_bytes, buffer_bytes, buffer,
                        io_uring_buf_ring_mask(buffers), 0);
  io_uring_buf_ring_advance(ring_, 1);
}

// `slots` elements in a row must fit behind begin_.
void BatchIo::begin_results() {
  if (end_ > 2 * spec_.slots) end_ = 0;
  begin_ = end_;
}

void BatchIo::add(const Request& rq, std::int32_t result) {
  if (end_ == begin_) begin_results();
  put_element(end_++, rq, result);
}

void BatchIo::fill_commit(io_uring_sqe& sqe) {
  fill(sqe, abi::u_io_commit_io_cmds, begin_, end_ - begin_);
  commits_[newest_++ & (commits_.size() - 1)] = {begin_, end_ - begin_};
  begin_ = end_;
}

BatchIo::Committed BatchIo::committed(std::int32_t result) {
  UBLKD_CHECK(oldest_ != newest_);
  const Commit commit = commits_[oldest_++ & (commits_.size() - 1)];
  const std::uint32_t bytes = element_bytes();
  if (result == static_cast<std::int32_t>(commit.count * bytes)) [[likely]]
    return {commit.count, 0};
  Committed done;
  done.taken = result > 0 ? static_cast<std::uint32_t>(result) / bytes : 0;
  UBLKD_CHECK(done.taken < commit.count);
  // The kernel stopped at an element that it refuses; it says which error only when that is the first.
  done.refused = result > 0 ? 0 : 1;
  for (std::uint32_t i = done.taken + done.refused; i < commit.count; ++i) {
    if (end_ == begin_) begin_results();
    std::memmove(element(end_++), element(commit.begin + i), bytes);
  }
  return done;
}

}  // namespace ublkd
