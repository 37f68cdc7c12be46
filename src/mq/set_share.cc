#include "mq/set_share.h"

#include <algorithm>
#include <thread>

namespace ublkd {

namespace {

constexpr std::uint32_t bits_per_word = 64;

}  // namespace

SetShare::SetShare(std::uint32_t depth, std::uint32_t queues, std::uint32_t devices_max)
    : pool_(depth),
      wakers_(queues, nullptr),
      columns_(new Column[std::size_t{devices_max} * queues]),
      changed_((devices_max + bits_per_word - 1) / bits_per_word),
      offered_to_(queues),
      share_(depth),
      members_(devices_max) {
  turns_.reserve(queues);
}

// --- control thread -------------------------------------------------------------------------------

// The control thread may wait: whoever has the token works for microseconds. What queues asked meanwhile is theirs to
// do, so they are woken.
template <typename F>
void SetShare::with_token(F&& f) {
  while (token_.exchange(true, std::memory_order_seq_cst)) std::this_thread::yield();
  f();
  token_.store(false, std::memory_order_seq_cst);
  wake(pool_.waiters());
}

std::uint32_t SetShare::add(std::uint32_t weight) {
  std::uint32_t device = 0;
  with_token([&] {
    while (members_[device].present) ++device;  // the table of devices keeps to devices_max
    Member& m = members_[device];
    m.present = true;
    m.state.number = device;
    m.state.share.weight = weight;
    share_.add(m.state);
  });
  return device;
}

void SetShare::remove(std::uint32_t device) {
  for (std::uint32_t q = 0; q < queues(); ++q) publish(q, device, {});
  with_token([&] {
    Member& m = members_[device];
    UBLKD_CHECK(m.present);
    for (std::uint32_t q = 0; q < queues(); ++q) (void)claim(q, device);
    sync(device, m.state.touched_ns.get());
    share_.remove(m.state);
    m.present = false;
    m.tag_time_seen = 0;
    m.state.tag_time_ns.set(0);
    m.state.tags_put.set(0);
    m.state.last_use_ns.set(0);
  });
}

void SetShare::configure(const ShareParams& params) {
  divides_always_.store(params.policy == SharePolicy::equal, std::memory_order_relaxed);
  with_token([&] { share_.configure(params); });
}

void SetShare::set_weight(std::uint32_t device, std::uint32_t weight) {
  with_token([&] { share_.set_weight(members_[device].state, weight); });
}

// --- queue threads ----------------------------------------------------------------------------------

void SetShare::publish(std::uint32_t queue, std::uint32_t device, const Load& load) {
  Column& c = column(queue, device);
  c.waiting.store(load.waiting, std::memory_order_relaxed);
  c.held.store(load.held, std::memory_order_relaxed);
  c.oldest_us.store(load.oldest_us, std::memory_order_relaxed);
  c.tag_time_ns.store(load.tag_time_ns, std::memory_order_relaxed);
  c.puts.store(load.puts, std::memory_order_relaxed);
  mark_changed(device);
}

// Release pairs with the exchange in run: with the bit, what was stored before it is seen.
void SetShare::mark_changed(std::uint32_t device) {
  const std::uint64_t bit = std::uint64_t{1} << (device % bits_per_word);
  changed_[device / bits_per_word].fetch_or(bit, std::memory_order_release);
}

std::uint32_t SetShare::claim(std::uint32_t queue, std::uint32_t device) {
  Column& c = column(queue, device);
  if (c.offers.load(std::memory_order_relaxed) == 0) return 0;
  const std::uint32_t n = c.offers.exchange(0, std::memory_order_relaxed);
  offered_.fetch_sub(n, std::memory_order_relaxed);
  offered_to_[queue].fetch_sub(n, std::memory_order_relaxed);
  return n;
}

std::uint32_t SetShare::claim_all(std::uint32_t queue) {
  std::uint32_t n = 0;
  if (offered_to_[queue].load(std::memory_order_relaxed) == 0) return n;
  for (std::uint32_t d = 0; d < members_.size(); ++d) n += claim(queue, d);
  return n;
}

// Each writes its own word, then reads the other's: again_ and token_ are seq_cst, so of one that fails to get the
// token and one that gives it back, the latter sees the former's again_.
void SetShare::arbitrate(std::uint32_t queue, std::uint64_t now_ns) {
  again_.store(true, std::memory_order_seq_cst);
  while (again_.load(std::memory_order_seq_cst)) {
    if (token_.exchange(true, std::memory_order_seq_cst)) return;
    again_.store(false, std::memory_order_seq_cst);
    run(queue, now_ns);
    token_.store(false, std::memory_order_seq_cst);
  }
}

// --- the token's holder -------------------------------------------------------------------------------

void SetShare::run(std::uint32_t queue, std::uint64_t turn_ns) {
  const std::uint64_t now_ns = now_ns_ = std::max(now_ns_, turn_ns);
  for (std::size_t w = 0; w < changed_.size(); ++w)
    for (std::uint64_t bits = changed_[w].exchange(0, std::memory_order_acquire); bits != 0; bits &= bits - 1)
      sync(static_cast<std::uint32_t>(w * bits_per_word) + lowest_bit(bits), now_ns);
  const std::uint32_t free = pool_.free();
  const std::uint32_t offered = offered_.load(std::memory_order_relaxed);
  if (free <= offered) return wake_ns_.store(time_never_ns, std::memory_order_relaxed);
  const std::uint32_t granted = share_.grant(ready_, free - offered, now_ns);
  wake_ns_.store(share_.wake_ns(), std::memory_order_relaxed);
  std::uint64_t to_wake = 0;
  if (granted > 0)
    for (DeviceState* d = ready_; d != nullptr; d = d->next_ready)
      if (d->granted > 0) distribute(d->number, d->granted, to_wake);
  wake(to_wake & ~(std::uint64_t{1} << queue));
}

void SetShare::sync(std::uint32_t device, std::uint64_t now_ns) {
  Member& m = members_[device];
  if (!m.present) return;
  FairShare::Sum sum;
  std::uint64_t tag_time_ns = 0, puts = 0;
  m.state.elsewhere = 0;
  for (std::uint32_t q = 0; q < queues(); ++q) {
    const Column& c = column(q, device);
    const std::uint32_t offers = c.offers.load(std::memory_order_relaxed);
    const std::uint32_t waiting = c.waiting.load(std::memory_order_relaxed);
    sum.held += c.held.load(std::memory_order_relaxed) + offers;
    tag_time_ns += c.tag_time_ns.load(std::memory_order_relaxed);
    puts += c.puts.load(std::memory_order_relaxed);
    if (waiting <= offers) continue;
    const std::uint32_t oldest_us = c.oldest_us.load(std::memory_order_relaxed);
    if (m.state.elsewhere == 0 || older(oldest_us, m.state.elsewhere_order))
      m.state.elsewhere_order = oldest_us;
    m.state.elsewhere += waiting - offers;
  }
  // Columns are read one by one, while their queues go on: the sums may go back for a moment.
  sum.tag_time_ns = m.tag_time_seen = std::max(m.tag_time_seen, tag_time_ns);
  sum.puts = std::max(m.state.tags_put.get(), puts);
  share_.set_sum(m.state, sum, now_ns);
  if (m.state.ready != (m.state.elsewhere > 0)) set_ready(m, m.state.elsewhere > 0, now_ns);
}

void SetShare::set_ready(Member& member, bool ready, std::uint64_t now_ns) {
  DeviceState& d = member.state;
  d.ready = ready;
  if (ready) {
    share_.begin_waiting(d, now_ns);
    d.next_ready = ready_;
    ready_ = &d;
    return;
  }
  DeviceState** at = &ready_;
  while (*at != &d) at = &(*at)->next_ready;
  *at = d.next_ready;
  share_.end_waiting(d);
}

// One tag at a time, beginning with the queue whose request has waited longest.
void SetShare::distribute(std::uint32_t device, std::uint32_t granted, std::uint64_t& to_wake) {
  turns_.clear();
  for (std::uint32_t q = 0; q < queues(); ++q) {
    const Column& c = column(q, device);
    const std::uint32_t waiting = c.waiting.load(std::memory_order_relaxed);
    const std::uint32_t offers = c.offers.load(std::memory_order_relaxed);
    if (waiting > offers) turns_.push_back({q, waiting - offers, c.oldest_us.load(std::memory_order_relaxed)});
  }
  std::sort(turns_.begin(), turns_.end(),
            [](const Turn& a, const Turn& b) { return older(a.oldest_us, b.oldest_us); });
  bool gave = true;
  while (granted > 0 && gave) {
    gave = false;
    for (Turn& t : turns_) {
      if (granted == 0 || t.waiting == 0) continue;
      --granted;
      --t.waiting;
      gave = true;
      column(t.queue, device).offers.fetch_add(1, std::memory_order_relaxed);
      offered_.fetch_add(1, std::memory_order_relaxed);
      offered_to_[t.queue].fetch_add(1, std::memory_order_relaxed);
      to_wake |= std::uint64_t{1} << t.queue;
    }
  }
  // The offers count as held and no longer wait, until the columns say so themselves.
  mark_changed(device);
}

void SetShare::wake(std::uint64_t queues) {
  for (; queues != 0; queues &= queues - 1)
    if (QueueWaker* waker = wakers_[lowest_bit(queues)]; waker != nullptr) waker->wake();
}

}  // namespace ublkd
