// What a hardware queue's ring holds registered for a device: its files, and the first page of each slot.
//
// One page is what small requests need, where finding and pinning a page is a tenth of the request's cost; longer ones
// go by address. A page that is registered stays in memory, so only devices that gain from it have them.
#include <algorithm>
#include <array>

#include "base/log.h"
#include "queue/hw_queue.h"

namespace ublkd {

namespace {

constexpr std::size_t buffers_at_once = 64;

}  // namespace

Result<void> HwQueue::register_files(DeviceQueue& dq) {
  dq.ublkc_ = {dq.spec_.ublkc_fd, 0};
  for (std::size_t i = 0; i < dq.spec_.backing_fds.size(); ++i) dq.files_[i] = {dq.spec_.backing_fds[i], 0};
  if (dq.file_slots_ == 0 || !ring_->has_files()) return {};
  std::uint32_t slot = dq.first_file_slot_;
  const auto use_slot = [&](FileRef& ref) -> Result<void> {
    auto set = ring_->set_file(slot, ref.fd);
    if (!set) return set;
    ref = {static_cast<std::int32_t>(slot++), IOSQE_FIXED_FILE};
    return {};
  };
  for (std::size_t i = 0; i < dq.spec_.backing_fds.size() && !dq.spec_.geometry.polled; ++i)  // the other ring's
    if (auto r = use_slot(dq.files_[i]); !r) return r;
  if (spec_.register_ublkc)
    if (auto r = use_slot(dq.ublkc_); !r) return r;
  return {};
}

void HwQueue::drop_files(DeviceQueue& dq) {
  if (!ring_->has_files()) return;
  for (std::uint32_t i = 0; i < dq.file_slots_; ++i)
    if (auto r = ring_->set_file(dq.first_file_slot_ + i, -1); !r) log_error("{}", r.error().text());
}

// Touches the pages here, so that the queue's thread does not wait for them.
void HwQueue::reserve_pinned(DeviceQueue& dq) {
  dq.pinned_slots_ = 0;
  if (dq.spec_.zero_copy || dq.spec_.geometry.polled || !dq.spec_.geometry.pins_data) return;
  if (dq.spec_.slots > pinned_slots_max - pinned_slots_) return;  // plain addresses serve
  const auto first = take_buffers(dq.spec_.slots);
  if (!first) return;
  dq.first_buffer_ = *first;
  dq.pinned_slots_ = dq.spec_.slots;
  pinned_slots_ += dq.spec_.slots;
  volatile std::byte* memory = dq.memory_.data();
  for (std::size_t at = 0; at < dq.memory_.size(); at += dq.spec_.geometry.io_bytes_max) memory[at] = std::byte{0};
}

void HwQueue::register_buffers(DeviceQueue& dq) {
  if (dq.spec_.zero_copy) {  // the kernel registers each request's pages before it hands the request over
    dq.registered_bytes_ = ~std::uint32_t{0};
    return;
  }
  dq.registered_bytes_ = 0;
  if (dq.pinned_slots_ == 0 || !ring_->has_buffers()) return;
  std::array<iovec, buffers_at_once> pages;
  for (std::uint32_t slot = 0; slot < dq.pinned_slots_;) {
    std::uint32_t n = 0;
    for (; n < pages.size() && slot + n < dq.pinned_slots_; ++n)
      pages[n] = {dq.memory_.data() + std::size_t{slot + n} * dq.spec_.geometry.io_bytes_max, page_bytes};
    if (auto r = ring_->set_buffers(dq.first_buffer_ + slot, {pages.data(), n}); !r) {
      log_notice("{}; plain addresses serve", r.error().text());
      drop_buffers(dq);
      return;
    }
    slot += n;
  }
  dq.registered_bytes_ = page_bytes;
}

void HwQueue::drop_buffers(DeviceQueue& dq) {
  dq.registered_bytes_ = 0;
  if (!ring_->has_buffers()) return;
  static constexpr std::array<iovec, buffers_at_once> none{};
  for (std::uint32_t slot = 0; slot < dq.pinned_slots_; slot += buffers_at_once) {
    const std::size_t n = std::min<std::size_t>(buffers_at_once, dq.pinned_slots_ - slot);
    if (auto r = ring_->set_buffers(dq.first_buffer_ + slot, {none.data(), n}); !r) log_error("{}", r.error().text());
  }
}

}  // namespace ublkd
