// Small cases of AtomicTagPool in every order of their atomic steps; and broken variants, which must be caught.
#include <gtest/gtest.h>

#include <iostream>

#include "mq/atomic_tag_pool.h"
#include "unit/mq/interleavings.h"

namespace ublkd {
namespace {

using testing::Interleavings;
using testing::SteppedAtomic;
using SteppedPool = BasicAtomicTagPool<SteppedAtomic>;

// Takes by a load and a store: two takers may get the same tag.
class TornPool : public SteppedPool {
 public:
  TornPool(std::uint32_t depth) : SteppedPool(depth), free_((std::uint64_t{1} << depth) - 1) {}
  TagBatch take(std::uint32_t wanted, Place&) {
    const std::uint64_t free = free_.load(std::memory_order_seq_cst);
    const std::uint64_t mask = lowest_bits(free, wanted);
    free_.store(free & ~mask, std::memory_order_seq_cst);
    return {mask, 0};
  }
  void put(TagBatch batch) { free_.fetch_or(batch.mask, std::memory_order_seq_cst); }

 private:
  SteppedAtomic<std::uint64_t> free_;
};

// Gives a word up after one lost race, though other tags of it are free.
class HastyPool : public SteppedPool {
 public:
  HastyPool(std::uint32_t depth) : SteppedPool(depth), free_((std::uint64_t{1} << depth) - 1) {}
  TagBatch take(std::uint32_t wanted, Place&) {
    const std::uint64_t mask = lowest_bits(free_.load(std::memory_order_seq_cst), wanted);
    return {free_.fetch_and(~mask, std::memory_order_seq_cst) & mask, 0};
  }
  void put(TagBatch batch) { free_.fetch_or(batch.mask, std::memory_order_seq_cst); }

 private:
  SteppedAtomic<std::uint64_t> free_;
};

// Protocols of a queue that needs a tag: the product's, and three with one thing left out.
struct AsWritten {
  static TagBatch look(BasicSharedTags<SteppedPool>& tags, SteppedPool&, std::uint32_t) { return tags.take_or_wait(1); }
  static std::uint64_t stop(BasicSharedTags<SteppedPool>& tags, SteppedPool&, std::uint32_t) {
    return tags.stop_waiting();
  }
};
struct LooksBeforeItIsSeen : AsWritten {
  static TagBatch look(BasicSharedTags<SteppedPool>& tags, SteppedPool& pool, std::uint32_t queue) {
    const TagBatch batch = tags.take(1);
    if (batch.empty()) pool.set_waiting(queue);
    return batch;
  }
};
struct KeepsTheWakeUp : AsWritten {
  static std::uint64_t stop(BasicSharedTags<SteppedPool>&, SteppedPool& pool, std::uint32_t queue) {
    pool.clear_waiting(queue);
    return 0;
  }
};
struct LooksBeforeItClears : AsWritten {
  static std::uint64_t stop(BasicSharedTags<SteppedPool>&, SteppedPool& pool, std::uint32_t queue) {
    const std::uint64_t others = pool.any_free() ? pool.waiters() & ~(std::uint64_t{1} << queue) : 0;
    pool.clear_waiting(queue);
    return others;
  }
};

// One run's pool, and what an observer who sees all at once knows of it. Tags are counted over base.
template <class Pool>
struct Case {
  // Of a pool of depth tags the first `held` are held, for good, before the threads begin.
  explicit Case(std::uint32_t depth, std::uint32_t held = 0) : pool(depth), base(held) {
    SteppedPool::Place place = pool.place(0, 1);
    while (held > 0) held -= pool.take(held, place).count();
    available = (std::uint64_t{1} << (depth - base)) - 1;
    all = available;
  }

  // A pass that begins with a step of its own: what is free then, and is not taken by others, is free throughout.
  template <class Take>
  TagBatch pass(std::uint32_t thread, Take take) {
    Interleavings::step();
    throughout[thread] = available;
    const TagBatch batch = take();
    if (batch.empty() && throughout[thread] != 0) Interleavings::fail("a pass found none though one was free");
    throughout[thread] = 0;
    saw(batch);
    return batch;
  }

  void saw(TagBatch batch) {
    const std::uint64_t mask = local(batch);
    if ((mask & ~available) != 0) Interleavings::fail("a tag was taken twice");
    available &= ~mask;
    for (std::uint64_t& tags : throughout) tags &= ~mask;
  }

  void put(TagBatch batch) {
    pool.put(batch);
    available |= local(batch);
  }

  [[nodiscard]] std::uint64_t digest() const {
    std::uint64_t digest = Interleavings::mix(available, pool.waiters());
    for (const std::uint64_t tags : throughout) digest = Interleavings::mix(digest, tags);
    for (const bool queue : woken) digest = Interleavings::mix(digest, queue);
    return digest;
  }

  [[nodiscard]] std::uint64_t local(TagBatch batch) const {
    if (batch.empty()) return 0;
    return batch.base >= base ? batch.mask << (batch.base - base) : batch.mask >> (base - batch.base);
  }

  Pool pool;
  std::uint32_t base;
  std::uint64_t available, all;
  std::array<std::uint64_t, Interleavings::threads_max> throughout{};
  std::array<bool, Interleavings::threads_max> woken{};
};

// Threads that each take up to wanted tags in one pass and put them, `rounds` times.
template <class Pool>
std::string takers(std::uint32_t threads, std::uint32_t wanted, int rounds, std::uint32_t depth,
                   std::uint32_t held = 0) {
  Interleavings all;
  const std::string fault = all.explore([=] {
    auto state = std::make_shared<Case<Pool>>(depth, held);
    Interleavings::World world{{}, {}, [c = state.get()] { return c->digest(); }, state};
    for (std::uint32_t t = 0; t < threads; ++t)
      world.threads.push_back([c = state.get(), t, threads, wanted, rounds] {
        SteppedPool::Place place = c->pool.place(t, threads);
        for (int round = 0; round < rounds; ++round) {
          const TagBatch batch = c->pass(t, [&] { return c->pool.take(wanted, place); });
          if (!batch.empty()) c->put(batch);
        }
      });
    world.check_end = [c = state.get()]() -> std::string {
      return c->available == c->all && c->pool.free() == c->pool.depth() - c->base ? "" : "a tag was lost";
    };
    return world;
  });
  std::cout << "  " << all.runs() << " runs, " << all.states() << " states\n";
  return fault;
}

void wake_one(Case<SteppedPool>& c, std::uint64_t queues) {
  if (queues == 0) return;
  bool& woken = c.woken[lowest_bit(queues)];
  Interleavings::step();
  woken = true;
}

enum class Giver { none, puts_a_batch, puts_one_by_one };

struct Sleepers {
  std::uint32_t queues = 2;
  std::uint32_t depth = 1;  // one word, so that where a queue looks is no part of its state
  int rounds = 1;
  Giver giver = Giver::none;  // one more thread, which holds all tags at first
  bool keep = false;          // the queues keep the tags they get
};

// A queue that needs one tag at a time and sleeps while there is none.
template <class Protocol>
void queue_thread(Case<SteppedPool>& c, std::uint32_t queue, const Sleepers& setup) {
  BasicSharedTags<SteppedPool> tags(c.pool, queue, setup.queues);
  for (int round = 0; round < setup.rounds; ++round) {
    Interleavings::place(1, round);
    TagBatch batch = Protocol::look(tags, c.pool, queue);
    while (batch.empty()) {
      bool& woken = c.woken[queue];
      Interleavings::place(2, round);
      Interleavings::step(&woken);
      woken = false;
      batch = Protocol::look(tags, c.pool, queue);
    }
    c.saw(batch);
    Interleavings::place(3, round, batch.mask);
    wake_one(c, Protocol::stop(tags, c.pool, queue));
    if (setup.keep) continue;
    Interleavings::place(4, round, batch.mask);
    c.put(batch);
    Interleavings::place(5, round);
    wake_one(c, tags.waiters());
  }
}

void giver_thread(Case<SteppedPool>& c, TagBatch held, Giver giver) {
  while (!held.empty()) {
    TagBatch batch = held;
    if (giver == Giver::puts_one_by_one) {
      batch = {};
      (void)batch.add(held.pop());
    } else {
      held = {};
    }
    c.put(batch);
    wake_one(c, c.pool.waiters());
  }
}

template <class Protocol>
std::string sleepers(const Sleepers& setup) {
  Interleavings all;
  const std::string fault = all.explore([&] {
    auto state = std::make_shared<Case<SteppedPool>>(setup.depth);
    Case<SteppedPool>* c = state.get();
    Interleavings::World world{{}, {}, [c] { return c->digest(); }, state};
    for (std::uint32_t q = 0; q < setup.queues; ++q)
      world.threads.push_back([=, &setup] { queue_thread<Protocol>(*c, q, setup); });
    if (setup.giver != Giver::none) {
      SteppedPool::Place place = c->pool.place(0, 1);
      const TagBatch held = c->pool.take(setup.depth, place);
      c->saw(held);
      world.threads.push_back([=, &setup] { giver_thread(*c, held, setup.giver); });
    }
    world.check_end = [=, &setup]() -> std::string {
      if (!setup.keep && c->pool.free() != setup.depth) return "a tag was lost";
      return c->pool.waiters() == 0 ? "" : "a queue that ended is still waiting";
    };
    return world;
  });
  std::cout << "  " << all.runs() << " runs, " << all.states() << " states\n";
  return fault;
}

// The fault without its schedule.
std::string kind(const std::string& fault) { return fault.substr(0, fault.find(';')); }

TEST(AtomicTagPoolModel, TwoTakersOfTwoTags) { EXPECT_EQ(takers<SteppedPool>(2, 2, 2, 2), ""); }
TEST(AtomicTagPoolModel, TwoTakersOfOneOfTwoTags) { EXPECT_EQ(takers<SteppedPool>(2, 1, 2, 2), ""); }
TEST(AtomicTagPoolModel, TwoTakersOfPartsOfThreeTags) { EXPECT_EQ(takers<SteppedPool>(2, 2, 2, 3), ""); }
TEST(AtomicTagPoolModel, TwoTakersOfFourTagsInTwoWords) { EXPECT_EQ(takers<SteppedPool>(2, 2, 2, 66, 62), ""); }
TEST(AtomicTagPoolModel, ThreeTakersOfTwoTags) { EXPECT_EQ(takers<SteppedPool>(3, 1, 1, 2), ""); }
TEST(AtomicTagPoolModel, ThreeTakersOfTwoTagsInTwoWords) { EXPECT_EQ(takers<SteppedPool>(3, 2, 1, 65, 63), ""); }

TEST(AtomicTagPoolModel, ATornTakeIsCaught) {
  EXPECT_EQ(kind(takers<TornPool>(2, 1, 1, 2)), "a tag was taken twice");
}
TEST(AtomicTagPoolModel, AHastyPassIsCaught) {
  EXPECT_EQ(kind(takers<HastyPool>(2, 1, 1, 2)), "a pass found none though one was free");
}

constexpr Sleepers batch_for_two{.depth = 2, .giver = Giver::puts_a_batch, .keep = true};
constexpr Sleepers two_for_two{.depth = 2, .giver = Giver::puts_one_by_one, .keep = true};

TEST(AtomicTagPoolModel, TwoQueuesOfOneTagAllWake) { EXPECT_EQ(sleepers<AsWritten>({.rounds = 2}), ""); }
TEST(AtomicTagPoolModel, ThreeQueuesOfOneTagAllWake) { EXPECT_EQ(sleepers<AsWritten>({.queues = 3}), ""); }
TEST(AtomicTagPoolModel, ThreeQueuesOfTwoTagsAllWake) {
  EXPECT_EQ(sleepers<AsWritten>({.queues = 3, .depth = 2}), "");
}
TEST(AtomicTagPoolModel, TwoQueuesAndAGiverOfOneTagAllWake) {
  EXPECT_EQ(sleepers<AsWritten>({.giver = Giver::puts_a_batch}), "");
}
TEST(AtomicTagPoolModel, OneWakeUpOfABatchReachesBothQueues) { EXPECT_EQ(sleepers<AsWritten>(batch_for_two), ""); }
TEST(AtomicTagPoolModel, TwoWakeUpsOfOneQueueReachBoth) { EXPECT_EQ(sleepers<AsWritten>(two_for_two), ""); }

TEST(AtomicTagPoolModel, AWaiterThatLooksBeforeItIsSeenIsCaught) {
  EXPECT_EQ(kind(sleepers<LooksBeforeItIsSeen>({})), "asleep for ever");
}
TEST(AtomicTagPoolModel, AWakeUpThatIsNotPassedOnIsCaught) {
  EXPECT_EQ(kind(sleepers<KeepsTheWakeUp>(batch_for_two)), "asleep for ever");
}
TEST(AtomicTagPoolModel, AWakeUpPassedOnTooEarlyIsCaught) {
  EXPECT_EQ(kind(sleepers<LooksBeforeItClears>(two_for_two)), "asleep for ever");
}

}  // namespace
}  // namespace ublkd
