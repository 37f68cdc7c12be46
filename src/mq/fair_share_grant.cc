// FairShare: the grants of its three policies.
#include <algorithm>

#include "mq/fair_share.h"

namespace ublkd {

std::uint32_t FairShare::ask(DeviceState* ready, std::uint64_t now_ns) {
  std::uint32_t wanted = 0;
  for (DeviceState* d = ready; d != nullptr; d = d->next_ready) {
    if (d->declined && now_ns >= d->retry_ns) [[unlikely]] d->declined = false;
    d->asked = d->granted = d->declined ? 0 : d->waits();
    wanted += d->asked;
  }
  return wanted;
}

std::uint32_t FairShare::grant(DeviceState* ready, std::uint32_t free, std::uint64_t now_ns) {
  withheld_ = false;
  const std::uint32_t wanted = ask(ready, now_ns);
  switch (params_.policy) {
    case SharePolicy::none: return wanted <= free ? wanted : grant_first_come(ready, free, depth_);
    case SharePolicy::equal: return grant_equal(ready, free, now_ns);
    case SharePolicy::adaptive: break;
  }
  if (short_ && !unserved_ && now_ns >= short_until_ns_) short_ = false;
  if (wanted <= free && (!short_ || wanted + depth_ / 2 <= free)) {
    unserved_ = false;
    return wanted;
  }
  return grant_short(ready, wanted, free, now_ns);
}

// Tags are short, or were within grace and would be if all came for what is kept for them.
std::uint32_t FairShare::grant_short(DeviceState* ready, std::uint32_t wanted, std::uint32_t free,
                                     std::uint64_t now_ns) {
  sweep(now_ns);
  std::uint32_t kept = 0;
  for (DeviceState* d : active_) {
    touch(*d, now_ns);
    note_load(*d, now_ns);
    kept += to_come(*d);
  }
  kept = std::max(kept, spare());
  unserved_ = false;
  if (wanted + kept <= free) return wanted;
  if (!short_) begin_shortage();
  short_until_ns_ = now_ns + params_.grace_ns;
  const std::uint32_t total = grant_by_clock(ready, free);
  unserved_ = total < wanted;
  return total;
}

// Requests that an active device is expected to send besides those it has here.
std::uint32_t FairShare::to_come(const DeviceState& device) {
  const ShareState& s = device.share;
  if (s.waiting && device.asked == 0) return 0;  // its target declined
  const std::uint32_t load = device.held + (s.waiting ? device.asked : 0);
  return s.kept <= load ? 0 : s.kept - load;
}

// By arrival turn: the device whose next request is oldest takes all it has that is no younger than the next request
// of any other, while it holds less than held_max.
std::uint32_t FairShare::grant_first_come(DeviceState* ready, std::uint32_t free, std::uint32_t held_max) {
  for (DeviceState* d = ready; d != nullptr; d = d->next_ready) {
    d->next_grant = d->waiting.front();
    d->granted = 0;
  }
  const auto order_of = [](const DeviceState& d) {
    return d.next_grant != nullptr ? d.next_grant->order : d.elsewhere_order;
  };
  const auto may_have = [held_max](const DeviceState& d) {
    return d.granted < d.asked && d.held + d.granted < held_max;
  };
  std::uint32_t total = 0;
  while (total < free) {
    DeviceState* oldest = nullptr;
    for (DeviceState* d = ready; d != nullptr; d = d->next_ready)
      if (may_have(*d) && (oldest == nullptr || older(order_of(*d), order_of(*oldest)))) oldest = d;
    if (oldest == nullptr) break;
    const std::uint32_t turn = order_of(*oldest);
    do {
      if (oldest->next_grant != nullptr) oldest->next_grant = oldest->next_grant->next;
      ++oldest->granted;
      ++total;
    } while (total < free && may_have(*oldest) && order_of(*oldest) == turn);
  }
  return total;
}

std::uint32_t FairShare::grant_equal(DeviceState* ready, std::uint32_t free, std::uint64_t now_ns) {
  sweep(now_ns);
  const auto users = std::max(static_cast<std::uint32_t>(active_.size()), 1u);
  const std::uint32_t total = grant_first_come(ready, free, equal_part(depth_, users));
  if (total < free)
    for (DeviceState* d = ready; d != nullptr; d = d->next_ready) withheld_ = withheld_ || d->granted < d->asked;
  return total;
}

// The heap: who waits, and for whom tags are kept.
void FairShare::gather(DeviceState* ready) {
  heap_.clear();
  for (DeviceState* d = ready; d != nullptr; d = d->next_ready) {
    if (d->asked == 0) continue;
    d->granted = 0;
    stand_in_line(*d, to_come(*d));
  }
  for (DeviceState* d : active_) {
    if (d->share.waiting) continue;
    d->asked = d->granted = 0;
    if (const std::uint32_t kept = to_come(*d); kept > 0) stand_in_line(*d, kept);
  }
  for (std::size_t i = heap_.size() / 2; i-- > 0;) sift_down(i);
}

// By clock, one tag at a time; what the clock gives to a device that does not ask stays free for it. A device that got
// all it asked stays in the heap until it comes to the front.
std::uint32_t FairShare::grant_by_clock(DeviceState* ready, std::uint32_t free) {
  gather(ready);
  if (!heap_.empty()) clock_ = std::max(clock_, heap_.front().key);
  Promised promised = next_promised();
  std::uint32_t left = free, total = 0, kept_left = depth_ / 2;
  while (left > 0 && !heap_.empty()) {
    const bool due = grants_ >= promised.after;
    const std::size_t at = due ? place_of(*promised.device) : 0;
    Candidate& next = heap_[at];
    DeviceState& d = *next.device;
    const std::uint32_t has = d.held + d.granted;
    const bool asks = d.granted < d.asked;
    const bool spares = !due && asks && left <= spare() && has >= d.share.floor && (has > 0 || withheld_);
    if (spares || (!asks && (next.to_come == 0 || kept_left == 0))) {
      withheld_ = withheld_ || spares;
      drop_first();  // at is 0: who is due asks
      if (promised.device == &d) promised = next_promised();
      continue;
    }
    --left;
    if (asks) {
      d.share.promise = no_promise;
      ++d.granted;
      ++grants_;
      ++total;
    } else {
      --next.to_come;
      --kept_left;
      withheld_ = true;
    }
    next.key += next.step;
    sift_down(at);
    if (promised.device == &d) promised = next_promised();
  }
  return total;
}

// Whose promise is due first, among those without a tag.
FairShare::Promised FairShare::next_promised() const {
  Promised next;
  for (const Candidate& c : heap_)
    if (c.device->share.waiting && c.device->held + c.device->granted == 0 && c.device->share.promise < next.after)
      next = {c.device->share.promise, c.device};
  return next;
}

std::size_t FairShare::place_of(const DeviceState& device) const {
  std::size_t at = 0;
  while (heap_[at].device != &device) {
    ++at;
    UBLKD_CHECK(at < heap_.size());
  }
  return at;
}

void FairShare::sift_down(std::size_t at) {
  const Candidate moved = heap_[at];
  for (;;) {
    std::size_t child = 2 * at + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && heap_[child + 1].before(heap_[child])) ++child;
    if (!heap_[child].before(moved)) break;
    heap_[at] = heap_[child];
    at = child;
  }
  heap_[at] = moved;
}

void FairShare::drop_first() {
  heap_.front() = heap_.back();
  heap_.pop_back();
  if (!heap_.empty()) sift_down(0);
}

}  // namespace ublkd
