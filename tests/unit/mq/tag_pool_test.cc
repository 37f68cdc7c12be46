// What every tag pool promises, over both; and what only the one with a single owner does.
#include "mq/tag_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "mq/atomic_tag_pool.h"

namespace ublkd {
namespace {

constexpr std::uint32_t depths[] = {1, 2, 63, 64, 65, 127, 128, 1000, 4096};

// The shared pool with the one queue that uses it here.
struct AtomicPool : AtomicTagPool, SharedTags {
  explicit AtomicPool(std::uint32_t depth) : AtomicTagPool(depth), SharedTags(*this, 0, 1) {}
  using SharedTags::depth, SharedTags::free, SharedTags::put, SharedTags::take;
};
static_assert(TagPoolLike<AtomicPool>);

Tag tag(std::uint32_t number) { return Tag(static_cast<std::uint16_t>(number)); }

std::set<std::uint32_t> expand(TagBatch batch) {
  std::set<std::uint32_t> tags;
  while (!batch.empty()) tags.insert(raw(batch.pop()));
  return tags;
}

template <class Pool>
class AnyTagPool : public ::testing::Test {
 protected:
  // Takes all of the pool's tags.
  static void drain(Pool& pool) {
    std::vector<Tag> tags(pool.depth());
    EXPECT_EQ(pool.take_all(tags).count, pool.depth());
    EXPECT_EQ(pool.free(), 0u);
  }

  // Of all tags only each `step`-th run of `run` becomes free, in batches.
  static std::uint32_t fragment(Pool& pool, std::uint32_t run, std::uint32_t step) {
    drain(pool);
    TagGather gather;
    std::uint32_t n = 0;
    for (std::uint32_t t = 0; t < pool.depth(); ++t)
      if (t / run % step == 0) gather.add(tag(t)), ++n;
    gather.put_into(pool);
    EXPECT_EQ(pool.free(), n);
    return n;
  }

  static void check_distinct(std::vector<Tag> tags, std::uint32_t depth) {
    std::sort(tags.begin(), tags.end());
    EXPECT_EQ(std::adjacent_find(tags.begin(), tags.end()), tags.end());
    EXPECT_TRUE(tags.empty() || raw(tags.back()) < depth);
  }
};

using Pools = ::testing::Types<TagPool, AtomicPool>;
TYPED_TEST_SUITE(AnyTagPool, Pools);
template <class Pool>
using AnyTagPoolDeathTest = AnyTagPool<Pool>;
TYPED_TEST_SUITE(AnyTagPoolDeathTest, Pools);

TYPED_TEST(AnyTagPool, GivesEveryTagOnceAtEveryDepth) {
  for (const std::uint32_t depth : depths) {
    TypeParam pool(depth);
    EXPECT_EQ(pool.free(), depth);
    std::set<std::uint32_t> all;
    for (TagBatch b = pool.take(depth); !b.empty(); b = pool.take(depth))
      for (const std::uint32_t t : expand(b)) EXPECT_TRUE(all.insert(t).second);
    EXPECT_EQ(all.size(), depth);
    EXPECT_EQ(*all.rbegin(), depth - 1);
    EXPECT_EQ(pool.free(), 0u);
  }
}

TYPED_TEST(AnyTagPool, NeverGivesMoreThanAskedAndNeverNoneWhileOneIsFree) {
  TypeParam pool(100);
  for (std::uint32_t wanted = 1; pool.free() > 0; wanted = wanted % 5 + 1) {
    const std::uint32_t before = pool.free();
    const std::uint32_t got = pool.take(wanted).count();
    EXPECT_GE(got, 1u);
    EXPECT_LE(got, wanted);
    EXPECT_EQ(pool.free(), before - got);
  }
  EXPECT_TRUE(pool.take(1).empty());
}

TYPED_TEST(AnyTagPool, APassFindsTheOnlyFreeTagWhereverItIs) {
  TypeParam pool(4096);
  this->drain(pool);
  for (const std::uint32_t t : {0u, 63u, 64u, 2047u, 4095u, 1u}) {
    pool.put(tag(t));
    EXPECT_EQ(expand(pool.take(8)), std::set<std::uint32_t>{t});
  }
}

TYPED_TEST(AnyTagPool, AMaskHasHolesWhereTagsAreTaken) {
  TypeParam pool(64);
  this->fragment(pool, 1, 2);
  EXPECT_EQ(pool.take(64).mask, 0x5555'5555'5555'5555u);
}

TYPED_TEST(AnyTagPool, APlugOverEveryOtherTagIsSatisfiedByPasses) {
  TypeParam pool(256);
  this->fragment(pool, 1, 2);
  std::vector<Tag> plug(100);
  const Taken taken = pool.take_all(plug);
  EXPECT_EQ(taken.count, 100u);
  EXPECT_GT(taken.passes, 1u);
  EXPECT_LE(taken.passes, 4u) << "one at a time is not a batch";
  EXPECT_EQ(pool.free(), 28u);
  this->check_distinct(plug, 256);
}

TYPED_TEST(AnyTagPool, APlugOverRunsOfThreeIsSatisfiedByPasses) {
  for (std::uint32_t n = 1; n <= 64; ++n) {
    TypeParam pool(1000);
    const std::uint32_t free = this->fragment(pool, 3, 2);
    EXPECT_GT(free, 64u);
    std::vector<Tag> plug(n);
    const Taken taken = pool.take_all(plug);
    EXPECT_EQ(taken.count, n);
    EXPECT_LE(taken.passes, 3u);
    if (n > 34) {  // a word has at most that many
      EXPECT_GT(taken.passes, 1u);
    }
    EXPECT_EQ(pool.free(), free - n);
    this->check_distinct(plug, 1000);
  }
}

TYPED_TEST(AnyTagPool, APartIsSuccessAndAFirstPassThatFindsNothingIsNone) {
  TypeParam pool(128);
  this->drain(pool);
  std::vector<Tag> plug(64);
  EXPECT_EQ(pool.take_all(plug).count, 0u);
  for (const std::uint32_t t : {3u, 70u, 127u}) pool.put(tag(t));
  const Taken part = pool.take_all(plug);
  EXPECT_EQ(part.count, 3u);
  EXPECT_GE(part.passes, 1u);
  EXPECT_EQ(pool.take_all(plug).count, 0u);
  EXPECT_EQ(pool.take_all(std::span<Tag>()).count, 0u);
}

TYPED_TEST(AnyTagPool, RandomTakesAndPutsAgreeWithASet) {
  const std::uint32_t seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (const std::uint32_t depth : depths) {
    TypeParam pool(depth);
    std::vector<Tag> held;
    std::vector<bool> is_held(depth);
    const auto take = [&](Tag t) {
      ASSERT_FALSE(is_held[raw(t)]);
      is_held[raw(t)] = true;
      held.push_back(t);
    };
    const auto give = [&] {
      std::swap(held[random() % held.size()], held.back());
      const Tag t = held.back();
      held.pop_back();
      is_held[raw(t)] = false;
      return t;
    };
    for (int step = 0; step < 3000; ++step) {
      const std::uint32_t n = 1 + random() % (step % 64 == 0 ? 300 : 40);
      std::vector<Tag> plug(n);
      TagBatch batch;
      TagGather gather;
      switch (random() % 5) {
        case 0:
          for (batch = pool.take(n); !batch.empty();) take(batch.pop());
          break;
        case 1:
          plug.resize(pool.take_all(plug).count);
          EXPECT_EQ(plug.size(), std::min<std::size_t>(n, depth - held.size()));
          for (const Tag t : plug) take(t);
          break;
        case 2:
          for (std::uint32_t i = 0; i < n && !held.empty(); ++i) pool.put(give());
          break;
        case 3:
          for (std::uint32_t i = 0; i < n && !held.empty(); ++i) gather.add(give());
          gather.put_into(pool);
          break;
        default:
          for (std::uint32_t i = 0; i < n && !held.empty(); ++i) {
            const Tag t = give();
            if (batch.add(t)) continue;
            pool.put(batch);
            batch = {};
            EXPECT_TRUE(batch.add(t));
          }
          if (!batch.empty()) pool.put(batch);
      }
      ASSERT_EQ(pool.free(), depth - held.size());
    }
  }
}

TYPED_TEST(AnyTagPoolDeathTest, ATagPutTwiceEndsTheProcess) {
  TypeParam pool(4);
  EXPECT_DEATH(pool.put(tag(0)), "internal check failed");
  EXPECT_DEATH(pool.put(TagBatch{0b100, 0}), "internal check failed");
  this->drain(pool);
  pool.put(tag(2));
  EXPECT_DEATH(pool.put(TagBatch{0b110, 0}), "internal check failed");
}

TYPED_TEST(AnyTagPoolDeathTest, ATagOutsideThePoolEndsTheProcess) {
  TypeParam pool(4);
  EXPECT_DEATH(pool.put(tag(4)), "internal check failed");
  EXPECT_DEATH(pool.put(tag(4095)), "internal check failed");
  EXPECT_DEATH(pool.put(TagBatch{0b10000, 0}), "internal check failed");
}

TYPED_TEST(AnyTagPoolDeathTest, ADepthOutOfRangeEndsTheProcess) {
  EXPECT_DEATH(TypeParam(0), "internal check failed");
  EXPECT_DEATH(TypeParam(4097), "internal check failed");
}

TEST(TagPool, ATagThatWasPutIsTheNextOneGiven) {
  TagPool pool(1000);
  std::vector<Tag> tags(900);
  pool.take_all(tags);
  for (const std::uint32_t t : {5u, 700u}) pool.put(tag(t));
  EXPECT_EQ(pool.take_all(std::span(tags).first(1)).count, 1u);
  EXPECT_EQ(tags[0], tag(700));
}

TEST(TagPool, MoreTagsPutThanAreKeptAtHandAreGivenAgain) {
  TagPool pool(4096);
  std::vector<Tag> tags(4096);
  pool.take_all(tags);
  for (const Tag t : tags) pool.put(t);
  EXPECT_EQ(pool.free(), 4096u);
  EXPECT_EQ(pool.take_all(tags).count, 4096u);
  std::sort(tags.begin(), tags.end());
  for (std::uint32_t t = 0; t < 4096; ++t) EXPECT_EQ(tags[t], tag(t));
}

TEST(TagBatch, GathersTagsOfOneWordOnly) {
  TagBatch batch;
  EXPECT_TRUE(batch.add(tag(64)));
  EXPECT_TRUE(batch.add(tag(127)));
  EXPECT_FALSE(batch.add(tag(63)));
  EXPECT_FALSE(batch.add(tag(128)));
  EXPECT_EQ(batch.count(), 2u);
  EXPECT_EQ(expand(batch), (std::set<std::uint32_t>{64, 127}));
}

TEST(TagBatchDeathTest, ATagGatheredTwiceEndsTheProcess) {
  TagBatch batch;
  TagGather gather;
  (void)batch.add(tag(9));
  gather.add(tag(9));
  EXPECT_DEATH((void)batch.add(tag(9)), "internal check failed");
  EXPECT_DEATH(gather.add(tag(9)), "internal check failed");
}

TEST(TagBatch, BitsAreCountedAndCutExactly) {
  EXPECT_EQ(count_bits(0), 0u);
  EXPECT_EQ(count_bits(~std::uint64_t{0}), 64u);
  std::mt19937_64 random(20261);
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t m = random() & random();
    ASSERT_EQ(count_bits(m), static_cast<std::uint32_t>(std::popcount(m)));
    for (std::uint32_t n = 1; n <= 64; ++n) {
      const std::uint64_t low = lowest_bits(m, n);
      ASSERT_EQ(count_bits(low), std::min(n, count_bits(m)));
      ASSERT_EQ(low & ~m, 0u);
      ASSERT_TRUE(low == m || low < ((m ^ low) & -(m ^ low)));
    }
  }
}

}  // namespace
}  // namespace ublkd
