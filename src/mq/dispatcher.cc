#include "mq/dispatcher.h"

#include <algorithm>
#include <utility>

namespace ublkd {

void Dispatcher::make_ready(DeviceState& device) {
  device.ready = true;
  device.next_ready = nullptr;
  (ready_head_ == nullptr ? ready_head_ : ready_tail_->next_ready) = &device;
  ready_tail_ = &device;
}

void Dispatcher::add(DeviceState& device) {
  share_.add(device);
  changed_.reserve(changed_.capacity() + 1);
}

void Dispatcher::remove(DeviceState& device) {
  if (device.changed) {
    tell_set_of(device);
    std::erase(changed_, &device);
  }
  share_.remove(device);
}

void Dispatcher::dispatch(RequestList& done, RequestList& reaped, std::uint64_t now_ns) {
  reap(done, reaped, now_ns);
  if (set_ != nullptr) return dispatch_from_set(done, reaped, now_ns);
  while (waiting_ > 0 && pool_.free() > 0) {
    const std::uint32_t granted = share_.grant(ready_head_, pool_.free(), now_ns);
    UBLKD_CHECK(pool_.take_all({tags_.data(), granted}).count == granted);
    const bool came_back = run_granted(now_ns);
    if (!came_back && done.empty()) break;  // all that may be given is
    reap(done, reaped, now_ns);
  }
  unlink_idle();
  UBLKD_CHECK(share_.held() == pool_.depth() - pool_.free());
}

// Tags are counted device by device; those of a set go back word by word.
void Dispatcher::reap(RequestList& done, RequestList& reaped, std::uint64_t now_ns) {
  for (Request* rq = done.front(); rq != nullptr;) {
    auto& device = *static_cast<DeviceState*>(rq->owner);
    std::uint32_t n = 0;
    for (; rq != nullptr && rq->owner == &device; rq = rq->next, ++n) {
      inflight_.end(rq->tag, *rq);
      put(rq->tag);
      rq->tag = tag_none;
    }
    share_.gave(device, n, now_ns);
    device.declined = false;
    if (set_ != nullptr) mark_changed(device);
  }
  if (set_ != nullptr) freed_.put_into(*set_tags_);
  reaped.splice_back(done);
}

// One pass over the ready devices with the tags taken; true when a target declined: the tags it gave back are the next
// one's.
bool Dispatcher::run_granted(std::uint64_t now_ns) {
  const Tag* tags = tags_.data();
  bool declined = false;
  for (DeviceState* d = ready_head_; d != nullptr; d = d->next_ready) {
    if (d->granted == 0) continue;
    if (d->granted == d->asked) {
      d->batch_whole.record(d->granted);
    } else {
      d->part_asked.record(d->asked);
      d->part_got.record(d->granted);
    }
    RequestList list = start(*d, tags, now_ns);
    tags += d->granted;
    d->target->queue_rqs(list);
    if (list.size() < d->granted) share_.took(*d, d->granted - list.size(), now_ns);
    if (set_ != nullptr) mark_changed(*d);
    if (list.empty()) continue;
    take_back(*d, list, now_ns);
    declined = true;
  }
  return declined;
}

// Gives the device's granted requests their tags.
RequestList Dispatcher::start(DeviceState& device, const Tag* tags, std::uint64_t now_ns) {
  const std::uint64_t deadline_ns = device.timeout_ns == 0 ? time_never_ns : now_ns + device.timeout_ns;
  Request* last = nullptr;
  std::uint32_t n = device.granted;
  for (Request* rq = device.waiting.front();; rq = rq->next) {
    rq->tag = *tags++;
    rq->state = RequestState::started;
    inflight_.start(rq->tag, *rq, deadline_ns);
    last = rq;
    if (--n == 0) break;
  }
  waiting_ -= device.granted;
  return device.waiting.split_front(*last, device.granted);
}

// Leftovers: their tags go back in this turn, uncounted, and they wait at the head of their device.
void Dispatcher::take_back(DeviceState& device, RequestList& leftovers, std::uint64_t now_ns) {
  const std::uint32_t n = leftovers.size();
  for (Request* rq = leftovers.front(); rq != nullptr; rq = rq->next) {
    UBLKD_CHECK(rq->state == RequestState::started);
    inflight_.end(rq->tag, *rq);
    put(rq->tag);
    rq->tag = tag_none;
    rq->state = RequestState::arrived;
  }
  if (set_ != nullptr) freed_.put_into(*set_tags_);
  device.leftovers.add(n);
  device.declined = true;
  device.retry_ns = now_ns + decline_retry_ns;
  waiting_ += n;
  device.waiting.splice_front(leftovers);
}

// --- scope set: tags of a pool that other threads share -------------------------------------------

void Dispatcher::dispatch_from_set(RequestList& done, RequestList& reaped, std::uint64_t now_ns) {
  for (;;) {
    const std::uint32_t wanted = share_.ask(ready_head_, now_ns);
    const bool plenty = wanted > 0 && set_->is_plenty(wanted);
    std::uint32_t got = take_from_set(plenty ? wanted : ask_set(now_ns));
    if (got == 0 && plenty) got = take_from_set(ask_set(now_ns));  // others were faster: now as a waiter
    if (got == 0) break;
    run_granted(now_ns);
    reap(done, reaped, now_ns);
  }
  unlink_idle();
  tell_set();
  if (waiting_ > 0 || !marked_waiting_) return;
  marked_waiting_ = false;
  if (set_tags_->stop_waiting() != 0) set_->arbitrate(queue_, now_ns);
}

// Publishes what waits here and has the set decide; sets granted to what it offers. 0 also when nobody waits anywhere.
std::uint32_t Dispatcher::ask_set(std::uint64_t now_ns) {
  for (DeviceState* d = ready_head_; d != nullptr; d = d->next_ready) mark_changed(*d);
  tell_set();
  if (waiting_ > 0 && !marked_waiting_) {
    set_->pool().set_waiting(queue_);
    marked_waiting_ = true;
  }
  std::uint32_t granted = 0;
  if (set_->pool().waiters() == 0) {
    (void)set_->claim_all(queue_);
    return 0;
  }
  do {
    set_->arbitrate(queue_, now_ns);
    for (DeviceState* d = ready_head_; d != nullptr; d = d->next_ready) {
      const std::uint32_t offers = set_->claim(queue_, d->number);
      d->granted = std::min(offers, d->asked);
      granted += d->granted;
      unclaimed_ = unclaimed_ || offers > d->asked;
    }
    // Of devices that no longer wait here.
    unclaimed_ = set_->claim_all(queue_) > 0 || unclaimed_;
  } while (granted == 0 && std::exchange(unclaimed_, false));  // what was not claimed is others'
  return granted;
}

// Takes as many of the granted tags as there are: a queue that found plenty may have been faster. Trims granted to it.
std::uint32_t Dispatcher::take_from_set(std::uint32_t granted) {
  if (granted == 0) return 0;
  const std::uint32_t got = set_tags_->take_all({tags_.data(), granted}).count;
  std::uint32_t left = got;
  for (DeviceState* d = ready_head_; d != nullptr; d = d->next_ready) {
    d->granted = std::min(d->granted, left);
    left -= d->granted;
  }
  return got;
}

void Dispatcher::mark_changed(DeviceState& device) {
  if (device.changed) return;
  device.changed = true;
  changed_.push_back(&device);
}

void Dispatcher::tell_set() {
  for (DeviceState* d : changed_) tell_set_of(*d);
  changed_.clear();
}

void Dispatcher::tell_set_of(DeviceState& device) {
  constexpr std::uint64_t us = 1000;
  device.changed = false;
  SetShare::Load load{.waiting = device.declined ? 0 : device.waiting.size(),
                      .held = device.held,
                      .oldest_us = 0,
                      .tag_time_ns = device.tag_time_ns.get(),
                      .puts = device.tags_put.get()};
  if (load.waiting > 0) load.oldest_us = static_cast<std::uint32_t>(device.waiting.front()->arrived_ns / us);
  set_->publish(queue_, device.number, load);
}

RequestList Dispatcher::take_waiting(DeviceState& device) {
  RequestList list = device.waiting;
  device.waiting.clear();
  waiting_ -= list.size();
  unlink_idle();
  if (set_ != nullptr) {
    mark_changed(device);
    tell_set();
    unclaimed_ = set_->claim(queue_, device.number) > 0 || unclaimed_;
  }
  return list;
}

void Dispatcher::unlink_idle() {
  DeviceState* d = ready_head_;
  ready_head_ = ready_tail_ = nullptr;
  while (d != nullptr) {
    DeviceState* next = d->next_ready;
    d->waiting_now.set(d->waiting.size());
    d->ready = false;
    if (d->waiting.empty())
      share_.end_waiting(*d);
    else
      make_ready(*d);
    d = next;
  }
}

std::uint64_t Dispatcher::wake_ns() const {
  std::uint64_t at = time_never_ns;
  if (set_ == nullptr) {
    if (waiting_ == 0 || pool_.free() == 0) return at;  // with no tag free, the next put is the event
    at = share_.wake_ns();
  } else if (set_->pool().waiters() != 0) {
    at = set_->wake_ns();  // whoever arbitrated looks again, not only who waits: it may have slept before that
  }
  for (DeviceState* d = ready_head_; d != nullptr; d = d->next_ready)
    if (d->declined) at = std::min(at, d->retry_ns);
  return at;
}

}  // namespace ublkd
