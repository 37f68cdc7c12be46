#include "queue/hw_queue.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "abi/user_data.h"
#include "base/clock.h"
#include "base/log.h"

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

namespace ublkd {

namespace ud = user_data;

namespace {

constexpr std::uint32_t sq_entries_wanted = 1024;

}  // namespace

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
  poll_ring_.reset();  // by the thread that made them
  ring_.reset();
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
  auto ring = Ring::make({.sq_entries = std::min(sq_entries_wanted, outstanding),
                          .cq_entries = outstanding,
                          .files = spec_.files_max,
                          .buffers = buffer_ranges_.size(),
                          .entry_size = spec_.entry_size});
  if (!ring) return Unexpected(ring.error());
  ring_ = std::make_unique<Ring>(std::move(*ring));
  ring_flags_ = ring_->setup_flag_names();
  arm_inbox();
  return {};
}

Result<void> HwQueue::make_poll_ring() {
  if (poll_ring_ != nullptr) return {};
  auto ring = Ring::make({.sq_entries = std::min(sq_entries_wanted, 2 * spec_.depth),
                          .cq_entries = 2 * spec_.depth,
                          .entry_size = spec_.entry_size,
                          .polled = true});
  if (!ring) return Unexpected(ring.error());
  poll_ring_ = std::make_unique<Ring>(std::move(*ring));
  return {};
}

// --- the queue's thread: a turn ---------------------------------------------------------------

void HwQueue::wait() {
  std::uint64_t deadline = time_never_ns;
  for (DeviceQueue* dq = timers_; dq != nullptr; dq = dq->next_timer_) deadline = std::min(deadline, dq->wake_ns_);
  deadline = std::min(deadline, dispatcher_.wake_ns());
  if (deadline != time_never_ns) now_ns_ = monotonic_ns();
  // A batch commit ends while it is submitted: its own CQE is none to turn for.
  const std::uint32_t wait_count = polled_out_ > 0 ? 0 : 1 + commits_unseen_;
  UBLKD_CHECK(ring_->enter(wait_count, now_ns_, deadline) == 0);
  if (polled_out_ > 0) UBLKD_CHECK(poll_ring_->enter(0, now_ns_, deadline) == 0);
  now_ns_ = monotonic_ns();
  ++turn_;
  turns_.add(1);
}

void HwQueue::arrive() {
  ring_->for_each_cqe([this](const io_uring_cqe& cqe) { on_cqe(cqe); });
  if (polled_out_ > 0)
    polled_out_ -= poll_ring_->for_each_cqe([this](const io_uring_cqe& cqe) { on_cqe(cqe); });
  if (timers_ != nullptr) run_timers();
}

void HwQueue::on_cqe(const io_uring_cqe& cqe) {
  Request& rq = table_[ud::index(cqe.user_data)];
  if (ud::upper(cqe.user_data) == rq.generation) [[likely]]
    on_ublk_cqe(rq, cqe.res);
  else
    on_other_cqe(cqe);
}

void HwQueue::on_ublk_cqe(Request& rq, std::int32_t result) {
  auto& dq = static_cast<DeviceQueue&>(*static_cast<DeviceState*>(rq.owner));
  if (result == abi::io_res_ok) [[likely]]
    arrive_request(dq, rq);
  else
    slot_ended(dq, result);
}

void HwQueue::on_other_cqe(const io_uring_cqe& cqe) {
  const std::uint64_t word = cqe.user_data;
  switch (ud::kind(word)) {
    case ud::Kind::target: {
      Request& rq = table_[ud::index(word)];
      if (rq.generation != ud::generation(word)) return;  // its device is gone
      auto* device = static_cast<DeviceState*>(rq.owner);
      device->target->on_cqe(rq, ud::step(word), cqe.res);
      return;
    }
    case ud::Kind::inbox:
      run_messages();
      arm_inbox();
      return;
    case ud::Kind::batch_prep:
    case ud::Kind::batch_fetch:
    case ud::Kind::batch_commit: return on_batch_cqe(cqe);
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
  rq.aborting = 0;
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
  free_now_.set(dispatcher_.free());
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
    if (dq.batch_ != nullptr) {
      dq.batch_->add(*rq, result);
      commit_later(dq);
    } else {
      commit_request(dq, *rq, result, abi::u_io_commit_and_fetch_req);
    }
    rq = next;
  }
  reaped_.clear();
  commit_batches();
}

void HwQueue::commit_request(DeviceQueue& dq, Request& rq, std::int32_t result, std::uint32_t command) {
  io_uring_sqe* e = ring_->sqe();
  e->opcode = IORING_OP_URING_CMD;
  e->flags = dq.ublkc_.sqe_flags;
  e->fd = dq.ublkc_.fd;
  e->cmd_op = command;
  e->addr = dq.first_buffer_ + raw(rq.slot);  // where zero copy registers the slot's next request
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
  if (dq.spec_.geometry.polled)
    if (auto r = make_poll_ring(); !r) return r;
  if (auto r = register_files(dq); !r) {
    drop_files(dq);
    return r;
  }
  register_buffers(dq);
  // 0 is a table entry that no device ever had.
  do ++last_generation_;
  while (last_generation_ == 0);
  dq.generation_ = last_generation_;
  if (dq.batch_ != nullptr)
    if (auto r = dq.batch_->start(*ring_, dq.generation_); !r) {
      drop_buffers(dq);
      drop_files(dq);
      return r;
    }
  dq.failing_ = false;
  dq.end_error_ = 0;
  dq.requests_ = {table_ + dq.first_slot_, dq.spec_.slots};
  const bool zero_copy = dq.spec_.zero_copy;
  const std::size_t stride = dq.spec_.geometry.io_bytes_max;
  for (std::uint32_t i = 0; i < dq.spec_.slots; ++i) {
    Request* rq = new (&dq.requests_[i]) Request{};
    rq->data = zero_copy ? nullptr : dq.memory_.data() + i * stride;
    rq->slot = Slot(static_cast<std::uint16_t>(i));
    rq->index = dq.first_slot_ + i;
    rq->generation = dq.generation_;
    rq->owner = static_cast<DeviceState*>(&dq);
  }
  send_slots(dq);
  dispatcher_.add(dq);
  attached_.push_back(&dq);
  devices_.set(static_cast<std::uint32_t>(attached_.size()));
  return {};
}

// The kernel gave a slot's command back for good.
void HwQueue::slot_ended(DeviceQueue& dq, std::int32_t result) {
  if (result != abi::io_res_abort && dq.end_error_ == 0) dq.end_error_ = result;
  drop_slots(dq, 1);
}

void HwQueue::drop_slots(DeviceQueue& dq, std::uint32_t count) {
  UBLKD_CHECK(dq.slots_out_.get() >= count);
  dq.slots_out_.add(-count);
  if (dq.slots_out_.get() == 0) device_ended(dq);
}

void HwQueue::device_ended(DeviceQueue& dq) {
  dispatcher_.remove(dq);
  if (dq.batch_ != nullptr) dq.batch_->stop(*ring_);
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

bool HwQueue::is_attached(const DeviceQueue& dq) const {
  return std::find(attached_.begin(), attached_.end(), &dq) != attached_.end();
}

void HwQueue::end_if_still(Tag tag, std::uint32_t mark) {
  Request* rq = dispatcher_.inflight().find(tag, mark);
  if (rq == nullptr || rq->state != RequestState::started || rq->aborting != 0) return;
  auto& device = *static_cast<DeviceState*>(rq->owner);
  device.timeouts.add(1);
  rq->aborting = 1;
  device.target->abort(*rq);
}

void HwQueue::fail_now(DeviceQueue& dq) {
  if (!is_attached(dq)) return;
  dq.failing_ = true;
  RequestList waiting = dispatcher_.take_waiting(dq);
  for (Request* rq = waiting.front(); rq != nullptr; rq = rq->next) {
    rq->state = RequestState::done;
    rq->error = -EIO;
  }
  reaped_.splice_back(waiting);
  const InflightTable& inflight = dispatcher_.inflight();
  for (std::uint32_t t = 0; t < inflight.depth(); ++t) {
    Request* rq = inflight.at(Tag(static_cast<std::uint16_t>(t)));
    if (rq == nullptr || rq->owner != static_cast<DeviceState*>(&dq) || rq->state != RequestState::started) continue;
    rq->aborting = 1;
    dq.target->abort(*rq);
  }
}

}  // namespace ublkd
