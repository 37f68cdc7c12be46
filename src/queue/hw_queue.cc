#include "queue/hw_queue.h"

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <new>

#include "abi/user_data.h"
#include "base/clock.h"
#include "base/log.h"

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

namespace ublkd {

namespace ud = user_data;

struct HwQueue::Message {
  std::function<void()> run;
  Message* next = nullptr;
};

// --- control thread ---------------------------------------------------------------------------

HwQueue::HwQueue(const HwQueueSpec& spec)
    : spec_(spec),
      dispatcher_(spec.depth),
      slot_ranges_(spec.slots_total_max),
      file_ranges_(spec.files_max),
      buffer_ranges_(spec.register_buffers ? std::min(spec.slots_total_max, registered_slots_max) : 0) {
  free_now_.set(spec.depth);
}

Result<std::unique_ptr<HwQueue>> HwQueue::start(const HwQueueSpec& spec) {
  std::unique_ptr<HwQueue> hw(new HwQueue(spec));
  auto memory = Mapping::anonymous(std::size_t{spec.slots_total_max} * sizeof(Request), "request table");
  if (!memory) return Unexpected(memory.error());
  hw->table_memory_ = std::move(*memory);
  hw->table_ = reinterpret_cast<Request*>(hw->table_memory_.data());
  hw->event_ = Fd(::eventfd(0, EFD_CLOEXEC));
  if (!hw->event_.valid()) return fail_errno(errno, "eventfd", spec.set_name);
  std::promise<Result<void>> stands;
  hw->thread_ = std::thread([&hw_ref = *hw, &stands] {
    hw_ref.thread_main([&stands](Result<void> r) { stands.set_value(std::move(r)); });
  });
  auto result = stands.get_future().get();
  if (!result) {
    hw->thread_.join();
    return Unexpected(result.error());
  }
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
  reserve_buffers(dq);
  return {};
}

void HwQueue::release(DeviceQueue& dq) {
  slot_ranges_.put(dq.first_slot_);
  if (dq.file_slots_ > 0) file_ranges_.put(dq.first_file_slot_);
  if (dq.buffer_slots_ > 0) buffer_ranges_.put(dq.first_buffer_);
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

HwQueue::Snapshot HwQueue::snapshot() const {
  return {spec_.depth,      free_now_.get(), waiting_now_.get(), thread_id_.get(),
          overflows_.get(), devices_.get(),  turns_.get(),       ring_flags_,
          io_flusher_.load(std::memory_order_relaxed)};
}

// --- the queue's thread: set-up ---------------------------------------------------------------

void HwQueue::thread_main(std::function<void(Result<void>)> ready) {
  auto result = set_up();
  const bool stands = result.has_value();
  ready(std::move(result));
  while (stands && !stopping_) {
    wait();
    arrive();
    dispatch();
    commit();
  }
  ring_.reset();  // by the thread that made it
}

Result<void> HwQueue::set_up() {
  // "ublkd-" is what tools look for; the kernel keeps 15 characters.
  const std::string suffix = "/" + std::to_string(spec_.index);
  ::pthread_setname_np(::pthread_self(), (("ublkd-" + spec_.set_name).substr(0, 15 - suffix.size()) + suffix).c_str());
  thread_id_.set(static_cast<std::uint32_t>(::gettid()));
  // We are in the path of write-back: our own allocations must not wait for it.
  io_flusher_.store(::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) == 0, std::memory_order_relaxed);
  ::prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  if (!spec_.cpus.empty()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (std::uint32_t cpu : spec_.cpus) CPU_SET(cpu, &set);
    if (::sched_setaffinity(0, sizeof set, &set) != 0)
      return fail_errno(errno, "pin hardware queue to its CPUs", spec_.set_name, "check the tag set's cpus");
  }
  constexpr std::uint32_t slack = 256;          // messages, cancels
  constexpr std::uint32_t sqes_per_request = 2; // a target's command and its cancel
  const std::uint32_t outstanding = spec_.slots_total_max + spec_.depth * sqes_per_request + slack;
  constexpr std::uint32_t sq_entries_wanted = 1024;
  auto ring = Ring::make({.sq_entries = std::min(sq_entries_wanted, outstanding),
                          .cq_entries = outstanding,
                          .files = spec_.files_max,
                          .buffers = buffer_ranges_.size()});
  if (!ring) return Unexpected(ring.error());
  ring_ = std::make_unique<Ring>(std::move(*ring));
  ring_flags_ = ring_->setup_flag_names();
  arm_inbox();
  return {};
}

// --- the queue's thread: a turn ---------------------------------------------------------------

void HwQueue::wait() {
  std::uint64_t deadline = time_never_ns;
  for (DeviceQueue* dq = timers_; dq != nullptr; dq = dq->next_timer_) deadline = std::min(deadline, dq->wake_ns_);
  deadline = std::min(deadline, dispatcher_.retry_deadline_ns());
  if (deadline != time_never_ns) now_ns_ = monotonic_ns();
  const int rc = ring_->enter(1, now_ns_, deadline);
  UBLKD_CHECK(rc == 0);
  now_ns_ = monotonic_ns();
  ++turn_;
  turns_.add(1);
}

void HwQueue::arrive() {
  ring_->for_each_cqe([this](const io_uring_cqe& cqe) { on_cqe(cqe.user_data, cqe.res); });
  if (timers_ != nullptr) run_timers();
}

void HwQueue::on_cqe(std::uint64_t word, std::int32_t result) {
  Request& rq = table_[ud::index(word)];
  if (ud::upper(word) == rq.generation) [[likely]]
    on_ublk_cqe(rq, result);
  else
    on_other_cqe(word, result);
}

void HwQueue::on_ublk_cqe(Request& rq, std::int32_t result) {
  auto& dq = static_cast<DeviceQueue&>(*static_cast<DeviceState*>(rq.owner));
  if (result == abi::io_res_ok) [[likely]]
    arrive_request(dq, rq);
  else
    slot_ended(dq, result);
}

void HwQueue::on_other_cqe(std::uint64_t word, std::int32_t result) {
  switch (ud::kind(word)) {
    case ud::Kind::target: {
      Request& rq = table_[ud::index(word)];
      if (rq.generation != ud::generation(word)) return;  // its device is gone
      auto* device = static_cast<DeviceState*>(rq.owner);
      device->target->on_cqe(rq, ud::step(word), result);
      return;
    }
    case ud::Kind::inbox:
      run_messages();
      arm_inbox();
      return;
    case ud::Kind::ublk:       // its device is gone
    case ud::Kind::unwatched:
      return;
  }
}

void HwQueue::arrive_request(DeviceQueue& dq, Request& rq) {
  UBLKD_CHECK(rq.state == RequestState::idle);
  const std::int32_t error = dq.read_descriptor(rq);
  rq.arrived_ns = now_ns_;
  rq.order = turn_;
  if (error == 0 && !dq.failing_) [[likely]] {
    rq.state = RequestState::arrived;
    dispatcher_.arrive(dq, rq);
    return;
  }
  rq.state = RequestState::done;
  rq.error = error != 0 ? error : -EIO;
  reaped_.push_back(rq);
}

void HwQueue::run_timers() {
  DeviceQueue* dq = std::exchange(timers_, nullptr);
  while (dq != nullptr) {
    DeviceQueue* next = dq->next_timer_;
    dq->on_timers_ = false;
    const std::uint64_t at = std::exchange(dq->wake_ns_, time_never_ns);
    if (at <= now_ns_)
      dq->target->on_deadline();
    else
      dq->wake_at(at);
    dq = next;
  }
}

void HwQueue::dispatch() {
  dispatcher_.dispatch(done_, reaped_, now_ns_);
  free_now_.set(dispatcher_.pool().free());
  waiting_now_.set(dispatcher_.waiting());
}

void HwQueue::commit() {
  for (Request* rq = reaped_.front(); rq != nullptr;) {
    Request* next = rq->next;
    auto& dq = static_cast<DeviceQueue&>(*static_cast<DeviceState*>(rq->owner));
    OpCounters& ops = dq.ops_[static_cast<std::size_t>(rq->op)];
    ops.count.add(1);
    std::int32_t result = rq->error;
    if (result == 0) [[likely]] {
      ops.bytes.add(rq->length_bytes);
      // The full byte count; 0 for range operations, whose length can exceed the 32-bit result.
      result = rq->op <= Op::write ? static_cast<std::int32_t>(rq->length_bytes) : 0;
    } else {
      ops.errors.add(1);
    }
    rq->state = RequestState::idle;
    rq->next = nullptr;
    commit_request(dq, *rq, result, abi::u_io_commit_and_fetch_req);
    rq = next;
  }
  reaped_.clear();
}

void HwQueue::commit_request(DeviceQueue& dq, Request& rq, std::int32_t result, std::uint32_t command) {
  io_uring_sqe* e = ring_->sqe();
  e->opcode = IORING_OP_URING_CMD;
  e->flags = dq.ublkc_.sqe_flags;
  e->fd = dq.ublkc_.fd;
  e->cmd_op = command;
  e->user_data = std::uint64_t{rq.generation} << 32 | rq.index;
  const abi::IoCmd cmd{dq.queue_id_, raw(rq.slot), result, reinterpret_cast<std::uint64_t>(rq.data)};
  std::memcpy(e->cmd, &cmd, sizeof cmd);
}

// --- the queue's thread: messages and life cycle ----------------------------------------------

void HwQueue::arm_inbox() {
  io_uring_sqe* e = ring_->sqe();
  io_uring_prep_read(e, event_.get(), &event_value_, sizeof event_value_, 0);
  e->user_data = ud::make(ud::Kind::inbox, 0, 0, 0);
}

void HwQueue::run_messages() {
  overflows_.set(ring_->cq_overflows());
  // Acquire pairs with the release in post.
  Message* newest = inbox_.exchange(nullptr, std::memory_order_acquire);
  Message* oldest = nullptr;
  while (newest != nullptr) {
    Message* next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  while (oldest != nullptr) {
    const std::unique_ptr<Message> m(oldest);
    oldest = m->next;
    m->run();
  }
}

Result<void> HwQueue::attach_now(DeviceQueue& dq) {
  if (auto r = register_files(dq); !r) {
    drop_files(dq);
    return r;
  }
  register_buffers(dq);
  // 0 is a table entry that no device ever had.
  do ++last_generation_;
  while (last_generation_ == 0);
  dq.generation_ = last_generation_;
  dq.failing_ = false;
  dq.end_error_ = 0;
  dq.requests_ = {table_ + dq.first_slot_, dq.spec_.slots};
  dq.slots_out_.set(dq.spec_.slots);
  const std::size_t stride = dq.spec_.geometry.io_bytes_max;
  for (std::uint32_t i = 0; i < dq.spec_.slots; ++i) {
    Request* rq = new (&dq.requests_[i]) Request{};
    rq->data = dq.memory_.data() + i * stride;
    rq->slot = Slot(static_cast<std::uint16_t>(i));
    rq->index = dq.first_slot_ + i;
    rq->generation = dq.generation_;
    rq->owner = static_cast<DeviceState*>(&dq);
    commit_request(dq, *rq, 0, abi::u_io_fetch_req);
  }
  attached_.push_back(&dq);
  devices_.set(static_cast<std::uint32_t>(attached_.size()));
  return {};
}

// The kernel gave a slot's command back for good.
void HwQueue::slot_ended(DeviceQueue& dq, std::int32_t result) {
  if (result != abi::io_res_abort && dq.end_error_ == 0) dq.end_error_ = result;
  UBLKD_CHECK(dq.slots_out_.get() > 0);
  dq.slots_out_.add(-1u);
  if (dq.slots_out_.get() > 0) return;
  UBLKD_CHECK(dq.active.get() == 0 && dq.waiting.empty());
  drop_files(dq);
  drop_buffers(dq);
  for (Request& rq : dq.requests_) rq.generation = 0;
  std::erase(attached_, &dq);
  devices_.set(static_cast<std::uint32_t>(attached_.size()));
  if (dq.on_timers_) {
    DeviceQueue** at = &timers_;
    while (*at != &dq) at = &(*at)->next_timer_;
    *at = dq.next_timer_;
    dq.on_timers_ = false;
  }
  const auto ended = std::move(dq.on_ended_);
  ended(dq.end_error_);  // control may destroy dq from here on
}

void HwQueue::fail_now(DeviceQueue& dq) {
  if (std::find(attached_.begin(), attached_.end(), &dq) == attached_.end()) return;
  dq.failing_ = true;
  RequestList waiting = dispatcher_.take_waiting(dq);
  for (Request* rq = waiting.front(); rq != nullptr; rq = rq->next) {
    rq->state = RequestState::done;
    rq->error = -EIO;
  }
  reaped_.splice_back(waiting);
  const auto& inflight = dispatcher_.inflight();
  for (Request* rq : inflight) {
    if (rq == nullptr || rq->owner != static_cast<DeviceState*>(&dq) || rq->state != RequestState::started) continue;
    rq->aborting = 1;
    dq.target->abort(*rq);
  }
}

}  // namespace ublkd
