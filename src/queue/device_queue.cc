#include "queue/device_queue.h"

#include <algorithm>
#include <cerrno>

#include "abi/user_data.h"
#include "queue/hw_queue.h"

namespace ublkd {

namespace {

std::uint32_t sectors(std::uint64_t bytes) { return static_cast<std::uint32_t>(bytes >> sector_shift); }

struct KernelOp {
  Op op;
  std::uint8_t flags_kept;
};

// By kernel op number; 4 (write same) is never offered.
constexpr KernelOp kernel_op_table[] = {
    {Op::read, 0},    {Op::write, request_flag::fua}, {Op::flush, 0},
    {Op::discard, 0}, {Op::flush, 0},                 {Op::write_zeroes, request_flag::no_unmap | request_flag::fua},
};

}  // namespace

Result<std::unique_ptr<DeviceQueue>> DeviceQueue::make(HwQueue& hw, const DeviceQueueSpec& spec) {
  UBLKD_CHECK(spec.slots >= 1 && spec.slots <= depth_max && spec.backing_fds.size() <= backing_files_max);
  Result<Mapping> memory{};
  if (!spec.zero_copy)
    memory = Mapping::anonymous(std::size_t{spec.slots} * spec.geometry.io_bytes_max, "I/O buffers");
  if (!memory) return Unexpected(memory.error());
  Result<std::unique_ptr<BatchIo>> batch{};
  if (spec.batch)
    batch = BatchIo::make({.queue_id = spec.queue_id,
                           .slots = spec.slots,
                           .zero_copy = spec.zero_copy,
                           .first_buffer = spec.first_buffer});
  if (!batch) return Unexpected(batch.error());
  return std::unique_ptr<DeviceQueue>(new DeviceQueue(hw, spec, std::move(*memory), std::move(*batch)));
}

DeviceQueue::DeviceQueue(HwQueue& hw, const DeviceQueueSpec& spec, Mapping memory, std::unique_ptr<BatchIo> batch)
    : descs_(spec.descs),
      queue_id_(spec.queue_id),
      batch_(std::move(batch)),
      hw_(hw),
      spec_(spec),
      memory_(std::move(memory)) {
  const Geometry& g = spec.geometry;
  sectors_max_[abi::io_op_read] = sectors(g.io_bytes_max);
  sectors_max_[abi::io_op_write] = g.read_only ? 0 : sectors(g.io_bytes_max);
  sectors_max_[abi::io_op_discard] = g.read_only ? 0 : sectors(g.discard_bytes_max);
  sectors_max_[abi::io_op_write_zeroes] = g.read_only ? 0 : sectors(g.write_zeroes_bytes_max);
  set_size(g.size_bytes);
  block_sector_mask_ = sectors(g.logical_block_bytes) - 1;
  done_ = &hw.done_;
  now_ns_ = &hw.now_ns_;
  first_buffer_ = spec.first_buffer;
}

DeviceQueue::~DeviceQueue() { UBLKD_CHECK(slots_out_.get() == 0); }

void DeviceQueue::set_target(std::unique_ptr<TargetQueue> owned) {
  target_owned_ = std::move(owned);
  target = target_owned_.get();
}

std::int32_t DeviceQueue::read_descriptor(Request& rq) const {
  const abi::IoDesc desc = descs_[raw(rq.slot)];  // one copy: shared with the kernel
  const std::uint32_t op = desc.op_flags & abi::io_op_mask;
  if (op >= kernel_ops) return -EOPNOTSUPP;
  const unsigned flags = ((desc.op_flags & abi::io_f_fua) != 0 ? request_flag::fua : 0u) |
                         ((desc.op_flags & abi::io_f_nounmap) != 0 ? request_flag::no_unmap : 0u);
  rq.op = kernel_op_table[op].op;
  rq.flags = static_cast<std::uint8_t>(flags & kernel_op_table[op].flags_kept);
  if (op == abi::io_op_flush) {
    rq.offset_bytes = 0;
    rq.length_bytes = 0;
    return 0;
  }
  const std::uint32_t n = desc.nr_sectors;
  const std::uint64_t size_sectors = size_sectors_.load(std::memory_order_relaxed);
  if (n - 1 >= sectors_max_[op]) return sectors_max_[op] == 0 ? -EOPNOTSUPP : -EINVAL;
  if (n > size_sectors || desc.start_sector > size_sectors - n) return -EIO;
  if (((desc.start_sector | n) & block_sector_mask_) != 0) return -EINVAL;
  rq.offset_bytes = desc.start_sector << sector_shift;
  rq.length_bytes = n << sector_shift;
  if (op == abi::io_op_write) rq.dirty_bytes = std::max(rq.dirty_bytes, rq.length_bytes);
  return 0;
}

io_uring_sqe* DeviceQueue::sqe(Request& rq, std::uint8_t step) {
  io_uring_sqe* e = hw_.ring_of(*this).sqe();
  e->user_data = user_data(rq, step);
  return e;
}

io_uring_sqe* DeviceQueue::sqe_big(Request& rq, std::uint8_t step) {
  io_uring_sqe* e = hw_.ring_of(*this).sqe_big();
  e->user_data = user_data(rq, step);
  return e;
}

io_uring_sqe* DeviceQueue::sqe_unwatched() {
  io_uring_sqe* e = hw_.ring_->sqe();
  e->user_data = user_data::make(user_data::Kind::unwatched, 0, 0, 0);
  return e;
}

std::uint64_t DeviceQueue::user_data(const Request& rq, std::uint8_t step) const {
  return user_data::make(user_data::Kind::target, step, generation_, rq.index);
}

void DeviceQueue::wake_at(std::uint64_t deadline_ns) {
  wake_ns_ = std::min(wake_ns_, deadline_ns);
  if (on_timers_) return;
  on_timers_ = true;
  next_timer_ = hw_.timers_;
  hw_.timers_ = this;
}

}  // namespace ublkd
