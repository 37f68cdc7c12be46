// A live device follows the size of its backing.
#include "base/log.h"
#include "control/device.h"
#include "control/device_lane.h"

namespace ublkd {

void Device::attend() {
  const std::uint64_t size = target_->attend() / geometry_.logical_block_bytes * geometry_.logical_block_bytes;
  if (size == geometry_.size_bytes || size == 0 || size == size_refused_ || resizing_) return;
  resizing_ = true;
  resize_ended_ = std::make_unique<Event>(*env_.io);
  asio::co_spawn(*env_.io, follow_size(size), [this](std::exception_ptr e) {
    UBLKD_CHECK(e == nullptr);
    resizing_ = false;
    resize_ended_->notify();
  });
}

// No request reaches beyond what the queues allow: they learn of more before the kernel does, and of less after it.
Task<void> Device::follow_size(std::uint64_t size) {
  size_refused_ = size;  // until it is done: one try for each size
  if ((env_.features & abi::f_update_size) == 0) {
    log_warning("device {}: its backing has {} bytes now, but this kernel cannot resize a device in use (since Linux "
                "6.16); delete and add it",
                config_.name, size);
    co_return;
  }
  const std::uint64_t before = geometry_.size_bytes;
  if (size > before) set_queue_sizes(size);
  const auto command = env_.ring->send({.name = "UPDATE_SIZE",
                                        .op = abi::u_cmd_update_size,
                                        .device_id = info_.dev_id,
                                        .data = size >> sector_shift});
  const auto result = co_await command->wait(control_deadline);
  if (!result) {
    log_error("device {}: {}; it keeps its {} bytes", config_.name, result.error().text(), before);
    co_return;
  }
  set_queue_sizes(size);
  geometry_.size_bytes = size;
  size_refused_ = 0;
  log_notice("device {}: {} bytes now, as its backing; it had {}", config_.name, size, before);
}

void Device::set_queue_sizes(std::uint64_t size) {
  for (const auto& lane : lanes_) lane->dq->set_size(size);
}

}  // namespace ublkd
