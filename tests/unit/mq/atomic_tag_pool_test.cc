// AtomicTagPool under several threads, for the thread sanitizer too. All loops are bounded by work, not by time.
#include "mq/atomic_tag_pool.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <barrier>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace ublkd {
namespace {

constexpr std::uint32_t threads = 4;

// Who holds each tag; plain memory, handed from one holder to the next by the pool alone, so that the thread
// sanitizer sees a put that does not happen before the next take.
struct Holders {
  static constexpr std::uint32_t nobody = ~0u;
  explicit Holders(std::uint32_t depth) : of(depth, nobody) {}
  void take(Tag tag, std::uint32_t thread) {
    UBLKD_CHECK(of[raw(tag)] == nobody);
    of[raw(tag)] = thread;
  }
  void put(Tag tag, std::uint32_t thread) {
    UBLKD_CHECK(of[raw(tag)] == thread);
    of[raw(tag)] = nobody;
  }
  std::vector<std::uint32_t> of;
};

template <class Body>
void run_threads(Body body) {
  std::barrier together(threads);
  std::vector<std::thread> all;
  for (std::uint32_t t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      together.arrive_and_wait();
      body(t);
    });
  for (std::thread& thread : all) thread.join();
}

// Rounds of takes of random size and puts by tag or gathered; keeps some tags from round to round.
void take_and_put(AtomicTagPool& pool, Holders& holders, std::uint32_t thread, std::uint32_t seed) {
  SharedTags tags(pool, thread, threads);
  std::mt19937 random(seed + thread);
  std::vector<Tag> held;
  TagGather gather;
  for (int round = 0; round < 5000; ++round) {
    std::array<Tag, 40> plug;
    const std::uint32_t n = tags.take_all(std::span(plug).first(1 + random() % plug.size())).count;
    for (std::uint32_t i = 0; i < n; ++i) {
      holders.take(plug[i], thread);
      held.push_back(plug[i]);
    }
    const std::size_t keep = random() % (held.size() + 1);
    while (held.size() > keep) {
      holders.put(held.back(), thread);
      if (round % 2 == 0) tags.put(held.back());
      else gather.add(held.back());
      held.pop_back();
    }
    gather.put_into(tags);
  }
  for (const Tag tag : held) {
    holders.put(tag, thread);
    tags.put(tag);
  }
}

TEST(AtomicTagPool, NoTagHasTwoHoldersAndNoneIsLost) {
  const std::uint32_t seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  for (const std::uint32_t depth : {1u, 3u, 64u, 100u, 1000u}) {
    AtomicTagPool pool(depth);
    Holders holders(depth);
    run_threads([&](std::uint32_t t) { take_and_put(pool, holders, t, seed); });
    EXPECT_EQ(pool.free(), depth);
    EXPECT_TRUE(pool.any_free());
  }
}

// Four plugs of 48 race for 128 tags in two words: together they get all of them, at least one of them in parts.
TEST(AtomicTagPool, RacingTakersGetPartsAndTogetherAll) {
  constexpr std::uint32_t depth = 128, rounds = 2000;
  AtomicTagPool pool(depth);
  std::barrier step(threads);
  std::array<Taken, threads> taken;
  std::uint32_t parts = 0;
  run_threads([&](std::uint32_t t) {
    SharedTags tags(pool, t, threads);
    std::array<Tag, 48> plug;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      step.arrive_and_wait();
      taken[t] = tags.take_all(plug);
      step.arrive_and_wait();
      if (t == 0) {
        std::uint32_t total = 0;
        for (const Taken& each : taken) {
          total += each.count;
          if (each.count != 0 && (each.passes > 1 || each.count < plug.size())) ++parts;
        }
        UBLKD_CHECK(total == depth && !pool.any_free());
      }
      step.arrive_and_wait();
      for (std::uint32_t i = 0; i < taken[t].count; ++i) tags.put(plug[i]);
    }
  });
  EXPECT_EQ(pool.free(), depth);
  EXPECT_GE(parts, rounds);
}

// A lost race inside a word: the pool's atomic lets another taker in between load and fetch_and.
template <class T>
struct RacedAtomic : std::atomic<T> {
  using std::atomic<T>::atomic;
  T fetch_and(T bits, std::memory_order order) {
    const T stolen = std::exchange(steal, 0);
    std::atomic<T>::fetch_and(~stolen, order);
    return std::atomic<T>::fetch_and(bits, order);
  }
  static inline T steal = 0;
};

TEST(AtomicTagPool, ATakerWhoseTagsAreStolenGetsTheRestOfTheWord) {
  BasicAtomicTagPool<RacedAtomic> pool(128);
  auto place = pool.place(0, 1);
  RacedAtomic<std::uint64_t>::steal = 0b0101;
  EXPECT_EQ(pool.take(4, place).mask, 0b1010u);
  EXPECT_EQ(place.own, 1u) << "the word is left to the faster taker";
  place.own = 0;
  RacedAtomic<std::uint64_t>::steal = 0b1111'0000;
  const TagBatch all_lost = pool.take(4, place);
  EXPECT_EQ(all_lost.mask, 0b1111'0000'0000u);
  EXPECT_EQ(all_lost.base, 0u);
}

TEST(AtomicTagPool, AQueueUsesItsOwnWordsFirstAndThenAll) {
  AtomicTagPool pool(256);
  for (std::uint32_t q = 0; q < 4; ++q) {
    SharedTags tags(pool, q, 4);
    EXPECT_EQ(tags.take(1).base, q * 64);
  }
  SharedTags last(pool, 3, 4);
  std::array<Tag, 256> all;
  EXPECT_EQ(last.take_all(all).count, 252u);
  EXPECT_EQ(raw(all[0]) / 64, 3u);
  EXPECT_FALSE(pool.any_free());
}

TEST(AtomicTagPool, QueuesShareTheWordsOfAPoolWithFewer) {
  AtomicTagPool pool(65);
  for (std::uint32_t q = 0; q < 64; ++q) EXPECT_EQ(SharedTags(pool, q, 64).take(1).count(), 1u);
  EXPECT_EQ(SharedTags(pool, 63, 64).take(64).count(), 1u);
  EXPECT_FALSE(pool.any_free());
}

TEST(AtomicTagPool, AQueueThatFindsNothingIsAWaiterUntilItStops) {
  AtomicTagPool pool(1);
  SharedTags a(pool, 0, 64), b(pool, 63, 64);
  const TagBatch tag = a.take_or_wait(1);
  EXPECT_EQ(tag.count(), 1u);
  EXPECT_EQ(pool.waiters(), 0u);
  EXPECT_TRUE(b.take_or_wait(1).empty());
  EXPECT_EQ(pool.waiters(), std::uint64_t{1} << 63);
  a.put(tag);
  EXPECT_EQ(a.waiters(), std::uint64_t{1} << 63);
  EXPECT_EQ(b.take_or_wait(1).count(), 1u);
  EXPECT_EQ(b.stop_waiting(), 0u);
  EXPECT_EQ(pool.waiters(), 0u);
}

TEST(AtomicTagPool, AQueueThatStopsWaitingNamesTheOthersWhileTagsAreLeft) {
  AtomicTagPool pool(2);
  SharedTags a(pool, 0, 3), b(pool, 1, 3), c(pool, 2, 3);
  const TagBatch both = a.take(2);
  EXPECT_TRUE(b.take_or_wait(1).empty());
  EXPECT_TRUE(c.take_or_wait(1).empty());
  a.put(both);
  EXPECT_EQ(b.take_or_wait(1).count(), 1u);
  EXPECT_EQ(b.stop_waiting(), 0b100u);
}

TEST(AtomicTagPoolDeathTest, AQueueOutOfRangeEndsTheProcess) {
  AtomicTagPool pool(2);
  EXPECT_DEATH(pool.set_waiting(64), "internal check failed");
}

// One thread's eventfd. A wake-up that is lost hangs the test.
class Event {
 public:
  Event() : fd_(eventfd(0, EFD_CLOEXEC)) { UBLKD_CHECK(fd_ >= 0); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { close(fd_); }
  void wake() const {
    const std::uint64_t one = 1;
    UBLKD_CHECK(write(fd_, &one, sizeof one) == sizeof one);
  }
  void sleep() const {
    std::uint64_t count = 0;
    UBLKD_CHECK(read(fd_, &count, sizeof count) == sizeof count);
  }

 private:
  int fd_;
};

// The protocol with real sleep: `rounds` tags for each of four threads from a pool of `depth`. CASES A51.
std::uint64_t sleep_and_wake(std::uint32_t depth, int rounds) {
  AtomicTagPool pool(depth);
  Holders holders(depth);
  std::array<Event, threads> events;
  std::array<std::uint64_t, threads> sleeps{};
  const auto wake_one = [&](std::uint64_t queues) {
    if (queues != 0) events[lowest_bit(queues)].wake();
  };
  run_threads([&](std::uint32_t t) {
    SharedTags tags(pool, t, threads);
    for (int round = 0; round < rounds; ++round) {
      TagBatch batch = tags.take_or_wait(1);
      while (batch.empty()) {
        ++sleeps[t];
        events[t].sleep();
        batch = tags.take_or_wait(1);
      }
      wake_one(tags.stop_waiting());
      const Tag tag = batch.pop();
      holders.take(tag, t);
      if (round % 8 == 0) std::this_thread::yield();  // while it holds the tag, so that others find none
      holders.put(tag, t);
      tags.put(tag);
      wake_one(tags.waiters());
    }
  });
  EXPECT_EQ(pool.free(), depth);
  EXPECT_EQ(pool.waiters(), 0u);
  std::uint64_t total = 0;
  for (const std::uint64_t each : sleeps) total += each;
  return total;
}

TEST(AtomicTagPool, NoWakeUpIsLostOverAPoolOfOne) { EXPECT_GT(sleep_and_wake(1, 20000), 0u); }
TEST(AtomicTagPool, NoWakeUpIsLostOverAPoolOfThree) { sleep_and_wake(3, 20000); }

}  // namespace
}  // namespace ublkd
