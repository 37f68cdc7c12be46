// HwQueue as the control thread sees it: start and end, messages, what is reserved, snapshots.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <new>
#include <system_error>
#include <utility>

#include "queue/hw_queue.h"

namespace ublkd {

HwQueue::HwQueue(const HwQueueSpec& spec)
    : spec_(spec),
      dispatcher_(spec.set_share == nullptr ? Dispatcher(spec.depth) : Dispatcher(*spec.set_share, spec.index)),
      slot_ranges_(spec.slots_total_max),
      file_ranges_(spec.files_max),
      buffer_ranges_(spec.register_buffers ? std::min(spec.slots_total_max, ring_buffers_max) : 0) {
  free_now_.set(spec.depth);
  expired_marks_.resize(spec.depth);
  dispatcher_.configure(spec.share);
}

Result<std::unique_ptr<HwQueue>> HwQueue::start(const HwQueueSpec& spec) {
  std::unique_ptr<HwQueue> hw;
  try {
    hw.reset(new HwQueue(spec));
  } catch (const std::bad_alloc&) {
    return fail_errno(ENOMEM, "make tag tables", spec.set_name);
  }
  auto memory = spec.map_memory(std::size_t{spec.slots_total_max} * sizeof(Request), "request table");
  if (!memory) return Unexpected(memory.error());
  hw->table_memory_ = std::move(*memory);
  hw->table_ = reinterpret_cast<Request*>(hw->table_memory_.data());
  hw->event_ = Fd(::eventfd(0, EFD_CLOEXEC));
  if (!hw->event_.valid()) return fail_errno(errno, "eventfd", spec.set_name);
  std::promise<Result<void>> stands;
  try {
    hw->thread_ = std::thread([&hw_ref = *hw, &stands] {
      hw_ref.thread_main([&stands](Result<void> r) { stands.set_value(std::move(r)); });
    });
  } catch (const std::system_error&) {  // EAGAIN, also when there is no memory for its stack
    return fail_errno(ENOMEM, "start queue thread", spec.set_name, "check the limits of memory and of tasks");
  }
  auto result = stands.get_future().get();
  if (!result) {
    hw->thread_.join();
    return Unexpected(result.error());
  }
  if (spec.set_share != nullptr) spec.set_share->attach_queue(spec.index, *hw);
  return hw;
}

HwQueue::~HwQueue() {
  if (!thread_.joinable()) return;
  post([this] { stopping_ = true; });
  thread_.join();
}

void HwQueue::post(std::function<void()> f) {
  auto* m = new Message{std::move(f)};
  m->next = inbox_.load(std::memory_order_relaxed);
  // Release pairs with the exchange in run_messages: the message is whole when it is seen.
  while (!inbox_.compare_exchange_weak(m->next, m, std::memory_order_release, std::memory_order_relaxed)) {
  }
  wake();
}

void HwQueue::wake() {
  const std::uint64_t one = 1;
  UBLKD_CHECK(::write(event_.get(), &one, sizeof one) == sizeof one);
}

Result<void> HwQueue::reserve(DeviceQueue& dq) {
  const auto slot = slot_ranges_.take(dq.spec_.slots);
  if (!slot)
    return fail(ErrorKind::limit, "reserve slots in tag set", spec_.set_name,
                std::to_string(dq.spec_.slots) + " slots asked, " + std::to_string(slot_ranges_.free()) + " of " +
                    std::to_string(slot_ranges_.size()) + " free (in one piece or not); raise slots_total_max");
  const auto files = static_cast<std::uint32_t>(dq.spec_.backing_fds.size() + (spec_.register_ublkc ? 1 : 0));
  const auto file = file_ranges_.take(files);
  dq.first_slot_ = *slot;
  dq.file_slots_ = file ? files : 0;  // a full table: plain descriptors serve
  dq.first_file_slot_ = file.value_or(0);
  reserve_pinned(dq);
  return {};
}

std::optional<std::uint32_t> HwQueue::take_buffers(std::uint32_t slots) {
  if (buffer_ranges_.size() == 0) return std::nullopt;
  return buffer_ranges_.take(slots);
}

void HwQueue::release(DeviceQueue& dq) {
  slot_ranges_.put(dq.first_slot_);
  if (dq.file_slots_ > 0) file_ranges_.put(dq.first_file_slot_);
  if (dq.pinned_slots_ > 0) put_buffers(dq.first_buffer_);
  pinned_slots_ -= dq.pinned_slots_;
}

void HwQueue::attach(DeviceQueue& dq, std::function<void(Result<void>)> done,
                     std::function<void(std::int32_t)> on_ended) {
  post([this, &dq, done = std::move(done), on_ended = std::move(on_ended)] {
    dq.on_ended_ = on_ended;
    done(attach_now(dq));
  });
}

void HwQueue::fail_device(DeviceQueue& dq) {
  post([this, &dq] { fail_now(dq); });
}

void HwQueue::configure(const ShareParams& share) {
  post([this, share] { dispatcher_.configure(share); });
}

void HwQueue::set_weight(DeviceQueue& dq, std::uint32_t weight) {
  post([this, &dq, weight] {
    if (is_attached(dq)) dispatcher_.set_weight(dq, weight);
  });
}

std::uint32_t HwQueue::end_expired(std::uint64_t now_ns) {
  std::uint32_t found = 0;
  dispatcher_.inflight().scan(now_ns, [&](Tag tag, std::uint32_t mark) {
    if (std::exchange(expired_marks_[raw(tag)], mark) == mark) return;
    ++found;
    post([this, tag, mark] { end_if_still(tag, mark); });
  });
  return found;
}

HwQueue::Snapshot HwQueue::snapshot() const {
  return {spec_.depth,      free_now_.get(), waiting_now_.get(), thread_id_.get(),
          overflows_.get(), devices_.get(),  turns_.get(),       ring_flags_,
          io_flusher_.load(std::memory_order_relaxed)};
}

}  // namespace ublkd
