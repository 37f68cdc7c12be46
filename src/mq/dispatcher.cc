#include "mq/dispatcher.h"

#include <algorithm>

namespace ublkd {

namespace {

// Orders wrap around; at most 2^31 turns lie between two waiting requests.
bool older(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) < 0; }

}  // namespace

void Dispatcher::make_ready(DeviceState& device) {
  device.ready = true;
  device.next_ready = nullptr;
  (ready_head_ == nullptr ? ready_head_ : ready_tail_->next_ready) = &device;
  ready_tail_ = &device;
}

void Dispatcher::dispatch(RequestList& done, RequestList& reaped, std::uint64_t now_ns) {
  reap(done, reaped);
  while (waiting_ > 0 && pool_.free() > 0) {
    const bool more = run_granted(now_ns);
    reap(done, reaped);
    if (!more) break;
  }
  unlink_idle();
}

void Dispatcher::reap(RequestList& done, RequestList& reaped) {
  for (Request* rq = done.front(); rq != nullptr; rq = rq->next) {
    auto& device = *static_cast<DeviceState*>(rq->owner);
    UBLKD_CHECK(inflight_[raw(rq->tag)] == rq);
    inflight_[raw(rq->tag)] = nullptr;
    pool_.put(rq->tag);
    rq->tag = tag_none;
    device.active.add(-1u);
    device.tags_put.add(1);
    device.declined = false;
  }
  reaped.splice_back(done);
}

// Grants by arrival turn: the device whose next request is oldest takes all it has that is no
// younger than the next request of any other.
std::uint32_t Dispatcher::grant_first_come(std::uint32_t free) {
  std::uint32_t total = 0;
  while (total < free) {
    DeviceState* oldest = nullptr;
    for (DeviceState* d = ready_head_; d != nullptr; d = d->next_ready)
      if (d->next_grant != nullptr && (oldest == nullptr || older(d->next_grant->order, oldest->next_grant->order)))
        oldest = d;
    if (oldest == nullptr) break;
    const std::uint32_t turn = oldest->next_grant->order;
    while (total < free && oldest->next_grant != nullptr && oldest->next_grant->order == turn) {
      oldest->next_grant = oldest->next_grant->next;
      ++oldest->granted;
      ++total;
    }
  }
  return total;
}

std::uint32_t Dispatcher::grant(std::uint64_t now_ns) {
  std::uint32_t wanted = 0;
  for (DeviceState* d = ready_head_; d != nullptr; d = d->next_ready) {
    if (d->declined && now_ns >= d->retry_ns) d->declined = false;
    d->granted = d->declined ? 0 : d->waiting.size();
    wanted += d->granted;
  }
  if (wanted <= pool_.free()) return wanted;
  for (DeviceState* d = ready_head_; d != nullptr; d = d->next_ready) {
    d->next_grant = d->declined ? nullptr : d->waiting.front();
    d->granted = 0;
  }
  return grant_first_come(pool_.free());
}

// One pass over the ready devices; false when no device was granted anything. A device that declined
// counts: the tags it gave back are the next one's.
bool Dispatcher::run_granted(std::uint64_t now_ns) {
  std::uint32_t left = grant(now_ns);
  const bool granted = left > 0;
  TagBatch batch;
  for (DeviceState* d = ready_head_; d != nullptr; d = d->next_ready) {
    if (d->granted == 0) continue;
    RequestList list = start(*d, batch, left);
    d->target->queue_rqs(list);
    count_taken(*d, d->granted - list.size());
    if (!list.empty()) take_back(*d, list, now_ns);
  }
  UBLKD_CHECK(left == 0 && batch.empty());
  return granted;
}

// Gives the device's granted requests their tags. left: tags still to be taken for this pass, over
// all devices; batch: tags taken and not yet given.
RequestList Dispatcher::start(DeviceState& device, TagBatch& batch, std::uint32_t& left) {
  const std::uint32_t n = device.granted;
  Request* last = nullptr;
  for (Request* rq = device.waiting.front(); ; rq = rq->next) {
    if (batch.empty()) {
      batch = pool_.take(left);
      left -= batch.count();
    }
    rq->tag = batch.pop();
    rq->state = RequestState::started;
    inflight_[raw(rq->tag)] = rq;
    last = rq;
    if (--device.granted == 0) break;
  }
  device.granted = n;
  waiting_ -= n;
  return device.waiting.split_front(*last, n);
}

void Dispatcher::count_taken(DeviceState& device, std::uint32_t n) {
  device.active.add(n);
  device.tags_taken.add(n);
  if (device.active.get() > device.peak.get()) device.peak.set(device.active.get());
}

// Leftovers: their tags go back in this turn, uncounted, and they wait at the head of their device.
void Dispatcher::take_back(DeviceState& device, RequestList& leftovers, std::uint64_t now_ns) {
  const std::uint32_t n = leftovers.size();
  for (Request* rq = leftovers.front(); rq != nullptr; rq = rq->next) {
    UBLKD_CHECK(rq->state == RequestState::started && inflight_[raw(rq->tag)] == rq);
    inflight_[raw(rq->tag)] = nullptr;
    pool_.put(rq->tag);
    rq->tag = tag_none;
    rq->state = RequestState::arrived;
  }
  device.leftovers.add(n);
  device.declined = true;
  device.retry_ns = now_ns + decline_retry_ns;
  waiting_ += n;
  device.waiting.splice_front(leftovers);
}

RequestList Dispatcher::take_waiting(DeviceState& device) {
  RequestList list = device.waiting;
  device.waiting.clear();
  waiting_ -= list.size();
  unlink_idle();
  return list;
}

void Dispatcher::unlink_idle() {
  DeviceState* d = ready_head_;
  ready_head_ = ready_tail_ = nullptr;
  while (d != nullptr) {
    DeviceState* next = d->next_ready;
    d->waiting_now.set(d->waiting.size());
    d->ready = false;
    if (!d->waiting.empty()) make_ready(*d);
    d = next;
  }
}

std::uint64_t Dispatcher::retry_deadline_ns() const {
  std::uint64_t at = time_never_ns;
  if (waiting_ == 0) return at;
  for (DeviceState* d = ready_head_; d != nullptr; d = d->next_ready)
    if (d->declined) at = std::min(at, d->retry_ns);
  return at;
}

}  // namespace ublkd
