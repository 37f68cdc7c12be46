// A hardware queue's devices with batch commands.
#include <cerrno>
#include <utility>

#include "abi/user_data.h"
#include "queue/hw_queue.h"

namespace ublkd {

namespace ud = user_data;

io_uring_sqe& HwQueue::batch_sqe(const DeviceQueue& dq, ud::Kind kind) {
  io_uring_sqe& e = *ring_->sqe();
  e.user_data = ud::make(kind, 0, dq.generation_, dq.first_slot_);
  return e;
}

void HwQueue::on_batch_cqe(const io_uring_cqe& cqe) {
  const ud::Kind kind = ud::kind(cqe.user_data);
  if (kind == ud::Kind::batch_commit) --commits_unseen_;
  const Request& first = table_[ud::index(cqe.user_data)];
  UBLKD_CHECK(first.generation == ud::generation(cqe.user_data));  // a device ends with its last command
  auto& dq = static_cast<DeviceQueue&>(*static_cast<DeviceState*>(first.owner));
  if (kind == ud::Kind::batch_fetch) return on_batch_fetch(dq, cqe);
  if (kind == ud::Kind::batch_commit) return on_batch_commit(dq, cqe.res);
  slot_ended(dq, cqe.res == 0 ? abi::io_res_abort : cqe.res);  // PREP: over
}

void HwQueue::on_batch_fetch(DeviceQueue& dq, const io_uring_cqe& cqe) {
  if (cqe.res > 0) [[likely]] {
    const auto slots = dq.batch_->slots_of(cqe.res, cqe.flags);
    dq.slots_out_.add(static_cast<std::uint32_t>(slots.size()));
    for (const std::uint16_t slot : slots) {
      UBLKD_CHECK(slot < dq.requests_.size());
      arrive_request(dq, dq.requests_[slot]);
    }
    dq.batch_->give_back(cqe.flags);
  }
  if ((cqe.flags & IORING_CQE_F_MORE) != 0) [[likely]]
    return;
  if (cqe.res < 0 && cqe.res != -ENOBUFS) return slot_ended(dq, cqe.res);
  send_fetch(dq);
}

void HwQueue::on_batch_commit(DeviceQueue& dq, std::int32_t result) {
  const auto [taken, refused] = dq.batch_->committed(result);
  if (dq.batch_->has_results()) commit_later(dq);
  if (refused != 0 && dq.end_error_ == 0) dq.end_error_ = result;
  drop_slots(dq, taken + refused);
}

// Gives the kernel all slots of a device for the first time.
void HwQueue::send_slots(DeviceQueue& dq) {
  if (dq.batch_ == nullptr) {
    dq.slots_out_.set(dq.spec_.slots);
    for (Request& rq : dq.requests_) commit_request(dq, rq, 0, abi::u_io_fetch_req);
    return;
  }
  dq.slots_out_.set(2);  // the two commands
  io_uring_sqe& e = batch_sqe(dq, ud::Kind::batch_prep);
  dq.batch_->fill_prep(e, dq.requests_);
  name_ublkc(e, dq);
  send_fetch(dq);
}

void HwQueue::send_fetch(DeviceQueue& dq) {
  io_uring_sqe& e = batch_sqe(dq, ud::Kind::batch_fetch);
  dq.batch_->fill_fetch(e);
  name_ublkc(e, dq);
}

void HwQueue::name_ublkc(io_uring_sqe& e, const DeviceQueue& dq) {
  e.fd = dq.ublkc_.fd;
  e.flags |= dq.ublkc_.sqe_flags;
}

void HwQueue::commit_later(DeviceQueue& dq) {
  if (dq.committing_) return;
  dq.committing_ = true;
  dq.next_committing_ = std::exchange(committing_, &dq);
}

void HwQueue::commit_batches() {
  while (committing_ != nullptr) {
    DeviceQueue& dq = *committing_;
    committing_ = dq.next_committing_;
    dq.committing_ = false;
    io_uring_sqe& e = batch_sqe(dq, ud::Kind::batch_commit);
    dq.batch_->fill_commit(e);
    name_ublkc(e, dq);
    ++commits_unseen_;
  }
}

}  // namespace ublkd
