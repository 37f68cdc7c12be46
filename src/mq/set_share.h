// SetShare: one tag pool for all hardware queues of a tag set, and who may take from it.
//
//   queue 0: publish(load) \                                        / offers -> queue 0 claims
//   queue 1: publish(load)  > arbitrate(): sums loads, FairShare,  <  offers -> queue 1 claims, woken
//   queue 2: publish(load) /   grants what is free                  \ ...
//
// While nobody waits and tags are plenty, a queue takes from the pool without asking. Else it publishes what it has
// waiting and arbitrates: one queue at a time holds the token and decides for all, by the same FairShare as a queue of
// its own, over sums. Who does not get the token goes on: the holder looks again before it is done. So nobody waits for
// the token, and a put on one thread wakes the thread whose device is next.
//
// Thread rule: publish, arbitrate, claim by queue threads, each for its own queue; add, remove, configure, set_weight,
//   attach by the control thread. FairShare and the set's devices belong to the token's holder.
// Without a policy, and with equal, first come counts by the age of each device's oldest request.
// Invariants:
//   1. While a tag is free and somebody waits, a queue is about to arbitrate, unless the sharing withholds the tag;
//      wake_ns() then says until when.
//   2. An offer is a number of tags that its queue may take; they count as held until it does.
// No lost wake-up: a queue writes its load, then (seq_cst) its waiter's bit, then looks at the pool, in arbitrate; one
// that puts writes the pool, then (seq_cst) looks at the waiters. See atomic_tag_pool.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "mq/atomic_tag_pool.h"
#include "mq/fair_share.h"

namespace ublkd {

// What a hardware queue offers to be woken by. wake(): any thread; the queue makes a turn soon.
class QueueWaker {
 public:
  virtual void wake() = 0;

 protected:
  ~QueueWaker() = default;
};

class SetShare {
 public:
  // queues: 1 .. hw_queues_max; devices_max: at once.
  SetShare(std::uint32_t depth, std::uint32_t queues, std::uint32_t devices_max);

  // --- control thread
  void attach_queue(std::uint32_t queue, QueueWaker& waker) { wakers_[queue] = &waker; }
  // The device's number in the set; it goes back by remove, once no queue serves the device.
  [[nodiscard]] std::uint32_t add(std::uint32_t weight);
  void remove(std::uint32_t device);
  void configure(const ShareParams& params);
  void set_weight(std::uint32_t device, std::uint32_t weight);

  // --- queue threads
  struct Load {
    std::uint32_t waiting = 0;
    std::uint32_t held = 0;
    std::uint32_t oldest_us = 0;      // arrival of the oldest that waits, CLOCK_MONOTONIC, wraps around
    std::uint64_t tag_time_ns = 0;    // so far
    std::uint64_t puts = 0;           // so far
  };
  void publish(std::uint32_t queue, std::uint32_t device, const Load& load);

  // Whether wanted tags may be taken without asking.
  [[nodiscard]] bool is_plenty(std::uint32_t wanted) const {
    return !divides_always_.load(std::memory_order_relaxed) && pool_.waiters() == 0 &&
           wanted + pool_.depth() / 2 <= pool_.free();
  }

  // Offers the free tags to those whose turn it is, and wakes their queues other than queue.
  void arbitrate(std::uint32_t queue, std::uint64_t now_ns);

  // How many tags of the pool device may take on queue; the offer is thereby used.
  [[nodiscard]] std::uint32_t claim(std::uint32_t queue, std::uint32_t device);

  // Uses up all offers to queue, for whichever device; returns how many.
  std::uint32_t claim_all(std::uint32_t queue);

  // When withheld tags may be given without any other event; time_never_ns: none are.
  [[nodiscard]] std::uint64_t wake_ns() const { return wake_ns_.load(std::memory_order_relaxed); }

  [[nodiscard]] AtomicTagPool& pool() { return pool_; }
  [[nodiscard]] const AtomicTagPool& pool() const { return pool_; }
  [[nodiscard]] std::uint32_t queues() const { return static_cast<std::uint32_t>(wakers_.size()); }

 private:
  // One device on one queue: written by the queue, but for offers.
  struct alignas(64) Column {
    std::atomic<std::uint32_t> waiting{0};
    std::atomic<std::uint32_t> held{0};
    std::atomic<std::uint32_t> oldest_us{0};
    std::atomic<std::uint32_t> offers{0};
    std::atomic<std::uint64_t> tag_time_ns{0};
    std::atomic<std::uint64_t> puts{0};
  };
  // A device of the set, the sum of its columns.
  struct Member {
    DeviceState state;
    bool present = false;
    std::uint64_t tag_time_seen = 0;
  };
  struct Turn {  // within distribute(): a queue on which the device waits
    std::uint32_t queue, waiting, oldest_us;
  };

  template <typename F>
  void with_token(F&& f);
  [[nodiscard]] Column& column(std::uint32_t queue, std::uint32_t device) {
    return columns_[std::size_t{device} * wakers_.size() + queue];
  }
  void run(std::uint32_t queue, std::uint64_t turn_ns);
  void sync(std::uint32_t device, std::uint64_t now_ns);
  void mark_changed(std::uint32_t device);
  void set_ready(Member& member, bool ready, std::uint64_t now_ns);
  void distribute(std::uint32_t device, std::uint32_t granted, std::uint64_t& to_wake);
  void wake(std::uint64_t queues);

  AtomicTagPool pool_;
  std::vector<QueueWaker*> wakers_;           // by queue
  std::unique_ptr<Column[]> columns_;         // by device, then queue
  std::vector<std::atomic<std::uint64_t>> changed_;  // by device, a bit: its columns changed since the last sync
  std::atomic<std::uint32_t> offered_{0};     // sum of offers
  std::vector<std::atomic<std::uint32_t>> offered_to_;  // by queue
  std::atomic<bool> divides_always_{false};   // policy equal
  std::atomic<std::uint64_t> wake_ns_{time_never_ns};
  alignas(64) std::atomic<bool> token_{false};
  std::atomic<bool> again_{false};

  // The token's holder:
  FairShare share_;
  std::vector<Member> members_;
  std::vector<Turn> turns_;
  DeviceState* ready_ = nullptr;
  std::uint64_t now_ns_ = 0;  // the latest turn that arbitrated: FairShare's time does not go back
};

}  // namespace ublkd
