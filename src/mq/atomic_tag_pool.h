// AtomicTagPool: the tags of a tag set of scope "set": one bitmap that all its queue threads take from and put to.
// SharedTags: one queue's side of it, which is what a dispatcher holds.
//
//   words_    | 1101... | 0000... | 0111... |     bit set: tag free; one cache line per word
//   waiters_  | 0010... |                         bit q set: queue q found nothing and may be asleep
//
// Thread rule: AtomicTagPool: any thread, no lock, no allocation after construction. SharedTags: its queue's thread.
// Invariants:
//   1. A tag is free exactly when its bit is set; one fetch_and takes it, one fetch_or puts it.
//   2. A pass returns at least one tag whenever one was free throughout it.
//   3. While a tag is free and a queue sleeps as a waiter, a wake-up is on its way to some queue.
//
// No lost wake-up (the kernel's sbitmap had one: "blk-mq: fix IO hang from sbitmap wakeup race", 2024):
//
//   a queue that found nothing         a queue that puts
//   1. set_waiting(q)   waiters_       1. put()        words_
//   2. take() again     words_         2. waiters()    waiters_, and wakes one of them
//   3. sleeps if still nothing
//
// Each writes its own word first and reads the other's after. All four are seq_cst, so they lie in one order, and in it
// at least one of the two reads comes after the other's write: the waiter finds the tag or the putter finds the waiter.
// With acquire and release alone both reads could come first. A wake-up may meet a queue that no longer needs a tag, or
// takes fewer than were put; so a queue that ends its waiting looks after it whether tags are left and wakes the next
// (stop_waiting): it passes the wake-up on.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>

#include "mq/tag_batch.h"
#include "ublkd/queue_port.h"
#include "ublkd/units.h"

namespace ublkd {

// Atomic: std::atomic, or a test's that stops before each step.
template <template <class> class Atomic>
class BasicAtomicTagPool {
 public:
  // depth: 1 .. depth_max.
  explicit BasicAtomicTagPool(std::uint32_t depth)
      : depth_(depth), word_count_((depth + tags_per_word - 1) / tags_per_word) {
    UBLKD_CHECK(depth >= 1 && depth <= depth_max);
    words_ = std::make_unique<Word[]>(word_count_);
    for (std::uint32_t w = 0; w < word_count_; ++w) words_[w].free.store(all_of(w), std::memory_order_relaxed);
  }

  [[nodiscard]] std::uint32_t depth() const { return depth_; }

  // Exact when no other thread takes or puts, else a number that was near.
  [[nodiscard]] std::uint32_t free() const {
    std::uint32_t n = 0;
    for (std::uint32_t w = 0; w < word_count_; ++w) n += count_bits(load(w));
    return n;
  }

  [[nodiscard]] bool any_free() const {
    for (std::uint32_t w = 0; w < word_count_; ++w)
      if (load(w) != 0) return true;
    return false;
  }

  // Where one queue looks for tags: in words of its own first, so that queues do not contend while each finds some
  // there, and then in all. In both it goes round from where it found some last: the words ahead have had the most
  // time to fill.
  struct Place {
    std::uint32_t begin, end;  // its own words
    std::uint32_t own, any;    // where it goes on
  };

  // Queue of queues: 0 .. queues - 1; queues: 1 .. hw_queues_max. In a pool of fewer words some share one.
  [[nodiscard]] Place place(std::uint32_t queue, std::uint32_t queues) const {
    UBLKD_CHECK(queues <= hw_queues_max && queue < queues);
    const std::uint32_t begin = queue * word_count_ / queues;
    const std::uint32_t end = (queue + 1) * word_count_ / queues;
    return {begin, end > begin ? end : begin + 1, begin, begin};
  }

  // One pass: up to wanted tags (>= 1) of one word. Empty only when each word was seen empty.
  TagBatch take(std::uint32_t wanted, Place& at) {
    TagBatch batch = go_round(wanted, at.own, at.begin, at.end);
    if (batch.empty() && at.end - at.begin < word_count_) batch = go_round(wanted, at.any, 0, word_count_);
    return batch;
  }

  // A batch of one word in one step. Not empty. Then look at waiters().
  void put(TagBatch batch) {
    const std::uint32_t w = batch.base / tags_per_word;
    UBLKD_CHECK(!batch.empty() && w < word_count_ && (batch.mask & ~all_of(w)) == 0);
    // Pairs with the fetch_and of the next taker, which sees what the putter wrote under the tag, and with
    // set_waiting(): see above.
    const std::uint64_t before = words_[w].free.fetch_or(batch.mask, std::memory_order_seq_cst);
    UBLKD_CHECK((before & batch.mask) == 0);
  }

  // Queue 0 .. hw_queues_max - 1 may go to sleep, once it has looked again and found nothing.
  void set_waiting(std::uint32_t queue) { waiters_.fetch_or(bit(queue), std::memory_order_seq_cst); }

  // Then look whether tags are free and others wait: SharedTags::stop_waiting().
  void clear_waiting(std::uint32_t queue) { waiters_.fetch_and(~bit(queue), std::memory_order_seq_cst); }

  // After a put: queues of which one is to be woken. A bit stays set until its queue clears it.
  [[nodiscard]] std::uint64_t waiters() const { return waiters_.load(std::memory_order_seq_cst); }

 private:
  static constexpr std::size_t cache_line_bytes = 64;
  struct alignas(cache_line_bytes) Word {
    Atomic<std::uint64_t> free{0};
  };

  static std::uint64_t bit(std::uint32_t queue) {
    UBLKD_CHECK(queue < hw_queues_max);
    return std::uint64_t{1} << queue;
  }

  // The bits of word w that are tags.
  [[nodiscard]] std::uint64_t all_of(std::uint32_t w) const {
    const std::uint32_t tags = depth_ - w * tags_per_word;
    return tags >= tags_per_word ? ~std::uint64_t{0} : (std::uint64_t{1} << tags) - 1;
  }

  [[nodiscard]] std::uint64_t load(std::uint32_t w) const { return words_[w].free.load(std::memory_order_seq_cst); }

  // Looks through words begin .. end - 1, from word `at` on; leaves it where tags were found, or at the next word when
  // another taker was faster there.
  TagBatch go_round(std::uint32_t wanted, std::uint32_t& at, std::uint32_t begin, std::uint32_t end) {
    std::uint32_t w = at;
    for (std::uint32_t seen = begin; seen < end; ++seen) {
      const std::uint32_t next = w + 1 == end ? begin : w + 1;
      // Each further turn means that another thread got tags of this word between our two steps.
      for (std::uint64_t free = load(w); free != 0;) {
        const std::uint64_t asked = lowest_bits(free, wanted);
        free = words_[w].free.fetch_and(~asked, std::memory_order_seq_cst);
        const std::uint64_t got = free & asked;
        if (got == 0) continue;
        at = got == asked ? w : next;
        return {got, w * tags_per_word};
      }
      w = next;
    }
    return {};
  }

  const std::uint32_t depth_;
  const std::uint32_t word_count_;
  std::unique_ptr<Word[]> words_;
  alignas(cache_line_bytes) Atomic<std::uint64_t> waiters_{0};
};

using AtomicTagPool = BasicAtomicTagPool<std::atomic>;

template <class Pool>
class BasicSharedTags {
 public:
  // Queue of queues: as for place().
  BasicSharedTags(Pool& pool, std::uint32_t queue, std::uint32_t queues)
      : pool_(&pool), queue_(queue), place_(pool.place(queue, queues)) {}

  [[nodiscard]] std::uint32_t depth() const { return pool_->depth(); }
  [[nodiscard]] std::uint32_t free() const { return pool_->free(); }

  TagBatch take(std::uint32_t wanted) { return pool_->take(wanted, place_); }
  Taken take_all(std::span<Tag> out) { return take_by_passes(*this, out); }

  // take(); after a pass that found nothing the queue is marked as waiting and looks once more. Empty: it may sleep
  // until it is woken, and calls again then.
  TagBatch take_or_wait(std::uint32_t wanted) {
    const TagBatch batch = take(wanted);
    if (!batch.empty()) return batch;
    pool_->set_waiting(queue_);
    return take(wanted);
  }

  // After take_or_wait(), once the queue needs no more tags. Returns the queues of which one is to be woken: tags are
  // left, and the wake-up that could have told them may have come here.
  [[nodiscard]] std::uint64_t stop_waiting() {
    pool_->clear_waiting(queue_);
    return pool_->any_free() ? pool_->waiters() : 0;
  }

  void put(TagBatch batch) { pool_->put(batch); }
  void put(Tag tag) {
    TagBatch batch;
    (void)batch.add(tag);
    pool_->put(batch);
  }

  // After puts: queues of which one is to be woken.
  [[nodiscard]] std::uint64_t waiters() const { return pool_->waiters(); }

 private:
  Pool* pool_;
  std::uint32_t queue_;
  typename Pool::Place place_;
};

using SharedTags = BasicSharedTags<AtomicTagPool>;

static_assert(TagPoolLike<SharedTags>);

}  // namespace ublkd
